"""What people do: approvals from request to use, logins, findings, acceptances, and the list they work through."""

from __future__ import annotations

import asyncio
import logging
import threading
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest

import readmit
from readmit import Absent, Approval, Contract, NotSent, Present, Question, Unclear
from readmit._fold import Head
from readmit._model import Accepted, Denied, Event, Granted, Reconciled, RecoveryKind, Suspended
from readmit.journal import Change, SQLiteJournal
from tests.middleware.stage import Stage, attributes, killed
from tests.middleware.test_context import KILLED_WHILE_PAYING


def echo(to: str) -> str:
    return to


class Tool:
    """A tool on a guard: what it really did, and what it raises after that."""

    def __init__(self, guard: readmit.Guard, **told: Any) -> None:
        self.done: list[str] = []
        self.fault: BaseException | None = None

        @guard.tool(effect="write", name="pay", **told)
        def pay(to: str, cents: int = 5) -> str:
            self.done.append(to)
            if self.fault is not None:
                raise self.fault
            return f"receipt {len(self.done)}"

        self.pay: Callable[..., str] = pay

    def refused(self, *arguments: Any) -> readmit.Refused:
        with pytest.raises(readmit.Refused) as refused:
            self.pay(*arguments)
        return refused.value

    def lost(self, *arguments: Any) -> None:
        """A call whose answer gets lost."""
        self.fault = TimeoutError("lost")
        with pytest.raises(TimeoutError):
            self.pay(*arguments)
        self.fault = None


def request_of(refused: readmit.Refused) -> str:
    assert refused.request_id is not None
    return refused.request_id


def events(stage: Stage, occurrence_id: str, kind: type[Event]) -> list[Any]:
    head = stage.guard.show(occurrence_id)
    lanes = (*head.identity, *head.admission, *head.authority, *head.effect, *head.record, *head.delivery)
    return [event for _, event in sorted(lanes, key=lambda r: r[0]) if isinstance(event, kind)]


def newest(stage: Stage) -> dict[str, Any]:
    return attributes(stage.spans("admit")[-1])


# -- an approval, from request to use -----------------------------------------------------------------------------


def test_an_approval_is_asked_for_once_granted_once_and_used_once(stage: Stage) -> None:
    tool = Tool(stage.guard, approval=True)
    first = tool.refused("ann")
    assert isinstance(first, readmit.ApprovalRequired)
    assert (first.reason, first.gates, first.remedies) == ("permit_missing", ("authority",), ("approve", "abandon"))

    second = tool.refused("ann")
    assert isinstance(second, readmit.ApprovalRequired), "the same `except` takes it while nobody has answered"
    assert (second.reason, second.request_id) == ("recovery_pending", first.request_id)
    assert stage.waiting().request_id == first.request_id

    permit = stage.guard.approve(request_of(first), by="bob")
    assert tool.pay("ann") == "receipt 1"
    assert newest(stage)["readmit.admission.justification"] == "first_attempt"
    assert newest(stage)["readmit.permit.id"] == permit
    assert newest(stage)["readmit.permit.state"] == "consumed"
    assert newest(stage)["readmit.trigger"] == "approval"

    third = tool.refused("ann")
    assert third.reason == "permit_missing", "another payment is another occurrence and another request"
    assert third.request_id != first.request_id
    assert tool.done == ["ann"]


def test_a_used_approval_does_not_serve_the_next_epoch(stage: Stage) -> None:
    tool = Tool(stage.guard, approval=True, contract=Contract(idempotent=True))
    stage.guard.approve(request_of(tool.refused("ann")), by="bob")
    tool.lost("ann")
    refused = tool.refused("ann")
    assert (refused.reason, refused.gates) == ("permit_consumed", ("authority",))
    assert (newest(stage)["readmit.permit.state"], newest(stage)["readmit.permit.source"]) == ("consumed", "approval")
    stage.guard.approve(request_of(refused), by="bob")
    assert tool.pay("ann") == "receipt 2"
    assert newest(stage)["readmit.admission.justification"] == "idempotent"


def test_one_approval_is_one_dispatch_however_many_callers_there_are(stage: Stage) -> None:
    tool = Tool(stage.guard, approval=True)
    stage.guard.approve(request_of(tool.refused("ann")), by="bob")
    start = threading.Barrier(8)

    def call() -> str:
        start.wait(10)
        try:
            return tool.pay("ann")
        except readmit.Refused as refused:
            return str(refused.reason)

    with ThreadPoolExecutor(8) as pool:
        said = [call.result() for call in [pool.submit(call) for _ in range(8)]]
    assert tool.done == ["ann"]
    assert "receipt 1" in said
    assert set(said) <= {"receipt 1", "permit_missing", "recovery_pending", "in_flight"}


def test_renewed_authority_says_nothing_about_the_effect(stage: Stage) -> None:
    """The seed failure: the first payment may have arrived, and an approval alone must not send a second one."""
    tool = Tool(stage.guard, approval=True)
    stage.guard.approve(request_of(tool.refused("ann")), by="bob")
    tool.lost("ann")
    refused = tool.refused("ann")
    assert refused.gates == ("authority", "effect")
    stage.guard.approve(request_of(refused), by="bob")
    refused = tool.refused("ann")
    assert (refused.reason, refused.gates) == ("effect_unknown", ("effect",))
    stage.guard.authenticated(principal=None)
    assert tool.refused("ann").reason == "effect_unknown"
    assert tool.done == ["ann"]


