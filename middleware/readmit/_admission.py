"""Admission: the decision before every epoch. Two gates, authority and effect, and both must open.

`decide` is pure: no I/O, no clock, no global. Its rows are those of DESIGN §5; the first that matches wins.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from readmit import _authority
from readmit._authority import Closed, Grants, PermitView
from readmit._contract import Contract, Policy
from readmit._effect import Effect, EpochEffect, SendEffect, occurrence_effect
from readmit._fold import Head
from readmit._model import (
    Admitted,
    EffectState,
    Evidence,
    Justification,
    PermitSource,
    RecoveryKind,
    Refusal,
    Request,
    Suspended,
)


class Admit(NamedTuple):
    """An epoch may start. `permits` are claimed by it; with none, this request's own ambient authority is."""

    justification: Justification
    permits: tuple[PermitView, ...] = ()
    acceptance: str | None = None


class Return(NamedTuple):
    """The effect is there: give the recorded result."""


class Wait(NamedTuple):
    """An epoch of a live owner is in flight: join it."""

    epoch: int


class Reconcile(NamedTuple):
    """Ask the outside world, record the answer, decide again. `fence`: the last epoch that exists now."""

    fence: int


class Refuse(NamedTuple):
    """Not now. `gates` names what is closed, `remedies` what can open it, `ask` that a person's approval is wanted."""

    reason: Refusal
    detail: str = ""
    gates: tuple[str, ...] = ()
    remedies: tuple[str, ...] = ()
    ask: bool = False
    authority: Closed | None = None  # what is missing, where that is the reason


Decision = Admit | Return | Wait | Reconcile | Refuse


def decide(contract: Contract, head: Head, permits: Grants, request: Request, policy: Policy, now: int) -> Decision:
    """Decides whether the call may start an epoch.

    Args:
        contract: what the tool promises.
        head: the occurrence, folded from all its events.
        permits: its grants with their places in the journal.
        request: what the call brings: principal, digest, and what only the driver can know.
        policy: the guard's policy version and executor.
        now: nanoseconds since the Unix epoch.

    Returns:
        One of `Admit`, `Return`, `Wait`, `Reconcile`, `Refuse`; the first matching row of the table.
    """
    if request.conflict is not None:  # row 1
        ends = () if head.closed else _ends(head, head.effects(), request)
        return Refuse(Refusal.CONFLICT, request.conflict, ("identity",), ends)
    if head.version == 1 and not request.approval and request.withheld_by is None:
        return Admit(Justification.FIRST_ATTEMPT)  # row 8, at once: nothing happened yet, nobody has to be asked
    epochs = head.epochs()
    effect = occurrence_effect(epochs, head.effect, contract.accepted_strength)
    if not request.read and effect.present:  # row 2
        if head.result() is not None and head.recipient == request.principal:
            return Return()
        return Refuse(Refusal.ALREADY_COMMITTED, "", ("effect",), ("compensate",))
    if head.abandoned:  # row 3
        return Refuse(Refusal.ABANDONED, "", ("record",))
    in_flight = [e.admitted.epoch for e in epochs if e.in_flight]
    ends = _ends(head, effect, request)
    if head.contradicted:
        return Refuse(Refusal.CONFLICT, "contradictory verdicts", ("authority",), ends)
    if head.denied:
        return Refuse(Refusal.DENIED, "", ("authority",), ends)
    if in_flight and request.reentrant:  # row 4
        return Refuse(Refusal.REENTRANT, "", ("admission",))
    if in_flight and request.owner_alive:
        if request.waited:
            return Refuse(Refusal.IN_FLIGHT, "", ("admission",), ("declare_unknown",))
        return Wait(in_flight[-1])
    unsettled = not request.read and effect.state is EffectState.UNKNOWN
    if unsettled and request.reconcilable and not request.asked:  # row 5
        return Reconcile(head.last_epoch)
    return _gates(contract, head, epochs, effect, permits, request, policy, now)


