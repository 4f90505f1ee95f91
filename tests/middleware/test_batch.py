"""A batch by itself: what it is, who may do what, and what is said when something does not fit."""

from __future__ import annotations

import json
import threading
from collections.abc import Callable, Generator, Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest

import readmit
from readmit import (
    Batch,
    BatchIncomplete,
    BatchUndelivered,
    CorrelationConflict,
    ModelCall,
    ReadmitError,
    ReplayRefused,
)
from readmit._model import Answered
from readmit._result import encode_result
from readmit.journal import Change
from tests.middleware.stage import Stage, attributes

TWO = (ModelCall(tool="pay", arguments={"cents": 5}, call_id="c1"), ModelCall(tool="ask", call_id="c2"))


def batch_of(stage: Stage, calls: tuple[ModelCall, ...] = TWO, response: str = "r1", **given: Any) -> Batch:
    return Batch(response, calls, guard=stage.guard, **given)


def paying(stage: Stage) -> tuple[Callable[..., str], list[int]]:
    paid: list[int] = []

    @stage.guard.tool(effect="write", name="pay")
    def pay(cents: int) -> str:
        paid.append(cents)
        return f"paid {cents}"

    return pay, paid


def answered(stage: Stage, batch: Batch) -> None:
    batch.add("paid 5", call_id="c1")
    batch.add("yes", call_id="c2")


# -- which batch it is ------------------------------------------------------------------------------------------------


def test_the_same_response_is_the_same_batch(stage: Stage) -> None:
    first = batch_of(stage)
    first.add("yes", call_id="c2")
    again = batch_of(stage)
    assert (again.id, again.occurrence_id, list(again.results.values())) == (first.id, first.occurrence_id, ["yes"])
    known = Batch("r1", guard=stage.guard)
    assert known.calls == first.calls
    with readmit.scope("another"):
        assert batch_of(stage).id != first.id


def test_a_response_has_one_list_of_calls(stage: Stage) -> None:
    batch_of(stage)
    with pytest.raises(ReadmitError, match="known in scope default with other calls: pay, ask"):
        batch_of(stage, TWO[:1])
    with pytest.raises(ReadmitError, match="No batch of response r9"):
        Batch("r9", guard=stage.guard)
    with pytest.raises(ValueError, match="names the response"):
        batch_of(stage, response="")
    with pytest.raises(TypeError, match="arguments of pay hold a object"):
        batch_of(stage, (ModelCall(tool="pay", arguments={"what": object()}),), response="r2")


def test_a_batch_that_waits_is_in_the_list_that_people_work_through(stage: Stage) -> None:
    batch = batch_of(stage)
    waiting = stage.waiting()
    assert (waiting.occurrence_id, waiting.tool) == (batch.occurrence_id, "readmit.deliver")
    assert waiting.remedies == ("abandon",)
    assert repr(batch) == "<Batch of r1: 2 calls, 2 pending, none>"


# -- results ----------------------------------------------------------------------------------------------------------


def test_a_result_is_news_once(stage: Stage) -> None:
    batch = batch_of(stage)
    assert batch.add({"answer": "yes"}, call_id="c2") is True
    assert batch.add({"answer": "yes"}, call_id="c2") is False
    assert batch.add({"answer": "yes"}, call=batch.calls[1]) is False
    assert [call.tool for call in batch.pending] == ["pay"]


def test_results_that_contradict_each_other_reach_nobody(stage: Stage) -> None:
    batch = batch_of(stage)
    answered(stage, batch)
    with pytest.raises(CorrelationConflict) as conflict:
        batch.add("no", call_id="c2")
    assert conflict.value.conflicts[0].why == "two_results"
    with batch.deliver() as outputs:
        assert [output.payload for output in outputs] == ["paid 5", "yes"], "what contradicts was not kept"