def test_repeated_verdicts_are_inert_also_after_use(stage: Stage) -> None:
    tool = Tool(stage.guard, approval=True)
    refused = tool.refused("ann")
    permits = {stage.guard.approve(request_of(refused), by=by) for by in ("bob", "eve")}
    tool.pay("ann")
    permits.add(stage.guard.approve(request_of(refused), by="bob"))
    assert len(permits) == 1
    assert len(events(stage, refused.occurrence_id, Granted)) == 1
    assert tool.refused("ann").reason == "permit_missing"

    denied = request_of(tool.refused("bob"))
    for _ in range(2):
        stage.guard.deny(denied, by="eve")
    assert len(stage.spans("deny")) == 1


@pytest.mark.parametrize("expires", [timedelta(0), timedelta(seconds=-1)])
def test_a_declared_lifetime_is_longer_than_zero(expires: timedelta) -> None:
    with pytest.raises(ValueError, match="expires="):
        Approval(expires=expires)


def test_two_people_who_approve_at_once_grant_one_permit(stage: Stage) -> None:
    refused = Tool(stage.guard, approval=True).refused("ann")
    start = threading.Barrier(8)

    def approve(by: str) -> str:
        start.wait(10)
        return stage.guard.approve(request_of(refused), by=by)

    with ThreadPoolExecutor(8) as pool:
        permits = set(pool.map(approve, [f"person {n}" for n in range(8)]))
    assert len(permits) == 1
    assert len(events(stage, refused.occurrence_id, Granted)) == 1
    assert len(stage.spans("approve")) == 1


def test_an_approval_expires(stage: Stage) -> None:
    tool = Tool(stage.guard, approval=Approval(expires=timedelta(minutes=5)))
    first = tool.refused("ann")
    stage.guard.approve(request_of(first), by="bob")
    stage.clock.advance(timedelta(minutes=6))
    second = tool.refused("ann")
    assert second.reason == "permit_expired"
    assert newest(stage)["readmit.permit.state"] == "expired"
    assert second.request_id not in (None, first.request_id)
    stage.guard.approve(request_of(second), by="bob", expires=timedelta(minutes=10))
    stage.clock.advance(timedelta(minutes=6))
    assert tool.pay("ann") == "receipt 1"


class Waiting(SQLiteJournal):
    """A journal in which an intent waits for ten seconds until others have written theirs."""

    wait: Callable[[], None] = staticmethod(lambda: None)

    def append(self, changes: Sequence[Change], *, durable: bool) -> list[Head]:
        if durable:
            self.wait()
        return super().append(changes, durable=durable)


def test_an_approval_that_expires_while_its_claim_is_written_admits_nothing(tmp_path: Path) -> None:
    journal = Waiting(tmp_path / "readmit.db")
    stage = Stage(journal)
    tool = Tool(stage.guard, approval=Approval(expires=timedelta(minutes=5)))
    first = tool.refused("ann")
    stage.guard.approve(request_of(first), by="bob")
    stage.clock.advance(timedelta(minutes=5) - timedelta(seconds=5))
    journal.wait = lambda: stage.clock.advance(timedelta(seconds=10))
    second = tool.refused("ann")
    assert second.reason == "permit_expired"
    assert tool.done == []
    (epoch,) = stage.guard.show(first.occurrence_id).epochs()
    assert epoch.proved_not_sent, "the claim is given back"

    stage.guard.approve(request_of(second), by="bob")
    assert tool.pay("ann") == "receipt 1"


@pytest.mark.parametrize("expires", [timedelta(0), timedelta(seconds=-1)])
def test_an_approval_cannot_end_before_it_begins(stage: Stage, expires: timedelta) -> None:
    tool = Tool(stage.guard, approval=True)
    refused = tool.refused("ann")
    with pytest.raises(ValueError, match="expires="):
        stage.guard.approve(request_of(refused), by="bob", expires=expires)
    assert events(stage, refused.occurrence_id, Granted) == []


def test_changed_arguments_make_an_approval_stale(stage: Stage) -> None:
    tool = Tool(stage.guard, approval=True, key="to")
    first = tool.refused("ann", 5)
    stage.guard.approve(request_of(first), by="bob")
    second = tool.refused("ann", 5_000)
    assert (second.reason, second.detail) == ("permit_stale", "arguments")
    assert newest(stage)["readmit.permit.state"] == "stale"
    assert second.occurrence_id == first.occurrence_id
    assert tool.done == []
    stage.guard.approve(request_of(second), by="bob")
    assert tool.pay("ann", 5_000) == "receipt 1"


def test_a_click_on_an_old_card_answers_nothing_newer(stage: Stage) -> None:
    tool = Tool(stage.guard, approval=True, key="to")
    old = tool.refused("ann", 5)
    new = tool.refused("ann", 5_000)
    assert new.request_id != old.request_id
    stage.guard.approve(request_of(old), by="bob")
    assert tool.refused("ann", 5_000).reason == "recovery_pending"
    assert tool.done == []


@pytest.mark.parametrize("before", [False, True], ids=["unanswered", "approved before"])
def test_a_no_to_an_old_card_denies_nothing_newer(stage: Stage, caplog: pytest.LogCaptureFixture, before: bool) -> None:
    tool = Tool(stage.guard, approval=True, key="to")
    old = tool.refused("ann", 5)
    if before:
        stage.guard.approve(request_of(old), by="bob")
    new = tool.refused("ann", 5_000)
    stage.guard.deny(request_of(old), by="bob")
    assert any(f"superseded by {new.request_id}" in r.getMessage() for r in caplog.records)
    assert stage.waiting().request_id == new.request_id
    assert tool.refused("ann", 5_000).reason == "recovery_pending"

    again = tool.refused("ann", 5)
    assert again.reason == "permit_missing", "what was denied does not run on the permit that came before it"
    last = tool.refused("ann", 5_000)
    stage.guard.approve(request_of(last), by="bob")
    assert tool.pay("ann", 5_000) == "receipt 1"


