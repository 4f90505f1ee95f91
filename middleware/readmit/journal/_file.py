"""The journal's file: recognised, made, opened, and what to do when it cannot be used.

`events` is the record and is only ever added to: a row has what was written of one occurrence in one transaction, under
the place of its first event. Whoever decides has seen whole rows, so of two that decided on the same version both would
write under the same place, and one is told. `heads` has a row for each open occurrence: what a call is looked up by. A
head is always folded from its events, so the two cannot disagree about anything that matters. `names` has what else an
occurrence is found by (a key, a call id, a request, a permit), numbered, so that two who take one name at once collide.
`documents` has the text of each contract once.
"""

from __future__ import annotations

import errno
import os
import sqlite3
import sys
import threading
import time
from pathlib import Path

from readmit._errors import JournalUnavailable

if sys.platform == "darwin":
    import fcntl

_MARKS = ("application_id", "user_version")
APPLICATION_ID = 0x72646D74  # "rdmt"
VERSION = 2
PATIENCE = 10.0  # seconds to wait for another process that writes
SCHEMA = (
    "CREATE TABLE events (occurrence TEXT NOT NULL, place INTEGER NOT NULL, events TEXT NOT NULL,"
    " PRIMARY KEY (occurrence, place)) WITHOUT ROWID",
    "CREATE TABLE heads (slot TEXT NOT NULL, signature TEXT NOT NULL, digest TEXT NOT NULL, occurrence TEXT NOT NULL,"
    " PRIMARY KEY (slot, signature, digest, occurrence)) WITHOUT ROWID",
    "CREATE TABLE names (name TEXT NOT NULL, ordinal INTEGER NOT NULL, occurrence TEXT NOT NULL,"
    " PRIMARY KEY (name, ordinal)) WITHOUT ROWID",
    "CREATE TABLE documents (fingerprint TEXT PRIMARY KEY, text BLOB NOT NULL) WITHOUT ROWID",
    f"PRAGMA application_id = {APPLICATION_ID}",
    f"PRAGMA user_version = {VERSION}",
)
LOG_LIMIT = 16 * 2**20  # bytes to which a log that grew longer is cut when it starts over
_ELSEWHERE = "name another with configure(journal=…) or READMIT_JOURNAL"
opening = threading.Lock()
"""Held while a file is made and opened: a fork in between would copy half an SQLite."""


def connect(path: Path | None) -> sqlite3.Connection:
    """A connection to the journal in a file, which is made with mode 0600 if it is not there. None: in memory.

    A file of another program or of a newer version is left exactly as it is.

    Raises:
        JournalUnavailable: it is no journal of a version that is known here, or is a folder.
        OSError, sqlite3.Error: it cannot be opened for writing.
    """
    with opening:
        if path is not None:
            _make_or_look(path)
        connection = sqlite3.connect(
            path or ":memory:", isolation_level=None, check_same_thread=False, timeout=PATIENCE
        )
        try:
            _prepare(connection, path)
        except BaseException:
            connection.close()
            raise
    return connection


def _make_or_look(path: Path) -> None:
    """Never opens a file that may be in use otherwise than through SQLite: to close it would drop SQLite's locks."""
    try:
        os.close(os.open(path, os.O_CREAT | os.O_EXCL | os.O_RDWR, 0o600))
    except FileExistsError:
        if path.is_dir():
            raise JournalUnavailable(
                f"{path} is a folder, not a journal; name a file in it, or {_ELSEWHERE}."
            ) from None
        if path.stat().st_size == 0:
            path.chmod(0o600)  # somebody made it, as they make files
            return
        # Immutable: it takes no lock, and makes no file beside it. What is only in the log it does not see.
        seen = sqlite3.connect(f"{path.as_uri()}?mode=ro&immutable=1", uri=True)
        try:
            if not recognised(seen, path):
                raise _foreign(path) from None
        except sqlite3.DatabaseError as error:
            if error.sqlite_errorcode != sqlite3.SQLITE_CORRUPT:
                raise
            # A checkpoint that was cut off, or is going on, looks so: the log has the rest, and it is read next.
        finally:
            seen.close()


def recognised(connection: sqlite3.Connection, path: Path | None) -> bool:
    """Whether the file is a journal; False for one that holds nothing yet.

    Raises:
        JournalUnavailable: it is something else, or of another version.
    """
    inside = connection.in_transaction
    if not inside:
        connection.execute("BEGIN")  # all three at one time: another process may be making it
    try:
        filled = connection.execute("SELECT 1 FROM sqlite_master LIMIT 1").fetchone()
        application, version = (connection.execute(f"PRAGMA {p}").fetchone()[0] for p in _MARKS)
    finally:
        if not inside:
            connection.execute("COMMIT")
    if application != APPLICATION_ID:
        if application or version or filled:
            raise _foreign(path)
        return False
    if version < VERSION:
        raise JournalUnavailable(
            f"The journal {path} is of version {version}, written before readmit was released, and this readmit reads "
            f"version {VERSION} only; nothing in it was changed. Effectful calls are not sent: put the file aside "
            f"(calls it held may have had their effect), or {_ELSEWHERE}."
        )
    if version > VERSION:
        raise JournalUnavailable(
            f"The journal {path} is of version {version}, and this readmit knows up to {VERSION}; nothing in it was "
            f"changed. Effectful calls are not sent: update readmit, or {_ELSEWHERE}."
        )
    return True


