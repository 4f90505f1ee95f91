"""What spans say, as attributes: pure, from a call, a head and a decision.

No key and no value of ours holds `auth`, `session`, `secret`, `credential`, `cookie` or `www-authenticate`: backends
with default scrubbing blank those. The lane of authority is called `permit` here.
"""

from __future__ import annotations

from typing import Any

from readmit._admission import Admit, Decision, Reconcile, Refuse, Return, Wait
from readmit._authority import PermitView
from readmit._call import GuardedCall
from readmit._context import UNNAMED
from readmit._fold import Head
from readmit._model import (
    Admitted,
    EffectState,
    Ended,
    Granted,
    PermitSource,
    PermitState,
    RecoveryKind,
    Refusal,
    Suspended,
)

Attributes = dict[str, Any]


def identity(call: GuardedCall, head: Head) -> Attributes:
    """What every span of a call carries from its start."""
    attributes: Attributes = {
        "gen_ai.tool.name": call.tool.name,
        "readmit.occurrence.id": head.id,
        "readmit.identity": str(call.identity),
        "readmit.input.digest": call.call.digest,
        "readmit.contract": call.tool.contract.name or call.tool.fingerprint,
        "readmit.mode": "observe" if call.tool.observe else "enforce",
        "readmit.trigger": trigger(head, repeat=call.repeat),
    }
    if call.call.call_id is not None:
        attributes["gen_ai.tool.call.id"] = call.call.call_id
    if call.call.scope != UNNAMED:
        attributes["gen_ai.conversation.id"] = call.call.scope
    return attributes


def trigger(head: Head, *, repeat: bool) -> str:
    """What came between the last epoch and this call: the newest login, approval or operator's act, else a repeat."""
    since = (*head.authority, *head.effect, *head.record)
    if not since:
        return "repeat" if repeat else "call"
    last = max((place for place, e in head.admission if isinstance(e, Admitted)), default=0)
    for place, event in sorted(since, key=lambda r: -r[0]):
        if place < last:
            break
        if isinstance(event, Granted):
            return _ASKED.get(event.permit.source, "operator")
        if getattr(event, "by", None):
            return "operator"
    return "repeat" if repeat else "call"


_ASKED = {PermitSource.LOGIN: "login", PermitSource.APPROVAL: "approval"}


def states(head: Head) -> Attributes:
    """The occurrence's effect and recovery, as they stand."""
    attributes: Attributes = {"readmit.recovery.state": str(head.recovery_state)}
    if not (head.recovery or head.admission):
        return attributes  # nothing has happened yet
    if (stopped := recovered(head)) is not None:
        attributes["readmit.recovery.kind"] = str(stopped.suspension)
    effect = head.effects()
    if effect.state is not None and head.admissions:
        attributes["readmit.effect.state"] = str(effect.state)
        attributes["readmit.effect.rule"] = effect.rule
        if effect.strength is not None:
            attributes["readmit.effect.strength"] = str(effect.strength)
    return attributes


def recovered(head: Head) -> Suspended | None:
    """Why the newest epoch stopped, or what is waited for since: of several the newest that has no answer."""
    if not head.recovery:
        return None
    stopped = [s for s in head.suspensions if s.epoch >= head.last_epoch]
    return next((s for s in reversed(stopped) if not head.answered(s)), stopped[-1] if stopped else None)


def prior(head: Head) -> Attributes:
    """The epoch before, as an attribute: links get lost in some backends."""
    trace = head.admissions[-1].trace if head.admissions else None
    return {} if trace is None else {"readmit.prior_epoch.span_id": trace.span_id}


def _permits(decision: Admit) -> Attributes:
    """What an epoch runs on."""
    if not decision.permits:
        return {"readmit.permit.source": str(PermitSource.AMBIENT), "readmit.permit.state": str(PermitState.GRANTED)}
    claimed = decision.permits[0]
    return _permit(claimed, PermitState.GRANTED if claimed.permit.uses is None else PermitState.CONSUMED)


def _permit(view: PermitView, state: PermitState) -> Attributes:
    return {
        "readmit.permit.id": view.permit.id,
        "readmit.permit.source": str(view.permit.source),
        "readmit.permit.state": str(state),
    }


def decided(decision: Decision, *, observed: bool) -> Attributes:
    """The decision, with its justification and its permit."""
    match decision:
        case Admit(justification=justification):
            justified = {"readmit.admission.justification": str(justification)}
            return {"readmit.admission.decision": "admit", **justified, **_permits(decision)}
        case Return():
            return {"readmit.admission.decision": "return"}
        case Wait():
            return {"readmit.admission.decision": "wait"}
        case Reconcile():
            return {"readmit.admission.decision": "reconcile"}
        case Refuse(reason=reason, detail=detail):
            attributes = {
                "readmit.admission.decision": "observed" if observed else "refuse",
                "readmit.admission.refusal": str(reason),
                **_missing(decision),
            }
            return {**attributes, "readmit.admission.detail": detail} if detail else attributes


def _missing(refuse: Refuse) -> Attributes:
    """The permit that did not hold, and what became of it; of one that never was, only its source."""
    if refuse.reason is Refusal.DENIED:
        denied = {"readmit.permit.state": str(PermitState.DENIED)}
        return {"readmit.permit.source": str(PermitSource.APPROVAL), **denied}
    if refuse.authority is None:
        return {"readmit.permit.source": str(PermitSource.APPROVAL)} if refuse.ask else {}
    if refuse.authority.permit is None:
        return {"readmit.permit.source": str(refuse.authority.source)}
    return _permit(refuse.authority.permit, refuse.authority.permit.state)


def ended(head: Head, number: int) -> Attributes:
    """The final states of one epoch: its own effect, and what it needs to go on."""
    attributes: Attributes = {"readmit.recovery.state": str(head.recovery_state)}
    stopped = [s for s in head.suspensions if s.epoch == number and s.suspension is not RecoveryKind.CONFIRMATION]
    if stopped:
        attributes["readmit.recovery.kind"] = str(stopped[-1].suspension)
    own = next(e for e in head.epochs() if e.admitted.epoch == number)
    if own.evidence is not None:
        attributes["readmit.effect.state"] = str(own.evidence.state)
        attributes["readmit.effect.rule"] = own.evidence.rule
        if own.evidence.state is not EffectState.UNKNOWN:
            attributes["readmit.effect.strength"] = str(own.evidence.strength)
    if own.ended is not None and own.ended.unstorable:
        attributes["readmit.result.unstorable"] = own.ended.unstorable
    return attributes


def ended_at(head: Head, number: int) -> int | None:
    """When the journal says that an epoch ended, in nanoseconds since the Unix epoch."""
    return next((e.at for _, e in head.effect if isinstance(e, Ended) and e.epoch == number), None)