def test_one_call_id_for_two_calls_is_no_guess(stage: Stage) -> None:
    calls = (ModelCall(tool="pay", call_id="x"), ModelCall(tool="ask", call_id="x"))
    batch = batch_of(stage, calls)
    assert batch.add("whose?", call_id="x") is True
    assert len(batch.pending) == 2
    with pytest.raises(BatchIncomplete, match="2 calls of response r1 wait"), batch.deliver():
        raise AssertionError("delivered")
    assert batch.add("paid 5", call=batch.calls[0]) is True
    assert list(batch.results.values()) == ["paid 5", "whose?"]


def test_a_result_that_cannot_be_kept_is_an_error(stage: Stage) -> None:
    batch = batch_of(stage)
    with pytest.raises(TypeError, match="holds a object"):
        batch.add(object(), call_id="c2")
    with pytest.raises(TypeError, match="cannot be kept"):
        batch.add("x" * 400_000, call_id="c2")
    assert batch.results == {}


def test_the_budget_is_charged_once_by_whoever_comes(filed: Stage) -> None:
    first, second = batch_of(filed), batch_of(filed)
    with ThreadPoolExecutor(4) as pool:
        charged = list(pool.map(lambda b: b.charge(), [first, second] * 4))
    assert sorted(charged) == [False] * 7 + [True]
    filed.restart()
    batch = batch_of(filed)
    assert (batch.charge(7), batch.charged) == (False, 2)


# -- running ----------------------------------------------------------------------------------------------------------


def test_two_workers_of_one_snapshot_dispatch_once(filed: Stage) -> None:
    filed.given["join_timeout"] = 10
    filed.restart()
    pay, paid = paying(filed)
    text = batch_of(filed).dump()
    gate = threading.Barrier(2)

    def worker(_: int) -> str:
        batch = Batch.load(text, guard=filed.guard)
        gate.wait(10)
        with batch.executing(batch.calls[0]):
            return pay(5)

    with ThreadPoolExecutor(2) as pool:
        assert list(pool.map(worker, range(2))) == ["paid 5", "paid 5"]
    assert paid == [5]


def test_a_call_that_ran_is_not_run_again_whichever_way_it_is_found(filed: Stage) -> None:
    pay, paid = paying(filed)
    batch = batch_of(filed)
    with batch.executing(batch.calls[0]):
        assert pay(5) == "paid 5"
    filed.restart()
    pay, again = paying(filed)
    batch = batch_of(filed)
    with readmit.scope("somewhere else"), batch.executing(batch.calls[0]):
        assert pay(5) == "paid 5"
    assert (paid, again) == ([5], [])


def test_only_its_own_calls_are_executed_in_it(stage: Stage) -> None:
    batch, other = batch_of(stage), batch_of(stage, response="r2", beside=True)
    with pytest.raises(ReadmitError, match="no call of"), batch.executing(other.calls[0]):
        raise AssertionError("executed")


# -- delivering -------------------------------------------------------------------------------------------------------


def test_two_workers_do_not_deliver_at_once(filed: Stage) -> None:
    batch = batch_of(filed)
    answered(filed, batch)
    text = batch.dump()
    inside, go, said = threading.Event(), threading.Event(), []

    def first() -> None:
        with Batch.load(text, guard=filed.guard).deliver():
            inside.set()
            assert go.wait(10)

    thread = threading.Thread(target=first)
    thread.start()
    assert inside.wait(10)
    with pytest.raises(ReplayRefused) as refused, Batch.load(text, guard=filed.guard).deliver():
        said.append("delivered")
    assert refused.value.reason == "in_flight"
    go.set()
    thread.join()
    with pytest.raises(ReplayRefused) as refused, Batch.load(text, guard=filed.guard).deliver():
        said.append("delivered")
    assert (refused.value.reason, said) == ("already_committed", [])


def test_what_was_offered_does_not_change(stage: Stage) -> None:
    batch = batch_of(stage)
    answered(stage, batch)
    with pytest.raises(OSError), batch.deliver():
        raise OSError
    with pytest.raises(CorrelationConflict):
        batch.add("paid 6", call_id="c1")
    assert batch.add("paid 5", call_id="c1") is False


