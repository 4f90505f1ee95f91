"""Effect evidence, folded in three steps: within a send, sends into an epoch, epochs into the occurrence.

Each step is a place where a careless rule sends twice (DESIGN, effect). Everything here is a function of recorded
evidence; what it returns is derived and never stored.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import NamedTuple

from readmit._model import (
    Admitted,
    AnyEvent,
    Compensated,
    DeclaredUnknown,
    EffectState,
    Ended,
    Evidence,
    Observed,
    Outcome,
    OwnerLost,
    Reconciled,
    SendStarted,
    Strength,
)

Recorded = tuple[int, AnyEvent]
"""An event with its place in the occurrence's journal, counted from 1."""

_TIES = (EffectState.COMMITTED, EffectState.REJECTED, EffectState.NOT_SENT)


class SendEffect(NamedTuple):
    """One effectful request and what is known of it."""

    number: int
    started: SendStarted | None
    evidence: Evidence


class EpochEffect(NamedTuple):
    """One epoch and what is known of its effect. `evidence` is None for a read, which has none."""

    admitted: Admitted
    evidence: Evidence | None
    in_flight: bool
    sends: tuple[SendEffect, ...]
    ended: Ended | None
    committed_at: int  # place of the last evidence that made it committed

    @property
    def state(self) -> EffectState | None:
        """The effect of this epoch alone."""
        return None if self.evidence is None else self.evidence.state

    def stands(self, undone: Sequence[tuple[int, int]]) -> bool:
        """Whether it is committed and no compensation (fence, place) has undone that since."""
        if self.state is not EffectState.COMMITTED:
            return False
        return not any(fence >= self.admitted.epoch and place > self.committed_at for fence, place in undone)

    @property
    def proved_not_sent(self) -> bool:
        """Whether no byte of it can have left: what a claim is given back for."""
        return (
            self.evidence is not None
            and self.evidence.state is EffectState.NOT_SENT
            and self.evidence.strength is Strength.PROOF
        )


class Effect(NamedTuple):
    """What is known of the occurrence's effect.

    `strength` is that of the weakest evidence it rests on; None when nothing but findings speak. `finding` is set for
    `reconciled`: present or absent; `by_person` says whether a named person found it.
    """

    state: EffectState | None
    strength: Strength | None
    rule: str
    finding: str = ""
    by_person: bool = False
    compensated_at: int = 0
    covered: int = 0  # the newest epoch for which a finding stands in

    @property
    def present(self) -> bool:
        """Whether the effect is there."""
        return self.state is EffectState.COMMITTED or (
            self.state is EffectState.RECONCILED and self.finding == "present"
        )


_NOTHING = Effect(None, None, "")


def strongest(observations: Iterable[Evidence]) -> Evidence | None:
    """Step one: the strongest evidence about one send; ties go to committed, then rejected, then not_sent."""
    known = [e for e in observations if e.state in _TIES]
    return min(known, key=lambda e: (-e.strength.rank, _TIES.index(e.state), e.rule), default=None)


def _combine(elements: Sequence[tuple[str | None, Evidence]]) -> Evidence:
    """Step two: the sends of an epoch (request digest, evidence), in order."""
    kept = [
        evidence
        for i, (request, evidence) in enumerate(elements)
        if not (
            evidence.state is EffectState.NOT_SENT
            and request is not None
            and any(r == request for r, _ in elements[i + 1 :])
        )
    ]
    states = {e.state for e in kept}
    weakest = min((e.strength for e in kept), key=lambda s: s.rank)
    for evidence in kept:
        if evidence.state is EffectState.UNKNOWN:
            return evidence
    if EffectState.COMMITTED in states and len(states) > 1:
        return unknown("epoch.partial")
    state = EffectState.REJECTED if EffectState.REJECTED in states else kept[0].state
    rule = next(e.rule for e in kept if e.state is state)
    return Evidence(state=state, strength=weakest, rule=rule)


def unknown(rule: str) -> Evidence:
    """The absence of evidence, with the rule that says why."""
    return Evidence(state=EffectState.UNKNOWN, strength=Strength.TESTIMONY, rule=rule)


def _capped(evidence: Evidence) -> Evidence:
    if evidence.strength.rank <= Strength.CONTRACT.rank:
        return evidence
    return Evidence(state=evidence.state, strength=Strength.CONTRACT, rule=evidence.rule)


