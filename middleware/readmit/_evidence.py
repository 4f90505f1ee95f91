"""Evidence from HTTP: what one observed request says about its effect. Pure; every rule is a row of DESIGN §9.

PUT and DELETE get no row of their own here: that they can be repeated is the contract's word, not the method's
(`http.idempotent_method`).
"""

from __future__ import annotations

from collections.abc import Collection
from typing import NamedTuple

from readmit._effect import unknown
from readmit._model import EffectState, Evidence, Strength

SAFE = frozenset({"GET", "HEAD", "OPTIONS", "TRACE"})  # RFC 9110 §9.2.1
REFUSED_STREAM = 0x7  # RFC 9113 §7

_CHALLENGES = frozenset({401, 403, 407})
_REFUSALS = frozenset(
    {400, 402, 404, 405, 406, 410, 411, *range(413, 418), 421, 422, 425, 426, 428, 429, 431, 451, 501}
)


class Seen(NamedTuple):
    """What was observed of one request.

    Attributes:
        status: of the answer; None when no status line came.
        phases: whether the transport reports how far a request got. Without, a failure has no position.
        started: the first header byte may have left.
        complete: the request was written to its end.
        challenged: the answer carries a challenge.
        after_unknown: an earlier send of the same occurrence has an unknown effect.
        reset: the HTTP/2 code with which the peer reset the stream.
        stream: our HTTP/2 stream.
        last_stream: the last stream that a GOAWAY of the peer let through.
        claim: what the contract says of the exception that came instead of an answer.
        local: our own side refused to write it: it breaks the protocol.
    """

    status: int | None = None
    phases: bool = True
    started: bool = False
    complete: bool = False
    challenged: bool = False
    after_unknown: bool = False
    reset: int | None = None
    stream: int | None = None
    last_stream: int | None = None
    claim: Evidence | None = None
    local: bool = False


def without_effect(method: str, path: str, *, reads: Collection[str] = (), declared: bool = False) -> str | None:
    """The rule by which a request has no effect to know about; None for one that may have.

    Args:
        method: in upper case.
        path: of the URL, without its query.
        reads: the contract's methods and paths without effect; a path may end in `*`.
        declared: whether its client was declared `effect="read"`.

    Example:
        >>> without_effect("POST", "/v1/search", reads=("/v1/*",))
        'http.declared_read'
    """
    if method in SAFE:
        return "http.safe_method"
    if declared or any(_listed(entry, method, path) for entry in reads):
        return "http.declared_read"
    return None


def _listed(entry: str, method: str, path: str) -> bool:
    if not entry.startswith("/"):
        return entry.upper() == method
    return path.startswith(entry[:-1]) if entry.endswith("*") else path == entry


def judge(seen: Seen, rejected: Collection[int] = ()) -> Evidence:
    """What an observation says about the effect of its request.

    Args:
        seen: the observation.
        rejected: statuses that the service gives only before it acts, by its contract.

    Example:
        >>> judge(Seen(status=422, started=True, complete=True)).rule
        'http.4xx'
    """
    if seen.status is None:
        return _unanswered(seen)
    if 200 <= seen.status < 300:
        return Evidence(state=EffectState.COMMITTED, strength=Strength.PROTOCOL, rule="http.2xx")
    challenged = seen.challenged or seen.status in _CHALLENGES
    if seen.after_unknown:
        collides = 400 <= seen.status < 500
        return unknown("http.challenge" if challenged else "http.conflict_after_send" if collides else "http.other")
    named = seen.status in rejected
    if challenged:
        return _rejected("http.challenge", Strength.CONTRACT) if named else unknown("http.challenge")
    if seen.status in _REFUSALS:
        return _rejected("http.4xx", Strength.PROTOCOL)
    return _rejected("http.other", Strength.CONTRACT) if named else unknown("http.other")


def _unanswered(seen: Seen) -> Evidence:
    if seen.reset == REFUSED_STREAM:
        return _not_sent("http2.refused_stream")
    if seen.stream is not None and seen.last_stream is not None and seen.stream > seen.last_stream:
        return _not_sent("http2.goaway")
    if seen.started:
        return unknown("http.no_response")
    if seen.phases:
        return _not_sent("http.local_error" if seen.local else "http.not_connected")
    return seen.claim or unknown("http.no_response")


def _not_sent(rule: str) -> Evidence:
    return Evidence(state=EffectState.NOT_SENT, strength=Strength.PROOF, rule=rule)


def _rejected(rule: str, strength: Strength) -> Evidence:
    return Evidence(state=EffectState.REJECTED, strength=strength, rule=rule)


def position(seen: Seen) -> str:
    """Where a request broke: `connect`, `send`, `wait`, `body`; empty if nobody reports it."""
    if seen.status is not None:
        return "body"
    if not seen.started:
        return "connect" if seen.phases else ""
    return "wait" if seen.complete else "send"
