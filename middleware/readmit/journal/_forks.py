"""Forks: what a process holds of a journal cannot be carried over into its child."""

from __future__ import annotations

import os
import weakref
from typing import Protocol

from readmit.journal import _file


class Forking(Protocol):
    """A journal that wants to know of forks."""

    def before_fork(self) -> None:
        """Lets go of what cannot be copied, and keeps everybody else out."""

    def after_fork(self, *, child: bool) -> None:
        """Lets everybody in again; in a child nothing of the parent's is used again."""


_journals: weakref.WeakSet[Forking] = weakref.WeakSet()
_held: list[Forking] = []


def tell(journal: Forking) -> None:
    """From now on the journal is told of each fork."""
    _journals.add(journal)


def _before() -> None:
    _held[:] = _journals
    for journal in _held:
        journal.before_fork()
    _file.opening.acquire()


def _after(*, child: bool) -> None:
    _file.opening.release()
    for journal in _held:
        journal.after_fork(child=child)
    _held.clear()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(
        before=_before, after_in_parent=lambda: _after(child=False), after_in_child=lambda: _after(child=True)
    )
