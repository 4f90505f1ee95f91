"""Every row of the table that HTTP/1.1 on loopback can reach, with a real server that counts effects."""

from __future__ import annotations

import asyncio
from typing import Any

import httpx
import pytest

import readmit
from readmit import Contract, RecoveryPending, ReplayRefused
from readmit._model import SendStarted, Suspended
from readmit.testing import (
    ANSWERED,
    BROKEN_BODY,
    CHALLENGED,
    CHALLENGED_LATE,
    FAILED,
    INVALID,
    LOST,
    RESET,
    STALLED,
    Behaviour,
    EffectServer,
    closed_port,
)
from tests.middleware.http.wires import Caller, Tool, Wire, client_spans, events, justifications, told
from tests.middleware.stage import Stage


def sender(wire: Wire, client: Caller, **declared: Any) -> Tool:
    """The tool of most scenarios: one POST, and an exception for anything but a success."""

    async def send(text: str) -> Any:
        answer = await client.post(json={"text": text})
        answer.raise_for_status()
        return answer.json()

    return wire.tool(send, **declared)


async def fails(tool: Tool, *args: Any) -> Exception:
    """The tool's own exception, which passes unchanged."""
    with pytest.raises(Exception) as caught:
        await tool(*args)
    assert not isinstance(caught.value, readmit.ReadmitError)
    return caught.value


async def test_a_success_is_committed(wire: Wire) -> None:
    send = sender(wire, wire.client())
    assert await send("hello") == {}
    assert told(wire.stage) == [("committed", "http.2xx", "protocol")]
    assert wire.stage.guard.pending() == []
    assert await send("hello") == {}, "a second one, after the first was delivered, is meant"
    assert len(wire.server.effects) == 2


@pytest.mark.parametrize("behaviour", [LOST, RESET], ids=["close", "reset"])
async def test_a_lost_answer_is_unknown(wire: Wire, behaviour: Behaviour) -> None:
    send = sender(wire, wire.client())
    wire.server.script("/messages", [behaviour])
    await fails(send, "hello")
    assert told(wire.stage) == [("unknown", "http.no_response", None)]
    assert [s.position for s in events(wire.stage, Suspended)] == ["wait"]
    with pytest.raises(ReplayRefused, match="nothing justifies a repeat"):
        await send("hello")
    assert len(wire.server.effects) == 1


async def test_a_reset_on_a_connection_that_was_reused_is_unknown(wire: Wire) -> None:
    """Reuse says how the socket was obtained, not what the server did (H03)."""
    send = sender(wire, wire.client())
    wire.server.script("/messages", [ANSWERED, RESET])
    await send("first")
    await fails(send, "second")
    assert told(wire.stage)[1] == ("unknown", "http.no_response", None)
    with pytest.raises(ReplayRefused):
        await send("second")
    assert len(wire.server.effects) == 2


async def test_a_read_timeout_is_unknown(wire: Wire) -> None:
    send = sender(wire, wire.client(timeout=0.2))
    wire.server.script("/messages", [STALLED])
    error = await fails(send, "hello")
    assert type(error).__name__ == "ReadTimeout"
    assert told(wire.stage) == [("unknown", "http.no_response", None)]
    with pytest.raises(ReplayRefused):
        await send("hello")
    assert len(wire.server.effects) == 1


async def test_a_refused_connection_is_not_sent(wire: Wire) -> None:
    port = closed_port()
    send = sender(wire, wire.client(base_url=f"http://127.0.0.1:{port}"))
    await fails(send, "hello")
    assert told(wire.stage) == [("not_sent", "http.not_connected", "proof")]
    assert [s.position for s in events(wire.stage, Suspended)] == ["connect"]
    with EffectServer(port=port) as server:
        assert await send("hello") == {}, "what was not sent can be sent, without a person"
        assert len(server.effects) == 1
    assert justifications(wire.stage) == ["first_attempt", "not_sent"]


async def test_a_host_that_cannot_be_found_is_not_sent(wire: Wire) -> None:
    await fails(sender(wire, wire.client(base_url="http://nowhere.invalid")), "hello")
    assert told(wire.stage) == [("not_sent", "http.not_connected", "proof")]


async def test_a_failed_handshake_is_not_sent(wire: Wire) -> None:
    """The server speaks no TLS; bytes went over the wire, but none of the request."""
    client = wire.client(base_url=wire.server.url.replace("http", "https"))
    await fails(sender(wire, client), "hello")
    assert told(wire.stage) == [("not_sent", "http.not_connected", "proof")]
    assert wire.server.effects == []