def epoch_effect(admitted: Admitted, recorded: Sequence[Recorded]) -> EpochEffect:
    """What one epoch's own evidence says. Late evidence counts like any other: it settles this epoch only."""
    if not recorded:
        return EpochEffect(admitted, _epoch_evidence(admitted, (), None, None, ""), True, (), None, 0)
    place, event = recorded[0]
    if len(recorded) == 1 and isinstance(event, Ended) and event.epoch == admitted.epoch:
        return _silent(admitted, event, place)
    started: dict[int, SendStarted] = {}
    observed: dict[int, list[tuple[int, Evidence]]] = {}
    ended: tuple[int, Ended] | None = None
    twins: list[SendStarted] = []
    given_up = ""
    for place, event in recorded:
        match event:
            case SendStarted(epoch=admitted.epoch):
                if started.setdefault(event.send, event) != event:
                    twins.append(event)  # of a forked child, which counted for itself
            case Observed(epoch=admitted.epoch):
                seen = observed.setdefault(event.send, [])
                if all(e != event.evidence for _, e in seen):
                    seen.append((place, event.evidence))
            case Ended(epoch=admitted.epoch):
                ended = ended or (place, event)
            case OwnerLost(epoch=admitted.epoch):
                given_up = given_up or "owner_lost"
            case DeclaredUnknown(epoch=admitted.epoch):
                given_up = "declared_unknown"
            case _:
                pass
    direct = strongest(e for _, e in observed.get(0, ())) if observed else None
    numbers = sorted({*started, *observed} - {0}) if started or observed else ()
    sends = tuple(SendEffect(n, started.get(n), _send_evidence(e for _, e in observed.get(n, ()))) for n in numbers)
    sends += tuple(SendEffect(twin.send, twin, unknown("http.two_senders")) for twin in twins)
    evidence = _epoch_evidence(admitted, sends, direct, ended[1] if ended else None, given_up)
    commits = [p for seen in observed.values() for p, e in seen if e.state is EffectState.COMMITTED]
    if ended and ended[1].outcome is Outcome.RETURNED:
        commits.append(ended[0])
    committed = evidence is not None and evidence.state is EffectState.COMMITTED
    return EpochEffect(
        admitted,
        evidence,
        in_flight=ended is None and not given_up,
        sends=sends,
        ended=ended[1] if ended else None,
        committed_at=max(commits, default=0) if committed else 0,
    )


def _silent(admitted: Admitted, ended: Ended, place: int) -> EpochEffect:
    """An epoch of which nothing is recorded but its end: most are."""
    evidence = _epoch_evidence(admitted, (), None, ended, "")
    committed = evidence is not None and evidence.state is EffectState.COMMITTED
    at = place if committed and ended.outcome is Outcome.RETURNED else 0
    return EpochEffect(admitted, evidence, in_flight=False, sends=(), ended=ended, committed_at=at)


def _send_evidence(observations: Iterable[Evidence]) -> Evidence:
    seen = list(observations)
    return strongest(seen) or min(seen, key=lambda e: e.rule, default=unknown("http.no_response"))


def _epoch_evidence(
    admitted: Admitted, sends: tuple[SendEffect, ...], direct: Evidence | None, ended: Ended | None, given_up: str
) -> Evidence | None:
    if admitted.request.read:
        return None
    elements: list[tuple[str | None, Evidence]] = [
        (s.started.request if s.started else None, s.evidence) for s in sends
    ]
    if ended is None:
        return unknown(given_up or "in_flight")
    if ended.outcome is Outcome.RETURNED and not ended.unclear:
        return _returned(direct, ended.claim, elements)
    said = direct or ended.claim
    if ended.outcome is Outcome.CANCELLED:
        return _combine([*elements, (None, said or unknown("tool.cancelled"))])
    silent = unknown(ended.unclear or "tool.raised")
    if ended.stray:  # something left that belongs to nobody: it may have been this epoch's
        return _combine([*elements, (None, unknown("stray"))])
    match admitted.effects_through:
        case "mixed":
            return _combine([*elements, (None, said or silent)])
        case "http":
            nothing = Evidence(state=EffectState.NOT_SENT, strength=Strength.PROOF, rule="http.no_send")
        case "tools":
            nothing = Evidence(state=EffectState.NOT_SENT, strength=Strength.CONTRACT, rule="tools.no_call")
            elements = [(r, _capped(e)) for r, e in elements]
        case _:
            nothing = silent
            elements = [(r, _capped(e)) for r, e in elements]
    if not elements:
        return said or nothing
    return _combine([*elements, (None, direct)] if direct else elements)


