"""Feeds answers and errors back into the core, one step at a time: what the drivers have in common."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from contextlib import AbstractContextManager
from typing import Any, NamedTuple

from readmit._call import Steps
from readmit._epoch import Epoch
from readmit._model import Outcome
from readmit._steps import Done, Step
from readmit.journal._port import Journal

Active = Callable[[Epoch | None], AbstractContextManager[None]]
"""Gives the context manager in which an epoch's body runs: its frame and its span are current."""


class Begun(NamedTuple):
    """A call that is about to be stepped: its steps, who answers them, and where its body runs.

    `collected` takes the end of a body whose steps were closed before it, which happens to garbage.
    """

    steps: Steps
    journal: Journal | None
    active: Active
    collected: Callable[[Done], None] | None = None


class Answers:
    """The steps of one call, and how it ended."""

    def __init__(self, steps: Steps, collected: Callable[[Done], None] | None = None) -> None:
        self._steps = steps
        self._collected = collected
        self._done: Done | None = None

    def send(self, answer: Any = None) -> Step | None:
        """The next step, or None when the call is over and `result` can be asked."""
        try:
            return self._steps.send(answer)
        except StopIteration as stop:
            self._done = stop.value
        if self._done is None:
            self._done = answer
            if self._collected is not None:
                self._collected(answer)
        return None

    def throw(self, error: BaseException) -> Step | None:
        """The next step after one that failed."""
        try:
            return self._steps.throw(error)
        except StopIteration as stop:
            self._done = stop.value
            return None

    def result(self) -> Any:
        """What the call gives: its result, or its own error as it was raised; asked once."""
        done, self._done = self._done, None
        assert done is not None, "the call is over"
        try:
            if done.error is not None:
                raise done.error
            return done.value
        finally:
            del done  # else the error and this frame would hold each other


def ended(error: BaseException, *, started: bool = True) -> Done:
    """How a body ended that raised."""
    raised = isinstance(error, Exception) and not isinstance(error, asyncio.CancelledError)
    return Done(Outcome.RAISED if raised else Outcome.CANCELLED, error=error, started=started)
