"""Failures that people reported in public about approvals and call ids, as calls of the public API.

The ids are those of the collection they were retold in: A for approvals, I for the ids of calls and results.
"""

from __future__ import annotations

import threading
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest

import readmit
from readmit import ApprovalRequired, Batch, CorrelationConflict, ModelCall, Refused
from tests.middleware.stage import Stage


class Wire:
    """A tool that a person must approve, and what it really did."""

    def __init__(self, stage: Stage, name: str = "wire") -> None:
        self.stage, self.sent = stage, list[str]()

        @stage.guard.tool(effect="write", approval=True, name=name)
        def wire(to: str) -> str:
            self.sent.append(to)
            return f"wired to {to}"

        self.wire: Callable[[str], str] = wire

    def asked(self, to: str) -> str:
        with pytest.raises(ApprovalRequired) as asked:
            self.wire(to)
        assert asked.value.request_id is not None
        return asked.value.request_id


def calls(*ids: str | None, tool: str = "wire") -> tuple[ModelCall, ...]:
    return tuple(ModelCall(tool=tool, arguments={"to": f"t{n}"}, call_id=id) for n, id in enumerate(ids))


# -- approvals --------------------------------------------------------------------------------------------------------


def test_a01_one_approval_is_no_standing_permission(stage: Stage) -> None:
    """The history of later messages still carries the approval: the call is over, and its result is what it gives."""
    tool = Wire(stage)
    batch = Batch("turn-1", calls("c1"), guard=stage.guard)
    for _ in range(3):  # each later message replays the history
        with batch.executing(batch.calls[0]):
            if not tool.sent:
                stage.guard.approve(tool.asked("ann"), by="bob")
            assert tool.wire("ann") == "wired to ann"
    assert tool.sent == ["ann"]


def test_a03_a_node_that_is_entered_again_with_its_call(filed: Stage) -> None:
    """The graph loops back: in the run that has it, the call has its result."""
    tool = Wire(filed)
    for entered in range(3):
        with readmit.run("thread-1"):
            if entered == 0:
                filed.guard.approve(tool.asked("ann"), by="bob")
            assert tool.wire("ann") == "wired to ann"
    assert tool.sent == ["ann"]


def test_a05_a_yes_is_for_what_was_shown(stage: Stage) -> None:
    """Resumed, the model proposes other arguments under the same place: asked anew."""
    tool = Wire(stage)
    batch = Batch("turn-1", calls("c1"), guard=stage.guard)
    with batch.executing(batch.calls[0]):
        stage.guard.approve(first := tool.asked("ann"), by="bob")
        with pytest.raises(ApprovalRequired) as stale:
            tool.wire("mallory")
        assert (stale.value.reason, tool.sent) == ("permit_stale", [])
        assert stale.value.request_id not in (None, first), "asked again, with what it would do now"
        stage.guard.approve(stale.value.request_id or "", by="bob")
        assert tool.wire("mallory") == "wired to mallory"
    assert tool.sent == ["mallory"]


def test_a07_a_no_runs_nothing_whatever_is_rebuilt(filed: Stage) -> None:
    tool = Wire(filed)
    with readmit.run("thread-1"):
        request = tool.asked("ann")
    filed.restart()  # and the options of the run are gone
    tool = Wire(filed)
    filed.guard.deny(request, by="bob")
    with readmit.run("thread-1"), pytest.raises(Refused) as refused:
        tool.wire("ann")
    assert (refused.value.reason, tool.sent) == ("denied", [])


def test_a11_a_yes_from_two_tabs(filed: Stage) -> None:
    """Both presses count once, and of two workers one dispatches."""
    filed.given["join_timeout"] = 10
    filed.restart()
    tool = Wire(filed)
    request = tool.asked("ann")
    gate = threading.Barrier(2)

    def tab(_: int) -> str:
        filed.guard.approve(request, by="bob")
        gate.wait(10)
        try:
            return tool.wire("ann")
        except Refused as refused:
            return str(refused.reason)

    with ThreadPoolExecutor(2) as pool:
        said = list(pool.map(tab, range(2)))
    assert tool.sent == ["ann"]
    assert said.count("wired to ann") >= 1


@pytest.mark.parametrize("answer", [None, 0, "", object()], ids=["None", "0", "empty", "object"])
def test_a13_no_answer_is_no_yes(stage: Stage, answer: Any) -> None:
    """One of two was answered; only an act of a person is a verdict, nothing that is handed to the tool."""
    tool = Wire(stage)
    first, second = tool.asked("ann"), tool.asked("bob")
    stage.guard.approve(first, by="carol")
    with pytest.raises((TypeError, ValueError)):
        stage.guard.approve(second, by=answer)
    assert tool.wire("ann") == "wired to ann"
    with pytest.raises(ApprovalRequired):
        tool.wire("bob")
    assert tool.sent == ["ann"]


