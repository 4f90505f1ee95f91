"""What every store has to do, whatever holds it."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from msgspec import structs

from readmit._fold import Head, fold
from readmit._model import AnyEvent, EffectState
from readmit.journal import Change, Journal, Stale
from tests.journal.facts import (
    SHARED,
    SIGNATURE,
    STORES,
    Opener,
    admitted,
    delivered,
    ended,
    evidence,
    first,
    observed,
    opened,
    query,
)


@pytest.fixture(params=STORES)
def journal(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Journal]:
    journal = STORES[request.param](tmp_path)
    yield journal
    journal.close()


@pytest.fixture(params=SHARED)
def opener(request: pytest.FixtureRequest) -> Opener:
    return SHARED[request.param]


@pytest.fixture
def two(opener: Opener, tmp_path: Path) -> Iterator[tuple[Journal, Journal]]:
    """One journal, opened by two."""
    one, other = opener(tmp_path), opener(tmp_path)
    yield one, other
    one.close()
    other.close()


# -- reading what was written -----------------------------------------------------------------------------------------


def test_an_occurrence_is_what_its_events_say(journal: Journal) -> None:
    events: list[AnyEvent] = [opened(), admitted(journal.owner), ended(), delivered()]
    (head,) = journal.append([first("o1", *events[:2])], durable=True)
    assert head == fold(Head(id="o1"), *events[:2])

    (head,) = journal.append([evidence("o1", *events[2:])], durable=False)
    assert head == fold(Head(id="o1"), *events) == journal.load("o1")
    assert head.version == 4


def test_it_is_the_same_after_it_was_closed(opener: Opener, tmp_path: Path) -> None:
    journal = opener(tmp_path)
    (head,) = journal.append([first("o1", opened(), admitted(journal.owner), ended())], durable=True)
    journal.close()

    journal = opener(tmp_path)
    assert journal.load("o1") == head
    journal.close()


def test_what_is_not_there_is_none(journal: Journal) -> None:
    assert journal.load("nobody") is None
    assert journal.document("nothing") is None
    assert journal.named("no name") == []
    assert list(journal.open()) == []
    assert journal.find(query("d1", "key:x")) == ({}, [], [])


def test_the_open_ones_are_found_by_what_they_are(journal: Journal) -> None:
    journal.append([first("same1", opened())], durable=False)
    journal.append([first("same2", opened(), beside=("same1",))], durable=False)
    journal.append([first("other-digest", opened("d2"))], durable=False)
    seen = ("same1", "same2", "other-digest")
    journal.append([first("other-signature", opened(signature="v1(euros)"), beside=seen)], durable=False)
    journal.append([first("other-scope", opened(scope="t"))], durable=False)

    found = journal.find(query())
    assert [h.id for h in found.open] == ["same1", "same2"]
    assert [h.id for h in found.other_signature] == ["other-signature"]
    assert {h.id for h in journal.find(query(signature="v1(euros)")).other_signature} == set(seen)
    assert sorted(h.id for h in journal.open()) == ["other-digest", "other-scope", "other-signature", "same1", "same2"]


def test_a_closed_one_is_found_by_name_only(journal: Journal) -> None:
    names = (("key:k", 1),)
    journal.append([first("o1", opened(), admitted(journal.owner), ended(), names=names)], durable=False)
    assert [h.id for h in journal.find(query()).open] == ["o1"]

    (head,) = journal.append([evidence("o1", delivered())], durable=False)
    assert head.closed
    found = journal.find(query("d1", names[0][0]))
    assert found.open == []
    assert found.named == {names[0][0]: (1, head)}
    assert list(journal.open()) == []


def test_a_closed_one_that_is_open_again_is_found_again(journal: Journal) -> None:
    events: list[AnyEvent] = [opened(), admitted(journal.owner), ended(), delivered()]
    (head,) = journal.append([first("o1", *events)], durable=False)
    assert head.closed
    journal.append([Change("o1", (admitted(journal.owner, epoch=2, call="again"),), expected=4)], durable=False)
    assert [h.id for h in journal.find(query()).open] == ["o1"]


def test_of_several_under_one_name_the_newest_is_found_and_all_are_listed(journal: Journal) -> None:
    for number in (1, 2, 3):
        names = (("key:k", number),)
        journal.append([first(f"o{number}", opened(f"d{number}"), names=names)], durable=False)
    (ordinal, head), *_ = journal.find(query("d9", "key:k")).named.values()
    assert (ordinal, head and head.id) == (3, "o3")
    assert [h.id for h in journal.named("key:k")] == ["o1", "o2", "o3"]


def test_a_name_without_a_number_takes_the_next(journal: Journal) -> None:
    for number in (1, 2):
        journal.append([first(f"o{number}", opened(f"d{number}"), names=(("permit:p", 0),))], durable=False)
    assert [h.id for h in journal.named("permit:p")] == ["o1", "o2"]


def test_an_id_is_found_by_its_beginning_open_or_closed(journal: Journal) -> None:
    journal.append([first("o1", opened(), names=(("request:r1", 1), ("permit:p%", 1)))], durable=True)
    journal.append([first("o12", opened("d2"), admitted(journal.owner), ended(), delivered())], durable=True)
    assert journal.beginning("occurrence", "o1") == ["o1", "o12"]
    assert journal.beginning("occurrence", "o12") == ["o12"]
    assert journal.beginning("request", "r") == ["r1"]
    assert journal.beginning("permit", "p") == ["p%"]
    assert journal.beginning("permit", "r") == journal.beginning("occurrence", "%") == []


def test_documents_come_with_the_next_write(journal: Journal) -> None:
    journal.keep_document("f", b"text")
    assert journal.document("f") == b"text"
    journal.append([first("o1", opened())], durable=False)
    journal.keep_document("f", b"the same fingerprint, so the same text")
    journal.append([first("o2", opened("d2"))], durable=False)
    assert journal.document("f") == b"text"


# -- compare and set --------------------------------------------------------------------------------------------------


def test_a_decision_on_an_old_version_writes_nothing(journal: Journal) -> None:
    journal.append([first("o1", opened())], durable=False)
    journal.append([evidence("o1", observed(EffectState.REJECTED))], durable=False)
    with pytest.raises(Stale):
        journal.append([Change("o1", (admitted(journal.owner),), expected=1)], durable=True)
    head = journal.load("o1")
    assert head is not None and head.version == 2 and not head.admissions


def test_two_first_calls_cannot_both_take_a_name(journal: Journal) -> None:
    journal.append([first("o1", opened(), names=(("key:k", 1),))], durable=True)
    with pytest.raises(Stale):
        journal.append([first("o2", opened("d2"), names=(("key:k", 1),))], durable=True)
    assert journal.load("o2") is None
    assert [h.id for h in journal.open()] == ["o1"]


def test_of_two_equal_first_calls_one_has_not_seen_the_other(journal: Journal) -> None:
    journal.append([first("o1", opened())], durable=True)
    with pytest.raises(Stale, match="o1"):
        journal.append([first("o2", opened())], durable=True)
    assert journal.load("o2") is None
    journal.append([first("o2", opened(), beside=("o1",))], durable=True)
    assert [h.id for h in journal.find(query()).open] == ["o1", "o2"]


def test_of_first_calls_under_two_signatures_one_has_not_seen_the_other(journal: Journal) -> None:
    """Two deployments of one tool begin together: the later one finds a declaration that it did not decide on."""
    journal.append([first("o1", opened())], durable=True)
    for signature in ("v0(cents)", "v1(euros)"):
        with pytest.raises(Stale, match="o1"):
            journal.append([first("o2", opened("d2", signature=signature))], durable=True)
    assert journal.load("o2") is None
    journal.append([first("o2", opened("d2", signature="v1(euros)"), beside=("o1",))], durable=True)
    journal.append([first("o3", opened("d3", scope="t", signature="v1(euros)"))], durable=True)  # of another scope


def test_a_first_call_is_stale_if_a_name_was_taken_that_it_did_not_see(journal: Journal) -> None:
    journal.append([first("o1", opened("d1"), names=(("denied:x", 0),))], durable=True)
    change = first("o2", opened("d2"))
    with pytest.raises(Stale, match="denied:x"):
        journal.append([structs.replace(change, unless=(("abandoned:x", 0), ("denied:x", 0)))], durable=True)
    assert journal.load("o2") is None
    journal.append([structs.replace(change, unless=(("abandoned:x", 0), ("denied:x", 1)))], durable=True)


def test_a_later_epoch_is_stale_if_a_name_was_taken_that_it_did_not_see(journal: Journal) -> None:
    journal.append([first("o1", opened(), names=(("denied:x", 0),))], durable=True)
    again = Change("o1", (admitted(journal.owner),), expected=1)
    with pytest.raises(Stale, match="denied:x"):
        journal.append([structs.replace(again, unless=(("denied:x", 0),))], durable=True)
    assert journal.load("o1") == journal.find(query()).open[0]
    assert not journal.find(query()).open[0].admissions
    journal.append([structs.replace(again, unless=(("denied:x", 1),))], durable=True)


def test_a_delivered_one_that_was_seen_hides_no_later_one(journal: Journal) -> None:
    """Two callers start after a delivery that one of them saw while it was only noted: still one of them is stale."""
    journal.append([first("o1", opened(), admitted(journal.owner), ended())], durable=True)
    journal.note(evidence("o1", delivered()))
    assert [h.id for h in journal.find(query()).open] == ["o1"], "its row stands until the note is written"
    journal.append([first("noise", opened("d2"))], durable=True)
    assert journal.find(query()).open == []
    journal.append([first("o2", opened(), admitted(journal.owner))], durable=True)
    with pytest.raises(Stale, match="o2"):
        journal.append([first("o3", opened(), admitted(journal.owner), beside=("o1",))], durable=True)


def test_an_id_cannot_be_minted_twice(journal: Journal) -> None:
    journal.append([first("o1", opened())], durable=True)
    with pytest.raises(Stale):
        journal.append([first("o1", opened("d2"))], durable=True)


def test_of_several_changes_all_are_written_or_none(journal: Journal) -> None:
    journal.append([first("o1", opened())], durable=False)
    with pytest.raises(Stale):
        journal.append(
            [
                evidence("o1", observed(EffectState.REJECTED)),
                first("o2", opened("d2"), names=(("key:k", 1),)),
                Change("o1", (admitted(journal.owner),), expected=1),
            ],
            durable=True,
        )
    head = journal.load("o1")
    assert head is not None and head.version == 1
    assert journal.load("o2") is None
    assert journal.named("key:k") == []


def test_a_check_sees_the_present_head_and_can_stop_the_write(journal: Journal) -> None:
    class Fenced(Exception):
        pass

    seen: list[int] = []

    def check(head: Head) -> None:
        seen.append(head.version)
        if head.version > 1:
            raise Fenced

    journal.append([first("o1", opened())], durable=False)
    journal.append([Change("o1", (observed(EffectState.REJECTED),), check=check)], durable=True)
    with pytest.raises(Fenced):
        journal.append([Change("o1", (observed(EffectState.COMMITTED),), check=check)], durable=True)
    head = journal.load("o1")
    assert seen == [1, 2] and head is not None and head.version == 2


# -- two on one journal -----------------------------------------------------------------------------------------------


def test_what_one_writes_the_other_reads_at_once(two: tuple[Journal, Journal]) -> None:
    one, other = two
    one.append([first("o1", opened(), admitted(one.owner))], durable=True)
    assert [h.id for h in other.find(query()).open] == ["o1"]
    other.append([evidence("o1", observed(EffectState.COMMITTED))], durable=False)
    assert one.load("o1") == other.load("o1")
    head = one.load("o1")
    assert head is not None and head.version == 3


def test_evidence_takes_the_next_place_whoever_wrote_in_between(two: tuple[Journal, Journal]) -> None:
    one, other = two
    one.append([first("o1", opened(), admitted(one.owner))], durable=True)
    other.append([evidence("o1", observed(EffectState.REJECTED))], durable=False)
    (head,) = one.append([evidence("o1", ended())], durable=False)  # one has not read what the other wrote
    assert head.version == 4
    assert [place for place, _ in head.effect] == [3, 4]


def test_a_version_that_moved_in_the_other_is_stale(two: tuple[Journal, Journal]) -> None:
    one, other = two
    one.append([first("o1", opened())], durable=True)
    other.append([evidence("o1", observed(EffectState.REJECTED))], durable=False)
    with pytest.raises(Stale):
        one.append([Change("o1", (admitted(one.owner),), expected=1)], durable=True)


def test_the_check_of_one_sees_what_the_other_wrote(two: tuple[Journal, Journal]) -> None:
    one, other = two
    one.append([first("o1", opened(), admitted(one.owner))], durable=True)
    other.append([evidence("o1", observed(EffectState.REJECTED))], durable=False)

    def present(head: Head) -> None:
        assert head.version == 3, "what is at hand is behind what the other wrote"

    (head,) = one.append([Change("o1", (ended(),), check=present)], durable=False)
    assert head.version == 4


@pytest.mark.parametrize("names", [(), (("key:k", 1),)])
def test_a_name_or_a_call_that_the_other_took_is_stale(
    two: tuple[Journal, Journal], names: tuple[tuple[str, int], ...]
) -> None:
    one, other = two
    assert one.find(query()).open == other.find(query()).open == []
    one.append([first("o1", opened(), names=names)], durable=True)
    with pytest.raises(Stale):
        other.append([first("o2", opened("d2" if names else "d1"), names=names)], durable=True)


def test_each_owner_sees_the_other_alive_until_it_closes(two: tuple[Journal, Journal]) -> None:
    one, other = two
    assert one.owner != other.owner
    assert one.alive(one.owner) and one.alive(other.owner) and other.alive(one.owner)
    token = one.owner
    one.close()
    assert not other.alive(token)
    assert not other.alive("nobody")


# -- what may wait ----------------------------------------------------------------------------------------------------


def test_what_was_noted_counts_as_written_here(journal: Journal) -> None:
    journal.append([first("o1", opened(), admitted(journal.owner), ended())], durable=False)
    journal.note(evidence("o1", delivered()))
    head = journal.load("o1")
    assert head is not None and head.closed
    assert [h.id for h in journal.find(query()).open if not h.closed] == []
    assert list(journal.open()) == []


def test_what_was_noted_is_written_before_a_decision_on_it(journal: Journal) -> None:
    journal.append([first("o1", opened())], durable=False)
    journal.note(evidence("o1", observed(EffectState.REJECTED)))
    head = journal.load("o1")
    assert head is not None and head.version == 2
    (head,) = journal.append([Change("o1", (admitted(journal.owner),), expected=2)], durable=True)
    assert head.version == 3


def test_a_refused_write_loses_no_note(two: tuple[Journal, Journal]) -> None:
    one, other = two
    one.append([first("o1", opened(), admitted(one.owner), ended())], durable=False)
    one.note(evidence("o1", delivered()))
    with pytest.raises(Stale):
        one.append([Change("o1", (admitted(one.owner, epoch=2),), expected=1)], durable=True)
    head = one.load("o1")
    assert head is not None and head.closed
    one.close()
    head = other.load("o1")
    assert head is not None and head.closed and head.version == 4


def test_only_evidence_may_wait(journal: Journal) -> None:
    with pytest.raises(ValueError, match="what may wait is evidence"):
        journal.note(Change("o1", (admitted(journal.owner),), expected=1))


def test_signatures_are_compared_whole(journal: Journal) -> None:
    journal.append([first("o1", opened(signature=SIGNATURE + " key=a"))], durable=False)
    assert [h.id for h in journal.find(query()).other_signature] == ["o1"]
