"""Phases as httpcore reports them, event by event: also those that a plain server on loopback cannot bring about."""

from __future__ import annotations

from typing import Any, NamedTuple

import httpcore
import httpx
import pytest

from readmit._evidence import judge
from readmit.http._phases import Phases, reports


class StreamReset(NamedTuple):
    """The fields of h2's event."""

    stream_id: int
    error_code: int


class ConnectionTerminated(NamedTuple):
    """The fields of h2's event."""

    error_code: int
    last_stream_id: int


def told(*events: tuple[str, dict[str, Any]], method: str = "POST") -> Phases:
    phases = Phases(method)
    for name, info in events:
        phases.note(name, info)
    return phases


def verdict(phases: Phases) -> str:
    evidence = judge(phases.seen(after_unknown=False, known=True))
    return f"{evidence.state} {evidence.rule}"


def started(protocol: str, method: bytes = b"POST", **more: Any) -> tuple[str, dict[str, Any]]:
    request = httpcore.Request(method, "http://service/")
    return f"{protocol}.send_request_headers.started", {"request": request, **more}


def failed(name: str, error: BaseException) -> tuple[str, dict[str, Any]]:
    return f"{name}.failed", {"exception": error}


def test_a_tunnel_is_not_the_request() -> None:
    """A proxy is asked for a way: headers leave, but they are not ours."""
    phases = told(
        ("connection.connect_tcp.complete", {"return_value": None}),
        started("http11", b"CONNECT"),
        ("http11.send_request_body.complete", {"return_value": None}),
        ("http11.receive_response_headers.complete", {"return_value": (b"HTTP/1.1", 407, b"", [])}),
    )
    assert verdict(phases) == "not_sent http.not_connected"
    phases.note(*started("http11"))
    assert verdict(phases) == "unknown http.no_response"


@pytest.mark.parametrize(
    ("event", "expected"),
    [
        (StreamReset(stream_id=1, error_code=7), "not_sent http2.refused_stream"),
        (StreamReset(stream_id=1, error_code=8), "unknown http.no_response"),
        (ConnectionTerminated(error_code=0, last_stream_id=0), "not_sent http2.goaway"),
        (ConnectionTerminated(error_code=7, last_stream_id=1), "unknown http.no_response"),
    ],
)
def test_what_a_peer_says_in_http2(event: object, expected: str) -> None:
    error = httpcore.RemoteProtocolError(event)
    phases = told(started("http2", stream_id=1), failed("http2.receive_response_headers", error))
    assert verdict(phases) == expected


def test_a_request_that_a_goaway_did_not_let_through_starts_over() -> None:
    """The pool sends it on another connection; that is no repeat."""
    phases = told(
        started("http2", stream_id=3), failed("http2.receive_response_headers", httpcore.ConnectionNotAvailable())
    )
    assert verdict(phases) == "not_sent http.not_connected"
    assert not phases.note(*started("http2", stream_id=1))


def test_it_tells_when_a_request_leaves_again() -> None:
    phases = told(started("http11"), failed("http11.receive_response_headers", httpcore.ReadError()))
    assert phases.note(*started("http11"))
    phases.again(settled=False)
    phases.note("http11.receive_response_headers.complete", {"return_value": (b"HTTP/1.1", 422, b"", [])})
    assert verdict(phases) == "unknown http.conflict_after_send", "what was lost before may be what it collides with"


def test_it_forgets_what_was_settled() -> None:
    phases = told(
        started("http11"),
        ("http11.receive_response_headers.complete", {"return_value": (b"HTTP/1.1", 429, b"", [])}),
    )
    assert phases.note(*started("http11"))
    phases.again(settled=True)
    phases.note("http11.receive_response_headers.complete", {"return_value": (b"HTTP/1.1", 422, b"", [])})
    assert verdict(phases) == "rejected http.4xx"


def test_http2_reports_status_and_headers_only() -> None:
    phases = told(
        started("http2", stream_id=1), ("http2.receive_response_headers.complete", {"return_value": (204, [])})
    )
    assert verdict(phases) == "committed http.2xx"


def test_which_transports_report() -> None:
    assert reports(httpx.HTTPTransport())
    assert reports(httpx.AsyncHTTPTransport())
    assert not reports(httpx.MockTransport(lambda request: httpx.Response(200)))
    assert not reports(object())

    class Derived(httpx.HTTPTransport):
        def handle_request(self, request: httpx.Request) -> httpx.Response:
            raise httpx.ConnectError("without a word")

    assert not reports(Derived())