def _returned(
    direct: Evidence | None, claim: Evidence | None, elements: Sequence[tuple[str | None, Evidence]]
) -> Evidence:
    """A normal return: the tool has seen the answers and is content, unless it says that nothing came of them.

    What it recorded itself counts as one more answer and never undoes another; its classifier speaks for all of them.
    """
    sends = [e for _, e in elements]
    if claim is not None:
        states = {e.state for e in sends}
        if EffectState.COMMITTED in states and len(states) > 1 and claim.state is not EffectState.COMMITTED:
            return unknown("epoch.partial")  # of one answer it may know better, not of one that was carried out beside
        return next((e for e in sends if e.state is EffectState.UNKNOWN), claim)
    if direct is not None and direct.state is EffectState.COMMITTED:
        return direct
    if direct is not None and all(e.state is not EffectState.COMMITTED for e in sends):
        return _combine([*elements, (None, direct)])
    if sends and all(e.state is EffectState.COMMITTED for e in sends):
        return min(sends, key=lambda e: e.strength.rank)
    return Evidence(state=EffectState.COMMITTED, strength=Strength.CONTRACT, rule="tool.return")


def compensations(recorded: Iterable[Recorded]) -> list[tuple[int, int]]:
    """Each compensation as its fence and its place."""
    return [(e.fence, place) for place, e in recorded if isinstance(e, Compensated)]


def receipt(recorded: Iterable[Recorded]) -> str:
    """How the service named the effect in its newest answer that did; empty if none did."""
    return max(((p, e.receipt) for p, e in recorded if isinstance(e, Observed) and e.receipt), default=(0, ""))[1]


def occurrence_effect(epochs: Sequence[EpochEffect], recorded: Sequence[Recorded], accept: Strength) -> Effect:
    """Step three: the epochs, and the findings that stand in for some of them.

    A finding names the last epoch that existed when the question was asked. Present counts as committed; absence never
    overrides committed evidence or a present finding unless a compensation covers it, and settles nothing where it is
    weaker than `accept` and no named person found it; a commit recorded after a compensation stands; at equal fence
    compensated > present > absent.
    """
    if not epochs and not recorded:
        return _NOTHING
    undone = compensations(recorded)
    for epoch in epochs:
        if epoch.evidence is not None and epoch.stands(undone):
            return Effect(EffectState.COMMITTED, epoch.evidence.strength, epoch.evidence.rule)
    findings = [e for _, e in recorded if isinstance(e, Reconciled) and e.finding in ("present", "absent")]
    present = [f for f in findings if f.finding == "present" and not any(fence >= f.fence for fence, _ in undone)]
    if present:
        best = max(present, key=lambda f: (f.fence, f.strength.rank, f.by is not None))
        return Effect(EffectState.RECONCILED, best.strength, "reconcile.present", "present", best.by is not None)
    absent = [f for f in findings if f.finding == "absent" and (f.by is not None or f.strength.rank >= accept.rank)]
    covered = max([f for f, _ in undone] + [f.fence for f in absent], default=0)
    rest = [e for e in epochs if e.evidence is not None and (e.admitted.epoch > covered or e.in_flight)]
    known = [e.evidence for e in rest if e.evidence is not None]
    compensated = max(undone, default=(0, 0))
    for evidence in reversed(known):
        if evidence.state is EffectState.UNKNOWN:
            return Effect(EffectState.UNKNOWN, None, evidence.rule, covered=covered)
    weakest = min((e.strength for e in known), key=lambda s: s.rank, default=None)
    if compensated[0] and compensated[0] >= max((f.fence for f in absent), default=0):
        return Effect(EffectState.COMPENSATED, weakest, "compensate", compensated_at=compensated[1], covered=covered)
    if known:
        state = EffectState.REJECTED if any(e.state is EffectState.REJECTED for e in known) else EffectState.NOT_SENT
        return Effect(state, weakest, next(e.rule for e in known if e.state is state), covered=covered)
    if absent:
        best = max(absent, key=lambda f: (f.fence, f.by is not None, f.strength.rank))
        return Effect(
            EffectState.RECONCILED, best.strength, "reconcile.absent", "absent", best.by is not None, covered=covered
        )
    return _NOTHING
