"""Guarded calls inside guarded tools, and callers that meet: identity, delivery, evidence, reentrancy, joins."""

from __future__ import annotations

import asyncio
import logging
import threading
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest

import readmit
from readmit import Absent, Contract, NotSent, Rejected
from tests.middleware.stage import Stage, attributes, becomes, happens, until


class Office:
    """An outer tool with two inner ones; a list of what was really done, and what the outer one's end raises."""

    def __init__(self, stage: Stage, **outer: Any) -> None:
        self.done: list[str] = []
        self.fault: BaseException | None = None
        self.inner_fault: BaseException | None = None
        tool = stage.guard.tool

        @tool(effect="write", name="book")
        def book(what: str) -> str:
            self.done.append(f"book {what}")
            if self.inner_fault is not None:
                raise self.inner_fault
            return f"booking {len(self.done)}"

        @tool(effect="write", name="mail")
        def mail(to: str) -> str:
            self.done.append(f"mail {to}")
            return f"mail {len(self.done)}"

        @tool(effect="write", name="travel", **outer)
        def travel(to: str) -> list[str]:
            got = [book("train"), book("train"), mail(to)]
            if self.fault is not None:
                raise self.fault
            return got

        self.book, self.mail, self.travel = book, mail, travel


def executed(stage: Stage, name: str = "travel") -> list[dict[str, Any]]:
    return [attributes(s) for s in stage.spans("execute") if s.name == f"execute_tool {name}"]


TOOLS = Contract(effects_through="tools")


def test_inner_calls_are_occurrences_of_their_own_within_the_outer_one(stage: Stage) -> None:
    office = Office(stage)
    assert office.travel("ann") == ["booking 1", "booking 2", "mail 3"]
    assert stage.guard.pending() == []
    outer = executed(stage)[0]["readmit.occurrence.id"]
    inner = {s["readmit.occurrence.id"] for s in map(attributes, stage.spans("execute"))} - {outer}
    assert len(inner) == 3
    assert {stage.guard.show(i).opened.outer for i in inner} == {outer}
    assert {stage.guard.show(i).opened.run for i in inner} == {f"occurrence:{outer}"}


def test_a_retried_outer_call_gets_the_recorded_results_of_the_inner_ones(stage: Stage) -> None:
    office = Office(stage)
    office.fault = TimeoutError()
    with pytest.raises(TimeoutError):
        office.travel("ann")
    assert len(stage.guard.pending()) == 4, "inner results are delivered only with the outer one"
    outer = next(p for p in stage.guard.pending() if p.tool == "travel")
    stage.guard.accept(outer.occurrence_id, epoch=1, by="bob", statement="may be booked twice, they can be returned")
    office.fault = None
    assert office.travel("ann") == ["booking 1", "booking 2", "mail 3"]
    assert office.done == ["book train", "book train", "mail ann"]
    assert stage.guard.pending() == []


def test_a_delivered_outer_call_and_its_inner_ones_are_closed(stage: Stage) -> None:
    office = Office(stage)
    office.travel("ann")
    office.travel("ann")
    assert len(office.done) == 6


def test_inner_calls_meet_no_equal_calls_outside(stage: Stage) -> None:
    office = Office(stage)
    office.fault = TimeoutError()
    with pytest.raises(TimeoutError):
        office.travel("ann")
    assert office.book("train") == "booking 4", "those inside are settled and wait for their own reader"


def test_an_inner_call_whose_effect_is_unknown_holds_equal_calls_outside_back(stage: Stage) -> None:
    office = Office(stage)
    office.inner_fault = TimeoutError()
    with pytest.raises(TimeoutError):
        office.travel("ann")
    office.inner_fault = None
    with pytest.raises(readmit.ReplayRefused):
        office.book("train")


