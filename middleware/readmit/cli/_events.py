"""Each event of a journal in a few words, for the lane of its dimension."""

from __future__ import annotations

from readmit._model import (
    Abandoned,
    Accepted,
    Admitted,
    Answered,
    AnyEvent,
    Challenge,
    Charged,
    Compensated,
    Decided,
    DeclaredUnknown,
    Delivered,
    Denied,
    Ended,
    Evidence,
    Granted,
    Invalidated,
    Joined,
    Left,
    Listed,
    Observed,
    Opened,
    OwnerLost,
    Reconciled,
    RecoveryKind,
    Revoked,
    SendStarted,
    Suspended,
)
from readmit.cli._text import clean


def words(event: AnyEvent) -> str:
    """One event, without its time; safe to print.

    Example:
        >>> words(Delivered(at=0, call="0199b2c4"))
        'result delivered'
    """
    return clean(_words(event))


def _words(event: AnyEvent) -> str:
    match event:
        case Opened():
            return f"opened{_named(event.call_id, event.key, event.run)}"
        case Joined():
            return f"a call joined ({event.identity}){_named(event.call_id, None, event.run)}" + (
                ", other arguments" if event.digest else ""
            )
        case Admitted(justification=None):
            return f"epoch {event.epoch} observed; would refuse: {event.refusal}"
        case Admitted():
            return f"epoch {event.epoch} admitted: {event.justification}"
        case Decided():
            detail = f" ({event.detail})" if event.detail else ""
            return (
                f"{_DECIDED.get(event.decision, event.decision)}{f': {event.refusal}' if event.refusal else ''}{detail}"
            )
        case Suspended() | Granted() | Denied() | Revoked():
            return _asked_or_answered(event)
        case Delivered():
            return "result delivered"
        case Left():
            return "the caller left without it"
        case Listed() | Answered() | Charged() | Invalidated():
            return _of_batch(event)
        case Abandoned():
            return f"abandoned by {event.by}{_quoted(event.statement)} via {event.via}"
        case Accepted():
            return f"epochs up to {event.epoch} accepted by {event.by}{_quoted(event.statement)} via {event.via}"
        case _:
            return _evidence(event)


_DECIDED = {"refuse": "refused", "return": "recorded result returned"}


def _asked_or_answered(event: Suspended | Granted | Denied | Revoked) -> str:
    match event:
        case Suspended(suspension=RecoveryKind.CHALLENGE):
            return f"epoch {event.epoch} challenged: {', '.join(map(challenge, event.challenges)) or 'no scheme'}"
        case Suspended(suspension=RecoveryKind.CONFIRMATION):
            return f"approval asked for, request {event.id}{_quoted(event.shown)}"
        case Suspended():
            return f"epoch {event.epoch} failed at {event.position}"
        case Granted(permit=permit):
            request = f" for request {permit.request}" if permit.request else ""
            return f"{permit.source} of {permit.granted_by or 'no principal'}{request} via {event.via}"
        case Denied():
            return f"request {event.request} denied by {event.by} via {event.via}"
        case Revoked():
            return f"permit {event.permit} revoked by {event.by} via {event.via}"


def _of_batch(event: Listed | Answered | Charged | Invalidated) -> str:
    match event:
        case Listed():
            return f"response {event.response}: {', '.join(call.tool for call in event.calls)}"
        case Answered():
            return f"a result of {len(event.payload)} bytes arrived" + _named(event.call_id, None, None)
        case Charged():
            return f"{event.calls} calls charged"
        case Invalidated():
            return "the response was invalidated"


def _evidence(event: AnyEvent) -> str:
    match event:
        case SendStarted():
            return f"epoch {event.epoch}, send {event.send} leaves"
        case Observed():
            where = f"epoch {event.epoch}" + (f", send {event.send}" if event.send else "")
            body = f", body {event.body[:16]}" if event.body else ""
            return f"{where}: {piece(event.evidence)}{_quoted(event.receipt)}{body}"
        case Ended():
            error = f" {event.error}" if event.error else ""
            said = f", said {piece(event.claim)}" if event.claim else ""
            return f"epoch {event.epoch} {event.outcome}{error}{said}" + (
                f", no proof of success ({event.unclear})" if event.unclear else ""
            )
        case OwnerLost():
            return f"epoch {event.epoch}: its process is gone"
        case DeclaredUnknown():
            return f"epoch {event.epoch} declared unknown by {event.by} via {event.via}"
        case Reconciled():
            found = _FOUND.get(event.finding, event.finding)
            said = f"{found} ({event.strength}){_quoted(event.receipt)}"
            return f"up to epoch {event.fence}: {said} by {_who(event.by, event.via)}"
        case Compensated():
            return f"up to epoch {event.fence}: compensated by {event.by} via {event.via}"
        case _:
            return type(event).__name__


def _who(by: str | None, via: str) -> str:
    return f"{by} via {via}" if by else "the reconcile hook"


_FOUND = {"absent_for_now": "absent for now"}


def piece(evidence: Evidence) -> str:
    """A piece of effect evidence: state, strength, rule."""
    strength = "" if evidence.state == "unknown" else f" ({evidence.strength})"
    return f"{evidence.state}{strength} by {evidence.rule}"


def challenge(asked: Challenge) -> str:
    """A challenge's scheme and realm; the rest is for the host application."""
    realm = next((value for name, value in asked.parameters if name.lower() == "realm"), "")
    return f"{asked.scheme or '?'}" + (f" {realm}" if realm else "")


def _named(call_id: str | None, key: str | None, run: str | None) -> str:
    given = (("call id", call_id), ("key", key), ("run", run))
    said = ", ".join(f"{name} {value}" for name, value in given if value)
    return f", {said}" if said else ""


def _quoted(text: str) -> str:
    return f" “{text}”" if text else ""
