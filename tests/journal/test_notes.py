"""What may wait is written within 50 ms, with the next write, or at the end; and said to be lost if it is."""

from __future__ import annotations

import logging
import sqlite3
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest

from readmit.journal import SQLiteJournal, _file, _notes
from tests.journal.facts import admitted, delivered, ended, evidence, first, opened
from tests.journal.processes import until


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "readmit.db"


@pytest.fixture
def journal(path: Path) -> Iterator[SQLiteJournal]:
    journal = SQLiteJournal(path)
    journal.append([first("o1", opened(), admitted(journal.owner), ended())], durable=True)
    yield journal
    journal.close()


def places(path: Path) -> int:
    """How many events the file itself has."""
    connection = sqlite3.connect(path)
    try:
        count = "SELECT sum(json_array_length(events)) FROM events"
        return int(connection.execute(count).fetchone()[0])
    finally:
        connection.close()


def test_they_are_written_by_themselves(journal: SQLiteJournal, path: Path) -> None:
    for number in (4, 5):
        journal.note(evidence("o1", delivered(call=f"call{number}")))
        until(lambda number=number: places(path) == number)  # type: ignore[misc]
    assert sum(t.name == "readmit-journal" for t in threading.enumerate()) == 1


def test_they_are_written_with_the_next_write(
    journal: SQLiteJournal, path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(_notes, "DELAY", 600.0)
    journal.note(evidence("o1", delivered()))
    assert places(path) == 3
    (head,) = journal.append([first("o2", opened("d2"))], durable=False)
    assert head.id == "o2"
    assert places(path) == 5


def test_they_are_written_at_the_end(journal: SQLiteJournal, path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(_notes, "DELAY", 600.0)
    journal.note(evidence("o1", delivered()))
    journal.close()
    assert places(path) == 4
    until(lambda: not any(t.name == "readmit-journal" for t in threading.enumerate()))


def test_what_cannot_be_written_is_tried_again_and_said_once(
    journal: SQLiteJournal, path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr(_file, "PATIENCE", 0.01)
    monkeypatch.setattr(_notes, "RETRY", 0.02)
    journal.before_fork()  # the file is opened again, with less patience
    journal.after_fork(child=False)
    other = sqlite3.connect(path, isolation_level=None)
    other.execute("BEGIN IMMEDIATE")
    journal.note(evidence("o1", delivered()))
    until(lambda: caplog.records)
    assert places(path) == 3
    other.execute("ROLLBACK")
    other.close()
    until(lambda: places(path) == 4)
    said = [r for r in caplog.records if r.levelno == logging.WARNING]
    assert len(said) == 1
    assert "another process has held it" in said[0].message and "tried again" in said[0].message
