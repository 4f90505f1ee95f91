"""Guards over the journal in memory."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from readmit import Guard
from readmit._fold import Head
from readmit._model import Granted
from readmit.journal import Change
from tests.core.memory import MemoryJournal, Store


def new_guard(store: Store | None = None, owner: str = "owner", **more: Any) -> Guard:
    return Guard(journal=MemoryJournal(store or Store(), owner), **more)


def attempt(call: Callable[..., Any], *args: Any) -> Any:
    """What the call gives: its result, or the error it raises."""
    try:
        return call(*args)
    except Exception as error:
        return error


def only(guard: Guard) -> Head:
    """The one occurrence that waits for somebody."""
    (pending,) = guard.pending()
    return guard.show(pending.occurrence_id)


class Racing(MemoryJournal):
    """A journal at which somebody else is quicker, once, whenever a grant is about to be written."""

    quicker: Callable[[], object] | None = None

    def append(self, changes: Sequence[Change], *, durable: bool) -> list[Head]:
        quicker = self.quicker
        if quicker is not None and any(isinstance(e, Granted) for c in changes for e in c.events):
            self.quicker = None
            quicker()
        return super().append(changes, durable=durable)
