"""Whoever retries: a transport that wraps another, a loop around `client.post`, hooks; every send is seen."""

from __future__ import annotations

from collections.abc import AsyncIterator
from typing import Any

import httpx
import pytest
import tenacity
from httpx_retries import Retry, RetryTransport

import readmit
from readmit import Contract, ReplayRefused
from readmit.testing import ANSWERED, BROKEN_BODY, CHALLENGED, FAILED, LOST, Behaviour, EffectServer, closed_port
from tests.middleware.http.test_keys import KEYED
from tests.middleware.http.wires import Wire, client_spans, span, told
from tests.middleware.stage import Stage, attributes

BUSY = Behaviour(status=503, body=b'{"error": "busy"}')  # after the effect
LIMITED = Behaviour(commits=False, status=429)
POSTS = Retry(total=3, backoff_factor=0, allowed_methods=["POST"], status_forcelist=[429, 503])


@pytest.fixture(params=["httpx", "httpx-async"])
async def wire(request: pytest.FixtureRequest, stage: Stage, server: EffectServer) -> AsyncIterator[Wire]:
    """httpx-retries knows only httpx."""
    wire = Wire(request.param, stage, server)
    async with wire.closing:
        yield wire


def retrying(wire: Wire, placed: str, **declared: Any) -> Any:
    """A client whose transport retries: instrumented, or built by hand around a guarded one."""
    if placed == "instrumented":
        return wire.client(transport=RetryTransport(wire.real_transport(), retry=POSTS), **declared)
    inside = wire.transport(wire.real_transport(), **declared)
    return wire.client(transport=RetryTransport(inside, retry=POSTS), guarded=False)


PLACED = pytest.mark.parametrize("placed", ["instrumented", "by hand"])


@PLACED
async def test_a_transport_that_retries_gets_the_first_error(wire: Wire, placed: str) -> None:
    client = retrying(wire, placed)

    async def send() -> None:
        await client.post()

    wire.server.script("/messages", [LOST])
    with pytest.raises(httpx.RemoteProtocolError, match="disconnected"):
        await wire.tool(send)()
    assert (len(wire.server.effects), len(wire.server.requests)) == (1, 1)
    assert told(wire.stage) == [("unknown", "http.no_response", None)]


@PLACED
async def test_a_transport_that_retries_gets_the_first_answer(wire: Wire, placed: str) -> None:
    """Also its body, which nobody had read when the transport threw the answer away."""
    client = retrying(wire, placed)

    async def send() -> Any:
        answer = await client.post()
        return answer.status_code, answer.json()

    tool = wire.tool(send, classify=lambda found: "unknown")
    wire.server.script("/messages", [BUSY])
    assert await tool() == (503, {"error": "busy"})
    assert (len(wire.server.effects), len(wire.server.requests)) == (1, 1)
    assert attributes(span(wire.stage, "execute_tool send"))["readmit.send.suppressed"] == 2
    with pytest.raises(ReplayRefused):
        await tool()


@PLACED
async def test_outside_tools_too(wire: Wire, placed: str) -> None:
    client = retrying(wire, placed)
    wire.server.script("/messages", [BUSY])
    answer = await client.post()
    assert (answer.status_code, answer.json()) == (503, {"error": "busy"})
    assert (len(wire.server.effects), len(wire.server.requests)) == (1, 1)
    assert len(wire.stage.guard.pending()) == 1


@PLACED
async def test_a_refusal_is_retried(wire: Wire, placed: str) -> None:
    client = retrying(wire, placed)

    async def send() -> int:
        return (await client.post()).status_code  # type: ignore[no-any-return]

    wire.server.script("/messages", [LIMITED, LIMITED])
    assert await wire.tool(send)() == 200
    assert (len(wire.server.effects), len(wire.server.requests)) == (1, 3)
    assert [said.get("http.request.resend_count") for said in client_spans(wire.stage)] == [None, 1, 2]


@PLACED
async def test_a_key_lets_it_retry(wire: Wire, placed: str) -> None:
    client = retrying(wire, placed, contract=KEYED)

    async def send() -> int:
        return (await client.post()).status_code  # type: ignore[no-any-return]

    wire.server.script("/messages", [BUSY])
    assert await wire.tool(send)() == 200
    assert len({r.headers["idempotency-key"] for r in wire.server.requests}) == 1
    assert len(wire.server.requests) == 2