def test_a_challenge_beside_a_request_asks_for_the_sign_in_first(stage: Stage) -> None:
    """Both are unanswered: it is `RecoveryPending`, and names the request too."""
    tool = Tool(stage.guard, approval=True, contract=Contract(idempotent=True))
    stage.guard.approve(request_of(tool.refused("ann")), by="bob")
    tool.lost("ann")
    request = request_of(tool.refused("ann"))
    head = stage.guard.show(stage.waiting().occurrence_id)
    challenged = Suspended(at=stage.clock(), suspension=RecoveryKind.CHALLENGE, id="challenge", epoch=head.last_epoch)
    stage.guard.ports().journal.append([Change(head.id, (challenged,))], durable=False)
    refused = tool.refused("ann")
    assert isinstance(refused, readmit.RecoveryPending)
    assert (refused.request_id, refused.remedies[:2]) == (request, ("sign_in", "approve"))


def test_a_newer_policy_makes_an_approval_stale(filed: Stage) -> None:
    filed.restart(policy_version="1")
    tool = Tool(filed.guard, approval=True)
    filed.guard.approve(request_of(tool.refused("ann")), by="bob")
    tool = Tool(filed.restart(policy_version="2"), approval=True)
    refused = tool.refused("ann")
    assert (refused.reason, refused.detail) == ("permit_stale", "policy")
    filed.guard.approve(request_of(refused), by="bob")
    assert tool.pay("ann") == "receipt 1"


def test_a_changed_target_makes_an_approval_stale(stage: Stage) -> None:
    etag = ["v1"]
    tool = Tool(stage.guard, approval=Approval(target=lambda arguments: (arguments["to"], etag[0])))
    stage.guard.approve(request_of(tool.refused("ann")), by="bob")
    etag[0] = "v2"
    refused = tool.refused("ann")
    assert (refused.reason, refused.detail) == ("permit_stale", "target")
    stage.guard.approve(request_of(refused), by="bob")
    assert tool.pay("ann") == "receipt 1"


def test_a_target_that_cannot_be_compared_says_what_to_return(stage: Stage) -> None:
    tool = Tool(stage.guard, approval=Approval(target=lambda arguments: object()))
    with pytest.raises(TypeError, match=r"pay: target= returned <object.*Return a text or a number"):
        tool.pay("ann")


def test_a_mere_token_refresh_makes_nothing_stale(stage: Stage) -> None:
    tool = Tool(stage.guard, approval=True, contract=Contract(idempotent=True))
    holder = {"subject": "ann", "issuer": "bank", "scopes": "pay read"}
    stage.guard.approve(request_of(tool.refused("ann")), by="bob")
    tool.lost("ann")
    stage.guard.authenticated(principal=None, credential=holder | {"token": "1"})
    refused = tool.refused("ann")
    stage.guard.approve(request_of(refused), by="bob")
    stage.guard.authenticated(principal=None, credential=holder | {"token": "2", "scopes": ["read", "pay"]})
    assert tool.pay("ann") == "receipt 2", "the same subject, issuer and scopes"


def test_a_login_of_somebody_else_makes_an_approval_stale(stage: Stage) -> None:
    tool = Tool(stage.guard, approval=True, contract=Contract(idempotent=True))
    stage.guard.approve(request_of(tool.refused("ann")), by="bob")
    tool.lost("ann")
    stage.guard.authenticated(principal=None, credential={"subject": "ann"})
    stage.guard.approve(request_of(tool.refused("ann")), by="bob")
    stage.guard.authenticated(principal=None, credential={"subject": "eve"})
    refused = tool.refused("ann")
    assert (refused.reason, refused.detail) == ("permit_stale", "login")


def test_a_denial_is_terminal_and_an_equal_call_can_be_asked_anew(stage: Stage) -> None:
    tool = Tool(stage.guard, approval=True)
    first = tool.refused("ann")
    stage.guard.deny(request_of(first), by="bob")
    assert stage.guard.pending() == []
    second = tool.refused("ann")
    assert second.reason == "permit_missing"
    assert second.occurrence_id != first.occurrence_id
    stage.guard.approve(request_of(second), by="bob")
    assert tool.pay("ann") == "receipt 1"
    (denied,) = events(stage, first.occurrence_id, Denied)
    assert (denied.by, denied.via) == ("bob", "api")


def test_a_denied_key_stays_denied(stage: Stage) -> None:
    tool = Tool(stage.guard, approval=True, key="to")
    stage.guard.deny(request_of(tool.refused("ann")), by="bob")
    for _ in range(2):
        refused = tool.refused("ann")
        assert (refused.reason, refused.remedies) == ("denied", ())
        assert newest(stage)["readmit.permit.state"] == "denied"
    assert tool.done == []


def test_after_a_denial_equal_calls_of_a_tool_without_approval_need_one(stage: Stage) -> None:
    needed = [True]
    tool = Tool(stage.guard, approval=Approval(when=lambda arguments: needed[0]))
    stage.guard.deny(request_of(tool.refused("ann")), by="bob")
    needed[0] = False
    assert tool.refused("ann").reason == "permit_missing"
    assert tool.pay("bob") == "receipt 1"


