"""One place that spans go to: a batch processor and an exporter that is watched."""

from __future__ import annotations

import logging
import os
from collections.abc import Sequence

from opentelemetry.sdk.trace import ReadableSpan
from opentelemetry.sdk.trace.export import BatchSpanProcessor, SpanExporter, SpanExportResult

_log = logging.getLogger("readmit.exporters")


class WatchedExporter(SpanExporter):
    """Counts what the inner exporter took and lost, and lets none of its exceptions out.

    Counting is needed because the SDK throws the result of an export away: its `force_flush` answers True against a
    dead collector.
    """

    def __init__(self, inner: SpanExporter, name: str) -> None:
        self._inner = inner
        self._name = name
        self.taken = 0
        self.lost = 0
        self.closing = False
        self.closed = False
        self._given_up = False

    def export(self, spans: Sequence[ReadableSpan]) -> SpanExportResult:
        """Hand one batch on; a failure is counted and said, never raised (telemetry fails open)."""
        result = SpanExportResult.FAILURE
        if not self._given_up:
            try:
                result = self._inner.export(spans)
            except Exception:
                _log.exception("%s: the exporter raised on a batch of %d spans. Calls go on.", self._name, len(spans))
        if result is SpanExportResult.SUCCESS:
            self.taken += len(spans)
            return result
        self.lost += len(spans)
        if self.closing:
            self._given_up = True
            _log.warning("%d spans for %s were lost at the exit: it did not take them.", len(spans), self._name)
        return result

    def shutdown(self) -> None:
        """Close the inner exporter once; the SDK and the user may both ask for it."""
        if not self.closed:
            self.closed = True
            self._inner.shutdown()

    def force_flush(self, timeout_millis: int = 30000) -> bool:
        """Flush the inner exporter."""
        return self._inner.force_flush(timeout_millis)


class _Processor(BatchSpanProcessor):
    """A batch processor whose shutdown stops at the first batch that fails.

    The stock one tries the rest too: behind a dead collector a program with three batches took 20 s to exit, with this
    one it takes as long as one batch is retried.
    """

    def __init__(self, exporter: WatchedExporter, *, delay: float | None) -> None:
        super().__init__(exporter, schedule_delay_millis=delay)
        self._watched = exporter

    def shutdown(self) -> None:
        self._watched.closing = True
        super().shutdown()  # type: ignore[no-untyped-call]


class Destination:
    """A processor that can be added to any SDK tracer provider, and the counts of its exporter.

    Args:
        inner: the exporter that does the work.
        name: what log lines call this place.
        delay: milliseconds between batches; `OTEL_BSP_SCHEDULE_DELAY` wins, and is the default.
    """

    def __init__(self, inner: SpanExporter, *, name: str, delay: float | None = None) -> None:
        self.name = name
        self.exporter = WatchedExporter(inner, name)
        self.processor = _Processor(self.exporter, delay=None if "OTEL_BSP_SCHEDULE_DELAY" in os.environ else delay)
