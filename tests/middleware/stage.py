"""A guard whose clock, ids and spans a test holds in its hands."""

from __future__ import annotations

import itertools
import subprocess
import sys
from datetime import timedelta
from pathlib import Path
from typing import Any

from opentelemetry.sdk.trace import ReadableSpan, TracerProvider
from opentelemetry.sdk.trace.export import SimpleSpanProcessor
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter
from opentelemetry.sdk.trace.id_generator import IdGenerator

import readmit
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
        given: what else the guard is given.
    """

    def __init__(self, journal: Path | str | Journal = ":memory:", **given: Any) -> None:
        self.journal = journal
        self.given = {"join_timeout": 0.05, **given}
        self.clock = Clock()
        self.exporter = InMemorySpanExporter()
        self.provider = TracerProvider(id_generator=Counted(), shutdown_on_exit=False)
        self.provider.add_span_processor(SimpleSpanProcessor(self.exporter))
        self._ids = itertools.count(1)
        self.guard = self._guard()

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
        """The spans that have ended, in the order of their end."""
        ended = self.exporter.get_finished_spans()
        return [s for s in ended if operation is None or attributes(s)["readmit.operation"] == operation]

    def story(self, *keys: str) -> list[str]:
        """One line for each span: its name, and what these attributes say, without their prefixes."""
        keys = keys or ("admission.decision", "admission.justification", "admission.refusal", "effect.state")
        lines = []
        for span in self.spans():
            said = attributes(span)
            words = [str(said[f"readmit.{key}"]) for key in keys if f"readmit.{key}" in said]
            name = span.name.replace(str(said["gen_ai.tool.name"]), "").strip()
            lines.append(" ".join([f"{name}:", *words]))
        return lines

    def waiting(self) -> readmit.Pending:
        """The one occurrence that waits for somebody."""
        (pending,) = self.guard.pending()
        return pending


def attributes(span: ReadableSpan) -> dict[str, Any]:
    return dict(span.attributes or {})


def killed(script: str, *arguments: str) -> None:
    """Runs a program of its own that ends by `kill -9`."""
    done = subprocess.run([sys.executable, "-c", script, *arguments], capture_output=True, text=True, timeout=60)
    assert done.returncode == -9, done.stdout + done.stderr
