"""Scope, run, key and what carries them: when an equal call is the same call, and when it is a new one."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from datetime import timedelta
from typing import Any

import pytest

import readmit
from readmit import Absent, NotSent, Rejected
from readmit._context import frame, has_context, identified
from readmit._epoch import Epoch
from tests.middleware.stage import Stage, attributes, killed


class Bank:
    """A tool that pays, and a list of what really was paid. `fault` is raised after the payment."""

    def __init__(self, guard: readmit.Guard, **told: Any) -> None:
        self.paid: list[str] = []
        self.fault: BaseException | None = None
        self.pay = self.declared(guard, **told)

    def declared(self, guard: readmit.Guard, **told: Any) -> Callable[..., str]:
        @guard.tool(effect="write", name="pay", **told)
        def pay(to: str, cents: int = 5) -> str:
            self.paid.append(to)
            if self.fault is not None:
                raise self.fault
            return f"receipt {len(self.paid)}"

        return pay


@pytest.fixture
def bank(stage: Stage) -> Bank:
    return Bank(stage.guard)


def decisions(stage: Stage) -> list[str]:
    admitted = map(attributes, stage.spans("admit"))
    return [f"{s['readmit.identity']}: {s['readmit.admission.decision']}" for s in admitted]


# -- open and closed ----------------------------------------------------------------------------------------------


def test_equal_arguments_never_block_by_themselves(stage: Stage, bank: Bank) -> None:
    assert [bank.pay("ann") for _ in range(3)] == ["receipt 1", "receipt 2", "receipt 3"]
    assert decisions(stage) == ["minted: admit"] * 3
    assert stage.guard.pending() == []


def test_an_unknown_outcome_folds_equal_calls_whatever_their_ids(stage: Stage, bank: Bank) -> None:
    bank.fault = TimeoutError()
    with identified(call_id="call-1", response="response-1", framework="response-1 0"), pytest.raises(TimeoutError):
        bank.pay("ann")
    with (
        identified(call_id="call-2", response="response-2", framework="response-2 0"),
        pytest.raises(readmit.ReplayRefused),
    ):
        bank.pay("ann")
    assert decisions(stage) == ["minted: admit", "open: refuse"]
    assert bank.paid == ["ann"]


def test_a_response_is_named_together_with_the_call_inside_it(stage: Stage, bank: Bank) -> None:
    """Else a call of it that is executed again, before its effect is known, would be taken for its neighbour."""
    with pytest.raises(ValueError, match="without framework="), identified(call_id="call-1", response="response-1"):
        bank.pay("ann")
    bank.fault = TimeoutError()
    for raised in (TimeoutError, readmit.ReplayRefused):
        with identified(call_id="call-1", response="response-1", framework="response-1 0"), pytest.raises(raised):
            bank.pay("ann")
    assert bank.paid == ["ann"]


def test_two_calls_of_one_response_are_two_occurrences(stage: Stage, bank: Bank) -> None:
    bank.fault = TimeoutError()
    for call in ("call-1", "call-2"):
        ids = {"call_id": call, "response": "response-1", "framework": f"response-1 {call}"}
        with identified(**ids), pytest.raises(TimeoutError):
            bank.pay("ann")
    assert len(stage.guard.pending()) == 2
    with (
        identified(call_id="call-9", response="response-2", framework="response-2 0"),
        pytest.raises(readmit.ReplayRefused),
    ):
        bank.pay("ann")


def test_another_scope_or_principal_is_another_occurrence(stage: Stage, bank: Bank) -> None:
    bank.fault = TimeoutError()
    with readmit.scope("a"), pytest.raises(TimeoutError):
        bank.pay("ann")
    for name, principal in (("b", None), ("a", "bob"), ("a", "eve")):
        with readmit.scope(name, principal=principal), pytest.raises(TimeoutError):
            bank.pay("ann")
    with readmit.scope("a"), pytest.raises(readmit.ReplayRefused):
        bank.pay("ann")
    assert len(bank.paid) == 4


def test_a_scope_inside_another_keeps_its_principal(bank: Bank) -> None:
    with readmit.scope("outer", principal="ann"):
        with readmit.scope("inner"):
            assert (frame().scope, frame().principal) == ("inner", "ann")
        with readmit.scope("inner", principal="bob"):
            assert frame().principal == "bob"
        assert (frame().scope, frame().principal) == ("outer", "ann")
    assert not has_context()


def test_a_rejected_call_may_be_made_again_and_a_weaker_one_may_not(stage: Stage, bank: Bank) -> None:
    bank.fault = Rejected("declined")
    for _ in range(2):
        with pytest.raises(Rejected):
            bank.pay("ann")
    assert decisions(stage) == ["minted: admit"] * 2, "the exception told its caller: the occurrence is closed"

    bank.fault = NotSent("no mailbox")
    for _ in range(2):
        with pytest.raises(NotSent):
            bank.pay("bob")
    assert decisions(stage)[2:] == ["minted: admit", "open: admit"]


def test_scripts_that_name_no_scope_meet_their_own_open_occurrences(filed: Stage) -> None:
    bank = Bank(filed.guard)
    bank.fault = TimeoutError()
    with pytest.raises(TimeoutError):
        bank.pay("ann")
    again = Bank(filed.restart())
    with pytest.raises(readmit.ReplayRefused):
        again.pay("ann")
    assert again.paid == []


def test_the_environment_names_the_scope(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("READMIT_SCOPE", "nightly")
    stage = Stage()
    Bank(stage.guard).pay("ann")
    assert attributes(stage.spans()[0])["gen_ai.conversation.id"] == "nightly"


@pytest.mark.parametrize("name", ["", None, 7])
def test_names_are_texts(name: Any) -> None:
    for enter in (readmit.scope, readmit.run, lambda n: readmit.occurrence(key=n)):
        with pytest.raises(ValueError, match="is a text that is not empty"), enter(name):
            pass


# -- runs ---------------------------------------------------------------------------------------------------------


def test_a_run_that_is_entered_again_gets_its_recorded_results(filed: Stage) -> None:
    bank = Bank(filed.guard)
    with readmit.run("job-1"):
        assert [bank.pay("ann"), bank.pay("bob")] == ["receipt 1", "receipt 2"]
    bank = Bank(filed.restart())
    with readmit.run("job-1"):
        assert [bank.pay("ann"), bank.pay("bob"), bank.pay("eve")] == ["receipt 1", "receipt 2", "receipt 1"]
    assert bank.paid == ["eve"]
    assert decisions(filed)[-3:] == ["run: return", "run: return", "minted: admit"]


def test_an_equal_call_twice_in_one_run_is_two_occurrences(stage: Stage, bank: Bank) -> None:
    with readmit.run("job-1"):
        assert [bank.pay("ann"), bank.pay("ann")] == ["receipt 1", "receipt 2"]
    with readmit.run("job-1"):
        assert [bank.pay("ann"), bank.pay("ann"), bank.pay("ann")] == ["receipt 1", "receipt 2", "receipt 3"]
    assert bank.paid == ["ann"] * 3


def test_another_run_is_another_call_once_the_first_is_settled(stage: Stage, bank: Bank) -> None:
    for job in ("job-1", "job-2"):
        with readmit.run(job):
            bank.pay("ann")
    bank.pay("ann")
    assert len(bank.paid) == 3

    bank.fault = TimeoutError()
    with readmit.run("job-3"), pytest.raises(TimeoutError):
        bank.pay("ann")
    with readmit.run("job-4"), pytest.raises(readmit.ReplayRefused):
        bank.pay("ann")


def test_a_call_that_fails_gives_its_number_back(stage: Stage, bank: Bank) -> None:
    with readmit.run("job-1"):
        bank.fault = NotSent("not yet")
        with pytest.raises(NotSent):
            bank.pay("ann")
        bank.fault = None
        assert bank.pay("ann") == "receipt 2"
        assert bank.pay("ann") == "receipt 3"
    with readmit.run("job-1"):
        assert [bank.pay("ann"), bank.pay("ann")] == ["receipt 2", "receipt 3"]
    assert len({attributes(s)["readmit.occurrence.id"] for s in stage.spans("execute")}) == 2


def test_a_refused_call_gives_its_number_back(stage: Stage, bank: Bank) -> None:
    with readmit.run("job-1"):
        bank.fault = TimeoutError()
        with pytest.raises(TimeoutError):
            bank.pay("ann")
        for _ in range(2):
            with pytest.raises(readmit.ReplayRefused):
                bank.pay("ann")
        pending = stage.waiting()
        stage.guard.reconcile(pending.occurrence_id, Absent(authoritative=True), epoch=1, by="bob")
        bank.fault = None
        assert bank.pay("ann") == "receipt 2"
    assert decisions(stage) == ["minted: admit", "run: refuse", "run: refuse", "run: admit"]


def test_the_refusal_of_a_denied_or_abandoned_call_advances_the_count(stage: Stage) -> None:
    bank = Bank(stage.guard, approval=True)
    with readmit.run("job-1"):
        with pytest.raises(readmit.ApprovalRequired) as asked:
            bank.pay("ann")
        stage.guard.deny(asked.value.request_id or "", by="bob")
        with pytest.raises(readmit.ApprovalRequired) as denied:
            bank.pay("ann")
        assert denied.value.reason == "denied"
        with pytest.raises(readmit.ApprovalRequired) as anew:
            bank.pay("ann")
        assert anew.value.reason == "permit_missing"
        assert anew.value.occurrence_id != denied.value.occurrence_id
    with readmit.run("job-1"), pytest.raises(readmit.ApprovalRequired) as again:
        bank.pay("ann")
    assert (again.value.reason, again.value.occurrence_id) == ("denied", denied.value.occurrence_id)
    assert bank.paid == []


def test_an_inner_refusal_does_not_advance_the_count_of_the_outer_call(stage: Stage) -> None:
    """What a tool's body raises is its failure, also if it is a refusal of something inside."""
    inner = Bank(stage.guard, approval=True)

    @stage.guard.tool(effect="write", contract=readmit.Contract(effects_through="tools"))
    def outer(to: str) -> str:
        return inner.pay(to)

    with readmit.run("job-1"):
        with pytest.raises(readmit.ApprovalRequired) as asked:
            outer("ann")
        stage.guard.deny(asked.value.request_id or "", by="bob")
        occurrences = set()
        for _ in range(2):
            with pytest.raises(readmit.ApprovalRequired):
                outer("ann")
            occurrences.add(attributes(stage.spans("execute")[-1])["readmit.occurrence.id"])
        assert len(occurrences) == 1


