"""A program that forks with a journal in its hands."""

from __future__ import annotations

import os
import signal
import sqlite3
import sys
import threading
import time
import warnings
from collections.abc import Callable
from pathlib import Path

from readmit import Guard
from readmit.journal import SQLiteJournal, _file
from tests.journal.facts import admitted, first, opened
from tests.journal.processes import ready, until, wait_for_word


def fork(child: Callable[[], None]) -> int:
    """A child that does one thing and is gone, without what the interpreter does at its end."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", DeprecationWarning)  # of forks beside threads, which are the point here
        pid = os.fork()
    if pid == 0:
        status = 1
        try:
            child()
            status = 0
        finally:
            os._exit(status)
    return pid


def holds(folder: Path) -> None:
    """Parent and child each have an epoch in flight; the child outlives the parent."""
    journal = SQLiteJournal(folder / "readmit.db")
    journal.append([first("parents", opened(), admitted(journal.owner))], durable=True)
    tokens = [journal.owner]

    def child() -> None:
        assert journal.alive(tokens[0])
        head = journal.load("parents")
        assert head is not None and head.version == 2
        journal.append([first("childs", opened("d2"), admitted(journal.owner))], durable=True)
        (folder / "written").write_text(" ".join([*tokens, journal.owner]))
        (folder / "written").rename(folder / "tokens")
        time.sleep(600)

    (folder / "child").write_text(str(fork(child)))
    until((folder / "tokens").exists)
    head = journal.load("childs")
    assert head is not None and head.version == 2
    ready()
    wait_for_word()


def kill(pid: str) -> None:
    """Ends the child that was left behind."""
    os.kill(int(pid), signal.SIGKILL)
    status = Path(f"/proc/{pid}/status")
    until(lambda: not status.exists() or "\nState:\tZ" in status.read_text())


def many(folder: Path) -> None:
    """A thread that writes as fast as it can, in a process that forks; each child writes too."""
    journal = SQLiteJournal(folder / "readmit.db")
    over = threading.Event()
    acknowledged = os.open(folder / "acknowledged", os.O_CREAT | os.O_APPEND | os.O_WRONLY)

    def write(name: str) -> None:
        journal.append([first(name, opened(name))], durable=True)
        os.write(acknowledged, f"{name}\n".encode())

    def busy() -> None:
        number = 0
        while not over.is_set() or number < 50:
            write(f"thread-{number}")
            number += 1

    def child(number: int) -> None:
        for each in range(5):
            write(f"child-{number}-{each}")
        journal.close()

    thread = threading.Thread(target=busy)
    thread.start()
    for number in range(15):
        pid = fork(lambda number=number: child(number))  # type: ignore[misc]
        assert os.waitpid(pid, 0)[1] == 0, f"child {number}"
        write(f"parent-{number}")
    over.set()
    thread.join()
    journal.close()


def memory(folder: Path) -> None:
    """The child has a copy, and the parent's epochs in it have no owner any more."""
    journal = SQLiteJournal(":memory:")
    journal.append([first("o1", opened(), admitted(journal.owner))], durable=True)
    owner = journal.owner

    def child() -> None:
        head = journal.load("o1")
        assert head is not None and head.version == 2
        assert not journal.alive(owner) and journal.alive(journal.owner)
        journal.append([first("o2", opened("d2"))], durable=True)

    assert os.waitpid(fork(child), 0)[1] == 0
    assert journal.alive(owner)
    assert journal.load("o2") is None
    journal.close()


def opening(folder: Path) -> None:
    """A fork while a thread opens the journal: the child has a token of its own, and is not kept waiting."""
    prepared, go = threading.Event(), threading.Event()
    real = _file._prepare

    def slow(connection: sqlite3.Connection, path: Path | None) -> None:
        prepared.set()
        go.wait(0.3)
        real(connection, path)

    _file._prepare = slow
    guard = Guard(journal=folder / "readmit.db")

    @guard.tool(effect="write", name="pay")
    def pay(cents: int) -> int:
        return cents

    thread = threading.Thread(target=pay, args=(1,))
    thread.start()
    assert prepared.wait(10)

    def child() -> None:
        signal.alarm(20)  # a child that waits for a thread of its parent's would wait for ever
        pay(2)
        (folder / "child").write_text(guard.ports().journal.owner)

    assert os.waitpid(fork(child), 0)[1] == 0
    thread.join()
    assert (folder / "child").read_text() != guard.ports().journal.owner
    guard.close()


if __name__ == "__main__":
    if sys.argv[1] == "kill":
        kill(sys.argv[2])
    else:
        {"holds": holds, "many": many, "memory": memory, "opening": opening}[sys.argv[1]](Path(sys.argv[2]))
