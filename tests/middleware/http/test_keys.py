"""Idempotency keys: stable, and only as good as the bytes they go with."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

import httpx
import pytest

from readmit import Contract, OccurrenceConflict, ReplayRefused, current
from readmit._model import SendStarted
from readmit.testing import INVALID, LOST, EffectServer
from tests.middleware.http.wires import Wire, client_spans, events, justifications
from tests.middleware.stage import Stage

KEYED = Contract(idempotency_key="Idempotency-Key", key_lifetime=timedelta(hours=24))


def keys(server: EffectServer) -> list[str | None]:
    return [r.headers.get("idempotency-key") for r in server.requests]


async def test_the_same_key_in_every_epoch(stage: Stage) -> None:
    with EffectServer(honours_keys=True) as server:
        wire = Wire("httpx", stage, server)
        async with wire.closing:
            client = wire.client(contract=KEYED)

            async def pay(cents: int) -> Any:
                return (await client.post(json={"cents": cents})).json()

            tool = wire.tool(pay)
            server.script("/messages", [LOST])
            with pytest.raises(httpx.RemoteProtocolError):
                await tool(100)
            assert await tool(100) == {}
    first, second = keys(server)
    assert first is not None and first == second
    assert len(server.effects) == 1
    assert justifications(stage) == ["first_attempt", "idempotency_key"]


async def test_the_same_key_after_a_restart(filed: Stage) -> None:
    with EffectServer(honours_keys=True) as server:
        for attempt in range(2):
            wire = Wire("httpx", filed, server)
            async with wire.closing:
                client = wire.client(contract=KEYED)

                async def pay(cents: int, client: Any = client) -> Any:
                    return (await client.post(json={"cents": cents})).json()

                tool = wire.tool(pay, exclude=["client"])
                if attempt == 0:
                    server.script("/messages", [LOST])
                    with pytest.raises(httpx.RemoteProtocolError):
                        await tool(100)
                    filed.restart()
                else:
                    assert await tool(100) == {}
        assert len(set(keys(server))) == 1
        assert len(server.effects) == 1


async def test_other_requests_have_other_keys(wire: Wire) -> None:
    client = wire.client(contract=KEYED)

    async def pay() -> None:
        await client.post(json={"cents": 1})
        await client.post(json={"cents": 2})
        await client.post("/refunds", json={"cents": 1})
        await client.post("/refunds?dry=1", json={"cents": 1})
        await client.request("PUT", "/messages", json={"cents": 1})
        await client.post(json={"cents": 1})

    await wire.tool(pay)()
    assert None not in keys(wire.server)
    assert len(set(keys(wire.server))) == 6, "a second equal request that is meant has a key of its own"


async def test_a_repeat_keeps_the_key(wire: Wire) -> None:
    client = wire.client(contract=KEYED)

    async def pay() -> None:
        with pytest.raises(wire.package.TransportError):
            await client.post()
        await client.post()
        await client.post("/other")
        await client.post("/other")

    wire.server.script("/messages", [LOST])
    wire.server.script("/other", [INVALID])
    await wire.tool(pay)()
    first, again, refused, corrected = keys(wire.server)
    assert first == again
    assert refused == corrected
    assert [said.get("http.request.resend_count") for said in client_spans(wire.stage)] == [None, 1, None, 1]


async def test_equal_requests_that_come_in_another_order_keep_theirs(wire: Wire) -> None:
    client = wire.client(contract=KEYED)
    order = ["a", "b", "c"]

    async def pay() -> None:
        for text in order:
            await client.post(json={"text": text})
        raise ValueError

    tool = wire.tool(pay, contract=Contract(effects_through="mixed", idempotent=True))
    for _ in range(2):
        with pytest.raises(ValueError):
            await tool()
        order.reverse()
    by_body = [{r.body: r.headers["idempotency-key"] for r in part} for part in _halves(wire.server.requests)]
    assert by_body[0] == by_body[1]
    assert len(set(by_body[0].values())) == 3


def _halves(items: list[Any]) -> list[list[Any]]:
    return [items[: len(items) // 2], items[len(items) // 2 :]]


@pytest.mark.parametrize("change", ["body", "query"])
async def test_other_bytes_under_the_key_do_not_leave(wire: Wire, change: str) -> None:
    """A repeat that adds something is another request (H05)."""
    client = wire.client(contract=KEYED)
    attempts: list[int] = []

    async def pay() -> Any:
        attempts.append(1)
        note = len(attempts)
        if change == "body":
            return await client.post(json={"attempt": note})
        return await client.post(f"/messages?attempt={note}")

    tool = wire.tool(pay)
    wire.server.script("/messages", [LOST])
    with pytest.raises(wire.package.TransportError):
        await tool()
    with pytest.raises(OccurrenceConflict, match="differs from the one that an earlier epoch sent"):
        await tool()
    assert len(wire.server.requests) == 1
    attempts[:] = []
    assert await tool() is not None, "the very same request is still admitted"
    assert justifications(wire.stage) == ["first_attempt", "idempotency_key", "idempotency_key"]


async def test_what_an_earlier_epoch_never_reached_may_follow(wire: Wire) -> None:
    client = wire.client(contract=KEYED)

    async def pay() -> None:
        (await client.post(json={"part": 1})).raise_for_status()
        (await client.post(json={"part": 2})).raise_for_status()

    wire.server.script("/messages", [LOST])
    tool = wire.tool(pay)
    with pytest.raises(wire.package.TransportError):
        await tool()
    await tool()
    assert [r.body for r in wire.server.requests] == [b'{"part":1}', b'{"part":1}', b'{"part":2}']


async def test_a_key_that_the_request_carries_is_used(wire: Wire) -> None:
    client = wire.client(contract=KEYED)

    async def pay() -> Any:
        return await client.post(headers={"Idempotency-Key": f"mine-{current().occurrence_id}"})

    tool = wire.tool(pay)
    wire.server.script("/messages", [LOST])
    with pytest.raises(wire.package.TransportError):
        await tool()
    await tool()
    assert len(set(keys(wire.server))) == 1
    assert str(keys(wire.server)[0]).startswith("mine-")


async def test_a_key_that_is_minted_for_each_call_justifies_nothing(wire: Wire) -> None:
    client = wire.client(contract=KEYED)
    minted: list[str] = []

    async def pay() -> Any:
        minted.append(f"mine-{len(minted)}")
        return await client.post(headers={"Idempotency-Key": minted[-1]})

    tool = wire.tool(pay)
    wire.server.script("/messages", [LOST])
    with pytest.raises(wire.package.TransportError):
        await tool()
    with pytest.raises(OccurrenceConflict, match="another idempotency key"):
        await tool()
    assert len(wire.server.effects) == 1


async def test_nor_within_one_epoch(wire: Wire) -> None:
    client = wire.client(contract=KEYED)

    async def pay() -> None:
        with pytest.raises(wire.package.TransportError):
            await client.post(headers={"Idempotency-Key": "a"})
        await client.post(headers={"Idempotency-Key": "b"})

    wire.server.script("/messages", [LOST])
    with pytest.raises(wire.package.TransportError):
        await wire.tool(pay)()
    assert len(wire.server.effects) == 1


async def test_a_key_whose_time_is_over_justifies_nothing(wire: Wire) -> None:
    client = wire.client(contract=KEYED)

    async def pay() -> Any:
        return await client.post()

    tool = wire.tool(pay)
    wire.server.script("/messages", [LOST])
    with pytest.raises(wire.package.TransportError):
        await tool()
    wire.stage.clock.advance(timedelta(hours=25))
    with pytest.raises(ReplayRefused):
        await tool()
    assert len(wire.server.effects) == 1


async def test_a_key_whose_time_ends_on_the_way_justifies_nothing(wire: Wire) -> None:
    client = wire.client(contract=KEYED)
    pauses = [timedelta(0), timedelta(hours=25)]

    async def pay() -> Any:
        wire.stage.clock.advance(pauses.pop(0))
        return await client.post()

    tool = wire.tool(pay)
    wire.server.script("/messages", [LOST])
    with pytest.raises(wire.package.TransportError):
        await tool()
    with pytest.raises(ReplayRefused, match="no longer keeps"):
        await tool()
    assert len(wire.server.effects) == 1


async def test_without_a_declared_lifetime_a_key_is_sent_and_justifies_nothing(wire: Wire) -> None:
    client = wire.client(contract=Contract(idempotency_key="Idempotency-Key"))

    async def pay() -> Any:
        return await client.post()

    tool = wire.tool(pay)
    wire.server.script("/messages", [LOST])
    with pytest.raises(wire.package.TransportError):
        await tool()
    assert keys(wire.server) != [None]
    with pytest.raises(ReplayRefused):
        await tool()


async def test_the_tools_contract_names_the_header_where_the_client_has_none(wire: Wire) -> None:
    client = wire.client()

    async def pay() -> Any:
        return (await client.post()).status_code

    tool = wire.tool(pay, contract=KEYED)
    wire.server.script("/messages", [LOST])
    with pytest.raises(wire.package.TransportError):
        await tool()
    assert await tool() == 200
    assert len(set(keys(wire.server))) == 1


async def test_after_a_compensation_the_key_is_a_new_one(wire: Wire) -> None:
    client = wire.client(contract=KEYED)

    async def pay() -> Any:
        return (await client.post()).status_code

    tool = wire.tool(pay)
    wire.server.script("/messages", [LOST])
    with pytest.raises(wire.package.TransportError):
        await tool()
    guard, occurrence = wire.stage.guard, wire.stage.waiting().occurrence_id
    guard.compensate(occurrence, epoch=1, by="ann")
    with pytest.raises(Exception, match="authorised"):
        await tool()
    (request,) = [s.id for s in guard.show(occurrence).suspensions if s.suspension == "confirmation"]
    guard.approve(request, by="ann")
    assert await tool() == 200
    first, second = keys(wire.server)
    assert first != second


async def test_the_caller_keeps_a_request_without_our_key(wire: Wire) -> None:
    """Else sending it again, for another occurrence, would be swallowed by the service."""
    client = wire.client(contract=KEYED)
    request = client.client.build_request("POST", "/messages")

    async def pay(n: int) -> Any:
        return (await client.send(request)).status_code

    tool = wire.tool(pay)
    await tool(1)
    await tool(2)
    assert "idempotency-key" not in request.headers
    assert len(set(keys(wire.server))) == 2


async def test_keys_are_never_written_down(wire: Wire) -> None:
    client = wire.client(contract=KEYED)

    async def pay() -> Any:
        return await client.post(headers={"Authorization": "Bearer secret-1"})

    wire.server.script("/messages", [LOST])
    with pytest.raises(wire.package.TransportError):
        await wire.tool(pay)()
    key = str(keys(wire.server)[0])
    (started,) = events(wire.stage, SendStarted)
    assert started.key is not None
    written = str(wire.stage.guard.show(wire.stage.waiting().occurrence_id)) + str(
        [s.to_json() for s in wire.stage.exporter.get_finished_spans()]
    )
    assert key not in written
    assert "secret-1" not in written


# -- where a key goes ----------------------------------------------------------------------------------------------


async def test_in_a_field_of_a_json_body(wire: Wire) -> None:
    """Every other value keeps its bytes; the caller's request stays as it is."""
    contract = Contract(idempotency_key="json:/options/key", key_lifetime=timedelta(hours=1))
    client = wire.client(contract=contract)
    body = b'{"cents": 1.50, "options": {"note": "\\u00e9"}}'

    async def pay() -> int:
        return (await client.request("POST", "/messages", content=body)).status_code  # type: ignore[no-any-return]

    wire.server.script("/messages", [LOST])
    tool = wire.tool(pay)
    with pytest.raises(wire.package.TransportError):
        await tool()
    assert await tool() == 200
    first, second = [r.body for r in wire.server.requests]
    assert first == second
    assert first.startswith(b'{"cents":1.50,"options":{"note":"\\u00e9","key":"')
    assert wire.server.requests[0].headers["content-length"] == str(len(first))
    assert justifications(wire.stage) == ["first_attempt", "idempotency_key"]


