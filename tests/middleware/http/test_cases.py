"""Failures that people reported in public about HTTP clients and MCP, as calls of the public API.

The ids are those of the collection they were retold in: H for HTTP and retries, M for MCP.
"""

from __future__ import annotations

import asyncio
from datetime import timedelta
from typing import Any

import pytest

import readmit
from readmit import Contract, OccurrenceConflict, RecoveryPending, ReplayRefused
from readmit.testing import ANSWERED, CHALLENGED, CHALLENGED_LATE, LOST, RESET, Behaviour, EffectServer
from tests.middleware.http.test_resend import auth_of
from tests.middleware.http.wires import Wire, justifications
from tests.middleware.stage import Stage

TAKEN = Behaviour(commits=False, status=409, body=b'{"error": "name taken"}')
NO_SESSION = Behaviour(commits=False, status=404)
FORBIDDEN = Behaviour(commits=False, status=403)
CALL = {"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": {"name": "create"}}


@pytest.mark.parametrize("asks", [False, True], ids=["no hook", "a hook"])
async def test_h01_a_retry_collides_with_its_own_first_attempt(wire: Wire, asks: bool) -> None:
    client = wire.client()
    asked: list[str] = []

    async def create(name: str) -> Any:
        for left in (1, 0):
            try:
                return (await client.post("/actors", json={"name": name})).raise_for_status().json()
            except wire.package.HTTPError:
                if not left:
                    raise

    def there(question: Any) -> readmit.Present:
        asked.append(question.occurrence_id)
        return readmit.Present("actor ann", result={"name": "ann"})

    tool = wire.tool(create, reconcile=there if asks else None)
    wire.server.script("/actors", [LOST, TAKEN])
    with pytest.raises(wire.package.TransportError):
        await tool("ann")
    if asks:
        assert await tool("ann") == {"name": "ann"}
    else:
        with pytest.raises(ReplayRefused) as refused:
            await tool("ann")
        assert refused.value.reason == "effect_unknown"
    assert (len(wire.server.effects), len(wire.server.requests), len(asked)) == (1, 1, asks)


async def test_h03_a_reset_on_a_kept_connection(wire: Wire) -> None:
    client = wire.client()

    async def send(text: str) -> None:
        (await client.post(json={"text": text})).raise_for_status()

    tool = wire.tool(send)
    wire.server.script("/messages", [ANSWERED, RESET])
    await tool("first")
    for expected in (wire.package.TransportError, ReplayRefused, ReplayRefused):
        with pytest.raises(expected):
            await tool("second")
    assert len(wire.server.effects) == 2


async def test_h05_the_same_key_with_other_bytes(wire: Wire) -> None:
    contract = Contract(idempotency_key="Idempotency-Key", key_lifetime=timedelta(hours=24))
    client = wire.client(contract=contract)
    mine = {"Idempotency-Key": "charge-1"}
    wire.server.script("/charges", [LOST])
    with pytest.raises(wire.package.TransportError):
        await client.post("/charges", headers=mine, json={"cents": 5})
    with pytest.raises(OccurrenceConflict):
        await client.post("/charges", headers=mine, json={"cents": 5, "metadata": {"try": 2}})
    assert len(wire.server.requests) == 1
    assert (await client.post("/charges", headers=mine, json={"cents": 5})).status_code == 200
    assert "idempotency_key" in justifications(wire.stage)


async def test_h07_middleware_tries_and_the_model_tries_again(wire: Wire) -> None:
    client = wire.client()
    tried: list[int] = []

    async def send(text: str) -> str:
        for _ in range(3):
            tried.append(1)
            try:
                return (await client.post(json={"text": text})).text  # type: ignore[no-any-return]
            except wire.package.TransportError as error:
                last = error
        raise last

    tool = wire.tool(send)
    wire.server.script("/messages", [RESET])
    with pytest.raises(wire.package.TransportError):
        await tool("hello")
    with pytest.raises(ReplayRefused) as refused:
        await tool("hello")
    assert "again" not in refused.value.for_model.lower()
    assert (len(tried), len(wire.server.requests), len(wire.server.effects)) == (3, 1, 1)


