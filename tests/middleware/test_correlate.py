"""Results find their calls, or nobody guesses: every order of arrival gives the same answer or the same conflict."""

from __future__ import annotations

import itertools
import pickle
import time
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from readmit import CallResult, Correlation, CorrelationConflict, PendingCall, correlate


def call(occurrence: str, call_id: str | None = "x", *, tool: str = "pay", digest: str = "d") -> PendingCall:
    position = int("".join(filter(str.isdigit, occurrence)) or 0)
    return PendingCall(occurrence_id=occurrence, tool=tool, digest=digest, call_id=call_id, position=position)


def of(occurrence: str, payload: Any, call_id: str | None = None) -> CallResult:
    return CallResult(payload=payload, occurrence_id=occurrence, call_id=call_id)


def loose(payload: Any, call_id: str | None = "x") -> CallResult:
    return CallResult(payload=payload, call_id=call_id)


def outcome(calls: list[PendingCall], results: list[CallResult]) -> Any:
    """What comes of it, without what depends on how often a result arrived."""
    try:
        answer = correlate(calls, results)
    except CorrelationConflict as conflict:
        return conflict.conflicts
    return {o: r.payload for o, r in answer.bound.items()}, [c.occurrence_id for c in answer.pending]


def bound(calls: list[PendingCall], *results: CallResult) -> dict[str, Any]:
    """What is bound, whatever the order."""
    answers = [outcome(calls, list(order)) for order in itertools.permutations(results)]
    assert all(answer == answers[0] for answer in answers)
    assert isinstance(answers[0][0], dict), answers[0]
    return answers[0][0]


def conflicts(calls: list[PendingCall], *results: CallResult) -> list[str]:
    """Why it does not fit, whatever the order."""
    answers = [outcome(calls, list(order)) for order in itertools.permutations(results)]
    assert all(answer == answers[0] for answer in answers)
    assert all(conflict.digests for conflict in answers[0])
    return [conflict.why for conflict in answers[0]]


TWO = [call("o1"), call("o2")]

# -- results that name their occurrence -------------------------------------------------------------------------------


def test_identified_results_go_where_they_say_whatever_the_order() -> None:
    """I05: results of parallel calls come back in another order."""
    calls = [call(f"o{n}", f"c{n}") for n in range(1, 5)]
    results = [of(f"o{n}", f"r{n}", f"c{n}") for n in (3, 1, 4, 2)]
    assert bound(calls, *results) == {"o1": "r1", "o2": "r2", "o3": "r3", "o4": "r4"}
    assert list(correlate(calls, results).bound) == ["o1", "o2", "o3", "o4"], "in the order of the calls"


def test_an_identified_result_reserves_its_slot_before_one_without_an_id() -> None:
    assert bound(TWO, loose("anonymous"), of("o1", "named")) == {"o1": "named", "o2": "anonymous"}
    assert bound(TWO, loose("anonymous"), of("o2", "named", "x")) == {"o1": "anonymous", "o2": "named"}


def test_two_calls_of_one_id_with_equal_results() -> None:
    assert bound(TWO, of("o1", "ok"), of("o2", "ok")) == {"o1": "ok", "o2": "ok"}
    assert bound(TWO, of("o1", "ok"), loose("ok")) == {"o1": "ok", "o2": "ok"}


def test_an_equal_duplicate_is_inert() -> None:
    assert bound(TWO, of("o1", {"a": 1, "b": 2}), of("o1", {"b": 2, "a": 1})) == {"o1": {"a": 1, "b": 2}}
    answer = correlate([call("o1")], [of("o1", "ok"), of("o1", "ok"), loose("ok")])
    assert (len(answer.inert), answer.pending, answer.unpaired) == (2, (), ())


def test_conflicting_duplicates_list_both_payloads() -> None:
    one, other = of("o1", "paid"), of("o1", "declined")
    with pytest.raises(CorrelationConflict) as raised:
        correlate(TWO, [one, other])
    (conflict,) = raised.value.conflicts
    assert (conflict.why, conflict.occurrence_id) == ("two_results", "o1")
    assert conflict.digests == tuple(sorted((one.digest, other.digest)))
    for digest in conflict.digests:
        assert digest[:16] in str(raised.value)
    assert pickle.loads(pickle.dumps(raised.value)).conflicts == raised.value.conflicts