@pytest.mark.parametrize("order", ["approve, deny", "deny, approve"])
def test_contradictory_verdicts_conflict_and_block(stage: Stage, caplog: pytest.LogCaptureFixture, order: str) -> None:
    tool = Tool(stage.guard, approval=True, key="to")
    request = request_of(tool.refused("ann"))
    for verdict in order.split(", "):
        getattr(stage.guard, verdict)(request, by=verdict)
    refused = tool.refused("ann")
    assert isinstance(refused, readmit.OccurrenceConflict)
    assert refused.detail == "contradictory verdicts"
    assert tool.done == []
    assert any("the two verdicts conflict" in r.getMessage() for r in caplog.records)


@pytest.mark.parametrize("by", ["", "  ", None, True])
def test_a_missing_name_is_no_authority(stage: Stage, by: Any) -> None:
    tool = Tool(stage.guard, approval=True)
    request = request_of(tool.refused("ann"))
    for act in (stage.guard.approve, stage.guard.deny):
        with pytest.raises(ValueError, match="by= names the person"):
            act(request, by=by)
    assert tool.refused("ann").reason == "recovery_pending"


def test_a_request_that_nobody_made(stage: Stage) -> None:
    for act in (stage.guard.approve, stage.guard.deny):
        with pytest.raises(readmit.OperatorError, match="holds no approval request nothing"):
            act("nothing", by="bob")
    with pytest.raises(readmit.OperatorError, match="holds no permit nothing"):
        stage.guard.revoke("nothing", by="bob")
    with pytest.raises(readmit.OperatorError, match="holds no occurrence nothing"):
        stage.guard.show("nothing")


def test_a_revoked_approval_is_asked_for_again(stage: Stage) -> None:
    tool = Tool(stage.guard, approval=True)
    permit = stage.guard.approve(request_of(tool.refused("ann")), by="bob")
    for _ in range(2):
        stage.guard.revoke(permit, by="eve")
    refused = tool.refused("ann")
    assert (refused.reason, refused.detail) == ("permit_missing", "revoked")
    assert newest(stage)["readmit.permit.state"] == "revoked"
    stage.guard.approve(request_of(refused), by="bob")
    assert tool.pay("ann") == "receipt 1"
    assert len(stage.spans("revoke")) == 1


def test_a_revoked_login_takes_the_ambient_authority_with_it(stage: Stage) -> None:
    tool = Tool(stage.guard, contract=Contract(idempotent=True))
    tool.lost("ann")
    permit = stage.guard.authenticated(principal=None)
    stage.guard.revoke(permit, by="eve")
    refused = tool.refused("ann")
    assert (refused.reason, refused.request_id is None) == ("permit_missing", False)
    stage.guard.approve(request_of(refused), by="bob")
    assert tool.pay("ann") == "receipt 2"


def test_an_approval_belongs_to_a_principal(stage: Stage) -> None:
    tool = Tool(stage.guard, approval=True, key="to")
    with readmit.scope("s", principal="ann"):
        refused = tool.refused("x")
    stage.guard.approve(request_of(refused), by="bob")
    with readmit.scope("s", principal="eve"):
        wrong = tool.refused("x")
    assert wrong.reason == "wrong_principal"
    assert newest(stage)["readmit.permit.state"] == "granted"
    assert tool.done == []
    with readmit.scope("s", principal="ann"):
        stage.guard.approve(request_of(tool.refused("x")), by="bob")
        assert tool.pay("x") == "receipt 1"
    with readmit.scope("s", principal="eve"):
        assert tool.refused("x").reason == "already_committed", "a recorded result is for its own principal"


def test_an_approval_belongs_to_an_executor(filed: Stage) -> None:
    filed.restart(executor="worker-1")
    tool = Tool(filed.guard, approval=True)
    filed.guard.approve(request_of(tool.refused("ann")), by="bob")
    tool = Tool(filed.restart(executor="worker-2"), approval=True)
    assert tool.refused("ann").reason == "wrong_executor"
    assert tool.done == []


@pytest.mark.parametrize(("answer", "asked"), [(True, True), (False, False), (None, True), ("", True), ("no", True)])
def test_only_false_says_that_nobody_is_needed(stage: Stage, answer: Any, asked: bool) -> None:
    tool = Tool(stage.guard, approval=Approval(when=lambda arguments: answer))
    if asked:
        assert tool.refused("ann").reason == "permit_missing"
    else:
        assert tool.pay("ann") == "receipt 1"


def test_a_hook_that_fails_stops_the_call_before_anything_is_sent(stage: Stage) -> None:
    tool = Tool(stage.guard, approval=Approval(when=lambda arguments: arguments["amount"] > 5))
    with pytest.raises(KeyError):
        tool.pay("ann")
    assert tool.done == []


def test_a_read_with_approval_asks_each_time(stage: Stage) -> None:
    @stage.guard.tool(effect="read", approval=True)
    def look(at: str) -> str:
        return "seen"

    for _ in range(2):
        with pytest.raises(readmit.ApprovalRequired) as refused:
            look("ann")
        stage.guard.approve(request_of(refused.value), by="bob")
        assert look("ann") == "seen"
    assert "readmit.effect.state" not in attributes(stage.spans("execute")[-1])
    assert stage.guard.pending() == []


# -- logins -------------------------------------------------------------------------------------------------------


def test_a_login_reaches_the_open_occurrences_of_its_principal(stage: Stage) -> None:
    tool = Tool(stage.guard)
    for scope, principal in (("a", "ann"), ("b", "ann"), ("a", "bob")):
        with readmit.scope(scope, principal=principal):
            tool.lost("x")
    permit = stage.guard.authenticated(principal="ann", scope="a")
    other = stage.guard.authenticated(principal="ann")
    spans = [(attributes(s)["readmit.permit.id"], attributes(s)["readmit.permit.state"]) for s in stage.spans("login")]
    assert spans == [(permit, "granted"), (other, "granted"), (other, "granted")]