# -- keys ---------------------------------------------------------------------------------------------------------


def test_a_key_is_permanent(filed: Stage) -> None:
    bank = Bank(filed.guard, key="to")
    assert bank.pay("ann") == "receipt 1"
    bank = Bank(filed.restart(), key="to")
    filed.clock.advance(timedelta(days=365))
    with readmit.scope("another conversation"):
        assert bank.pay("ann") == "receipt 1"
    assert bank.paid == []
    assert decisions(filed) == ["minted: admit", "key: return"]


def test_one_key_with_other_arguments_is_a_conflict_that_names_the_parameter(stage: Stage) -> None:
    bank = Bank(stage.guard, key="to")
    bank.pay("ann", 5)
    with pytest.raises(readmit.OccurrenceConflict, match="cents") as conflict:
        bank.pay("ann", 6)
    assert conflict.value.detail == "cents"
    assert len(bank.paid) == 1


def test_after_a_rejection_a_key_starts_over(stage: Stage) -> None:
    bank = Bank(stage.guard, key="to")
    bank.fault = Rejected("declined")
    with pytest.raises(Rejected):
        bank.pay("ann", 5)
    bank.fault = None
    assert bank.pay("ann", 6) == "receipt 2"
    assert bank.pay("ann", 6) == "receipt 2", "where several occurrences carry one key, the newest decides"


