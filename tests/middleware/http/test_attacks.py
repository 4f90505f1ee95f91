"""Ways in which a request's effect once happened twice, or was called undone: each stays shut."""

from __future__ import annotations

import asyncio
import functools
import itertools
import socket
import subprocess
import sys
from collections.abc import Iterator
from contextlib import suppress
from datetime import timedelta
from pathlib import Path
from typing import Any

import httpx
import pytest
from httpx_retries import Retry, RetryTransport

import readmit
from readmit import Contract, ReplayRefused
from readmit.testing import BROKEN_BODY, INVALID, LOST, Behaviour, EffectServer
from tests.middleware.http.hostile import Act, Hostile
from tests.middleware.http.test_hostile import REFUSED
from tests.middleware.stage import Stage

NOWHERE = "http://127.0.0.1:1"


@pytest.fixture
def server() -> Iterator[EffectServer]:
    with EffectServer() as server:
        yield server


def refused_again(call: Any, *arguments: Any) -> None:
    """The next equal call is refused: what the first did is not known."""
    with pytest.raises(ReplayRefused, match="may have had its effect"):
        call(*arguments)


def test_what_the_peer_said_of_the_request_before_is_not_said_of_this_one(stage: Stage) -> None:
    """A retry in an `except` block: its failure is raised while that of the first is handled."""
    with Hostile() as hostile:
        hostile.script.extend([Act(at="headers", effect=False, how="rst", code=REFUSED), Act(how="reset")])
        client = httpx.Client(base_url=hostile.url, http1=False, http2=True)
        readmit.instrument(client, guard=stage.guard)

        @stage.guard.tool(effect="write", name="charge")
        def charge() -> None:
            try:
                client.post("/charge", json={"cents": 5})
            except httpx.RemoteProtocolError:
                client.post("/charge", json={"cents": 5})

        with pytest.raises(httpx.TransportError):
            charge()
        sends = stage.guard.show(stage.waiting().occurrence_id).epochs()[0].sends
        assert [send.evidence.state for send in sends] == ["not_sent", "unknown"]
        refused_again(charge)
        assert hostile.effects == 1
        client.close()


@pytest.mark.parametrize("placed", ["instrumented", "by hand"])
def test_a_client_that_was_told_something_keeps_it_under_a_watched_library(
    stage: Stage, server: EffectServer, placed: str
) -> None:
    """Its guard is below a transport that retries; the watch over all clients of the library is further out."""
    contract = Contract(name="bank", idempotency_key="Idempotency-Key")
    never = Retry(total=0)
    if placed == "by hand":
        inner = readmit.GuardedTransport(httpx.HTTPTransport(), contract=contract, guard=stage.guard)
        client = httpx.Client(base_url=server.url, transport=RetryTransport(inner, retry=never))
    else:
        client = httpx.Client(base_url=server.url, transport=RetryTransport(retry=never))
        readmit.instrument(client, contract=contract, guard=stage.guard)
    server.script("/charge", [LOST])
    readmit.instrument(httpx, guard=stage.guard)
    try:
        with pytest.raises(httpx.RemoteProtocolError):
            client.post("/charge", json={"cents": 5})
        refused_again(lambda: client.post("/charge", json={"cents": 5}))
    finally:
        readmit.uninstrument(httpx)
        client.close()
    assert [effect.key is not None for effect in server.effects] == [True]


class Signing(httpx.BaseTransport):
    """Somebody's own wrapper."""

    def __init__(self) -> None:
        self._inner = httpx.HTTPTransport()

    def handle_request(self, request: httpx.Request) -> httpx.Response:
        request.headers["X-Signature"] = "abc"
        return self._inner.handle_request(request)

    def close(self) -> None:
        self._inner.close()


class Failover(httpx.BaseTransport):
    """Two ways: if nobody listens at the first, the second is taken."""

    def __init__(self, port: int, second: httpx.BaseTransport) -> None:
        self.first, self.second, self._port = httpx.HTTPTransport(), second, port

    def handle_request(self, request: httpx.Request) -> httpx.Response:
        try:
            return self.first.handle_request(request)
        except httpx.ConnectError:
            pass
        request.url = request.url.copy_with(port=self._port)
        return self.second.handle_request(request)

    def close(self) -> None:
        self.first.close()
        self.second.close()


