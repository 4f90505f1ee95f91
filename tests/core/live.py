"""A call under way, as what it has been given; and its generator, made again from that."""

from __future__ import annotations

from itertools import count
from typing import TYPE_CHECKING, Any, NamedTuple

from readmit._call import GuardedCall, Ports, Site
from readmit._context import Run
from readmit._findings import Finding
from readmit._steps import Done, Execute, Step
from readmit.journal import Change
from tests.core.memory import SILENT, MemoryJournal
from tests.core.remote import FATES, live_through
from tests.core.scenario import Variant

if TYPE_CHECKING:
    from tests.core.world import World

START = 1_700_000_000 * 10**9
JOIN_TIMEOUT = 0.003  # seconds: two polls
Taken = tuple[tuple[tuple[str, str], frozenset[int]], ...]
"""The numbers that a pass through a run has given out, by tool and digest."""


class Answer(NamedTuple):
    """What a call was given, when, and who was dead then."""

    kind: str  # value, raised, fate
    value: Any
    at: int
    dead: frozenset[str]


class Active(NamedTuple):
    """A call under way."""

    number: int
    caller: int
    variant: Variant
    owner: str
    taken: Taken  # the run's numbers when it began
    done: frozenset[str]  # and what the run had answered
    log: tuple[Answer, ...] = ()
    stop: str = ""  # gate, inside, joined, asked
    step: Step | None = None
    occurrence: str = ""
    epoch: int = 0
    finding: Finding | None = None


class Live:
    """A call's generator, made again from what it has been given."""

    def __init__(self, world: World, active: Active) -> None:
        self.world = world
        self.active = active
        self.now = START
        self.again = True  # what it does was done before
        self._fed = False
        self.step: Step | None = None
        self.done: Done | None = None
        self.error: BaseException | None = None
        self.journal = MemoryJournal(world.store, active.owner, self._noted, world.noted.get(active.owner, ()))
        scenario, ids = world.scenario, count(1)
        declaration = scenario.declaration
        ports = Ports(
            journal=self.journal,
            spans=SILENT,
            policy=world.policy,
            clock=lambda: self.now,
            new_id=lambda: f"c{active.number}.{next(ids)}",
            kept={declaration.fingerprint},
            join_timeout=JOIN_TIMEOUT,
        )
        self.run: Run | None = None
        if active.variant.run is not None:
            self.run = Run(active.variant.run)
            self.run.done = set(active.done)
            self.run._taken = {which: set(numbers) for which, numbers in active.taken}
        self.call = GuardedCall(ports, declaration, active.variant.call(active.number), Site(self.run, ()), {})
        self._steps = self.call.steps()
        for answer in active.log:
            self.feed(answer)
        self.again = False

    def _noted(self, change: Change) -> None:
        if self._fed and not self.again:  # not when it is collected as garbage: its caller is still there
            self.world.note(self, change)

    def feed(self, answer: Answer) -> None:
        """One step further."""
        self.now, self.journal.dead, self._fed = answer.at, answer.dead if self.again else None, True
        try:
            if answer.kind == "raised":
                self.step = self._steps.throw(answer.value())
            elif answer.kind == "fate":
                self.step = self._steps.send(self._live_through(answer.value))
            else:
                self.step = self._steps.send(answer.value)
        except StopIteration as stop:
            self.step, self.done = None, stop.value
        except BaseException as error:
            self.step, self.error = None, error
        self._fed = False

    def _live_through(self, named: tuple[str, str]) -> Done:
        fate, result = named
        assert isinstance(self.step, Execute) and self.step.epoch is not None
        return live_through(FATES[fate], self.step.epoch, self.now, result, keyed=self.world.scenario.remote == "keyed")
