"""Steps the core: one thin driver for plain code, one for coroutines, each also for generators."""

from __future__ import annotations

import asyncio
import inspect
import time
from collections.abc import AsyncGenerator, Awaitable, Callable, Generator
from typing import Any, TypeVar

from readmit._answers import Active, Answers, Begun, ended
from readmit._call import Steps
from readmit._epoch import Epoch
from readmit._model import Outcome
from readmit._steps import Append, Ask, Done, Execute, Find, Load, Sleep, Step
from readmit.journal._port import Journal

T = TypeVar("T")

# -- plain code ---------------------------------------------------------------------------------------------------


def _next(answers: Answers, journal: Journal | None, step: Find | Load | Append | Ask | Sleep) -> Step | None:
    answer: Any = None
    try:
        if isinstance(step, Ask):
            answer = _asked(step)
        elif isinstance(step, Sleep):
            time.sleep(step.seconds)
        else:
            answer = step.answer(_known(journal))
    except BaseException as error:
        return answers.throw(error)
    return answers.send(answer)


def _asked(step: Ask) -> Any:
    answer = step.function(step.argument)
    if inspect.isawaitable(answer):
        if inspect.iscoroutine(answer):
            answer.close()
        raise TypeError(f"{step.function!r} is async, but its tool is not: write a plain function")
    return answer


def _known(journal: Journal | None) -> Journal:
    assert journal is not None, "a read-only call asks no journal"
    return journal


def drive(steps: Steps, journal: Journal | None, body: Callable[[Epoch | None], Done]) -> Any:
    """Runs a call of a plain function."""
    answers = Answers(steps)
    step = answers.send()
    while step is not None:
        step = answers.send(body(step.epoch)) if isinstance(step, Execute) else _next(answers, journal, step)
    return answers.result()


def drive_generator(
    begin: Callable[[], Begun], function: Callable[[], Generator[Any, Any, Any]]
) -> Generator[Any, Any, Any]:
    """Runs a call of a generator function: it begins at the first `next`.

    No `yield from`: whoever delegates is not told how the inner generator ended when it is closed.
    """
    steps, journal, active, collected = begin()
    answers = Answers(steps, collected)
    step = answers.send()
    while step is not None:
        if not isinstance(step, Execute):
            step = _next(answers, journal, step)
            continue
        items, resume = function(), None
        advance: Callable[[Any], Any] = items.send
        try:
            while True:
                with active(step.epoch):
                    item = advance(resume)
                try:
                    resume = yield item
                    advance = items.send
                except GeneratorExit:
                    with active(step.epoch):
                        items.close()
                    raise
                except BaseException as error:
                    advance, resume = items.throw, error
        except StopIteration as stop:
            done = Done(Outcome.RETURNED, stop.value, stream=True)
        except BaseException as error:
            done = ended(error)
        step = answers.send(done)
        del done, resume  # an error and the frame that it went through would hold each other
    return answers.result()


# -- coroutines ---------------------------------------------------------------------------------------------------


async def _answer_async(journal: Journal | None, step: Step) -> tuple[Any, BaseException | None]:
    """The answer, and a cancellation that came while an intent was being written: it waits until that is known."""
    match step:
        case Append(durable=True):
            return await _to_the_end(asyncio.to_thread(step.answer, _known(journal)))
        case Find() | Load() | Append():
            return step.answer(_known(journal)), None
        case Ask():
            answer = step.function(step.argument)
            return (await answer if inspect.isawaitable(answer) else answer), None
        case Sleep():
            await asyncio.sleep(step.seconds)
            return None, None
        case Execute():
            raise AssertionError("the body is run by the driver")


async def _to_the_end(work: Awaitable[T]) -> tuple[T, BaseException | None]:
    task = asyncio.ensure_future(work)
    cancelled: BaseException | None = None
    while not task.done():
        try:
            await asyncio.wait((task,))
        except asyncio.CancelledError as error:
            cancelled = error
    if cancelled is not None and (failure := task.exception()) is not None:
        raise cancelled from failure  # nothing was written: the cancellation is all there is to say
    return task.result(), cancelled


class AsyncAnswers(Answers):
    """As `Answers`, for steps that are awaited."""

    def __init__(self, steps: Steps, journal: Journal | None, collected: Callable[[Done], None] | None = None) -> None:
        super().__init__(steps, collected)
        self._journal = journal
        self._cancelled: BaseException | None = None  # while an intent was written, and not told yet

    async def step(self, step: Step) -> Step | None:
        """Answers one step; the next one is ready for its own answer, or to run the body."""
        if self._cancelled is not None and isinstance(step, Find):  # its epoch is settled, and it would look again
            held, self._cancelled = self._cancelled, None
            return self.throw(held)
        try:
            answer, cancelled = await _answer_async(self._journal, step)
        except BaseException as error:
            return self.throw(error)
        self._cancelled = cancelled or self._cancelled
        following = self.send(answer)
        if self._cancelled is not None and isinstance(following, Execute):
            held, self._cancelled = self._cancelled, None
            return self.send(ended(held, started=False))
        return following

    def result(self) -> Any:
        """As for plain code; a cancellation that nobody was told yet comes before what the call itself raised."""
        held, self._cancelled = self._cancelled, None
        if held is None:
            return super().result()
        self._done = None
        raise held


async def drive_async(
    steps: Steps,
    journal: Journal | None,
    body: Callable[[Epoch | None], Awaitable[Done]],
    collected: Callable[[Done], None] | None = None,
) -> Any:
    """Runs a call of a coroutine function."""
    answers = AsyncAnswers(steps, journal, collected)
    step = answers.send()
    while step is not None:
        step = answers.send(await body(step.epoch)) if isinstance(step, Execute) else await answers.step(step)
    return answers.result()


async def drive_async_generator(
    begin: Callable[[], Begun], function: Callable[[], AsyncGenerator[Any, Any]]
) -> AsyncGenerator[Any, Any]:
    """Runs a call of an async generator function; what the consumer sends or throws reaches the tool's own."""
    steps, journal, active, collected = begin()
    answers = AsyncAnswers(steps, journal, collected)
    step = answers.send()
    while step is not None:
        if not isinstance(step, Execute):
            step = await answers.step(step)
            continue
        items, resume = function(), None
        advance: Callable[[Any], Awaitable[Any]] = items.asend
        try:
            while True:
                with active(step.epoch):
                    item = await advance(resume)
                try:
                    resume = yield item
                    advance = items.asend
                except GeneratorExit:
                    with active(step.epoch):
                        await items.aclose()
                    raise
                except BaseException as error:
                    advance, resume = items.athrow, error
        except StopAsyncIteration:
            done = Done(Outcome.RETURNED, stream=True)
        except BaseException as error:
            done = ended(error)
        step = answers.send(done)
        del done, resume  # an error and the frame that it went through would hold each other
    answers.result()


# -- bodies -------------------------------------------------------------------------------------------------------


def call_body(active: Active, function: Callable[[], Any]) -> Callable[[Epoch | None], Done]:
    """The body of a plain function."""

    def body(epoch: Epoch | None) -> Done:
        try:
            with active(epoch):
                return Done(Outcome.RETURNED, function())
        except BaseException as error:
            return ended(error)

    return body


def await_body(active: Active, function: Callable[[], Awaitable[Any]]) -> Callable[[Epoch | None], Awaitable[Done]]:
    """The body of a coroutine function."""

    async def body(epoch: Epoch | None) -> Done:
        try:
            with active(epoch):
                return Done(Outcome.RETURNED, await function())
        except BaseException as error:
            return ended(error)

    return body
