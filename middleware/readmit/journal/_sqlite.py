"""The SQLite journal: one file, write-ahead log, one fsync for each admitted call.

`events` is the record and is only ever added to. `heads` holds what the index needs: slot, version, open. A head is
always folded from its events, so the two cannot disagree about anything that matters.
"""

from __future__ import annotations

import os
import sqlite3
import threading
import weakref
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import NoReturn, TypeVar

import msgspec

from readmit._errors import JournalUnavailable
from readmit._fold import Head, fold, fold_all
from readmit._identity import Found
from readmit._model import AnyEvent
from readmit.journal._notes import Notes
from readmit.journal._owners import Owners
from readmit.journal._port import Change, Query, Stale

T = TypeVar("T")

APPLICATION_ID = 0x72646D74  # "rdmt"
VERSION = 1
_SCHEMA = """
CREATE TABLE heads (
  id TEXT PRIMARY KEY, slot TEXT NOT NULL, signature TEXT NOT NULL, digest TEXT NOT NULL,
  version INTEGER NOT NULL, open INTEGER NOT NULL) WITHOUT ROWID;
CREATE INDEX heads_open ON heads (slot, signature, digest, id) WHERE open = 1;
CREATE TABLE events (
  occurrence TEXT NOT NULL, place INTEGER NOT NULL, event TEXT NOT NULL, PRIMARY KEY (occurrence, place)) WITHOUT ROWID;
CREATE TABLE names (
  name TEXT NOT NULL, ordinal INTEGER NOT NULL, occurrence TEXT NOT NULL, PRIMARY KEY (name, ordinal)) WITHOUT ROWID;
CREATE TABLE documents (fingerprint TEXT PRIMARY KEY, text BLOB NOT NULL) WITHOUT ROWID;
"""
_TAKE = "INSERT INTO names VALUES (?, ?, ?)"
_TAKE_NEXT = "INSERT INTO names SELECT ?1, ?2 + coalesce(max(ordinal), 0) + 1, ?3 FROM names WHERE name = ?1"
_CACHED = 1024  # heads
_encode = msgspec.json.Encoder().encode
_decode: Callable[[str], AnyEvent] = msgspec.json.Decoder(AnyEvent).decode
_journals: weakref.WeakSet[SQLiteJournal] = weakref.WeakSet()


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
    """

    def __init__(self, path: str | Path) -> None:
        self._memory = str(path) == ":memory:"
        self._path = Path(path) if self._memory else Path(path).absolute()
        self._lock = threading.RLock()
        self._notes = Notes(self._flush)
        self._documents: dict[str, bytes] = {}
        self._cache: dict[str, Head] = {}
        self._synchronous = ""
        self._owners: Owners | None = None
        self._connection = self._connect()
        _journals.add(self)

    @property
    def name(self) -> str:
        """The file's path."""
        return str(self._path)

    @property
    def owner(self) -> str:
        """The token of this process."""
        return self._owners.token if self._owners else "memory"

    def alive(self, owner: str) -> bool:
        """Whether the process with that token still runs: seen through its file lock."""
        return self._owners.alive(owner) if self._owners else owner == "memory"

    # -- opening --------------------------------------------------------------------------------------------------

    def _connect(self) -> sqlite3.Connection:
        try:
            if not self._memory:
                os.close(os.open(self._path, os.O_CREAT | os.O_RDWR, 0o600))
            connection = sqlite3.connect(self._path, isolation_level=None, check_same_thread=False, timeout=10)
            connection.execute("PRAGMA journal_mode = WAL")
            connection.execute("PRAGMA wal_autocheckpoint = 4000")
            self._prepare(connection)
            if not self._memory and self._owners is None:
                self._owners = Owners(self._path.with_name(self._path.name + "-owners"))
        except (OSError, sqlite3.Error) as error:
            self._unavailable("cannot be opened", error)
        return connection

    def _prepare(self, connection: sqlite3.Connection) -> None:
        application = connection.execute("PRAGMA application_id").fetchone()[0]
        version = connection.execute("PRAGMA user_version").fetchone()[0]
        if application == APPLICATION_ID:
            if version > VERSION:
                raise JournalUnavailable(
                    f"The journal {self.name} is of version {version}; this readmit knows version {VERSION}. "
                    "Update readmit, or name another file with configure(journal=…) or READMIT_JOURNAL."
                )
            return
        connection.execute("BEGIN IMMEDIATE")
        try:
            if connection.execute("PRAGMA application_id").fetchone()[0] == APPLICATION_ID:
                return  # another process was quicker
            if connection.execute("SELECT 1 FROM sqlite_master LIMIT 1").fetchone():
                raise JournalUnavailable(
                    f"{self.name} is an SQLite file of another program, not a journal; nothing in it was changed. "
                    "Name another file with configure(journal=…) or READMIT_JOURNAL."
                )
            for statement in _SCHEMA.split(";\n"):
                connection.execute(statement)
            connection.execute(f"PRAGMA application_id = {APPLICATION_ID}")
            connection.execute(f"PRAGMA user_version = {VERSION}")
        finally:
            connection.execute("COMMIT")

    def _unavailable(self, what: str, error: Exception) -> NoReturn:
        raise JournalUnavailable(
            f"The journal {self.name} {what}: {error}. Effectful calls are not sent until it can be written; "
            "make the file and its folder writable, or name another with configure(journal=…) or READMIT_JOURNAL."
        ) from error

    # -- reading --------------------------------------------------------------------------------------------------

    def find(self, query: Query) -> Found:
        """What is held about a call; what this process has noted counts as written."""
        return self._read(lambda c: self._find(c, query))

    def _find(self, c: sqlite3.Connection, query: Query) -> Found:
        marks = ",".join("?" * len(query.names))
        rows = c.execute(f"SELECT name, max(ordinal), occurrence FROM names WHERE name IN ({marks}) GROUP BY name", query.names).fetchall()
        named = {name: (ordinal, self._load(c, occurrence)) for name, ordinal, occurrence in rows}
        slot = (query.slot, query.signature)
        same = c.execute(
            "SELECT id FROM heads WHERE open = 1 AND slot = ? AND signature = ? AND digest = ? ORDER BY id", (*slot, query.digest)
        ).fetchall()
        other = c.execute(
            "SELECT id FROM heads WHERE open = 1 AND slot = ? AND signature < ? "
            "UNION ALL SELECT id FROM heads WHERE open = 1 AND slot = ? AND signature > ?",
            slot * 2,
        ).fetchall()
        return Found(named, self._heads(c, same), self._heads(c, other))

    def _heads(self, c: sqlite3.Connection, rows: Sequence[tuple[str]]) -> list[Head]:
        return [head for (occurrence,) in rows if (head := self._load(c, occurrence)) is not None]

    def load(self, occurrence_id: str) -> Head | None:
        """One occurrence, folded from its events."""
        return self._read(lambda c: self._load(c, occurrence_id))

    def _load(self, c: sqlite3.Connection, occurrence_id: str) -> Head | None:
        head = self._written(c, occurrence_id)
        if head.version == 0:
            return None
        for change in self._notes.of(occurrence_id):
            for event in change.events:
                head = fold(head, event)
        return head

    def _written(self, c: sqlite3.Connection, occurrence_id: str) -> Head:
        """The head as the file has it: from the cache where its version is still that of the file."""
        row = c.execute("SELECT version FROM heads WHERE id = ?", (occurrence_id,)).fetchone()
        if row is None:
            return Head(id=occurrence_id)
        cached = self._cache.get(occurrence_id)
        if cached is not None and cached.version == row[0]:
            return cached
        rows = c.execute("SELECT event FROM events WHERE occurrence = ? AND place <= ? ORDER BY place", (occurrence_id, row[0])).fetchall()
        return fold_all(occurrence_id, (_decode(text) for (text,) in rows))

    def named(self, name: str) -> list[Head]:
        """Every occurrence under a name, oldest first."""
        return self._read(lambda c: self._heads(c, c.execute("SELECT occurrence FROM names WHERE name = ? ORDER BY ordinal", (name,)).fetchall()))

    def open(self) -> Iterator[Head]:
        """Every open occurrence, oldest first."""
        heads = self._read(lambda c: self._heads(c, c.execute("SELECT id FROM heads WHERE open = 1 ORDER BY id").fetchall()))
        return (head for head in heads if not head.closed)

    def document(self, fingerprint: str) -> bytes | None:
        """A text kept earlier."""
        row = self._read(lambda c: c.execute("SELECT text FROM documents WHERE fingerprint = ?", (fingerprint,)).fetchone())
        return bytes(row[0]) if row else None

    def _read(self, read: Callable[[sqlite3.Connection], T]) -> T:
        with self._lock:
            try:
                return read(self._connection)
            except (sqlite3.Error, msgspec.MsgspecError) as error:
                self._unavailable("cannot be read", error)

    # -- writing --------------------------------------------------------------------------------------------------

    def append(self, changes: Sequence[Change], *, durable: bool) -> list[Head]:
        """Writes all changes in one transaction and returns the new heads."""
        with self._lock:
            notes = self._notes.take()
            try:
                heads = self._transaction([*notes, *changes], durable=durable)
            except BaseException:
                self._notes.give_back(notes)
                raise
            return heads[len(notes) :]

    def _transaction(self, changes: Sequence[Change], *, durable: bool) -> list[Head]:
        c = self._connection
        try:
            self._set_synchronous("FULL" if durable else "NORMAL")
            c.execute("BEGIN IMMEDIATE")
            try:
                for fingerprint, text in self._documents.items():
                    c.execute("INSERT OR IGNORE INTO documents VALUES (?, ?)", (fingerprint, text))
                heads = [self._apply(c, change) for change in changes]
                c.execute("COMMIT")
            except BaseException:
                c.execute("ROLLBACK")
                raise
        except sqlite3.IntegrityError as error:
            raise Stale(str(error)) from error
        except sqlite3.Error as error:
            self._unavailable("cannot be written", error)
        self._documents.clear()
        if len(self._cache) > _CACHED:
            self._cache.clear()
        self._cache.update((head.id, head) for head in heads)
        return heads

    def _set_synchronous(self, level: str) -> None:
        if self._synchronous != level:
            self._connection.execute(f"PRAGMA synchronous = {level}")
            self._synchronous = level

    def _apply(self, c: sqlite3.Connection, change: Change) -> Head:
        head = Head(id=change.occurrence_id) if change.expected == 0 else self._written(c, change.occurrence_id)
        if change.expected is not None and head.version != change.expected:
            raise Stale(f"version {head.version}, not {change.expected}")
        if change.check is not None:
            change.check(head)
        for event in change.events:
            head = fold(head, event)
            c.execute("INSERT INTO events VALUES (?, ?, ?)", (head.id, head.version, _encode(event).decode()))
        for name, ordinal in change.names:
            c.execute(_TAKE if ordinal else _TAKE_NEXT, (name, ordinal, head.id))
        row = (head.digest, head.version, not head.closed, head.id)
        if change.expected == 0:
            c.execute("INSERT INTO heads (digest, version, open, id, slot, signature) VALUES (?, ?, ?, ?, ?, ?)", (*row, change.slot, head.opened.signature))
        else:
            c.execute("UPDATE heads SET digest = ?, version = ?, open = ? WHERE id = ?", row)
        return head

    def note(self, change: Change) -> None:
        """Takes evidence that may wait: written with the next `append`, or within 50 ms."""
        with self._lock:
            self._notes.add(change)

    def _flush(self) -> None:
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
            try:
                self._flush()
            finally:
                self._notes.close()
                self._connection.close()
                if self._owners:
                    self._owners.release()

    def after_fork(self) -> None:
        """In a child: nothing of the parent's connection, lock or notes is used again."""
        self._lock = threading.RLock()
        self._notes = Notes(self._flush)
        self._synchronous = ""
        if self._owners:
            self._owners.after_fork()
        _inherited.append(self._connection)  # closing it would drop the parent's POSIX locks
        self._connection = self._connect()


_inherited: list[sqlite3.Connection] = []


def _forked() -> None:
    for journal in list(_journals):
        journal.after_fork()


os.register_at_fork(after_in_child=_forked)