@pytest.mark.parametrize(
    ("inner", "effect"),
    [
        (None, "committed"),
        (TimeoutError(), "unknown"),
        (Rejected("no seats"), "rejected"),
        (NotSent("no line"), "not_sent"),
    ],
)
def test_inner_calls_speak_for_the_outer_one_if_its_contract_says_so(
    stage: Stage, inner: BaseException | None, effect: str
) -> None:
    office = Office(stage, contract=TOOLS)
    office.inner_fault = inner
    office.fault = TimeoutError()
    with pytest.raises(BaseException):  # noqa: B017 - one of the above
        office.travel("ann")
    assert executed(stage)[0]["readmit.effect.state"] == effect


def test_without_that_contract_inner_calls_say_nothing_of_the_outer_one(stage: Stage) -> None:
    office = Office(stage)
    office.inner_fault = Rejected("no seats")
    with pytest.raises(Rejected):
        office.travel("ann")
    assert executed(stage)[0]["readmit.effect.state"] == "rejected", "it is what the outer tool itself raised"

    office.inner_fault = KeyError("seat")
    with pytest.raises(KeyError):
        office.travel("bob")
    assert executed(stage)[1]["readmit.effect.state"] == "unknown"


def test_an_outer_call_that_failed_before_its_inner_ones_has_done_nothing(stage: Stage) -> None:
    done: list[int] = []

    @stage.guard.tool(effect="write", contract=TOOLS)
    def validate(cents: int) -> str:
        if len(done) == 0:
            done.append(cents)
            raise ValueError("cents")
        return "valid"

    with pytest.raises(ValueError):
        validate(5)
    assert validate(5) == "valid"
    assert attributes(stage.spans("execute")[-1])["readmit.admission.justification"] == "not_sent"


def test_one_inner_call_done_and_one_refused_is_unknown_for_the_outer_one(stage: Stage) -> None:
    """`epoch.partial`: calling it committed would bury what is missing, calling it rejected would send twice."""
    tool = stage.guard.tool

    @tool(effect="write")
    def first(n: int) -> str:
        return "done"

    @tool(effect="write")
    def second(n: int) -> str:
        raise Rejected("closed")

    @tool(effect="write", name="both", contract=TOOLS)
    def both(n: int) -> None:
        first(n)
        second(n)

    with pytest.raises(Rejected):
        both(1)
    said = executed(stage, "both")[0]
    assert (said["readmit.effect.state"], said["readmit.effect.rule"]) == ("unknown", "epoch.partial")


def test_the_spans_of_inner_calls_are_children_of_the_outer_epoch(stage: Stage) -> None:
    Office(stage).travel("ann")
    outer = next(s for s in stage.spans("execute") if s.name == "execute_tool travel")
    inner = [s for s in stage.spans("execute") if s is not outer]
    assert len(inner) == 3
    assert {s.parent.span_id for s in inner if s.parent} == {outer.context.span_id if outer.context else 0}


def test_a_read_inside_a_write_is_no_occurrence(stage: Stage) -> None:
    @stage.guard.tool(effect="read")
    def look(what: str) -> str:
        return "seen"

    @stage.guard.tool(effect="write", contract=TOOLS, name="order")
    def order(what: str) -> str:
        raise ValueError(look(what))

    with pytest.raises(ValueError, match="seen"):
        order("seat")
    assert executed(stage, "order")[0]["readmit.effect.state"] == "not_sent"


def test_an_inner_approval_is_asked_for_and_used_within_the_outer_call(filed: Stage) -> None:
    """The outer call has done its work in part (`epoch.partial`); called again, by another process, it does the rest.

    That takes two people's words: the approval of what is missing, and that the outer tool may run once more.
    """
    done: list[str] = []

    def declared(guard: readmit.Guard) -> Callable[[str], str]:
        @guard.tool(effect="write", name="book")
        def book(to: str) -> str:
            done.append(f"book {to}")
            return "booked"

        @guard.tool(effect="write", name="pay", approval=True)
        def pay(to: str) -> str:
            done.append(f"pay {to}")
            return "paid"

        @guard.tool(effect="write", name="order", contract=TOOLS)
        def order(to: str) -> str:
            return f"{book(to)}, {pay(to)}"

        return order

    with pytest.raises(readmit.ApprovalRequired) as asked:
        declared(filed.guard)("ann")
    assert asked.value.tool == "pay"
    order = declared(filed.restart())
    filed.guard.approve(asked.value.request_id or "", by="bob")
    with pytest.raises(readmit.ReplayRefused) as refused:
        order("ann")
    assert attributes(filed.spans("admit")[-1])["readmit.effect.rule"] == "epoch.partial"
    filed.guard.accept(refused.value.occurrence_id, epoch=1, by="bob", statement="what is booked stays booked")
    assert order("ann") == "booked, paid"
    assert done == ["book ann", "pay ann"]
    assert filed.guard.pending() == []


