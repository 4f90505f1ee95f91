"""Observe mode blocks nothing and records what enforce mode would have refused; and what happens without a journal."""

from __future__ import annotations

import logging
import os
from collections.abc import AsyncIterator, Iterator
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest

import readmit
from readmit import Absent, Approval, Contract, Present, Question
from readmit.journal import SQLiteJournal
from tests.middleware.stage import Stage, attributes, until


def echo(to: str) -> str:
    return to


@pytest.fixture
def observing() -> Stage:
    return Stage(mode="observe")


class Tool:
    """A tool on a guard, and what it really did."""

    def __init__(self, guard: readmit.Guard, **told: Any) -> None:
        self.done: list[str] = []
        self.fault: BaseException | None = None

        @guard.tool(effect="write", name="pay", **told)
        def pay(to: str, cents: int = 5) -> str:
            self.done.append(readmit.current().occurrence_id)
            if self.fault is not None:
                raise self.fault
            return f"receipt {len(self.done)}"

        self.pay = pay

    def lost(self, to: str) -> None:
        self.fault = TimeoutError()
        with pytest.raises(TimeoutError):
            self.pay(to)
        self.fault = None


def would(stage: Stage) -> list[tuple[str, str | None]]:
    """What enforce mode would have said, from the spans; the journal says the same."""
    said = [attributes(s) for s in stage.spans("admit")]
    for span in said:
        head = stage.guard.show(span["readmit.occurrence.id"])
        admitted = next(a for a in head.admissions if a.epoch == span["readmit.epoch"])
        assert admitted.refusal == span.get("readmit.admission.refusal")
        assert admitted.admission == span["readmit.admission.id"]
    return [(s["readmit.admission.decision"], s.get("readmit.admission.refusal")) for s in said]


def test_nothing_is_blocked_and_every_would_be_refusal_is_recorded(observing: Stage) -> None:
    tool = Tool(observing.guard)
    tool.lost("ann")
    assert tool.pay("ann") == "receipt 2"
    assert would(observing) == [("admit", None), ("observed", "effect_unknown")]
    first, second = (attributes(s) for s in observing.spans("execute"))
    assert first["readmit.occurrence.id"] == second["readmit.occurrence.id"], "identity is the same as in enforce mode"
    assert (second["readmit.epoch"], second["readmit.mode"]) == (2, "observe")
    assert second["readmit.admission.decision"] == "observed"
    assert "readmit.admission.justification" not in second
    assert second["readmit.admission.refusal"] == "effect_unknown"
    assert "readmit.permit.source" not in second


def test_a_tool_that_wants_approval_runs_and_asks_nobody(observing: Stage) -> None:
    tool = Tool(observing.guard, approval=True)
    assert tool.pay("ann") == "receipt 1"
    assert would(observing) == [("observed", "permit_missing")]
    assert attributes(observing.spans("admit")[0])["readmit.permit.source"] == "approval"
    assert observing.guard.pending() == []


def test_a_recorded_result_is_not_given_instead_of_a_run(observing: Stage) -> None:
    tool = Tool(observing.guard, key="to")
    assert [tool.pay("ann"), tool.pay("ann")] == ["receipt 1", "receipt 2"]
    assert would(observing) == [("admit", None), ("observed", "already_committed")]


def test_a_conflict_is_recorded_and_runs_as_a_call_of_its_own(observing: Stage) -> None:
    tool = Tool(observing.guard, key="to")
    assert [tool.pay("ann", 5), tool.pay("ann", 6)] == ["receipt 1", "receipt 2"]
    assert would(observing) == [("admit", None), ("observed", "conflict")]


def test_nobody_waits_and_no_hook_is_asked(observing: Stage) -> None:
    def body(n: int) -> str:
        return "inner" if readmit.current().number > 1 else f"outer of {tool(n)}"

    tool = observing.guard.tool(effect="write")(body)
    assert tool(1) == "outer of inner"
    assert ("observed", "reentrant") in would(observing)

    def find(question: Question) -> Present:
        raise AssertionError("it was asked")

    lost = Tool(observing.guard, reconcile=find)
    lost.lost("ann")
    assert lost.pay("ann") == "receipt 2"


