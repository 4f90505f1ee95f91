"""What is said when a tool returns and its request was not known to be carried out."""

from __future__ import annotations

import logging

import httpx
import pytest

import readmit
from readmit import _remarks
from readmit.testing import CHALLENGED, FAILED, INVALID, LOST, Behaviour, EffectServer
from tests.middleware.stage import Stage


@pytest.fixture(autouse=True)
def _nothing_was_said(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(_remarks, "_said", set())


def said(caplog: pytest.LogCaptureFixture) -> list[str]:
    return [record.message for record in caplog.records if record.levelno == logging.WARNING]


ANSWERS = [FAILED, Behaviour(status=409), CHALLENGED, Behaviour(status=302), INVALID, LOST]


@pytest.mark.parametrize("answer", ANSWERS, ids=lambda answer: f"{answer.then} {answer.status}")
def test_a_return_after_an_answer_that_is_no_success_is_said_once(
    stage: Stage, caplog: pytest.LogCaptureFixture, answer: Behaviour
) -> None:
    with EffectServer() as server, httpx.Client(base_url=server.url) as client:
        readmit.instrument(client, guard=stage.guard)
        server.script("/pay", [answer, answer])

        @stage.guard.tool(effect="write", name="pay")
        def pay() -> int | None:
            try:
                return client.post("/pay").status_code
            except httpx.TransportError:
                return None

        pay()
        pay()
    (text,) = said(caplog)
    assert text.startswith(
        "pay: it returned, which counts as done, although of a request of it that is not known (http."
    )
    assert "raise_for_status()" in text
    assert text.endswith(f"[occurrence {stage.heads()[0].id}]")


def test_nothing_is_said_of_a_success_nor_where_the_tool_itself_tells(
    stage: Stage, caplog: pytest.LogCaptureFixture
) -> None:
    with EffectServer() as server, httpx.Client(base_url=server.url) as client:
        readmit.instrument(client, guard=stage.guard)
        server.script("/recorded", [FAILED])
        server.script("/classified", [FAILED])

        @stage.guard.tool(effect="write", name="pay")
        def pay() -> int:
            return client.post("/pay").status_code

        @stage.guard.tool(effect="write", name="recorded")
        def recorded() -> int:
            status = client.post("/recorded").status_code
            readmit.current().record_effect("committed")
            return status

        @stage.guard.tool(effect="write", name="classified", classify=lambda status: "rejected")
        def classified() -> int:
            return client.post("/classified").status_code

        pay(), recorded(), classified()
    assert said(caplog) == []


def test_a_result_that_reads_like_a_failure_is_named_at_once_and_in_the_refusal(
    stage: Stage, caplog: pytest.LogCaptureFixture
) -> None:
    @stage.guard.tool(effect="write", name="send")
    def send() -> str:
        return "Failed login report sent to ann"

    assert send().startswith("Failed")
    (text,) = said(caplog)
    assert "reads like a failure (tool.error_text)" in text and "classify=" in text
    with pytest.raises(readmit.ReplayRefused, match=r"reads like a failure \(tool.error_text\)"):
        send()
