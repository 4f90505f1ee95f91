"""A client that was instrumented by hand, outside any tool: each effectful request is a guarded call of its own."""

from __future__ import annotations

import asyncio
import gc
import logging
import threading
from contextlib import suppress
from datetime import timedelta
from pathlib import Path
from typing import Any

import httpx
import pytest

import readmit
from readmit import Contract, JournalUnavailable, RecoveryPending, ReplayRefused
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
from tests.middleware.http.test_resend import auth_of
from tests.middleware.http.wires import Wire, client_spans, justifications, told
from tests.middleware.stage import Stage, attributes


async def test_a_post_that_was_answered_can_be_meant_again(wire: Wire) -> None:
    client = wire.client()
    for _ in range(2):
        assert (await client.post()).json() == {}
    assert len(wire.server.effects) == 2
    assert wire.stage.guard.pending() == []
    assert told(wire.stage) == [("committed", "http.2xx", "protocol")] * 2


async def test_it_is_named_by_method_and_address(wire: Wire) -> None:
    await wire.client().post("/messages?token=secret-1")
    names = {s.name for s in wire.stage.exporter.get_finished_spans()}
    address = f"POST {wire.server.url}/messages"
    assert names == {f"admit {address}", f"execute_tool {address}", "POST"}
    said = str([dict(s.attributes or {}) for s in wire.stage.exporter.get_finished_spans()])
    assert "secret-1" not in said


@pytest.mark.parametrize("first", [LOST, FAILED, BROKEN_BODY], ids=["lost", "500", "body"])
async def test_a_repeat_after_a_doubt_is_refused(wire: Wire, first: Behaviour) -> None:
    """Also by a retry loop around `client.post`, whatever it takes for a failure."""
    client = wire.client()
    wire.server.script("/messages", [first])
    with suppress(wire.package.TransportError):
        await client.post()
    with pytest.raises(ReplayRefused):
        await client.post()
    assert (len(wire.server.effects), len(wire.server.requests)) == (1, 1)
    assert (await client.post(json={"text": "another"})).status_code == 200


async def test_an_answer_that_was_read_is_delivered(wire: Wire) -> None:
    client = wire.client()
    for _ in range(2):
        answer = await client.send(client.client.build_request("POST", "/messages"), stream=True)
        assert answer.status_code == 200
        await (answer.aclose() if wire.asynchronous else asyncio.to_thread(answer.close))
    assert len(wire.server.effects) == 2


async def test_an_answer_that_cannot_be_decoded_is_not_delivered(wire: Wire) -> None:
    client = wire.client()
    wire.server.script("/messages", [Behaviour(headers=(("Content-Encoding", "gzip"),), body=b"no gzip at all")])
    with pytest.raises(wire.package.DecodingError):
        await client.post()
    with pytest.raises(ReplayRefused) as refused:
        await client.post()
    assert refused.value.reason == "already_committed"


async def test_a_refused_connection_blocks_nothing(wire: Wire) -> None:
    port = closed_port()
    client = wire.client(base_url=f"http://127.0.0.1:{port}")
    with pytest.raises(wire.package.ConnectError):
        await client.post()
    with EffectServer(port=port) as server:
        assert (await client.post()).status_code == 200
        assert len(server.effects) == 1
    assert justifications(wire.stage) == ["first_attempt", "not_sent"]


async def test_a_refusal_blocks_nothing(wire: Wire) -> None:
    client = wire.client()
    wire.server.script("/messages", [INVALID])
    assert (await client.post()).status_code == 422
    assert (await client.post()).status_code == 200
    assert len(wire.server.effects) == 1


async def test_reads_are_not_guarded(wire: Wire) -> None:
    client = wire.client(contract=Contract(reads=("/search",)))
    for _ in range(2):
        await client.request("GET", "/messages")
        await client.post("/search")
    assert {s.name for s in wire.stage.exporter.get_finished_spans()} == {"GET", "POST"}
    assert len(client_spans(wire.stage)) == 4


async def test_a_client_of_reads_is_not_guarded(wire: Wire) -> None:
    client = wire.client(effect="read")
    wire.server.script("/token", [LOST])
    with pytest.raises(wire.package.TransportError):
        await client.post("/token")
    assert (await client.post("/token")).status_code == 200