def _foreign(path: Path | None) -> JournalUnavailable:
    return JournalUnavailable(
        f"{path} is a file of another program, not a journal; nothing in it was changed. "
        f"Effectful calls are not sent: {_ELSEWHERE}."
    )


def _prepare(connection: sqlite3.Connection, path: Path | None) -> None:
    if not recognised(connection, path):
        _make(connection, path)
    mode = _patiently(connection, "PRAGMA journal_mode = WAL")
    if path is not None and mode != "wal":
        raise JournalUnavailable(
            f"The journal {path} cannot have a write-ahead log (SQLite says {mode!r}): its file system lacks what that "
            f"needs. Effectful calls are not sent: put it on a local disk, or {_ELSEWHERE}."
        )
    connection.execute("PRAGMA synchronous = NORMAL")  # see Connection, also for the next line
    connection.execute("PRAGMA wal_autocheckpoint = 0")
    connection.execute("PRAGMA checkpoint_fullfsync = ON")  # macOS, see `sync`
    connection.execute(f"PRAGMA journal_size_limit = {LOG_LIMIT}")
    connection.execute("BEGIN IMMEDIATE")  # a file that can only be read is found out here, not at the first call
    connection.execute("ROLLBACK")


def _make(connection: sqlite3.Connection, path: Path | None) -> None:
    """All or nothing, and while SQLite still keeps a rollback journal: the marks are in the file itself at once."""
    connection.execute("BEGIN IMMEDIATE")
    try:
        if not recognised(connection, path):  # else another process was quicker
            for statement in SCHEMA:
                connection.execute(statement)
        connection.execute("COMMIT")
    finally:
        if connection.in_transaction:
            connection.execute("ROLLBACK")


def _patiently(connection: sqlite3.Connection, pragma: str) -> str:
    """A change of the journal mode does not wait by itself for another process that opens the same file."""
    deadline = time.monotonic() + PATIENCE
    while True:
        try:
            return str(connection.execute(pragma).fetchone()[0])
        except sqlite3.OperationalError as error:
            if error.sqlite_errorcode != sqlite3.SQLITE_BUSY or time.monotonic() > deadline:
                raise
            time.sleep(0.005)


def sync(fd: int) -> None:
    """Returns when what was written to a file is on the disk itself.

    Raises:
        OSError: the disk says no. What was written before may be lost too.
    """
    if sys.platform == "darwin":
        fcntl.fcntl(fd, fcntl.F_FULLFSYNC)  # its fsync leaves the data in the drive's own memory
    else:
        os.fdatasync(fd)


def unavailable(name: str, what: str, error: Exception) -> JournalUnavailable:
    """What happened to the journal, and what to do now."""
    code = getattr(error, "sqlite_errorcode", 0) & 0xFF
    if isinstance(error, OSError):
        code = _OF_SYSTEM.get(error.errno or 0, 0)
    advice = _ADVICE.get(code, _REACH)
    return JournalUnavailable(
        f"The journal {name} {what}: {error}. Effectful calls are not sent until it can be: {advice}."
    )


_REACH = f"make the file and its folder writable, or {_ELSEWHERE}"
_DAMAGED = (
    "put the file and its -wal aside for an expert and restore a copy; calls it held may have had their effect. "
    f"Or, knowing that, {_ELSEWHERE}"
)
_HELD = f"another process has held it for {PATIENCE:.0f} seconds; find it (`lsof` names it) and end it"
_OF_SYSTEM = {
    errno.ENOSPC: sqlite3.SQLITE_FULL,
    errno.EDQUOT: sqlite3.SQLITE_FULL,
    errno.EIO: sqlite3.SQLITE_IOERR,
    errno.EBUSY: sqlite3.SQLITE_BUSY,
}
_ADVICE = {
    sqlite3.SQLITE_BUSY: _HELD,
    sqlite3.SQLITE_LOCKED: _HELD,
    sqlite3.SQLITE_FULL: "make room on its disk",
    sqlite3.SQLITE_IOERR: "look at the disk and its free space; the system's log says more",
    sqlite3.SQLITE_CORRUPT: _DAMAGED,
    sqlite3.SQLITE_NOTADB: f"it is no journal, and nothing in it was changed; {_ELSEWHERE}",
}
