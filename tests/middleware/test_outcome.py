"""What the end of an epoch says: a return that reports a failure is no proof of success; a classifier may say more."""

from __future__ import annotations

import logging
from dataclasses import dataclass
from types import SimpleNamespace
from typing import Any

import pytest

import readmit
from readmit import Contract, NotSent, Rejected
from tests.middleware.stage import Stage, attributes


def ended(stage: Stage, **told: Any) -> Any:
    """A tool that returns its argument, or raises it."""

    @stage.guard.tool(effect="write", exclude=("value",), **told)
    def end(value: Any) -> Any:
        if isinstance(value, BaseException):
            raise value
        return value

    return end


def effect(stage: Stage) -> tuple[str, str]:
    said = attributes(stage.spans("execute")[-1])
    return said["readmit.effect.state"], said["readmit.effect.rule"]


@pytest.mark.parametrize(
    ("value", "rule"),
    [
        ({"isError": True, "content": []}, "tool.is_error"),
        ({"is_error": True}, "tool.is_error"),
        (SimpleNamespace(isError=True), "tool.is_error"),
        (SimpleNamespace(is_error=True), "tool.is_error"),
        ({"error": "declined"}, "tool.error_value"),
        ({"error": {"code": -32000}}, "tool.error_value"),
        ({"status": "error", "error_message": "declined"}, "tool.error_value"),
        ("Error: connection reset", "tool.error_text"),
        ("  ERROR executing tool pay", "tool.error_text"),
        ("Exception: boom", "tool.error_text"),
        ("An error occurred while running the tool. Error: timeout", "tool.error_text"),
        ("Traceback (most recent call last):\n", "tool.error_text"),
        ("Tool execution failed", "tool.error_text"),
        ("Timed out after 30 seconds", "tool.error_text"),
        ("Failed to send", "tool.error_text"),
        ('{"error": "declined"}', "tool.error_text"),
        ("{'error': 'declined'}", "tool.error_text"),
    ],
)
def test_a_result_that_reports_a_failure_is_no_proof_of_success(stage: Stage, value: Any, rule: str) -> None:
    tool = ended(stage)
    assert tool(value) is value
    assert effect(stage) == ("unknown", rule)
    with pytest.raises(readmit.ReplayRefused):
        tool(value)


@pytest.mark.parametrize(
    "value",
    [
        None,
        "",
        0,
        False,
        "sent without an error",
        "errors: none",
        {"error": None},
        {"error": ""},
        {"error": []},
        {"isError": False},
        {"status": "ok"},
        '{"error": null, "id": 7}',
        '{"error": "", "id": 7}',
        '{"error": {}, "id": 7}',
        SimpleNamespace(isError=False),
        SimpleNamespace(isError="maybe"),
        ["error"],
    ],
)
def test_any_other_return_is_committed(stage: Stage, value: Any) -> None:
    assert ended(stage)(value) is value
    assert effect(stage) == ("committed", "tool.return")
    assert stage.guard.pending() == []


@pytest.mark.parametrize(
    ("verdict", "told"),
    [
        ("committed", ("committed", "tool.return")),
        (None, ("committed", "tool.return")),
        ("unknown", ("unknown", "tool.classified")),
        ("rejected", ("rejected", "tool.classified")),
        ("not_sent", ("not_sent", "tool.classified")),
    ],
)
def test_a_classifier_says_what_a_result_means(stage: Stage, verdict: Any, told: tuple[str, str]) -> None:
    seen: list[Any] = []

    def classify(value: Any) -> Any:
        seen.append(value)
        return verdict

    assert ended(stage, classify=classify)("Error: not really") == "Error: not really"
    assert effect(stage) == told
    assert seen == ["Error: not really"]


