"""What must hold in every world, said with the truth of the remote."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

from readmit import Refused
from readmit._fold import Head
from readmit._model import (
    Refusal,
)
from tests.core.admissions import ACCOUNTED, lists
from tests.core.people import People
from tests.core.remote import FATES, Known

if TYPE_CHECKING:
    from tests.core.live import Live
    from tests.core.scenario import Variant
    from tests.core.world import World

# -- when the remote acts -----------------------------------------------------------------------------------------


def acted(world: World, occurrence: str) -> None:
    """I1: the counter of an intent exceeds one only by epochs that a person or the policy knowingly allowed."""
    head = world.store.heads[occurrence]
    key = head.opened.key
    intent = [h for h in world.store.heads.values() if h.id == occurrence or (key is not None and h.opened.key == key)]
    effects = sum(world.effects(h.id) for h in intent)
    allowed = sum(
        world.truth[h.id, a.epoch].acts and not world.truth[h.id, a.epoch].undone and a.justification in ACCOUNTED
        for h in intent
        for a in h.admissions
        if (h.id, a.epoch) in world.truth
    )
    if not world.scenario.read:
        assert effects - allowed <= 1, f"{effects} effects of one intent, {allowed} of them accounted for"


# -- when a call begins and ends ----------------------------------------------------------------------------------


def begun(world: World, variant: Variant) -> Callable[[World], None]:
    """What must be true of the occurrence that a call which begins now is resolved to."""
    equal = [
        h.id
        for h in world.store.heads.values()
        if h.opened.principal == variant.principal and h.opened.key is None and variant.plain and _same(h, variant)
    ]
    open_ = [h for h in equal if not world.scenario.read and world.doubtful(h) and not world.store.heads[h].abandoned]
    known = set(world.store.heads)
    over = [h for h in equal if _over(world, h)]
    wanted = (variant.call(0).digest, variant.principal, variant.key)
    for head in world.store.heads.values():
        if wanted == (head.opened.digest, head.opened.principal, head.opened.key) and head.denials:
            world.withheld |= {world.calls}

    beside = [h.id for h in world.store.heads.values() if variant.framework == "*" and lists(h, variant.response)]

    def expected(after: World) -> None:
        assert after.last not in beside, f"{after.last} stands in the same response, and is another call"
        if open_:
            assert after.last in known, f"{open_} may have acted, and an equal call became {after.last}"
        assert after.last not in over, f"the result of {after.last} was delivered, and an equal call folded into it"

    return expected


def _same(head: Head, variant: Variant) -> bool:
    return head.opened.digest == variant.call(0).digest and head.opened.run is None and variant.response in (None, "*")


def _over(world: World, occurrence: str) -> bool:
    fates = {t.fate for _, t in world.epochs(occurrence)}
    good = bool(fates) and all(f in FATES and FATES[f].known is Known.DONE for f in fates)
    ledger = world.owed(occurrence)
    told = ledger.told and not ledger.here and not ledger.gone
    late = world.forgotten.union(c.occurrence_id for notes in world.noted.values() for c in notes)
    return good and bool(told) and occurrence not in world.touched and occurrence not in late


def finished(world: World, live: Live, fate: str) -> bool:
    """Whether the caller was told what became of its effect; and that it was told the truth, about its own call."""
    call, variant = live.call, live.active.variant
    mine = f"{variant.text} {variant.key} paid as "
    if isinstance(live.error, Refused):
        assert not call._executed, "a call that ran is refused"
        own = world.store.heads[live.error.occurrence_id].opened.principal == variant.principal
        return live.error.reason is Refusal.ALREADY_COMMITTED and own
    if live.error is not None:
        assert not isinstance(live.error, AssertionError), repr(live.error)
        return False
    assert live.done is not None
    if live.done.error is not None:
        assert isinstance(live.done.error, FATES[fate].error)
        return False
    if fate and FATES[fate].known is Known.DOUBT:
        return False
    assert str(live.done.value).startswith(mine), f"asked for {mine!r}, got {live.done.value!r}"
    if not world.scenario.read:
        head = world.store.heads[call._occurrence or ""]
        assert world.effects(head.id), f"told {live.done.value!r}, and the effect is not there"
    return True


# -- in every world -----------------------------------------------------------------------------------------------


def truthful(head: Head, world: World) -> None:
    """I3: what is known never says that nothing happened when something did."""
    if world.scenario.read or not world.effects(head.id):
        return
    effect = head.effects()
    said = effect.finding or effect.state
    assert said in ("committed", "unknown", "present"), f"it is there, and the journal says {said}"


def apart(world: World) -> None:
    """I4, over occurrences: of equal calls that nothing tells apart, one is in flight at a time; the others wait."""
    flying: set[tuple[str, str]] = set()
    for head in world.store.heads.values():
        told_apart = head.opened.key or head.opened.response or head.opened.run
        if head.in_flight and not told_apart:
            equal = (world.store.slots[head.id], head.digest)
            assert equal not in flying, f"{head.id} is in flight beside an equal call"
            flying.add(equal)


def can_be_ended(head: Head, world: World) -> None:
    """I7: whatever state it is in, people can end it."""
    scratch = world.copy()
    people = People(scratch)
    pending = {p.occurrence_id: p for p in people.pending()}
    assert head.id in pending and pending[head.id].remedies, "an open occurrence that nobody can work through"
    for flying in (a for a in head.in_flight if a.owner not in world.store.dead):
        people.declare_unknown(head.id, epoch=flying.epoch, by="ann")
    people.abandon(head.id, by="ann", statement="it is looked after by hand")
    assert scratch.store.closed[head.id], "abandoned and not closed"
