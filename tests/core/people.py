"""What people do in the world: the real operator calls, made honestly."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from itertools import count
from typing import TYPE_CHECKING, Any

from readmit import Absent, OperatorError, Present
from readmit._call import Ports
from readmit._model import RecoveryKind
from readmit._operator import Operator
from tests.core.memory import MemoryJournal

if TYPE_CHECKING:
    from tests.core.world import World

Act = Callable[["World"], None]


class People(Operator):
    """Operator calls on a world's journal."""

    def __init__(self, world: World) -> None:
        from tests.core.world import SILENT

        self.spans: Any = SILENT
        ids = count(1)
        self._ports = Ports(
            journal=MemoryJournal(world.store, "people"),
            spans=SILENT,
            policy=world.policy,
            clock=lambda: world.now,
            new_id=lambda: f"p{world.acts}.{next(ids)}",
        )

    def ports(self) -> Ports:
        return self._ports

    def spec_of(self, tool: str) -> None:
        return None


def acts(world: World) -> Iterator[tuple[str, Act]]:
    """Everything that people could do now, by name. What the operator calls refuse is not done."""
    for head in world.store.heads.values():
        o, last = head.id, head.last_epoch
        shown = [s.id for s in head.suspensions if s.suspension is RecoveryKind.CONFIRMATION]
        verdicts = {g.permit.request for _, g in head.grants} | set(head.denials)
        for request in dict.fromkeys((*shown[:1], *shown[-1:])):
            if request not in verdicts:
                yield f"approve {request}", lambda w, r=request: People(w).approve(r, by="ann")
            if request not in head.denials:
                yield f"deny {request}", lambda w, r=request: People(w).deny(r, by="bob")
        for _, granted in head.grants[-1:]:
            if granted.permit.id not in head.revocations:
                yield f"revoke {granted.permit.id}", lambda w, p=granted.permit.id: People(w).revoke(p, by="ann")
        for fence in range(max(1, last - 1), last + 1):
            if world.effects(o, fence):
                yield f"present {o} {fence}", lambda w, f=fence, o=o: _settle(w, o, Present("seen"), f)
            elif not world.running(o, fence):
                yield f"absent {o} {fence}", lambda w, f=fence, o=o: _settle(w, o, Absent(authoritative=True), f)
            if not world.running(o, fence):
                yield f"compensate {o} {fence}", lambda w, f=fence, o=o: _compensate(w, o, f)
            yield (
                f"accept {o} {fence}",
                lambda w, f=fence, o=o: People(w).accept(o, epoch=f, by="ann", statement="it may be there twice"),
            )
        yield f"abandon {o}", lambda w, o=o: _abandon(w, o)
        for flying in head.in_flight:
            yield (
                f"declare_unknown {o} {flying.epoch}",
                lambda w, e=flying.epoch, o=o: People(w).declare_unknown(o, epoch=e, by="ann"),
            )
    for principal in dict.fromkeys(v.principal for v in world.scenario.variants):
        yield f"login {principal}", lambda w, p=principal: People(w).authenticated(principal=p, credential=f"login {p}")
    if world.scenario.remote != "keyed" or not world.active:  # the age of a key is checked again at the send
        yield "tick", lambda w: None


def act(world: World, name: str, done: Act) -> bool:
    """Does it. False where the operator call refuses, which changes nothing."""
    world.acts += 1
    if name == "tick":
        world.ticks += 1
        return True
    before = {o: h.version for o, h in world.store.heads.items()}
    try:
        done(world)
    except OperatorError:
        assert not any(len(h.admissions) and h.version < before[o] for o, h in world.store.heads.items())
        return False
    return True


def _settle(world: World, occurrence: str, finding: Present | Absent, fence: int) -> None:
    People(world).reconcile(occurrence, finding, epoch=fence, by="ann")
    world.settled(occurrence, finding, fence)
    world.touched |= {occurrence}


def _compensate(world: World, occurrence: str, fence: int) -> None:
    People(world).compensate(occurrence, epoch=fence, by="ann")
    for epoch, truth in list(world.epochs(occurrence, fence)):
        world.truth[occurrence, epoch] = truth._replace(undone=True)
    world.fences[occurrence] = fence
    world.touched |= {occurrence}


def _abandon(world: World, occurrence: str) -> None:
    People(world).abandon(occurrence, by="ann", statement="it is looked after by hand")
    world.touched |= {occurrence}
