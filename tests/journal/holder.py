"""A program that holds a journal: its token, or the right to write in it, until the test says a word."""

from __future__ import annotations

import sqlite3
import sys
from pathlib import Path

from readmit.journal import SQLiteJournal
from tests.journal.facts import admitted, first, opened
from tests.journal.processes import ready, wait_for_word


def in_flight(path: Path) -> None:
    """Its epoch 1 of occurrence `theirs` is in flight."""
    journal = SQLiteJournal(path)
    journal.append([first("theirs", opened(), admitted(journal.owner))], durable=True)
    ready()
    wait_for_word()
    journal.close()


def writing(path: Path) -> None:
    """It writes, and does not come to an end."""
    connection = sqlite3.connect(path, isolation_level=None)
    connection.execute("BEGIN IMMEDIATE")
    ready()
    wait_for_word()
    connection.execute("ROLLBACK")
    connection.close()


if __name__ == "__main__":
    {"in_flight": in_flight, "writing": writing}[sys.argv[1]](Path(sys.argv[2]))