def test_an_outer_call_whose_only_inner_call_was_refused_has_done_nothing(stage: Stage) -> None:
    done: list[str] = []

    @stage.guard.tool(effect="write", approval=True)
    def pay(to: str) -> str:
        done.append(to)
        return "paid"

    @stage.guard.tool(effect="write", name="order", contract=TOOLS)
    def order(to: str) -> str:
        return pay(to)

    with pytest.raises(readmit.ApprovalRequired) as asked:
        order("ann")
    assert executed(stage, "order")[0]["readmit.effect.rule"] == "tools.refused"
    stage.guard.approve(asked.value.request_id or "", by="bob")
    assert order("ann") == "paid"
    assert executed(stage, "order")[1]["readmit.admission.justification"] == "not_sent"
    assert done == ["ann"]


async def test_an_inner_call_that_outlives_the_outer_one_is_delivered_by_itself(stage: Stage) -> None:
    go = asyncio.Event()
    tasks: list[asyncio.Task[str]] = []

    @stage.guard.tool(effect="write")
    async def mail(to: str) -> str:
        await go.wait()
        return "mailed"

    @stage.guard.tool(effect="write")
    async def order(what: str) -> str:
        tasks.append(asyncio.create_task(mail("ann")))
        await asyncio.sleep(0)
        return "ordered"

    assert await order("seat") == "ordered"
    go.set()
    assert await tasks[0] == "mailed"
    assert stage.guard.pending() == []


# -- reentrancy ---------------------------------------------------------------------------------------------------


def test_a_call_inside_itself_is_refused_at_once(stage: Stage) -> None:
    def body(n: int) -> int:
        return int(tool(n))

    tool = stage.guard.tool(effect="write")(body)
    with pytest.raises(readmit.ReplayRefused) as refused:
        tool(1)
    assert refused.value.reason == "reentrant"
    assert "already running" in str(refused.value)


def test_a_recursion_with_other_arguments_is_none(stage: Stage) -> None:
    def body(n: int) -> int:
        return n if n == 0 else int(tool(n - 1)) + n

    tool = stage.guard.tool(effect="write")(body)
    assert tool(4) == 10


async def test_a_task_inside_the_call_is_still_inside(stage: Stage) -> None:
    async def body(n: int) -> int:
        return int(await asyncio.create_task(tool(n)))

    tool = stage.guard.tool(effect="write")(body)
    with pytest.raises(readmit.ReplayRefused) as refused:
        await tool(1)
    assert refused.value.reason == "reentrant"


# -- joins --------------------------------------------------------------------------------------------------------


class Slow:
    """A tool that says when it has begun and ends when it is let go."""

    def __init__(self, guard: readmit.Guard) -> None:
        self.begun, self.go = threading.Event(), threading.Event()
        self.ran = 0
        self.fault: BaseException | None = None

        @guard.tool(effect="write", name="slow")
        def slow(to: str) -> object:
            self.ran += 1
            self.begun.set()
            assert self.go.wait(10)
            if self.fault is not None:
                raise self.fault
            return self.result

        self.result: object = "done"
        self.call: Callable[[str], object] = slow


def joined(stage: Stage) -> bool:
    return any(attributes(s)["readmit.admission.decision"] == "wait" for s in stage.spans("admit"))


