"""What people do in the world: the real operator calls, made honestly."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import partial
from itertools import count
from typing import TYPE_CHECKING

from readmit import Absent, OperatorError, Present
from readmit._call import Ports
from readmit._fold import Head
from readmit._model import RecoveryKind
from readmit._operator import Operator
from tests.core.memory import SILENT, MemoryJournal

if TYPE_CHECKING:
    from tests.core.world import World

Act = Callable[["World"], None]


class People(Operator):
    """Operator calls on a world's journal."""

    def __init__(self, world: World) -> None:
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
        yield from _verdicts(head)
        yield from _settlements(world, head)
        yield f"abandon {head.id}", partial(_abandon, occurrence=head.id)
        for flying in head.in_flight:
            declare = partial(_declare_unknown, occurrence=head.id, epoch=flying.epoch)
            yield f"declare_unknown {head.id} {flying.epoch}", declare
    for principal in dict.fromkeys(v.principal for v in world.scenario.variants):
        yield f"login {principal}", partial(_login, principal=principal)
    if world.scenario.remote != "keyed" or not world.active:  # the age of a key is checked again at the send
        yield "tick", _tick


def _verdicts(head: Head) -> Iterator[tuple[str, Act]]:
    shown = [s.id for s in head.suspensions if s.suspension is RecoveryKind.CONFIRMATION]
    approved = {g.permit.request for _, g in head.grants}
    for request in dict.fromkeys((*shown[:1], *shown[-1:])):
        if request not in approved and request not in head.denials:
            yield f"approve {request}", partial(_approve, request=request)
        if request not in head.denials:
            yield f"deny {request}", partial(_deny, request=request)
    for _, granted in head.grants[-1:]:
        if granted.permit.id not in head.revocations:
            yield f"revoke {granted.permit.id}", partial(_revoke, permit=granted.permit.id)


def _settlements(world: World, head: Head) -> Iterator[tuple[str, Act]]:
    """Honest ones: nobody finds absent what can still arrive. The screen may be an epoch old."""
    o, last = head.id, head.last_epoch
    for fence in range(max(1, last - 1), last + 1):
        if world.effects(o, fence):
            yield f"present {o} {fence}", partial(_settle, occurrence=o, finding=Present("seen"), fence=fence)
        elif not world.running(o, fence):
            absent = Absent(authoritative=True)
            yield f"absent {o} {fence}", partial(_settle, occurrence=o, finding=absent, fence=fence)
        shared = world.scenario.remote != "plain" and fence < last  # what a newer epoch says is of the same effect
        if not world.running(o, fence) and not shared:
            yield f"compensate {o} {fence}", partial(_compensate, occurrence=o, fence=fence)
        yield f"accept {o} {fence}", partial(_accept, occurrence=o, epoch=fence)


def act(world: World, name: str, done: Act) -> bool:
    """Does it. False where the operator call refuses, which changes nothing but what it saw to be lost."""
    world.acts += 1
    try:
        done(world)
    except OperatorError:
        return False
    return True


def _approve(world: World, request: str) -> None:
    People(world).approve(request, by="ann")


def _deny(world: World, request: str) -> None:
    People(world).deny(request, by="bob")


def _revoke(world: World, permit: str) -> None:
    People(world).revoke(permit, by="ann")


def _login(world: World, principal: str | None) -> None:
    People(world).authenticated(principal=principal, credential=f"login {principal}")


def _tick(world: World) -> None:
    world.ticks += 1


def _accept(world: World, occurrence: str, epoch: int) -> None:
    People(world).accept(occurrence, epoch=epoch, by="ann", statement="it may be there twice")


def _declare_unknown(world: World, occurrence: str, epoch: int) -> None:
    People(world).declare_unknown(occurrence, epoch=epoch, by="ann")


def _settle(world: World, occurrence: str, finding: Present | Absent, fence: int) -> None:
    People(world).reconcile(occurrence, finding, epoch=fence, by="ann")
    world.settled(occurrence, finding, fence)
    world.touched |= {occurrence}


def _compensate(world: World, occurrence: str, fence: int) -> None:
    People(world).compensate(occurrence, epoch=fence, by="ann")
    world.compensated(occurrence, fence)
    world.touched |= {occurrence}


def _abandon(world: World, occurrence: str) -> None:
    People(world).abandon(occurrence, by="ann", statement="it is looked after by hand")
    world.touched |= {occurrence}