@pytest.mark.parametrize("offered", [False, True], ids=["before it is offered", "after"])
def test_a_void_call_takes_no_result(stage: Stage, offered: bool) -> None:
    """Else the results could grow between two attempts, which are to carry the same."""
    batch = batch_of(stage)
    batch.add("paid 5", call_id="c1")
    batch.invalidate()
    if offered:
        with pytest.raises(OSError), batch.deliver():
            raise OSError
    with pytest.raises(ReadmitError, match="ask is void"):
        batch.add("yes", call_id="c2")
    assert batch.add("paid 5", call_id="c1") is False
    with batch.deliver() as outputs:
        assert [output.payload for output in outputs] == ["paid 5"]


def test_a_call_that_was_done_takes_its_result_also_after_the_response_was_invalidated(stage: Stage) -> None:
    pay, _ = paying(stage)
    batch = batch_of(stage)
    with batch.executing(batch.calls[0]):
        result = pay(5)
    batch.invalidate()
    assert batch.add(result, call=batch.calls[0]) is True
    with batch.deliver() as outputs:
        assert [output.payload for output in outputs] == ["paid 5"]


def test_what_was_offered_cannot_be_altered_behind_its_back(stage: Stage) -> None:
    """Another program writes into the journal: the attempt is refused, since it would carry something else."""
    batch = batch_of(stage)
    batch.add("paid 5", call_id="c1")
    batch.invalidate()
    with pytest.raises(OSError), batch.deliver():
        raise OSError
    late = Answered(at=stage.clock(), payload=encode_result("yes"), call_id="c2")
    stage.guard.ports().journal.append([Change(batch.occurrence_id, (late,))], durable=True)
    with pytest.raises(readmit.OccurrenceConflict), batch.deliver():
        raise AssertionError("delivered")


@pytest.mark.parametrize("form", ["generator", "block"])
def test_an_attempt_that_is_refused_leaves_no_span_of_a_delivery(stage: Stage, form: str) -> None:
    batch = batch_of(stage)
    answered(stage, batch)
    with batch.deliver():
        pass

    @batch.deliver()
    def streamed(outputs: object) -> Iterator[int]:
        yield 1

    with pytest.raises(ReplayRefused):
        if form == "generator":
            list(streamed())
        else:
            batch.deliver().__enter__()
    assert len(stage.spans("deliver")) == 1


def test_an_answer_that_reads_like_a_failure_is_no_acceptance(stage: Stage) -> None:
    batch = batch_of(stage)
    answered(stage, batch)
    answers: list[dict[str, Any]] = [{"error": {"type": "overloaded"}}, {"error": None, "id": "resp-2"}]

    @batch.deliver()
    def provider(outputs: object, model: str) -> dict[str, Any]:
        return {**answers.pop(0), "model": model}

    assert provider("m")["model"] == "m"
    assert batch.state == "offered"
    assert provider("m")["id"] == "resp-2"
    assert batch.correlation().pending == ()
    assert batch.state == "accepted"


def test_one_attempt_is_one_attempt(stage: Stage) -> None:
    batch = batch_of(stage)
    answered(stage, batch)
    attempt = batch.deliver()
    with attempt, pytest.raises(ReadmitError, match="under way"), attempt:
        raise AssertionError("twice")
    assert batch.state == "accepted"


def test_a_batch_without_calls_can_be_delivered(stage: Stage) -> None:
    with batch_of(stage, ()).deliver() as outputs:
        assert outputs == ()