@pytest.mark.parametrize("verdict", [True, False, "ok", 1, KeyError("code")])
def test_a_classifier_that_fails_hides_nothing_and_proves_nothing(
    stage: Stage, caplog: pytest.LogCaptureFixture, verdict: Any
) -> None:
    def classify(value: Any) -> Any:
        if isinstance(verdict, Exception):
            raise verdict
        return verdict

    assert ended(stage, classify=classify)("sent") == "sent"
    assert effect(stage) == ("unknown", "tool.classify_failed")
    (record,) = [r for r in caplog.records if r.levelno == logging.ERROR]
    assert "could not be classified" in record.getMessage()
    assert record.exc_info is not None
    if not isinstance(verdict, Exception):
        assert "write 'committed', 'rejected', 'not_sent', 'unknown' or None" in str(record.exc_info[1])


@dataclass
class Hostile:
    """Its own code fails when it is looked at."""

    name: str

    def __getattribute__(self, name: str) -> Any:
        if name in ("name", "isError", "is_error"):
            raise RuntimeError("gone")
        return super().__getattribute__(name)


def test_a_result_that_cannot_be_looked_at_still_reaches_its_caller(
    stage: Stage, caplog: pytest.LogCaptureFixture
) -> None:
    value = object.__new__(Hostile)
    assert ended(stage)(value) is value
    assert effect(stage) == ("unknown", "tool.classify_failed")


def test_a_result_that_cannot_be_stored_says_so_and_is_given_once(stage: Stage) -> None:
    tool = ended(stage, key=lambda arguments: "k")
    value = object()
    assert tool(value) is value
    assert "object" in attributes(stage.spans("execute")[0])["readmit.result.unstorable"]
    with pytest.raises(readmit.ReplayRefused) as refused:
        tool(value)
    assert refused.value.reason == "already_committed"


class Early(Exception):
    """A service gives it only before it acts."""


@pytest.mark.parametrize(
    ("error", "contract", "told"),
    [
        (RuntimeError(), Contract(), ("unknown", "tool.raised")),
        (NotSent(), Contract(), ("not_sent", "tool.not_sent")),
        (Rejected(), Contract(), ("rejected", "tool.rejected")),
        (Early(), Contract(), ("unknown", "tool.raised")),
        (Early(), Contract(rejected=(Early,)), ("rejected", "tool.rejected")),
        (Early(), Contract(not_sent=(Early,)), ("not_sent", "tool.not_sent")),
        (Early(), Contract(effects_through="http"), ("not_sent", "http.no_send")),
        (Early(), Contract(effects_through="tools"), ("not_sent", "tools.no_call")),
        (Early(), Contract(effects_through="mixed"), ("unknown", "tool.raised")),
        (NotSent(), Contract(effects_through="mixed"), ("not_sent", "tool.not_sent")),
    ],
)
def test_what_an_exception_says_is_declared_and_never_guessed(
    stage: Stage, error: Exception, contract: Contract, told: tuple[str, str]
) -> None:
    with pytest.raises(type(error)):
        ended(stage, contract=contract)(error)
    assert effect(stage) == told


def test_the_type_of_an_error_is_on_the_span_and_its_text_is_not(stage: Stage) -> None:
    with pytest.raises(Early):
        ended(stage)(Early("card 4242"))
    (span,) = stage.spans("execute")
    assert attributes(span)["error.type"] == "Early"
    assert span.status.description == "Early"
    assert span.events == ()
    assert "4242" not in span.to_json()


@pytest.mark.parametrize("given", [{"at": 1.5}, {"at": "now"}, {"at": True}, {"receipt": 7}], ids=str)
def test_what_cannot_be_written_down_is_not_recorded(stage: Stage, given: dict[str, Any]) -> None:
    """Seconds instead of nanoseconds, the obvious mistake: nothing of it reaches the journal."""

    @stage.guard.tool(effect="write", name="pay")
    def pay() -> None:
        readmit.current().record_effect("committed", **given)

    with pytest.raises(TypeError, match="nanoseconds since the Unix epoch"):
        pay()
    assert stage.waiting().state == "unknown"


def test_a_hook_may_say_what_cannot_be_encoded(stage: Stage) -> None:
    @stage.guard.tool(effect="write", name="pay", reconcile=lambda question: readmit.Unclear("\ud83d"))
    def pay() -> None:
        raise OSError("lost")

    with pytest.raises(OSError, match="lost"):
        pay()
    with pytest.raises(readmit.ReplayRefused):
        pay()
