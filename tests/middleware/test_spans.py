"""Spans: what they say and when, as the contract with the analysis has it; and that they never stop a tool."""

from __future__ import annotations

import contextlib
import logging
import subprocess
import sys
from collections.abc import Sequence
from datetime import timedelta
from typing import Any, Literal

import pytest
from inline_snapshot import snapshot
from opentelemetry import trace
from opentelemetry.context import Context, attach, detach
from opentelemetry.sdk.trace import ReadableSpan, Span, SpanProcessor, TracerProvider
from opentelemetry.sdk.trace.export import SimpleSpanProcessor, SpanExporter, SpanExportResult
from opentelemetry.sdk.trace.sampling import ALWAYS_OFF, Sampler, SamplingResult
from opentelemetry.trace import NonRecordingSpan, NoOpTracerProvider, SpanContext, TraceFlags

import readmit
from readmit import Absent, Approval, Contract, Present, Question
from readmit._context import identified
from tests.middleware.stage import START, Clock, Stage, attributes

PAYMENTS = Contract(name="payments")


def echo(to: str) -> str:
    return to


class Tool:
    """A tool on a guard; what it raises."""

    def __init__(self, guard: readmit.Guard, **told: Any) -> None:
        self.fault: BaseException | None = None
        self.ran = 0

        @guard.tool(**{"effect": "write", "name": "pay", "contract": PAYMENTS, **told})
        def pay(to: str) -> str:
            self.ran += 1
            if self.fault is not None:
                raise self.fault
            return f"receipt {self.ran}"

        self.pay = pay

    def lost(self, to: str = "ann") -> None:
        self.fault = TimeoutError()
        with pytest.raises(TimeoutError):
            self.pay(to)
        self.fault = None

    def refused(self, to: str = "ann") -> readmit.Refused:
        with pytest.raises(readmit.Refused) as refused:
            self.pay(to)
        return refused.value


def shown(span: ReadableSpan) -> dict[str, Any]:
    """A span as a snapshot has it: ids as numbers, times in nanoseconds since the test began, `readmit.` left out."""
    context = span.get_span_context()
    assert context is not None
    assert span.start_time is not None
    assert span.end_time is not None
    return {
        "name": span.name,
        "id": context.span_id,
        "parent": span.parent.span_id if span.parent else None,
        "time": (span.start_time - START, span.end_time - START),
        "links": {str((x.attributes or {})["readmit.link"]): x.context.span_id for x in span.links},
        **{key.removeprefix("readmit."): short(value) for key, value in attributes(span).items()},
    }


def short(value: Any) -> Any:
    return value[:8] if isinstance(value, str) and len(value) == 64 else value


# -- one call, and a repeat ---------------------------------------------------------------------------------------


def test_a_call_is_two_spans(stage: Stage) -> None:
    with readmit.scope("conversation-7"), identified(call_id="call-1", response="response-1", framework="f"):
        Tool(stage.guard).pay("ann")
    assert [shown(s) for s in stage.spans()] == snapshot(
        [
            {
                "name": "admit pay",
                "id": 2,
                "parent": 1,
                "time": (2000, 3000),
                "links": {},
                "gen_ai.tool.name": "pay",
                "occurrence.id": "id-0002",
                "identity": "minted",
                "input.digest": "c7849de8",
                "contract": "payments",
                "mode": "enforce",
                "trigger": "call",
                "gen_ai.tool.call.id": "call-1",
                "gen_ai.conversation.id": "conversation-7",
                "operation": "admit",
                "admission.id": "id-0003",
                "recovery.state": "clear",
                "admission.decision": "admit",
                "admission.justification": "first_attempt",
                "permit.source": "ambient",
                "permit.state": "granted",
                "epoch": 1,
            },
            {
                "name": "execute_tool pay",
                "id": 1,
                "parent": None,
                "time": (2000, 4000),
                "links": {"admission": 2},
                "gen_ai.tool.name": "pay",
                "occurrence.id": "id-0002",
                "identity": "minted",
                "input.digest": "c7849de8",
                "contract": "payments",
                "mode": "enforce",
                "trigger": "call",
                "gen_ai.tool.call.id": "call-1",
                "gen_ai.conversation.id": "conversation-7",
                "gen_ai.operation.name": "execute_tool",
                "operation": "execute",
                "epoch": 1,
                "admission.id": "id-0003",
                "admission.decision": "admit",
                "permit.source": "ambient",
                "permit.state": "granted",
                "admission.justification": "first_attempt",
                "recovery.state": "clear",
                "effect.state": "committed",
                "effect.rule": "tool.return",
                "effect.strength": "contract",
            },
        ]
    )


