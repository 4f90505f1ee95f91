"""Every phase in which a request can end, with every kind of client, over HTTP/1.1 and HTTP/2."""

from __future__ import annotations

import logging
import ssl
from collections.abc import AsyncIterator, Iterator
from contextlib import suppress
from typing import Any, NamedTuple

import httpx
import httpx2
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

import readmit
from tests.middleware.http.hostile import CERTIFICATE, Act, Hostile
from tests.middleware.http.wires import KINDS, NO_CERTIFICATES, Wire, client_spans, told
from tests.middleware.stage import Stage

CANCEL, REFUSED, INTERNAL = 8, 7, 2  # RFC 9113 §7
LOST = ("unknown", "http.no_response", None)
DONE = ("committed", "http.2xx", "protocol")


class Phase(NamedTuple):
    """What the server does, what is then known, and whether an equal call may follow."""

    act: Act
    known: tuple[Any, ...]
    again: bool = False


BOTH = {
    "closed at once": Phase(Act(at="first_byte", effect=False, how="close"), LOST),
    "reset at once": Phase(Act(at="first_byte", effect=False, how="reset"), LOST),
    "silent at once": Phase(Act(at="first_byte", effect=False, how="stall"), LOST),
    "closed after the request line": Phase(Act(at="request_line", how="close"), LOST),
    "closed after the head": Phase(Act(at="headers", how="close"), LOST),
    "reset after the head": Phase(Act(at="headers", how="reset"), LOST),
    "silent after the head": Phase(Act(at="headers", how="stall"), LOST),
    "closed within the body": Phase(Act(at="half_body", effect=False, how="close"), LOST),
    "reset within the body": Phase(Act(at="half_body", how="reset"), LOST),
    "closed before the effect": Phase(Act(effect=False, how="close"), LOST),
    "closed after the effect": Phase(Act(how="close"), LOST),
    "reset after the effect": Phase(Act(how="reset"), LOST),
    "silent after the effect": Phase(Act(how="stall"), LOST),
    "no HTTP": Phase(Act(how="garbage"), LOST),
    "half a head": Phase(Act(how="half_head"), LOST),
    "an interim answer, and an end": Phase(Act(how="interim"), LOST),
    "a success whose body breaks": Phase(Act(how="break_body", body=b"0123456789"), DONE),
    "a success, and an end": Phase(Act(ends=True), DONE, again=True),
    "a success": Phase(Act(status=201), DONE, again=True),
    "a refusal": Phase(Act(effect=False, status=422), ("rejected", "http.4xx", "protocol"), again=True),
    "a refusal whose body breaks": Phase(
        Act(effect=False, status=422, how="break_body", body=b"0123456789"),
        ("rejected", "http.4xx", "protocol"),
        again=True,
    ),
    "too large, said early": Phase(
        Act(at="headers", effect=False, status=413, ends=True), ("rejected", "http.4xx", "protocol"), again=True
    ),
    "a challenge after the effect": Phase(Act(status=401), ("unknown", "http.challenge", None)),
    "forbidden after the effect": Phase(Act(status=403), ("unknown", "http.challenge", None)),
    "a conflict": Phase(Act(effect=False, status=409), ("unknown", "http.other", None)),
    "an error after the effect": Phase(Act(status=500), ("unknown", "http.other", None)),
    "an error whose body breaks": Phase(
        Act(status=503, how="break_body", body=b"0123456789"), ("unknown", "http.other", None)
    ),
    "a gateway that gave up": Phase(Act(status=504), ("unknown", "http.other", None)),
    "a redirect after the effect": Phase(Act(status=302), ("unknown", "http.other", None)),
}
HTTP2 = {
    "a stream that was refused": Phase(
        Act(at="headers", effect=False, how="rst", code=REFUSED),
        ("not_sent", "http2.refused_stream", "proof"),
        again=True,
    ),
    "a stream that was refused after its body": Phase(
        Act(effect=False, how="rst", code=REFUSED), ("not_sent", "http2.refused_stream", "proof"), again=True
    ),
    "a stream that was cancelled": Phase(Act(how="rst", code=CANCEL), LOST),
    "a stream that broke": Phase(Act(at="headers", how="rst", code=INTERNAL), LOST),
    "a GOAWAY before our stream": Phase(
        Act(effect=False, how="goaway", last=0), ("not_sent", "http2.goaway", "proof"), again=True
    ),
    "a GOAWAY that lets our stream through": Phase(Act(how="goaway", last=1), LOST),
    "a GOAWAY for an error": Phase(Act(how="goaway", last=1, code=INTERNAL), LOST),
}
CASES = [("1.1", name) for name in BOTH]
CASES += [("2", name) for name, phase in {**BOTH, **HTTP2}.items() if not phase.act.ends]  # a client that reads no end


@pytest.fixture
def hostile() -> Iterator[Hostile]:
    with Hostile() as hostile:
        yield hostile


@pytest.fixture(params=KINDS)
async def wire(request: pytest.FixtureRequest, stage: Stage, hostile: Hostile) -> AsyncIterator[Wire]:
    wire = Wire(request.param, stage, hostile)
    async with wire.closing:
        yield wire


