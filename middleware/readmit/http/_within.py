"""What a request does within the epoch that surrounds it: its marks, its fence, and what becomes known of it."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from readmit._effect import occurrence_effect, strongest
from readmit._epoch import Epoch, Send
from readmit._errors import Refused, refused
from readmit._fold import Head
from readmit._model import (
    Challenge,
    DeclaredUnknown,
    EffectState,
    Ended,
    Evidence,
    OwnerLost,
    RecoveryKind,
    Refusal,
    Strength,
    Suspended,
)
from readmit.http._resend import Suppressed, before
from readmit.journal._port import Change

_REMEDIES = ("reconcile", "accept", "compensate", "abandon")


def marks(epoch: Epoch, send: Send | None = None) -> dict[str, Any]:
    """What the client span of a request carries from its start; of a send its number, too."""
    said: dict[str, Any] = {"readmit.occurrence.id": epoch.occurrence_id, "readmit.epoch": epoch.number}
    if send is not None:
        said["readmit.send"] = send.started.send
    if send is not None and send.resend:
        said["http.request.resend_count"] = send.resend
    return said


def suppressed(rule: str) -> Evidence:
    """A request that we kept back ourselves was not sent."""
    return Evidence(state=EffectState.NOT_SENT, strength=Strength.PROOF, rule=rule)


def fence(epoch: Epoch) -> Callable[[Head], None] | None:
    """Ownership, checked once more right before the send: a later epoch, or an operator, may have fenced this one."""
    if epoch.observe:
        return None

    def check(head: Head) -> None:
        if head.last_epoch != epoch.number:
            detail = f"epoch {epoch.number} was overtaken by epoch {head.last_epoch}"
        elif _has_ended(epoch, head):
            detail = f"epoch {epoch.number} has ended or was given up"
        else:
            return
        raise refusal(epoch, Suppressed("fence", Refusal.EFFECT_UNKNOWN, detail))

    return check


def _has_ended(epoch: Epoch, head: Head) -> bool:
    """Whether an epoch has ended or was given up; what was looked through for an earlier send is not again."""
    for _, event in head.effect[epoch.ends_read :]:
        if isinstance(event, Ended | OwnerLost | DeclaredUnknown) and event.epoch == epoch.number:
            return True
    epoch.ends_read = len(head.effect)
    return False


def refusal(epoch: Epoch, against: Suppressed) -> Refused:
    """The error instead of a request that does not leave, with the challenges that were met before it."""
    met = next((s.challenges for s in reversed(epoch.sends) if s.challenges), ())
    return refused(
        epoch.occurrence_id,
        epoch.tool,
        against.reason,
        detail=f"{against.rule}: {against.detail}" + ("" if epoch.observe else "; nothing more was sent"),
        gates=("effect",),
        remedies=_REMEDIES,
        challenges=met,
    )


def collides(epoch: Epoch, send: Send) -> bool:
    """Whether an earlier send of the occurrence may have had an effect that this one can run into."""
    with epoch.lock:
        open_here = any(
            number < send.started.send and (s.over or s.started.route == send.started.route)
            for number, s in epoch.doubtful.items()
        )
    if open_here or epoch.number == 1:
        return open_here
    effect = occurrence_effect(before(epoch), epoch.head.effect, epoch.contract.accepted_strength)
    return effect.state is EffectState.UNKNOWN


def learn(epoch: Epoch, send: Send, evidence: Evidence, met: tuple[Challenge, ...], position: str) -> None:
    """Puts down what became of a send. If its epoch has ended without it, that settles that epoch only."""
    with epoch.lock:
        send.evidence.append(evidence)
        if strongest((evidence,)) is not None:
            epoch.doubtful.pop(send.started.send, None)
        send.challenges, send.over = met, True
        send.position = position
        late = epoch.over
    if late and epoch.ports is not None:
        say_late(epoch, send)


def named(epoch: Epoch, send: Send, receipt: str) -> None:
    """The service has said how it calls the effect; a name that echoes our own ids proves that it is there."""
    best = strongest(send.evidence)
    with epoch.lock:
        send.receipt = receipt
        if best is not None and best.state is EffectState.COMMITTED and epoch.echoes(receipt):
            send.evidence.append(Evidence(state=best.state, strength=Strength.PROOF, rule="http.receipt"))
        late = epoch.over
    if late:
        say_late(epoch, send)


def broke(epoch: Epoch, send: Send) -> None:
    """The answer's body broke. What is known of the effect stands; that the answer was lost is recovery evidence."""
    with epoch.lock:
        late = epoch.over
    if not late or epoch.ports is None:
        return
    lost = Suspended(
        at=epoch.ports.clock(),
        suspension=RecoveryKind.FAILURE,
        id=f"{epoch.occurrence_id}:{epoch.number}:body:{send.started.send}",
        epoch=epoch.number,
        position="body",
    )
    epoch.ports.journal.note(Change(epoch.occurrence_id, (lost,)))


def say_late(epoch: Epoch, send: Send) -> None:
    """What became known of a send after its epoch was recorded."""
    assert epoch.ports is not None, "an epoch that runs has what its call was given"
    events = send.observed(epoch.ports.clock())[-1:]
    epoch.ports.journal.note(Change(epoch.occurrence_id, tuple(events)))