def test_no_permit_is_consumed_by_what_is_only_observed(filed: Stage) -> None:
    tool = Tool(filed.guard, approval=True, contract=Contract(idempotent=True))
    with pytest.raises(readmit.ApprovalRequired) as refused:
        tool.pay("ann")
    permit = filed.guard.approve(refused.value.request_id or "", by="bob", expires=timedelta(hours=2))
    tool.lost("ann")
    with pytest.raises(readmit.ApprovalRequired) as refused:
        tool.pay("ann")
    again = filed.guard.approve(refused.value.request_id or "", by="bob")
    filed.guard.revoke(permit, by="eve")

    tool = Tool(filed.restart(mode="observe", policy_version="2"), approval=True, contract=Contract(idempotent=True))
    tool.lost("ann")
    assert attributes(filed.spans("admit")[-1])["readmit.admission.refusal"] == "permit_stale"
    assert attributes(filed.spans("admit")[-1])["readmit.permit.id"] == again
    tool = Tool(filed.restart(mode="enforce", policy_version=None), approval=True, contract=Contract(idempotent=True))
    assert tool.pay("ann") == "receipt 1"
    assert attributes(filed.spans("execute")[-1])["readmit.permit.id"] == again


def test_hooks_and_arguments_that_fail_block_nothing(observing: Stage, caplog: pytest.LogCaptureFixture) -> None:
    class Opaque:
        """Has no digest."""

    @observing.guard.tool(effect="write")
    def send(connection: object) -> str:
        return "sent"

    @observing.guard.tool(effect="write", approval=Approval(when=lambda arguments: arguments["nothing"] > 1))
    def ask(to: str) -> str:
        return "sent"

    @observing.guard.tool(effect="write", key="order")
    def order(order: str) -> str:
        return "sent"

    assert [send(Opaque()), send(Opaque()), ask("ann"), order("")] == ["sent"] * 4
    warned = [r.getMessage() for r in caplog.records if r.levelno == logging.WARNING]
    assert len(warned) == 3
    assert "parameter 'connection'" in warned[0]
    assert "in enforce mode it would not" in warned[0]
    assert "failed; the call runs" in warned[1]
    assert "a business key is" in warned[2]
    occurrences = {attributes(s)["readmit.occurrence.id"] for s in observing.spans("execute")}
    assert len(occurrences) == 4, "what has no digest is like no other call"


def test_one_tool_alone_can_be_observed(stage: Stage) -> None:
    tool = Tool(stage.guard, mode="observe", approval=True)
    assert tool.pay("ann") == "receipt 1"
    strict = stage.guard.tool(effect="write", approval=True)(echo)
    with pytest.raises(readmit.ApprovalRequired):
        strict("ann")


# -- without a journal --------------------------------------------------------------------------------------------


@pytest.fixture
def nowhere(tmp_path: Path) -> Path:
    return tmp_path / "no such folder" / "readmit.db"


def warnings(caplog: pytest.LogCaptureFixture) -> list[str]:
    return [r.getMessage() for r in caplog.records if r.levelno == logging.WARNING]


async def test_a_write_without_a_journal_is_not_sent(nowhere: Path) -> None:
    stage = Stage(nowhere)
    done: list[str] = []
    tool = stage.guard.tool(effect="write")

    @tool
    def function(to: str) -> None:
        done.append(to)

    @tool
    async def coroutine(to: str) -> None:
        done.append(to)

    @tool
    def generator(to: str) -> Iterator[int]:
        done.append(to)
        yield 1

    @tool
    async def async_generator(to: str) -> AsyncIterator[int]:
        done.append(to)
        yield 1

    for _ in range(2):
        with pytest.raises(readmit.JournalUnavailable) as unavailable:
            function("ann")
    assert str(nowhere) in str(unavailable.value)
    assert "configure(journal=…) or READMIT_JOURNAL" in str(unavailable.value)
    with pytest.raises(readmit.JournalUnavailable):
        await coroutine("ann")
    with pytest.raises(readmit.JournalUnavailable):
        next(generator("ann"))
    with pytest.raises(readmit.JournalUnavailable):
        await anext(async_generator("ann"))
    with pytest.raises(readmit.JournalUnavailable):
        stage.guard.pending()
    assert done == []
    assert stage.spans() == []


def test_the_next_call_tries_to_open_it_again(nowhere: Path) -> None:
    stage = Stage(nowhere)
    tool = Tool(stage.guard)
    with pytest.raises(readmit.JournalUnavailable):
        tool.pay("ann")
    nowhere.parent.mkdir()
    assert tool.pay("ann") == "receipt 1"


