"""Function, coroutine, generator, async generator: when an epoch begins, how it ends, what is current meanwhile."""

from __future__ import annotations

import asyncio
import gc
import threading
import traceback
import weakref
from collections.abc import AsyncIterator, Callable, Coroutine, Generator, Iterator
from typing import Any, Literal

import pytest
from opentelemetry import trace

import readmit
from readmit._model import Ended, Outcome
from readmit.journal import SQLiteJournal
from tests.middleware.stage import Stage, attributes, happens


def last(stage: Stage) -> tuple[str, str]:
    """Effect and rule on the newest epoch's span."""
    said = attributes(stage.spans("execute")[-1])
    return said["readmit.effect.state"], said["readmit.effect.rule"]


def outcomes(stage: Stage) -> list[Outcome]:
    """How the epochs of the one occurrence ended."""
    head = stage.guard.show(attributes(stage.spans("execute")[-1])["readmit.occurrence.id"])
    return [event.outcome for _, event in head.effect if isinstance(event, Ended)]


def current_name() -> str:
    return getattr(trace.get_current_span(), "name", "")


# -- function -----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("error", [KeyboardInterrupt, SystemExit, GeneratorExit])
def test_what_stops_the_program_leaves_the_effect_unknown(stage: Stage, error: type[BaseException]) -> None:
    @stage.guard.tool(effect="write")
    def send(to: str) -> None:
        raise error

    with pytest.raises(error):
        send("ann")
    assert last(stage) == ("unknown", "tool.cancelled")
    assert outcomes(stage) == [Outcome.CANCELLED]
    with pytest.raises(readmit.ReplayRefused):
        send("ann")


def test_the_span_is_current_while_the_body_runs(stage: Stage) -> None:
    @stage.guard.tool(effect="write", name="send")
    def send(to: str) -> str:
        return current_name()

    assert send("ann") == "execute_tool send"
    assert current_name() == ""


# -- coroutine ----------------------------------------------------------------------------------------------------


async def test_nothing_happens_before_a_coroutine_is_awaited(stage: Stage) -> None:
    @stage.guard.tool(effect="write")
    async def send(to: str) -> str:
        return "sent"

    made = send("ann")
    assert stage.guard.pending() == []
    assert await made == "sent"
    assert last(stage) == ("committed", "tool.return")


async def test_a_cancelled_body_leaves_the_effect_unknown(stage: Stage) -> None:
    begun = asyncio.Event()

    @stage.guard.tool(effect="write")
    async def send(to: str) -> None:
        begun.set()
        await asyncio.Event().wait()

    task = asyncio.create_task(send("ann"))
    await happens(begun)
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    assert last(stage) == ("unknown", "tool.cancelled")
    with pytest.raises(readmit.ReplayRefused):
        await send("ann")


async def test_a_timeout_around_a_coroutine_leaves_the_effect_unknown(stage: Stage) -> None:
    @stage.guard.tool(effect="write")
    async def send(to: str) -> None:
        limit.reschedule(asyncio.get_running_loop().time())
        await asyncio.Event().wait()

    with pytest.raises(TimeoutError):
        async with asyncio.timeout(None) as limit:
            await send("ann")
    assert last(stage) == ("unknown", "tool.cancelled")


class Slow(SQLiteJournal):
    """A journal whose intents wait at a gate before they are written."""

    def __init__(self, path: Any) -> None:
        super().__init__(path)
        self.arrived, self.gate = threading.Event(), threading.Event()
        self.gate.set()

    def append(self, changes: Any, *, durable: bool) -> Any:
        if durable and threading.current_thread() is not threading.main_thread():
            self.arrived.set()
            assert self.gate.wait(10)
        return super().append(changes, durable=durable)


async def cancelled_at_the_gate(journal: Slow, call: Coroutine[Any, Any, Any]) -> None:
    """Cancels a call while its intent is being written, and lets the write go on."""
    journal.arrived.clear()
    journal.gate.clear()
    task = asyncio.create_task(call)
    await asyncio.to_thread(journal.arrived.wait, 10)
    task.cancel()
    await asyncio.sleep(0)
    journal.gate.set()
    with pytest.raises(asyncio.CancelledError):
        await task