@pytest.mark.parametrize("body", [b"no json", b"[1]", b'{"options": 1}', b'{"other": {}}'])
async def test_a_body_without_such_a_field_gets_no_key(wire: Wire, body: bytes) -> None:
    client = wire.client(contract=Contract(idempotency_key="json:/options/key", key_lifetime=timedelta(hours=1)))

    async def pay() -> None:
        await client.request("POST", "/messages", content=body)

    wire.server.script("/messages", [LOST])
    tool = wire.tool(pay)
    with pytest.raises(wire.package.TransportError):
        await tool()
    with pytest.raises(ReplayRefused):
        await tool()
    assert [r.body for r in wire.server.requests] == [body]


async def test_where_a_callable_puts_it(wire: Wire) -> None:
    def put(request: Any, key: str) -> bytes:
        request.url = request.url.copy_merge_params({"ref": key[:8]})
        return b"<pay key='" + key.encode() + b"'/>"

    client = wire.client(contract=Contract(idempotency_key=put, key_lifetime=timedelta(hours=1)))

    async def pay() -> int:
        return (await client.request("POST", "/messages", content=b"<pay/>")).status_code  # type: ignore[no-any-return]

    wire.server.script("/messages", [LOST])
    tool = wire.tool(pay)
    with pytest.raises(wire.package.TransportError):
        await tool()
    assert await tool() == 200
    first, second = wire.server.requests
    assert (first.path, first.body) == (second.path, second.body)
    assert first.path.startswith("/messages?ref=") and first.body.startswith(b"<pay key='")


