"""Evidence that may wait: kept in memory, written with the next transaction or within 50 ms."""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable

from readmit._errors import JournalUnavailable
from readmit.journal._port import Change

DELAY, RETRY = 0.05, 1.0  # seconds
_log = logging.getLogger("readmit")


class Notes:
    """The waiting changes of one journal. Its lock is the journal's: callers hold it.

    The thread starts with the first note and ends with `close`; a process that exits writes the rest in `close`.
    """

    def __init__(self, flush: Callable[[], None]) -> None:
        self._flush = flush
        self._waiting: list[Change] = []
        self._wanted = threading.Event()
        self._closed = threading.Event()
        self._thread: threading.Thread | None = None

    def __bool__(self) -> bool:
        return bool(self._waiting)

    def of(self, occurrence_id: str) -> list[Change]:
        """What waits for one occurrence."""
        return [c for c in self._waiting if c.occurrence_id == occurrence_id]

    def add(self, change: Change) -> None:
        """Takes one more, and sees to it that it is written."""
        if self._closed.is_set():
            _log.error(
                "The journal was closed before the call ended: %s of occurrence %s is not recorded. "
                "What it does not know of an effect reads as unknown.",
                ", ".join(type(e).__name__ for e in change.events),
                change.occurrence_id,
            )
            return
        self._waiting.append(change)
        if not self._wanted.is_set():
            self._wanted.set()
        if self._thread is None:
            self._thread = threading.Thread(target=self._write_soon, name="readmit-journal", daemon=True)
            self._thread.start()

    def take(self) -> list[Change]:
        """Everything that waits, for the transaction at hand."""
        taken, self._waiting = self._waiting, []
        return taken

    def give_back(self, changes: list[Change]) -> None:
        """After a transaction that failed: they wait again, in front."""
        self._waiting[:0] = changes

    def close(self) -> None:
        """Ends the thread; what is noted from now on is said to be lost."""
        self._closed.set()
        self._wanted.set()

    def _write_soon(self) -> None:
        delay = DELAY
        while True:
            self._wanted.wait()
            self._wanted.clear()
            if self._closed.wait(delay):
                return
            try:
                self._flush()
                delay = DELAY
            except JournalUnavailable as error:
                if delay == DELAY:
                    _log.warning("%s What was noted waits, and is tried again each second.", error)
                delay = RETRY
                self._wanted.set()
