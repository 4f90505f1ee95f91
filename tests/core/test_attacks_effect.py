"""Ways in which an effect was once had twice, lost or misreported: each the smallest history that showed the hole."""

from __future__ import annotations

import asyncio
import itertools
import threading
from collections.abc import Iterator
from datetime import timedelta
from typing import Any

import pytest

import readmit
from readmit import Absent, Approval, Contract, Guard, OperatorError, Present, Refused, Unclear
from readmit._admission import Refuse, decide
from readmit._context import identified
from readmit._contract import Policy
from readmit._fold import Head
from readmit._model import Compensated, Request
from readmit.journal import Change
from tests.core.guards import Racing, attempt, new_guard, only
from tests.core.memory import MemoryJournal, Store
from tests.core.permits import POLICY, RECOVERIES
from tests.core.situations import (
    CONTRACT,
    DIGEST,
    NOW,
    PRINCIPAL,
    REJECTED,
    admitted,
    ended,
    head_of,
    opened,
    said,
    sent,
)


@pytest.fixture
def guard() -> Iterator[Guard]:
    made = new_guard()
    yield made
    made.close()


# -- effect -------------------------------------------------------------------------------------------------------

KEYS = Contract(idempotency_key="Idempotency-Key", key_lifetime=timedelta(hours=24))


def test_a_replay_is_not_justified_by_a_key_that_a_compensation_has_changed(guard: Guard) -> None:
    """A compensation up to an older epoch, as old journals hold them: a newer one is unknown under the old key."""
    keys: list[str] = []

    @guard.tool(effect="write", name="pay", contract=KEYS)
    def pay(x: int) -> None:
        keys.append(readmit.current().idempotency_key)
        raise TimeoutError

    for _ in range(3):
        attempt(pay, 1)
    head = only(guard)
    with pytest.raises(OperatorError, match="moved on to epoch 3"):
        guard.compensate(head.id, epoch=2, by="ann")
    older = Compensated(at=head.admissions[-1].at, fence=2, by="ann")
    guard.ports().journal.append([Change(head.id, (older,))], durable=False)
    refused = attempt(pay, 1)
    assert len(set(keys)) == 1
    assert isinstance(refused, Refused) and refused.reason == "effect_unknown"


def test_an_absence_that_is_too_weak_does_not_make_a_used_acceptance_good_again(guard: Guard) -> None:
    calls: list[int] = []

    def hook(question: readmit.Question) -> Absent | Unclear:
        return Absent(authoritative=True) if len(calls) > 1 else Unclear("not yet")

    @guard.tool(effect="write", name="pay", contract=Contract(accept="protocol"), reconcile=hook)
    def pay(x: int) -> None:
        calls.append(x)
        raise TimeoutError

    attempt(pay, 1)
    guard.accept(only(guard).id, epoch=1, by="ann", statement="it may be there twice")
    results = [attempt(pay, 1) for _ in range(3)]
    assert len(calls) == 2
    assert [type(r) for r in results] == [TimeoutError, readmit.ReplayRefused, readmit.ReplayRefused]


def test_the_bound_of_blind_retries_is_for_good(guard: Guard) -> None:
    calls: list[int] = []

    @guard.tool(effect="write", name="pay", contract=Contract(blind_retries=1))
    def pay(x: int) -> None:
        calls.append(x)
        raise TimeoutError

    for _ in range(3):
        attempt(pay, 1)
    guard.reconcile(only(guard).id, Absent(authoritative=True), by="ann")
    for _ in range(3):
        attempt(pay, 1)
    assert len(calls) == 3, "one, one blind retry, one because it was absent"


def test_what_is_in_flight_cannot_be_found_absent_for_good(guard: Guard) -> None:
    inside, go = threading.Event(), threading.Event()

    @guard.tool(effect="write", name="pay")
    def pay(x: int) -> None:
        inside.set()
        go.wait()
        raise TimeoutError

    first = threading.Thread(target=attempt, args=(pay, 1))
    first.start()
    inside.wait()
    with pytest.raises(OperatorError, match="in flight"):
        guard.reconcile(only(guard).id, Absent(authoritative=True), by="ann")
    go.set()
    first.join()
    assert attempt(pay, 1).reason == "effect_unknown"