def test_a_repeat_names_the_epoch_before_it_and_its_justification(stage: Stage) -> None:
    tool = Tool(stage.guard, contract=Contract(name="payments", idempotent=True))
    tool.lost()
    tool.pay("ann")
    assert [shown(s) for s in stage.spans()[2:]] == snapshot(
        [
            {
                "name": "admit pay",
                "id": 4,
                "parent": 3,
                "time": (6000, 7000),
                "links": {"prior_epoch": 1, "recovery": 1},
                "gen_ai.tool.name": "pay",
                "occurrence.id": "id-0002",
                "identity": "open",
                "input.digest": "c7849de8",
                "contract": "payments",
                "mode": "enforce",
                "trigger": "repeat",
                "operation": "admit",
                "admission.id": "id-0005",
                "recovery.state": "clear",
                "recovery.kind": "failure",
                "effect.state": "unknown",
                "effect.rule": "tool.raised",
                "prior_epoch.span_id": "0000000000000001",
                "admission.decision": "admit",
                "admission.justification": "idempotent",
                "permit.source": "ambient",
                "permit.state": "granted",
                "epoch": 2,
            },
            {
                "name": "execute_tool pay",
                "id": 3,
                "parent": None,
                "time": (6000, 8000),
                "links": {"prior_epoch": 1, "recovery": 1, "admission": 4},
                "gen_ai.tool.name": "pay",
                "occurrence.id": "id-0002",
                "identity": "open",
                "input.digest": "c7849de8",
                "contract": "payments",
                "mode": "enforce",
                "trigger": "repeat",
                "gen_ai.operation.name": "execute_tool",
                "operation": "execute",
                "epoch": 2,
                "admission.id": "id-0005",
                "admission.decision": "admit",
                "prior_epoch.span_id": "0000000000000001",
                "permit.source": "ambient",
                "permit.state": "granted",
                "admission.justification": "idempotent",
                "recovery.state": "clear",
                "effect.state": "committed",
                "effect.rule": "tool.return",
                "effect.strength": "contract",
            },
        ]
    )


def test_a_refusal_says_why(stage: Stage) -> None:
    tool = Tool(stage.guard)
    tool.lost()
    tool.refused()
    assert shown(stage.spans()[-1]) == snapshot(
        {
            "name": "admit pay",
            "id": 3,
            "parent": None,
            "time": (5000, 7000),
            "links": {"prior_epoch": 1, "recovery": 1},
            "gen_ai.tool.name": "pay",
            "occurrence.id": "id-0002",
            "identity": "open",
            "input.digest": "c7849de8",
            "contract": "payments",
            "mode": "enforce",
            "trigger": "repeat",
            "operation": "admit",
            "admission.id": "id-0005",
            "recovery.state": "clear",
            "recovery.kind": "failure",
            "effect.state": "unknown",
            "effect.rule": "tool.raised",
            "prior_epoch.span_id": "0000000000000001",
            "admission.decision": "refuse",
            "admission.refusal": "effect_unknown",
        }
    )


