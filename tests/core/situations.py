"""Situations of one occurrence's effect: the real events that lead there, and plain facts that say what they mean."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from readmit._fold import Head, fold
from readmit._model import (
    Admitted,
    AnyEvent,
    Compensated,
    DeclaredUnknown,
    EffectState,
    Ended,
    Evidence,
    Justification,
    Observed,
    Opened,
    Outcome,
    Reconciled,
    Request,
    SendStarted,
    Strength,
)

DIGEST, PRINCIPAL = "digest", "ann"
HOUR = 3600 * 10**9
START = 1_000 * HOUR  # when the first epoch was admitted
NOW = START + HOUR


@dataclass(frozen=True, slots=True, kw_only=True)
class Effect:
    """Events about the effect, and what is known by them.

    `unkeyed`: accepted strengths under which a send that may have acted carried no key. `client`: what the contracts of
    the clients say of the sends that may have acted. `blind`: bounded retries used. `accepts`: the id of an
    acceptance among the events that is good.
    """

    name: str
    events: tuple[AnyEvent, ...] = ()
    epochs: int = 0
    state: str = ""  # a state, or `absent`, `present`
    strength: Strength | None = None
    person: bool = False
    flying: bool = False
    result: bool = False
    unkeyed: tuple[str, ...] = ()
    same_key: bool = True
    client: str = ""  # idempotent, key
    blind: int = 0
    accepts: str | None = None
    proved_not_sent: bool = False  # the last epoch
    compensated: bool = False  # a compensation is among the events
    read: bool = False


def admitted(epoch: int = 1, **more: object) -> Admitted:
    """An epoch."""
    read = bool(more.pop("read", False))
    what = {"justification": Justification.FIRST_ATTEMPT, **more}
    return Admitted(
        at=START + epoch,
        epoch=epoch,
        call=f"call {epoch}",
        owner="owner",
        admission=f"admission {epoch}",
        request=Request(principal=PRINCIPAL, digest=DIGEST, read=read),
        contract="contract",
        **what,  # type: ignore[arg-type]
    )


def ended(epoch: int = 1, outcome: Outcome = Outcome.RAISED, **more: object) -> Ended:
    """How its body ended."""
    return Ended(at=START + epoch, epoch=epoch, call=f"call {epoch}", outcome=outcome, **more)  # type: ignore[arg-type]


def said(state: EffectState, strength: Strength, *, epoch: int = 1, send: int = 0) -> Observed:
    """A piece of evidence."""
    return Observed(
        at=START + epoch, epoch=epoch, send=send, evidence=Evidence(state=state, strength=strength, rule="test")
    )


def sent(*, epoch: int = 1, send: int = 1, key: bool = False, **more: object) -> SendStarted:
    """A guarded send."""
    return SendStarted(
        at=START + epoch,
        epoch=epoch,
        send=send,
        route="route",
        request=f"request {send}",
        key="key" if key else None,
        **more,  # type: ignore[arg-type]
    )


def found(
    finding: str, fence: int, strength: Strength, *, by: str | None = None, result: bytes | None = None
) -> Reconciled:
    """What somebody found out."""
    return Reconciled(at=START + 10, fence=fence, finding=finding, strength=strength, by=by, result=result)


def undone(fence: int = 1) -> Compensated:
    """What somebody undid."""
    return Compensated(at=START + 10, fence=fence, by="ann")


ALL = tuple(Strength)
DECLARED = DeclaredUnknown(at=START, epoch=1, by="ann")
RETURNED = ended(outcome=Outcome.RETURNED, result=b'1"receipt"')
LOST = (admitted(), sent(key=True), ended())
PROOF, PROTOCOL, CONTRACT, TESTIMONY = Strength.PROOF, Strength.PROTOCOL, Strength.CONTRACT, Strength.TESTIMONY
NOT_SENT, REJECTED, COMMITTED = EffectState.NOT_SENT, EffectState.REJECTED, EffectState.COMMITTED


def opened(*, read: bool = False) -> Opened:
    """The occurrence."""
    return Opened(
        at=START,
        scope="scope",
        tool="pay",
        signature="signature",
        digest=DIGEST,
        parameters={},
        principal=PRINCIPAL,
        read=read,
    )


def head_of(events: Sequence[AnyEvent]) -> Head:
    """Folds them."""
    return fold(Head(id="occurrence"), *events)