async def test_a_challenge_waits_for_a_sign_in(wire: Wire) -> None:
    client = wire.client(contract=Contract(rejected=(401,)))
    wire.server.script("/messages", [CHALLENGED])
    assert (await client.post()).status_code == 401
    with pytest.raises(RecoveryPending) as pending:
        await client.post()
    assert [c.scheme for c in pending.value.challenges] == ["Bearer", "Basic"]
    wire.stage.guard.authenticated(principal=None)
    assert (await client.post()).status_code == 200
    assert len(wire.server.effects) == 1


async def test_an_auth_flow_is_a_sign_in(wire: Wire) -> None:
    """It answers the challenge, and the contract says what had become of the effect: both gates open."""
    client = wire.client(contract=Contract(rejected=(401,)), auth=auth_of(wire, "old", "new"))
    wire.server.script("/messages", [CHALLENGED])
    assert (await client.post()).status_code == 200
    assert (len(wire.server.effects), len(wire.server.requests)) == (1, 2)
    assert justifications(wire.stage) == ["first_attempt", "rejected"]
    assert wire.stage.guard.pending() == []


async def test_an_auth_flow_is_nothing_but_a_sign_in(wire: Wire) -> None:
    client = wire.client(auth=auth_of(wire, "old", "new"))
    wire.server.script("/messages", [CHALLENGED_LATE])
    assert (await client.post()).status_code == 401
    (refused,) = [s for s in wire.stage.spans("admit") if "readmit.admission.refusal" in attributes(s)]
    assert attributes(refused)["readmit.admission.refusal"] == "effect_unknown"
    assert (len(wire.server.effects), len(wire.server.requests)) == (1, 1)


async def test_an_auth_flow_without_a_new_token_is_no_sign_in(wire: Wire) -> None:
    client = wire.client(contract=Contract(rejected=(401,)), auth=auth_of(wire, "old", "old"))
    wire.server.script("/messages", [CHALLENGED])
    assert (await client.post()).status_code == 401
    with pytest.raises(RecoveryPending):
        await client.post()
    assert len(wire.server.requests) == 1


async def test_a_redirect_after_the_effect_is_not_followed(wire: Wire) -> None:
    client = wire.client(follow_redirects=True)
    wire.server.script("/messages", [redirected("/elsewhere")])
    answer = await client.post()
    assert (answer.status_code, answer.url.path, answer.history) == (307, "/messages", [])
    (refused,) = [s for s in wire.stage.spans("admit") if "readmit.admission.refusal" in attributes(s)]
    assert attributes(refused)["readmit.admission.detail"].startswith("http.resend: send 1 is repeated")
    assert [e.path for e in wire.server.effects] == ["/messages"]


async def test_a_redirect_before_the_effect_is_followed(wire: Wire) -> None:
    client = wire.client(follow_redirects=True, contract=Contract(rejected=(307,)))
    wire.server.script("/messages", [redirected("/elsewhere", commits=False)])
    assert (await client.post()).status_code == 200
    assert [e.path for e in wire.server.effects] == ["/elsewhere"]


async def test_a_key_makes_a_repeat_harmless(wire: Wire) -> None:
    client = wire.client(contract=Contract(idempotency_key="Idempotency-Key", key_lifetime=timedelta(hours=1)))
    wire.server.script("/messages", [LOST])
    with pytest.raises(wire.package.TransportError):
        await client.post()
    assert (await client.post()).status_code == 200
    assert len({r.headers["idempotency-key"] for r in wire.server.requests}) == 1
    assert justifications(wire.stage) == ["first_attempt", "idempotency_key"]


async def test_a_business_key_holds_for_good(wire: Wire) -> None:
    client = wire.client()
    with readmit.occurrence(key="order-1"):
        await client.post()
        with pytest.raises(ReplayRefused, match="already there"):
            await client.post()
    assert len(wire.server.effects) == 1


