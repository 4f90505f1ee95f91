"""An effectful request that is repeated before the tool saw an answer: by an auth flow, a redirect, a retry loop."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import AsyncGenerator, Generator
from pathlib import Path
from typing import Any

import httpx
import pytest

from readmit import Contract, RecoveryPending, ReplayRefused
from readmit._model import Suspended
from readmit.testing import (
    ANSWERED,
    BROKEN_BODY,
    CHALLENGED,
    CHALLENGED_LATE,
    FAILED,
    INVALID,
    LOST,
    Behaviour,
    EffectServer,
    closed_port,
    redirected,
)
from tests.middleware.http.wires import Wire, client_spans, events, span, told
from tests.middleware.stage import Stage, attributes


def auth_of(wire: Wire, *tokens: str) -> Any:
    """An auth flow that hands the request out again after a 401, with the next token."""

    class Refreshing(wire.package.Auth):  # type: ignore[name-defined, misc]
        def flow(self, request: Any) -> Any:
            for token in tokens:
                request.headers["Authorization"] = f"Bearer {token}"
                response = yield request
                if response.status_code != 401:
                    return

        def sync_auth_flow(self, request: Any) -> Generator[Any, Any, None]:
            yield from self.flow(request)

        async def async_auth_flow(self, request: Any) -> AsyncGenerator[Any, Any]:
            flow = self.flow(request)
            request = next(flow)
            while True:
                response = yield request
                try:
                    request = flow.send(response)
                except StopIteration:
                    return

    return Refreshing()


async def test_an_auth_flow_does_not_send_the_effect_twice(wire: Wire) -> None:
    client = wire.client(auth=auth_of(wire, "old", "new"))

    async def send() -> Any:
        (await client.post()).raise_for_status()

    tool = wire.tool(send)
    wire.server.script("/messages", [CHALLENGED_LATE])
    with pytest.raises(wire.package.HTTPStatusError) as first:
        await tool()
    assert first.value.response.status_code == 401
    assert (len(wire.server.effects), len(wire.server.requests)) == (1, 1)
    assert told(wire.stage) == [("unknown", "http.challenge", None)]
    said = attributes(span(wire.stage, "execute_tool send"))
    assert said["readmit.send.suppressed"] == 2
    assert said["readmit.send.refusal"] == "effect_unknown"
    assert said["readmit.send.refusal.rule"] == "http.resend"
    assert said["readmit.send.refusal.detail"].startswith("http.resend: send 1 is repeated: its effect is unknown")
    with pytest.raises(RecoveryPending) as pending:
        await tool()
    assert [c.scheme for c in pending.value.challenges] == ["Bearer", "Basic"]
    assert len(wire.server.effects) == 1


async def test_an_auth_flow_goes_on_where_the_service_checks_first(wire: Wire) -> None:
    client = wire.client(auth=auth_of(wire, "old", "new"), contract=Contract(rejected=(401,)))

    async def send() -> Any:
        return (await client.post()).json()

    wire.server.script("/messages", [CHALLENGED])
    assert await wire.tool(send)() == {}
    assert (len(wire.server.effects), len(wire.server.requests)) == (1, 2)
    assert [said.get("http.request.resend_count") for said in client_spans(wire.stage)] == [None, 1]
    assert [said["readmit.send"] for said in client_spans(wire.stage)] == [1, 2]
    assert wire.stage.guard.pending() == []


async def test_not_with_the_credentials_that_were_just_refused(wire: Wire) -> None:
    """An OAuth flow that yields the request again though it has no new token (M05)."""
    client = wire.client(auth=auth_of(wire, "old", "old"), contract=Contract(rejected=(401,)))

    async def send() -> int:
        return (await client.post()).status_code  # type: ignore[no-any-return]

    wire.server.script("/messages", [CHALLENGED])
    assert await wire.tool(send)() == 401
    assert "same login" in attributes(span(wire.stage, "execute_tool send"))["readmit.send.refusal.detail"]
    assert (len(wire.server.effects), len(wire.server.requests)) == (0, 1)


async def test_a_rejection_does_not_outlive_an_unknown_send(wire: Wire) -> None:
    """The contract says that a 401 is given before the service acts; an earlier attempt was lost all the same."""
    client = wire.client(contract=Contract(rejected=(401,), idempotent=True))

    async def send() -> Any:
        with pytest.raises(wire.package.TransportError):
            await client.post()
        (await client.post()).raise_for_status()

    wire.server.script("/messages", [LOST, CHALLENGED])
    with pytest.raises(wire.package.HTTPStatusError):
        await wire.tool(send)()
    assert told(wire.stage)[1] == ("unknown", "http.challenge", None)


@pytest.mark.parametrize("status", [307, 308])
async def test_a_redirect_after_the_effect_is_not_followed(wire: Wire, status: int) -> None:
    client = wire.client(follow_redirects=True)

    async def send() -> tuple[int, str, bytes, int]:
        answer = await client.post()
        return answer.status_code, answer.url.path, answer.content, len(answer.history)

    moved = Behaviour(status=status, headers=(("Location", "/elsewhere"),), body=b"moved")
    wire.server.script("/messages", [moved])
    assert await wire.tool(send)() == (status, "/messages", b"moved", 0)
    assert [e.path for e in wire.server.effects] == ["/messages"]
    assert told(wire.stage) == [("unknown", "http.other", None)]


async def test_a_redirect_is_followed_where_the_contract_says_that_it_comes_first(wire: Wire) -> None:
    client = wire.client(follow_redirects=True, contract=Contract(rejected=(307,)))

    async def send() -> Any:
        return (await client.post()).json()

    wire.server.script("/messages", [redirected("/elsewhere", commits=False)])
    assert await wire.tool(send)() == {}
    assert [e.path for e in wire.server.effects] == ["/elsewhere"]
    assert [said.get("http.request.resend_count") for said in client_spans(wire.stage)] == [None, 1]


async def test_a_redirect_to_a_page_is_a_read(wire: Wire) -> None:
    client = wire.client(follow_redirects=True)

    async def send() -> int:
        return (await client.post()).status_code  # type: ignore[no-any-return]

    wire.server.script("/messages", [Behaviour(status=303, headers=(("Location", "/done"),))])
    assert await wire.tool(send)() == 200
    assert [r.method for r in wire.server.requests] == ["POST", "GET"]


@pytest.mark.parametrize("first", [LOST, FAILED, BROKEN_BODY], ids=["lost", "500", "body"])
async def test_a_retry_loop_in_the_tool_is_stopped(wire: Wire, first: Behaviour) -> None:
    client = wire.client()

    met: list[tuple[type, str]] = []

    async def send() -> Any:
        for left in range(3, 0, -1):
            try:
                (await client.post()).raise_for_status()
                return
            except (wire.package.TransportError, wire.package.HTTPStatusError) as error:
                met.append((type(error), str(error)))
                if left == 1:
                    raise

    tool = wire.tool(send)
    wire.server.script("/messages", [first])
    with pytest.raises((wire.package.TransportError, wire.package.HTTPStatusError)):
        await tool()
    assert (len(met), len(set(met))) == (3, 1), "each time what came of the first"
    with pytest.raises(ReplayRefused):
        await tool()
    assert (len(wire.server.effects), len(wire.server.requests)) == (1, 1)


async def test_a_retry_loop_goes_on_after_a_refused_connection(wire: Wire) -> None:
    port = closed_port()
    client = wire.client(base_url=f"http://127.0.0.1:{port}")

    async def send() -> Any:
        with pytest.raises(wire.package.ConnectError):
            await client.post()
        with EffectServer(port=port) as server:
            answer = await client.post()
            return answer.status_code, len(server.effects)

    assert await wire.tool(send)() == (200, 1)
    assert told(wire.stage) == [("not_sent", "http.not_connected", "proof"), ("committed", "http.2xx", "protocol")]
    assert wire.stage.guard.pending() == []


async def test_a_retry_loop_goes_on_after_a_refusal(wire: Wire) -> None:
    client = wire.client()

    async def send() -> int:
        await client.post()
        return (await client.post()).status_code  # type: ignore[no-any-return]

    wire.server.script("/messages", [Behaviour(commits=False, status=429), ANSWERED])
    assert await wire.tool(send)() == 200
    assert len(wire.server.effects) == 1


async def test_equal_requests_that_were_answered_are_meant(wire: Wire) -> None:
    client = wire.client()

    async def send() -> None:
        for _ in range(3):
            (await client.post()).raise_for_status()

    await wire.tool(send)()
    assert len(wire.server.effects) == 3
    assert not any("http.request.resend_count" in said for said in client_spans(wire.stage))


async def test_other_requests_are_not_repeats(wire: Wire) -> None:
    """After a lost answer the tool may go on with something else; its own end then decides."""
    client = wire.client()

    async def send() -> None:
        with pytest.raises(wire.package.TransportError):
            await client.post(json={"text": "one"})
        (await client.post(json={"text": "two"})).raise_for_status()

    wire.server.script("/messages", [LOST])
    await wire.tool(send)()
    assert [e.body for e in wire.server.effects] == [b'{"text":"one"}', b'{"text":"two"}']


async def test_idempotent_by_contract(wire: Wire) -> None:
    client = wire.client(contract=Contract(idempotent=True))

    async def send() -> int:
        with pytest.raises(wire.package.TransportError):
            await client.request("PUT", "/messages/1")
        return (await client.request("PUT", "/messages/1")).status_code  # type: ignore[no-any-return]

    wire.server.script("/messages/1", [LOST])
    assert await wire.tool(send)() == 200


@pytest.mark.parametrize("method", ["PUT", "DELETE", "PATCH", "POST"])
async def test_no_method_is_idempotent_by_itself(wire: Wire, method: str) -> None:
    client = wire.client()

    async def send() -> None:
        with pytest.raises(wire.package.TransportError):
            await client.request(method, "/messages/1")
        await client.request(method, "/messages/1")

    wire.server.script("/messages/1", [LOST])
    with pytest.raises(wire.package.TransportError):
        await wire.tool(send)()
    assert len(wire.server.effects) == 1


async def test_while_the_first_is_still_unanswered(stage: Stage, server: EffectServer) -> None:
    """A hedged request: the first may still arrive."""
    wire = Wire("httpx-async", stage, server)
    async with wire.closing:
        client = wire.client()

        async def send() -> None:
            first = asyncio.ensure_future(client.post())
            await asyncio.to_thread(server.wait, lambda s: len(s.effects) == 1)
            try:
                await client.post()
            finally:
                first.cancel()

        server.script("/messages", [Behaviour(then="stall")])
        with pytest.raises(ReplayRefused) as refused:
            await wire.tool(send)()
        assert refused.value.reason == "in_flight"
    assert len(server.effects) == 1


async def test_a_transport_below_that_retries_is_stopped_too(wire: Wire) -> None:
    """Such a wrapper stands between us and the wire: only the phases tell that it sends again."""
    inner = wire.real_transport()

    class Retrying(wire.package.BaseTransport):  # type: ignore[name-defined, misc]
        def handle_request(self, request: Any) -> Any:
            try:
                return inner.handle_request(request)
            except wire.package.TransportError:
                return inner.handle_request(request)

    class AsyncRetrying(wire.package.AsyncBaseTransport):  # type: ignore[name-defined, misc]
        async def handle_async_request(self, request: Any) -> Any:
            try:
                return await inner.handle_async_request(request)
            except wire.package.TransportError:
                return await inner.handle_async_request(request)

    client = wire.client(transport=AsyncRetrying() if wire.asynchronous else Retrying())

    async def send() -> Any:
        return (await client.post()).json()

    tool = wire.tool(send)
    wire.server.script("/messages", [LOST])
    with pytest.raises(wire.package.RemoteProtocolError, match="disconnected"):
        await tool()
    said = attributes(span(wire.stage, "execute_tool send"))
    assert "by the transport below it" in said["readmit.send.refusal.detail"]
    assert (len(wire.server.effects), len(wire.server.requests)) == (1, 1)
    assert told(wire.stage) == [("unknown", "http.no_response", None)]


async def test_a_transport_below_may_try_to_connect_again(wire: Wire) -> None:
    port = closed_port()
    client = wire.client(base_url=f"http://127.0.0.1:{port}", transport=wire.real_transport(retries=1))

    async def send() -> Any:
        return await client.post()

    with pytest.raises(wire.package.ConnectError):
        await wire.tool(send)()
    assert told(wire.stage) == [("not_sent", "http.not_connected", "proof")]


async def test_two_guards_on_one_way_count_once(wire: Wire) -> None:
    client = wire.client(transport=wire.transport(wire.transport(wire.real_transport())), guarded=False)

    async def send() -> Any:
        return (await client.post()).json()

    assert await wire.tool(send)() == {}
    assert len(client_spans(wire.stage)) == 1


async def test_observe_mode_blocks_nothing_and_says_so(
    server: EffectServer, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    stage = Stage(tmp_path / "readmit.db", mode="observe")
    wire = Wire("httpx", stage, server)
    async with wire.closing:
        client = wire.client()

        async def send() -> int:
            with pytest.raises(httpx.TransportError):
                await client.post()
            return (await client.post()).status_code  # type: ignore[no-any-return]

        server.script("/messages", [LOST])
        with caplog.at_level(logging.WARNING, "readmit"):
            assert await wire.tool(send)() == 200
    assert len(server.effects) == 2
    assert [said.get("readmit.send.refusal") for said in client_spans(stage)] == [None, "effect_unknown"]
    assert "http.resend" in caplog.text
    stage.guard.close()


async def test_a_suspension_names_the_challenges_of_the_send_that_was_not_repeated(wire: Wire) -> None:
    client = wire.client()

    async def send() -> Any:
        (await client.post()).raise_for_status()

    wire.server.script("/messages", [CHALLENGED, INVALID])
    with pytest.raises(wire.package.HTTPStatusError):
        await wire.tool(send)()
    (suspended,) = events(wire.stage, Suspended)
    assert [c.scheme for c in suspended.challenges] == ["Bearer", "Basic"]


@pytest.mark.parametrize(("volatile", "effects"), [(("timestamp", "sig nature"), 1), ((), 2)], ids=["said", "unsaid"])
@pytest.mark.parametrize("inside", [True, False], ids=["in a tool", "alone"])
async def test_a_query_that_is_signed_anew_makes_no_other_request(
    wire: Wire, volatile: tuple[str, ...], effects: int, inside: bool
) -> None:
    """A retry loop that stamps and signs each attempt: without the contract nothing shows that it is a repeat."""
    client = wire.client(contract=Contract(volatile=volatile))
    wire.server.script("/messages", [LOST, ANSWERED])

    async def send() -> None:
        for attempt in range(2):
            try:
                await client.post(f"/messages?timestamp={attempt}&to=ann&sig+nature=s{attempt}")
                return
            except (wire.package.TransportError, ReplayRefused):
                continue
        raise TimeoutError

    if effects == 1:
        with pytest.raises(TimeoutError):
            await (wire.tool(send)() if inside else send())
    else:
        await (wire.tool(send)() if inside else send())
    assert (len(wire.server.effects), len(wire.server.requests)) == (effects, effects)
    assert wire.server.requests[0].path == "/messages?timestamp=0&to=ann&sig+nature=s0"  # goes out as it was signed


async def test_another_query_is_another_request(wire: Wire) -> None:
    client = wire.client(contract=Contract(volatile=("timestamp",)))
    wire.server.script("/messages", [LOST, ANSWERED])

    async def send() -> None:
        with pytest.raises(wire.package.TransportError):
            await client.post("/messages?timestamp=1&to=ann")
        await client.post("/messages?timestamp=2&to=bob")

    await wire.tool(send)()
    assert len(wire.server.effects) == 2
