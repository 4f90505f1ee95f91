"""What stands in for a journal that cannot be opened, where nothing may be blocked for it: it holds nothing."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import NoReturn

from readmit._errors import JournalUnavailable
from readmit._fold import Head
from readmit._identity import Found
from readmit.journal._port import Change, Query


class AbsentJournal:
    """A `Journal` whose every question and write raises what the opening of the real one raised."""

    owner = ""

    def __init__(self, why: JournalUnavailable) -> None:
        self._why = why

    @property
    def name(self) -> str:
        """It has no place."""
        return "(none)"

    def alive(self, owner: str) -> bool:
        """Nobody owns anything here."""
        return False

    def find(self, query: Query) -> Found:
        """Raises."""
        self._raise()

    def load(self, occurrence_id: str) -> Head | None:
        """Raises."""
        self._raise()

    def append(self, changes: Sequence[Change], *, durable: bool) -> list[Head]:
        """Raises."""
        self._raise()

    def note(self, change: Change) -> None:
        """Raises."""
        self._raise()

    def named(self, name: str) -> list[Head]:
        """Raises."""
        self._raise()

    def beginning(self, kind: str, prefix: str) -> list[str]:
        """Raises."""
        self._raise()

    def open(self) -> Iterator[Head]:
        """Raises."""
        self._raise()

    def keep_document(self, fingerprint: str, text: bytes) -> None:
        """Raises."""
        self._raise()

    def document(self, fingerprint: str) -> bytes | None:
        """Raises."""
        self._raise()

    def close(self) -> None:
        """There is nothing to close."""

    def _raise(self) -> NoReturn:
        raise JournalUnavailable(*self._why.args) from self._why