async def test_a_call_cancelled_before_dispatch_is_proved_not_sent_and_gives_its_claim_back(tmp_path: Any) -> None:
    journal = Slow(tmp_path / "readmit.db")
    stage = Stage(journal)
    ran: list[str] = []

    @stage.guard.tool(effect="write", approval=True)
    async def send(to: str) -> str:
        ran.append(to)
        return "sent"

    with pytest.raises(readmit.ApprovalRequired) as asked:
        await send("ann")
    assert asked.value.request_id is not None
    permit = stage.guard.approve(asked.value.request_id, by="bob")

    await cancelled_at_the_gate(journal, send("ann"))
    assert ran == []
    assert last(stage) == ("not_sent", "cancelled_before_dispatch")
    assert attributes(stage.spans("execute")[-1])["readmit.effect.strength"] == "proof"

    assert await send("ann") == "sent", "the claim was given back: the same approval serves the next epoch"
    assert [attributes(s).get("readmit.permit.id") for s in stage.spans("execute")] == [permit, permit]
    assert attributes(stage.spans("execute")[-1])["readmit.admission.justification"] == "not_sent"


async def test_an_acceptance_is_given_back_like_a_permit(tmp_path: Any) -> None:
    journal = Slow(tmp_path / "readmit.db")
    stage = Stage(journal)
    faults: list[Exception] = [TimeoutError()]

    @stage.guard.tool(effect="write")
    async def send(to: str) -> str:
        if faults:
            raise faults.pop()
        return "sent"

    with pytest.raises(TimeoutError):
        await send("ann")
    stage.guard.accept(stage.waiting().occurrence_id, epoch=1, by="bob", statement="twice is fine")
    await cancelled_at_the_gate(journal, send("ann"))
    assert await send("ann") == "sent"
    told = [attributes(s)["readmit.admission.justification"] for s in stage.spans("execute")]
    assert told == ["first_attempt", "ambiguity_accepted", "ambiguity_accepted"]


async def test_a_cancellation_is_not_lost_when_the_intent_has_to_be_decided_again(tmp_path: Any) -> None:
    """Another caller is quicker: the write fails as stale, and the cancelled call must not look again and run."""
    journal = Slow(tmp_path / "readmit.db")
    stage = Stage(journal)
    ran: list[str] = []

    @stage.guard.tool(effect="write", name="send")
    async def send(to: str) -> None:
        ran.append("slow")

    other = readmit.Guard(journal=journal)

    @other.tool(effect="write", name="send")
    def quick(to: str) -> None:
        ran.append("quick")
        raise TimeoutError

    journal.arrived.clear()
    journal.gate.clear()
    task = asyncio.create_task(send("ann"))
    await asyncio.to_thread(journal.arrived.wait, 10)
    with pytest.raises(TimeoutError):
        quick("ann")
    task.cancel()
    await asyncio.sleep(0)
    journal.gate.set()
    with pytest.raises(asyncio.CancelledError):
        await task
    assert ran == ["quick"]
    other.close()


# -- generator ----------------------------------------------------------------------------------------------------


def numbers(guard: readmit.Guard, until: int = 3, seen: list[object] | None = None) -> Callable[..., Any]:
    """A tool that yields 0, 1, 2 … and puts down what it is sent."""

    @guard.tool(effect="write", name="numbers")
    def numbers(to: str) -> Generator[int, object, str]:
        for n in range(until):
            try:
                sent = yield n
            except ValueError as error:
                sent = error
            if seen is not None:
                seen.append(sent)
        return "all"

    return numbers


def test_a_generator_begins_at_the_first_next_and_commits_at_exhaustion(stage: Stage) -> None:
    items = numbers(stage.guard)("ann")
    assert stage.spans() == []
    assert stage.guard.pending() == []
    assert next(items) == 0
    assert stage.waiting().state == "in_flight"
    assert list(items) == [1, 2]
    assert last(stage) == ("committed", "tool.return")
    assert stage.guard.pending() == []