def _gates(
    contract: Contract,
    head: Head,
    epochs: Sequence[EpochEffect],
    effect: Effect,
    grants: Grants,
    request: Request,
    policy: Policy,
    now: int,
) -> Decision:
    views = _authority.views(head, grants, epochs, request, policy, now)
    pending = [s for s in head.waiting if not head.answered(s) and _current(s, request)]
    authority = _authority.gate(head, views, request)
    justified = _effect_gate(contract, head, epochs, effect, views, request, now)
    if not pending and not isinstance(authority, Closed) and isinstance(justified, Admit):
        claimed = tuple(dict.fromkeys((*authority, *justified.permits)))
        return justified._replace(permits=claimed) if claimed else justified
    gates = tuple(
        name
        for name, shut in (
            ("recovery", bool(pending)),
            ("authority", isinstance(authority, Closed)),
            ("effect", isinstance(justified, Refuse)),
        )
        if shut
    )
    remedies = (
        *_recover(pending),
        *_authorize(authority),
        *(justified.remedies if isinstance(justified, Refuse) else ()),
    )
    remedies = tuple(dict.fromkeys((*remedies, "abandon")))
    if pending:  # row 6
        kinds = ", ".join(s.suspension for s in pending)
        return Refuse(Refusal.RECOVERY_PENDING, kinds, gates, remedies)
    if isinstance(authority, Closed):  # row 7
        asks = authority.source is PermitSource.APPROVAL
        return Refuse(authority.refusal, authority.detail or authority.source, gates, remedies, asks, authority)
    assert isinstance(justified, Refuse), "one gate is shut"
    return justified._replace(gates=gates, remedies=remedies)


def _current(suspension: Suspended, request: Request) -> bool:
    """A confirmation that showed other arguments stands in nobody's way: the call is asked again with its own."""
    shown = suspension.binding
    if suspension.suspension is not RecoveryKind.CONFIRMATION or shown is None:
        return True
    return shown.digest == request.digest


def _effect_gate(
    contract: Contract,
    head: Head,
    epochs: Sequence[EpochEffect],
    effect: Effect,
    views: Sequence[PermitView],
    request: Request,
    now: int,
) -> Admit | Refuse:
    """Rows 8 to 16: only what is known of the effect."""
    if not epochs:  # row 8
        return Admit(Justification.FIRST_ATTEMPT)
    if request.read:  # row 9
        return Admit(Justification.SIDE_EFFECT_FREE)
    strong = effect.strength is None or effect.strength.rank >= contract.accepted_strength.rank
    if effect.state is EffectState.RECONCILED and (
        strong or effect.by_person
    ):  # row 10; a present finding ended at row 2
        return Admit(Justification.RECONCILED_ABSENT)
    if effect.state in (EffectState.NOT_SENT, EffectState.REJECTED) and strong:
        return Admit(Justification(effect.state))
    if effect.state is EffectState.COMPENSATED and strong:  # row 11
        later = [v for v in views if v.refusal is None and v.place > effect.compensated_at]
        if not later:
            return Refuse(Refusal.PERMIT_MISSING, "after compensation", remedies=("approve",), ask=True)
        return Admit(Justification.COMPENSATED, (later[-1],))
    return _uncertain(contract, head, [e for e in epochs if e.admitted.epoch > effect.covered], now)


def _uncertain(contract: Contract, head: Head, epochs: Sequence[EpochEffect], now: int) -> Admit | Refuse:
    """Rows 12 to 16: the effect is unknown, or known too weakly."""
    open_epochs = [e for e in epochs if _may_have_acted(e, contract)]
    if contract.idempotent:  # row 12
        return Admit(Justification.IDEMPOTENT)
    if by_key := _replayable(contract, head, open_epochs, now):  # rows 12 and 13
        return Admit(by_key)
    newest = max((e.admitted.epoch for e in open_epochs), default=0)
    for acceptance in head.acceptances:  # row 14
        later = [e for e in epochs if e.admitted.epoch > acceptance.epoch and not e.proved_not_sent]
        if acceptance.epoch >= newest and not later:
            return Admit(Justification.AMBIGUITY_ACCEPTED, acceptance=acceptance.id)
    blind = sum(a.justification is Justification.BOUNDED_RETRY for a in head.admissions)
    if blind < contract.blind_retries:  # row 15
        return Admit(Justification.BOUNDED_RETRY)
    remedies = ("reconcile", "accept", "compensate", "abandon")
    return Refuse(Refusal.EFFECT_UNKNOWN, _hint(contract, open_epochs), remedies=remedies)  # row 16