async def test_no_free_connection_is_not_sent(wire: Wire) -> None:
    """A full pool reports no phase at all: that its transport is a real one is what makes it proof."""
    limits = wire.package.Limits(max_connections=1)
    client = wire.client(limits=limits, timeout=wire.package.Timeout(5, pool=0.05))
    held = await client.send(client.client.build_request("GET", "/"), stream=True)
    error = await fails(sender(wire, client), "hello")
    assert type(error).__name__ == "PoolTimeout"
    assert told(wire.stage)[-1] == ("not_sent", "http.not_connected", "proof")
    await (held.aclose() if wire.asynchronous else asyncio.to_thread(held.close))


async def test_a_refusal_can_be_corrected(wire: Wire) -> None:
    send = sender(wire, wire.client())
    wire.server.script("/messages", [INVALID])
    await fails(send, "hello")
    assert told(wire.stage) == [("rejected", "http.4xx", "protocol")]
    assert wire.server.effects == []
    assert await send("hello") == {}
    assert len(wire.server.effects) == 1


async def test_a_refusal_after_an_unknown_send_proves_nothing(wire: Wire) -> None:
    """Perhaps what we collide with is our own first attempt (H01)."""
    client = wire.client(contract=Contract(rejected=(409,)))

    async def create(name: str) -> Any:
        with pytest.raises(wire.package.TransportError):
            await client.post("/actors", json={"name": name})
        (await client.post("/others", json={"name": name})).raise_for_status()

    tool = wire.tool(create)
    wire.server.script("/actors", [LOST])
    wire.server.script("/others", [Behaviour(commits=False, status=409)])
    await fails(tool, "a")
    assert told(wire.stage)[1] == ("unknown", "http.conflict_after_send", None)


async def test_an_error_after_the_effect_is_unknown(wire: Wire) -> None:
    send = sender(wire, wire.client())
    wire.server.script("/messages", [FAILED])
    await fails(send, "hello")
    assert told(wire.stage) == [("unknown", "http.other", None)]
    with pytest.raises(ReplayRefused):
        await send("hello")
    assert len(wire.server.effects) == 1


async def test_the_contract_can_name_a_status(wire: Wire) -> None:
    send = sender(wire, wire.client(contract=Contract(rejected=(503,))))
    wire.server.script("/messages", [Behaviour(commits=False, status=503)])
    await fails(send, "hello")
    assert told(wire.stage) == [("rejected", "http.other", "contract")]
    assert await send("hello") == {}
    assert len(wire.server.effects) == 1


async def test_the_tools_own_contract_counts_too(wire: Wire) -> None:
    send = sender(wire, wire.client(), contract=Contract(rejected=(503,)))
    wire.server.script("/messages", [Behaviour(commits=False, status=503)])
    await fails(send, "hello")
    assert told(wire.stage) == [("rejected", "http.other", "contract")]


async def test_a_broken_body_does_not_undo_the_effect(wire: Wire) -> None:
    send = sender(wire, wire.client())
    wire.server.script("/messages", [BROKEN_BODY])
    await fails(send, "hello")
    assert told(wire.stage) == [("committed", "http.2xx", "protocol")]
    assert [s.position for s in events(wire.stage, Suspended)] == ["body"]
    with pytest.raises(ReplayRefused) as refused:
        await send("hello")
    assert refused.value.reason == "already_committed"
    assert len(wire.server.effects) == 1


@pytest.mark.parametrize("behaviour", [CHALLENGED, CHALLENGED_LATE], ids=["before", "after"])
async def test_a_challenge_is_kept_and_settles_nothing(wire: Wire, behaviour: Behaviour) -> None:
    send = sender(wire, wire.client())
    wire.server.script("/messages", [behaviour])
    await fails(send, "hello")
    assert told(wire.stage) == [("unknown", "http.challenge", None)]
    with pytest.raises(RecoveryPending) as pending:
        await send("hello")
    assert [(c.scheme, dict(c.parameters).get("scope")) for c in pending.value.challenges] == [
        ("Bearer", "send, read"),
        ("Basic", None),
    ]
    wire.stage.guard.authenticated(principal=None)
    with pytest.raises(ReplayRefused) as refused:
        await send("hello")
    assert refused.value.gates == ("effect",), "a login opens one gate only"
    assert len(wire.server.effects) == behaviour.commits


async def test_a_challenge_of_a_service_that_checks_first_opens_both_gates(wire: Wire) -> None:
    send = sender(wire, wire.client(contract=Contract(rejected=(401,))))
    wire.server.script("/messages", [CHALLENGED])
    await fails(send, "hello")
    assert told(wire.stage) == [("rejected", "http.challenge", "contract")]
    with pytest.raises(RecoveryPending):
        await send("hello")
    wire.stage.guard.authenticated(principal=None)
    assert await send("hello") == {}
    assert len(wire.server.effects) == 1