async def test_a_transport_that_retries_is_given_back_as_it_was(wire: Wire) -> None:
    inner = wire.real_transport()
    client = wire.client(transport=RetryTransport(inner, retry=POSTS))
    readmit.instrument(client.client, contract=Contract(name="again"), guard=wire.stage.guard)
    held = vars(client.client._transport)
    assert inner not in held.values()
    readmit.uninstrument(client.client)
    assert inner in held.values()
    assert readmit.http.GuardedTransport not in map(type, held.values())


@pytest.mark.parametrize("first", [LOST, FAILED, BROKEN_BODY], ids=["lost", "500", "body"])
async def test_tenacity_in_a_tool(wire: Wire, first: Behaviour) -> None:
    client = wire.client()
    attempts: list[int] = []

    @tenacity.retry(stop=tenacity.stop_after_attempt(4), reraise=True)
    async def post() -> Any:
        attempts.append(1)
        (await client.post()).raise_for_status()

    async def send() -> None:
        if wire.asynchronous:
            await post()
            return
        for attempt in tenacity.Retrying(stop=tenacity.stop_after_attempt(4), reraise=True):
            with attempt:
                attempts.append(1)
                (await client.post()).raise_for_status()

    wire.server.script("/messages", [first])
    with pytest.raises(httpx.HTTPError) as error:
        await wire.tool(send)()
    assert not isinstance(error.value, readmit.Refused)
    assert (len(attempts), len(wire.server.requests), len(wire.server.effects)) == (4, 1, 1)


async def test_a_loop_that_only_another_answer_ends_is_told(wire: Wire) -> None:
    client = wire.client()

    async def send() -> None:
        while (await client.post()).status_code >= 500:
            pass

    wire.server.script("/messages", [FAILED])
    with pytest.raises(ReplayRefused, match="send 1 is repeated"):
        await wire.tool(send)()
    assert len(wire.server.requests) == 1


async def test_tenacity_goes_on_after_a_refused_connection(wire: Wire) -> None:
    port = closed_port()
    client = wire.client(base_url=f"http://127.0.0.1:{port}")

    async def send() -> int:
        with pytest.raises(httpx.ConnectError):
            await client.post()
        with EffectServer(port=port):
            return (await client.post()).status_code  # type: ignore[no-any-return]

    assert await wire.tool(send)() == 200


async def test_what_a_hook_sees_is_what_is_sent(wire: Wire) -> None:
    """A hook that signs a request, and one that raises for a status: both before the caller sees an answer."""

    def sign(request: Any) -> None:
        request.headers["X-Signed"] = str(len(request.content))

    async def sign_too(request: Any) -> None:
        sign(request)

    def check(answer: Any) -> None:
        if answer.status_code >= 400:
            raise ValueError(answer.status_code)

    async def check_too(answer: Any) -> None:
        check(answer)

    hooks = {"request": [sign_too], "response": [check_too]} if wire.asynchronous else None
    client = wire.client(event_hooks=hooks or {"request": [sign], "response": [check]})

    async def send() -> None:
        for left in (1, 0):
            try:
                await client.post()
            except ValueError:
                if not left:
                    raise

    wire.server.script("/messages", [FAILED])
    tool = wire.tool(send)
    with pytest.raises(ValueError, match="500"):
        await tool()
    assert wire.server.requests[0].headers["x-signed"] == "16"
    assert len(wire.server.requests) == 1
    with pytest.raises(ReplayRefused):
        await tool()


async def test_an_encoded_answer_can_be_given_twice(wire: Wire) -> None:
    """The flow sees the challenge twice, and its caller the text of the first."""
    import gzip

    from tests.middleware.http.test_resend import auth_of

    body = gzip.compress(b"sign in first")
    fields = (("Content-Encoding", "gzip"), *CHALLENGED.headers)
    client = wire.client(auth=auth_of(wire, "old", "new"))
    wire.server.script("/messages", [Behaviour(status=401, headers=fields, body=body), ANSWERED])

    async def send() -> Any:
        answer = await client.post()
        return answer.status_code, answer.text, answer.headers.get_list("www-authenticate"), answer.history

    status, text, challenges, history = await wire.tool(send)()
    assert (status, text, len(challenges), history) == (401, "sign in first", 2, [])
    assert len(wire.server.requests) == 1