def speaking(version: str) -> dict[str, Any]:
    return {"http1": version == "1.1", "http2": version == "2"}


@pytest.mark.parametrize(("version", "name"), CASES, ids=[f"{name} - HTTP {version}" for version, name in CASES])
async def test_how_a_request_ends(wire: Wire, hostile: Hostile, version: str, name: str) -> None:
    phase = BOTH.get(name) or HTTP2[name]
    client = wire.client(timeout=0.3 if phase.act.how == "stall" else 5, **speaking(version))
    hostile.script.append(phase.act)

    async def send(text: str) -> None:
        (await client.post(json={"text": text * 1000})).raise_for_status()

    tool = wire.tool(send)
    with suppress(wire.package.HTTPError):
        await tool("hello")
    assert told(wire.stage) == [phase.known]
    happened = hostile.effects
    assert happened == phase.act.effect, "the server counts what really happened"
    if phase.again:
        await tool("hello")
        assert hostile.effects == happened + 1, "meant, or known not to have happened"
        return
    with pytest.raises((wire.package.HTTPError, readmit.Refused)) as refused:
        await tool("hello")
    assert isinstance(refused.value, readmit.Refused), "nothing was tried"
    assert hostile.effects == happened <= 1


async def test_an_upload_that_is_too_large_is_refused_early(wire: Wire, hostile: Hostile) -> None:
    """The answer comes while the body is still being written."""
    client = wire.client()
    hostile.script.append(Act(at="headers", effect=False, status=413, ends=True))

    async def upload() -> int:
        return (await client.request("POST", "/", content=b"x" * 8_000_000)).status_code  # type: ignore[no-any-return]

    tool = wire.tool(upload)
    assert await tool() == 413
    assert told(wire.stage) == [("rejected", "http.4xx", "protocol")]


async def test_one_that_is_thrown_out_without_being_read(wire: Wire, hostile: Hostile) -> None:
    """The end of the connection can overtake the answer: then nothing is known, and nothing is guessed."""
    client = wire.client()
    hostile.script.append(Act(at="headers", effect=False, status=413, ends=True, drains=False))

    async def upload() -> None:
        (await client.request("POST", "/", content=b"x" * 8_000_000)).raise_for_status()

    tool = wire.tool(upload)
    with pytest.raises(wire.package.HTTPError):
        await tool()
    assert told(wire.stage)[0] in [("rejected", "http.4xx", "protocol"), LOST]


async def test_an_expectation_that_is_not_met(wire: Wire, hostile: Hostile) -> None:
    """Neither client waits for a 100; that the body may have left changes nothing about what the answer says."""
    client = wire.client()
    hostile.script.append(Act(at="headers", effect=False, status=417))

    async def send() -> int:
        return (await client.post(headers={"Expect": "100-continue"})).status_code  # type: ignore[no-any-return]

    assert await wire.tool(send)() == 417
    assert told(wire.stage) == [("rejected", "http.4xx", "protocol")]


async def test_an_interim_answer_is_no_answer(wire: Wire, hostile: Hostile) -> None:
    client = wire.client(timeout=0.3)
    hostile.script.append(Act(how="interim"))

    async def send() -> None:
        await client.post()

    with pytest.raises(wire.package.HTTPError):
        await wire.tool(send)()
    assert told(wire.stage) == [LOST]


async def test_what_cannot_be_written_is_not_sent(wire: Wire, hostile: Hostile) -> None:
    client = wire.client()

    async def send(value: str) -> int:
        headers = {"X-Note": value} if value else {}
        return (await client.post(headers=headers)).status_code  # type: ignore[no-any-return]

    tool = wire.tool(send)
    for _ in range(2):
        with pytest.raises(wire.package.LocalProtocolError):
            await tool("two\r\nlines")
    assert told(wire.stage) == [("not_sent", "http.local_error", "proof")] * 2
    assert hostile.requests == 0


async def test_a_goaway_below_our_stream_is_no_repeat(stage: Stage, hostile: Hostile) -> None:
    """The pool sends the second request on another connection: once, since the first one let it not through."""
    wire = Wire("httpx-async", stage, hostile)
    async with wire.closing:
        client = wire.client(**speaking("2"))
        hostile.script.append(Act())
        await client.post(json={"n": 0})
        hostile.script.append(Act(how="goaway", last=1, effect=False))

        async def send() -> int:
            return (await client.post()).status_code  # type: ignore[no-any-return]

        assert await wire.tool(send)() == 200
    assert hostile.effects == 2
    assert told(stage) == [DONE, DONE]
    assert not any("http.request.resend_count" in said for said in client_spans(stage))


async def test_a_keep_alive_connection_is_used_again(wire: Wire, hostile: Hostile) -> None:
    client = wire.client()

    async def send(n: int) -> None:
        (await client.post(json={"n": n})).raise_for_status()

    tool = wire.tool(send)
    hostile.script += [Act(), Act(at="headers", how="reset")]
    await tool(1)
    with pytest.raises(wire.package.HTTPError):
        await tool(2)
    assert hostile.connections == 1
    assert told(wire.stage) == [DONE, LOST], "reuse says how the socket was obtained, not what the server did"