def test_equality_is_that_of_the_canonical_digest() -> None:
    assert conflicts([call("o1")], of("o1", 1), of("o1", True)) == ["two_results"]
    assert conflicts([call("o1")], of("o1", 1), of("o1", 1.0)) == ["two_results"]


def test_ids_that_disagree_fail_closed() -> None:
    calls = [call("o1", "c1"), call("o2", "c2"), call("o3", None)]
    assert conflicts(calls, of("o1", "r", "c2")) == ["ids_disagree"]
    assert conflicts(calls, of("o1", "r", "c9")) == ["ids_disagree"]
    assert conflicts(calls, of("o3", "r", "c2")) == ["ids_disagree"]
    assert bound(calls, of("o3", "r", "made up by the host")) == {"o3": "r"}


def test_an_occurrence_that_does_not_wait_here_fails_closed() -> None:
    assert conflicts(TWO, of("o9", "r")) == ["unknown_occurrence"]


# -- results that do not ----------------------------------------------------------------------------------------------


def test_the_only_call_of_an_id_gets_its_result() -> None:
    assert bound([call("o1", "c1"), call("o2", "c2")], loose("r2", "c2")) == {"o2": "r2"}


def test_the_only_call_that_remains_gets_a_result_without_any_id() -> None:
    calls = [call("o1", "c1"), call("o2", ""), call("o3", None)]
    assert bound(calls, loose("r1", "c1"), of("o3", "r3"), loose("r2", None)) == {"o1": "r1", "o2": "r2", "o3": "r3"}


def test_what_cannot_be_paired_waits_and_is_kept() -> None:
    answer = correlate(TWO, [loose("which?")])
    assert (dict(answer.bound), [c.occurrence_id for c in answer.pending]) == ({}, ["o1", "o2"])
    assert [result.payload for result in answer.unpaired] == ["which?"]
    assert answer.known == ()


def test_as_many_results_as_equal_calls_make_their_effects_known() -> None:
    """I07: the provider leaves ids empty; both calls ran, and neither is reported as interrupted."""
    calls = [call("o1", ""), call("o2", "")]
    for payloads in (("one", "other"), ("ok", "ok")):
        answer = correlate(calls, [loose(p, "") for p in payloads])
        assert (dict(answer.bound), answer.known) == ({}, ("o1", "o2"))
        assert sorted(r.payload for r in answer.unpaired) == sorted(payloads)


def test_calls_that_are_not_equal_are_not_known_by_counting() -> None:
    """I03: one id for two different calls."""
    answer = correlate([call("o1", digest="d1"), call("o2", digest="d2")], [loose("a"), loose("b")])
    assert (dict(answer.bound), answer.known, len(answer.unpaired)) == ({}, (), 2)


def test_an_echo_of_what_is_bound_makes_nothing_known() -> None:
    three = [*TWO, call("o3")]
    assert correlate(three, [of("o1", "ok"), loose("ok"), loose("other")]).known == ()
    assert correlate(three, [of("o1", "ok"), loose("new"), loose("other")]).known == ("o2", "o3")


def test_a_leftover_that_equals_a_bound_result_is_inert() -> None:
    assert bound(TWO, of("o1", "a"), of("o2", "b"), loose("a"), loose("b")) == {"o1": "a", "o2": "b"}
    assert bound(TWO, of("o1", "a"), loose("a"), loose("b")) == {"o1": "a", "o2": "b"}


def test_a_leftover_that_equals_none_fails_closed() -> None:
    assert conflicts(TWO, of("o1", "a"), of("o2", "b"), loose("c")) == ["no_call"]
    assert conflicts(TWO, of("o1", "a"), loose("b"), loose("c")) == ["no_call"]
    assert conflicts([call("o1")], loose("a"), loose("b")) == ["two_results"]
    assert conflicts([call("o1")], of("o1", "a"), loose("b")) == ["two_results"]
    assert conflicts(TWO, loose("a", "of no call")) == ["no_call"]
    assert conflicts(TWO, loose("a"), loose("b"), loose("c")) == ["no_call"]


