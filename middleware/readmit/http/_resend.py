"""Whether an effectful request may leave: the row `http.resend`, idempotency keys, and what a key or idempotence asks.

Only what happened in the surrounding epoch and in the ones before it is looked at; nothing here sends anything.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import NamedTuple

from readmit._digest import digest_bytes
from readmit._effect import EpochEffect, SendEffect, compensations, strongest
from readmit._epoch import Epoch, Send
from readmit._fold import Head
from readmit._model import EffectState, Justification, Refusal, SendStarted, Strength
from readmit.http._keys import can_carry, carried
from readmit.http._request import Facts
from readmit.http._terms import Terms

_WITHOUT = (EffectState.NOT_SENT, EffectState.REJECTED)


class Suppressed(NamedTuple):
    """A request that does not leave, and why."""

    rule: str
    reason: Refusal
    detail: str


OTHER_BYTES = Suppressed("http.key", Refusal.CONFLICT, "its idempotency key was sent with other bytes before")


class Placed(NamedTuple):
    """A request with its place in the epoch: the send it will be, the one it repeats, and what speaks against it."""

    send: Send
    former: Send | None
    against: Suppressed | None


def placed(epoch: Epoch, facts: Facts, terms: Terms, unique: str, now: int) -> Placed:
    """Numbers a request within its epoch and finds out whether it may leave. The caller holds the epoch's lock."""
    body = facts.body()
    streamed, route = body is None, facts.route()
    digest = facts.digest(unique if body is None else body)
    former = _former(epoch, facts, digest, route, streamed=streamed)
    nth = former.nth if former is not None and former in epoch.sends else len(epoch.equal.get(digest, ())) + 1
    key = _key(epoch, facts, terms, digest, nth, former, streamed=streamed)
    keyed = terms.keyed
    started = SendStarted(
        at=now,
        epoch=epoch.number,
        send=epoch.next_send(),
        route=route,
        request=digest,
        key=None if key is None else facts.key_digest(key),
        key_lifetime=keyed.key_lifetime_ns if keyed is not None and key is not None else None,
        idempotent=terms.idempotent,
    )
    send = Send(started, former.resend + 1 if former is not None else 0, nth=nth, streamed=streamed)
    send.key, send.fingerprint = key, facts.login()
    against = None if former is None else unjustified(former, send, terms, _accepted(epoch), epoch.sends)
    return Placed(send, former, against or _diverges(epoch, send) or (_rekeyed(epoch, send) if not former else None))


def _accepted(epoch: Epoch) -> Strength:
    return epoch.contract.accepted_strength


def _former(epoch: Epoch, facts: Facts, digest: str, route: str, *, streamed: bool) -> Send | None:
    """The send that this request repeats; None for one that is meant.

    A request that httpx made of an earlier one, or hands out again, repeats it. So does an equal one, unless the whole
    answer of a committed one has reached the tool: then the tool means another.
    """
    trail = facts.trail()
    handed_out = trail is not None and trail.request() is facts.request  # the same object, sent again by whoever has it
    if trail is not None and (trail.epoch is epoch or not handed_out) and not (handed_out and _arrived(trail.send)):
        return trail.send
    if streamed:
        lost = [s for s in epoch.sends if s.streamed and s.started.route == route and s.over and not _arrived(s)]
        lost = [s for s in lost if _state(s) not in _WITHOUT]
        return lost[-1] if lost else None
    unfinished = [s for s in epoch.equal.get(digest, {}).values() if not _arrived(s)]
    unsettled = [s for s in unfinished if _state(s) not in _WITHOUT]
    return next(iter((*unsettled, *unfinished)), None)


def _arrived(send: Send) -> bool:
    """Whether the tool knows that it was done: the whole answer has reached it."""
    return send.answered and _state(send) is EffectState.COMMITTED


def _kept_back(send: Send) -> bool:
    """Whether it never left, since we kept it back."""
    return any(evidence.rule == "http.key" for evidence in send.evidence)


def _state(send: Send) -> EffectState | None:
    best = strongest(send.evidence)
    return None if best is None else best.state


def _key(
    epoch: Epoch, facts: Facts, terms: Terms, digest: str, nth: int, former: Send | None, *, streamed: bool
) -> str | None:
    """The idempotency key of a request: its own, that of the request it repeats, or one of ours.

    Ours begins with the occurrence's key, so that a receipt that echoes it, and a reconcile hook that looks for it,
    know it. It depends on the request and on how many equal ones were meant before it, not on clock, epoch or order.
    """
    keyed = terms.keyed
    if keyed is None:
        return None
    if (own := carried(keyed, facts)) is not None:
        return own
    if streamed or not can_carry(keyed, facts):
        return None
    if former is not None and former.key is not None:
        return former.key
    return f"{epoch.idempotency_key}-{digest_bytes(digest, str(nth))[:16]}"


