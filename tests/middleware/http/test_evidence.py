"""The table of evidence from HTTP, row by row: pure."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from readmit._evidence import Seen, judge, position, without_effect
from readmit._model import EffectState, Evidence, Strength

SENT: dict[str, Any] = {"started": True, "complete": True}
REFUSALS = [400, 402, 404, 405, 406, 410, 411, 413, 414, 415, 416, 417, 421, 422, 425, 426, 428, 429, 431, 451, 501]


def read(seen: Seen, rejected: tuple[int, ...] = ()) -> str:
    """State, strength (of what is known) and rule, as in the table."""
    evidence = judge(seen, rejected)
    strength = "" if evidence.state is EffectState.UNKNOWN else f" {evidence.strength}"
    return f"{evidence.state}{strength} {evidence.rule}"


@pytest.mark.parametrize(
    ("seen", "rejected", "expected"),
    [
        (Seen(), (), "not_sent proof http.not_connected"),
        (Seen(started=True, reset=0x7, stream=3), (), "not_sent proof http2.refused_stream"),
        (Seen(started=True, reset=0x8, stream=3), (), "unknown http.no_response"),
        (Seen(started=True, stream=5, last_stream=3), (), "not_sent proof http2.goaway"),
        (Seen(started=True, stream=3, last_stream=3), (), "unknown http.no_response"),
        (Seen(started=True), (), "unknown http.no_response"),
        (Seen(**SENT), (), "unknown http.no_response"),
        (Seen(phases=False), (), "unknown http.no_response"),
        (Seen(**SENT, status=200), (), "committed protocol http.2xx"),
        (Seen(**SENT, status=202, challenged=True), (), "committed protocol http.2xx"),
        (Seen(**SENT, status=201, after_unknown=True), (), "committed protocol http.2xx"),
        (Seen(**SENT, status=401), (), "unknown http.challenge"),
        (Seen(**SENT, status=403), (), "unknown http.challenge"),
        (Seen(**SENT, status=407), (), "unknown http.challenge"),
        (Seen(**SENT, status=401), (401,), "rejected contract http.challenge"),
        (Seen(**SENT, status=401, after_unknown=True), (401,), "unknown http.challenge"),
        (Seen(**SENT, status=400, challenged=True), (), "unknown http.challenge"),
        (Seen(**SENT, status=409, after_unknown=True), (), "unknown http.conflict_after_send"),
        (Seen(**SENT, status=412, after_unknown=True), (412,), "unknown http.conflict_after_send"),
        (Seen(**SENT, status=422, after_unknown=True), (), "unknown http.conflict_after_send"),
        (Seen(**SENT, status=408), (), "unknown http.other"),
        (Seen(**SENT, status=409), (), "unknown http.other"),
        (Seen(**SENT, status=412), (), "unknown http.other"),
        (Seen(**SENT, status=409), (409,), "rejected contract http.other"),
        (Seen(**SENT, status=500), (), "unknown http.other"),
        (Seen(**SENT, status=503), (503,), "rejected contract http.other"),
        (Seen(**SENT, status=503, after_unknown=True), (503,), "unknown http.other"),
        (Seen(**SENT, status=307), (), "unknown http.other"),
        (Seen(**SENT, status=307), (307,), "rejected contract http.other"),
        (Seen(**SENT, status=418), (), "unknown http.other"),
        (Seen(**SENT, status=101), (), "unknown http.other"),
    ],
)
def test_each_row(seen: Seen, rejected: tuple[int, ...], expected: str) -> None:
    assert read(seen, rejected) == expected


@pytest.mark.parametrize("status", REFUSALS)
def test_refusals_on_a_first_send(status: int) -> None:
    assert read(Seen(**SENT, status=status)) == "rejected protocol http.4xx"


def test_every_other_status_is_unknown() -> None:
    settled = {s for s in range(100, 600) if judge(Seen(**SENT, status=s)).state is not EffectState.UNKNOWN}
    assert settled == {*REFUSALS, *range(200, 300)}


def test_a_declared_exception_speaks_only_where_nothing_was_seen_to_leave() -> None:
    claim = Evidence(state=EffectState.NOT_SENT, strength=Strength.CONTRACT, rule="tool.not_sent")
    assert read(Seen(phases=False, claim=claim)) == "not_sent contract tool.not_sent"
    assert read(Seen(started=True, claim=claim)) == "unknown http.no_response"
    assert read(Seen(phases=False, started=True, claim=claim)) == "unknown http.no_response"


@given(
    st.builds(
        Seen,
        status=st.none() | st.integers(100, 599),
        phases=st.booleans(),
        started=st.booleans(),
        complete=st.booleans(),
        challenged=st.booleans(),
        after_unknown=st.booleans(),
        reset=st.none(),
        stream=st.none(),
        last_stream=st.none(),
        claim=st.none(),
    ),
    st.lists(st.integers(300, 599)),
)
def test_nothing_is_not_sent_or_rejected_when_it_could_have_acted(seen: Seen, rejected: list[int]) -> None:
    """Not sent: no byte can have left. Rejected: by a first answer that the table or the contract names."""
    evidence = judge(seen, rejected)
    if evidence.state is EffectState.NOT_SENT:
        assert seen.status is None and seen.phases and not seen.started
    if evidence.state is EffectState.REJECTED:
        assert seen.status is not None and not seen.after_unknown
        assert seen.status in rejected or seen.status in REFUSALS
    if evidence.state is EffectState.COMMITTED:
        assert seen.status is not None and 200 <= seen.status < 300


def test_where_it_broke() -> None:
    assert position(Seen()) == "connect"
    assert position(Seen(started=True)) == "send"
    assert position(Seen(**SENT)) == "wait"
    assert position(Seen(**SENT, status=200)) == "body"
    assert position(Seen(phases=False)) == ""


@pytest.mark.parametrize(
    ("method", "path", "reads", "expected"),
    [
        ("GET", "/a", (), "http.safe_method"),
        ("HEAD", "/a", (), "http.safe_method"),
        ("OPTIONS", "/a", (), "http.safe_method"),
        ("TRACE", "/a", (), "http.safe_method"),
        ("POST", "/a", (), None),
        ("PUT", "/a", (), None),
        ("DELETE", "/a", (), None),
        ("PATCH", "/a", (), None),
        ("POST", "/search", ("/search",), "http.declared_read"),
        ("POST", "/search/more", ("/search",), None),
        ("POST", "/search/more", ("/search*",), "http.declared_read"),
        ("QUERY", "/a", ("query",), "http.declared_read"),
    ],
)
def test_what_has_no_effect(method: str, path: str, reads: tuple[str, ...], expected: str | None) -> None:
    assert without_effect(method, path, reads=reads) == expected


def test_a_client_declared_read_sends_reads() -> None:
    assert without_effect("POST", "/token", declared=True) == "http.declared_read"
