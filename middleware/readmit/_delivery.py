"""One attempt to hand a batch to the model provider: plain or async, around a block or around a function."""

from __future__ import annotations

import functools
import inspect
import logging
from collections.abc import Callable, Generator
from contextlib import AbstractContextManager
from dataclasses import dataclass
from types import TracebackType
from typing import Any

from readmit import _drive
from readmit._answers import Answers, Begun, ended
from readmit._batch import Batch
from readmit._call import Declaration, GuardedCall, Site
from readmit._context import UNNAMED, Frame, frame
from readmit._contract import Contract
from readmit._epoch import Epoch
from readmit._errors import BatchIncomplete, JournalUnavailable, ReadmitError
from readmit._model import Outcome
from readmit._outbox import DELIVER
from readmit._steps import Done, Execute
from readmit._telemetry import Inside

_log = logging.getLogger("readmit")
CONTRACT = Contract(name=DELIVER, idempotent=True, effects_through="mixed")
"""At least once, and byte for byte the same: that is what makes a repeat harmless."""


@dataclass(frozen=True, slots=True, kw_only=True)
class CallOutput:
    """A result as the provider gets it.

    Attributes:
        occurrence_id: names the call.
        call_id: as the provider gave it.
        tool: the tool's name.
        payload: the result, the same in every attempt.
    """

    occurrence_id: str
    call_id: str | None
    tool: str
    payload: Any


