"""A program with one guarded tool, whose effect is a line in a file. It can be killed at every point of a call.

Arguments: the folder with the journal and the effects, and what to do.
"""

from __future__ import annotations

import asyncio
import os
import signal
import sys
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path

import readmit
from readmit._fold import Head
from readmit._identity import Found
from readmit._model import Ended
from readmit.journal import Change, Query, SQLiteJournal, _notes
from tests.journal.processes import ready, wait_for_word

POINTS = (
    "before_intent",
    "after_intent",
    "before_effect",
    "after_effect",
    "before_outcome",
    "after_outcome",
    "before_delivery",
    "after_return",
    "after_delivery",
)


def kill_at(point: str) -> Callable[[str], None]:
    """Something to call at each point: at this one the process is gone."""

    def reached(here: str) -> None:
        if here == point:
            os.kill(os.getpid(), signal.SIGKILL)

    return reached


class Watched:
    """A journal that tells where a call is."""

    def __init__(self, journal: SQLiteJournal, reached: Callable[[str], None]) -> None:
        self._journal = journal
        self._reached = reached
        self.name = journal.name

    @property
    def owner(self) -> str:
        return self._journal.owner

    def alive(self, owner: str) -> bool:
        return self._journal.alive(owner)

    def find(self, query: Query) -> Found:
        return self._journal.find(query)

    def load(self, occurrence_id: str) -> Head | None:
        return self._journal.load(occurrence_id)

    def append(self, changes: Sequence[Change], *, durable: bool) -> list[Head]:
        outcome = any(isinstance(e, Ended) for c in changes for e in c.events)
        what = "intent" if durable else "outcome" if outcome else "other"
        self._reached(f"before_{what}")
        heads = self._journal.append(changes, durable=durable)
        self._reached(f"after_{what}")
        return heads

    def note(self, change: Change) -> None:
        self._reached("before_delivery")
        self._journal.note(change)

    def named(self, name: str) -> list[Head]:
        return self._journal.named(name)

    def beginning(self, kind: str, prefix: str) -> list[str]:
        return self._journal.beginning(kind, prefix)

    def open(self) -> Iterator[Head]:
        return self._journal.open()

    def keep_document(self, fingerprint: str, text: bytes) -> None:
        self._journal.keep_document(fingerprint, text)

    def document(self, fingerprint: str) -> bytes | None:
        return self._journal.document(fingerprint)

    def close(self) -> None:
        self._journal.close()


def effects(folder: Path) -> list[str]:
    """What the outside world has seen."""
    file = folder / "effects"
    return file.read_text().splitlines() if file.exists() else []


def act(folder: Path, what: object) -> None:
    """The effect: it stays, whatever becomes of the process."""
    with (folder / "effects").open("a") as file:
        file.write(f"{what}\n")


class Program:
    """The guard and its tool.

    Args:
        folder: where journal and effects are.
        reached: called at each point of a call.
        guarded: what else the guard is given.
    """

    def __init__(
        self, folder: Path, reached: Callable[[str], None] = lambda point: None, *, join_timeout: float = 5.0
    ) -> None:
        self.journal = SQLiteJournal(folder / "readmit.db")
        self.guard = readmit.Guard(journal=Watched(self.journal, reached), join_timeout=join_timeout)

        @self.guard.tool(effect="write", name="pay")
        def pay(order: str, cents: int) -> str:
            reached("before_effect")
            act(folder, order)
            reached("after_effect")
            return f"paid {cents}"

        @self.guard.tool(effect="write", name="pay_async")
        async def pay_async(order: str, cents: int) -> str:
            await asyncio.sleep(0)
            reached("before_effect")
            act(folder, order)
            reached("after_effect")
            return f"paid {cents}"

        @self.guard.tool(effect="write", name="pay_once", key="order")
        def pay_once(order: str, cents: int) -> str:
            act(folder, order)
            return f"paid {cents}"

        @self.guard.tool(effect="write", name="pay_approved", key="order", approval=True)
        def pay_approved(order: str, cents: int) -> str:
            act(folder, order)
            return f"paid {cents}"

        @self.guard.tool(effect="write", name="pay_badly", key="order")
        def pay_badly(order: str, cents: int) -> str:
            act(folder, order)
            raise TimeoutError("no answer")

        @self.guard.tool(effect="write", name="pay_slowly")
        def pay_slowly(order: str, cents: int) -> str:
            act(folder, order)
            ready()
            wait_for_word()
            return f"paid {cents}"

        self.pay, self.pay_async = pay, pay_async
        self.pay_once, self.pay_approved, self.pay_badly, self.pay_slowly = (
            pay_once,
            pay_approved,
            pay_badly,
            pay_slowly,
        )

    def call(self, kind: str, order: str = "order-1") -> str:
        """One call, of a plain function or of a coroutine."""
        return asyncio.run(self.pay_async(order, 5)) if kind == "async" else self.pay(order, 5)

    def close(self) -> None:
        self.guard.close()
        self.journal.close()


def killed(folder: Path, kind: str, point: str) -> None:
    """One call; killed at a point."""
    _notes.DELAY = 600.0  # the delivery is written when this program says so
    reached = kill_at(point)
    program = Program(folder, reached)
    program.call(kind)
    reached("after_return")
    program.journal.append((), durable=False)
    reached("after_delivery")


def counted(folder: Path, calls: str, mode: str) -> None:
    """Some calls between two marks that a tracer sees; `careless` and `anxious` are what the count must find."""
    from readmit.journal import _connection

    if mode == "careless":
        _connection.Connection.make_durable = lambda self, transaction: None  # type: ignore[method-assign]
    if mode == "anxious":
        write = SQLiteJournal.append
        SQLiteJournal.append = lambda self, changes, *, durable: write(self, changes, durable=True)  # type: ignore[method-assign]
    program = Program(folder)
    program.call(mode, "first")
    mark()
    for number in range(int(calls)):
        program.call(mode, f"order-{number}")
    mark()
    program.close()


MARK = "/readmit-mark"


def mark() -> None:
    """A system call that stands out in a trace."""
    os.access(MARK, os.F_OK)


def told(folder: Path, calls: str) -> None:
    """Some calls, and what each of them said; one that was refused is tried once more."""
    program = Program(folder)
    print("opened", flush=True)
    for number in range(int(calls)):
        for attempt in (1, 2):
            try:
                said = program.pay(f"order-{number}", 5)
            except readmit.ReadmitError as error:
                said = f"{type(error).__name__}: {error}"
            print(f"{number}.{attempt} {said}", flush=True)
            if said == "paid 5":
                break
    try:
        program.close()
    except readmit.JournalUnavailable as error:  # a delivery could not be written: it is given again
        print(f"closing {type(error).__name__}: {error}")


def slow(folder: Path) -> None:
    """One call that is in flight until the test says a word."""
    program = Program(folder)
    print(program.pay_slowly("order-1", 5), flush=True)
    program.close()


def racing(folder: Path, tool: str) -> None:
    """One call at the same time as others."""
    program = Program(folder, join_timeout=30)
    call: Callable[[str, int], str] = getattr(program, tool)
    ready()
    wait_for_word()
    try:
        print(call("order-1", 5))
    except TimeoutError as error:
        print(type(error).__name__)
    except readmit.Refused as error:
        print(error.reason)
    program.close()


if __name__ == "__main__":
    modes: dict[str, Callable[..., None]] = {
        "killed": killed,
        "counted": counted,
        "told": told,
        "slow": slow,
        "racing": racing,
    }
    modes[sys.argv[2]](Path(sys.argv[1]), *sys.argv[3:])
