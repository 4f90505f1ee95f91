"""What must be true of an admission at the moment at which it is written, from the bare events and the truth."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING

from readmit import Contract
from readmit._admission import Admit, decide
from readmit._contract import Policy
from readmit._fold import Head, fold
from readmit._identity import Call
from readmit._model import (
    Abandoned,
    Accepted,
    Admitted,
    AnyEvent,
    DeclaredUnknown,
    Denied,
    Ended,
    Granted,
    Joined,
    Justification,
    Opened,
    OwnerLost,
    PermitSource,
    RecoveryKind,
    Revoked,
    Suspended,
)
from readmit.journal import Change

if TYPE_CHECKING:
    from tests.core.live import Live
    from tests.core.world import EpochTruth, World

ACCOUNTED = frozenset({Justification.AMBIGUITY_ACCEPTED, Justification.BOUNDED_RETRY})
"""What an honest record can name for a repeat of an effect that was there."""


def events_of(head: Head) -> list[AnyEvent]:
    """All events of an occurrence in journal order."""
    lanes = (head.identity, head.admission, head.recovery, head.authority, head.effect, head.delivery, head.record)
    return [event for _, event in sorted((r for lane in lanes for r in lane), key=lambda r: r[0])]


def admitted(world: World, live: Live, before: Head | None, change: Change, event: Admitted) -> None:
    """Everything that must be true of an admission, at the moment at which it is written."""
    prior = [*(events_of(before) if before else ()), *change.events[: change.events.index(event)]]
    explained(world, change.occurrence_id, prior, event)
    assert not any(isinstance(e, Abandoned) for e in prior), "an epoch of an abandoned occurrence"
    denied_nothing(prior, event)
    assert not any(isinstance(e, Joined) and e.call == event.call for e in prior), "a joined caller starts an epoch"
    over = {e.epoch for e in prior if isinstance(e, Ended | OwnerLost | DeclaredUnknown)}
    epochs = [e for e in prior if isinstance(e, Admitted)]
    assert all(e.epoch in over for e in epochs), "two epochs in flight"
    assert event.epoch == len(epochs) + 1, "epochs are counted"
    assert event.justification is not None
    permitted(world, live, change.occurrence_id, prior, event)
    answered(prior, event)
    accounted(world, change.occurrence_id, prior, event)
    if any(isinstance(e, Opened) for e in change.events):
        knowingly(world, live, prior, event)


def denied_nothing(prior: Sequence[AnyEvent], event: Admitted) -> None:
    """A denial of what was asked last is terminal; one of an older request takes the permits of that request."""
    asked = [e.id for e in prior if isinstance(e, Suspended) and e.suspension is RecoveryKind.CONFIRMATION]
    denied = {e.request for e in prior if isinstance(e, Denied)}
    assert not asked or asked[-1] not in denied, "an epoch of a denied occurrence"
    granted = {e.permit.id: e.permit.request for e in prior if isinstance(e, Granted)}
    assert denied.isdisjoint(granted[permit] for permit in event.permits), "an epoch on a permit of a denied request"


def explained(world: World, occurrence: str, prior: Iterable[AnyEvent], event: Admitted) -> None:
    """I6: the same decision comes out again, from the events before it and what the admission recorded."""
    head = fold(Head(id=occurrence), *prior)
    request = event.request
    document = world.store.documents[event.contract]
    policy = Policy(version=request.policy_version, executor=request.executor)
    again = decide(Contract.from_document(document), head, head.grants, request, policy, event.at)
    assert isinstance(again, Admit), again
    found = (again.justification, tuple(p.permit.id for p in again.permits), again.acceptance)
    assert found == (event.justification, event.permits, event.acceptance), (found, event)


def permitted(world: World, live: Live, occurrence: str, prior: list[AnyEvent], event: Admitted) -> None:
    """Approval is never bypassed, and one approval is one dispatch whose bytes could have left."""
    grants = {e.permit.id: e.permit for e in prior if isinstance(e, Granted)}
    revoked = {e.permit for e in prior if isinstance(e, Revoked)}
    claimed = [grants[p] for p in event.permits]
    request = event.request
    for permit in claimed:
        assert permit.id not in revoked, "a revoked permit"
        assert permit.not_before <= event.at and (permit.expires is None or event.at < permit.expires), (
            "out of its time"
        )
        assert permit.binding.subject == request.principal, "the permit of somebody else"
        if permit.source is not PermitSource.LOGIN:
            shown = permit.binding
            assert (shown.digest, shown.target, shown.policy_version) == (
                request.digest,
                request.target,
                request.policy_version,
            ), "what was permitted has changed"
            assert shown.executor in (None, request.executor), "another executor"
    by_approval = [p for p in claimed if p.source is PermitSource.APPROVAL]
    if request.approval or revoked or live.active.number in world.withheld:
        assert by_approval, "approval bypassed"
    for permit in by_approval:
        same = {p.id for p in grants.values() if p.request == permit.request}
        for earlier in (e for e in prior if isinstance(e, Admitted) and same.intersection(e.permits)):
            truth = world.truth[occurrence, earlier.epoch]
            assert _proved_not_sent(earlier, truth), f"one approval, again after {truth}"
            assert not truth.acts


def _proved_not_sent(epoch: Admitted, truth: EpochTruth) -> bool:
    """For what a claim is given back: no byte of it can have left."""
    seen_to = truth.fate in ("refused", "raised before any send") and epoch.effects_through == "http"
    return seen_to or truth.fate == "cancelled first"


def answered(prior: list[AnyEvent], event: Admitted) -> None:
    """No epoch while the newest challenge is unanswered, nor on another principal's sign-in."""
    revoked = {e.permit for e in prior if isinstance(e, Revoked)}
    met = [e.epoch for e in prior if isinstance(e, Suspended) and e.suspension is RecoveryKind.CHALLENGE]
    if met:
        logins = [
            e.permit
            for e in prior
            if isinstance(e, Granted) and e.permit.source is PermitSource.LOGIN and e.permit.after_epoch >= max(met)
        ]
        valid = [p for p in logins if p.id not in revoked and p.binding.subject == event.request.principal]
        assert valid, "a challenge is unanswered"
    shown = [e for e in prior if isinstance(e, Suspended) and e.suspension is RecoveryKind.CONFIRMATION]
    for request in shown[-1:]:
        verdicts = [e for e in prior if isinstance(e, Granted) and e.permit.request == request.id]
        newer = any(isinstance(e, Admitted) and e.epoch > request.epoch for e in prior)
        other = request.binding is not None and request.binding.digest != event.request.digest
        assert verdicts or newer or other, "a confirmation is unanswered"