def _hint(contract: Contract, epochs: Sequence[EpochEffect]) -> str:
    """What somebody who wonders why nothing justifies a repeat may have left unsaid."""
    started = [s.started for e in epochs for s in e.sends if s.started is not None]
    keyed = contract.idempotency_key is not None or any(s.key for s in started)
    if keyed and contract.key_lifetime is None and not any(s.key_lifetime for s in started):
        return "the contract names an idempotency_key and no key_lifetime"
    doubts = [e.ended.unclear for e in epochs if e.ended is not None and e.ended.unclear]
    return f"the result of the last attempt reads like a failure ({doubts[-1]})" if doubts else ""


def _may_have_acted(epoch: EpochEffect, contract: Contract) -> bool:
    return epoch.evidence is not None and _open(epoch.evidence, contract)


def _same_key(head: Head, epochs: Sequence[EpochEffect]) -> bool:
    """Whether the next epoch would carry the key that these did: a compensation since then gave it another one."""
    places = {e.epoch: place for place, e in head.admission if isinstance(e, Admitted)}
    return all(head.compensated_before(places[e.admitted.epoch]) == head.compensations for e in epochs)


def _open(evidence: Evidence, contract: Contract) -> bool:
    settled = evidence.state in (EffectState.NOT_SENT, EffectState.REJECTED)
    return not (settled and evidence.strength.rank >= contract.accepted_strength.rank)


def _replayable(contract: Contract, head: Head, epochs: Sequence[EpochEffect], now: int) -> Justification | None:
    """Whether what may have left can be sent again: idempotent, or under a key that the service still keeps.

    The tool's own contract speaks for all its sends; without one, each send that may have acted speaks by the contract
    of its client, and only where sends are known to be all there is. An epoch's start bounds its first send from below.
    """
    if not epochs:
        return None
    by_tool = contract.idempotency_key is not None and contract.key_lifetime_ns is not None
    idempotent = True
    for epoch in epochs:
        age = now - epoch.admitted.at
        sends = [s for s in epoch.sends if _open(s.evidence, contract)]
        if by_tool:
            idempotent = False
            if not 0 <= age < (contract.key_lifetime_ns or 0) or any(
                s.started and s.started.key is None for s in sends
            ):
                return None
        elif epoch.admitted.effects_through not in ("sends", "http") or not sends:
            return None
        else:
            for send in sends:
                if not _safe_to_resend(send, age):
                    return None
                idempotent = idempotent and send.started is not None and send.started.idempotent
    if idempotent:
        return Justification.IDEMPOTENT
    return Justification.IDEMPOTENCY_KEY if _same_key(head, epochs) else None


def _safe_to_resend(send: SendEffect, age: int) -> bool:
    started = send.started
    if started is None:
        return False
    if started.idempotent:
        return True
    return started.key is not None and started.key_lifetime is not None and 0 <= age < started.key_lifetime


def _recover(pending: Sequence[Suspended]) -> list[str]:
    return ["sign_in" if s.suspension is RecoveryKind.CHALLENGE else "approve" for s in pending]


def _authorize(authority: tuple[PermitView, ...] | Closed) -> list[str]:
    if not isinstance(authority, Closed):
        return []
    return ["sign_in" if authority.source is PermitSource.LOGIN else "approve"]


def _ends(head: Head, effect: Effect, request: Request) -> tuple[str, ...]:
    """What ends an occurrence that this call cannot run, where its effect is still unknown."""
    if head.in_flight and request.owner_alive:
        return ("declare_unknown",)
    return ("reconcile", "compensate", "abandon") if effect.state is EffectState.UNKNOWN else ()
