"""One scenario for every client: httpx and httpx2, plain and asynchronous."""

from __future__ import annotations

import functools
import inspect
import ssl
from collections.abc import Awaitable, Callable, Coroutine
from contextlib import AsyncExitStack
from types import ModuleType
from typing import Any

import httpx
import httpx2
from opentelemetry.sdk.trace import ReadableSpan
from opentelemetry.trace import SpanKind

import readmit
from readmit import Contract
from tests.middleware.stage import Stage, attributes

NO_CERTIFICATES = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)  # loading the usual ones takes longer than a test
KINDS = ["httpx", "httpx-async", "httpx2", "httpx2-async"]


def run_now(coroutine: Coroutine[Any, Any, Any]) -> Any:
    """Runs a coroutine that never really waits, which is what a plain client makes of a scenario."""
    try:
        coroutine.send(None)
    except StopIteration as stop:
        return stop.value
    raise AssertionError("a plain scenario waited")


class Wire:
    """A guard, a server, and clients of one kind.

    Args:
        kind: one of `KINDS`.
        stage: the guard.
        server: where the clients send to: an `EffectServer`, or another with a `url`.
    """

    def __init__(self, kind: str, stage: Stage, server: Any) -> None:
        self.package: ModuleType = httpx2 if kind.startswith("httpx2") else httpx
        self.asynchronous = kind.endswith("async")
        self.stage = stage
        self.server = server
        self.closing = AsyncExitStack()

    def client(
        self, *, contract: Contract | None = None, effect: Any = "write", guarded: bool = True, **given: Any
    ) -> Caller:
        """A client, instrumented by hand unless told otherwise."""
        made = self.package.AsyncClient if self.asynchronous else self.package.Client
        client = made(**{"base_url": self.server.url, "timeout": 5, "verify": NO_CERTIFICATES, **given})
        if self.asynchronous:
            self.closing.push_async_callback(client.aclose)
        else:
            self.closing.callback(client.close)
        if guarded:
            readmit.instrument(client, contract=contract, effect=effect, guard=self.stage.guard)
        return Caller(client)

    def transport(self, inner: Any, **declared: Any) -> Any:
        """A guarded transport, put around another by hand."""
        made = readmit.AsyncGuardedTransport if self.asynchronous else readmit.GuardedTransport
        return made(inner, guard=self.stage.guard, **declared)

    @property
    def real_transport(self) -> Any:
        return self.package.AsyncHTTPTransport if self.asynchronous else self.package.HTTPTransport

    def tool(self, body: Callable[..., Awaitable[Any]], *, effect: Any = "write", **declared: Any) -> Tool:
        """A guarded tool with this body."""
        if self.asynchronous:

            @functools.wraps(body)
            async def function(*args: Any) -> Any:
                return await body(*args)
        else:

            @functools.wraps(body)
            def function(*args: Any) -> Any:
                return run_now(body(*args))  # type: ignore[arg-type]

        name = declared.pop("name", body.__name__)
        return Tool(self.stage.guard.tool(effect=effect, name=name, **declared)(function))


class Caller:
    """A client whose answers can be awaited, whatever it is."""

    def __init__(self, client: Any) -> None:
        self.client = client

    async def request(self, method: str, path: str, **more: Any) -> Any:
        answer = self.client.request(method, path, **more)
        return await answer if inspect.isawaitable(answer) else answer

    async def post(self, path: str = "/messages", **more: Any) -> Any:
        return await self.request("POST", path, **{"json": {"text": "hello"}, **more})

    async def send(self, request: Any, **more: Any) -> Any:
        answer = self.client.send(request, **more)
        return await answer if inspect.isawaitable(answer) else answer


class Tool:
    """A guarded tool whose result can be awaited, whatever it is."""

    def __init__(self, function: Callable[..., Any]) -> None:
        self.function = function

    async def __call__(self, *args: Any) -> Any:
        value = self.function(*args)
        return await value if inspect.isawaitable(value) else value


def client_spans(stage: Stage) -> list[dict[str, Any]]:
    """The attributes of every client span, in the order of their ends."""
    return [attributes(s) for s in stage.exporter.get_finished_spans() if s.kind is SpanKind.CLIENT]


def span(stage: Stage, name: str) -> ReadableSpan:
    """The one span of this name."""
    (found,) = [s for s in stage.exporter.get_finished_spans() if s.name == name]
    return found


def told(stage: Stage) -> list[tuple[Any, ...]]:
    """State, rule and strength of every client span, as the analysis reads them."""
    keys = ("readmit.effect.state", "readmit.effect.rule", "readmit.effect.strength")
    return [tuple(said.get(key) for key in keys) for said in client_spans(stage)]


def justifications(stage: Stage) -> list[Any]:
    """Why each epoch was admitted."""
    said = [attributes(s) for s in stage.exporter.get_finished_spans() if s.name.startswith("execute_tool")]
    return [one.get("readmit.admission.justification") for one in said]


def events(stage: Stage, kind: type, occurrence: str | None = None) -> list[Any]:
    """What the journal holds of one kind of event, of the only open occurrence if none is named."""
    head = stage.guard.show(occurrence or stage.waiting().occurrence_id)
    lanes = (head.identity, head.admission, head.recovery, head.authority, head.effect, head.delivery, head.record)
    return [e for _, e in sorted((r for lane in lanes for r in lane), key=lambda r: r[0]) if isinstance(e, kind)]
