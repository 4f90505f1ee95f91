"""A guard whose clock, ids and spans a test holds in its hands."""

from __future__ import annotations

import asyncio
import itertools
import subprocess
import sys
import threading
from collections import Counter
from collections.abc import Callable, Iterable
from datetime import timedelta
from pathlib import Path
from typing import Any

from opentelemetry.sdk.trace import ReadableSpan, SpanProcessor, TracerProvider
from opentelemetry.sdk.trace.export import SimpleSpanProcessor
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter
from opentelemetry.sdk.trace.id_generator import IdGenerator

import readmit
from readmit._fold import Head
from readmit.journal import Journal

START = 1_750_000_000 * 10**9  # nanoseconds since the Unix epoch


class Clock:
    """Goes on by a microsecond each time it is read, and by more when it is told to."""

    def __init__(self) -> None:
        self.now = START

    def __call__(self) -> int:
        self.now += 1_000
        return self.now

    def advance(self, span: timedelta) -> None:
        self.now += span // timedelta(microseconds=1) * 1_000


class Counted(IdGenerator):
    """Trace and span ids that count from 1."""

    def __init__(self) -> None:
        self._traces, self._spans = itertools.count(1), itertools.count(1)

    def generate_trace_id(self) -> int:
        return next(self._traces)

    def generate_span_id(self) -> int:
        return next(self._spans)


class Stage:
    """A guard with a clock, ids that count, and the spans that it wrote.

    Args:
        journal: a path, `:memory:`, or a journal.
        processors: run before the one that keeps the spans.
        given: what else the guard is given.
    """

    made: list[Stage] = []  # noqa: RUF012 - those of one test, for the checks after it

    def __init__(
        self, journal: Path | str | Journal = ":memory:", *, processors: Iterable[SpanProcessor] = (), **given: Any
    ) -> None:
        self.journal = journal
        self.given = {"join_timeout": 0.05, **given}
        self.clock = Clock()
        self.exporter = InMemorySpanExporter()
        self.provider = TracerProvider(id_generator=Counted(), shutdown_on_exit=False)
        for processor in (*processors, SimpleSpanProcessor(self.exporter)):
            self.provider.add_span_processor(processor)
        self._ids = itertools.count(1)
        self.guard = self._guard()
        Stage.made.append(self)

    def _guard(self) -> readmit.Guard:
        given: dict[str, Any] = {"clock": self.clock, "new_id": self.new_id, "tracer_provider": self.provider}
        return readmit.Guard(journal=self.journal, **{**given, **self.given})

    def new_id(self) -> str:
        return f"id-{next(self._ids):04}"

    def restart(self, **given: Any) -> readmit.Guard:
        """The program ends and is started again: another guard on the same file, with the same clock and spans."""
        assert self.journal != ":memory:"
        self.guard.close()
        self.given |= given
        self.guard = self._guard()
        return self.guard

    # -- what was written -----------------------------------------------------------------------------------------

    def spans(self, operation: str | None = None) -> list[ReadableSpan]:
        """The spans of readmit that have ended, in the order of their end."""
        ended = [s for s in self.exporter.get_finished_spans() if "readmit.operation" in attributes(s)]
        return [s for s in ended if operation is None or attributes(s)["readmit.operation"] == operation]

    def story(self, *keys: str) -> list[str]:
        """One line for each span: its name, and what these attributes say."""
        lines = []
        for span in self.spans():
            said = attributes(span)
            words = [str(said[f"readmit.{key}"]) for key in keys if f"readmit.{key}" in said]
            name = span.name.removesuffix(f" {said['gen_ai.tool.name']}")
            lines.append(" ".join([f"{name}:", *words]))
        return lines

    def waiting(self) -> readmit.Pending:
        """The one occurrence that waits for somebody."""
        (pending,) = self.guard.pending()
        return pending

    def heads(self) -> list[Head]:
        """The occurrences that the spans name."""
        ids = {i: None for s in self.spans() if (i := attributes(s).get("readmit.occurrence.id"))}
        return [self.guard.show(i) for i in ids]


def attributes(span: ReadableSpan) -> dict[str, Any]:
    return dict(span.attributes or {})


def until(condition: Callable[[], object]) -> None:
    """Waits until something holds, for ten seconds at most."""
    tick = threading.Event()
    for _ in range(2_000):
        if condition():
            return
        tick.wait(0.005)
    raise AssertionError("it never came to hold")


async def happens(event: asyncio.Event) -> None:
    """Waits until something has happened, for ten seconds at most."""
    await asyncio.wait_for(event.wait(), 10)


async def becomes(condition: Callable[[], object]) -> None:
    """Lets the event loop go on until something holds, for ten seconds at most."""
    async with asyncio.timeout(10):
        while not condition():
            await asyncio.sleep(0.001)


def killed(script: str, *arguments: str) -> None:
    """Runs a program of its own that ends by `kill -9`."""
    done = subprocess.run([sys.executable, "-c", script, *arguments], capture_output=True, text=True, timeout=60)
    assert done.returncode == -9, done.stdout + done.stderr


# -- what holds for every span of every test ----------------------------------------------------------------------

SCRUBBED = ("auth", "session", "secret", "credential", "cookie", "www-authenticate")
OPERATIONS = frozenset(
    [
        "admit",
        "execute",
        "approve",
        "deny",
        "revoke",
        "login",
        "reconcile",
        "accept",
        "compensate",
        "deliver",
        "abandon",
        "declare_unknown",
    ]
)


def check_words(spans: Iterable[ReadableSpan]) -> None:
    """No key or value of ours holds a word that backends with default scrubbing blank; names of tools are not ours."""
    for span in spans:
        said = attributes(span)
        assert said["readmit.operation"] in OPERATIONS
        ours = {k: v for k, v in said.items() if k.startswith("readmit.")}
        ours |= {f"{k} of a link": v for link in span.links for k, v in (link.attributes or {}).items()}
        for text in (*ours, *map(str, ours.values()), span.name.removesuffix(str(said["gen_ai.tool.name"]))):
            assert not [word for word in SCRUBBED if word in text.lower()], f"{text!r} in {span.name}"


def check_epochs(spans: Iterable[ReadableSpan], heads: Iterable[Head]) -> None:
    """I10: every journalled epoch has exactly one span, and no span claims an epoch that the journal lacks."""
    claimed: Counter[tuple[Any, ...]] = Counter()
    for span in spans:
        said = attributes(span)
        if said["readmit.operation"] == "execute" and "readmit.epoch" in said:
            context = span.get_span_context()
            assert context is not None
            ids = f"{context.trace_id:032x}", f"{context.span_id:016x}"
            claimed[said["readmit.occurrence.id"], said["readmit.epoch"], said["readmit.admission.id"], *ids] += 1
    journalled: Counter[tuple[Any, ...]] = Counter()
    for head in heads:
        flying = {a.epoch for a in head.in_flight}
        for admitted in head.admissions:
            assert admitted.trace is not None
            if admitted.trace.sampled and admitted.epoch not in flying:  # else no provider wrote it, or not yet
                ids = admitted.trace.trace_id, admitted.trace.span_id
                journalled[head.id, admitted.epoch, admitted.admission, *ids] += 1
    assert claimed == journalled
    assert set(claimed.values()) <= {1}