class Listed(Failover):
    """The second way stands in a list, and gets a request that was made anew."""

    def __init__(self, port: int, second: httpx.BaseTransport) -> None:
        super().__init__(port, second)
        self.ways = [self.first, self.second]
        del self.first, self.second

    def handle_request(self, request: httpx.Request) -> httpx.Response:
        try:
            return self.ways[0].handle_request(request)
        except httpx.TransportError:
            url = request.url.copy_with(port=self._port)
            return self.ways[1].handle_request(
                httpx.Request(request.method, url, headers=request.headers, content=request.content)
            )

    def close(self) -> None:
        for way in self.ways:
            way.close()


def charging(stage: Stage, client: httpx.Client) -> Any:
    readmit.instrument(client, guard=stage.guard)

    @stage.guard.tool(effect="write", name="charge")
    def charge() -> int:
        return client.post("/charge", json={"cents": 5}).raise_for_status().status_code

    return charge


@pytest.mark.parametrize("kind", [Failover, Listed])
@pytest.mark.parametrize("second", [Signing, httpx.HTTPTransport])
def test_a_second_way_that_nobody_sees_proves_nothing(
    stage: Stage, server: EffectServer, kind: type[Failover], second: type[httpx.BaseTransport]
) -> None:
    """The first way was not connected; the second had the effect, and lost the answer."""
    server.script("/charge", [LOST])
    with httpx.Client(base_url=NOWHERE, transport=kind(server.port, second())) as client:
        charge = charging(stage, client)
        with pytest.raises(httpx.RemoteProtocolError):
            charge()
        refused_again(charge)
    assert len(server.effects) == 1


def test_an_answer_to_a_request_that_nobody_saw_is_not_believed(stage: Stage, server: EffectServer) -> None:
    """The first way lost the answer after the effect; a 422 comes for what was sent again, unseen."""
    server.script("/charge", [LOST, INVALID])
    with httpx.Client(base_url=server.url, transport=Listed(server.port, httpx.HTTPTransport())) as client:
        charge = charging(stage, client)
        with pytest.raises(httpx.HTTPStatusError, match="422"):
            charge()
        refused_again(charge)
    assert len(server.effects) == 1


async def test_what_a_task_from_before_sends_keeps_a_tool_from_reading_as_not_sent(
    stage: Stage, server: EffectServer
) -> None:
    server.script("/send", [LOST])
    async with httpx.AsyncClient(base_url=server.url) as client:
        readmit.instrument(client, guard=stage.guard)
        jobs: asyncio.Queue[tuple[str, asyncio.Future[Any]]] = asyncio.Queue()
        batches = itertools.count()

        async def worker() -> None:
            while True:
                text, answer = await jobs.get()
                try:
                    answer.set_result(await client.post("/send", json={"text": text, "batch": next(batches)}))
                except httpx.HTTPError as error:
                    answer.set_exception(error)

        task = asyncio.create_task(worker())
        await asyncio.sleep(0)

        @stage.guard.tool(effect="write", name="send", contract=Contract(effects_through="http"))
        async def send(text: str) -> None:
            answer: asyncio.Future[Any] = asyncio.get_running_loop().create_future()
            await jobs.put((text, answer))
            await answer

        with pytest.raises(httpx.RemoteProtocolError):
            await send("hello")
        with pytest.raises(ReplayRefused):
            await send("hello")
        task.cancel()
    assert len(server.effects) == 1


def test_an_answer_that_is_closed_while_something_else_is_handled_is_not_broken(
    stage: Stage, server: EffectServer
) -> None:
    with httpx.Client(base_url=server.url) as client:
        readmit.instrument(client, guard=stage.guard)

        def notify() -> int:
            with client.stream("POST", "/notify", json={"text": "a cache was missed"}) as answer:
                return answer.status_code

        @stage.guard.tool(effect="write", name="twice")
        def twice() -> tuple[int, int]:
            try:
                raise KeyError("missing")
            except KeyError:
                return notify(), notify()

        for _ in range(2):
            try:
                raise KeyError("missing")
            except KeyError:
                assert notify() == 200
        assert twice() == (200, 200)
    assert len(server.effects) == 4