def test_a_second_caller_waits_and_shares_the_result() -> None:
    stage = Stage(join_timeout=10.0)
    slow = Slow(stage.guard)
    with ThreadPoolExecutor(2) as pool:
        first = pool.submit(slow.call, "ann")
        slow.begun.wait(10)
        second = pool.submit(slow.call, "ann")
        until(lambda: joined(stage))
        slow.go.set()
        assert (first.result(), second.result()) == ("done", "done")
    assert slow.ran == 1
    assert stage.guard.pending() == [], "both were delivered"
    assert slow.call("ann") == "done"
    assert slow.ran == 2


@pytest.mark.parametrize(
    ("fault", "reason", "state"),
    [
        (TimeoutError(), "effect_unknown", "unknown"),
        (Rejected("no"), "in_flight", "rejected"),
        (NotSent("no"), "in_flight", "not_sent"),
    ],
)
def test_a_second_caller_never_starts_an_epoch_itself(fault: BaseException, reason: str, state: str) -> None:
    stage = Stage(join_timeout=10.0)
    slow = Slow(stage.guard)
    slow.fault = fault
    with ThreadPoolExecutor(2) as pool:
        first = pool.submit(slow.call, "ann")
        slow.begun.wait(10)
        second = pool.submit(slow.call, "ann")
        until(lambda: joined(stage))
        slow.go.set()
        assert first.exception() is fault
        refused = second.exception()
    assert isinstance(refused, readmit.ReplayRefused)
    assert refused.reason == reason
    assert slow.ran == 1
    if reason == "in_flight":
        assert refused.detail == f"the call it joined ended: {state}"


def test_a_result_that_could_not_be_stored_is_not_shared() -> None:
    stage = Stage(join_timeout=10.0)
    slow = Slow(stage.guard)
    slow.result = object()
    with ThreadPoolExecutor(2) as pool:
        first = pool.submit(slow.call, "ann")
        slow.begun.wait(10)
        second = pool.submit(slow.call, "ann")
        until(lambda: joined(stage))
        slow.go.set()
        assert first.result() is slow.result
        refused = second.exception()
    assert isinstance(refused, readmit.ReplayRefused)
    assert refused.reason == "already_committed"
    assert "readmit.result.unstorable" in attributes(stage.spans("execute")[0])


def test_a_second_caller_waits_a_stated_time_and_gets_a_clear_error(
    stage: Stage, caplog: pytest.LogCaptureFixture
) -> None:
    slow = Slow(stage.guard)
    with ThreadPoolExecutor(1) as pool:
        first = pool.submit(slow.call, "ann")
        slow.begun.wait(10)
        with pytest.raises(readmit.ReplayRefused) as refused:
            slow.call("ann")
        assert refused.value.reason == "in_flight"
        assert refused.value.remedies == ("declare_unknown",)
        assert "the first attempt has not ended" in str(refused.value)
        assert len([r for r in caplog.records if r.levelno == logging.WARNING]) == 1
        slow.go.set()
        assert first.result() == "done"
    assert slow.ran == 1
    assert slow.call("ann") == "done"
    assert slow.ran == 1, "the caller that left is owed the result: the next one gets it"
    assert slow.call("ann") == "done"
    assert slow.ran == 2


async def test_a_second_task_waits_without_blocking_the_event_loop() -> None:
    stage = Stage(join_timeout=10.0)
    begun, go = asyncio.Event(), asyncio.Event()
    ran: list[str] = []

    @stage.guard.tool(effect="write")
    async def slow(to: str) -> str:
        ran.append(to)
        begun.set()
        await go.wait()
        return "done"

    first, second = asyncio.create_task(slow("ann")), asyncio.create_task(slow("ann"))
    await happens(begun)
    await becomes(lambda: joined(stage))
    go.set()
    assert list(await asyncio.gather(first, second)) == ["done", "done"]
    assert ran == ["ann"]


async def test_a_waiter_that_is_cancelled_leaves_what_it_was_owed_to_the_next_call() -> None:
    stage = Stage(join_timeout=10.0)
    begun, go = asyncio.Event(), asyncio.Event()
    ran: list[str] = []

    @stage.guard.tool(effect="write")
    async def slow(to: str) -> str:
        ran.append(to)
        begun.set()
        await go.wait()
        return "done"

    first, second = asyncio.create_task(slow("ann")), asyncio.create_task(slow("ann"))
    await happens(begun)
    await becomes(lambda: joined(stage))
    second.cancel()
    with pytest.raises(asyncio.CancelledError):
        await second
    go.set()
    assert await first == "done"
    assert await slow("ann") == "done"
    assert ran == ["ann"]
    assert await slow("ann") == "done"
    assert ran == ["ann", "ann"]


