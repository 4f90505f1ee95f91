"""Breadth first through everything that can happen, up to a depth; worlds that differ only in names are one."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from functools import partial
from hashlib import blake2b
from random import Random
from typing import NamedTuple

import msgspec

from readmit._fold import Head
from readmit.journal import Change
from tests.core import people
from tests.core.checks import apart, can_be_ended, truthful
from tests.core.live import Active
from tests.core.scenario import Scenario
from tests.core.world import World

Action = Callable[[World], bool | None]
_encode = msgspec.json.Encoder().encode
_NAMES = re.compile(rb"[cp]\d+\.\d+")


class Explored(NamedTuple):
    """How far it went."""

    worlds: int
    steps: int
    depth: int


class Violation(AssertionError):
    """A rule broken, and the shortest way there."""

    def __init__(self, world: World, action: str, error: BaseException) -> None:
        way = "\n  ".join((*world.trace, action))
        super().__init__(f"{world.scenario.name}: {error}\n  {way}")


def explore(scenario: Scenario, depth: int) -> Explored:
    """Looks at every world that can be reached in `depth` actions.

    Raises:
        Violation: something that must hold does not.
    """
    first = World(scenario)
    seen, ended = {_key(first)}, set[bytes]()
    frontier, steps = [first], 0
    for _ in range(depth):
        onward = []
        for world in frontier:
            for name, action in actions(world):
                after = world.copy()
                after.trace = (*world.trace, name)
                steps += 1
                try:
                    if action(after) is False:
                        continue
                    key = _key(after)
                    if key in seen:
                        continue
                    apart(after)
                    for head in after.store.heads.values():
                        truthful(head, after)
                        _once(head, after, ended)
                except Exception as error:
                    raise Violation(world, name, error) from error
                seen.add(key)
                onward.append(after)
        frontier = onward
    return Explored(len(seen), steps, depth)


def wander(scenario: Scenario, *, seed: int, walks: int, length: int) -> int:
    """Random walks, deeper than breadth can go; the same ones for the same seed. Returns the number of steps.

    Raises:
        Violation: something that must hold does not.
    """
    chosen, steps, ended = Random(seed), 0, set[bytes]()
    for _ in range(walks):
        world = World(scenario)
        for _ in range(length):
            possible = list(actions(world))
            if not possible:
                break
            name, action = chosen.choice(possible)
            after = world.copy()
            after.trace = (*world.trace, name)
            try:
                done = action(after)
                apart(after)
                for head in after.store.heads.values() if done is not False else ():
                    truthful(head, after)
                    _once(head, after, ended)
            except Exception as error:
                raise Violation(world, name, error) from error
            world, steps = after, steps + 1
    return steps


def _once(head: Head, world: World, ended: set[bytes]) -> None:
    if not world.store.closed[head.id]:
        key = _renamed(world.store.texts[head.id])
        if key not in ended:
            ended.add(key)
            can_be_ended(head, world)


def actions(world: World) -> Iterator[tuple[str, Action]]:
    """Everything that can happen next."""
    scenario = world.scenario
    idle = [c for c in range(scenario.callers) if c not in world.active]
    if world.calls < scenario.calls:
        for caller in idle if any(v.run for v in scenario.variants) else idle[:1]:
            for i, variant in enumerate(scenario.variants):
                yield f"{caller} calls {i}", partial(World.call, caller=caller, variant=variant)
            if caller in world.runs:
                yield f"{caller} enters the run again", partial(World.enter_again, caller=caller)
    for caller, active in world.active.items():
        yield from _of_call(world, caller, active)
    for owner in world.noted:
        yield f"notes of {owner} are written", partial(World.flush, owner=owner)
        yield (
            f"{owner} is killed",
            partial(World.crash, caller=int(owner.removeprefix("owner ").partition(".")[0]), acts=False),
        )
    if world.acts < scenario.most_acts:
        for name, done in people.acts(world):
            if name.split()[0] in scenario.acts:
                yield name, partial(people.act, name=name, done=done)


def _of_call(world: World, caller: int, active: Active) -> Iterator[tuple[str, Action]]:
    answer, crash = partial(World.answer, caller=caller), partial(World.crash, caller=caller)
    match active.stop:
        case "gate":
            yield f"{caller} writes", partial(answer, kind="value")
            yield f"{caller} crashes before it writes", partial(crash, acts=False)
        case "inside":
            for fate in world.scenario.fates:
                if fate == "crash":
                    yield f"{caller} crashes before it acts", partial(crash, acts=False)
                    yield f"{caller} crashes after it acts", partial(crash, acts=True)
                else:
                    yield f"{caller}: {fate}", partial(World.fate, caller=caller, name=fate)
        case "joined":
            yield f"{caller} looks again", partial(answer, kind="value")
            yield f"{caller} leaves", partial(answer, kind="raised", value=KeyboardInterrupt)
            yield f"{caller} crashes waiting", partial(crash, acts=False)
        case "asked":
            yield f"{caller} hears {type(active.finding).__name__}", partial(answer, kind="value", value=active.finding)
            yield f"{caller} hears nothing", partial(answer, kind="raised", value=OSError)
            yield f"{caller} leaves the question", partial(answer, kind="raised", value=KeyboardInterrupt)


# -- which worlds are one -----------------------------------------------------------------------------------------


def _key(world: World) -> bytes:
    """A digest of what can matter later; ids are renamed in the order in which they appear."""
    parts: list[bytes] = []
    for occurrence, text in world.store.texts.items():
        parts += [occurrence.encode(), text]
        ledger = world.owed(occurrence)
        parts.append(repr((ledger.here, ledger.gone, ledger.told > 0, world.fences.get(occurrence, 0))).encode())
        parts.append(repr((occurrence in world.touched, sorted(world.epochs(occurrence)))).encode())
    for owner, notes in sorted(world.noted.items()):
        parts += [
            owner.encode(),
            *(f"{c.occurrence_id} {[type(e).__name__ for e in c.events]}".encode() for c in notes),
        ]
    for name, taken in sorted(world.store.names.items()):
        parts.append(f"{name} {len(taken)} {taken[-1][1]}".encode())
    parts += sorted(_call(world, active) for active in world.active.values())
    so_far = (world.calls, world.acts, world.ticks)  # a world with more to come is another one
    limits = (so_far, sorted(world.runs.items()), sorted(world.keys.items()))
    parts.append(repr((limits, sorted(world.store.dead))).encode())
    return blake2b(_renamed(b"\n".join(parts)), digest_size=16).digest()


def _call(world: World, active: Active) -> bytes:
    step = active.step
    pending: list[Change] = list(getattr(step, "changes", ()))
    stale = any(
        c.expected is not None and c.expected != (h.version if (h := world.store.heads.get(c.occurrence_id)) else 0)
        for c in pending
    )
    polls = sum(a.kind == "value" and a.value is None for a in active.log)
    what = (active.caller, active.variant, active.stop, active.occurrence, active.epoch, active.finding, polls, stale)
    log = [a.kind for a in active.log if a.kind == "raised"]
    events = [] if stale else [_encode(e) for c in pending for e in c.events]
    return repr((*what, log, active.owner, events)).encode()


def _renamed(blob: bytes) -> bytes:
    names: dict[bytes, bytes] = {}
    return _NAMES.sub(lambda m: names.setdefault(m.group(), b"#%d" % len(names)), blob)
