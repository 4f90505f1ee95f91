"""Ways in which an effect once happened twice, or a person was misled: each stays shut."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import httpx
import pytest

import readmit
from readmit import (
    Approval,
    ApprovalRequired,
    Contract,
    JournalUnavailable,
    OccurrenceConflict,
    RecoveryPending,
    ReplayRefused,
)
from readmit.testing import INVALID, EffectServer
from tests.middleware.stage import Stage


def loses_its_first_answer(happened: list[str]) -> Callable[..., str]:
    def act(order: str, cents: int = 5) -> str:
        happened.append(order)
        if len(happened) == 1:
            raise OSError("the answer is lost")
        return order

    return act


def opened(path: Path, **given: Any) -> readmit.Guard:
    return readmit.Guard(journal=path, **given)


def test_what_a_tool_records_does_not_undo_what_another_send_did(tmp_path: Path) -> None:
    """A first bank declines and echoes our reference, a second one pays: the approval is used up."""
    with EffectServer() as server, httpx.Client(base_url=server.url) as client:
        guard = opened(tmp_path / "readmit.db")
        readmit.instrument(client, guard=guard)
        server.script("/declines", [INVALID])

        @guard.tool(effect="write", key="order", approval=True, name="pay")
        def pay(order: str) -> str:
            if client.post("/declines").status_code == 422:
                readmit.current().record_effect("not_sent", receipt=readmit.current().idempotency_key)
            client.post("/pays")
            return order

        with pytest.raises(ApprovalRequired) as asked:
            pay("o1")
        assert asked.value.request_id is not None
        guard.approve(asked.value.request_id, by="ann")
        assert [pay("o1") for _ in range(3)] == ["o1"] * 3
        assert [effect.path for effect in server.effects] == ["/pays"]
        guard.close()


@pytest.mark.parametrize("after", ["b", None])
def test_under_another_digest_secret_nothing_runs(tmp_path: Path, after: str | None) -> None:
    happened: list[str] = []
    first = opened(tmp_path / "readmit.db", digest_secret="a")
    with pytest.raises(OSError, match="lost"):
        first.tool(effect="write", name="pay")(loses_its_first_answer(happened))("o1")
    first.close()
    second = opened(tmp_path / "readmit.db", digest_secret=after)
    with pytest.raises(JournalUnavailable, match="digest_secret"):
        second.tool(effect="write", name="pay")(loses_its_first_answer(happened))("o1")
    assert [waiting.state for waiting in second.pending()] == ["unknown"]  # people need no secret
    second.close()
    assert happened == ["o1"]


@pytest.mark.parametrize(
    ("before", "after"),
    [({}, {"key": "order"}), ({"key": "order"}, {}), ({}, {"digest_with": {"order": str.upper}})],
    ids=["a key is added", "a key is removed", "digest_with is added"],
)
def test_a_tool_that_is_declared_otherwise_does_not_pass_unseen(
    tmp_path: Path, before: dict[str, Any], after: dict[str, Any]
) -> None:
    happened: list[str] = []
    first = opened(tmp_path / "readmit.db")
    with pytest.raises(OSError, match="lost"):
        first.tool(effect="write", name="pay", **before)(loses_its_first_answer(happened))("o1")
    first.close()
    second = opened(tmp_path / "readmit.db")
    with pytest.raises(OccurrenceConflict) as refused:
        second.tool(effect="write", name="pay", **after)(loses_its_first_answer(happened))("o1")
    assert refused.value.detail == "signature"
    second.close()
    assert happened == ["o1"]


def test_a_stray_send_keeps_an_epoch_from_reading_as_not_sent(tmp_path: Path) -> None:
    with EffectServer() as server, httpx.Client(base_url=server.url) as client:
        guard = opened(tmp_path / "readmit.db")
        readmit.instrument(client, guard=guard)

        @guard.tool(effect="write", contract=Contract(effects_through="http"), name="pay")
        def pay(order: str) -> None:
            thread = threading.Thread(target=client.post, args=("/pays",))
            thread.start()
            thread.join()
            raise ValueError("after it")

        with pytest.raises(ValueError, match="after it"):
            pay("o1")
        with pytest.raises(ReplayRefused, match="may have had its effect"):
            pay("o1")
        assert len(server.effects) == 1
        guard.close()


def test_a_request_names_whom_it_would_permit_and_a_result_is_its_callers(tmp_path: Path) -> None:
    guard = opened(tmp_path / "readmit.db")
    pay = guard.tool(effect="write", key="order", approval=True, name="pay")(loses_its_first_answer(["earlier"]))
    with readmit.scope("shop", principal="ann"), pytest.raises(ApprovalRequired) as asked:
        pay("o1")
    assert asked.value.request_id is not None
    guard.approve(asked.value.request_id, by="carol")
    with readmit.scope("shop", principal="bob"), pytest.raises(ApprovalRequired) as again:
        pay("o1")
    (waiting,) = guard.pending()
    assert (waiting.principal, waiting.request_id) == ("bob", again.value.request_id)
    assert again.value.request_id is not None
    guard.approve(again.value.request_id, by="carol")
    with readmit.scope("shop", principal="bob"):
        assert [pay("o1"), pay("o1")] == ["o1", "o1"]
    with readmit.scope("shop", principal="ann"), pytest.raises((ReplayRefused, RecoveryPending)):
        pay("o1")
    guard.close()


@pytest.mark.parametrize(
    "given",
    [
        {"rejected": 401},
        {"rejected": ("401",)},
        {"reads": "GET"},
        {"volatile": "at"},
        {"volatile": (b"at",)},
        {"key_lifetime": 60},
    ],
    ids=str,
)
def test_a_contract_says_what_to_write_instead(given: dict[str, Any]) -> None:
    with pytest.raises(ValueError, match="write"):
        Contract(**given)


def test_a_key_that_is_kept_for_no_known_time_justifies_nothing_and_that_is_said(tmp_path: Path) -> None:
    guard = opened(tmp_path / "readmit.db")
    happened: list[str] = []
    contract = Contract(idempotency_key="Idempotency-Key")
    pay = guard.tool(effect="write", name="pay", contract=contract)(loses_its_first_answer(happened))
    with pytest.raises(OSError, match="lost"):
        pay("o1")
    with pytest.raises(ReplayRefused, match="the contract names an idempotency_key and no key_lifetime"):
        pay("o1")
    assert happened == ["o1"]
    guard.close()


async def test_arguments_that_another_task_changes_after_the_approval_do_not_run(filed: Stage) -> None:
    ran: list[int] = []

    @filed.guard.tool(effect="write", name="pay", approval=True)
    async def pay(order: dict[str, int]) -> None:
        ran.append(order["cents"])

    order = {"cents": 5}
    with pytest.raises(ApprovalRequired) as asked:
        await pay(order)
    filed.guard.approve(asked.value.request_id or "", by="ann")

    async def change() -> None:
        order["cents"] = 5000

    changed, _ = await asyncio.gather(pay(order), change(), return_exceptions=True)
    assert isinstance(changed, OccurrenceConflict)
    assert "changed while it was being admitted" in str(changed)
    assert ran == []
    await pay({"cents": 5})  # nothing was sent, so the approval still holds for what it showed
    assert ran == [5]
    with pytest.raises(ApprovalRequired):
        await pay({"cents": 5000})


def test_arguments_that_a_hook_changes_do_not_run(filed: Stage) -> None:
    ran: list[int] = []
    raised = False

    def price(arguments: Mapping[str, Any]) -> str:
        if raised:
            arguments["order"]["cents"] = 5000
        return "v1"

    @filed.guard.tool(effect="write", name="pay", approval=Approval(target=price))
    def pay(order: dict[str, int]) -> None:
        ran.append(order["cents"])

    with pytest.raises(ApprovalRequired) as asked:
        pay({"cents": 5})
    filed.guard.approve(asked.value.request_id or "", by="ann")
    raised = True
    with pytest.raises(OccurrenceConflict, match="changed while it was being admitted"):
        pay({"cents": 5})
    raised = False
    pay({"cents": 5})
    assert ran == [5]


@pytest.mark.parametrize("interrupt", [KeyboardInterrupt, SystemExit])
def test_an_interrupt_while_arguments_are_read_again_leaves_nothing_in_flight(
    filed: Stage, interrupt: type[BaseException]
) -> None:
    ran: list[str] = []
    reads = 0

    def text_of(order: str) -> str:
        nonlocal reads
        reads += 1
        if reads == 3:  # once for the call that asked, twice for the one that was approved
            raise interrupt
        return order

    @filed.guard.tool(effect="write", name="pay", approval=True, digest_with={"order": text_of})
    def pay(order: str) -> None:
        ran.append(order)

    with pytest.raises(ApprovalRequired) as asked:
        pay("o1")
    filed.guard.approve(asked.value.request_id or "", by="ann")
    with pytest.raises(interrupt):
        pay("o1")
    assert reads == 3
    (waiting,) = filed.guard.pending()
    assert (waiting.state, ran) == ("not_sent", [])
    pay("o1")
    assert ran == ["o1"]