def test_what_a_consumer_sends_and_throws_reaches_the_generator(stage: Stage) -> None:
    seen: list[object] = []
    items = numbers(stage.guard, seen=seen)("ann")
    error = ValueError("odd")
    assert next(items) == 0
    assert items.send("hello") == 1
    assert items.throw(error) == 2
    with pytest.raises(StopIteration) as stop:
        items.send("bye")
    assert stop.value.value == "all"
    assert seen == ["hello", error, "bye"]


@pytest.mark.parametrize("end", ["close", "collected", "loop left"])
def test_a_generator_that_is_left_early_leaves_the_effect_unknown(stage: Stage, end: str) -> None:
    tool = numbers(stage.guard)
    items = tool("ann")
    next(items)
    match end:
        case "close":
            items.close()
        case "collected":
            holder: list[Any] = [items]
            holder.append(holder)
            del items, holder
            gc.collect()
        case _:
            del items
    assert last(stage) == ("unknown", "tool.cancelled")
    with pytest.raises(readmit.ReplayRefused):
        next(tool("ann"))


@pytest.mark.parametrize("effect", ["read", "write"])
def test_a_generator_that_is_collected_in_whatever_order_is_settled(
    stage: Stage, effect: Literal["read", "write"]
) -> None:
    """The collector may close the steps of a call before the generator that drives them."""

    @stage.guard.tool(effect=effect)
    def generator(to: str) -> Iterator[int]:
        yield 1

    items: Any = generator("ann")
    next(items)
    items.gi_frame.f_locals["answers"]._steps.close()
    items.close()
    assert len(stage.spans("execute")) == 1
    if effect == "write":
        assert last(stage) == ("unknown", "tool.cancelled")
        assert (stage.waiting().state, outcomes(stage)) == ("unknown", [Outcome.CANCELLED])


async def test_a_coroutine_that_is_collected_in_whatever_order_is_settled(stage: Stage) -> None:
    begun = asyncio.Event()

    @stage.guard.tool(effect="write")
    async def hang(to: str) -> None:
        begun.set()
        await asyncio.Event().wait()

    task = asyncio.create_task(hang("ann"))
    await happens(begun)
    coroutine: Any = task.get_coro()
    coroutine.cr_await.cr_frame.f_locals["answers"]._steps.close()
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    assert last(stage) == ("unknown", "tool.cancelled")
    assert (stage.waiting().state, outcomes(stage)) == ("unknown", [Outcome.CANCELLED])


def test_a_generator_that_was_never_begun_has_done_nothing(stage: Stage) -> None:
    tool = numbers(stage.guard)
    tool("ann").close()
    assert stage.guard.pending() == []
    assert list(tool("ann")) == [0, 1, 2]


def test_an_error_that_the_consumer_throws_and_nobody_catches_is_the_tools(stage: Stage) -> None:
    items = numbers(stage.guard)("ann")
    next(items)
    error = KeyError("k")
    with pytest.raises(KeyError) as raised:
        items.throw(error)
    assert raised.value is error
    assert last(stage) == ("unknown", "tool.raised")


def test_a_generator_that_ends_with_an_error_leaves_the_effect_unknown(stage: Stage) -> None:
    @stage.guard.tool(effect="write")
    def half(to: str) -> Iterator[int]:
        yield 1
        raise ConnectionError

    with pytest.raises(ConnectionError):
        list(half("ann"))
    assert last(stage) == ("unknown", "tool.raised")


def test_a_generators_span_and_frame_are_current_only_in_its_own_body(stage: Stage) -> None:
    inside: list[tuple[str, int]] = []

    @stage.guard.tool(effect="write", name="rows")
    def rows(to: str) -> Iterator[int]:
        for n in range(2):
            inside.append((current_name(), readmit.current().number))
            yield n
        inside.append((current_name(), readmit.current().number))

    with stage.provider.get_tracer("consumer").start_as_current_span("consumer"):
        for _ in rows("ann"):
            assert current_name() == "consumer"
            with pytest.raises(readmit.ReadmitError):
                readmit.current()
    assert inside == [("execute_tool rows", 1)] * 3