def test_the_span_of_a_delivery_is_linked_to_the_epochs_whose_results_it_carries(stage: Stage) -> None:
    pay, _ = paying(stage)
    batch = batch_of(stage)
    with batch.executing(batch.calls[0]):
        batch.add(pay(5), call=batch.calls[0])
    batch.add("yes", call_id="c2")
    with pytest.raises(OSError), batch.deliver():
        raise OSError
    with batch.deliver():
        pass
    offered, accepted = stage.spans("deliver")
    assert [attributes(s)["readmit.delivery.state"] for s in (offered, accepted)] == ["offered", "accepted"]
    assert "gen_ai.conversation.id" not in attributes(accepted), "nobody named a scope"
    (ran,) = [s for s in stage.spans("execute") if attributes(s)["gen_ai.tool.name"] == "pay"]
    context = ran.get_span_context()
    assert context is not None
    for span in (offered, accepted):
        results = [link for link in span.links if (link.attributes or {}).get("readmit.link") == "result"]
        assert [link.context.span_id for link in results] == [context.span_id]


@pytest.mark.parametrize("fails", [False, True], ids=["accepted", "offered"])
def test_a_span_that_cannot_be_written_changes_nothing_about_a_delivery(
    stage: Stage, monkeypatch: pytest.MonkeyPatch, fails: bool
) -> None:
    """Telemetry fails open: the provider's own error, or its success, is what the host sees."""
    batch = batch_of(stage)
    answered(stage, batch)
    journal = stage.guard.ports().journal

    def gone(occurrence: str) -> None:
        raise readmit.JournalUnavailable("the journal is gone")

    def deliver() -> None:
        with batch.deliver():
            monkeypatch.setattr(journal, "load", gone)
            if fails:
                raise ConnectionError("the provider is gone")

    if fails:
        with pytest.raises(ConnectionError, match="the provider is gone"):
            deliver()
    else:
        deliver()
    monkeypatch.undo()
    assert batch.correlation().pending == ()
    assert batch.state == ("offered" if fails else "accepted")


def test_a_stream_gives_what_it_returns(stage: Stage) -> None:
    batch = batch_of(stage)
    answered(stage, batch)

    @batch.deliver()
    def streamed(outputs: tuple[readmit.CallOutput, ...]) -> Generator[str, str, int]:
        heard = yield "first"
        assert heard == "go on"
        return len(outputs)

    stream = streamed()
    assert next(stream) == "first"
    with pytest.raises(StopIteration) as stop:
        stream.send("go on")
    assert (stop.value.value, batch.state) == (2, "accepted")


# -- what the user types meanwhile ------------------------------------------------------------------------------------


def test_a_new_turn_is_told_of_an_undelivered_batch(stage: Stage) -> None:
    with readmit.scope("chat"):
        batch = batch_of(stage)
        answered(stage, batch)
        (waiting,) = Batch.undelivered(guard=stage.guard)
        assert (waiting.response, waiting.id) == ("r1", batch.id)
        with pytest.raises(BatchUndelivered, match="results of r1 were not delivered") as told:
            batch_of(stage, response="r2")
        assert (told.value.responses, told.value.occurrence_ids) == (("r1",), (batch.occurrence_id,))
        assert batch_of(stage, response="parallel", beside=True).state == "none"
    batch_of(stage, response="r2")  # of another conversation


def test_delivered_first_it_stands_in_nobodys_way(stage: Stage) -> None:
    batch = batch_of(stage)
    answered(stage, batch)
    (waiting,) = Batch.undelivered(guard=stage.guard)
    with waiting.deliver() as outputs:
        assert [output.payload for output in outputs] == ["paid 5", "yes"]
    assert batch_of(stage, response="r2").state == "none"


def test_dropped_with_a_record_it_is_never_delivered(stage: Stage) -> None:
    batch = batch_of(stage)
    answered(stage, batch)
    with pytest.raises(OSError), batch.deliver():
        raise OSError
    with pytest.raises(ValueError, match="statement="):
        batch.drop(by="host", statement=" ")
    batch.drop(by="host", statement="the user changed the subject")
    assert batch.dropped
    with pytest.raises(readmit.Refused) as refused, batch.deliver():
        raise AssertionError("delivered to the wrong turn")
    assert refused.value.reason == "abandoned"
    head = stage.guard.show(batch.occurrence_id)
    assert head.abandoned is not None
    assert (head.abandoned.by, head.abandoned.statement) == ("host", "the user changed the subject")
    assert list(batch.results.values()) == ["paid 5", "yes"], "on record"
    assert batch_of(stage, response="r2").state == "none"