# -- findings -----------------------------------------------------------------------------------------------------


class Asked:
    """A reconcile hook with a prepared answer, and the questions it was asked."""

    def __init__(self, answer: Any) -> None:
        self.answer = answer
        self.questions: list[Question] = []

    def __call__(self, question: Question) -> Any:
        self.questions.append(question)
        if isinstance(self.answer, BaseException):
            raise self.answer
        return self.answer


def test_a_hook_that_finds_the_effect_gives_its_result(stage: Stage) -> None:
    hook = Asked(Present("tx-1", result="receipt of the bank"))
    tool = Tool(stage.guard, reconcile=hook)
    tool.lost("ann")
    assert tool.pay("ann") == "receipt of the bank"
    assert tool.done == ["ann"]
    (question,) = hook.questions
    assert (question.tool, question.epoch, dict(question.arguments or {})) == ("pay", 1, {"to": "ann", "cents": 5})
    assert len(question.idempotency_key) == 32
    assert stage.story("admission.decision") == [
        "admit: admit",
        "execute_tool: admit",
        "admit: reconcile",
        "reconcile:",
        "admit: return",
    ]
    assert attributes(stage.spans("reconcile")[0])["readmit.effect.state"] == "reconciled"
    assert tool.pay("ann") == "receipt 2", "delivered: the next one is meant"


def test_a_hook_that_finds_the_effect_without_a_result(stage: Stage) -> None:
    tool = Tool(stage.guard, reconcile=Asked(Present("tx-1")))
    tool.lost("ann")
    assert tool.refused("ann").reason == "already_committed"
    assert tool.pay("ann") == "receipt 2", "the refusal was the delivery"


def test_a_hook_that_finds_nothing_for_good_admits(stage: Stage) -> None:
    tool = Tool(stage.guard, reconcile=Asked(Absent(authoritative=True)))
    tool.lost("ann")
    assert tool.pay("ann") == "receipt 2"
    assert newest(stage)["readmit.admission.justification"] == "reconciled_absent"


@pytest.mark.parametrize("answer", [Absent(authoritative=False), Unclear("the bank is closed")])
def test_any_other_answer_settles_nothing(stage: Stage, answer: Any) -> None:
    hook = Asked(answer)
    tool = Tool(stage.guard, reconcile=hook)
    tool.lost("ann")
    for _ in range(2):
        assert tool.refused("ann").reason == "effect_unknown"
    assert len(hook.questions) == 2, "asked once in each pass"
    assert tool.done == ["ann"]


def test_a_hook_that_fails_is_an_unclear_answer_that_says_so(stage: Stage, caplog: pytest.LogCaptureFixture) -> None:
    tool = Tool(stage.guard, reconcile=Asked(ConnectionError("bank")))
    tool.lost("ann")
    refused = tool.refused("ann")
    assert refused.reason == "effect_unknown"
    assert refused.detail == "the reconcile hook failed: ConnectionError('bank')"
    (found,) = events(stage, refused.occurrence_id, Reconciled)
    assert found.finding == "unclear"
    assert any("reconcile hook of pay failed" in r.getMessage() for r in caplog.records)


@pytest.mark.parametrize("answer", [True, False, None, "present"])
def test_a_hook_that_answers_with_a_bool_is_an_error_at_the_call(stage: Stage, answer: Any) -> None:
    tool = Tool(stage.guard, reconcile=Asked(answer))
    tool.lost("ann")
    with pytest.raises(readmit.ReadmitError) as raised:
        tool.pay("ann")
    assert f"The reconcile hook of pay returned {answer!r}" in str(raised.value)
    assert "return Present(receipt), Absent(authoritative=True)" in str(raised.value)
    assert not isinstance(raised.value, readmit.Refused)
    assert tool.done == ["ann"]
    assert stage.waiting().state == "unknown"


async def test_an_async_hook_of_an_async_tool_is_awaited(stage: Stage) -> None:
    async def find(question: Question) -> Any:
        await asyncio.sleep(0)
        return Present("tx-1", result="found")

    @stage.guard.tool(effect="write", reconcile=find)
    async def pay(to: str) -> str:
        raise TimeoutError

    with pytest.raises(TimeoutError):
        await pay("ann")
    assert await pay("ann") == "found"


async def test_an_operator_asks_an_async_hook_inside_and_outside_of_an_event_loop(stage: Stage) -> None:
    async def find(question: Question) -> Any:
        await asyncio.sleep(0)
        return Unclear("later")

    @stage.guard.tool(effect="write", reconcile=find)
    async def pay(to: str) -> str:
        raise TimeoutError

    with pytest.raises(TimeoutError):
        await pay("ann")
    occurrence = stage.waiting().occurrence_id
    assert stage.guard.reconcile(occurrence) == Unclear("later")
    assert await asyncio.to_thread(stage.guard.reconcile, occurrence) == Unclear("later")


def test_an_operator_records_what_was_found(stage: Stage) -> None:
    tool = Tool(stage.guard)
    tool.lost("ann")
    pending = stage.waiting()
    answer = stage.guard.reconcile(pending.occurrence_id, Absent(authoritative=True), epoch=pending.epoch, by="bob")
    assert answer == Absent(authoritative=True)
    (found,) = events(stage, pending.occurrence_id, Reconciled)
    assert (found.by, found.via, found.fence, found.strength) == ("bob", "api", 1, "testimony")
    assert tool.pay("ann") == "receipt 2"
    assert newest(stage)["readmit.trigger"] == "operator"
    assert attributes(stage.spans("reconcile")[0])["readmit.epoch"] == 1


