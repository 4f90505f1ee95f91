"""The journal's port: the durable, append-only record that the core asks and writes, whatever holds it."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import Protocol

from msgspec import Struct

from readmit._fold import Head
from readmit._identity import Found
from readmit._model import AnyEvent


class Query(Struct, frozen=True):
    """What to look up for one call: identity names, and open occurrences of its slot."""

    names: tuple[str, ...]
    slot: str
    signature: str
    digest: str


class Change(Struct, frozen=True):
    """Events for one occurrence.

    `expected` is the version they were decided on: the journal writes nothing if it holds another one (`Stale`). With
    None they are evidence, which is true whatever came in between, and take the next places. `check` is asked with the
    present head before such a write and may raise.

    `unless` are names with the ordinals that were seen. Two go with the first change of an occurrence: `slot`, and
    `beside`, the open occurrences of the slot that were seen, equal ones and those of another signature. If there is
    another one by now, or a name was taken again, the decision is stale.
    """

    occurrence_id: str
    events: tuple[AnyEvent, ...]
    expected: int | None = None
    names: tuple[tuple[str, int], ...] = ()
    slot: str = ""
    beside: tuple[str, ...] = ()
    unless: tuple[tuple[str, int], ...] = ()
    check: Callable[[Head], None] | None = None


class Stale(Exception):
    """Something was recorded since the decision was made: decide again."""


class Journal(Protocol):
    """What a store has to do. Every method may raise `JournalUnavailable`; none loses what it has acknowledged."""

    @property
    def name(self) -> str:
        """Where it is, for people."""

    @property
    def owner(self) -> str:
        """The token of this process: alive while the process is."""

    def alive(self, owner: str) -> bool:
        """Whether the process with that token still runs."""

    def find(self, query: Query) -> Found:
        """What is held about a call; what this process has noted counts as written."""

    def load(self, occurrence_id: str) -> Head | None:
        """One occurrence, folded from its events."""

    def append(self, changes: Sequence[Change], *, durable: bool) -> list[Head]:
        """Writes all changes in one transaction and returns the new heads.

        With `durable` it returns only when a power failure can no longer lose them.

        Raises:
            Stale: a version is no longer the expected one, or a name was taken; nothing was written.
            JournalUnavailable: nothing was written; or, if it says `written`, it was, but is not durable.
        """

    def note(self, change: Change) -> None:
        """Takes evidence that may wait: written with the next `append`, or within 50 ms."""

    def named(self, name: str) -> list[Head]:
        """Every occurrence under a name, oldest first: requests and permits are found so."""

    def beginning(self, kind: str, prefix: str) -> list[str]:
        """Ids of a kind (`occurrence`, `request`, `permit`) that begin with a text, in order; 20 at most."""

    def open(self) -> Iterator[Head]:
        """Every open occurrence, oldest first."""

    def keep_document(self, fingerprint: str, text: bytes) -> None:
        """Keeps a contract's text under its fingerprint, with the next `append`."""

    def document(self, fingerprint: str) -> bytes | None:
        """A text kept earlier."""

    def close(self) -> None:
        """Writes what was noted and lets go of the owner's token."""