def test_a_caller_that_was_cancelled_in_flight_is_declared_unknown_and_its_late_outcome_settles_it() -> None:
    stage = Stage(join_timeout=10.0)
    slow = Slow(stage.guard)
    with ThreadPoolExecutor(1) as pool:
        first = pool.submit(slow.call, "ann")
        slow.begun.wait(10)
        pending = stage.waiting()
        assert (pending.state, pending.remedies) == ("in_flight", ("declare_unknown",))
        with pytest.raises(readmit.OperatorError, match="declare it unknown first"):
            stage.guard.abandon(pending.occurrence_id, by="bob", statement="gone")
        with pytest.raises(readmit.OperatorError, match="declare it unknown first"):
            stage.guard.accept(pending.occurrence_id, epoch=1, by="bob", statement="may be there")
        stage.guard.declare_unknown(pending.occurrence_id, epoch=1, by="bob")
        with pytest.raises(readmit.ReplayRefused) as refused:
            slow.call("ann")
        assert refused.value.reason == "effect_unknown"
        slow.go.set()
        assert first.result() == "done", "its own caller gets what came late"
    assert stage.guard.pending() == []
    assert attributes(stage.spans("execute")[0])["readmit.effect.state"] == "committed"


def test_a_late_outcome_settles_its_own_epoch_only() -> None:
    stage = Stage(join_timeout=10.0)
    slow = Slow(stage.guard)
    with ThreadPoolExecutor(1) as pool:
        first = pool.submit(slow.call, "ann")
        slow.begun.wait(10)
        pending = stage.waiting()
        stage.guard.declare_unknown(pending.occurrence_id, epoch=1, by="bob")
        stage.guard.accept(pending.occurrence_id, epoch=1, by="bob", statement="may happen twice")
        other = ThreadPoolExecutor(1)
        slow.begun.clear()
        second = other.submit(slow.call, "ann")
        slow.begun.wait(10)
        slow.fault = NotSent("late")
        slow.go.set()
        assert isinstance(first.exception(), NotSent)
        assert isinstance(second.exception(), NotSent)
        other.shutdown()
    head = stage.guard.show(pending.occurrence_id)
    assert [e.state for e in head.epochs()] == ["not_sent", "not_sent"]
    assert slow.ran == 2


def test_absence_that_is_found_while_an_epoch_runs_frees_nothing() -> None:
    stage = Stage(join_timeout=0.01)
    slow = Slow(stage.guard)
    with ThreadPoolExecutor(1) as pool:
        first = pool.submit(slow.call, "ann")
        slow.begun.wait(10)
        pending = stage.waiting()
        with pytest.raises(readmit.OperatorError, match="declare it unknown first"):
            stage.guard.reconcile(pending.occurrence_id, Absent(authoritative=True), epoch=1, by="bob")
        with pytest.raises(readmit.ReplayRefused):
            slow.call("ann")
        slow.go.set()
        first.result()
    assert slow.ran == 1


# -- inner calls that outlive the outer one ---------------------------------------------------------------------------


class Gathering:
    """An outer tool that fails while a guarded call inside is under way, or has not begun."""

    def __init__(self, stage: Stage, contract: Contract, *, approval: bool = False) -> None:
        self.paid: list[str] = []
        self.go, self.inside, self.over = asyncio.Event(), asyncio.Event(), asyncio.Event()
        self.starts_late = False
        self.fails: BaseException | None = ValueError("no stock")
        self.attempts = 0
        tool = stage.guard.tool

        @tool(effect="write", name="pay")
        async def pay(reference: str) -> str:
            self.inside.set()
            await self.go.wait()
            self.paid.append(reference)
            return reference

        async def paying(reference: str) -> None:
            if self.starts_late:
                await self.go.wait()
            await pay(reference)
            self.over.set()

        @tool(effect="write", name="order", contract=contract, approval=approval)
        async def order() -> None:
            self.attempts += 1
            self.task = asyncio.create_task(paying(f"attempt {self.attempts}"))
            if not self.starts_late:
                await self.inside.wait()
            if self.fails is not None:
                raise self.fails

        self.order = order


