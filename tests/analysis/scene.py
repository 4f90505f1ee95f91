"""Traces for the tests, written by the real OpenTelemetry SDK and the official OTLP JSON file exporter."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from types import TracebackType
from typing import Any

from opentelemetry.exporter.otlp.json.file import FileSpanExporter
from opentelemetry.sdk.resources import Resource
from opentelemetry.sdk.trace import TracerProvider
from opentelemetry.sdk.trace.export import SimpleSpanProcessor
from opentelemetry.sdk.trace.id_generator import IdGenerator
from opentelemetry.trace import Span, SpanKind, Status, StatusCode, set_span_in_context

START = 1_790_000_000_000_000_000
MS = 1_000_000
SECOND = 1_000 * MS


class _Ids(IdGenerator):
    """Ids that are the same in every run."""

    def __init__(self, seed: int) -> None:
        self._last = seed << 32

    def generate_span_id(self) -> int:
        self._last += 1
        return self._last

    def generate_trace_id(self) -> int:
        self._last += 1
        return (0xABCD << 112) | self._last


@dataclass
class Scene:
    """One service that writes spans to one file; its clock stands still until `wait` moves it."""

    path: Path
    service: str = "agent"
    host: str = "host-1"
    seed: int = 1
    now: int = START
    _open: list[Span] = field(default_factory=list)

    def __enter__(self) -> Scene:
        resource = Resource({"service.name": self.service, "host.name": self.host})
        self._provider = TracerProvider(resource=resource, id_generator=_Ids(self.seed), shutdown_on_exit=False)
        self._provider.add_span_processor(SimpleSpanProcessor(FileSpanExporter(self.path)))
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._provider.shutdown()

    def wait(self, ns: int) -> None:
        self.now += ns

    @contextmanager
    def span(
        self,
        name: str,
        attributes: Mapping[str, Any] | None = None,
        *,
        kind: SpanKind = SpanKind.INTERNAL,
        lasts: int = 10 * MS,
        error: str | None = None,
        scope: str = "app",
        parent: Span | None = None,
        root: bool = False,
        start: int | None = None,
    ) -> Iterator[Span]:
        """A span around the body; afterwards the clock has moved by `lasts`."""
        above = parent or (self._open[-1] if self._open and not root else None)
        span = self._provider.get_tracer(scope).start_span(
            name,
            context=set_span_in_context(above) if above else None,
            kind=kind,
            attributes={key: value for key, value in (attributes or {}).items() if value is not None},
            start_time=self.now if start is None else start,
        )
        self._open.append(span)
        try:
            yield span
        finally:
            self._open.pop()
            self.now += lasts
            if error:
                span.set_attribute("error.type", error)
                span.set_status(Status(StatusCode.ERROR, error))
            span.end(self.now)

    def leaf(self, name: str, attributes: Mapping[str, Any] | None = None, **options: Any) -> str:
        """A span without anything inside; returns its id in hex."""
        with self.span(name, attributes, **options) as span:
            pass
        return span_id(span)

    # -- what foreign instrumentation writes ---------------------------------------------------------------------

    def chat(self, **attributes: Any) -> str:
        return self.leaf("chat m", {"gen_ai.operation.name": "chat", **_dotted(attributes)}, kind=SpanKind.CLIENT)

    @contextmanager
    def tool(
        self,
        tool: str,
        arguments: str | None,
        *,
        call_id: str | None = None,
        error: str | None = None,
        conversation: str | None = None,
        **options: Any,
    ) -> Iterator[Span]:
        attributes = {
            "gen_ai.operation.name": "execute_tool",
            "gen_ai.tool.name": tool,
            "gen_ai.tool.call.id": call_id,
            "gen_ai.tool.call.arguments": arguments,
            "gen_ai.conversation.id": conversation,
        }
        with self.span(f"execute_tool {tool}", attributes, error=error, **options) as span:
            yield span

    def send(
        self,
        status: int | None = 200,
        *,
        method: str = "POST",
        url: str = "http://api.test/messages",
        error: str | None = None,
        **attributes: Any,
    ) -> str:
        found = {
            "http.request.method": method,
            "url.full": url,
            "http.response.status_code": status,
            **_dotted(attributes),
        }
        failed = error or (str(status) if status and status >= 400 else None)
        return self.leaf(method, found, kind=SpanKind.CLIENT, error=failed, scope="opentelemetry.instrumentation.httpx")

    # -- what readmit writes ---------------------------------------------------------------------------------------

    def act(self, operation: str, occurrence: str, *, tool: str = "send_message", **attributes: Any) -> str:
        found = {
            "readmit.operation": operation,
            "readmit.occurrence.id": occurrence,
            "gen_ai.tool.name": tool,
            **_ours(attributes),
        }
        return self.leaf(f"{operation} {tool}", found, scope="readmit", lasts=MS)

    @contextmanager
    def epoch(
        self,
        occurrence: str,
        number: int,
        *,
        tool: str = "send_message",
        effect: str | None,
        decision: str = "admit",
        justification: str | None = "first_attempt",
        before: str | None = None,
        came_after: str = "call",
        mode: str = "enforce",
        refusal: str | None = None,
        error: str | None = None,
        executes: bool = True,
        digest: str = "d1",
        conversation: str | None = "thread-1",
        call_id: str | None = None,
        **attributes: Any,
    ) -> Iterator[Span | None]:
        """An admission and the epoch it admits, as SPANS of readmit; `executes=False` is a crash in between."""
        common = {
            "readmit.occurrence.id": occurrence,
            "readmit.epoch": number,
            "readmit.mode": mode,
            "readmit.identity": "open" if number > 1 else "minted",
            "readmit.input.digest": digest,
            "readmit.admission.decision": decision,
            "readmit.admission.justification": justification if decision == "admit" else None,
            "readmit.admission.refusal": refusal,
            "readmit.admission.id": f"{occurrence}-{number}",
            "readmit.trigger": came_after,
            "gen_ai.tool.name": tool,
            "gen_ai.tool.call.id": call_id,
            "gen_ai.conversation.id": conversation,
        }
        admit = {"readmit.operation": "admit", "readmit.effect.state": before, **common}
        self.leaf(f"admit {tool}", admit, scope="readmit", lasts=MS)
        if not executes:
            yield None
            return
        executed = {
            "readmit.operation": "execute",
            "gen_ai.operation.name": "execute_tool",
            "readmit.effect.state": effect,
            **common,
            **_ours(attributes),
        }
        with self.span(f"execute_tool {tool}", executed, scope="readmit", error=error) as span:
            yield span


def span_id(span: Span) -> str:
    return f"{span.get_span_context().span_id:016x}"


def _dotted(attributes: Mapping[str, Any]) -> dict[str, Any]:
    """Keyword names as attribute names: `__` stands for a dot."""
    return {key.replace("__", "."): value for key, value in attributes.items()}


def _ours(attributes: Mapping[str, Any]) -> dict[str, Any]:
    return {f"readmit.{key.replace('__', '.')}": value for key, value in attributes.items()}
