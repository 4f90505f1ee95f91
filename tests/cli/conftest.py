"""A journal with one occurrence for each thing that a person can be asked."""

from __future__ import annotations

import contextlib
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

import readmit
from readmit import Guard, Refused
from readmit.cli import _view


@dataclass(frozen=True, slots=True)
class Scene:
    """A journal that was written by a program that has ended."""

    journal: Path
    unknown: str  # an occurrence whose effect is unknown
    asking: str  # one that waits for an approval
    request: str  # its approval request
    closed: str  # one that is done

    def shown(self, occurrence_id: str) -> Any:
        """An occurrence as `show --json` gives it, without the price of another process."""
        guard = Guard(journal=self.journal)
        try:
            return _view.look(guard, occurrence_id).document()
        finally:
            guard.close()

    def events(self) -> list[Any]:
        """Everything the journal holds about the two open occurrences."""
        return [self.shown(one)["events"] for one in (self.unknown, self.asking)]


def write_scene(journal: Path) -> Scene:
    """Runs four calls in this process and closes the journal."""
    guard = Guard(journal=journal)
    seen: list[str] = []

    @guard.tool(effect="write", name="billing.charge")
    def charge(order: str) -> str:
        raise TimeoutError(order)

    @guard.tool(effect="write", name="deploy.release", approval=True)
    def release(version: str) -> str:
        return f"released {version}"

    @guard.tool(effect="write", name="notes.add")
    def add(text: str) -> str:
        seen.append(readmit.current().occurrence_id)
        return text

    with contextlib.suppress(TimeoutError):
        charge("o-1")
    with readmit.scope("chat-1", principal="ann"), contextlib.suppress(Refused):
        release("1.2.3")
    add("hello")
    unknown, asking = guard.pending()
    guard.close()
    assert asking.request_id is not None
    return Scene(journal, unknown.occurrence_id, asking.occurrence_id, asking.request_id, seen[0])


@pytest.fixture
def scene(tmp_path: Path) -> Scene:
    """A fresh one for each test."""
    return write_scene(tmp_path / "readmit.db")