def unjustified(
    former: Send, send: Send, terms: Terms, accepted: Strength, others: Iterable[Send] = ()
) -> Suppressed | None:
    """Why a repeat may not leave; None if the former is settled without effect, or the contract allows it.

    Args:
        former: the send that is repeated.
        send: the repeat.
        terms: of the repeat.
        accepted: the strength at which evidence of no effect is accepted.
        others: the sends of the epoch, to find the first that carried the key.
    """

    def no(reason: Refusal, detail: str) -> Suppressed:
        return Suppressed("http.resend", reason, f"send {former.started.send} is repeated: {detail}")

    best = strongest(former.evidence)
    if best is not None and best.state is EffectState.NOT_SENT and best.strength is Strength.PROOF:
        return None
    if former.streamed or send.streamed:
        return no(Refusal.EFFECT_UNKNOWN, "a streamed body has no digest and is never sent again")
    if former.challenges and former.fingerprint == send.fingerprint:
        return no(Refusal.EFFECT_UNKNOWN, "it carries the same login that was just challenged")
    if best is not None and best.state in _WITHOUT and best.strength.rank >= accepted.rank:
        return None
    if terms.idempotent:
        return None
    if not former.over:
        return no(Refusal.IN_FLIGHT, "it has not been answered yet")
    first = min((s.started.at for s in others if s.key == send.key), default=former.started.at)
    lifetime = send.started.key_lifetime
    if send.key is not None and send.key == former.key and lifetime is not None and send.started.at - first < lifetime:
        return None
    if best is not None and best.state is EffectState.COMMITTED:
        return no(Refusal.ALREADY_COMMITTED, "its effect is there, only its answer was lost")
    if former.challenges:
        status = "Contract(rejected=(401,))"
        return no(Refusal.EFFECT_UNKNOWN, f"its effect is unknown; {status} says that the service checks tokens first")
    return no(Refusal.EFFECT_UNKNOWN, "its effect is unknown")


# -- what was admitted under a key is byte-identical ---------------------------------------------------------------


def _diverges(epoch: Epoch, send: Send) -> Suppressed | None:
    """In an epoch that a key or the service's idempotence justifies: why this request is not the one that was meant.

    A route that an earlier epoch may have acted on takes the very request of that epoch, under the same key; another
    request on it waits until all of those have been sent again.
    """
    by_key = epoch.justification is Justification.IDEMPOTENCY_KEY
    if not by_key and (epoch.justification is not Justification.IDEMPOTENT or epoch.contract.idempotent):
        return None
    earlier = [s for s in _earlier(epoch) if s.started is not None and s.started.route == send.started.route]
    acted = [s for s in earlier if s.evidence.state not in _WITHOUT]
    if not acted:
        return None
    equal = [s.started for s in earlier if s.started is not None and _same(s.started, send.started)]
    if equal:
        lifetime = equal[0].key_lifetime
        if by_key and lifetime is not None and send.started.at - equal[0].at >= lifetime:
            return Suppressed("http.key", Refusal.EFFECT_UNKNOWN, "the service no longer keeps its idempotency key")
        return None
    again = [s.started for s in epoch.sends if not _kept_back(s)]
    if all(any(_same(s.started, one) for one in again) for s in acted if s.started is not None):
        return None
    if any(s.started is not None and s.started.request == send.started.request for s in acted):
        return Suppressed("http.key", Refusal.CONFLICT, "the request carries another idempotency key than before")
    return Suppressed("http.key", Refusal.CONFLICT, "the request differs from the one that an earlier epoch sent")


def brought(epoch: Epoch, send: Send) -> bool:
    """Whether a send carries a key of the caller's own: one of ours begins with the occurrence's."""
    return send.key is not None and not send.streamed and not send.key.startswith(epoch.idempotency_key)


def _rekeyed(epoch: Epoch, send: Send) -> Suppressed | None:
    """A key of the caller's own that went out in this epoch with other bytes."""
    if not brought(epoch, send):
        return None
    others = [s for s in epoch.sends if s.key == send.key and s.started.request != send.started.request]
    return OTHER_BYTES if any(_state(s) not in _WITHOUT for s in others) else None


def taken(head: Head | None, started: SendStarted) -> Suppressed | None:
    """A key of the caller's own that went out in another occurrence, or epoch, with other bytes (H05)."""
    if head is None:
        return None
    for epoch in head.epochs():
        for known in epoch.sends:
            one = known.started
            if one is None or one.key != started.key or one.request == started.request:
                continue
            kept = one.key_lifetime is None or started.at - one.at < one.key_lifetime
            if kept and known.evidence.state not in _WITHOUT:
                return OTHER_BYTES
    return None


def _same(one: SendStarted, other: SendStarted) -> bool:
    return one.request == other.request and one.key == other.key


def _earlier(epoch: Epoch) -> Iterable[SendEffect]:
    """The sends of earlier epochs under the present generation of the key."""
    head = epoch.head
    generation = max((fence for fence, _ in compensations(head.effect)), default=0)
    return (s for e in before(epoch) if e.admitted.epoch > generation for s in e.sends)


def before(epoch: Epoch) -> list[EpochEffect]:
    """The epochs before this one, each with its effect."""
    return [e for e in epoch.head.epochs() if e.admitted.epoch < epoch.number]
