"""The SQLite journal: one file, write-ahead log, one fsync for each admitted call."""

from __future__ import annotations

import contextlib
import logging
import os
import sqlite3
import threading
from collections.abc import Callable, Iterable, Iterator, Sequence
from pathlib import Path
from typing import Any, TypeVar

import msgspec

from readmit._errors import JournalUnavailable
from readmit._fold import Head, fold
from readmit._identity import Found
from readmit.journal import _file
from readmit.journal._connection import Connection
from readmit.journal._forks import tell
from readmit.journal._notes import Notes
from readmit.journal._owners import Owners
from readmit.journal._port import Change, Query, Stale
from readmit.journal._rows import Altered, Heads, Plan, beginning, matches, single, write

T = TypeVar("T")

_TAKEN = (sqlite3.SQLITE_CONSTRAINT_PRIMARYKEY, sqlite3.SQLITE_CONSTRAINT_UNIQUE)
_ALTERED = (Altered, msgspec.MsgspecError, TypeError)  # what it holds is not what was written
_BROKEN = (sqlite3.Error, *_ALTERED)
_log = logging.getLogger("readmit")


class SQLiteJournal:
    """A journal in one SQLite file, shared by the threads and processes of one machine.

    Args:
        path: the file, made with mode 0600 if it is not there; `:memory:` for a journal that ends with the process.

    Raises:
        JournalUnavailable: the file cannot be opened, is not a journal, or is of a newer version.

    Example:
        >>> journal = SQLiteJournal(":memory:")
        >>> list(journal.open())
        []
        >>> journal.close()
    """

    def __init__(self, path: str | Path) -> None:
        file = None if str(path) == ":memory:" else Path(os.path.realpath(path))
        self._lock = threading.RLock()
        self._notes = Notes(self._flush)
        self._documents: dict[str, bytes] = {}
        self._heads = Heads()
        self._owners = None if file is None else Owners(file)
        self._file = Connection(file)
        self._closed = False
        tell(self)
        with self._lock:
            self._ready()

    @property
    def name(self) -> str:
        """The file's path."""
        return self._file.name

    @property
    def owner(self) -> str:
        """The token of this process."""
        return self._owners.token if self._owners else f"memory:{os.getpid()}"

    def alive(self, owner: str) -> bool:
        """Whether the process with that token still runs: seen through its file lock."""
        if owner == self.owner or self._owners is None:
            return owner == self.owner
        try:
            return self._owners.alive(owner)
        except OSError as error:
            raise _file.unavailable(self.name, f"does not say whether the owner {owner} is alive", error) from error

    def _ready(self) -> sqlite3.Cursor:
        """The cursor, with a token to answer for what is written through it."""
        return self._file.cursor or self._opened()

    def _opened(self) -> sqlite3.Cursor:
        if self._closed:
            raise JournalUnavailable(
                f"The journal {self.name} was closed. Effectful calls are not sent; open it again."
            )
        cursor = self._file.get()
        if self._owners is not None and not self._owners.token:
            try:
                self._owners.claim()
            except OSError as error:
                self._file.drop()
                raise _file.unavailable(self.name, "has no place for the locks of its owners", error) from error
        return cursor

    # -- reading --------------------------------------------------------------------------------------------------

    def find(self, query: Query) -> Found:
        """What is held about a call; what this process has noted counts as written."""
        return self._read(lambda c: self._find(c, query))

    def _find(self, c: sqlite3.Cursor, query: Query) -> Found:
        named, equal, other_signature = matches(c, query)
        return Found(
            {name: (ordinal, self._load(c, occurrence)) for name, (ordinal, occurrence) in named.items()},
            self._loaded(c, sorted(equal)) if equal else [],
            self._loaded(c, sorted(other_signature)) if other_signature else [],
        )

    def _loaded(self, c: sqlite3.Cursor, occurrences: Iterable[str]) -> list[Head]:
        """Those that the file names: it has events of each, or somebody took them out."""
        heads: list[Head] = []
        for occurrence in occurrences:
            if (head := self._load(c, occurrence)) is None:
                raise Altered(f"all that was written of {occurrence} is gone")
            heads.append(head)
        return heads

    def _load(self, c: sqlite3.Cursor, occurrence_id: str) -> Head | None:
        head = self._heads.read(c, occurrence_id)
        if head.version == 0:
            return None
        for change in self._notes.of(occurrence_id):
            head = fold(head, *change.events)
        return head

    def load(self, occurrence_id: str) -> Head | None:
        """One occurrence, folded from its events."""
        return self._read(lambda c: self._load(c, occurrence_id))

    def named(self, name: str) -> list[Head]:
        """Every occurrence under a name, oldest first."""
        return self._read(
            lambda c: self._loaded(c, _column(c, "SELECT occurrence FROM names WHERE name = ? ORDER BY ordinal", name))
        )

    def beginning(self, kind: str, prefix: str) -> list[str]:
        """Ids of a kind (`occurrence`, `request`, `permit`) that begin with a text, in order; 20 at most."""
        return self._read(lambda c: beginning(c, kind, prefix))

    def open(self) -> Iterator[Head]:
        """Every open occurrence, oldest first. One that cannot be read hides no other, and is named in the log."""
        heads = self._read(lambda c: self._readable(c, _column(c, "SELECT occurrence FROM heads ORDER BY occurrence")))
        return (head for head in heads if not head.closed)

    def _readable(self, c: sqlite3.Cursor, occurrences: Iterable[str]) -> list[Head]:
        heads: list[Head] = []
        for occurrence in occurrences:
            try:
                heads += self._loaded(c, (occurrence,))
            except _ALTERED as error:
                _log.error(
                    "Occurrence %s in the journal %s holds something else than what readmit writes (%s). It is left "
                    "out here, and calls that would be it are refused: restore it from a copy of the journal.",
                    occurrence,
                    self.name,
                    error,
                )
        return heads

    def document(self, fingerprint: str) -> bytes | None:
        """A text kept earlier."""
        texts = self._read(lambda c: _column(c, "SELECT text FROM documents WHERE fingerprint = ?", fingerprint))
        return texts[0] if texts else self._documents.get(fingerprint)

    def _read(self, read: Callable[[sqlite3.Cursor], T]) -> T:
        with self._lock:
            try:
                return read(self._ready())
            except _BROKEN as error:
                raise self._file.failed("cannot be read", error) from error

    # -- writing --------------------------------------------------------------------------------------------------

    def append(self, changes: Sequence[Change], *, durable: bool) -> list[Head]:
        """Writes all changes in one transaction and returns the new heads."""
        with self._lock:
            c = self._ready()
            notes = self._notes.take()
            try:
                heads = self._written(c, [*notes, *changes] if notes else changes)
            except BaseException:
                self._notes.give_back(notes)
                raise
            if self._documents:
                self._documents = {}
            self._heads.committed(heads)
            transaction = self._file.committed
            self._file.checkpoint()
        if durable:
            self._make_durable(transaction)
        return heads[len(notes) :]

    def _make_durable(self, transaction: int) -> None:
        try:
            self._file.make_durable(transaction)
        except OSError as error:
            with self._lock:
                unavailable = self._file.failed("cannot be made durable", error)
            unavailable.written = True
            raise unavailable from error

    def _written(self, c: sqlite3.Cursor, changes: Sequence[Change]) -> list[Head]:
        """First on the heads at hand, outside of any lock; if they were behind the file, again inside of one."""
        try:
            try:
                plan = self._heads.plan(c, changes)
                return self._file.write(lambda: self._carry_out(c, plan), alone=single(plan) and not self._documents)
            except sqlite3.IntegrityError as error:
                if error.sqlite_errorcode not in _TAKEN:
                    raise
                self._heads.forget(change.occurrence_id for change in changes)
            return self._file.write(lambda: self._carry_out(c, self._heads.plan(c, changes)))
        except sqlite3.IntegrityError as error:
            if error.sqlite_errorcode in _TAKEN:
                raise Stale(str(error)) from error
            raise self._file.failed("cannot be written", error) from error
        except _BROKEN as error:
            raise self._file.failed("cannot be written", error) from error

    def _carry_out(self, c: sqlite3.Cursor, plan: Plan) -> list[Head]:
        if documents := self._documents:
            c.executemany("INSERT OR IGNORE INTO documents VALUES (?, ?)", documents.items())
        write(c, plan)
        return plan.heads

    def note(self, change: Change) -> None:
        """Takes evidence that may wait: written with the next `append`, or within 50 ms."""
        if change.expected is not None or change.check is not None:
            raise ValueError("what may wait is evidence: it expects no version and asks no check")
        with self._lock:
            self._notes.add(change)

    def _flush(self) -> None:
        with self._lock:
            if self._notes:
                self.append((), durable=False)

    def keep_document(self, fingerprint: str, text: bytes) -> None:
        """Keeps a contract's text under its fingerprint, with the next `append`."""
        with self._lock:
            self._documents[fingerprint] = text

    # -- the process's own life -----------------------------------------------------------------------------------

    def close(self) -> None:
        """Writes what was noted and lets go of the owner's token."""
        with self._lock:
            if self._closed:
                return
            try:
                self._flush()
            finally:
                self._closed = True
                self._notes.close()
                self._file.close()
                if self._owners:
                    self._owners.release()

    def before_fork(self) -> None:
        """Closes the file: SQLite cannot be carried over. Both sides open it again when they need it."""
        self._lock.acquire()
        with contextlib.suppress(OSError):  # who waits for it is told by `make_durable`
            self._file.make_durable(self._file.committed)
        self._file.drop()

    def after_fork(self, *, child: bool) -> None:
        """In a child nothing of the parent's lock, notes or token is used again."""
        if not child:
            self._lock.release()
            return
        self._lock = threading.RLock()
        self._notes = Notes(self._flush)
        self._file.after_fork()
        if self._owners:
            self._owners.after_fork()


def _column(c: sqlite3.Cursor, query: str, *parameters: str) -> list[Any]:
    return [value for (value,) in c.execute(query, parameters).fetchall()]
