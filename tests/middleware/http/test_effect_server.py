"""The server that counts effects: what it is told to do, it does."""

from __future__ import annotations

import httpx
import pytest

from readmit.testing import (
    BROKEN_BODY,
    CHALLENGED,
    CHALLENGED_LATE,
    CHALLENGES,
    FAILED,
    INVALID,
    LOST,
    RESET,
    STALLED,
    Behaviour,
    EffectServer,
    closed_port,
    redirected,
)


@pytest.mark.parametrize(
    ("behaviour", "outcome", "effects"),
    [
        (Behaviour(), 200, 1),
        (LOST, "RemoteProtocolError", 1),
        (RESET, "ReadError", 1),
        (STALLED, "ReadTimeout", 1),
        (BROKEN_BODY, "RemoteProtocolError", 1),
        (CHALLENGED, 401, 0),
        (CHALLENGED_LATE, 401, 1),
        (INVALID, 422, 0),
        (FAILED, 500, 1),
        (redirected("/b"), 307, 1),
        (redirected("/b", commits=False), 307, 0),
        (Behaviour(commits=False, then="close"), "RemoteProtocolError", 0),
    ],
)
def test_each_behaviour(server: EffectServer, behaviour: Behaviour, outcome: object, effects: int) -> None:
    server.script("/a", [behaviour])
    with httpx.Client(base_url=server.url, timeout=0.2) as client:
        try:
            seen: object = client.post("/a", content=b"x").status_code
        except httpx.TransportError as error:
            seen = type(error).__name__
        assert client.post("/a", content=b"y").status_code == 200, "then it answers"
    assert seen == outcome
    assert len(server.effects) == effects + 1
    assert [r.body for r in server.requests] == [b"x", b"y"]


def test_both_challenges_arrive(server: EffectServer) -> None:
    server.script("/a", [CHALLENGED])
    assert httpx.post(f"{server.url}/a").headers.get_list("www-authenticate") == [value for _, value in CHALLENGES]


def test_reads_have_no_effect(server: EffectServer) -> None:
    assert httpx.get(f"{server.url}/a").status_code == 200
    assert httpx.head(f"{server.url}/a").status_code == 200
    assert server.effects == []


def test_it_honours_keys_if_told_to() -> None:
    with EffectServer(honours_keys=True) as server:
        server.script("/a", [LOST])
        keyed = {"Idempotency-Key": "k"}
        with pytest.raises(httpx.RemoteProtocolError):
            httpx.post(f"{server.url}/a", content=b"x", headers=keyed)
        assert httpx.post(f"{server.url}/a", content=b"x", headers=keyed).status_code == 200
        assert httpx.post(f"{server.url}/a", content=b"y", headers=keyed).status_code == 422
        assert httpx.post(f"{server.url}/a", content=b"x").status_code == 200
        assert [(e.body, e.key) for e in server.effects] == [(b"x", "k"), (b"x", None)]


def test_chunked_bodies(server: EffectServer) -> None:
    httpx.post(f"{server.url}/a", content=iter([b"one", b"two"]))
    assert server.effects[0].body == b"onetwo"


def test_a_closed_port_refuses() -> None:
    with pytest.raises(httpx.ConnectError):
        httpx.post(f"http://127.0.0.1:{closed_port()}/a")


def test_waiting_has_an_end(server: EffectServer) -> None:
    with pytest.raises(TimeoutError, match="0 requests, 0 effects"):
        server.wait(lambda s: bool(s.effects), seconds=0.01)


def test_it_ends_while_a_client_waits() -> None:
    server = EffectServer()
    with server, httpx.Client(base_url=server.url) as client:
        server.script("/a", [STALLED])
        request = client.build_request("POST", "/a")
        import threading

        outcome: list[str] = []

        def post() -> None:
            try:
                client.send(request)
            except httpx.TransportError as error:
                outcome.append(type(error).__name__)

        thread = threading.Thread(target=post)
        thread.start()
        server.wait(lambda s: bool(s.effects))
        server.__exit__()
        thread.join(5)
    assert outcome in (["RemoteProtocolError"], ["ReadError"])