def test_a_trace_alone_tells_the_story_of_an_approved_repeat(stage: Stage) -> None:
    tool = Tool(stage.guard, approval=Approval(expires=timedelta(minutes=5)))
    request = tool.refused().request_id or ""
    tool.refused()
    stage.guard.approve(request, by="bob")
    tool.lost()
    second = tool.refused().request_id or ""
    stage.guard.approve(second, by="bob")
    tool.refused()
    stage.guard.authenticated(principal=None)
    tool.refused()
    stage.guard.reconcile(stage.waiting().occurrence_id, Absent(authoritative=True), epoch=1, by="eve")
    tool.pay("ann")
    admission = ("admission.decision", "admission.refusal", "admission.justification")
    states = ("permit.source", "permit.state", "effect.state", "recovery.state", "recovery.kind")
    assert stage.story("trigger", *admission, *states) == snapshot(
        [
            "admit: call refuse permit_missing approval clear",
            "admit: repeat refuse recovery_pending suspended confirmation",
            "approve: approval granted satisfied confirmation",
            "admit: approval admit first_attempt approval consumed satisfied confirmation",
            "execute_tool: approval admit first_attempt approval consumed unknown clear failure",
            "admit: repeat refuse permit_consumed approval consumed unknown clear failure",
            "approve: approval granted unknown satisfied confirmation",
            "admit: approval refuse effect_unknown unknown satisfied confirmation",
            "login: login granted unknown satisfied confirmation",
            "admit: login refuse effect_unknown unknown satisfied confirmation",
            "reconcile: reconciled satisfied confirmation",
            "admit: operator admit reconciled_absent approval consumed reconciled satisfied confirmation",
            "execute_tool: operator admit reconciled_absent approval consumed committed clear",
        ]
    )