def test_what_is_known_cannot_be_accepted(stage: Stage) -> None:
    """Nobody is to believe that a repeat will be made where none will."""
    tool = Tool(stage.guard)
    tool.lost("ann")
    occurrence = stage.waiting().occurrence_id
    stage.guard.reconcile(occurrence, Present("tx"), epoch=1, by="bob")
    with pytest.raises(readmit.OperatorError, match=r"known \(reconciled present\): there is nothing to accept"):
        stage.guard.accept(occurrence, epoch=1, by="bob", statement="twice is fine")


def test_what_was_denied_cannot_be_accepted(stage: Stage) -> None:
    tool = Tool(stage.guard, approval=True)
    asked = tool.refused("ann").request_id
    assert asked is not None
    stage.guard.approve(asked, by="bob")
    tool.lost("ann")
    again = tool.refused("ann").request_id
    assert again is not None
    stage.guard.deny(again, by="bob")
    with pytest.raises(readmit.OperatorError, match="was denied: nothing runs again"):
        stage.guard.accept(stage.waiting().occurrence_id, epoch=1, by="bob", statement="twice is fine")


def test_a_person_sees_what_the_tool_says_that_it_is_asked_for(stage: Stage) -> None:
    show = lambda arguments: f"pay {arguments['cents']} to {arguments['to']}"  # noqa: E731
    tool = Tool(stage.guard, approval=Approval(show=show))
    asked = tool.refused("ann").request_id
    assert (stage.waiting().shown, stage.waiting().request_id) == ("pay 5 to ann", asked)
    (head,) = stage.heads()
    assert head.confirmation is not None and head.confirmation.shown == "pay 5 to ann"


@pytest.mark.parametrize("show", [lambda arguments: None, lambda arguments: 1 / 0], ids=["no text", "fails"])
def test_a_text_that_cannot_be_shown_runs_nothing(stage: Stage, show: Callable[[Any], Any]) -> None:
    tool = Tool(stage.guard, approval=Approval(show=show))
    with pytest.raises((TypeError, ZeroDivisionError), match=r"show= returned None|division"):
        tool.pay("ann")
    assert (tool.done, stage.guard.pending()) == ([], [])


def test_an_operators_finding_needs_a_name_a_finding_and_an_epoch_that_exists(stage: Stage) -> None:
    tool = Tool(stage.guard)
    tool.lost("ann")
    occurrence, reconcile = stage.waiting().occurrence_id, stage.guard.reconcile
    with pytest.raises(ValueError, match="by="):
        reconcile(occurrence, Present("tx"), epoch=1)
    with pytest.raises(readmit.ReadmitError, match="A bool cannot say what was found"):
        reconcile(occurrence, True, epoch=1, by="bob")  # type: ignore[arg-type]
    with pytest.raises(readmit.OperatorError, match="has no epoch 2; it has epochs 1 to 1"):
        reconcile(occurrence, Present("tx"), epoch=2, by="bob")
    with pytest.raises(readmit.OperatorError, match="No reconcile hook of pay is loaded"):
        reconcile(occurrence)


# -- acceptance ---------------------------------------------------------------------------------------------------


def test_an_acceptance_is_used_once_and_lapses(stage: Stage) -> None:
    tool = Tool(stage.guard)
    tool.lost("ann")
    pending = stage.waiting()
    stage.guard.accept(pending.occurrence_id, epoch=1, by="bob", statement="twice is fine")
    tool.lost("ann")
    assert newest(stage)["readmit.admission.justification"] == "ambiguity_accepted"
    assert tool.refused("ann").reason == "effect_unknown"
    with pytest.raises(readmit.OperatorError, match="has moved on to epoch 2: look at it again"):
        stage.guard.accept(pending.occurrence_id, epoch=1, by="bob", statement="twice is fine")
    (accepted,) = events(stage, pending.occurrence_id, Accepted)
    assert (accepted.by, accepted.statement, accepted.epoch) == ("bob", "twice is fine", 1)
    stage.guard.accept(pending.occurrence_id, epoch=2, by="bob", statement="thrice is fine")
    assert tool.pay("ann") == "receipt 3"


def test_an_acceptance_restores_no_authority(stage: Stage) -> None:
    tool = Tool(stage.guard, approval=True)
    stage.guard.approve(request_of(tool.refused("ann")), by="bob")
    tool.lost("ann")
    stage.guard.accept(stage.waiting().occurrence_id, epoch=1, by="bob", statement="twice is fine")
    refused = tool.refused("ann")
    assert (refused.reason, refused.gates) == ("permit_consumed", ("authority",))
    stage.guard.approve(request_of(refused), by="bob")
    assert tool.pay("ann") == "receipt 2"


@pytest.mark.parametrize("statement", ["", "  ", None, True])
def test_an_acceptance_is_in_so_many_words(stage: Stage, statement: Any) -> None:
    tool = Tool(stage.guard)
    tool.lost("ann")
    with pytest.raises(ValueError, match="statement= says in so many words"):
        stage.guard.accept(stage.waiting().occurrence_id, epoch=1, by="bob", statement=statement)


# -- compensation -------------------------------------------------------------------------------------------------


