"""Dead or alive: an owner holds a file lock that the operating system releases by itself."""

from __future__ import annotations

import fcntl
import os
import uuid
from pathlib import Path


class Owners:
    """Tokens of the processes that use one journal file.

    The lock belongs to an open file: a pid that is used again never looks alive, and a process that was killed looks
    dead at once. A forked child holds the same open file, so it lets go of it and takes a token of its own.
    """

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._fd = -1
        self._pid = 0
        self.token = ""
        self.claim()

    def claim(self) -> None:
        """Takes a token for this process."""
        self._folder.mkdir(mode=0o700, exist_ok=True)
        self.token = uuid.uuid4().hex
        self._fd = os.open(self._path(self.token), os.O_CREAT | os.O_RDWR, 0o600)
        fcntl.flock(self._fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
        self._pid = os.getpid()

    def after_fork(self) -> None:
        """In a child: closes the inherited lock, which stays the parent's, and takes its own."""
        os.close(self._fd)
        self.claim()

    def alive(self, token: str) -> bool:
        """Whether the process that took a token still holds it."""
        if token == self.token:
            return True
        try:
            fd = os.open(self._path(token), os.O_RDWR)
        except FileNotFoundError:
            return False
        try:
            fcntl.flock(fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            return True
        else:
            self._path(token).unlink(missing_ok=True)  # nobody can take a token twice
            return False
        finally:
            os.close(fd)

    def release(self) -> None:
        """Lets go of the token."""
        if self._fd >= 0 and self._pid == os.getpid():
            self._path(self.token).unlink(missing_ok=True)
            os.close(self._fd)
            self._fd = -1

    def _path(self, token: str) -> Path:
        return self._folder / token
