"""A call that is broken off at an awkward moment: what stands in the journal afterwards, and what a repeat gets."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable
from datetime import timedelta
from typing import Any

import pytest

import readmit
from readmit import Approval, ApprovalRequired, Batch, Contract, JournalUnavailable, ModelCall, ReplayRefused
from readmit.journal import _file
from tests.middleware.stage import Stage, becomes


class Disk:
    """Stands before `fsync`: a call can be held there, and what the disk then says is up to the test."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.real = _file.sync
        self.reached, self.go = threading.Event(), threading.Event()
        self.says: BaseException | None = None
        monkeypatch.setattr(_file, "sync", self)

    def __call__(self, descriptor: int) -> None:
        self.reached.set()
        assert self.go.wait(10)
        if self.says is not None:
            raise self.says
        self.real(descriptor)


@pytest.fixture
def disk(monkeypatch: pytest.MonkeyPatch, filed: Stage) -> Disk:
    filed.guard.ports()  # what opening the file writes is not meant
    return Disk(monkeypatch)


async def cancelled_while_its_intent_is_written(stage: Stage, disk: Disk, says: BaseException | None) -> list[str]:
    ran: list[str] = []

    @stage.guard.tool(effect="write", name="pay")
    async def pay(order: str) -> None:
        ran.append(order)

    task = asyncio.create_task(pay("o1"))
    await becomes(disk.reached.is_set)
    task.cancel()
    await asyncio.sleep(0.02)
    disk.says = says
    disk.go.set()
    with pytest.raises(asyncio.CancelledError):
        await task
    assert ran == []
    disk.says = None
    await pay("o1")
    return ran


@pytest.mark.parametrize("mode", ["enforce", "observe"])
@pytest.mark.parametrize("says", [None, OSError(5, "Input/output error")], ids=["durable", "not durable"])
def test_cancelled_while_the_intent_is_written(filed: Stage, disk: Disk, says: OSError | None, mode: str) -> None:
    """Durable or not: the body never began, its epoch is settled as that, and a repeat is free to run."""
    filed.given["mode"] = mode
    filed.restart()
    filed.guard.ports()
    disk.reached.clear()
    assert asyncio.run(cancelled_while_its_intent_is_written(filed, disk, says)) == ["o1"]
    first = filed.heads()[0]
    (epoch, *_) = first.epochs()
    assert epoch.ended is not None
    assert (epoch.ended.outcome, epoch.ended.claim and epoch.ended.claim.state) == ("cancelled", "not_sent")
    assert not first.in_flight


@pytest.mark.parametrize("error", [KeyboardInterrupt(), SystemExit(3)], ids=["interrupt", "exit"])
def test_interrupted_while_the_intent_is_written(filed: Stage, disk: Disk, error: BaseException) -> None:
    """The interrupt arrives after the row is written: it goes on to the caller, and no epoch stays in flight."""
    ran: list[str] = []
    pay = filed.guard.tool(effect="write", name="pay")(ran.append)
    disk.says = error
    disk.go.set()
    with pytest.raises(type(error)):
        pay("o1")
    disk.says = None
    assert ran == []
    pay("o1")
    assert ran == ["o1"]
    assert not filed.heads()[0].in_flight


def test_an_intent_that_may_not_be_durable_is_not_run(filed: Stage, disk: Disk) -> None:
    ran: list[str] = []
    pay = filed.guard.tool(effect="write", name="pay")(ran.append)
    disk.says = OSError(5, "Input/output error")
    disk.go.set()
    with pytest.raises(JournalUnavailable):
        pay("o1")
    disk.says = None
    pay("o1")
    assert ran == ["o1"]