def test_two_threads_send_once(server: EffectServer, tmp_path: Path) -> None:
    """The second joins the first, whose answer cannot be shared, and is told so."""
    stage = Stage(tmp_path / "readmit.db", join_timeout=5.0)
    server.script("/messages", [Behaviour(then="stall")])
    outcome: list[str] = []
    with httpx.Client(base_url=server.url, timeout=0.5) as client:
        readmit.instrument(client, guard=stage.guard)

        def post() -> None:
            try:
                client.post("/messages")
            except (httpx.ReadTimeout, ReplayRefused) as error:
                outcome.append(type(error).__name__)

        threads = [threading.Thread(target=post) for _ in range(2)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join(10)
    assert sorted(outcome) == ["ReadTimeout", "ReplayRefused"]
    assert len(server.effects) == 1
    stage.guard.close()


async def test_without_a_journal_nothing_leaves(wire: Wire, tmp_path: Path) -> None:
    stage = Stage(tmp_path / "missing" / "readmit.db")
    broken = Wire("httpx-async" if wire.asynchronous else "httpx", stage, wire.server)
    async with broken.closing:
        client = broken.client()
        with pytest.raises(JournalUnavailable):
            await client.post()
        assert (await client.request("GET", "/messages")).status_code == 200
    assert wire.server.effects == []


async def test_observe_mode_blocks_nothing(server: EffectServer, tmp_path: Path) -> None:
    stage = Stage(tmp_path / "readmit.db", mode="observe")
    wire = Wire("httpx", stage, server)
    async with wire.closing:
        client = wire.client()
        server.script("/messages", [LOST])
        with pytest.raises(httpx.TransportError):
            await client.post()
        assert (await client.post()).status_code == 200
    assert len(server.effects) == 2
    stage.guard.close()


# -- inside what is no tool, or the wrong one ----------------------------------------------------------------------


async def test_a_write_in_a_tool_that_only_reads(wire: Wire, caplog: pytest.LogCaptureFixture) -> None:
    client = wire.client()

    async def look() -> int:
        return (await client.post("/messages?q=secret-1")).status_code  # type: ignore[no-any-return]

    tool = wire.tool(look, effect="read")
    wire.server.script("/messages", [ANSWERED, LOST])
    with caplog.at_level(logging.WARNING, "readmit"):
        assert await tool() == 200
    assert f"look is declared effect='read' but sends POST {wire.server.url}/messages." in caplog.text
    assert "secret-1" not in caplog.text
    with pytest.raises(wire.package.TransportError):
        await tool()
    with pytest.raises(ReplayRefused):
        await tool()
    assert len(wire.server.effects) == 2
    spans = {s.name: attributes(s) for s in wire.stage.exporter.get_finished_spans()}
    assert spans["execute_tool look"]["readmit.declaration.conflict"] is True
    assert spans["POST"]["readmit.declaration.conflict"] is True


async def test_a_write_in_a_reading_tool_within_a_writing_one(wire: Wire) -> None:
    """It belongs to the epoch that surrounds it: else that epoch would look as if nothing had left."""
    client = wire.client()

    async def look() -> None:
        await client.post()

    reading = wire.tool(look, effect="read")

    async def act() -> None:
        await reading()

    wire.server.script("/messages", [LOST])
    tool = wire.tool(act, contract=Contract(effects_through="http"))
    with pytest.raises(wire.package.TransportError):
        await tool()
    with pytest.raises(ReplayRefused):
        await tool()
    assert len(wire.server.effects) == 1


def test_a_thread_without_context_says_so(stage: Stage, server: EffectServer, caplog: pytest.LogCaptureFixture) -> None:
    gc.collect()  # epochs that other tests broke off are in flight until they are collected
    with httpx.Client(base_url=server.url) as client:
        readmit.instrument(client, guard=stage.guard)

        @stage.guard.tool(effect="write", name="act")
        def act() -> None:
            for path in ("/a", "/b"):
                thread = threading.Thread(target=client.post, args=(path,))
                thread.start()
                thread.join(10)

        with caplog.at_level(logging.WARNING, "readmit"):
            act()
            thread = threading.Thread(target=client.post, args=("/c",))
            thread.start()
            thread.join(10)
    assert [r.getMessage() for r in caplog.records if "readmit.bind" in r.getMessage()] == [
        f"POST {server.url}/a is sent in a thread without context while a guarded tool runs: if it belongs to that "
        "tool, the tool's epoch does not know of it. Start the thread's function through readmit.bind(…)."
    ]
    assert [said.get("readmit.context") for said in client_spans(stage)] == ["none", "none", None]


def test_bound_into_a_thread_it_belongs_to_the_tool(stage: Stage, server: EffectServer) -> None:
    with httpx.Client(base_url=server.url) as client:
        readmit.instrument(client, guard=stage.guard)

        @stage.guard.tool(effect="write", name="act")
        def act() -> None:
            def work() -> Any:
                return client.post("/a")

            thread = threading.Thread(target=readmit.bind(work))
            thread.start()
            thread.join(10)

        act()
    assert [said["readmit.send"] for said in client_spans(stage)] == [1]
    assert [s.name for s in stage.exporter.get_finished_spans()] == ["admit act", "POST", "execute_tool act"]