def test_a_read_without_a_journal_runs_and_says_so_once(nowhere: Path, caplog: pytest.LogCaptureFixture) -> None:
    stage = Stage(nowhere)

    @stage.guard.tool(effect="read")
    def look(at: str) -> str:
        return "seen"

    assert [look("a"), look("b")] == ["seen"] * 2
    (said,) = warnings(caplog)
    assert str(nowhere) in said
    assert said.endswith("Read-only calls run.")
    assert len(stage.spans()) == 2


def test_observe_mode_without_a_journal_runs_and_claims_no_epoch(
    nowhere: Path, caplog: pytest.LogCaptureFixture
) -> None:
    stage = Stage(nowhere, mode="observe")
    tool = Tool(stage.guard, approval=True)
    assert tool.pay("ann") == "receipt 1"
    assert len(tool.done) == 1, "readmit.current() is there as always"
    (span,) = stage.spans()
    said = attributes(span)
    assert (said["readmit.operation"], said["readmit.mode"]) == ("execute", "observe")
    assert said["readmit.effect.state"] == "committed"
    assert not [key for key in said if key.startswith(("readmit.epoch", "readmit.admission", "readmit.prior"))]
    tool.lost("ann")
    assert [w.endswith("nothing is blocked in observe mode.") for w in warnings(caplog)] == [True, True]


class Full(SQLiteJournal):
    """A journal whose disk is full when it is told so."""

    full = False

    def append(self, changes: Any, *, durable: bool) -> Any:
        if self.full:
            raise readmit.JournalUnavailable(f"The journal {self.name} cannot be written: {os.strerror(28)}.")
        return super().append(changes, durable=durable)


@pytest.mark.parametrize("mode", ["enforce", "observe"])
def test_a_disk_that_is_full_before_the_body(tmp_path: Path, mode: str) -> None:
    journal = Full(tmp_path / "readmit.db")
    stage = Stage(journal, mode=mode)
    tool = Tool(stage.guard)
    journal.full = True
    if mode == "observe":
        assert tool.pay("ann") == "receipt 1"
    else:
        with pytest.raises(readmit.JournalUnavailable, match="No space left on device"):
            tool.pay("ann")
        assert tool.done == []
    journal.full = False
    assert stage.guard.pending() == []
    assert [attributes(s).get("readmit.epoch") for s in stage.spans()] == ([None] if mode == "observe" else [])


@pytest.mark.parametrize("mode", ["enforce", "observe"])
def test_a_disk_that_is_full_after_the_body_hides_nothing(
    tmp_path: Path, mode: str, caplog: pytest.LogCaptureFixture
) -> None:
    """The outcome waits to be written; until then, and after a crash, the effect counts as unknown."""
    journal = Full(tmp_path / "readmit.db")
    stage = Stage(journal, mode=mode)
    done: list[str] = []

    @stage.guard.tool(effect="write")
    def pay(to: str) -> str:
        done.append(to)
        journal.full = True
        return "receipt"

    assert pay("ann") == "receipt"
    (error,) = [r.getMessage() for r in caplog.records if r.levelno == logging.ERROR]
    assert "waits to be written" in error
    assert attributes(stage.spans("execute")[0])["readmit.effect.state"] == "committed"
    again = Stage(tmp_path / "readmit.db")
    assert again.waiting().state == "in_flight"
    journal.full = False
    until(lambda: again.guard.pending() == [])


def test_the_journal_is_named_once(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.INFO, "readmit")
    stage = Stage(tmp_path / "readmit.db")
    tool = Tool(stage.guard)
    for to in ("ann", "bob"):
        tool.pay(to)
    stage.guard.pending()
    said = [r.getMessage() for r in caplog.records if r.levelno == logging.INFO]
    assert said == [f"readmit keeps its journal in {tmp_path / 'readmit.db'}"]


def test_a_guard_that_was_closed_opens_its_journal_again(filed: Stage) -> None:
    tool = Tool(filed.guard)
    tool.lost("ann")
    filed.guard.close()
    with pytest.raises(readmit.ReplayRefused):
        tool.pay("ann")
    filed.guard.reconcile(filed.waiting().occurrence_id, Absent(authoritative=True), epoch=1, by="bob")
    assert tool.pay("ann") == "receipt 2"


def test_the_environment_names_the_journal(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("READMIT_JOURNAL", str(tmp_path / "here.db"))
    guard = readmit.Guard()
    Tool(guard).pay("ann")
    assert (tmp_path / "here.db").exists()
    guard.close()