@pytest.mark.parametrize("error", [KeyboardInterrupt, SystemExit])
def test_an_exit_while_a_result_is_classified_goes_on(stage: Stage, error: type[BaseException]) -> None:
    """First the record: the effect is unknown. Then the exit, which is nobody's to swallow."""
    ran: list[int] = []

    def classify(result: object) -> str:
        raise error

    @stage.guard.tool(effect="write", name="pay", classify=classify)
    def pay(cents: int) -> int:
        ran.append(cents)
        return cents

    with pytest.raises(error):
        pay(5)
    assert stage.waiting().state == "unknown"
    with pytest.raises(ReplayRefused, match="may have had its effect"):
        pay(5)
    assert ran == [5]


@pytest.mark.parametrize("error", [KeyboardInterrupt(), TimeoutError("soft time limit")], ids=["interrupt", "signal"])
def test_what_breaks_off_the_record_of_an_end_leaves_no_epoch_in_flight(
    filed: Stage, monkeypatch: pytest.MonkeyPatch, error: BaseException
) -> None:
    """An interrupt, or what a signal handler raises, while the journal is waited for: the tool has returned."""
    ran: list[str] = []

    @filed.guard.tool(effect="write", name="pay")
    def pay(order: str) -> str:
        ran.append(order)
        monkeypatch.setattr(journal, "append", breaks)
        return "paid"

    journal = filed.guard.ports().journal

    def breaks(*changes: object, **how: object) -> None:
        monkeypatch.undo()
        raise error

    with pytest.raises(type(error)):
        pay("o1")
    head = filed.heads()[0]
    assert (head.in_flight, head.effects().state) == ((), "committed")
    assert pay("o1") == "paid", "its result was kept, and nobody has had it"
    assert ran == ["o1"]


def joined(call: Callable[[str], Any], inside: threading.Event, go: threading.Event) -> list[Any]:
    """What two callers get, of which the second comes while the first is in the body."""
    got: list[Any] = [None, None]

    def caller(number: int) -> None:
        try:
            got[number] = call("x")
        except Exception as error:
            got[number] = error

    threads = [threading.Thread(target=caller, args=(n,)) for n in range(2)]
    threads[0].start()
    assert inside.wait(10)
    threads[1].start()
    threading.Event().wait(0.2)  # it looks, finds the first one in flight, and waits
    go.set()
    for thread in threads:
        thread.join()
    return got


def test_a_caller_who_joined_an_approved_read_gets_its_result() -> None:
    stage = Stage(join_timeout=10)
    inside, go = threading.Event(), threading.Event()

    @stage.guard.tool(effect="read", approval=True, name="look")
    def look(query: str) -> str:
        inside.set()
        assert go.wait(10)
        return f"seen {query}"

    with pytest.raises(ApprovalRequired) as asked:
        look("x")
    assert asked.value.request_id is not None
    stage.guard.approve(asked.value.request_id, by="ann")
    assert joined(look, inside, go) == ["seen x", "seen x"]
    assert stage.guard.pending() == []


def test_a_caller_who_joined_somebody_elses_read_does_not_get_its_result() -> None:
    """One key, two principals: what was looked up for one is not for the other."""
    stage = Stage(join_timeout=10)
    inside, go = threading.Event(), threading.Event()

    @stage.guard.tool(effect="read", approval=True, key="query", name="look")
    def look(query: str) -> str:
        inside.set()
        assert go.wait(10)
        return f"seen for {readmit.current().head.opened.principal}"

    who = iter(("ann", "bob"))

    def looking(query: str) -> str:
        with readmit.scope("shop", principal=next(who)):
            return look(query)

    with readmit.scope("shop", principal="ann"), pytest.raises(ApprovalRequired) as asked:
        look("x")
    assert asked.value.request_id is not None
    stage.guard.approve(asked.value.request_id, by="carol")
    first, second = joined(looking, inside, go)
    assert first == "seen for ann"
    assert isinstance(second, readmit.Refused), second