async def test_reads_are_never_blocked(wire: Wire) -> None:
    client = wire.client(contract=Contract(reads=("/search",)))

    async def look() -> int:
        await client.request("GET", "/messages")
        await client.post("/search")
        return (await client.request("GET", "/messages")).status_code  # type: ignore[no-any-return]

    assert await wire.tool(look)() == 200
    assert [said["readmit.effect.rule"] for said in client_spans(wire.stage)] == [
        "http.safe_method",
        "http.declared_read",
        "http.safe_method",
    ]
    assert not any("readmit.send" in said for said in client_spans(wire.stage))


async def test_a_tool_that_failed_before_it_sent_blocks_nothing(wire: Wire) -> None:
    client = wire.client()

    async def send(text: str) -> Any:
        if text == "bad" and not wire.server.requests:
            await client.request("GET", "/ready")
            raise ValueError(text)
        return (await client.post()).json()

    tool = wire.tool(send, contract=Contract(effects_through="http"))
    await fails(tool, "bad")
    assert await tool("bad") == {}
    assert len(wire.server.effects) == 1


async def test_a_read_keeps_the_challenge_it_met(wire: Wire) -> None:
    """A 401 on the way to an effect that then never left: recovery evidence, and no effect."""
    client = wire.client()

    async def send() -> Any:
        (await client.request("GET", "/messages")).raise_for_status()
        return await client.post()

    tool = wire.tool(send, contract=Contract(effects_through="http"))
    wire.server.script("/messages", [CHALLENGED])
    await fails(tool)
    with pytest.raises(RecoveryPending) as pending:
        await tool()
    assert [c.scheme for c in pending.value.challenges] == ["Bearer", "Basic"]
    assert wire.server.effects == []


async def test_a_read_that_was_challenged_and_then_answered_asks_for_nothing(wire: Wire) -> None:
    client = wire.client()

    async def look() -> Any:
        await client.request("GET", "/messages")
        await client.request("GET", "/messages")
        raise ValueError

    wire.server.script("/messages", [CHALLENGED])
    await fails(wire.tool(look, contract=Contract(effects_through="http")))
    assert [s.suspension for s in events(wire.stage, Suspended)] == ["failure"]


async def test_what_leaves_is_in_the_journal_before(wire: Wire) -> None:
    client = wire.client()
    seen: list[int] = []

    async def send() -> None:
        await client.post(extensions={"trace": watch})

    def watch(name: str, info: Any) -> Any:
        if name == "http11.send_request_headers.started":
            seen.append(len(events(wire.stage, SendStarted)))
        return nothing() if wire.asynchronous else None

    async def nothing() -> None: ...

    await wire.tool(send)()
    assert seen == [1], "and the caller's own trace callback is called, too"


async def test_cancelled_while_the_server_works(stage: Stage, server: EffectServer) -> None:
    wire = Wire("httpx-async", stage, server)
    async with wire.closing:
        send = sender(wire, wire.client())
        server.script("/messages", [STALLED])
        task = asyncio.ensure_future(send("hello"))
        await asyncio.to_thread(server.wait, lambda s: len(s.effects) == 1)
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
        assert told(stage) == [("unknown", "http.no_response", None)]
        with pytest.raises(ReplayRefused):
            await send("hello")
    assert len(server.effects) == 1


async def test_cancelled_before_it_was_connected(stage: Stage, server: EffectServer) -> None:
    """A socket that is never accepted keeps the connection of the second request waiting for the pool."""
    wire = Wire("httpx-async", stage, server)
    async with wire.closing:
        client = wire.client(limits=httpx.Limits(max_connections=1))
        held = await client.send(client.client.build_request("GET", "/"), stream=True)
        send = sender(wire, client, contract=Contract(effects_through="http"))
        task = asyncio.ensure_future(send("hello"))
        while not client_started(stage):
            await asyncio.sleep(0)
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
        assert told(stage)[-1] == ("not_sent", "http.not_connected", "proof")
        await held.aclose()
    assert server.effects == []


def client_started(stage: Stage) -> bool:
    return any(events(stage, SendStarted, p.occurrence_id) for p in stage.guard.pending())


@pytest.mark.parametrize("status", [200, 407])
async def test_a_proxy_that_makes_no_way_is_not_sent(wire: Wire, status: int) -> None:
    """It refuses the CONNECT, or agrees and then speaks no TLS: either way nothing of the request has left."""
    client = wire.client(base_url="https://service.invalid", proxy=wire.server.url)
    wire.server.script("service.invalid:443", [Behaviour(status=status)])
    await fails(sender(wire, client), "hello")
    assert [r.method for r in wire.server.requests] == ["CONNECT"]
    assert told(wire.stage) == [("not_sent", "http.not_connected", "proof")]


async def test_a_request_through_a_proxy_is_judged_like_any_other(wire: Wire) -> None:
    client = wire.client(base_url="http://service.invalid", proxy=wire.server.url)
    wire.server.script("http://service.invalid/messages", [LOST])
    await fails(sender(wire, client), "hello")
    assert told(wire.stage) == [("unknown", "http.no_response", None)]
    assert len(wire.server.effects) == 1
