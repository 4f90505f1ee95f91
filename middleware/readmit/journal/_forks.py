"""Forks: what a process holds of a journal cannot be carried over into its child."""

from __future__ import annotations

import os
import threading
import weakref
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Protocol

from readmit.journal import _file


class Forking(Protocol):
    """What wants to know of forks."""

    def before_fork(self) -> None:
        """Lets go of what cannot be copied, and keeps everybody else out."""

    def after_fork(self, *, child: bool) -> None:
        """Lets everybody in again; in a child nothing of the parent's is used again."""


_told: weakref.WeakSet[Forking] = weakref.WeakSet()
_held: list[Forking] = []
_telling = threading.Lock()


def tell(forking: Forking) -> None:
    """From now on it is told of each fork: before it opens anything. While one is going on this waits."""
    with _telling:
        _told.add(forking)


class Lock:
    """A lock that is free in a child, whoever held it in the parent: that thread is not there to let go of it."""

    def __init__(self) -> None:
        self._lock = threading.RLock()
        tell(self)

    @contextmanager
    def held(self) -> Iterator[None]:
        """Keeps other threads out; the one that is in can come in again."""
        lock = self._lock
        with lock:
            yield

    def before_fork(self) -> None:
        """Nothing: who holds it may be waiting for the fork to be over."""

    def after_fork(self, *, child: bool) -> None:
        """In a child it is another one."""
        if child:
            self._lock = threading.RLock()


def _before() -> None:
    _telling.acquire()
    _held[:] = _told
    for forking in _held:
        forking.before_fork()
    _file.opening.acquire()


def _after(*, child: bool) -> None:
    _file.opening.release()
    for forking in _held:
        forking.after_fork(child=child)
    _held.clear()
    _telling.release()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(
        before=_before, after_in_parent=lambda: _after(child=False), after_in_child=lambda: _after(child=True)
    )
