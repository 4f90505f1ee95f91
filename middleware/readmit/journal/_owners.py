"""Dead or alive: an owner holds a file lock that the operating system releases by itself."""

from __future__ import annotations

import os
import uuid
from pathlib import Path

from readmit._errors import JournalUnavailable

try:
    import fcntl
except ImportError:  # Windows
    fcntl = None  # type: ignore[assignment]


class Owners:
    """Tokens of the processes that use one journal file: files in a folder of mode 0700, each locked by its process.

    The lock belongs to an open file: a pid that is used again never looks alive, and a process that was killed looks
    dead at once. A forked child holds the same open file, so it lets go of it and takes a token of its own.

    Args:
        journal: the file; the folder is beside it.

    Raises:
        JournalUnavailable: this system has no such locks.
    """

    def __init__(self, journal: Path) -> None:
        if fcntl is None:
            raise JournalUnavailable(
                f"The journal {journal} cannot be used on this system, which has no `fcntl` file locks: for now a "
                "journal in a file needs Linux or macOS. Use configure(journal=':memory:') here."
            )
        self._folder = journal.with_name(journal.name + "-owners")
        self._fd = -1
        self.token = ""

    def claim(self) -> None:
        """Takes a token for this process, and sweeps up those that dead ones left.

        Raises:
            OSError: the folder cannot be made or written.
        """
        self._folder.mkdir(mode=0o700, exist_ok=True)
        for left in os.listdir(self._folder):
            self.alive(left)
        while not self.token:
            self._take(uuid.uuid4().hex)

    def _take(self, token: str) -> None:
        fd = os.open(self._path(token), os.O_CREAT | os.O_EXCL | os.O_RDWR, 0o600)
        try:
            fcntl.flock(fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            os.close(fd)  # another process took the new file for a leftover, and is about to remove it
            return
        if os.fstat(fd).st_nlink == 0:
            os.close(fd)  # or has just done so
            return
        self._fd, self.token = fd, token

    def alive(self, token: str) -> bool:
        """Whether the process that took a token still holds it. Removes the file of one that does not.

        Raises:
            OSError: this process may not look.
        """
        if token == self.token:
            return True
        try:
            fd = os.open(self._path(token), os.O_RDONLY)
        except FileNotFoundError:
            return False
        try:
            fcntl.flock(fd, fcntl.LOCK_SH | fcntl.LOCK_NB)  # shared: two who look at once do not take each other for it
        except BlockingIOError:
            return True
        else:
            self._path(token).unlink(missing_ok=True)  # nobody can take a token twice
            return False
        finally:
            os.close(fd)

    def after_fork(self) -> None:
        """In a child: lets go of the inherited lock, which stays the parent's."""
        if self._fd >= 0:
            os.close(self._fd)
        self._fd, self.token = -1, ""

    def release(self) -> None:
        """Lets go of the token."""
        if self._fd >= 0:
            self._path(self.token).unlink(missing_ok=True)
            os.close(self._fd)
        self._fd, self.token = -1, ""

    def _path(self, token: str) -> Path:
        return self._folder / token