class Delivery:
    """One attempt: a context manager, plain and async, that gives the outputs; or a decorator for the provider call.

    The attempt is accepted when the block, the function or the coroutine ends well; a generator when it is exhausted.
    Whatever else happens, the batch stays offered and the next attempt hands over the same; also if what the function
    returned reads like a failure (`{"error": …}`).
    """

    def __init__(self, batch: Batch) -> None:
        self._batch = batch
        self._answers: Answers | None = None
        self._before = 0  # epochs
        self._value: Any = None  # what the provider call returned: one that reads like a failure is no acceptance
        self._inside: AbstractContextManager[None] | None = None

    @property
    def outputs(self) -> tuple[CallOutput, ...]:
        """The results in the order of their calls.

        Raises:
            BatchIncomplete: calls still wait.
        """
        batch = self._batch
        if waiting := batch.pending:
            raise BatchIncomplete(batch.response, tuple(call.occurrence_id for call in waiting))
        results, calls = batch.results, {call.occurrence_id: call for call in batch.calls}
        return tuple(
            CallOutput(occurrence_id=o, call_id=calls[o].call_id, tool=calls[o].tool, payload=payload)
            for o, payload in results.items()
        )

    # -- a block --------------------------------------------------------------------------------------------------

    def __enter__(self) -> tuple[CallOutput, ...]:
        outputs, begun = self._begun()
        answers = Answers(begun.steps, begun.collected)
        step = answers.send()
        while step is not None and not isinstance(step, Execute):
            step = _drive._next(answers, begun.journal, step)
        self._enter(answers, begun, step)
        return outputs

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        answers, step = self._leave(error)
        while step is not None:
            step = _drive._next(answers, self._batch.outbox.guard.ports().journal, step)
        self._tell()

    async def __aenter__(self) -> tuple[CallOutput, ...]:
        outputs, begun = self._begun()
        answers = _drive.AsyncAnswers(begun.steps, begun.journal, begun.collected)
        step = answers.send()
        while step is not None and not isinstance(step, Execute):
            step = await answers.step(step)
        self._enter(answers, begun, step)
        return outputs

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        answers, step = self._leave(error)
        assert isinstance(answers, _drive.AsyncAnswers)
        while step is not None:
            step = await answers.step(step)
        self._tell()

    def _enter(self, answers: Answers, begun: Begun, step: Execute | None) -> None:
        if step is None:  # it was cancelled or interrupted while its intent was written
            answers.result()
            raise AssertionError("an accepted batch is refused, and what runs is executed")
        self._answers = answers
        self._inside = inside = begun.active(step.epoch)
        inside.__enter__()

    def _leave(self, error: BaseException | None) -> tuple[Answers, Any]:
        answers, inside = self._answers, self._inside
        assert answers is not None and inside is not None
        inside.__exit__(None, None, None)
        self._answers = self._inside = None
        value, self._value = self._value, None
        return answers, answers.send(Done(Outcome.RETURNED, value, stream=True) if error is None else ended(error))

    # -- a function -----------------------------------------------------------------------------------------------

    def __call__(self, function: Callable[..., Any]) -> Callable[..., Any]:
        """Decorates the provider call: it gets the outputs as its first argument.

        Args:
            function: a function, coroutine function, generator or async generator.
        """
        if inspect.isasyncgenfunction(function):

            @functools.wraps(function)
            async def streams(*args: Any, **kwargs: Any) -> Any:
                outputs, begun = self._begun()
                items = _drive.drive_async_generator(lambda: begun, lambda: function(outputs, *args, **kwargs))
                try:
                    async for item in items:
                        yield item
                finally:
                    await items.aclose()
                    self._tell()

            return streams
        if inspect.iscoroutinefunction(function):

            @functools.wraps(function)
            async def awaits(*args: Any, **kwargs: Any) -> Any:
                async with self as outputs:
                    self._value = answer = await function(outputs, *args, **kwargs)
                return answer

            return awaits
        if inspect.isgeneratorfunction(function):

            @functools.wraps(function)
            def yields(*args: Any, **kwargs: Any) -> Generator[Any, Any, Any]:
                outputs, begun = self._begun()
                items = _drive.drive_generator(lambda: begun, lambda: function(outputs, *args, **kwargs))
                try:
                    return (yield from items)
                finally:
                    items.close()
                    self._tell()

            return yields

        @functools.wraps(function)
        def calls(*args: Any, **kwargs: Any) -> Any:
            with self as outputs:
                self._value = answer = function(outputs, *args, **kwargs)
            return answer

        return calls

    # -- the attempt ----------------------------------------------------------------------------------------------

    def _begun(self) -> tuple[tuple[CallOutput, ...], Begun]:
        if self._answers is not None:
            raise ReadmitError(f"This attempt to deliver {self._batch.response} is under way: ask for another one.")
        batch, here, outputs = self._batch, frame(), self.outputs
        outbox = batch.outbox
        ports = outbox.guard.ports_of_calls(observe=False)
        declaration = Declaration(name=DELIVER, read=False, contract=CONTRACT, fingerprint=CONTRACT.fingerprint)
        call = outbox.delivery(*(result.digest for result in batch.correlation().bound.values()))
        guarded = GuardedCall(ports, declaration, call, Site(None, here.epochs), {})
        self._before = outbox.head.last_epoch
        return outputs, Begun(guarded.steps(), ports.journal, lambda epoch: _inside(epoch, here), guarded.collected)

    def _tell(self) -> None:
        """A span of its own, linked to every epoch whose result went along; none for an attempt that was refused."""
        batch, outbox = self._batch, self._batch.outbox
        try:
            outbox.refresh()
            carried = outbox.carried()
        except JournalUnavailable as error:  # how the attempt ended is recorded, or waits to be: it stays as it was
            _log.warning("%s The delivery of %s has no span of its own.", error, batch.response)
            return
        if outbox.head.last_epoch == self._before:
            return
        said: dict[str, Any] = {
            "readmit.delivery.state": str(batch.state),
            "readmit.epoch": outbox.head.last_epoch,
        }
        if outbox.scope != UNNAMED:
            said["gen_ai.conversation.id"] = outbox.scope
        outbox.guard.ports().spans.act("deliver", outbox.head, said, carried)


def _inside(epoch: Epoch | None, here: Frame) -> Inside:
    assert epoch is not None, "a delivery is an epoch"
    return Inside(epoch.frame(here), epoch.span.span)