# -- over TLS ------------------------------------------------------------------------------------------------------


@pytest.fixture
def secured() -> Iterator[Hostile]:
    with Hostile(tls=True) as hostile:
        yield hostile


@pytest.fixture(params=KINDS)
async def tls(request: pytest.FixtureRequest, stage: Stage, secured: Hostile) -> AsyncIterator[Wire]:
    wire = Wire(request.param, stage, secured)
    async with wire.closing:
        yield wire


def trusting() -> ssl.SSLContext:
    return ssl.create_default_context(cafile=CERTIFICATE)


async def test_a_certificate_that_is_not_trusted(tls: Wire, secured: Hostile) -> None:
    """Bytes went over the wire, but none of the request."""
    clients = [tls.client(), tls.client(verify=trusting())]

    async def send() -> int:
        return (await clients.pop(0).post()).status_code  # type: ignore[no-any-return]

    tool = tls.tool(send)
    with pytest.raises(tls.package.ConnectError):
        await tool()
    assert told(tls.stage) == [("not_sent", "http.not_connected", "proof")]
    assert await tool() == 200
    assert secured.effects == 1


async def test_an_end_without_a_farewell(tls: Wire, secured: Hostile) -> None:
    client = tls.client(verify=trusting())

    async def send() -> None:
        await client.post()

    secured.script.append(Act(how="reset"))
    tool = tls.tool(send)
    with pytest.raises(tls.package.TransportError):
        await tool()
    assert told(tls.stage) == [LOST]
    with pytest.raises(readmit.ReplayRefused):
        await tool()
    assert secured.effects == 1


async def test_http2_by_agreement(tls: Wire, secured: Hostile) -> None:
    client = tls.client(verify=trusting(), http2=True)

    async def send() -> str:
        return (await client.post()).http_version  # type: ignore[no-any-return]

    secured.script.append(Act(effect=False, how="rst", code=REFUSED))
    tool = tls.tool(send)
    with pytest.raises(tls.package.RemoteProtocolError):
        await tool()
    assert await tool() == "HTTP/2"
    assert told(tls.stage) == [("not_sent", "http2.refused_stream", "proof"), DONE]


# -- whatever it does ----------------------------------------------------------------------------------------------

ACTS = st.builds(
    Act,
    at=st.sampled_from(["first_byte", "request_line", "headers", "half_body", "body"]),
    effect=st.booleans(),
    how=st.sampled_from(
        ["answer", "answer", "close", "reset", "garbage", "half_head", "interim", "break_body", "rst", "goaway"]
    ),
    status=st.sampled_from([200, 201, 204, 303, 307, 401, 403, 407, 408, 409, 412, 422, 429, 500, 502, 503, 504]),
    headers=st.sampled_from([(), (("Location", "/elsewhere"),), (("WWW-Authenticate", 'Bearer realm="a"'),)]),
    code=st.sampled_from([0, CANCEL, INTERNAL, REFUSED]),
    last=st.sampled_from([0, 1, 3, 5]),
    ends=st.booleans(),
)


def believable(act: Act) -> bool:
    """Who says that it has refused a request and has acted on it breaks the protocol, and nobody can tell."""
    refuses = act.how in ("answer", "break_body") and act.status in (422, 429)
    unsent = act.how == "rst" and act.code == REFUSED
    return not act.effect or not (refuses or unsent or act.how == "goaway")


@settings(max_examples=150, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(
    script=st.lists(ACTS.filter(believable), min_size=1, max_size=4),
    version=st.sampled_from(["1.1", "2"]),
    package=st.sampled_from([httpx, httpx2]),
    tries=st.integers(1, 3),
    calls=st.integers(1, 3),
    follows=st.booleans(),
    login=st.booleans(),
)
def test_nothing_that_happened_is_called_harmless(
    script: list[Act],
    version: str,
    package: Any,
    tries: int,
    calls: int,
    follows: bool,
    login: bool,
    caplog: pytest.LogCaptureFixture,
) -> None:
    caplog.set_level(logging.ERROR, "readmit")
    stage = Stage()
    with Hostile() as hostile:
        hostile.script += script
        made = {"base_url": hostile.url, "verify": NO_CERTIFICATES, "follow_redirects": follows, "timeout": 0.3}
        with package.Client(**made, **speaking(version)) as client:
            readmit.instrument(client, guard=stage.guard)

            @stage.guard.tool(effect="write", name="send")
            def send() -> None:
                for left in range(tries, 0, -1):
                    try:
                        client.post("/", json={"text": "hello"}).raise_for_status()
                        return
                    except package.HTTPError:
                        if left == 1:
                            raise

            for _ in range(calls):
                try:
                    send()
                    break
                except readmit.Refused as refused:
                    if refused.reason == "already_committed":
                        break
                except package.HTTPError:
                    pass
                if hostile.effects:
                    assert {head.effects().state for head in stage.heads()} - {"not_sent", "rejected"}
                if login:
                    stage.guard.authenticated(principal=None)
        assert hostile.effects <= 1