def test_a_key_can_come_from_around_the_call(stage: Stage, bank: Bank) -> None:
    for _ in range(2):
        with readmit.occurrence(key="order-1"):
            assert bank.pay("ann") == "receipt 1"
    assert bank.pay("ann") == "receipt 2", "rule 4 never joins a call and a business key"


# -- restarts -----------------------------------------------------------------------------------------------------

PAID_AND_KILLED = """
import os, signal, sys
import readmit

guard = readmit.Guard(journal=sys.argv[1])

@guard.tool(effect="write", name="pay")
def pay(to, cents=5):
    return "receipt of the first process"

pay("ann")
os.kill(os.getpid(), signal.SIGKILL)
"""

KILLED_WHILE_PAYING = """
import os, signal, sys, threading
import readmit

guard = readmit.Guard(journal=sys.argv[1])

@guard.tool(effect="write", name="pay")
def pay(to, cents=5):
    everybody.wait(30)
    os.kill(os.getpid(), signal.SIGKILL)

everybody = threading.Barrier(len(sys.argv) - 2)
for to in sys.argv[2:]:
    threading.Thread(target=pay, args=(to,)).start()
"""


def test_after_a_kill_between_return_and_delivery_the_next_call_gets_the_recorded_result_once(filed: Stage) -> None:
    killed(PAID_AND_KILLED, str(filed.journal))
    bank = Bank(filed.guard)
    assert bank.pay("ann") == "receipt of the first process"
    assert bank.paid == []
    assert decisions(filed) == ["open: return"], "its span says so"
    assert bank.pay("ann") == "receipt 1"
    assert decisions(filed)[1:] == ["minted: admit"]


def test_after_a_kill_in_the_body_the_effect_is_unknown(filed: Stage) -> None:
    killed(KILLED_WHILE_PAYING, str(filed.journal), "ann")
    bank = Bank(filed.guard)
    with pytest.raises(readmit.ReplayRefused) as refused:
        bank.pay("ann")
    assert refused.value.reason == "effect_unknown"
    assert attributes(filed.spans()[-1])["readmit.effect.rule"] == "owner_lost"
    assert filed.waiting().state == "unknown"


# -- what carries the context -------------------------------------------------------------------------------------


def here(*_: object) -> tuple[str | None, str | None]:
    run = frame().run
    return frame().scope, run.id if run is not None else None