def test_a_weakly_rejected_send_without_a_key_is_not_replayed_under_one() -> None:
    head = head_of([opened(), admitted(), sent(), said(REJECTED, CONTRACT, send=1), ended()])
    contract = Contract(accept="protocol", idempotency_key="Idempotency-Key", key_lifetime=timedelta(hours=24))
    request = Request(principal=PRINCIPAL, digest=DIGEST)
    decision = decide(contract, head, head.grants, request, Policy(), NOW)
    assert isinstance(decision, Refuse) and decision.reason == "effect_unknown"


@pytest.mark.parametrize("undo", [False, True], ids=["rejected", "compensated"])
def test_the_result_of_an_effect_that_does_not_stand_is_no_result(guard: Guard, undo: bool) -> None:
    """The second epoch took effect and raised: nobody may read what the first one returned."""
    returned = ["receipt 1" if undo else "declined"]

    @guard.tool(effect="write", name="pay", key="order", classify=lambda v: "rejected" if v == "declined" else None)
    def pay(order: str) -> str:
        if returned:
            return returned.pop()
        readmit.current().record_effect("committed")
        raise TimeoutError

    pay("o")
    if undo:
        journal = guard.ports().journal
        assert isinstance(journal, MemoryJournal)
        guard.compensate(next(iter(journal.store.heads)), epoch=1, by="ann")
        guard.approve(attempt(pay, "o").request_id, by="ann")
    assert isinstance(attempt(pay, "o"), TimeoutError)
    assert attempt(pay, "o").reason == "already_committed"


def test_a_classifier_that_fails_hides_nothing_and_leaves_nothing_in_flight(
    guard: Guard, caplog: pytest.LogCaptureFixture
) -> None:
    @guard.tool(effect="write", name="pay", classify=lambda value: value["status"])
    def pay(x: int) -> dict[str, int]:
        return {"x": x}

    assert pay(1) == {"x": 1}
    assert guard.pending()[0].state == "unknown"
    assert "classify=" in caplog.text


# -- delivery -----------------------------------------------------------------------------------------------------


async def test_a_waiter_that_is_cancelled_in_a_hook_leaves_no_debt_for_ever(guard: Guard) -> None:
    gate, asked, numbers = asyncio.Event(), asyncio.Event(), itertools.count(1)

    async def hook(question: readmit.Question) -> Present:
        if not asked.is_set():
            asked.set()
            await asyncio.Event().wait()
        return Present("seen", result="paid 1")

    @guard.tool(effect="write", name="pay", reconcile=hook)
    async def pay(x: int) -> str:
        number = next(numbers)
        if number == 1:
            await gate.wait()
            raise TimeoutError
        return f"paid {number}"

    first, waiter = asyncio.create_task(pay(1)), None
    while not guard.pending():
        await asyncio.sleep(0)
    waiter = asyncio.create_task(pay(1))
    while not guard.show(guard.pending()[0].occurrence_id).joined:
        await asyncio.sleep(0)
    gate.set()
    with pytest.raises(TimeoutError):
        await first
    await asked.wait()
    waiter.cancel()
    with pytest.raises(asyncio.CancelledError):
        await waiter
    assert [await pay(1) for _ in range(4)] == ["paid 1", "paid 1", "paid 2", "paid 3"]


def test_the_result_of_a_call_inside_reaches_its_reader_with_a_retry_of_the_outer_one(guard: Guard) -> None:
    ran: list[str] = []

    @guard.tool(effect="write", name="inner")
    def inner(x: int) -> str:
        ran.append("inner")
        return "in"

    @guard.tool(effect="write", name="outer", contract=Contract(idempotent=True))
    def outer(x: int) -> str:
        ran.append("outer")
        value = inner(x)
        if ran.count("outer") == 1:
            raise TimeoutError
        return value

    assert isinstance(attempt(outer, 1), TimeoutError)
    assert outer(1) == "in"
    assert (ran, guard.pending()) == (["outer", "inner", "outer"], [])
    assert outer(1) == "in"
    assert ran == ["outer", "inner", "outer", "outer", "inner"], "an intended repeat repeats what is inside, too"


def test_two_equal_calls_inside_stay_two_when_the_outer_one_is_retried(guard: Guard) -> None:
    ran: list[int] = []

    @guard.tool(effect="write", name="inner")
    def inner(x: int) -> int:
        ran.append(x)
        return len(ran)

    @guard.tool(effect="write", name="outer", contract=Contract(idempotent=True))
    def outer(fails: bool = False) -> list[int]:
        results = [inner(7), inner(7)]
        if len(ran) == 2 and not again:
            again.append(True)
            raise TimeoutError
        return results

    again: list[bool] = []
    assert isinstance(attempt(outer), TimeoutError)
    assert (outer(), ran) == ([1, 2], [7, 7])