# -- responses that the provider takes back ---------------------------------------------------------------------------


def test_what_an_invalid_response_asked_for_is_void_and_what_was_done_is_not(stage: Stage) -> None:
    pay, paid = paying(stage)
    batch = batch_of(stage)
    with batch.executing(batch.calls[0]):
        batch.add(pay(5), call=batch.calls[0])
    batch.invalidate()
    batch.invalidate()
    assert [call.tool for call in batch.void] == ["ask"]
    assert batch.pending == ()
    with pytest.raises(ReadmitError, match="ask is void"), batch.executing(batch.calls[1]):
        raise AssertionError("executed")
    with batch.deliver() as outputs:
        assert [(output.tool, output.payload) for output in outputs] == [("pay", "paid 5")]
    assert (batch.invalidated, batch.state, paid) == (True, "accepted", [5])


def test_an_effect_that_is_not_known_is_not_void(stage: Stage) -> None:
    """It may have happened: somebody has to find out before the model is told anything."""

    @stage.guard.tool(effect="write", name="pay")
    def pay(cents: int) -> None:
        raise OSError("lost")

    batch = batch_of(stage)
    with pytest.raises(OSError), batch.executing(batch.calls[0]):
        pay(5)
    batch.invalidate()
    assert [call.tool for call in batch.pending] == ["pay"]
    with pytest.raises(BatchIncomplete), batch.deliver():
        raise AssertionError("delivered")


# -- as a text --------------------------------------------------------------------------------------------------------


def test_all_of_it_goes_through_a_session_store(tmp_path: Path) -> None:
    """Also to a worker whose journal does not know it."""
    stage, other = Stage(tmp_path / "one.db"), Stage(tmp_path / "other.db")
    with readmit.scope("chat", principal="ann"):
        batch = batch_of(stage)
        batch.add({"paid": [5, None, 1.5], "ä": "ß"}, call_id="c1")
        batch.charge()
        batch.invalidate()
    text = batch.dump()
    assert json.loads(text)["schema"] == 1
    loaded = Batch.load(text, guard=other.guard)
    assert (loaded.id, loaded.calls, loaded.results) == (batch.id, batch.calls, batch.results)
    assert (loaded.charged, loaded.invalidated) == (2, True)
    assert (loaded.outbox.scope, loaded.outbox.principal) == ("chat", "ann")
    assert json.loads(loaded.dump())["calls"] == json.loads(text)["calls"]


def test_an_old_text_takes_nothing_back(stage: Stage) -> None:
    batch = batch_of(stage)
    text = batch.dump()
    answered(stage, batch)
    with batch.deliver():
        pass
    loaded = Batch.load(text, guard=stage.guard)
    assert (loaded.state, list(loaded.results.values())) == ("accepted", ["paid 5", "yes"])


@pytest.mark.parametrize("text", ["", "{}", "[]", "not JSON", '{"schema": 1}'])
def test_a_text_that_is_no_batch_is_an_error(stage: Stage, text: str) -> None:
    with pytest.raises(ValueError, match="no batch that readmit has dumped"):
        Batch.load(text, guard=stage.guard)


def test_a_text_of_a_newer_schema_is_an_error(stage: Stage) -> None:
    text = batch_of(stage).dump().replace('"schema":1', '"schema":2')
    with pytest.raises(ValueError, match="schema 2, and this readmit reads 1: update"):
        Batch.load(text, guard=stage.guard)


def test_a_text_that_contradicts_the_journal_is_a_conflict(tmp_path: Path) -> None:
    stage, other = Stage(tmp_path / "one.db"), Stage(tmp_path / "other.db")
    batch_of(stage).add("paid 5", call_id="c1")
    other_batch = batch_of(other)
    other_batch.add("declined", call_id="c1")
    with pytest.raises(CorrelationConflict):
        Batch.load(other_batch.dump(), guard=stage.guard)