async def test_h09_a_text_that_stands_for_a_timeout_is_no_success(wire: Wire) -> None:
    client = wire.client(timeout=0.2)

    async def send() -> str:
        try:
            return (await client.post()).text  # type: ignore[no-any-return]
        except wire.package.TimeoutException:
            return "Timed out while waiting for a response"

    tool = wire.tool(send)
    wire.server.script("/messages", [Behaviour(then="stall")])
    assert (await tool()).startswith("Timed out")
    assert wire.stage.waiting().state == "unknown"
    with pytest.raises(ReplayRefused):
        await tool()
    assert len(wire.server.effects) == 1


async def test_m01_a_new_session_is_no_reason_to_post_again(wire: Wire) -> None:
    """A 404 usually precedes execution; where that is not good enough the contract says so, and reads go on."""
    client = wire.client(contract=Contract(reads=("/list",)))

    async def call() -> int:
        answer = await client.post("/mcp", json=CALL)
        if answer.status_code == 404:
            await client.post("/list", json={"method": "initialize"})
            answer = await client.post("/mcp", json=CALL)
        return answer.raise_for_status().status_code  # type: ignore[no-any-return]

    tool = wire.tool(call, contract=Contract(accept="proof"))
    wire.server.script("/mcp", [NO_SESSION])
    with pytest.raises(wire.package.HTTPStatusError, match="404"):
        await tool()
    with pytest.raises(ReplayRefused):
        await tool()
    assert [r.path for r in wire.server.requests] == ["/mcp", "/list"]


@pytest.mark.parametrize("checks_first", [False, True])
async def test_m03_a_refreshed_token_repeats_only_what_had_no_effect(wire: Wire, checks_first: bool) -> None:
    contract = Contract(rejected=(401,)) if checks_first else Contract()
    client = wire.client(contract=contract, auth=auth_of(wire, "old", "new"))

    async def call() -> int:
        return (await client.post("/mcp", json=CALL)).raise_for_status().status_code  # type: ignore[no-any-return]

    tool = wire.tool(call)
    wire.server.script("/mcp", [CHALLENGED if checks_first else CHALLENGED_LATE])
    if checks_first:
        assert await tool() == 200
    else:
        with pytest.raises(wire.package.HTTPStatusError, match="401"):
            await tool()
        with pytest.raises(RecoveryPending):
            await tool()
        wire.stage.guard.authenticated(principal=None)
        with pytest.raises(ReplayRefused) as refused:
            await tool()
        assert refused.value.gates == ("effect",), "authority is back, and nothing else"
    assert len(wire.server.effects) == 1


async def test_m05_the_same_token_is_no_new_attempt(wire: Wire) -> None:
    """The flow hands the request out again for a 403 without a new token: the 403 reaches the caller."""

    class Stubborn(wire.package.Auth):  # type: ignore[name-defined, misc]
        def auth_flow(self, request: Any) -> Any:
            request.headers["Authorization"] = "Bearer only"
            response = yield request
            if response.status_code == 403:
                yield request

    client = wire.client(auth=Stubborn(), contract=Contract(rejected=(403,)))

    async def call() -> int:
        return (await client.post("/mcp", json=CALL)).raise_for_status().status_code  # type: ignore[no-any-return]

    wire.server.script("/mcp", [FORBIDDEN])
    with pytest.raises(wire.package.HTTPStatusError, match="403"):
        await wire.tool(call)()
    assert (len(wire.server.requests), len(wire.server.effects)) == (1, 0)


async def test_m06_two_dispatches_of_one_call(server: EffectServer) -> None:
    """Equal arguments, other ids, milliseconds apart: the second waits and gets the result of the first."""
    stage = Stage(join_timeout=5.0)
    wire = Wire("httpx-async", stage, server)
    async with wire.closing:
        client = wire.client()

        async def create(name: str) -> Any:
            answer = (await client.post("/records", json={"name": name})).json()
            await asyncio.sleep(0.05)
            return answer

        tool = wire.tool(create)
        first, second = await asyncio.gather(tool("ann"), tool("ann"))
    assert first == second == {}
    assert len(server.effects) == 1
    assert len({head.id for head in stage.heads()}) == 1
