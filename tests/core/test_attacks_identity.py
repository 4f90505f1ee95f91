"""Ways in which an effect was once had twice, lost or misreported: each the smallest history that showed the hole."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterator

import msgspec
import pytest

import readmit
from readmit import Approval, Contract, Guard
from readmit._admission import Refuse, decide
from readmit._context import identified
from readmit._model import AnyEvent, Granted, Request
from readmit.journal import Change
from tests.core.guards import Racing, attempt, new_guard
from tests.core.memory import MemoryJournal, Store
from tests.core.permits import PERMITS, POLICY
from tests.core.situations import (
    DIGEST,
    NOW,
    PRINCIPAL,
    START,
    admitted,
    ended,
    head_of,
    opened,
)


@pytest.fixture
def guard() -> Iterator[Guard]:
    made = new_guard()
    yield made
    made.close()


# -- identity -----------------------------------------------------------------------------------------------------


@pytest.fixture
def charged() -> list[str]:
    return []


@pytest.fixture
def charge(guard: Guard, charged: list[str]) -> Callable[..., str]:
    @guard.tool(effect="write", key="order", name="charge")
    def charge(order: str, cents: int) -> str:
        charged.append(order)
        return f"{order} is paid"

    return charge


def test_a_run_does_not_give_one_order_the_result_of_another(charge: Callable[..., str], charged: list[str]) -> None:
    """The key is no part of the digest, so the first call of a run must not be any key's first call."""
    with readmit.run("nightly"):
        charge("A", 100)
    with readmit.run("nightly"):
        assert [charge("Z", 100), charge("A", 100)] == ["Z is paid", "A is paid"]
    assert charged == ["A", "Z"]


def test_a_framework_id_under_another_key_is_a_conflict(charge: Callable[..., str], charged: list[str]) -> None:
    with identified(framework="f"):
        charge("A", 100)
        refused = attempt(charge, "Z", 100)
    assert isinstance(refused, readmit.OccurrenceConflict) and refused.detail == "key"
    assert charged == ["A"]


def test_a_framework_id_of_another_tool_is_a_conflict_even_before_any_dispatch(guard: Guard) -> None:
    @guard.tool(effect="write", approval=True, name="first")
    def first(x: int) -> int:
        return x

    @guard.tool(effect="write", name="second")
    def second(x: int) -> int:
        return x

    with identified(framework="f"):
        assert isinstance(attempt(first, 1), readmit.ApprovalRequired)
        assert isinstance(attempt(second, 1), readmit.OccurrenceConflict)


def test_a_denied_order_does_not_withhold_authority_from_another_of_the_same_amount(guard: Guard) -> None:
    @guard.tool(effect="write", key="order", name="pay", approval=Approval(when=lambda a: bool(a["order"] == "A")))
    def pay(order: str, cents: int) -> str:
        return order

    guard.deny(attempt(pay, "A", 100).request_id, by="ann")
    assert pay("B", 100) == "B"


def test_contradictory_verdicts_advance_the_count_of_a_run_as_a_denial_does(guard: Guard) -> None:
    @guard.tool(effect="write", approval=True, name="pay")
    def pay(x: int) -> int:
        return x

    with readmit.run("r"):
        asked = attempt(pay, 1)
    guard.approve(asked.request_id, by="ann")
    guard.deny(asked.request_id, by="bob")
    with readmit.run("r"):
        refused, next_one = attempt(pay, 1), attempt(pay, 1)
    assert (refused.reason, refused.occurrence_id) == ("conflict", asked.occurrence_id)
    assert next_one.occurrence_id != asked.occurrence_id


def test_what_is_observed_under_a_conflict_is_no_result_of_the_other_call() -> None:
    store = Store()
    observing, enforcing = new_guard(store, mode="observe"), new_guard(store)

    def pay(key: str, cents: int) -> int:
        return cents

    observed = observing.tool(effect="write", key="key", name="pay")(pay)
    enforced = enforcing.tool(effect="write", key="key", name="pay")(pay)
    assert [observed("k", 1), observed("k", 2)] == [1, 2]
    assert attempt(enforced, "k", 1) == 1


# -- authority ----------------------------------------------------------------------------------------------------


def test_two_clicks_at_once_are_one_approval() -> None:
    journal, calls = Racing(Store(), "owner"), []
    guard = Guard(journal=journal)

    @guard.tool(effect="write", approval=True, name="pay", contract=Contract(idempotent=True))
    def pay(x: int) -> None:
        calls.append(x)
        raise TimeoutError

    request = attempt(pay, 1).request_id
    others: list[str] = []
    journal.quicker = lambda: others.append(guard.approve(request, by="bob"))
    assert guard.approve(request, by="ann") == others[0]
    results = [attempt(pay, 1) for _ in range(3)]
    assert (len(calls), results[1].reason) == (1, "permit_consumed")


def test_twin_permits_of_one_request_are_one_dispatch() -> None:
    """A store whose writers cannot see each other may hold both: they still admit once."""
    used = next(p for p in PERMITS if p.name == "used")
    one = used.early[0]
    twin = msgspec.structs.replace(one, id="twin")
    events: list[AnyEvent] = [
        opened(),
        Granted(at=START, permit=one),
        Granted(at=START, permit=twin),
        admitted(permits=(one.id,)),
        ended(),
    ]
    head = head_of(events)
    request = Request(
        principal=PRINCIPAL, digest=DIGEST, executor=POLICY.executor, policy_version=POLICY.version, approval=True
    )
    decision = decide(Contract(idempotent=True), head, head.grants, request, POLICY, NOW)
    assert isinstance(decision, Refuse) and decision.reason == "permit_consumed"


def test_somebody_elses_refusal_is_no_delivery() -> None:
    """Ann's process dies before her result is delivered; that Bob is told `already_committed` tells her nothing."""
    store, charges = Store(), itertools.count(1)

    def pay(x: int) -> int:
        return next(charges)

    class Forgetful(MemoryJournal):
        def note(self, change: Change) -> None:
            """The process dies before what it noted is written."""

    first = Guard(journal=Forgetful(store, "first"))
    with readmit.scope("s", principal="ann"), identified(framework="f"):
        assert first.tool(effect="write", name="pay")(pay)(1) == 1
    store.dead = frozenset({"first"})
    again = new_guard(store, "second").tool(effect="write", name="pay")(pay)
    with readmit.scope("s", principal="bob"), identified(framework="f"):
        assert attempt(again, 1).reason == "already_committed"
    with readmit.scope("s", principal="ann"):
        assert again(1) == 1, "ann is charged twice"