class Granted(httpx.Auth):
    """The client credentials grant: a token is asked for before each request."""

    requires_response_body = True

    def auth_flow(self, request: httpx.Request) -> Iterator[httpx.Request]:  # type: ignore[override]
        grant = {"grant_type": "client_credentials", "scope": "payments"}
        yield httpx.Request("POST", request.url.join("/token"), data=grant)
        request.headers["Authorization"] = "Bearer token"
        yield request


def test_an_auth_flows_own_token_request_is_no_effect_of_the_tool(stage: Stage, server: EffectServer) -> None:
    server.script("/token", [Behaviour(commits=False)] * 2)
    server.script("/charge", [INVALID])
    with httpx.Client(base_url=server.url, auth=Granted()) as client:
        charge = charging(stage, client)
        with pytest.raises(httpx.HTTPStatusError, match="422"):
            charge()
        assert charge() == 200, "it was rejected: the next one runs"
    assert [effect.path for effect in server.effects] == ["/charge"]


@pytest.mark.parametrize("how", ["stream", "multipart", "memory"])
def test_an_upload_whose_answer_broke_is_not_sent_again(stage: Stage, server: EffectServer, how: str) -> None:
    server.script("/upload", [BROKEN_BODY])
    with httpx.Client(base_url=server.url) as client:
        readmit.instrument(client, guard=stage.guard)

        def given() -> dict[str, Any]:
            match how:
                case "multipart":
                    return {"files": {"f": ("a.txt", b"data")}}
                case "stream":
                    return {"content": iter([b"data"])}
                case _:
                    return {"content": b"data"}

        @stage.guard.tool(effect="write", name="upload")
        def upload() -> None:
            for left in (2, 1, 0):
                try:
                    client.post("/upload", **given())
                    return
                except httpx.TransportError:
                    if not left:
                        raise

        with pytest.raises(httpx.RemoteProtocolError):
            upload()
    assert len(server.effects) == 1


def test_one_request_that_is_sent_twice_on_purpose_is_two(stage: Stage, server: EffectServer) -> None:
    server.script("/items", [Behaviour(body=b'{"item": 1}'), Behaviour(body=b'{"item": 2}')])
    with httpx.Client(base_url=server.url) as client:
        readmit.instrument(client, guard=stage.guard)

        @stage.guard.tool(effect="write", name="order")
        def order() -> list[Any]:
            request = client.build_request("POST", "/items", json={})
            return [client.send(request).json() for _ in range(2)]

        assert order() == [{"item": 1}, {"item": 2}]
    assert len(server.effects) == 2


async def test_a_send_in_an_executor_keeps_the_others_from_speaking_for_all(stage: Stage, server: EffectServer) -> None:
    """It is lost in a thread without context; the fallback was never connected."""
    server.script("/charge", [LOST])
    tries = itertools.count()
    with httpx.Client(base_url=server.url) as first:
        async with httpx.AsyncClient(base_url=NOWHERE) as second:
            readmit.instrument(first, guard=stage.guard)
            readmit.instrument(second, guard=stage.guard)

            @stage.guard.tool(effect="write", name="charge")
            async def charge() -> None:
                body = {"cents": 5, "try": next(tries)}
                try:
                    await asyncio.get_running_loop().run_in_executor(None, lambda: first.post("/charge", json=body))
                except httpx.TransportError:
                    await second.post("/charge", json=body)

            with pytest.raises(httpx.ConnectError):
                await charge()
            with pytest.raises(ReplayRefused):
                await charge()
    assert len(server.effects) == 1