def test_a15_a_newer_policy_asks_again_and_blocks_nobody(filed: Stage) -> None:
    filed.restart(policy_version="1")
    tool = Wire(filed)
    filed.guard.approve(tool.asked("ann"), by="bob")
    filed.restart(policy_version="2")
    tool = Wire(filed)
    with pytest.raises(ApprovalRequired) as stale:
        tool.wire("ann")
    assert (stale.value.reason, tool.sent) == ("permit_stale", [])
    filed.guard.approve(stale.value.request_id or "", by="bob")
    assert (tool.wire("ann"), tool.sent) == ("wired to ann", ["ann"])


def test_a18_a_yes_outlives_a_start_that_failed(filed: Stage) -> None:
    """The run fails before the call is reached: the same approval is still good."""
    tool = Wire(filed)
    filed.guard.approve(tool.asked("ann"), by="bob")
    filed.restart()  # the start of the run answered 500
    tool = Wire(filed)
    assert (tool.wire("ann"), tool.sent) == ("wired to ann", ["ann"])


# -- ids --------------------------------------------------------------------------------------------------------------


def test_i01_an_id_that_was_seen_before_is_no_duplicate(stage: Stage) -> None:
    """A server gives every call one constant id: each turn has its own call and its own result."""
    paid: list[str] = []

    @stage.guard.tool(effect="write", name="pay")
    def pay(to: str) -> str:
        paid.append(to)
        return f"paid {to}"

    for turn, to in enumerate(("ann", "bob", "ann")):
        listed = ModelCall(tool="pay", arguments={"to": to}, call_id="call_0")
        batch = Batch(f"turn-{turn}", [listed], guard=stage.guard)
        with batch.executing(batch.calls[0]):
            assert batch.add(pay(to), call_id="call_0")
        with batch.deliver() as outputs:
            assert [output.payload for output in outputs] == [f"paid {to}"]
    assert paid == ["ann", "bob", "ann"]


def test_i03_one_id_for_two_calls_is_answered_call_by_call(stage: Stage) -> None:
    """One approval, one result is never bound to both."""
    one, two = Wire(stage, "one"), Wire(stage, "two")
    batch = Batch("turn-1", [ModelCall(tool=t, call_id="x") for t in ("one", "two")], guard=stage.guard)
    with batch.executing(batch.calls[0]):
        stage.guard.approve(one.asked("ann"), by="bob")
    with batch.executing(batch.calls[1]):
        two.asked("ann")
    with batch.executing(batch.calls[0]):
        batch.add(one.wire("ann"), call=batch.calls[0])
    with batch.executing(batch.calls[1]), pytest.raises(ApprovalRequired):
        two.wire("ann")
    assert (one.sent, two.sent) == (["ann"], [])
    other = Batch("turn-2", [ModelCall(tool=t, call_id="x") for t in ("one", "two")], guard=stage.guard, beside=True)
    other.add("whose?", call_id="x")
    assert (other.results, len(other.pending)) == ({}, 2)


def test_i05_order_is_no_evidence(stage: Stage) -> None:
    batch = Batch("turn-1", calls(*(f"c{n}" for n in range(1, 7))), guard=stage.guard)
    for n in (3, 1, 4, 5, 6, 2):
        batch.add(f"r{n}", call_id=f"c{n}")
    with batch.deliver() as outputs:
        assert [(o.call_id, o.payload) for o in outputs] == [(f"c{n}", f"r{n}") for n in range(1, 7)]


def test_i07_without_ids_two_equal_calls_are_known_and_not_paired(stage: Stage) -> None:
    """Neither result is thrown away, and nobody is told that a call that ran was interrupted."""
    same = ModelCall(tool="bash", arguments={"cmd": "date"}, call_id="")
    batch = Batch("turn-1", [same, same], guard=stage.guard)
    batch.add("Monday", call_id="")
    assert batch.correlation().known == ()
    batch.add("Tuesday")
    found = batch.correlation()
    assert found.known == tuple(call.occurrence_id for call in batch.calls)
    assert sorted(result.payload for result in found.unpaired) == ["Monday", "Tuesday"]
    with pytest.raises(CorrelationConflict):
        batch.add("Wednesday")
