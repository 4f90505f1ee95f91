"""One client span for each request: that of the instrumentation where there is one, else ours."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest
from opentelemetry import trace
from opentelemetry.instrumentation.httpx import HTTPX2ClientInstrumentor, HTTPXClientInstrumentor
from opentelemetry.instrumentation.utils import suppress_http_instrumentation
from opentelemetry.sdk.trace import TracerProvider
from opentelemetry.sdk.trace.export import SimpleSpanProcessor
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter
from opentelemetry.sdk.trace.sampling import ALWAYS_OFF
from opentelemetry.trace import SpanKind

import readmit
from readmit import Contract
from readmit.testing import CHALLENGED, INVALID, LOST, closed_port
from tests.middleware.http.test_resend import auth_of
from tests.middleware.http.wires import Caller, Wire, client_spans
from tests.middleware.stage import Stage, attributes

PLACES = ["none", "global", "client before", "client after"]


def instrumentor(wire: Wire) -> Any:
    return HTTPX2ClientInstrumentor if wire.package.__name__ == "httpx2" else HTTPXClientInstrumentor


@pytest.fixture(params=PLACES)
def place(request: pytest.FixtureRequest, wire: Wire) -> Iterator[str]:
    """Where the instrumentation stands: in the class, in the client below or above ours, or nowhere."""
    place: str = request.param
    if place == "global":
        instrumentor(wire)().instrument(tracer_provider=wire.stage.provider)
    yield place
    if place == "global":
        instrumentor(wire)().uninstrument()


def made(wire: Wire, place: str, contract: Contract | None = None, **given: Any) -> Caller:
    client = wire.client(guarded=False, **given)
    cls, provider = instrumentor(wire), wire.stage.provider
    if place == "client before":
        cls.instrument_client(client.client, tracer_provider=provider)
    readmit.instrument(client.client, contract=contract, guard=wire.stage.guard)
    if place == "client after":
        cls.instrument_client(client.client, tracer_provider=provider)
    return client


def who(stage: Stage) -> set[str]:
    scopes = {s.instrumentation_scope for s in stage.exporter.get_finished_spans() if s.kind is SpanKind.CLIENT}
    return {scope.name for scope in scopes if scope is not None}


async def test_each_send_is_on_exactly_one_span(wire: Wire, place: str) -> None:
    client = made(wire, place, auth=auth_of(wire, "old", "new"), contract=Contract(rejected=(401,)))

    async def send() -> Any:
        return (await client.post()).json()

    wire.server.script("/messages", [CHALLENGED])
    await wire.tool(send)()
    said = client_spans(wire.stage)
    keys = ("readmit.send", "http.request.resend_count", "readmit.effect.state", "readmit.effect.rule")
    assert [[one.get(key) for key in keys] for one in said] == [
        [1, None, "rejected", "http.challenge"],
        [2, 1, "committed", "http.2xx"],
    ]
    assert {(one["readmit.occurrence.id"], one["readmit.epoch"]) for one in said} == {("id-0002", 1)}
    assert who(wire.stage) == ({"readmit"} if place == "none" else {"opentelemetry.instrumentation.httpx"})
    (epoch,) = [s for s in wire.stage.exporter.get_finished_spans() if s.name == "execute_tool send"]
    clients = [s for s in wire.stage.exporter.get_finished_spans() if s.kind is SpanKind.CLIENT]
    assert {s.parent.span_id for s in clients if s.parent} == {epoch.context.span_id}


@pytest.mark.parametrize("outcome", ["refused", "lost", "422"])
async def test_what_became_of_it_is_on_the_span(wire: Wire, place: str, outcome: str) -> None:
    given: Any = {"base_url": f"http://127.0.0.1:{closed_port()}"} if outcome == "refused" else {}
    client = made(wire, place, **given)

    async def send() -> None:
        (await client.post()).raise_for_status()

    wire.server.script("/messages", [INVALID if outcome == "422" else LOST])
    with pytest.raises((wire.package.TransportError, wire.package.HTTPStatusError)):
        await wire.tool(send)()
    (said,) = client_spans(wire.stage)
    expected = {
        "refused": ("not_sent", "http.not_connected", "proof"),
        "lost": ("unknown", "http.no_response", None),
        "422": ("rejected", "http.4xx", "protocol"),
    }
    keys = ("readmit.effect.state", "readmit.effect.rule", "readmit.effect.strength")
    assert tuple(said.get(key) for key in keys) == expected[outcome]


async def test_outside_tools_too(wire: Wire, place: str) -> None:
    client = made(wire, place)
    await client.post()
    await client.request("GET", "/messages")
    said = client_spans(wire.stage)
    assert [one.get("readmit.send") for one in said] == [1, None]
    assert [one["readmit.effect.rule"] for one in said] == ["http.2xx", "http.safe_method"]


async def test_a_full_pool_is_not_doubled(wire: Wire, place: str) -> None:
    """No phase is reported then, so the span of the instrumentation below is out of reach; it is still the only one."""
    client = made(
        wire,
        place,
        limits=wire.package.Limits(max_connections=1),
        timeout=wire.package.Timeout(5, pool=0.05),
    )
    held = await client.send(client.client.build_request("GET", "/"), stream=True)
    with pytest.raises(wire.package.PoolTimeout):
        await client.post()
    assert len(client_spans(wire.stage)) == 2
    await held.aread() if wire.asynchronous else held.read()


async def test_a_suppressed_request_says_so_on_a_span_that_is_already_open(wire: Wire) -> None:
    client = made(wire, "client after")

    async def send() -> None:
        with pytest.raises(wire.package.TransportError):
            await client.post()
        await client.post()

    wire.server.script("/messages", [LOST])
    with pytest.raises(wire.package.TransportError):
        await wire.tool(send)()
    said = client_spans(wire.stage)[1]
    assert said["readmit.send.refusal"] == "effect_unknown"
    assert (said["readmit.effect.state"], said["readmit.effect.rule"]) == ("not_sent", "http.resend")


async def test_our_own_span_follows_the_conventions(wire: Wire) -> None:
    client = made(wire, "none")
    wire.server.script("/messages", [INVALID])
    await client.post("/messages?token=secret-1", headers={"Authorization": "Bearer secret-2"})
    (said,) = client_spans(wire.stage)
    assert said["http.request.method"] == "POST"
    assert said["url.full"] == f"{wire.server.url}/messages"
    assert (said["server.address"], said["server.port"]) == ("127.0.0.1", wire.server.port)
    assert (said["http.response.status_code"], said["error.type"]) == (422, "422")
    assert "secret" not in str([attributes(s) for s in wire.stage.exporter.get_finished_spans()])


async def test_no_span_where_the_application_wants_none(wire: Wire) -> None:
    client = made(wire, "none")
    with suppress_http_instrumentation():
        await client.post()
    assert client_spans(wire.stage) == []
    assert len(wire.server.effects) == 1


async def test_a_span_that_was_sampled_away_is_not_replaced(wire: Wire) -> None:
    client = wire.client()
    instrumentor(wire).instrument_client(client.client, tracer_provider=TracerProvider(sampler=ALWAYS_OFF))
    await client.post()
    sampled_below = wire.client(guarded=False)
    instrumentor(wire).instrument_client(sampled_below.client, tracer_provider=TracerProvider(sampler=ALWAYS_OFF))
    readmit.instrument(sampled_below.client, guard=wire.stage.guard)
    await sampled_below.post(json={"text": "another"})
    assert client_spans(wire.stage) == []


async def test_another_client_span_around_is_left_alone(wire: Wire) -> None:
    """The span of a model's client, or of the request that is being answered, is not the span of this request."""
    client = made(wire, "none")
    exporter = InMemorySpanExporter()
    provider = TracerProvider(shutdown_on_exit=False)
    provider.add_span_processor(SimpleSpanProcessor(exporter))
    outer = provider.get_tracer("model").start_span(
        "chat", kind=SpanKind.CLIENT, attributes={"http.request.method": "POST", "url.full": "https://model/chat"}
    )
    with trace.use_span(outer, end_on_exit=True):
        await client.post()
    assert "readmit.send" not in attributes(exporter.get_finished_spans()[0])
    assert [said["readmit.send"] for said in client_spans(wire.stage)] == [1]