def test_a_transport_whose_sending_was_replaced_reports_nothing(
    stage: Stage, server: EffectServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Also where the function that stands in its place was given the name of the real one."""
    original = httpx.HTTPTransport.handle_request

    @functools.wraps(original)
    def recorder(self: httpx.HTTPTransport, request: httpx.Request) -> httpx.Response:
        with socket.create_connection(("127.0.0.1", server.port)) as other:
            head = f"POST /charge HTTP/1.1\r\nContent-Length: {len(request.content)}\r\n\r\n"
            other.sendall(head.encode() + request.content)
            if not other.recv(100):
                raise httpx.ReadError("no answer")
        return httpx.Response(200)

    server.script("/charge", [LOST])
    with httpx.Client(base_url=server.url) as client:
        charge = charging(stage, client)
        monkeypatch.setattr(httpx.HTTPTransport, "handle_request", recorder)
        with pytest.raises(httpx.ReadError):
            charge()
        refused_again(charge)
    assert len(server.effects) == 1


def test_a_deeply_nested_answer_reaches_its_reader(stage: Stage, server: EffectServer) -> None:
    deep = b'{"x": ' + b"[" * 5_000 + b"]" * 5_000 + b', "id": 1}'
    server.script("/charge", [Behaviour(body=deep)])
    with httpx.Client(base_url=server.url) as client:
        readmit.instrument(client, contract=Contract(receipt="json:/id"), guard=stage.guard)
        assert client.post("/charge", json={}).content == deep


CHILD = """
import multiprocessing, sys
import httpx, readmit

folder, url = sys.argv[1:]
guard = readmit.Guard(journal=folder + "/readmit.db")

def post(path):
    with httpx.Client(base_url=url, verify=False) as client:
        readmit.instrument(client, guard=guard)
        client.post(path, json={}).raise_for_status()

@guard.tool(effect="write", name="upload")
def upload():
    child = multiprocessing.get_context("fork").Process(target=post, args=("/part/1",))
    child.start()
    child.join()
    post("/part/2")

for _ in range(2):
    try:
        upload()
    except Exception as error:
        print(type(error).__name__)
"""


def test_the_send_of_a_forked_child_is_one_of_its_own(tmp_path: Path, server: EffectServer) -> None:
    """Both count from one: what became of the parent's says nothing of the child's."""
    server.script("/part/1", [LOST])
    server.script("/part/2", [INVALID])
    program = [sys.executable, "-c", CHILD, str(tmp_path), server.url]
    done = subprocess.run(program, capture_output=True, text=True, timeout=60, check=True)
    assert done.stdout.split() == ["HTTPStatusError", "ReplayRefused"]
    assert [effect.path for effect in server.effects] == ["/part/1"]


def test_a_classifier_does_not_undo_what_another_request_did(stage: Stage, server: EffectServer) -> None:
    server.script("/receipt", [INVALID])
    with httpx.Client(base_url=server.url) as client:
        readmit.instrument(client, guard=stage.guard)

        @stage.guard.tool(effect="write", name="pay", key="order", classify=lambda result: "rejected")
        def pay(order: str) -> int:
            client.post("/charge", json={})
            return client.post("/receipt", json={}).status_code

        pay("o1")
        refused_again(pay, "o1")
    assert [effect.path for effect in server.effects] == ["/charge"]


def test_the_key_that_justifies_a_repeat_is_the_one_that_is_sent(stage: Stage) -> None:
    """The client's contract names another header than the tool's, and says nothing of how long that is kept."""
    day = Contract(idempotency_key="Idempotency-Key", key_lifetime=timedelta(days=1))
    with EffectServer(honours_keys=True) as server, httpx.Client(base_url=server.url) as client:
        server.script("/charge", [LOST])
        readmit.instrument(client, contract=Contract(idempotency_key="X-Request-Id"), guard=stage.guard)

        @stage.guard.tool(effect="write", name="charge", contract=day)
        def charge() -> None:
            client.post("/charge", json={})

        with pytest.raises(httpx.RemoteProtocolError):
            charge()
        with suppress(httpx.HTTPError):
            charge()
        assert [("idempotency-key" in r.headers, "x-request-id" in r.headers) for r in server.requests] == [
            (True, False)
        ] * 2
        assert len(server.effects) == 1