async def test_tasks_and_to_thread_carry_scope_and_run() -> None:
    async def task() -> tuple[str | None, str | None]:
        return here()

    with readmit.scope("a"), readmit.run("r"):
        assert await asyncio.create_task(task()) == ("a", "r")
        assert list(await asyncio.gather(task(), task())) == [("a", "r")] * 2
        assert await asyncio.to_thread(here) == ("a", "r")
        async with asyncio.TaskGroup() as group:
            made = group.create_task(task())
    assert made.result() == ("a", "r")


def test_plain_threads_and_executors_need_bind() -> None:
    with ThreadPoolExecutor(1) as pool:
        with readmit.scope("a"), readmit.run("r"):
            bound = readmit.bind(here)
            assert pool.submit(here).result() == (None, None)
            assert pool.submit(bound).result() == ("a", "r")
            assert list(pool.map(bound, range(3))) == [("a", "r")] * 3
        assert pool.submit(bound).result() == ("a", "r"), "it was bound where bind was called"
        assert pool.submit(here).result() == (None, None)


def test_bind_carries_the_epoch_into_a_thread(stage: Stage) -> None:
    seen: list[Epoch] = []

    @stage.guard.tool(effect="write")
    def send(to: str) -> None:
        def work() -> None:
            seen.append(readmit.current())

        thread = threading.Thread(target=readmit.bind(work))
        thread.start()
        thread.join()
        assert seen == [readmit.current()]

    send("ann")
    assert seen[0].number == 1


def test_current_says_what_to_do_in_a_thread_without_context(stage: Stage) -> None:
    errors: list[BaseException] = []

    @stage.guard.tool(effect="write")
    def send(to: str) -> None:
        def work() -> None:
            try:
                readmit.current()
            except readmit.ReadmitError as error:
                errors.append(error)

        thread = threading.Thread(target=work)
        thread.start()
        thread.join()

    send("ann")
    assert "a plain thread needs readmit.bind" in str(errors[0])


def test_bind_is_not_for_coroutine_functions() -> None:
    async def work() -> None: ...

    with pytest.raises(TypeError, match="a task carries the context it is made in"):
        readmit.bind(work)


async def test_calls_of_one_run_in_parallel_keep_their_results(stage: Stage) -> None:
    paid: list[str] = []

    @stage.guard.tool(effect="write")
    async def pay(to: str) -> str:
        paid.append(to)
        await asyncio.sleep(0)
        return f"receipt of {to}"

    for _ in range(2):
        with readmit.run("job-1"):
            assert await asyncio.gather(*(pay(to) for to in "abc")) == [f"receipt of {to}" for to in "abc"]
    assert paid == ["a", "b", "c"]


# -- inside an epoch ----------------------------------------------------------------------------------------------


def test_current_gives_ids_a_stable_key_and_takes_evidence(stage: Stage) -> None:
    keys: list[str] = []

    @stage.guard.tool(effect="write", key="order", contract=readmit.Contract(idempotent=True))
    def pay(order: str) -> str:
        keys.append(readmit.current().idempotency_key)
        if len(keys) == 1:
            raise TimeoutError
        return "paid"

    with pytest.raises(TimeoutError):
        pay("order-1")
    assert pay("order-1") == "paid"
    assert keys[0] == keys[1]
    assert len(keys[0]) == 32


@pytest.mark.parametrize(
    ("state", "receipt", "told"),
    [
        ("committed", "", ("committed", "contract")),
        ("committed", "of our own: {key}", ("committed", "proof")),
        ("committed", "of theirs", ("committed", "contract")),
        ("rejected", "", ("rejected", "contract")),
        ("not_sent", "", ("not_sent", "contract")),
    ],
)
@pytest.mark.parametrize("raises", [True, False])
def test_what_a_tool_records_of_its_effect_stands(
    stage: Stage, state: Any, receipt: str, told: tuple[str, str], raises: bool
) -> None:
    @stage.guard.tool(effect="write")
    def pay(to: str) -> str:
        epoch = readmit.current()
        epoch.record_effect(state, receipt=receipt.format(key=epoch.idempotency_key))
        if raises:
            raise TimeoutError
        return "that was it"

    if raises:
        with pytest.raises(TimeoutError):
            pay("ann")
    else:
        pay("ann")
    said = attributes(stage.spans("execute")[0])
    assert (said["readmit.effect.state"], said["readmit.effect.strength"]) == told
    assert said["readmit.effect.rule"] == "tool.recorded"


def test_a_state_that_no_tool_can_know_is_refused(stage: Stage) -> None:
    @stage.guard.tool(effect="write")
    def pay(to: str) -> None:
        readmit.current().record_effect("unknown")  # type: ignore[arg-type]

    with pytest.raises(ValueError, match="write 'not_sent', 'rejected' or 'committed'"):
        pay("ann")
