"""The tool and its twin: one function, one server each; one of them guarded."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from itertools import count
from typing import NamedTuple

import httpx
from opentelemetry.instrumentation.httpx import HTTPXClientInstrumentor
from opentelemetry.sdk.trace import TracerProvider
from opentelemetry.trace import Status, StatusCode

import readmit
from readmit._context import identified
from readmit._guard import Guard
from readmit.demo._report import GUARDED, UNGUARDED
from readmit.testing import CHALLENGED, LOST, Behaviour, EffectServer

PRINCIPAL = "ann"
TO, BODY = "bob@example.org", "The invoice is paid."
_SENT = Behaviour(body=b'{"id": "msg-2"}')


class Told(NamedTuple):
    """What came of one call, and what the server saw of it."""

    value: str | None
    error: Exception | None
    seen: tuple[str, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Side:
    """One tool with a server of its own."""

    server: EffectServer
    send: Callable[[str, str], str]

    def call(self) -> Told:
        """Asks for the same message, as a model does that got no answer."""
        requests, effects = len(self.server.requests), len(self.server.effects)
        value, error = None, None
        try:
            value = self.send(TO, BODY)
        except (httpx.HTTPError, readmit.Refused) as raised:
            error = raised
        seen = [f"{request.method} {request.path.partition('?')[0]} →" for request in self.server.requests[requests:]]
        if len(self.server.effects) > effects:
            seen[0] += f" effect {len(self.server.effects)},"
        answers = [*["no answer"] * (len(seen) - 1), _answer(error)]
        return Told(value, error, tuple(f"{request} {answer}" for request, answer in zip(seen, answers, strict=False)))


def _answer(error: Exception | None) -> str:
    """How the last request of a call was answered."""
    return str(error.response.status_code) if isinstance(error, httpx.HTTPStatusError) else "200"


def sender(client: httpx.Client) -> Callable[[str, str], str]:
    """An ordinary tool: it sends, and if no answer comes it looks whether the message is there."""

    def send_message(to: str, body: str) -> str:
        try:
            answer = client.post("/messages", json={"to": to, "body": body})
        except httpx.TransportError:
            answer = client.get("/messages", params={"to": to})
        answer.raise_for_status()
        return str(answer.json()["id"])

    return send_message


@contextmanager
def guarded(guard: Guard, provider: TracerProvider) -> Iterator[Side]:
    """The tool as a user of readmit has it: an instrumented client and a decorator."""
    with _served(provider) as (server, client):
        readmit.instrument(client, guard=guard)
        send, calls = guard.tool(effect="write", name=GUARDED)(sender(client)), _call_ids()

        def in_scope(to: str, body: str) -> str:
            with readmit.scope("demo-guarded", principal=PRINCIPAL), identified(call_id=next(calls)):
                return send(to, body)

        yield Side(server=server, send=in_scope)


@contextmanager
def unguarded(provider: TracerProvider) -> Iterator[Side]:
    """The same function without readmit, traced as a framework does it: GenAI conventions, stock httpx spans."""
    with _served(provider) as (server, client):
        send, calls, tracer = sender(client), _call_ids(), provider.get_tracer("an.agent.framework")

        def traced(to: str, body: str) -> str:
            attributes = {
                "gen_ai.operation.name": "execute_tool",
                "gen_ai.tool.name": UNGUARDED,
                "gen_ai.tool.call.id": next(calls),
                "gen_ai.tool.call.arguments": json.dumps({"to": to, "body": body}),
                "gen_ai.conversation.id": "demo-unguarded",
            }
            with tracer.start_as_current_span(
                f"execute_tool {UNGUARDED}",
                attributes=attributes,
                record_exception=False,
                set_status_on_exception=False,
            ) as span:
                try:
                    return send(to, body)
                except httpx.HTTPError as error:
                    span.set_attribute("error.type", type(error).__qualname__)
                    span.set_status(Status(StatusCode.ERROR))
                    raise

        yield Side(server=server, send=traced)


def _call_ids() -> Iterator[str]:
    """A model asks under a new id each time."""
    return (f"call_{number}" for number in count(1))


@contextmanager
def _served(provider: TracerProvider) -> Iterator[tuple[EffectServer, httpx.Client]]:
    """A server that loses the first answer after the effect, then finds that the sign-in has expired; and a client."""
    with ExitStack() as stack:
        server = stack.enter_context(EffectServer())
        server.script("/messages", [LOST, CHALLENGED, _SENT])
        client = stack.enter_context(client_of(server.url, provider))
        yield server, client


def client_of(url: str, provider: TracerProvider) -> httpx.Client:
    """A client with stock spans. It goes to loopback whatever proxies the environment names."""
    client = httpx.Client(base_url=url, timeout=5, trust_env=False)
    HTTPXClientInstrumentor.instrument_client(client, tracer_provider=provider)
    return client