@pytest.mark.parametrize("starts_late", [False, True], ids=["under way", "not begun"])
@pytest.mark.parametrize("through", ["http", "tools", "sends", "mixed"])
async def test_a_tool_that_fails_beside_an_inner_call_does_not_read_as_not_sent(
    stage: Stage, through: Any, starts_late: bool
) -> None:
    gathering = Gathering(stage, Contract(effects_through=through))
    gathering.starts_late = starts_late
    with pytest.raises(ValueError, match="no stock"):
        await gathering.order()
    outer = executed(stage, "order")[0]["readmit.occurrence.id"]
    if not starts_late:
        assert stage.guard.show(outer).effects().state == "unknown"
    gathering.go.set()
    await gathering.task
    assert stage.guard.show(outer).effects().state == ("committed" if through == "tools" else "unknown")
    with pytest.raises(readmit.ReplayRefused):
        await gathering.order()
    assert gathering.paid == ["attempt 1"]


async def test_one_approval_does_not_serve_two_dispatches_of_what_an_inner_call_does(stage: Stage) -> None:
    gathering = Gathering(stage, Contract(effects_through="http"), approval=True)
    with pytest.raises(readmit.ApprovalRequired) as asked:
        await gathering.order()
    assert asked.value.request_id is not None
    stage.guard.approve(asked.value.request_id, by="ann")
    with pytest.raises(ValueError, match="no stock"):
        await gathering.order()
    gathering.go.set()
    await gathering.task
    with pytest.raises(readmit.ApprovalRequired):
        await gathering.order()
    assert gathering.paid == ["attempt 1"]


async def test_an_inner_call_may_go_on_after_its_outer_one_returned(stage: Stage) -> None:
    """Fire and forget: nothing is blocked, and the outer call is done."""
    gathering = Gathering(stage, TOOLS)
    gathering.fails, gathering.starts_late = None, True
    await gathering.order()
    gathering.go.set()
    await gathering.task
    outer = executed(stage, "order")[0]["readmit.occurrence.id"]
    assert stage.guard.show(outer).effects().state == "committed"
    assert gathering.paid == ["attempt 1"]
    assert stage.guard.pending() == []


def test_a_tool_of_another_guard_inside_keeps_its_own_journal(stage: Stage, tmp_path: Path) -> None:
    """What is delivered with the outer call is noted where it is kept; the outer guard's journal goes on."""
    other = readmit.Guard(journal=tmp_path / "other.db")
    done: list[str] = []

    @other.tool(effect="write", name="inner")
    def inner(what: str) -> str:
        done.append(what)
        return what

    @stage.guard.tool(effect="write", name="outer")
    def outer(what: str) -> str:
        return inner(what)

    for what in ("a", "b", "b"):
        assert outer(what) == what
    assert done == ["a", "b", "b"]
    assert stage.guard.pending() == other.pending() == []
    other.close()


def test_what_a_thread_records_after_its_tool_has_ended_settles_that_epoch(stage: Stage) -> None:
    go = threading.Event()
    threads: list[threading.Thread] = []

    @stage.guard.tool(effect="write", name="pay", contract=Contract(effects_through="http"))
    def pay() -> None:
        def later() -> None:
            assert go.wait(10)
            readmit.current().record_effect("committed")

        threads.append(threading.Thread(target=readmit.bind(later)))
        threads[-1].start()
        raise ValueError("given up")

    with pytest.raises(ValueError, match="given up"):
        pay()
    go.set()
    threads[0].join()
    with pytest.raises(readmit.ReplayRefused, match="already there"):
        pay()
    assert len(threads) == 1
