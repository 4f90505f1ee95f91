"""One connection to a journal's file: opened when it is needed, given up when its state is in doubt."""

from __future__ import annotations

import contextlib
import errno
import logging
import os
import sqlite3
import threading
from collections.abc import Callable
from pathlib import Path
from typing import TypeVar

from readmit._errors import JournalUnavailable
from readmit.journal import _file

S = TypeVar("S")
T = TypeVar("T")

_CHECKPOINT = 1000  # transactions
_DISTRUSTED = (sqlite3.SQLITE_IOERR, sqlite3.SQLITE_CORRUPT, sqlite3.SQLITE_NOTADB, sqlite3.SQLITE_CANTOPEN)
_log = logging.getLogger("readmit")


class Connection:
    """A connection to one file, or to a database in memory.

    The caller holds the journal's lock, except in `make_durable`.

    SQLite commits without fsync (`synchronous=NORMAL`); what has to be durable is synced here, through the log's own
    descriptor, so that callers that come together share one fsync and nobody else waits for it. The log keeps the order
    of the commits: what is synced is never without what came before.

    The log is written back to the file by each process after a thousand of its transactions, by one that finds it long,
    and by the last one that closes the file. SQLite's own way, whenever the log is long, is off: before 3.51.3 a second
    checkpoint that meets a commit can lose data (sqlite.org/wal.html, the WAL-reset bug). A `FULL` checkpoint keeps
    writers out meanwhile.

    Args:
        path: of the file; None for a database in memory.

    Attributes:
        cursor: the one that everything goes through; None when the connection is to be opened, see `get`.
        committed: transactions so far.
    """

    def __init__(self, path: Path | None) -> None:
        self._path = path
        self._connection: sqlite3.Connection | None = None
        self.cursor: sqlite3.Cursor | None = None
        self._log_fd = -1
        self._syncing = threading.Lock()
        self._synced = 0
        self._distrusted = False
        self.committed = 0
        self._checkpoint_at = _CHECKPOINT

    @property
    def name(self) -> str:
        """The file's path."""
        return str(self._path or ":memory:")

    def get(self) -> sqlite3.Cursor:
        """The cursor; its connection is opened again after a fork, and after an error that left its state in doubt.

        Raises:
            JournalUnavailable: it cannot be opened.
        """
        if self.cursor is None:
            try:
                self._connection = _file.connect(self._path)
                self.cursor = self._connection.cursor()
                if self._distrusted:
                    self._heal(self.cursor)
                if self._path is not None:
                    self._log_fd = os.open(f"{self._path}-wal", os.O_RDWR)  # SQLite has no locks on it to lose
                    if os.fstat(self._log_fd).st_size > _file.LOG_LIMIT:
                        self._checkpoint_at = 0
            except (OSError, sqlite3.Error) as error:
                self.drop()
                raise _file.unavailable(self.name, "cannot be opened", error) from error
        return self.cursor

    def _heal(self, cursor: sqlite3.Cursor) -> None:
        """After a failed write or fsync the log may have a gap that only the page cache hides: it is emptied first."""
        ((busy, _, _),) = cursor.execute("PRAGMA wal_checkpoint(TRUNCATE)").fetchall()
        if busy:
            raise OSError(errno.EBUSY, "after a disk error its log has to be written back, and it is in use")
        self._synced = self.committed
        self._distrusted = False

    def drop(self) -> None:
        """Gives the connection up; the next use opens another. A database in memory stays."""
        if self._path is None:
            return
        if self._connection is not None:
            with contextlib.suppress(sqlite3.Error):  # it is given up because it failed
                self._connection.close()
            self._connection = self.cursor = None
        with self._syncing:
            if self._log_fd >= 0:
                os.close(self._log_fd)
                self._log_fd = -1

    def after_fork(self) -> None:
        """In a child: some thread of the parent's may have been syncing."""
        self._syncing = threading.Lock()

    def close(self) -> None:
        """Closes it for good; the last one to close a file writes its log back."""
        self.drop()
        if self._connection is not None:
            self._connection.close()
            self._connection = self.cursor = None

    def write(self, statements: Callable[[], T], *, alone: bool = False) -> T:
        """Runs statements in one transaction, which outlives this process but not yet the machine. All or nothing.

        Args:
            statements: run through the cursor.
            alone: they are one statement, of which SQLite makes a transaction by itself.

        Raises:
            sqlite3.Error: as SQLite says; `failed` tells what it means.
        """
        if alone:
            answer = statements()
        else:
            cursor = self.cursor or self.get()
            cursor.execute("BEGIN IMMEDIATE")
            try:
                answer = statements()
                cursor.execute("COMMIT")
            except BaseException:
                self._roll_back(cursor)
                raise
        self.committed += 1
        return answer

    def _roll_back(self, cursor: sqlite3.Cursor) -> None:
        """After some errors SQLite has ended the transaction by itself; a connection that cannot end it is given up."""
        try:
            if cursor.connection.in_transaction:
                cursor.execute("ROLLBACK")
        except sqlite3.Error:
            self._distrusted = True
            self.drop()

    def make_durable(self, transaction: int) -> None:
        """Returns when a power failure can no longer undo a transaction.

        Raises:
            OSError: the log cannot be synced; `failed` gives the connection up.
        """
        if self._path is None:
            return
        with self._syncing:
            if self._synced >= transaction:
                return
            if self._log_fd < 0:
                raise OSError(errno.EIO, "the file was given up after a disk error")
            together = self.committed
            _file.sync(self._log_fd)
            self._synced = together

    def checkpoint(self) -> None:
        """Writes the log back when it is time. What was committed stays so if this fails: the next write finds out."""
        if self.committed < self._checkpoint_at:
            return
        self._checkpoint_at = self.committed + _CHECKPOINT
        try:
            self.get().execute("PRAGMA wal_checkpoint(FULL)").fetchall()
        except sqlite3.Error as error:
            _log.warning("%s", self.failed("could not write its log back", error))

    def failed(self, what: str, error: Exception) -> JournalUnavailable:
        """What an error means, in words; after one of the disk the connection is given up."""
        if isinstance(error, OSError) or getattr(error, "sqlite_errorcode", 0) & 0xFF in _DISTRUSTED:
            self._distrusted = True
            self.drop()
        return _file.unavailable(self.name, what, error)