def test_a_compensated_effect_may_be_had_again_with_a_permit_granted_afterwards(stage: Stage) -> None:
    undone: list[Question] = []
    tool = Tool(stage.guard, compensate=undone.append)
    tool.lost("ann")
    pending = stage.waiting()
    stage.guard.compensate(pending.occurrence_id, epoch=1, by="bob")
    (question,) = undone
    assert (question.tool, question.epoch, question.arguments) == ("pay", 1, None)
    assert attributes(stage.spans("compensate")[0])["readmit.effect.state"] == "compensated"
    refused = tool.refused("ann")
    assert (refused.reason, refused.detail) == ("permit_missing", "after compensation")
    stage.guard.approve(request_of(refused), by="bob")
    assert tool.pay("ann") == "receipt 2"
    assert newest(stage)["readmit.admission.justification"] == "compensated"


def test_an_effect_is_undone_once(stage: Stage) -> None:
    undone: list[Question] = []
    tool = Tool(stage.guard, compensate=undone.append)
    tool.lost("ann")
    occurrence = stage.waiting().occurrence_id
    stage.guard.compensate(occurrence, epoch=1, by="bob")
    with pytest.raises(readmit.OperatorError, match="compensated before: nothing was undone twice"):
        stage.guard.compensate(occurrence, epoch=1, by="bob")
    assert len(undone) == 1


def test_two_who_undo_at_once_undo_once(stage: Stage) -> None:
    undone: list[Question] = []

    def refund(question: Question) -> None:
        threading.Event().wait(0.1)
        undone.append(question)

    tool = Tool(stage.guard, compensate=refund)
    tool.lost("ann")
    occurrence = stage.waiting().occurrence_id

    def undo(by: str) -> str:
        try:
            stage.guard.compensate(occurrence, epoch=1, by=by)
        except readmit.OperatorError as error:
            return str(error)
        return "undone"

    with ThreadPoolExecutor(2) as pool:
        said = sorted(pool.map(undo, ("bob", "carol")))
    assert len(undone) == 1
    assert said[1] == "undone"
    assert "compensated before" in said[0]


def test_a_compensation_names_the_newest_epoch(stage: Stage) -> None:
    """What an older epoch did may be what a newer one reported: under a key, or where the tool is idempotent."""
    undone: list[Question] = []
    tool = Tool(stage.guard, contract=Contract(idempotent=True), compensate=undone.append)
    tool.lost("ann")
    tool.lost("ann")
    occurrence = stage.waiting().occurrence_id
    with pytest.raises(readmit.OperatorError, match="moved on to epoch 2: look at it again"):
        stage.guard.compensate(occurrence, epoch=1, by="bob")
    assert not undone
    stage.guard.compensate(occurrence, epoch=2, by="bob")
    assert len(undone) == 1


def test_a_compensation_during_which_an_epoch_began_is_not_recorded(stage: Stage) -> None:
    def refund(question: Question) -> None:
        tool.lost("ann")

    tool = Tool(stage.guard, contract=Contract(idempotent=True), compensate=refund)
    tool.lost("ann")
    occurrence = stage.waiting().occurrence_id
    with pytest.raises(readmit.OperatorError, match=r"epoch 2: look at it again\. The compensate hook has run"):
        stage.guard.compensate(occurrence, epoch=1, by="bob")
    assert stage.waiting().state == "unknown"


def test_a_compensation_that_fails_records_nothing(stage: Stage) -> None:
    def refund(question: Question) -> None:
        raise ConnectionError

    tool = Tool(stage.guard, compensate=refund)
    tool.lost("ann")
    with pytest.raises(ConnectionError):
        stage.guard.compensate(stage.waiting().occurrence_id, epoch=1, by="bob")
    assert stage.waiting().state == "unknown"


async def test_an_async_compensation_of_a_plain_tool(stage: Stage) -> None:
    undone: list[str] = []

    async def refund(question: Question) -> None:
        await asyncio.sleep(0)
        undone.append(question.occurrence_id)

    tool = Tool(stage.guard, compensate=refund)
    tool.lost("ann")
    occurrence = stage.waiting().occurrence_id
    stage.guard.compensate(occurrence, epoch=1, by="bob")
    assert undone == [occurrence]


def test_the_key_of_an_occurrence_changes_with_a_compensation(stage: Stage) -> None:
    keys: list[str] = []

    @stage.guard.tool(effect="write", contract=Contract(idempotent=True))
    def pay(to: str) -> None:
        keys.append(readmit.current().idempotency_key)
        raise TimeoutError

    for _ in range(2):
        with pytest.raises(TimeoutError):
            pay("ann")
    stage.guard.compensate(stage.waiting().occurrence_id, epoch=2, by="bob")
    with pytest.raises(readmit.ApprovalRequired) as refused:
        pay("ann")
    stage.guard.approve(request_of(refused.value), by="bob")
    with pytest.raises(TimeoutError):
        pay("ann")
    assert keys[0] == keys[1] != keys[2]


# -- abandoning ---------------------------------------------------------------------------------------------------


def test_to_abandon_an_unknown_effect_takes_a_statement_which_the_next_equal_call_names(stage: Stage) -> None:
    tool = Tool(stage.guard)
    tool.lost("ann")
    pending = stage.waiting()
    with pytest.raises(ValueError, match="statement="):
        stage.guard.abandon(pending.occurrence_id, by="bob")
    for _ in range(2):
        stage.guard.abandon(pending.occurrence_id, by="bob", statement="it is never looked at again")
    assert stage.guard.pending() == []
    assert len(stage.spans("abandon")) == 1
    assert tool.pay("ann") == "receipt 2"
    after = stage.guard.show(newest(stage)["readmit.occurrence.id"])
    assert after.admissions[0].abandoned == pending.occurrence_id
    tool.pay("ann")
    following = stage.guard.show(newest(stage)["readmit.occurrence.id"])
    assert following.admissions[0].abandoned is None