def test_where_tools_speak_an_inner_effect_is_the_outer_ones(guard: Guard) -> None:
    fate: list[type[Exception]] = []

    @guard.tool(effect="write", name="inner")
    def inner(which: str) -> str:
        if fate:
            raise fate.pop()
        return "in"

    @guard.tool(effect="write", name="outer", contract=Contract(effects_through="tools"))
    def outer(which: str) -> None:
        inner(which)
        raise ValueError("after it")

    for which, inner_error, reason in (("a", None, "already_committed"), ("b", TimeoutError, "effect_unknown")):
        fate[:] = [inner_error] if inner_error else []
        attempt(outer, which)
        assert attempt(outer, which).reason == reason
    fate[:] = [readmit.Rejected]
    assert isinstance(attempt(outer, "c"), readmit.Rejected)
    assert [p for p in guard.pending() if p.state == "rejected"] == []


@pytest.mark.parametrize("through", ["sends", "http", "mixed"])
@pytest.mark.parametrize("error", [readmit.Rejected, readmit.NotSent, ValueError])
def test_an_exception_says_nothing_of_a_guarded_call_inside_that_has_acted(
    guard: Guard, through: Any, error: type[Exception]
) -> None:
    """The outer tool says that nothing happened, and what it called has taken effect: nobody repeats that."""
    paid: list[str] = []

    @guard.tool(effect="write", name="inner")
    def inner() -> str:
        paid.append("inner")
        return "in"

    @guard.tool(effect="write", name="outer", contract=Contract(effects_through=through))
    def outer() -> None:
        inner()
        raise error("after it")

    assert isinstance(attempt(outer), error)
    assert attempt(outer).reason == "effect_unknown"
    assert paid == ["inner"]


def test_a_call_in_its_own_call_stack_is_refused_and_never_waits(guard: Guard) -> None:
    @guard.tool(effect="write", name="pay")
    def pay(x: int) -> Any:
        with identified(framework="f"):
            return attempt(pay, x)

    with identified(framework="f"):
        refused = pay(1)
    assert isinstance(refused, Refused) and refused.reason == "reentrant"


# -- people -------------------------------------------------------------------------------------------------------


def test_an_occurrence_that_moves_on_is_not_abandoned_unseen() -> None:
    """An epoch starts between the look and the record: nobody has said that its effect is given up."""
    journal = Racing(Store(), "owner")
    guard = Guard(journal=journal)
    fates = [readmit.Rejected, TimeoutError]

    @guard.tool(effect="write", name="pay", contract=Contract(rejected=(PermissionError,)))
    def pay(x: int) -> None:
        raise fates.pop(0)

    class Interleaved(MemoryJournal):
        def load(self, occurrence_id: str) -> Head | None:
            head = super().load(occurrence_id)
            if fates:
                attempt(pay, 1)
            return head

    fates[:] = [readmit.NotSent, TimeoutError]
    attempt(pay, 1)
    occurrence = only(guard).id
    slow = Guard(journal=Interleaved(journal.store, "operator"))
    with pytest.raises(OperatorError, match="moved on"):
        slow.abandon(occurrence, by="ann")
    assert attempt(pay, 1).reason == "effect_unknown"


def test_a_denial_is_remembered_for_what_was_shown(guard: Guard) -> None:
    """Before any dispatch the arguments may change; the denial of the first card says nothing of the second's."""

    @guard.tool(effect="write", name="pay", approval=Approval(when=lambda a: bool(a["ask"])), exclude=("ask",))
    def pay(cents: int, ask: bool = True) -> int:
        return cents

    with identified(framework="f"):
        first, second = attempt(pay, 1), attempt(pay, 2)
    guard.deny(first.request_id, by="ann")
    assert isinstance(attempt(pay, 1, False), readmit.ApprovalRequired), "an equal call was denied"
    assert attempt(pay, 2, False).request_id == second.request_id, "the second card still waits"
    guard.approve(second.request_id, by="ann")
    assert attempt(pay, 2, False) == 2


def test_a_denied_call_in_flight_is_ended_by_declaring_it_unknown() -> None:
    denied = next(r for r in RECOVERIES if r.name == "denied")
    head = head_of([opened(), admitted(), *denied.events(1)])
    request = Request(principal=PRINCIPAL, digest=DIGEST, owner_alive=True)
    decision = decide(Contract(), head, head.grants, request, POLICY, NOW)
    assert isinstance(decision, Refuse) and decision.remedies == ("declare_unknown",)
