"""Bodies of requests and of answers: streamed, never buffered, never sent twice."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import AsyncIterator, Iterator
from pathlib import Path
from typing import Any

import pytest

from readmit import Contract, ReplayRefused
from readmit._model import Observed
from readmit.testing import ANSWERED, CHALLENGED, FAILED, LOST, EffectServer, closed_port, redirected
from tests.middleware.http.hostile import Hostile
from tests.middleware.http.test_resend import auth_of
from tests.middleware.http.wires import Caller, Wire, client_spans, events, span
from tests.middleware.stage import attributes


class Parts:
    """A body that can be read once, by either kind of client."""

    def __init__(self, *parts: bytes) -> None:
        self.parts = list(parts)
        self.given = 0

    def plain(self) -> Iterator[bytes]:
        while self.parts:
            self.given += 1
            yield self.parts.pop(0)

    async def awaited(self) -> AsyncIterator[bytes]:
        for part in self.plain():
            yield part

    def of(self, wire: Wire) -> Any:
        return self.awaited() if wire.asynchronous else self.plain()


async def stream(wire: Wire, client: Caller, *parts: bytes, path: str = "/files") -> Any:
    return await client.request("POST", path, content=Parts(*parts).of(wire))


async def test_a_streamed_body_arrives_whole_and_is_read_once(wire: Wire) -> None:
    client = wire.client(contract=Contract(idempotency_key="Idempotency-Key"))
    parts = Parts(b"a", b"b", b"c")
    await client.request("POST", "/files", content=parts.of(wire))
    assert wire.server.effects[0].body == b"abc"
    assert parts.given == 3
    assert wire.server.effects[0].key is None, "without a digest there is no key"


async def test_equal_streams_outside_tools_are_not_known_to_be_equal(wire: Wire) -> None:
    client = wire.client()
    wire.server.script("/files", [LOST])
    with pytest.raises(wire.package.TransportError):
        await stream(wire, client, b"a")
    assert (await stream(wire, client, b"a")).status_code == 200, "always minted"
    assert len(wire.stage.guard.pending()) == 1


@pytest.mark.parametrize("first", [LOST, FAILED], ids=["lost", "500"])
async def test_a_retry_of_a_streamed_body_within_a_tool_is_stopped(wire: Wire, first: Any) -> None:
    client = wire.client()

    async def upload() -> None:
        for left in (1, 0):
            try:
                (await stream(wire, client, b"a")).raise_for_status()
                return
            except (wire.package.TransportError, wire.package.HTTPStatusError):
                if not left:
                    raise

    wire.server.script("/files", [first])
    with pytest.raises((wire.package.TransportError, wire.package.HTTPStatusError)):
        await wire.tool(upload)()
    said = attributes(span(wire.stage, "execute_tool upload"))
    assert "a streamed body has no digest" in said["readmit.send.refusal.detail"]
    assert len(wire.server.effects) == 1


async def test_an_upload_that_never_left_can_be_sent(wire: Wire) -> None:
    """The same request, handed out again by a loop: nothing of its body was taken."""
    port = closed_port()
    client = wire.client(base_url=f"http://127.0.0.1:{port}")

    async def upload() -> int:
        request = client.client.build_request("POST", "/files", content=Parts(b"a").of(wire))
        with pytest.raises(wire.package.ConnectError):
            await client.send(request)
        with EffectServer(port=port) as server:
            await client.send(request)
            return len(server.effects)

    assert await wire.tool(upload)() == 1


async def test_several_streams_to_one_place_are_several(wire: Wire) -> None:
    client = wire.client()

    async def upload() -> None:
        for part in (b"a", b"b"):
            (await stream(wire, client, part)).raise_for_status()

    await wire.tool(upload)()
    assert [e.body for e in wire.server.effects] == [b"a", b"b"]


async def test_an_upload_is_not_sent_again_by_an_auth_flow(wire: Wire) -> None:
    """Files can be read twice by the client; nobody knows whether they are the same then."""
    client = wire.client(auth=auth_of(wire, "old", "new"), contract=Contract(rejected=(401,)))
    wire.server.script("/files", [CHALLENGED])
    if wire.asynchronous:
        return  # multipart bodies with files are for plain clients
    assert (await client.request("POST", "/files", files={"file": b"content"})).status_code == 401
    assert len(wire.server.requests) == 1


async def test_a_redirected_body_in_memory_is_known(wire: Wire) -> None:
    client = wire.client(follow_redirects=True, contract=Contract(rejected=(307,), idempotency_key="Idempotency-Key"))

    async def send() -> None:
        (await client.post()).raise_for_status()

    wire.server.script("/messages", [redirected("/elsewhere", commits=False)])
    await wire.tool(send)()
    first, second = [r.headers["idempotency-key"] for r in wire.server.requests]
    assert first == second, "it is the same request, elsewhere"


async def test_an_answer_can_be_streamed(wire: Wire) -> None:
    client = wire.client()

    async def send() -> bytes:
        request = client.client.build_request("POST", "/messages")
        answer = await client.send(request, stream=True)
        if wire.asynchronous:
            parts = [part async for part in answer.aiter_bytes()]
            await answer.aclose()
        else:
            parts = list(answer.iter_bytes())
            answer.close()
        return b"".join(parts)

    assert await wire.tool(send)() == b"{}"
    assert client_spans(wire.stage)[0]["readmit.effect.state"] == "committed"


async def test_an_answer_that_nobody_reads_is_still_committed(wire: Wire) -> None:
    client = wire.client()

    async def send() -> None:
        answer = await client.send(client.client.build_request("POST", "/messages"), stream=True)
        if wire.asynchronous:
            await answer.aclose()
        else:
            answer.close()
        raise ValueError

    wire.server.script("/messages", [ANSWERED])
    tool = wire.tool(send)
    with pytest.raises(ValueError):
        await tool()
    with pytest.raises(ReplayRefused) as refused:
        await tool()
    assert refused.value.reason == "already_committed"


async def test_a_streamed_body_is_digested_while_it_leaves(wire: Wire) -> None:
    """Equal bytes have equal digests, however they were cut; the journal has them and the size is on the span."""
    client = wire.client()

    async def upload() -> None:
        for parts in ([b"ab", b"c"], [b"a", b"bc"], [b"abd"]):
            (await stream(wire, client, *parts)).raise_for_status()
        raise ValueError("after the uploads")

    with pytest.raises(ValueError):
        await wire.tool(upload)()
    (head,) = wire.stage.heads()
    first, second, third = [e.body for e in events(wire.stage, Observed, head.id)]
    assert first == second != third
    assert len(first) == 64
    assert [said["http.request.body.size"] for said in client_spans(wire.stage)] == [3, 3, 3]


async def test_a_body_that_breaks_while_it_leaves_has_no_digest(wire: Wire) -> None:
    client = wire.client()

    def broken() -> Iterator[bytes]:
        yield b"part"
        raise OSError("the disk is gone")

    async def abroken() -> AsyncIterator[bytes]:
        for part in broken():
            yield part

    async def upload() -> None:
        await client.request("POST", "/files", content=abroken() if wire.asynchronous else broken())

    tool = wire.tool(upload)
    with pytest.raises(OSError):
        await tool()
    (seen,) = events(wire.stage, Observed)
    assert (seen.evidence.state, seen.evidence.rule, seen.body) == ("unknown", "http.no_response", "")
    with pytest.raises(ReplayRefused):
        await tool()


UPLOAD = """
import asyncio, resource, sys
import {package}, readmit
PART, PARTS = b"x" * 1_048_576, {parts}
def peak():
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
grown = []
def parts():
    for n in range(PARTS):
        if n == 16:
            grown.append(peak())
        yield PART
    grown.append(peak())