def test_an_operators_acts_are_spans(stage: Stage) -> None:
    tool = Tool(stage.guard, approval=True, compensate=lambda question: None)
    stage.guard.deny(tool.refused("bob").request_id or "", by="bob")
    permit = stage.guard.approve(tool.refused().request_id or "", by="bob")
    tool.lost()
    occurrence = stage.waiting().occurrence_id
    stage.guard.accept(occurrence, epoch=1, by="bob", statement="twice is fine")
    stage.guard.authenticated(principal=None)
    stage.guard.reconcile(occurrence, Present("tx-1"), epoch=1, by="bob")
    stage.guard.compensate(occurrence, epoch=1, by="bob")
    stage.guard.revoke(permit, by="bob")
    stage.guard.abandon(occurrence, by="bob", statement="done with")
    acts = [shown(s) for s in stage.spans() if "gen_ai.operation.name" not in attributes(s) and "admit" not in s.name]
    assert acts == snapshot(
        [
            {
                "name": "deny pay",
                "id": 2,
                "parent": None,
                "time": (5000, 6000),
                "links": {},
                "gen_ai.tool.name": "pay",
                "operation": "deny",
                "occurrence.id": "id-0002",
                "recovery.state": "satisfied",
                "recovery.kind": "confirmation",
                "permit.state": "denied",
            },
            {
                "name": "approve pay",
                "id": 4,
                "parent": None,
                "time": (11000, 12000),
                "links": {},
                "gen_ai.tool.name": "pay",
                "operation": "approve",
                "occurrence.id": "id-0006",
                "recovery.state": "satisfied",
                "recovery.kind": "confirmation",
                "permit.id": "id-0009",
                "permit.source": "approval",
                "permit.state": "granted",
            },
            {
                "name": "accept pay",
                "id": 7,
                "parent": None,
                "time": (20000, 21000),
                "links": {"prior_epoch": 5, "recovery": 5},
                "gen_ai.tool.name": "pay",
                "operation": "accept",
                "occurrence.id": "id-0006",
                "recovery.state": "clear",
                "recovery.kind": "failure",
                "effect.state": "unknown",
                "effect.rule": "tool.raised",
                "epoch": 1,
            },
            {
                "name": "login pay",
                "id": 8,
                "parent": None,
                "time": (23000, 24000),
                "links": {"prior_epoch": 5, "recovery": 5},
                "gen_ai.tool.name": "pay",
                "operation": "login",
                "occurrence.id": "id-0006",
                "recovery.state": "clear",
                "recovery.kind": "failure",
                "effect.state": "unknown",
                "effect.rule": "tool.raised",
                "permit.id": "id-0013",
                "permit.source": "login",
                "permit.state": "granted",
            },
            {
                "name": "reconcile pay",
                "id": 9,
                "parent": None,
                "time": (26000, 27000),
                "links": {"prior_epoch": 5, "recovery": 5},
                "gen_ai.tool.name": "pay",
                "operation": "reconcile",
                "occurrence.id": "id-0006",
                "recovery.state": "clear",
                "recovery.kind": "failure",
                "effect.state": "reconciled",
                "effect.rule": "reconcile.present",
                "effect.strength": "testimony",
                "epoch": 1,
            },
            {
                "name": "compensate pay",
                "id": 10,
                "parent": None,
                "time": (29000, 30000),
                "links": {"prior_epoch": 5, "recovery": 5},
                "gen_ai.tool.name": "pay",
                "operation": "compensate",
                "occurrence.id": "id-0006",
                "recovery.state": "clear",
                "recovery.kind": "failure",
                "effect.state": "compensated",
                "effect.rule": "compensate",
                "epoch": 1,
            },
            {
                "name": "revoke pay",
                "id": 11,
                "parent": None,
                "time": (32000, 33000),
                "links": {"prior_epoch": 5, "recovery": 5},
                "gen_ai.tool.name": "pay",
                "operation": "revoke",
                "occurrence.id": "id-0006",
                "recovery.state": "clear",
                "recovery.kind": "failure",
                "effect.state": "compensated",
                "effect.rule": "compensate",
                "permit.id": "id-0009",
                "permit.source": "approval",
                "permit.state": "revoked",
            },
            {
                "name": "abandon pay",
                "id": 12,
                "parent": None,
                "time": (35000, 36000),
                "links": {"prior_epoch": 5, "recovery": 5},
                "gen_ai.tool.name": "pay",
                "operation": "abandon",
                "occurrence.id": "id-0006",
                "recovery.state": "clear",
                "recovery.kind": "failure",
                "effect.state": "compensated",
                "effect.rule": "compensate",
            },
        ]
    )


def test_a_read_stands_outside_of_the_table(stage: Stage) -> None:
    tool = Tool(stage.guard, effect="read")
    with readmit.scope("conversation-7"), identified(call_id="call-1"):
        tool.pay("ann")
    tool.lost()
    assert [shown(s) for s in stage.spans()] == snapshot(
        [
            {
                "name": "execute_tool pay",
                "id": 1,
                "parent": None,
                "time": (1000, 2000),
                "links": {},
                "gen_ai.operation.name": "execute_tool",
                "gen_ai.tool.name": "pay",
                "operation": "execute",
                "mode": "enforce",
                "gen_ai.conversation.id": "conversation-7",
                "gen_ai.tool.call.id": "call-1",
                "input.digest": "c7849de8",
            },
            {
                "name": "execute_tool pay",
                "id": 2,
                "parent": None,
                "time": (3000, 4000),
                "links": {},
                "gen_ai.operation.name": "execute_tool",
                "gen_ai.tool.name": "pay",
                "operation": "execute",
                "mode": "enforce",
                "input.digest": "c7849de8",
                "error.type": "TimeoutError",
            },
        ]
    )