def test_every_conflict_is_named_at_once() -> None:
    calls = [call("o1", "c1"), call("o2", "c2")]
    results = [of("o9", "r"), of("o1", "a"), of("o1", "b"), loose("c", "c2"), loose("d", "c2")]
    assert conflicts(calls, *results) == ["two_results", "two_results", "unknown_occurrence"]


def test_an_id_that_was_used_in_an_earlier_turn_is_no_matter() -> None:
    """I01: a batch is one response; what another one had under the same id takes no part."""
    assert bound([call("turn2", "call_1")], loose("r2", "call_1")) == {"turn2": "r2"}


# -- what is handed in ------------------------------------------------------------------------------------------------


def test_two_calls_with_one_occurrence_id_are_an_error() -> None:
    with pytest.raises(ValueError, match="one occurrence id: o1"):
        correlate([call("o1"), call("o1")], [])


def test_a_payload_that_cannot_be_compared_is_an_error() -> None:
    with pytest.raises(TypeError, match="result of o1 holds a object"):
        of("o1", object())


def test_nothing_gives_nothing() -> None:
    assert correlate([], []) == Correlation({}, ())
    assert correlate(TWO, []).pending == tuple(TWO)


# -- any order, any number --------------------------------------------------------------------------------------------

IDS = st.sampled_from([None, "", "c1", "c2"])
CALLS = st.lists(
    st.builds(
        PendingCall,
        occurrence_id=st.sampled_from([f"o{n}" for n in range(6)]),
        tool=st.sampled_from(["pay", "look"]),
        digest=st.sampled_from(["d1", "d2"]),
        call_id=IDS,
        position=st.integers(0, 3),
    ),
    max_size=5,
    unique_by=lambda c: c.occurrence_id,
)
RESULTS = st.lists(
    st.builds(
        CallResult,
        payload=st.sampled_from(["a", "b", 1, True, {"k": [1]}]),
        occurrence_id=st.none() | st.sampled_from([f"o{n}" for n in range(6)]),
        call_id=IDS,
    ),
    max_size=6,
)


@given(CALLS, RESULTS, st.data())
def test_any_permutation_and_duplication_gives_the_same(
    calls: list[PendingCall], results: list[CallResult], data: st.DataObject
) -> None:
    again = data.draw(st.lists(st.sampled_from(results))) if results else []
    other = data.draw(st.permutations([*results, *again]))
    assert outcome(calls, results) == outcome(data.draw(st.permutations(calls)), list(other))


@given(CALLS, RESULTS)
def test_nothing_is_lost_nor_bound_to_a_call_of_another_id(calls: list[PendingCall], results: list[CallResult]) -> None:
    try:
        answer = correlate(calls, results)
    except CorrelationConflict:
        return
    assert len(answer.bound) + len(answer.unpaired) + len(answer.inert) == len(results)
    assert sorted([*answer.bound, *(c.occurrence_id for c in answer.pending)]) == sorted(c.occurrence_id for c in calls)
    by_id = {c.occurrence_id: c for c in calls}
    taken = [id(r) for r in answer.bound.values()]
    assert len(taken) == len(set(taken)), "one result for two calls"
    for occurrence, result in answer.bound.items():
        assert result.occurrence_id in (None, occurrence)
        if result.occurrence_id is None and result.call_id:
            assert by_id[occurrence].call_id == result.call_id
    known = {r.digest for r in answer.bound.values()}
    assert all(r.digest in known for r in answer.inert)
    assert set(answer.known) <= {c.occurrence_id for c in answer.pending}


@pytest.mark.parametrize("ids", ["each its own", "all the same"])
def test_ten_thousand_calls_take_less_than_a_second(ids: str) -> None:
    calls = [call(f"o{n}", f"c{n}" if ids == "each its own" else "x") for n in range(10_000)]
    results = [of(f"o{n}", f"r{n}") if n % 2 else loose(f"r{n}", f"c{n}") for n in range(10_000)]
    if ids == "all the same":
        results = [loose(f"r{n}") for n in range(10_000)]
    started = time.process_time()
    answer = correlate(calls, results)
    assert time.process_time() - started < 1
    assert len(answer.bound) + len(answer.unpaired) == 10_000
