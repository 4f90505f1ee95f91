"""`instrument` and `uninstrument`: a client, its mounts, a whole package."""

from __future__ import annotations

import types
from collections.abc import Iterator
from typing import Any

import httpx
import httpx2
import pytest

import readmit
from readmit import Contract, ReplayRefused
from readmit.testing import LOST, EffectServer
from tests.middleware.http.wires import KINDS, Wire, client_spans, told
from tests.middleware.stage import Stage


async def test_it_gives_the_client_back_and_can_be_done_twice(wire: Wire) -> None:
    client = wire.client()
    transport = client.client._transport
    assert readmit.instrument(client.client, contract=Contract(name="second"), guard=wire.stage.guard) is client.client
    assert client.client._transport is transport
    await client.post()
    assert len(client_spans(wire.stage)) == 1


async def test_it_can_be_undone(wire: Wire) -> None:
    client = wire.client(mounts={"http://other": wire.real_transport()})
    assert readmit.uninstrument(client.client) is client.client
    assert isinstance(client.client._transport, wire.real_transport)
    assert all(isinstance(t, wire.real_transport) for t in client.client._mounts.values() if t is not None)
    readmit.uninstrument(client.client)
    wire.server.script("/messages", [LOST])
    with pytest.raises(wire.package.TransportError):
        await client.post()
    assert (await client.post()).status_code == 200
    assert client_spans(wire.stage) == []


async def test_mounts_are_guarded_too(wire: Wire) -> None:
    client = wire.client(mounts={"all://127.0.0.1": wire.real_transport()})
    wire.server.script("/messages", [LOST])
    with pytest.raises(wire.package.TransportError):
        await client.post()
    with pytest.raises(ReplayRefused):
        await client.post()


async def test_a_transport_put_there_by_hand_stays(wire: Wire) -> None:
    client = wire.client(transport=wire.transport(wire.real_transport(), effect="read"))
    readmit.uninstrument(client.client)
    wire.server.script("/messages", [LOST])
    with pytest.raises(wire.package.TransportError):
        await client.post()
    assert (await client.post()).status_code == 200, "it was declared to read, and instrument does not say otherwise"


@pytest.mark.parametrize(
    "given", [object(), "httpx", types, httpx.HTTPTransport], ids=["object", "text", "module", "class"]
)
def test_what_does_not_fit(given: Any) -> None:
    for act in (readmit.instrument, readmit.uninstrument):
        with pytest.raises(TypeError, match="a Client or an AsyncClient of httpx or httpx2, or the module"):
            act(given)


def test_what_is_declared_wrongly() -> None:
    with pytest.raises(ValueError, match="write 'read' for a client"):
        readmit.instrument(httpx.Client(), effect="reads")  # type: ignore[arg-type]
    with pytest.raises(TypeError, match=r"write a readmit\.Contract"):
        readmit.GuardedTransport(httpx.HTTPTransport(), contract={"rejected": (401,)})  # type: ignore[arg-type]


# -- a whole package -----------------------------------------------------------------------------------------------


@pytest.fixture
def watched(stage: Stage) -> Iterator[None]:
    before = [vars(c)["_transport_for_url"] for c in _CLIENTS]
    for package in (httpx, httpx2):
        readmit.instrument(package, guard=stage.guard)
        readmit.instrument(package, guard=stage.guard)
    yield
    for package in (httpx, httpx2):
        readmit.uninstrument(package)
        readmit.uninstrument(package)
    assert [vars(c)["_transport_for_url"] for c in _CLIENTS] == before


_CLIENTS = (httpx.Client, httpx.AsyncClient, httpx2.Client, httpx2.AsyncClient)


async def test_outside_tools_a_library_is_only_observed(wire: Wire, watched: None) -> None:
    """Model clients retry their POSTs."""
    client = wire.client(guarded=False)
    wire.server.script("/messages", [LOST])
    with pytest.raises(wire.package.TransportError):
        await client.post()
    assert (await client.post()).status_code == 200
    assert told(wire.stage) == [("unknown", "http.no_response", None), ("committed", "http.2xx", "protocol")]
    assert not any("readmit.occurrence.id" in said for said in client_spans(wire.stage))
    assert wire.stage.guard.pending() == []


async def test_inside_tools_it_is_guarded(wire: Wire, watched: None) -> None:
    client = wire.client(guarded=False)

    async def send() -> Any:
        return (await client.post()).json()

    tool = wire.tool(send)
    wire.server.script("/messages", [LOST])
    with pytest.raises(wire.package.TransportError):
        await tool()
    with pytest.raises(ReplayRefused):
        await tool()
    assert [said["readmit.send"] for said in client_spans(wire.stage)] == [1]


async def test_a_client_instrumented_by_hand_keeps_what_it_was_told(wire: Wire, watched: None) -> None:
    client = wire.client()
    wire.server.script("/messages", [LOST])
    with pytest.raises(wire.package.TransportError):
        await client.post()
    with pytest.raises(ReplayRefused):
        await client.post()
    assert len(client_spans(wire.stage)) == 1


@pytest.mark.parametrize("kind", KINDS)
async def test_clients_made_before_are_watched(kind: str, stage: Stage, server: EffectServer) -> None:
    wire = Wire(kind, stage, server)
    async with wire.closing:
        client = wire.client(guarded=False)
        await client.post()
        readmit.instrument(wire.package, guard=stage.guard)
        try:
            await client.post()
        finally:
            readmit.uninstrument(wire.package)
        await client.post()
    assert len(client_spans(stage)) == 1
    assert len(server.effects) == 3