def test_a_stray_send_is_seen_however_many_threads_there_are(stage: Stage) -> None:
    """Epochs come and go in other threads while one looks for sends that are not its own."""
    over = threading.Event()
    failed: list[BaseException] = []

    @stage.guard.tool(effect="write", contract=Contract(effects_through="http"), name="pay")
    def pay(order: int) -> int:
        return order

    def many(thread: int) -> None:
        try:
            for number in range(150):
                pay(thread * 1_000 + number)
        except BaseException as error:
            failed.append(error)
        finally:
            over.set()

    threads = [threading.Thread(target=many, args=(n,)) for n in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert failed == []
    assert over.is_set()


async def test_a_cancellation_outlives_a_permit_that_ran_out_meanwhile(filed: Stage, disk: Disk) -> None:
    ran: list[str] = []
    disk.go.set()

    @filed.guard.tool(effect="write", name="pay", approval=Approval(expires=timedelta(minutes=5)))
    async def pay(order: str) -> None:
        ran.append(order)

    with pytest.raises(ApprovalRequired) as asked:
        await pay("o1")
    assert asked.value.request_id is not None
    filed.guard.approve(asked.value.request_id, by="ann")
    disk.go.clear()
    disk.reached.clear()
    task = asyncio.create_task(pay("o1"))
    await becomes(disk.reached.is_set)
    task.cancel()
    await asyncio.sleep(0.02)
    filed.clock.advance(timedelta(minutes=6))
    disk.go.set()
    with pytest.raises(asyncio.CancelledError):
        await task
    assert ran == []


async def test_a_delivery_that_is_cancelled_before_it_begins_is_made_later(filed: Stage, disk: Disk) -> None:
    disk.go.set()
    batch = Batch("r1", [ModelCall(tool="ask", call_id="c1")], guard=filed.guard)
    batch.add("yes", call_id="c1")
    disk.go.clear()
    disk.reached.clear()
    handed: list[object] = []

    async def deliver() -> None:
        async with batch.deliver() as outputs:
            handed.append(outputs)

    task = asyncio.create_task(deliver())
    await becomes(disk.reached.is_set)
    task.cancel()
    await asyncio.sleep(0.02)
    disk.go.set()
    with pytest.raises(asyncio.CancelledError):
        await task
    assert (handed, batch.correlation().pending) == ([], ())
    await deliver()
    assert (len(handed), batch.state) == (1, "accepted")


@pytest.mark.parametrize("error", [KeyboardInterrupt(), SystemExit(3)], ids=["interrupt", "exit"])
def test_a_delivery_that_is_interrupted_before_it_begins_is_made_later(
    filed: Stage, disk: Disk, error: BaseException
) -> None:
    disk.go.set()
    batch = Batch("r1", [ModelCall(tool="ask", call_id="c1")], guard=filed.guard)
    batch.add("yes", call_id="c1")
    disk.says = error
    with pytest.raises(type(error)), batch.deliver():
        raise AssertionError("delivered")
    disk.says = None
    with batch.deliver() as outputs:
        assert [output.payload for output in outputs] == ["yes"]
    assert batch.state == "accepted"


async def test_a_cancellation_outlives_arguments_that_were_changed_meanwhile(filed: Stage, disk: Disk) -> None:
    ran: list[int] = []
    disk.go.set()

    @filed.guard.tool(effect="write", name="pay", approval=True)
    async def pay(order: dict[str, int]) -> None:
        ran.append(order["cents"])

    order = {"cents": 5}
    with pytest.raises(ApprovalRequired) as asked:
        await pay(order)
    filed.guard.approve(asked.value.request_id or "", by="ann")
    disk.go.clear()
    disk.reached.clear()
    task = asyncio.create_task(pay(order))
    await becomes(disk.reached.is_set)
    task.cancel()
    await asyncio.sleep(0.02)
    order["cents"] = 5000
    disk.go.set()
    with pytest.raises(asyncio.CancelledError):
        await task
    assert ran == []
    (waiting,) = filed.guard.pending()
    assert waiting.state == "not_sent"
    await pay({"cents": 5})
    assert ran == [5]
