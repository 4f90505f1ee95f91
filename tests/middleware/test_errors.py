"""The tree of errors: each says what happened, to what, and what to do; none invites a model to repeat a call."""

from __future__ import annotations

import copy
import pickle
import re
from typing import Any

import pytest

import readmit
from readmit import _errors
from readmit._contract import NotSent, Rejected
from readmit._errors import refused
from readmit._model import Challenge, Refusal
from readmit.journal import SQLiteJournal

REASONS = list(Refusal)

TREE = {
    readmit.ReadmitError: Exception,
    readmit.Refused: readmit.ReadmitError,
    readmit.ApprovalRequired: readmit.Refused,
    readmit.RecoveryPending: readmit.Refused,
    readmit.ReplayRefused: readmit.Refused,
    readmit.OccurrenceConflict: readmit.Refused,
    readmit.JournalUnavailable: readmit.ReadmitError,
    readmit.OperatorError: readmit.ReadmitError,
}


def test_the_tree_is_the_one_that_is_drawn() -> None:
    for error, parent in TREE.items():
        assert error.__bases__ == (parent,)
        assert re.search(rf"[ ─]{error.__name__}\b", _errors.__doc__ or ""), f"{error.__name__} is not drawn"
    for error in (NotSent, Rejected):
        assert error.__bases__ == (Exception,), "a tool's own word, not a refusal"


CLASSES = {
    Refusal.CONFLICT: readmit.OccurrenceConflict,
    Refusal.ALREADY_COMMITTED: readmit.ReplayRefused,
    Refusal.DENIED: readmit.ApprovalRequired,
    Refusal.ABANDONED: readmit.ReplayRefused,
    Refusal.REENTRANT: readmit.ReplayRefused,
    Refusal.IN_FLIGHT: readmit.ReplayRefused,
    Refusal.RECOVERY_PENDING: readmit.RecoveryPending,
    Refusal.PERMIT_MISSING: readmit.ApprovalRequired,
    Refusal.PERMIT_EXPIRED: readmit.ApprovalRequired,
    Refusal.PERMIT_STALE: readmit.ApprovalRequired,
    Refusal.PERMIT_CONSUMED: readmit.ApprovalRequired,
    Refusal.WRONG_PRINCIPAL: readmit.ApprovalRequired,
    Refusal.WRONG_EXECUTOR: readmit.ApprovalRequired,
    Refusal.EFFECT_UNKNOWN: readmit.ReplayRefused,
}


@pytest.mark.parametrize("reason", REASONS)
def test_each_reason_has_its_class(reason: Refusal) -> None:
    assert type(refused("o-1", "pay", reason)) is CLASSES[reason]


def full(reason: Refusal) -> readmit.Refused:
    return refused(
        "o-1",
        "pay",
        reason,
        detail="cents",
        gates=("recovery", "authority", "effect"),
        remedies=("sign_in", "approve", "reconcile", "accept", "compensate", "abandon"),
        request_id="r-1",
        challenges=(Challenge(raw='Bearer realm="private"', scheme="bearer"),),
    )


@pytest.mark.parametrize("reason", REASONS)
def test_each_error_says_what_happened_to_what_and_what_to_do(reason: Refusal) -> None:
    said = str(full(reason))
    assert said.startswith("pay: ")
    assert "(cents)" in said
    assert "closed: recovery, authority, effect" in said
    assert "what ends it: sign_in, approve, reconcile, accept, compensate, abandon" in said
    assert "request r-1 waits for a verdict" in said
    assert said.endswith("[occurrence o-1]")
    assert len({str(refused("o", "t", r)) for r in REASONS}) == len(REASONS)


def test_waiting_for_a_verdict_alone_is_a_missing_approval() -> None:
    """The call that asks and those that come while nobody has answered are taken by one `except`."""
    for detail, error in (
        ("confirmation", readmit.ApprovalRequired),
        ("challenge, confirmation", readmit.RecoveryPending),
    ):
        assert type(refused("o-1", "pay", Refusal.RECOVERY_PENDING, detail=detail)) is error


def test_two_verdicts_that_conflict_are_not_two_calls_that_do() -> None:
    calls = refused("o-1", "pay", Refusal.CONFLICT, detail="cents", gates=("identity",))
    verdicts = refused("o-1", "pay", Refusal.CONFLICT, detail="contradictory verdicts", gates=("authority",))
    assert "give it one of its own" in str(calls) and "approved and denied" in str(verdicts)
    assert not re.search(INVITING, verdicts.for_model, re.IGNORECASE)


INVITING = r"try|again(?! changes nothing)|re-?run|re-?submit|resend|later|please|readmit |call it|\bcan be\b"


@pytest.mark.parametrize("reason", REASONS)
def test_no_text_for_a_model_invites_it_to_repeat_the_call(reason: Refusal) -> None:
    text = full(reason).for_model
    assert not re.search(INVITING, text, re.IGNORECASE), text
    assert not re.search(r"`|\(\)|--|sign_in|approve\b|accept\b", text), f"a command: {text}"
    assert re.search(r"person|operator|user|will not be run|cannot be repeated|already running", text)


@pytest.mark.parametrize("reason", REASONS)
def test_a_text_for_a_model_holds_nothing_private(reason: Refusal) -> None:
    text = full(reason).for_model
    assert text.startswith("pay was not run. ")
    assert text.endswith("Reference: o-1.")
    for private in ("Bearer", "realm", "cents", "r-1"):
        assert private not in text


@pytest.mark.parametrize("reason", REASONS)
@pytest.mark.parametrize("again", [copy.copy, copy.deepcopy, lambda e: pickle.loads(pickle.dumps(e))])
def test_a_refusal_survives_copies_and_pickling(reason: Refusal, again: Any) -> None:
    error = full(reason)
    error.add_note("seen in a worker")
    other = again(error)
    assert type(other) is type(error)
    assert vars(other) == vars(error)
    assert (str(other), other.for_model, other.args) == (str(error), error.for_model, error.args)


def test_the_other_errors_survive_pickling(tmp_path: Any) -> None:
    with pytest.raises(readmit.JournalUnavailable) as unavailable:
        SQLiteJournal(tmp_path / "nowhere" / "readmit.db")
    errors = [unavailable.value, readmit.OperatorError("no such occurrence"), NotSent("n"), Rejected("r")]
    errors.append(readmit.DigestError("pay", "connection", "socket.socket"))
    for error in errors:
        other = pickle.loads(pickle.dumps(error))
        assert (type(other), str(other)) == (type(error), str(error))


def test_a_model_is_told_of_an_effect_that_is_not_known_whatever_the_reason() -> None:
    """Two gates are shut: that a person must approve is not all there is to say."""
    consumed = full(Refusal.PERMIT_CONSUMED).for_model
    assert "used by an earlier attempt" in consumed and "may have taken effect" in consumed
    signs_in = full(Refusal.RECOVERY_PENDING).for_model
    assert "to sign in" in signs_in and "may have taken effect" in signs_in
    alone = refused("o-1", "pay", Refusal.PERMIT_EXPIRED, gates=("authority",), remedies=("approve", "abandon"))
    assert "may have taken effect" not in alone.for_model
