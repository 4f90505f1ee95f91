"""What a guarded call costs beside the spans it writes and the fsync it needs: `python -m tests.bench.bench_calls`."""

from __future__ import annotations

import itertools
import sqlite3
import tempfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

from opentelemetry.sdk.trace import TracerProvider

import readmit
from tests.bench.bare import batched, by_hand, spans_of
from tests.bench.figures import Figure, show
from tests.bench.stopwatch import CPU, WALL, take_turns

MEMORY = Path("/dev/shm")
Call = Callable[[], object]


@contextmanager
def guarded(folder: Path, effect: str, provider: TracerProvider) -> Iterator[Call]:
    """A tool that does nothing, called with other arguments each time."""
    guard = readmit.Guard(journal=folder / "readmit.db", tracer_provider=provider)

    @guard.tool(effect=effect, name="bank.pay")  # type: ignore[arg-type]
    def pay(order: str, cents: int) -> str:
        return "paid"

    numbers = itertools.count()
    yield lambda: pay(f"order-{next(numbers)}", 5)
    guard.close()


def once(effect: str) -> Callable[[TracerProvider], object]:
    """One such call, on another journal."""

    def call(provider: TracerProvider) -> None:
        with tempfile.TemporaryDirectory() as folder, guarded(Path(folder), effect, provider) as pay:
            pay()

    return call


def unguarded() -> Callable[[], str]:
    """The same tool without a guard."""
    numbers = itertools.count()

    def pay(order: str, cents: int) -> str:
        return "paid"

    return lambda: pay(f"order-{next(numbers)}", 5)


def reads() -> list[Figure]:
    """A read-only call against one span."""
    provider = batched()
    with tempfile.TemporaryDirectory() as folder, guarded(Path(folder), "read", provider) as read:
        ours, theirs = take_turns(read, by_hand(provider, spans_of(once("read")), unguarded()), clock=CPU)
    provider.shutdown()
    detail = f"{ours.typical:.0f} µs against {theirs.typical:.0f}; undisturbed {ours.quiet:.0f} and {theirs.quiet:.0f}"
    return [Figure("a read-only call, of a bare span", ours.over(theirs), 1.6, "x", detail)]


def writes() -> list[Figure]:
    """An effectful call against its two spans, without a disk."""
    provider = batched()
    place = MEMORY if MEMORY.is_dir() else None
    with tempfile.TemporaryDirectory(dir=place) as folder, guarded(Path(folder), "write", provider) as write:
        ours, theirs = take_turns(write, by_hand(provider, spans_of(once("write")), unguarded()), clock=CPU)
    provider.shutdown()
    more = ours.beyond(theirs)
    detail = f"{ours.typical:.0f} µs against {theirs.typical:.0f}; undisturbed {more.quiet:.0f} beyond"
    where = "in memory" if place else "on the disk: there is no /dev/shm"
    return [
        Figure(f"an effectful call, CPU beyond two bare spans, {where}", more.typical, 90, "µs", detail),
        Figure("the same, undisturbed", more.quiet, 90, "µs", f"{ours.quiet:.0f} µs against {theirs.quiet:.0f}"),
    ]


@contextmanager
def committing(folder: Path) -> Iterator[Call]:
    """One raw commit that survives a power failure, as large as an admission."""
    connection = sqlite3.connect(folder / "raw.db", isolation_level=None)
    connection.execute("PRAGMA journal_mode = WAL")
    connection.execute("PRAGMA synchronous = FULL")
    connection.execute("CREATE TABLE raw (id INTEGER PRIMARY KEY, text TEXT)")
    yield lambda: connection.execute("INSERT INTO raw (text) VALUES (?)", ("x" * 700,))
    connection.close()


def latency() -> list[Figure]:
    """An effectful call against one raw commit and its two spans, on the disk."""
    provider = batched()
    with (
        tempfile.TemporaryDirectory(dir=Path.cwd()) as folder,
        guarded(Path(folder), "write", provider) as write,
        committing(Path(folder)) as commit,
    ):
        spans = by_hand(provider, spans_of(once("write")), unguarded())
        ours, raw, theirs = take_turns(write, commit, spans, clock=WALL, rounds=60, calls=20)
    provider.shutdown()
    detail = f"{ours.typical:.0f} µs against {raw.typical:.0f} and {theirs.typical:.0f}"
    return [
        Figure("an effectful call, of one raw commit and two spans, on disk", ours.over(raw, theirs), 1.3, "x", detail)
    ]


def figures() -> list[Figure]:
    """All of them."""
    return [*reads(), *writes(), *latency()]


if __name__ == "__main__":
    show(figures())