def test_to_abandon_what_sent_nothing_takes_no_statement(stage: Stage) -> None:
    tool = Tool(stage.guard, approval=True, key="to")
    stage.guard.abandon(tool.refused("ann").occurrence_id, by="bob")
    refused = tool.refused("ann")
    assert (refused.reason, refused.remedies) == ("abandoned", ())
    assert tool.done == []


def test_an_epoch_whose_process_is_gone_can_be_acted_on_at_once(filed: Stage) -> None:
    """What `pending` offers for it, it does; nobody has to call the tool first."""
    given: dict[str, dict[str, Any]] = {
        "accept": {"epoch": 1, "statement": "twice is fine"},
        "compensate": {"epoch": 1},
        "abandon": {"statement": "never mind"},
        "reconcile": {"epoch": 1, "finding": Present("tx-1")},
    }
    killed(KILLED_WHILE_PAYING, str(filed.journal), *given)
    for pending, act in zip(filed.guard.pending(), given, strict=True):
        assert (pending.state, act in pending.remedies) == ("unknown", True)
        getattr(filed.guard, act)(pending.occurrence_id, by="bob", **given[act])
        head = filed.guard.show(pending.occurrence_id)
        assert head.in_flight == ()


# -- the list -----------------------------------------------------------------------------------------------------


def test_pending_lists_everything_that_is_open_oldest_first_with_what_can_end_it(stage: Stage) -> None:
    lost, asked = Tool(stage.guard), stage.guard.tool(effect="write", approval=True, name="sign")(echo)
    with readmit.scope("conversation-7", principal="ann"):
        lost.lost("x")
    stage.clock.advance(timedelta(hours=1))
    with pytest.raises(readmit.ApprovalRequired) as refused:
        asked("y")
    lost.pay("z")
    first, second = stage.guard.pending()
    assert (first.tool, first.scope, first.principal, first.epoch) == ("pay", "conversation-7", "ann", 1)
    assert (first.state, first.recovery) == ("unknown", "clear")
    assert first.remedies == ("reconcile", "accept", "compensate", "abandon")
    assert timedelta(hours=1) < first.age < timedelta(hours=1, seconds=1)
    assert (second.tool, second.epoch, second.state) == ("sign", 0, "")
    assert second.recovery == "suspended (confirmation)"
    assert (second.request_id, second.remedies) == (refused.value.request_id, ("approve", "abandon"))


def test_what_was_denied_while_unknown_is_never_accepted(stage: Stage) -> None:
    tool = Tool(stage.guard, approval=True)
    stage.guard.approve(request_of(tool.refused("ann")), by="bob")
    tool.lost("ann")
    stage.guard.deny(request_of(tool.refused("ann")), by="eve")
    pending = stage.waiting()
    assert (pending.state, pending.remedies) == ("unknown", ("reconcile", "compensate", "abandon"))
    assert tool.refused("ann").remedies == ("reconcile", "compensate", "abandon")
    stage.guard.reconcile(pending.occurrence_id, Absent(authoritative=True), epoch=1, by="bob")
    assert stage.guard.pending() == []


def test_every_refusal_can_be_worked_off_by_what_it_names(stage: Stage) -> None:
    """I7, through the public calls: each remedy that a refusal names is one that an operator can do."""
    known = {"sign_in", "approve", "reconcile", "accept", "compensate", "abandon", "declare_unknown"}
    tool = Tool(stage.guard, approval=True, contract=Contract(accept="protocol"))
    stage.guard.approve(request_of(tool.refused("ann")), by="bob")
    tool.fault = NotSent("weak")
    with pytest.raises(NotSent):
        tool.pay("ann")
    tool.fault = None
    refused = tool.refused("ann")
    assert set(refused.remedies) <= known
    stage.guard.approve(request_of(refused), by="bob")
    refused = tool.refused("ann")
    assert (refused.reason, "accept" in refused.remedies) == ("effect_unknown", True)
    stage.guard.accept(refused.occurrence_id, epoch=1, by="bob", statement="it was only said to be not sent")
    assert tool.pay("ann") == "receipt 2"


# -- the log ------------------------------------------------------------------------------------------------------


def test_one_warning_for_each_refusal(stage: Stage, caplog: pytest.LogCaptureFixture) -> None:
    tool = Tool(stage.guard, approval=True)
    texts = [str(tool.refused("ann")) for _ in range(3)]
    assert [r.getMessage() for r in caplog.records if r.levelno == logging.WARNING] == texts


def test_the_default_guards_functions_speak_to_it() -> None:
    guard = readmit.configure(journal=":memory:")
    try:
        tool = Tool(guard, approval=True, reconcile=Asked(Unclear("?")))
        request = request_of(tool.refused("ann"))
        permit = readmit.approve(request, by="bob")
        tool.lost("ann")
        (pending,) = readmit.pending()
        occurrence = pending.occurrence_id
        assert readmit.show(occurrence).last_epoch == 1
        assert readmit.reconcile(occurrence) == Unclear("?")
        readmit.authenticated(principal=None)
        readmit.revoke(permit, by="bob")
        readmit.accept(occurrence, epoch=1, by="bob", statement="twice")
        readmit.deny(request_of(tool.refused("ann")), by="bob")
        readmit.compensate(occurrence, epoch=1, by="bob")
        with pytest.raises(readmit.OperatorError):
            readmit.declare_unknown(occurrence, epoch=1, by="bob")
        readmit.abandon(occurrence, by="bob")
        assert readmit.pending() == []
    finally:
        guard.close()