def test_a_generator_belongs_to_where_it_was_called(stage: Stage) -> None:
    """A web framework iterates what a handler returned later, in another thread, and outside of every scope."""
    with readmit.scope("conversation-7", principal="ann"):
        items = numbers(stage.guard, seen=[])("ann")
    got: list[int] = []
    thread = threading.Thread(target=lambda: got.extend(items))
    thread.start()
    thread.join()
    assert got == [0, 1, 2]
    assert attributes(stage.spans("execute")[-1])["gen_ai.conversation.id"] == "conversation-7"


def test_the_items_of_a_generator_are_not_recorded(stage: Stage) -> None:
    tool = numbers(stage.guard)
    with readmit.run("task-1"):
        assert list(tool("ann")) == [0, 1, 2]
    with readmit.run("task-1"), pytest.raises(readmit.ReplayRefused) as refused:
        list(tool("ann"))
    assert refused.value.reason == "already_committed"


def test_a_read_only_generator_writes_one_span_when_it_ends(stage: Stage) -> None:
    @stage.guard.tool(effect="read")
    def rows(of: str) -> Iterator[int]:
        yield 1
        yield 2

    items = rows("ann")
    assert next(items) == 1
    assert stage.spans() == []
    assert list(items) == [2]
    assert len(stage.spans()) == 1


# -- async generator ----------------------------------------------------------------------------------------------


def stream(guard: readmit.Guard, seen: list[object]) -> Callable[[str], Any]:
    @guard.tool(effect="write", name="stream")
    async def stream(to: str) -> Any:
        try:
            for n in range(3):
                seen.append(current_name())
                await asyncio.sleep(0)
                try:
                    seen.append((yield n))
                except ValueError as error:
                    seen.append(error)
        finally:
            seen.append(f"closed in {current_name()}")

    return stream


async def test_an_async_generator_begins_at_the_first_anext_and_commits_at_exhaustion(stage: Stage) -> None:
    seen: list[object] = []
    items = stream(stage.guard, seen)("ann")
    assert stage.spans() == []
    assert [n async for n in items] == [0, 1, 2]
    assert last(stage) == ("committed", "tool.return")
    assert seen.count("execute_tool stream") == 3


async def test_asend_and_athrow_reach_an_async_generator(stage: Stage) -> None:
    seen: list[object] = []
    items = stream(stage.guard, seen)("ann")
    error = ValueError("odd")
    assert await items.asend(None) == 0
    assert await items.asend("hello") == 1
    assert await items.athrow(error) == 2
    with pytest.raises(StopAsyncIteration):
        await items.asend("bye")
    assert [s for s in seen if s != "execute_tool stream"] == ["hello", error, "bye", "closed in execute_tool stream"]


async def test_an_async_generator_that_is_closed_leaves_the_effect_unknown(stage: Stage) -> None:
    seen: list[object] = []
    tool = stream(stage.guard, seen)
    items = tool("ann")
    assert await anext(items) == 0
    await items.aclose()
    assert seen[-1] == "closed in execute_tool stream"
    assert last(stage) == ("unknown", "tool.cancelled")
    with pytest.raises(readmit.ReplayRefused):
        await anext(tool("ann"))


def test_an_async_generator_that_is_left_is_settled_by_the_event_loop(stage: Stage) -> None:
    seen: list[object] = []
    tool = stream(stage.guard, seen)

    async def leave() -> None:
        async for _ in tool("ann"):
            break
        gc.collect()

    asyncio.run(leave())
    assert last(stage) == ("unknown", "tool.cancelled")


async def test_an_async_generator_that_was_never_begun_has_done_nothing(stage: Stage) -> None:
    await stream(stage.guard, [])("ann").aclose()
    assert stage.guard.pending() == []