async def awaited():
    for part in parts():
        yield part
guard = readmit.Guard(journal=":memory:")
@guard.tool(effect="write", name="upload")
def upload():
    with {package}.Client(timeout=60) as client:
        readmit.instrument(client, guard=guard)
        return client.post(sys.argv[1], content=parts()).status_code
@guard.tool(effect="write", name="aupload")
async def aupload():
    async with {package}.AsyncClient(timeout=60) as client:
        readmit.instrument(client, guard=guard)
        return (await client.post(sys.argv[1], content=awaited())).status_code
assert ({call}) == 200
print(grown[1] - grown[0])
"""


@pytest.mark.parametrize(
    ("parts", "most"),
    [pytest.param(64, 8_192, id="64 MiB"), pytest.param(1024, 8_192, id="1 GiB", marks=pytest.mark.slow)],
)
@pytest.mark.parametrize("package", ["httpx", "httpx2"])
@pytest.mark.parametrize("call", ["upload()", "asyncio.run(aupload())"], ids=["plain", "async"])
def test_an_upload_takes_no_memory(parts: int, most: int, package: str, call: str, tmp_path: Path) -> None:
    """`most`: KiB by which the peak of the process grows between the 16th MiB and the last."""
    with Hostile() as hostile:
        program = UPLOAD.format(package=package, parts=parts, call=call)
        done = subprocess.run(
            [sys.executable, "-c", program, hostile.url], capture_output=True, text=True, timeout=300, cwd=tmp_path
        )
        assert done.returncode == 0, done.stderr
        assert int(done.stdout) <= most
        assert hostile.effects == 1