async def test_a_callable_that_fails_sends_nothing(wire: Wire) -> None:
    def put(request: Any, key: str) -> Any:
        return "text"

    client = wire.client(contract=Contract(idempotency_key=put, key_lifetime=timedelta(hours=1)))

    async def pay() -> None:
        await client.post()

    tool = wire.tool(pay, contract=Contract(effects_through="http"))
    for _ in range(2):
        with pytest.raises(TypeError, match="return the new body as bytes"):
            await tool()
    assert wire.server.requests == []


@pytest.mark.parametrize("given", ["", "json:id", "body:/id", "header:", 7])
def test_what_is_no_place(given: Any) -> None:
    with pytest.raises(ValueError):
        Contract(idempotency_key=given)
    with pytest.raises(ValueError):
        Contract(receipt=given)


async def test_a_key_of_the_caller_with_other_bytes_is_a_conflict(wire: Wire) -> None:
    """Outside tools, and in another call of the same tool: whatever occurrence it was (H05)."""
    client = wire.client(contract=KEYED)
    mine = {"Idempotency-Key": "order-7"}
    assert (await client.post(headers=mine)).status_code == 200
    assert (await client.post(headers=mine)).status_code == 200, "the same bytes: the service knows them"
    with pytest.raises(OccurrenceConflict, match="sent with other bytes"):
        await client.post(headers=mine, json={"text": "hello", "metadata": 1})

    async def pay(cents: int) -> Any:
        return (await client.post("/pay", headers={"Idempotency-Key": "order-8"}, json={"cents": cents})).status_code

    tool = wire.tool(pay)
    assert await tool(1) == 200
    with pytest.raises(OccurrenceConflict, match="sent with other bytes"):
        await tool(2)
    assert len(wire.server.effects) == 3
    wire.stage.clock.advance(timedelta(hours=25))
    assert await tool(3) == 200, "the service has forgotten it"


async def test_after_a_refusal_the_key_may_go_with_other_bytes(wire: Wire) -> None:
    client = wire.client(contract=KEYED)
    mine = {"Idempotency-Key": "order-7"}
    wire.server.script("/messages", [INVALID])
    assert (await client.post(headers=mine)).status_code == 422
    assert (await client.post(headers=mine, json={"text": "corrected"})).status_code == 200