async def test_a_cancelled_step_of_an_async_generator_leaves_the_effect_unknown(stage: Stage) -> None:
    begun = asyncio.Event()

    @stage.guard.tool(effect="write")
    async def hang(to: str) -> AsyncIterator[int]:
        begun.set()
        await asyncio.Event().wait()
        yield 1

    items = hang("ann")
    task = asyncio.ensure_future(anext(items))
    await happens(begun)
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    assert last(stage) == ("unknown", "tool.cancelled")


async def test_an_async_generators_span_and_frame_are_never_current_in_the_consumer(stage: Stage) -> None:
    with stage.provider.get_tracer("consumer").start_as_current_span("consumer"):
        async for _ in stream(stage.guard, [])("ann"):
            assert current_name() == "consumer"
            with pytest.raises(readmit.ReadmitError):
                readmit.current()


async def test_each_step_of_an_async_generator_may_run_in_another_task(stage: Stage) -> None:
    """Frameworks do; context variables that are set in one task cannot be reset in another."""
    seen: list[object] = []
    with readmit.scope("conversation-7"):
        items = stream(stage.guard, seen)("ann")
    got = [await asyncio.create_task(items.asend(None)) for _ in range(3)]
    with pytest.raises(StopAsyncIteration):
        await asyncio.create_task(items.asend(None))
    assert got == [0, 1, 2]
    assert attributes(stage.spans("execute")[-1])["gen_ai.conversation.id"] == "conversation-7"


async def test_a_read_only_async_generator_that_is_never_begun_has_no_span(stage: Stage) -> None:
    @stage.guard.tool(effect="read")
    async def rows(of: str) -> AsyncIterator[int]:
        yield 1

    rows("ann")
    assert [n async for n in rows("bob")] == [1]
    assert len(stage.spans()) == 1


# -- what a tool raises -------------------------------------------------------------------------------------------


async def test_every_kind_raises_the_tools_own_error_and_holds_on_to_nothing(stage: Stage) -> None:
    """The error is the very object, with no context of ours, and is freed with its frames as soon as it is let go."""

    class Local:
        """Something that the body has in its hands."""

    held: list[weakref.ref[Local]] = []
    tool = stage.guard.tool(effect="write")

    def fail(to: str) -> None:
        local = Local()
        held.append(weakref.ref(local))
        raise errors[to]

    @tool
    def function(to: str) -> None:
        fail(to)

    @tool
    async def coroutine(to: str) -> None:
        fail(to)

    @tool
    def generator(to: str) -> Iterator[int]:
        yield 1
        fail(to)

    @tool
    async def async_generator(to: str) -> AsyncIterator[int]:
        yield 1
        fail(to)

    async def caught(kind: str) -> None:
        try:
            match kind:
                case "function":
                    function(kind)
                case "coroutine":
                    await coroutine(kind)
                case "generator":
                    list(generator(kind))
                case _:
                    async for _ in async_generator(kind):
                        pass
        except LookupError as error:
            assert error is errors[kind]
            assert (error.__cause__, error.__context__) == (None, None)
            assert traceback.extract_tb(error.__traceback__)[-1].name == "fail"

    kinds = ("function", "coroutine", "generator", "async generator")
    errors = {kind: LookupError(kind) for kind in kinds}
    gc.collect()
    gc.disable()
    try:
        for kind in kinds:
            await caught(kind)
        errors.clear()
        assert [reference() for reference in held] == [None] * 4
    finally:
        gc.enable()


# -- refusals -----------------------------------------------------------------------------------------------------


async def test_every_kind_is_refused_where_it_begins(stage: Stage) -> None:
    approved = stage.guard.tool(effect="write", approval=True)

    @approved
    def function(to: str) -> None: ...

    @approved
    async def coroutine(to: str) -> None: ...

    @approved
    def generator(to: str) -> Iterator[int]:
        yield 1

    @approved
    async def async_generator(to: str) -> AsyncIterator[int]:
        yield 1

    with pytest.raises(readmit.ApprovalRequired):
        function("ann")
    with pytest.raises(readmit.ApprovalRequired):
        await coroutine("ann")
    with pytest.raises(readmit.ApprovalRequired):
        next(generator("ann"))
    with pytest.raises(readmit.ApprovalRequired):
        await anext(async_generator("ann"))