def test_what_would_have_been_refused(stage: Stage) -> None:
    tool = Tool(stage.guard, mode="observe")
    tool.lost()
    tool.pay("ann")
    assert [shown(s) for s in stage.spans()[2:]] == snapshot(
        [
            {
                "name": "admit pay",
                "id": 4,
                "parent": 3,
                "time": (6000, 7000),
                "links": {"prior_epoch": 1, "recovery": 1},
                "gen_ai.tool.name": "pay",
                "occurrence.id": "id-0002",
                "identity": "open",
                "input.digest": "c7849de8",
                "contract": "payments",
                "mode": "observe",
                "trigger": "repeat",
                "operation": "admit",
                "admission.id": "id-0005",
                "recovery.state": "clear",
                "recovery.kind": "failure",
                "effect.state": "unknown",
                "effect.rule": "tool.raised",
                "prior_epoch.span_id": "0000000000000001",
                "admission.decision": "observed",
                "admission.refusal": "effect_unknown",
                "epoch": 2,
            },
            {
                "name": "execute_tool pay",
                "id": 3,
                "parent": None,
                "time": (6000, 8000),
                "links": {"prior_epoch": 1, "recovery": 1, "admission": 4},
                "gen_ai.tool.name": "pay",
                "occurrence.id": "id-0002",
                "identity": "open",
                "input.digest": "c7849de8",
                "contract": "payments",
                "mode": "observe",
                "trigger": "repeat",
                "gen_ai.operation.name": "execute_tool",
                "operation": "execute",
                "epoch": 2,
                "admission.id": "id-0005",
                "admission.decision": "observed",
                "prior_epoch.span_id": "0000000000000001",
                "admission.refusal": "effect_unknown",
                "recovery.state": "clear",
                "effect.state": "committed",
                "effect.rule": "tool.return",
                "effect.strength": "contract",
            },
        ]
    )


# -- single attributes --------------------------------------------------------------------------------------------


def test_the_conversation_is_named_only_if_somebody_named_it(stage: Stage) -> None:
    Tool(stage.guard).pay("ann")
    assert not [s for s in stage.spans() if "gen_ai.conversation.id" in attributes(s)]
    named = Stage(scope="nightly")
    Tool(named.guard).pay("ann")
    assert {attributes(s)["gen_ai.conversation.id"] for s in named.spans()} == {"nightly"}


@pytest.mark.parametrize(
    ("between", "trigger"),
    [
        (lambda guard, o: None, "repeat"),
        (lambda guard, o: guard.authenticated(principal=None), "login"),
        (lambda guard, o: guard.accept(o, epoch=1, by="bob", statement="twice"), "operator"),
        (lambda guard, o: guard.reconcile(o, Absent(authoritative=True), epoch=1, by="bob"), "operator"),
        (lambda guard, o: guard.compensate(o, epoch=1, by="bob"), "operator"),
        (lambda guard, o: guard.revoke(guard.authenticated(principal=None), by="bob"), "operator"),
    ],
)
def test_what_came_between(stage: Stage, between: Any, trigger: str) -> None:
    tool = Tool(stage.guard)
    tool.lost()
    assert attributes(stage.spans("admit")[0])["readmit.trigger"] == "call"
    between(stage.guard, stage.waiting().occurrence_id)
    with contextlib.suppress(readmit.Refused):
        tool.pay("ann")
    assert attributes(stage.spans("admit")[-1])["readmit.trigger"] == trigger


def test_the_newest_of_several_that_came_between(stage: Stage) -> None:
    tool = Tool(stage.guard, approval=True)
    request = tool.refused().request_id or ""
    stage.guard.authenticated(principal=None)
    stage.guard.approve(request, by="bob")
    with readmit.scope("default", principal="eve"), pytest.raises(readmit.Refused):
        tool.pay("ann")
    tool.pay("ann")
    assert attributes(stage.spans("execute")[-1])["readmit.trigger"] == "approval"