def accounted(world: World, occurrence: str, prior: list[AnyEvent], event: Admitted) -> None:
    """What a justification says must be so."""
    earlier = [e for e in prior if isinstance(e, Admitted)]
    truths = [world.truth[occurrence, e.epoch] for e in earlier]
    contract = world.scenario.contract
    match event.justification:
        case Justification.FIRST_ATTEMPT:
            assert not earlier
        case Justification.AMBIGUITY_ACCEPTED:
            accepted = next(e for e in prior if isinstance(e, Accepted) and e.id == event.acceptance)
            left = [e for e, t in zip(earlier, truths, strict=True) if not _proved_not_sent(e, t)]
            assert all(e.epoch <= accepted.epoch for e in left), "an acceptance that has lapsed"
            assert not any(e.acceptance == accepted.id for e in left), "an acceptance that was used"
        case Justification.BOUNDED_RETRY:
            used = [e for e in earlier if e.justification is Justification.BOUNDED_RETRY]
            assert len(used) < contract.blind_retries, "beyond the bound"
        case Justification.IDEMPOTENT:
            assert contract.idempotent
        case Justification.IDEMPOTENCY_KEY:
            assert contract.idempotency_key and contract.key_lifetime
        case Justification.SIDE_EFFECT_FREE:
            assert world.scenario.read
        case Justification.COMPENSATED:
            assert any(t.undone for t in truths)
        case Justification.NOT_SENT | Justification.REJECTED | Justification.RECONCILED_ABSENT:
            pass  # whether that was true is seen when it acts
        case _:
            raise AssertionError(event)
    if event.justification not in ACCOUNTED and not world.scenario.read and world.scenario.remote == "plain":
        assert not world.effects(occurrence), f"the effect is there and {event.justification} repeats it"
        assert not world.running(occurrence), f"something can still arrive, and {event.justification} repeats it"


def lists(head: Head, response: str | None) -> bool:
    """Whether an occurrence stands in a model response, or took one of its calls."""
    return response not in (None, "*") and response in (head.opened.response, *(j.response for j in head.joined))


def left_open(world: World, call: Call) -> tuple[str, ...]:
    """Why a call that looks at the journal now must not become a new occurrence: every equal one that is not over."""
    if call.run is not None:
        return ()
    return tuple(why for h in world.store.heads.values() if _alike(h, call) and (why := _not_over(world, h)))


def _alike(head: Head, call: Call) -> bool:
    opened = head.opened
    same = (opened.digest, opened.principal, opened.key, opened.run) == (call.digest, call.principal, call.key, None)
    return same and not lists(head, call.response)  # a response folds one of its calls into an open occurrence


def _not_over(world: World, head: Head) -> str:
    if any(isinstance(e, Abandoned) for e in events_of(head)):
        return ""
    if world.running(head.id):
        return f"{head.id} is still running"
    if world.doubtful(head.id):
        return f"{head.id} may have acted"
    told = world.owed(head.id).told
    return f"{head.id} has acted and nobody was told" if world.effects(head.id) and not told else ""


def knowingly(world: World, live: Live, prior: list[AnyEvent], event: Admitted) -> None:
    """A new occurrence is no way around an open one, and says so where it follows an abandoned effect."""
    if not world.scenario.read:
        assert not world.left[live.active.number], world.left[live.active.number]
    opened = next(e for e in prior if isinstance(e, Opened))
    for head in world.store.heads.values():
        if opened.run is not None or not _alike(head, live.call.call) or not head.abandoned:
            continue
        grave = world.doubtful(head.id) or (world.effects(head.id) and not world.owed(head.id).told)
        named = {e.abandoned for h in world.store.heads.values() for e in h.admissions} | {event.abandoned}
        assert not grave or head.id in named, "an abandoned effect that nobody names"
