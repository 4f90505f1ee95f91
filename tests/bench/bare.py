"""The spans of a guarded call, written by hand: what the same trace costs without a guard."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Any, NamedTuple

from opentelemetry import trace
from opentelemetry.context import Context
from opentelemetry.sdk.trace import ReadableSpan, Span, SpanProcessor, TracerProvider
from opentelemetry.sdk.trace.export import BatchSpanProcessor, SpanExporter, SpanExportResult


class Nowhere(SpanExporter):
    """Takes what it gets."""

    def export(self, spans: object) -> SpanExportResult:
        return SpanExportResult.SUCCESS


class Seen(NamedTuple):
    """A span: what it had at its start, what came later, and whether it got a link to its child."""

    name: str
    start: dict[str, Any]
    later: dict[str, Any]
    linked: bool


class Watching(SpanProcessor):
    """Remembers the spans that start, in that order."""

    def __init__(self) -> None:
        self.seen: dict[int, Seen] = {}

    def on_start(self, span: Span, parent_context: Context | None = None) -> None:
        self.seen[span.context.span_id] = Seen(span.name, dict(span.attributes or {}), {}, False)

    def on_end(self, span: ReadableSpan) -> None:
        context = span.get_span_context()
        assert context is not None
        seen = self.seen[context.span_id]
        later = {k: v for k, v in (span.attributes or {}).items() if k not in seen.start}
        self.seen[context.span_id] = seen._replace(later=later, linked=bool(span.links))


def batched() -> TracerProvider:
    """A provider as applications have it, with an exporter that costs nothing."""
    provider = TracerProvider(shutdown_on_exit=False)
    provider.add_span_processor(BatchSpanProcessor(Nowhere()))
    return provider


def spans_of(call: Callable[[TracerProvider], object]) -> list[Seen]:
    """The spans that one guarded call writes."""
    provider, watching = TracerProvider(shutdown_on_exit=False), Watching()
    provider.add_span_processor(watching)
    call(provider)
    provider.shutdown()
    return list(watching.seen.values())


def by_hand(provider: trace.TracerProvider, seen: list[Seen], body: Callable[[], object]) -> Callable[[], None]:
    """The same spans with the same attributes; the second, if there is one, is a child that ends at once."""
    tracer = provider.get_tracer("by hand")
    outer, *inner = seen

    def call() -> None:
        with tracer.start_as_current_span(outer.name, attributes=outer.start) as span:
            for child in inner:
                made = tracer.start_span(child.name, attributes=child.start, start_time=time.time_ns())
                made.end()
                if outer.linked:
                    span.add_link(made.get_span_context(), {"readmit.link": "admission"})
            body()
            if outer.later:
                span.set_attributes(outer.later)

    return call