def test_every_attribute_of_the_design_is_somewhere(stage: Stage) -> None:
    """`readmit.send` and `http.request.resend_count` are on the spans of HTTP clients."""

    def find(question: Question) -> Any:
        return Absent(authoritative=True)

    tool = Tool(stage.guard, approval=True, reconcile=find)
    with readmit.scope("conversation-7"), identified(call_id="call-1"):
        stage.guard.approve(tool.refused().request_id or "", by="bob")
        tool.lost()
        stage.guard.approve(tool.refused().request_id or "", by="bob")
        tool.pay("ann")
    keys = {key for span in stage.spans() for key in attributes(span)}
    operation = (
        "gen_ai.operation.name",
        "gen_ai.tool.name",
        "gen_ai.tool.call.id",
        "gen_ai.conversation.id",
        "error.type",
    )
    ours = (
        "occurrence.id identity epoch input.digest contract effect.state effect.rule effect.strength recovery.state "
        "recovery.kind permit.state permit.source permit.id admission.decision admission.justification admission.id "
        "trigger mode prior_epoch.span_id operation admission.refusal"
    )
    assert {*operation, *(f"readmit.{name}" for name in ours.split())} <= keys
    links = {str((x.attributes or {})["readmit.link"]) for s in stage.spans() for x in s.links}
    assert links == {"prior_epoch", "recovery", "admission"}


def test_the_admission_has_one_id_on_both_of_its_spans(stage: Stage) -> None:
    tool = Tool(stage.guard)
    tool.pay("ann")
    tool.pay("ann")
    admit, execute = ([attributes(s)["readmit.admission.id"] for s in stage.spans(o)] for o in ("admit", "execute"))
    assert admit == execute
    assert len(set(admit)) == 2


# -- when ---------------------------------------------------------------------------------------------------------


class Started(SpanProcessor):
    """What samplers and processors see: the attributes at the start."""

    def __init__(self) -> None:
        self.seen: list[dict[str, Any]] = []

    def on_start(self, span: Span, parent_context: Context | None = None) -> None:
        self.seen.append(dict(span.attributes or {}))


def test_the_marker_attributes_are_there_when_a_span_starts() -> None:
    started = Started()
    stage = Stage(processors=[started])
    tool = Tool(stage.guard, contract=Contract(name="payments", idempotent=True))
    tool.lost()
    tool.pay("ann")
    Tool(stage.guard, effect="read", name="look").pay("ann")
    stage.guard.abandon(Tool(stage.guard, approval=True, name="sign").refused().occurrence_id, by="bob")

    by_operation = {seen["readmit.operation"]: seen for seen in started.seen}
    assert set(by_operation) == {"execute", "admit", "abandon"}
    assert all("gen_ai.tool.name" in seen for seen in started.seen)
    epochs = [seen for seen in started.seen if seen.get("readmit.epoch") and seen["readmit.operation"] == "execute"]
    late = {"readmit.effect.state", "readmit.effect.rule", "readmit.effect.strength", "error.type"}
    late |= {"readmit.recovery.state", "readmit.recovery.kind"}
    ended = [attributes(s) for s in stage.spans("execute") if "readmit.epoch" in attributes(s)]
    assert [set(end) - set(start) - late for start, end in zip(epochs, ended, strict=True)] == [set(), set()]
    assert epochs[1]["readmit.prior_epoch.span_id"]


def test_the_admission_has_ended_before_the_body_runs(stage: Stage) -> None:
    """A crash after it cannot take it along; and it was journalled before it was told."""
    seen: list[list[str]] = []

    @stage.guard.tool(effect="write")
    def pay(to: str) -> None:
        seen.append(stage.story("admission.decision"))
        (admit,) = stage.spans("admit")
        head = stage.guard.show(readmit.current().occurrence_id)
        assert head.admissions[0].admission == attributes(admit)["readmit.admission.id"]

    pay("ann")
    assert seen == [["admit: admit"]]


def test_an_intent_that_was_not_written_has_no_span(stage: Stage) -> None:
    tool = Tool(stage.guard)
    stage.guard.ports().journal.close()
    with pytest.raises(readmit.JournalUnavailable):
        tool.pay("ann")
    assert stage.spans() == []


