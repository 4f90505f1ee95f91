"""Transports that report no phases: what they answer counts, what they raise proves nothing."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import httpx
import pytest

import readmit
from readmit import Contract, NotSent, ReplayRefused
from readmit.testing import EffectServer
from tests.middleware.http.wires import Wire, client_spans, told
from tests.middleware.stage import Stage


def mocked(wire: Wire, handler: Callable[[Any], Any], **given: Any) -> Any:
    return wire.client(transport=wire.package.MockTransport(handler), **given)


async def post_once(wire: Wire, client: Any) -> None:
    async def send() -> None:
        (await client.post()).raise_for_status()

    await wire.tool(send)()


async def test_an_answer_counts(wire: Wire) -> None:
    client = mocked(wire, lambda request: wire.package.Response(422))
    with pytest.raises(wire.package.HTTPStatusError):
        await post_once(wire, client)
    assert told(wire.stage) == [("rejected", "http.4xx", "protocol")]
    assert len(client_spans(wire.stage)) == 1


@pytest.mark.parametrize("error", ["ConnectError", "PoolTimeout", "ReadTimeout"])
async def test_an_exception_proves_nothing(wire: Wire, error: str) -> None:
    def handler(request: Any) -> Any:
        raise getattr(wire.package, error)("no word of phases")

    client = mocked(wire, handler)
    with pytest.raises(wire.package.TransportError):
        await post_once(wire, client)
    assert told(wire.stage) == [("unknown", "http.no_response", None)]
    assert [said["readmit.phases"] for said in client_spans(wire.stage)] == ["none"]


async def test_unless_the_contract_names_it(wire: Wire) -> None:
    def handler(request: Any) -> Any:
        raise wire.package.ConnectError("no word of phases")

    client = mocked(wire, handler, contract=Contract(not_sent=(wire.package.ConnectError,)))
    with pytest.raises(wire.package.ConnectError):
        await post_once(wire, client)
    assert told(wire.stage) == [("not_sent", "tool.not_sent", "contract")]


async def test_or_the_transport_says_so_itself(wire: Wire) -> None:
    def handler(request: Any) -> Any:
        raise NotSent("the queue was full")

    client = mocked(wire, handler)
    with pytest.raises(NotSent):
        await post_once(wire, client)
    assert told(wire.stage) == [("not_sent", "tool.not_sent", "contract")]


async def test_what_the_contract_names_says_nothing_of_a_request_that_was_seen_to_leave(wire: Wire) -> None:
    named = (wire.package.TransportError,)
    client = wire.client(contract=Contract(not_sent=named))
    wire.server.script("/messages", [readmit.testing.LOST])
    with pytest.raises(wire.package.TransportError):
        await post_once(wire, client)
    assert told(wire.stage) == [("unknown", "http.no_response", None)]


async def test_a_function_in_the_place_of_a_real_transport(wire: Wire, monkeypatch: pytest.MonkeyPatch) -> None:
    """As mocking libraries put it there: it reports nothing, whatever class it sits in."""

    def plain(transport: Any, request: Any) -> Any:
        raise wire.package.ConnectTimeout("invented")

    async def awaited(transport: Any, request: Any) -> Any:
        plain(transport, request)

    name = "handle_async_request" if wire.asynchronous else "handle_request"
    monkeypatch.setattr(wire.real_transport, name, awaited if wire.asynchronous else plain)
    with pytest.raises(wire.package.ConnectTimeout):
        await post_once(wire, wire.client())
    assert told(wire.stage) == [("unknown", "http.no_response", None)]


async def test_an_application_in_the_same_process(stage: Stage, server: EffectServer) -> None:
    received: list[str] = []

    async def app(scope: Any, receive: Any, send: Any) -> None:
        received.append(scope["path"])
        if scope["path"] == "/broken":
            raise RuntimeError("after the effect")
        await send({"type": "http.response.start", "status": 200, "headers": []})
        await send({"type": "http.response.body", "body": b"{}"})

    wire = Wire("httpx-async", stage, server)
    async with wire.closing:
        client = wire.client(transport=httpx.ASGITransport(app=app))

        async def send(path: str) -> Any:
            return (await client.post(path)).json()

        tool = wire.tool(send)
        assert await tool("/fine") == {}
        with pytest.raises(RuntimeError):
            await tool("/broken")
        with pytest.raises(ReplayRefused):
            await tool("/broken")
    assert received == ["/fine", "/broken"]
    assert told(stage) == [("committed", "http.2xx", "protocol"), ("unknown", "http.no_response", None)]


async def test_a_wrapper_that_passes_the_phases_on_is_believed(wire: Wire) -> None:
    """It is no transport that we know, but the failure that was reported is where its exception comes from."""
    inner = wire.real_transport()

    class Plain(wire.package.BaseTransport):  # type: ignore[name-defined, misc]
        def handle_request(self, request: Any) -> Any:
            return inner.handle_request(request)

    class Awaited(wire.package.AsyncBaseTransport):  # type: ignore[name-defined, misc]
        async def handle_async_request(self, request: Any) -> Any:
            return await inner.handle_async_request(request)

    transport = Awaited() if wire.asynchronous else Plain()
    client = wire.client(transport=transport, base_url=f"http://127.0.0.1:{readmit.testing.closed_port()}")
    with pytest.raises(wire.package.ConnectError):
        await post_once(wire, client)
    assert told(wire.stage) == [("not_sent", "http.not_connected", "proof")]


async def test_a_wrapper_that_fails_in_its_own_way_is_not(wire: Wire) -> None:
    inner = wire.real_transport()

    class Plain(wire.package.BaseTransport):  # type: ignore[name-defined, misc]
        def handle_request(self, request: Any) -> Any:
            try:
                return inner.handle_request(request)
            except wire.package.ConnectError:
                pass
            raise OSError("sent in another way, and lost")

    class Awaited(wire.package.AsyncBaseTransport):  # type: ignore[name-defined, misc]
        async def handle_async_request(self, request: Any) -> Any:
            try:
                return await inner.handle_async_request(request)
            except wire.package.ConnectError:
                pass
            raise OSError("sent in another way, and lost")

    transport = Awaited() if wire.asynchronous else Plain()
    client = wire.client(transport=transport, base_url=f"http://127.0.0.1:{readmit.testing.closed_port()}")
    with pytest.raises(OSError):
        await post_once(wire, client)
    (said,) = told(wire.stage)
    assert said[:2] == ("unknown", "http.no_response")
