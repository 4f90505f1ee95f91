"""How a service names the effect: kept, shown, handed to the reconcile hook; and a hook that asks it."""

from __future__ import annotations

import gzip
import json

import pytest

import readmit
from readmit import Contract, ReplayRefused
from readmit._model import Observed, Suspended
from readmit.cli._events import words
from readmit.http import lookup
from readmit.testing import ANSWERED, BROKEN_BODY, LOST, Behaviour
from tests.middleware.http.wires import Wire, events, told

MADE = Behaviour(status=201, headers=(("Location", "/messages/17"),), body=b'{"message": {"id": 17}}')
MADE_PACKED = Behaviour(
    status=201, headers=(("Content-Encoding", "gzip"),), body=gzip.compress(b'{"message": {"id": 17}}')
)
FAILED_LATER = Behaviour(status=500, headers=(("Location", "/messages/17"),), body=b'{"message": {"id": 17}}')


@pytest.mark.parametrize(
    ("place", "answer", "receipt"),
    [
        ("header:Location", MADE, "/messages/17"),
        ("Location", MADE, "/messages/17"),
        ("json:/message/id", MADE, "17"),
        ("json:/message/id", MADE_PACKED, "17"),
        ("json:/message/id", FAILED_LATER, "17"),
        ("json:/message", MADE, ""),
        ("json:/message/id", ANSWERED, ""),
        ("json:/message/id", Behaviour(body=b"no json"), ""),
    ],
)
async def test_it_is_kept_and_shown(wire: Wire, place: str, answer: Behaviour, receipt: str) -> None:
    client = wire.client(contract=Contract(receipt=place))

    async def send() -> None:
        await client.post()
        raise ValueError("after the answer")

    wire.server.script("/messages", [answer])
    with pytest.raises(ValueError):
        await wire.tool(send)()
    (seen,) = events(wire.stage, Observed)
    assert seen.receipt == receipt
    assert (f"“{receipt}”" in words(seen)) == bool(receipt)


async def test_outside_tools_it_is_known_when_the_body_has_been_read(wire: Wire) -> None:
    client = wire.client(contract=Contract(receipt="json:/message/id"))
    wire.server.script("/messages", [FAILED_LATER])
    await client.post()
    assert events(wire.stage, Observed)[-1].receipt == "17"


async def test_a_name_that_echoes_our_own_is_proof(wire: Wire) -> None:
    client = wire.client(contract=Contract(receipt="json:/reference"))

    async def send() -> None:
        reference = readmit.current().idempotency_key
        wire.server.script("/messages", [Behaviour(body=json.dumps({"reference": f"ref {reference}"}).encode())])
        await client.post()
        raise ValueError("after the answer")

    tool = wire.tool(send, contract=Contract(effects_through="http"))
    with pytest.raises(ValueError):
        await tool()
    known = [(e.evidence.rule, e.evidence.strength) for e in events(wire.stage, Observed, _only(wire))]
    assert known == [("http.2xx", "protocol"), ("http.receipt", "proof")]


def _only(wire: Wire) -> str:
    (head,) = wire.stage.heads()
    return head.id


async def test_a_redirect_names_no_effect(wire: Wire) -> None:
    client = wire.client(contract=Contract(receipt="Location"))

    async def send() -> None:
        (await client.post()).raise_for_status()

    wire.server.script("/messages", [Behaviour(status=302, headers=(("Location", "/login"),))])
    with pytest.raises(wire.package.HTTPStatusError):
        await wire.tool(send)()
    assert events(wire.stage, Observed)[0].receipt == ""


async def test_a_body_that_breaks_is_recorded_apart(wire: Wire) -> None:
    """The effect is known by then; that the answer was lost is another matter."""
    client = wire.client()
    wire.server.script("/messages", [BROKEN_BODY])
    with pytest.raises(wire.package.TransportError):
        await client.post()
    assert told(wire.stage) == [("committed", "http.2xx", "protocol")]
    assert [s.position for s in events(wire.stage, Suspended)] == ["body"]


# -- asking the service --------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("answer", "runs"),
    [
        (Behaviour(body=b'{"id": "m-17"}'), False),
        (Behaviour(status=410), True),
        (Behaviour(status=404), False),
        (Behaviour(status=500), False),
        (LOST, False),
    ],
    ids=["present", "absent", "not yet", "error", "lost"],
)
async def test_it_is_asked_before_anything_is_refused(wire: Wire, answer: Behaviour, runs: bool) -> None:
    client = wire.client(contract=Contract(receipt="Location"))
    hook = lookup(client.client, "/of/{who}?at={receipt}", absent=(410,), receipt="json:/id")

    async def send(who: str) -> int:
        answered = await client.post()
        answered.raise_for_status()
        return answered.status_code  # type: ignore[no-any-return]

    tool = wire.tool(send, reconcile=hook)
    wire.server.script("/messages", [FAILED_LATER])
    wire.server.script("/of/ann%2Fbob", [answer])
    with pytest.raises(wire.package.HTTPStatusError):
        await tool("ann/bob")
    if runs:
        assert await tool("ann/bob") == 200
    else:
        with pytest.raises(ReplayRefused) as refused:
            await tool("ann/bob")
        assert (refused.value.reason == "already_committed") == (answer.status == 200 and answer.then == "answer")
    asked = [r.path for r in wire.server.requests if r.method == "GET"]
    assert asked == ["/of/ann%2Fbob?at=%2Fmessages%2F17"]


async def test_the_address_in_the_answer_can_be_asked(wire: Wire) -> None:
    client = wire.client(contract=Contract(receipt="Location"))
    hook = lookup(client.client, "{receipt}", read=lambda answer: readmit.Present("read", result=answer.status_code))

    async def send() -> int:
        (await client.post()).raise_for_status()
        return 0

    tool = wire.tool(send, reconcile=hook)
    wire.server.script("/messages", [FAILED_LATER])
    with pytest.raises(wire.package.HTTPStatusError):
        await tool()
    assert await tool() == 200, "the result of the finding"
    assert [r.path for r in wire.server.requests] == ["/messages", "/messages/17"]


async def test_without_a_receipt_nothing_is_asked(wire: Wire) -> None:
    client = wire.client(contract=Contract(receipt="Location"))

    async def send() -> None:
        await client.post()

    tool = wire.tool(send, reconcile=lookup(client.client, "{receipt}"))
    wire.server.script("/messages", [LOST])
    with pytest.raises(wire.package.TransportError):
        await tool()
    with pytest.raises(ReplayRefused):
        await tool()
    assert len(wire.server.requests) == 1


async def test_a_key_can_be_asked_with(wire: Wire) -> None:
    keyed = Contract(idempotency_key="Idempotency-Key")
    client = wire.client(contract=keyed)

    async def send() -> None:
        await client.post()

    tool = wire.tool(send, reconcile=lookup(client.client, "/by/{idempotency_key}"))
    wire.server.script("/messages", [LOST])
    with pytest.raises(wire.package.TransportError):
        await tool()
    with pytest.raises(ReplayRefused):
        await tool()
    sent, asked = wire.server.requests
    assert sent.headers["idempotency-key"].startswith(asked.path.removeprefix("/by/"))


def test_a_status_has_one_meaning() -> None:
    with pytest.raises(ValueError, match="one meaning"):
        lookup(None, "/", absent=(404,))