# -- telemetry fails open -----------------------------------------------------------------------------------------


class Broken(SpanProcessor):
    """A processor that raises at the start or the end of a span."""

    def __init__(self, when: str) -> None:
        self.when = when

    def on_start(self, span: Span, parent_context: Context | None = None) -> None:
        if self.when == "start":
            raise RuntimeError("broken at the start")

    def on_end(self, span: ReadableSpan) -> None:
        if self.when == "end":
            raise RuntimeError("broken at the end")


@pytest.mark.parametrize("when", ["start", "end"])
@pytest.mark.parametrize("effect", ["read", "write"])
async def test_a_processor_that_raises_never_stops_a_tool(
    caplog: pytest.LogCaptureFixture, when: str, effect: Literal["read", "write"]
) -> None:
    stage = Stage(processors=[Broken(when)])
    tool = stage.guard.tool(effect=effect)

    @tool
    def function(to: str) -> str:
        return "done"

    @tool
    async def coroutine(to: str) -> str:
        return "done"

    @tool
    def generator(to: str) -> Any:
        yield "done"

    assert [function("ann"), await coroutine("ann"), *generator("ann")] == ["done"] * 3
    assert any("the call goes on" in r.getMessage() and r.exc_info for r in caplog.records)
    approved = stage.guard.tool(effect="write", approval=True)(echo)
    with pytest.raises(readmit.ApprovalRequired) as refused:
        approved("ann")
    stage.guard.approve(refused.value.request_id or "", by="bob")
    assert approved("ann") == "ann"


class BrokenExporter(SpanExporter):
    def export(self, spans: Sequence[ReadableSpan]) -> SpanExportResult:
        raise ConnectionError("the collector is gone")

    def shutdown(self) -> None: ...


class BrokenSampler(Sampler):
    def should_sample(self, *_: Any, **__: Any) -> SamplingResult:
        raise RuntimeError("broken sampler")

    def get_description(self) -> str:
        return "broken"


@pytest.mark.parametrize("broken", ["exporter", "sampler"])
def test_an_exporter_or_a_sampler_that_raises_never_stops_a_tool(broken: str) -> None:
    provider = TracerProvider(sampler=BrokenSampler() if broken == "sampler" else None, shutdown_on_exit=False)
    if broken == "exporter":
        provider.add_span_processor(SimpleSpanProcessor(BrokenExporter()))
    guard = readmit.Guard(journal=":memory:", tracer_provider=provider)
    tool = Tool(guard)
    tool.lost()
    (pending,) = guard.pending()
    traced = guard.show(pending.occurrence_id).admissions[0].trace
    assert traced is not None
    assert (traced.sampled, len(traced.span_id)) == (broken == "exporter", 16)
    tool.refused()
    guard.close()


# -- whatever the application has ---------------------------------------------------------------------------------


def traces(guard: readmit.Guard, occurrence_id: str) -> Any:
    trace_of = guard.show(occurrence_id).admissions[-1].trace
    assert trace_of is not None
    return trace_of


def nested(guard: readmit.Guard) -> tuple[Any, Any]:
    """The trace contexts of an epoch and of one inside it, as the journal has them."""
    ids: list[str] = []

    @guard.tool(effect="write")
    def inner(to: str) -> None:
        ids.append(readmit.current().occurrence_id)

    @guard.tool(effect="write")
    def outer(to: str) -> None:
        ids.append(readmit.current().occurrence_id)
        inner(to)

    outer("ann")
    return traces(guard, ids[0]), traces(guard, ids[1])


def test_without_a_provider_the_journal_holds_ids_of_its_own() -> None:
    guard = readmit.Guard(journal=":memory:", tracer_provider=NoOpTracerProvider())
    outer, inner = nested(guard)
    assert int(outer.trace_id, 16) and int(outer.span_id, 16)
    assert (outer.parent_id, outer.sampled) == ("", False)
    assert (inner.trace_id, inner.parent_id) == (outer.trace_id, outer.span_id)
    assert inner.span_id != outer.span_id
    guard.close()


