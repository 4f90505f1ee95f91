"""I2 and I9: an event writes its own lane and no other; evidence says the same in whatever order it comes."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from itertools import permutations
from typing import Any, get_args

import msgspec
import pytest

from readmit._fold import Head, fold
from readmit._model import (
    Abandoned,
    Accepted,
    Answered,
    AnyEvent,
    Binding,
    Challenge,
    Charged,
    Compensated,
    Decided,
    Delivered,
    Denied,
    Dimension,
    Event,
    Granted,
    Identity,
    Invalidated,
    Joined,
    Left,
    Listed,
    ListedCall,
    OwnerLost,
    Permit,
    PermitSource,
    RecoveryKind,
    Revoked,
    Suspended,
)
from tests.core.effects import EFFECTS, READS
from tests.core.situations import (
    COMMITTED,
    CONTRACT,
    DECLARED,
    NOT_SENT,
    PROOF,
    PROTOCOL,
    REJECTED,
    START,
    TESTIMONY,
    Effect,
    admitted,
    ended,
    found,
    head_of,
    opened,
    said,
    sent,
)

_LOGIN = Permit(id="login", source=PermitSource.LOGIN, granted_by="ann", binding=Binding(subject="ann"), after_epoch=9)
EVENTS: tuple[AnyEvent, ...] = (
    opened(),
    Joined(at=START, identity=Identity.OPEN, call="joined", call_id="c"),
    admitted(3),
    Decided(at=START, admission="a", decision="refuse"),
    Suspended(at=START, suspension=RecoveryKind.CHALLENGE, id="s", epoch=1, challenges=(Challenge(raw="Bearer"),)),
    Granted(at=START, permit=_LOGIN),
    Denied(at=START, request="r", by="ann"),
    Revoked(at=START, permit="login", by="ann"),
    sent(send=7),
    said(NOT_SENT, PROOF, send=7),
    ended(),
    OwnerLost(at=START, epoch=1),
    DECLARED,
    found("absent", 1, TESTIMONY, by="ann"),
    Compensated(at=START, fence=1, by="ann"),
    Delivered(at=START, call="call 1"),
    Left(at=START, call="call 1"),
    Listed(at=START, response="r", calls=(ListedCall(occurrence="o.0", tool="pay", digest="d"),)),
    Answered(at=START, payload=b'1"paid"', occurrence="o.0"),
    Charged(at=START, calls=1),
    Invalidated(at=START),
    Abandoned(at=START, by="ann", statement="by hand"),
    Accepted(at=START, id="a", epoch=1, by="ann", statement="twice is fine"),
)
LANES = ("identity", "admission", "recovery", "authority", "effect", "delivery", "record")
HEADS = [(e.name, head_of([opened(read=e.read), *e.events])) for e in (*EFFECTS, *READS)]

DERIVED: dict[Dimension, Callable[[Head], Any]] = {
    Dimension.EFFECT: lambda head: (head.effects(), head.result(), head.in_flight, head.compensations),
    Dimension.AUTHORITY: lambda head: (head.grants, head.revocations, head.denials, head.contradicted, head.login),
    Dimension.RECOVERY: lambda head: (head.suspensions, head.challenge, head.confirmation),
    Dimension.DELIVERY: lambda head: head.debts(),
    Dimension.RECORD: lambda head: (head.abandoned, head.acceptances),
}
"""What is derived of a lane. An admission starts an epoch and owes a delivery; a joined call is owed one."""
READS_TOO = {
    (Dimension.EFFECT, Dimension.ADMISSION),
    (Dimension.DELIVERY, Dimension.ADMISSION),
    (Dimension.DELIVERY, Dimension.IDENTITY),
}


def test_every_event_type_is_here() -> None:
    assert {type(e) for e in EVENTS} == set(get_args(AnyEvent))


@pytest.mark.parametrize("event", EVENTS, ids=lambda e: type(e).__name__)
def test_an_event_writes_exactly_its_own_lane(event: AnyEvent) -> None:
    for name, head in HEADS:
        after = fold(head, event)
        changed = [lane for lane in LANES if getattr(after, lane) != getattr(head, lane)]
        assert changed == [str(event.dimension)], name
        assert after.version == head.version + 1
        assert (after.id, getattr(after, changed[0])[:-1]) == (head.id, getattr(head, changed[0]))


@pytest.mark.parametrize("event", EVENTS, ids=lambda e: type(e).__name__)
def test_what_is_derived_of_a_lane_moves_with_no_other(event: AnyEvent) -> None:
    for name, head in HEADS:
        after = fold(head, event)
        for dimension, derived in DERIVED.items():
            if dimension is not event.dimension and (dimension, event.dimension) not in READS_TOO:
                assert derived(after) == derived(head), (name, dimension)


def test_authority_and_recovery_never_settle_an_effect() -> None:
    """The seed failure: credentials are renewed, a person approves, and the effect is as unknown as before."""
    others = [e for e in EVENTS if e.dimension in (Dimension.AUTHORITY, Dimension.RECOVERY, Dimension.DELIVERY)]
    for name, head in HEADS:
        before = head.effects()
        for event in others:
            head = fold(head, event)
        assert head.effects() == before, name


# -- order --------------------------------------------------------------------------------------------------------


def seen(head: Head) -> object:
    """Everything that decisions are made of, without the places in the journal."""
    epochs = tuple(e._replace(committed_at=0) for e in head.epochs())
    return (
        head.effects()._replace(compensated_at=0),
        epochs,
        head.result(),
        head.closed,
        head.uncertain,
        head.compensations,
    )


def orders(events: tuple[AnyEvent, ...]) -> Iterator[list[AnyEvent]]:
    """Evidence in every order. What a compensation covers depends on what came before it, so it keeps its place."""
    fixed = {i: e for i, e in enumerate(events) if e.dimension is not Dimension.EFFECT or isinstance(e, Compensated)}
    parts: list[list[AnyEvent]] = [[]]
    for i, event in enumerate(events):
        if i in fixed:
            parts.append([])
        else:
            parts[-1].append(event)
    for which, part in enumerate(parts):
        for order in permutations(part):
            mixed = [*parts[:which], list(order), *parts[which + 1 :]]
            yield _joined(mixed, list(fixed.values()))


def _joined(parts: list[list[AnyEvent]], fixed: list[AnyEvent]) -> list[AnyEvent]:
    joined = list(parts[0])
    for event, part in zip(fixed, parts[1:], strict=True):
        joined += [event, *part]
    return joined


RICH: tuple[tuple[AnyEvent, ...], ...] = (
    (
        admitted(),
        sent(),
        said(NOT_SENT, PROOF, send=1),
        said(REJECTED, PROTOCOL, send=1),
        said(COMMITTED, TESTIMONY, send=1),
        ended(),
    ),
    (admitted(), sent(), sent(send=2), said(COMMITTED, PROTOCOL, send=1), said(REJECTED, PROTOCOL, send=2), ended()),
    (admitted(), said(REJECTED, CONTRACT), said(COMMITTED, CONTRACT), said(NOT_SENT, CONTRACT), ended(), DECLARED),
    (
        admitted(),
        DECLARED,
        OwnerLost(at=START, epoch=1),
        found("present", 1, TESTIMONY, by="ann", result=b'1"a"'),
        found("present", 1, TESTIMONY, result=b'1"b"'),
        found("absent", 1, CONTRACT),
    ),
    (
        admitted(),
        ended(),
        found("absent", 1, CONTRACT),
        found("absent", 1, TESTIMONY, by="ann"),
        found("unclear", 1, TESTIMONY),
    ),
)


@pytest.mark.parametrize("events", [e.events for e in (*EFFECTS, *READS)] + list(RICH), ids=lambda e: str(len(e)))
def test_equal_evidence_in_another_order_gives_the_same_head(events: tuple[AnyEvent, ...]) -> None:
    wanted = seen(head_of([opened(), *events]))
    for order in orders(events):
        assert seen(head_of([opened(), *order])) == wanted, order


@pytest.mark.parametrize("effect", EFFECTS, ids=lambda e: e.name)
def test_evidence_that_comes_twice_says_nothing_new(effect: Effect) -> None:
    head = head_of([opened(), *effect.events])
    wanted = seen(head)
    for event in effect.events:
        if event.dimension is Dimension.EFFECT and not isinstance(event, Compensated):
            assert seen(fold(head, event)) == wanted or _a_commit_after_a_compensation(event, effect), event


def _a_commit_after_a_compensation(event: Event, effect: Effect) -> bool:
    """A present finding or a return that is reported again after the effect was undone stands, as a new one would."""
    return effect.compensated and getattr(event, "finding", "") != "absent"


def test_rules_with_the_same_strength_have_an_order_of_their_own() -> None:
    one = said(REJECTED, CONTRACT, send=1)
    other = msgspec.structs.replace(one, evidence=msgspec.structs.replace(one.evidence, rule="another rule"))
    base: list[AnyEvent] = [opened(), admitted(), sent()]
    assert seen(head_of([*base, one, other, ended()])) == seen(head_of([*base, other, one, ended()]))