def test_without_a_provider_a_remote_parent_is_a_parent_and_not_the_epoch() -> None:
    guard = readmit.Guard(journal=":memory:", tracer_provider=NoOpTracerProvider())
    remote = SpanContext(trace_id=7, span_id=9, is_remote=True, trace_flags=TraceFlags(1))
    token = attach(trace.set_span_in_context(NonRecordingSpan(remote)))
    try:
        outer, inner = nested(guard)
    finally:
        detach(token)
    assert (outer.trace_id, outer.parent_id) == (f"{7:032x}", f"{9:016x}")
    assert (inner.trace_id, inner.parent_id) == (f"{7:032x}", outer.span_id)
    assert len({outer.span_id, inner.span_id, f"{9:016x}"}) == 3
    guard.close()


def test_what_is_sampled_away_keeps_its_ids_and_its_parent_in_the_journal() -> None:
    provider = TracerProvider(sampler=ALWAYS_OFF, shutdown_on_exit=False)
    guard = readmit.Guard(journal=":memory:", tracer_provider=provider)
    with provider.get_tracer("application").start_as_current_span("request") as request:
        outer, inner = nested(guard)
    context = request.get_span_context()
    assert (outer.trace_id, outer.parent_id) == (f"{context.trace_id:032x}", f"{context.span_id:016x}")
    assert (inner.trace_id, inner.parent_id) == (outer.trace_id, outer.span_id)
    assert not outer.sampled
    guard.close()


def test_a_recorded_epoch_and_its_span_have_the_same_ids(stage: Stage) -> None:
    tracer = stage.provider.get_tracer("application")
    with tracer.start_as_current_span("request") as request:
        outer, inner = nested(stage.guard)
    spans = {s.name.rpartition(".")[2]: s.get_span_context() for s in stage.spans("execute")}
    assert outer.span_id == f"{spans['outer'].span_id:016x}"  # type: ignore[union-attr]
    assert outer.parent_id == f"{request.get_span_context().span_id:016x}"
    assert (inner.parent_id, inner.sampled) == (outer.span_id, True)


LATE_PROVIDER = """
import readmit

guard = readmit.Guard(journal=":memory:")

@guard.tool(effect="write", name="pay")
def pay(to):
    return "paid"

pay("before there is a provider")

from opentelemetry import trace
from opentelemetry.sdk.trace import TracerProvider
from opentelemetry.sdk.trace.export import SimpleSpanProcessor
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter

exporter = InMemorySpanExporter()
provider = TracerProvider()
provider.add_span_processor(SimpleSpanProcessor(exporter))
trace.set_tracer_provider(provider)
pay("after it is there")
print([s.name for s in exporter.get_finished_spans()])
"""


def test_a_provider_that_comes_later_is_used_from_then_on() -> None:
    done = subprocess.run([sys.executable, "-c", LATE_PROVIDER], capture_output=True, text=True, timeout=60)
    assert done.stdout == "['admit pay', 'execute_tool pay']\n", done.stderr


def test_spans_have_the_clock_of_the_guard() -> None:
    """The forwarder emits the rest from the journal: both have to lie on one line of time."""
    stage = Stage()
    Tool(stage.guard).pay("ann")
    head = stage.heads()[0]
    admit, execute = stage.spans()
    assert isinstance(stage.clock, Clock)
    started = (admit.start_time or 0), (execute.start_time or 0)
    assert max(started) <= stage.clock.now
    assert abs(head.admissions[0].at - (execute.start_time or 0)) < 10_000


def test_no_telemetry_is_written_to_the_log_when_all_is_well(stage: Stage, caplog: pytest.LogCaptureFixture) -> None:
    Tool(stage.guard).pay("ann")
    assert [r for r in caplog.records if r.levelno >= logging.WARNING] == []
