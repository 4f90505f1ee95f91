"""A small world around the real core: callers, people, a journal, a remote; each action leads to the next world.

A world is a value: what it holds is copied, and a call that is under way is kept as the answers that it has been given,
so that its generator can be made again and taken another way.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any, NamedTuple

from readmit._contract import Policy
from readmit._epoch import Epoch
from readmit._findings import Absent, Finding, Present, Unclear
from readmit._fold import Head
from readmit._model import Admitted, Joined
from readmit._steps import Append, Ask, Execute, Find, Load, Sleep
from readmit.journal import Change, Stale
from tests.core.admissions import admitted, left_open
from tests.core.checks import acted, begun, finished
from tests.core.live import START, Active, Answer, Live, Taken
from tests.core.memory import Store
from tests.core.remote import FATES, Known
from tests.core.scenario import Scenario, Variant, hook


class EpochTruth(NamedTuple):
    """What really became of one epoch."""

    fate: str = "running"
    acts: bool = False
    undone: bool = False


class Ledger(NamedTuple):
    """Who still waits for the result of an occurrence, kept by hand."""

    here: int = 0  # admitted or joined, and still there
    gone: int = 0  # left without it, and nobody took over
    told: int = 0  # had the result


PRESENT = 100  # more than any epoch: that it is there settles what is newer, too
TICK = 3600 * 10**9  # nanoseconds by which time moves, when it moves


@dataclass(slots=True)
class World:
    """Everything there is, and how it came about."""

    scenario: Scenario
    store: Store = field(default_factory=Store)
    policy: Policy = field(default_factory=Policy)
    active: dict[int, Active] = field(default_factory=dict)  # by caller
    lives: dict[int, int] = field(default_factory=dict)  # how often a caller has crashed
    runs: dict[int, tuple[Taken, frozenset[str]]] = field(default_factory=dict)  # by caller
    calls: int = 0
    acts: int = 0
    ticks: int = 0
    truth: dict[tuple[str, int], EpochTruth] = field(default_factory=dict)
    ledger: dict[str, Ledger] = field(default_factory=dict)
    fences: dict[str, int] = field(default_factory=dict)  # epochs for which a finding stands in, all where it is there
    touched: frozenset[str] = frozenset()  # occurrences that a person has settled or closed
    noted: dict[str, tuple[Change, ...]] = field(default_factory=dict)  # by owner: what waits to be written
    forgotten: frozenset[str] = frozenset()  # whose deliveries nobody can count: one was not, or not yet, written
    left: dict[int, tuple[str, ...]] = field(default_factory=dict)  # why a call must not become a new occurrence
    withheld: frozenset[int] = frozenset()  # calls that began after an equal one was denied
    keys: dict[str, int] = field(default_factory=dict)  # what the remote remembers, since when
    last: str = ""  # the occurrence of the call that was last seen
    trace: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        contract = self.scenario.contract
        self.store.documents[contract.fingerprint] = contract.document()

    def copy(self) -> World:
        new: World = World.__new__(World)
        for name in self.__slots__:
            value = getattr(self, name)
            setattr(new, name, dict(value) if isinstance(value, dict) else value)
        new.store = self.store.copy()
        return new

    @property
    def now(self) -> int:
        return START + self.ticks * TICK

    def owner(self, caller: int) -> str:
        return f"owner {caller}.{self.lives.get(caller, 0)}"

    # -- calls ----------------------------------------------------------------------------------------------------

    def call(self, caller: int, variant: Variant) -> None:
        """A call begins and goes as far as it can go by itself."""
        self.calls += 1
        taken, done = self.runs.get(caller, ((), frozenset()))
        active = Active(self.calls, caller, variant, self.owner(caller), taken, done)
        expected = begun(self, variant)
        self._onward(active, Answer("value", None, self.now, self.store.dead))
        expected(self)

    def answer(self, caller: int, kind: str, value: Any = None) -> None:
        """What a stopped call waits for arrives."""
        active = self.active.pop(caller)
        if active.stop == "gate":
            assert isinstance(active.step, Append)
            live = Live(self, active)
            self._onward(active, self._appended(live, active.step), live)
            return
        if isinstance(active.step, Ask) and kind == "value":
            self.settled(active.occurrence, value, active.step.argument.epoch)
        self._onward(active, Answer(kind, value, self.now, self.store.dead))

    def enter_again(self, caller: int) -> None:
        """The caller enters its run once more: the count begins anew."""
        del self.runs[caller]

    def _onward(self, active: Active, answer: Answer, live: Live | None = None) -> None:
        live = live or Live(self, active)
        log = list(active.log)
        while True:
            live.feed(answer)
            log.append(answer)
            step = live.step
            match step:
                case None:
                    self._over(live)
                    return
                case Find():
                    value: Any = live.journal.find(step.query)
                    self.left[active.number] = left_open(self, live.call.call)
                case Load():
                    value = live.journal.load(step.occurrence_id)
                case Append(durable=True) if self.scenario.gates:
                    self._stop(live, log, "gate")
                    return
                case Append():
                    answer = self._appended(live, step)
                    continue
                case Ask() if step.function is not hook:
                    value = step.function(step.argument)
                case Ask():
                    self._stop(live, log, "asked", finding=self.found(step.argument.occurrence_id, step.argument.epoch))
                    return
                case Sleep():
                    self._stop(live, log, "joined")
                    return
                case Execute(epoch=Epoch() as epoch):
                    self.truth[epoch.occurrence_id, epoch.number] = EpochTruth()
                    self._stop(live, log, "inside", epoch=epoch.number)
                    return
                case _:
                    raise AssertionError(step)
            answer = Answer("value", value, self.now, self.store.dead)

    def _stop(
        self, live: Live, log: list[Answer], stop: str, *, epoch: int = 0, finding: Finding | None = None
    ) -> None:
        active, occurrence = live.active, live.call._occurrence or ""
        self.last = occurrence
        self.active[active.caller] = active._replace(
            log=tuple(log), stop=stop, step=live.step, occurrence=occurrence, epoch=epoch, finding=finding
        )

    def _appended(self, live: Live, step: Append) -> Answer:
        notes = self.noted.get(live.active.owner, ())
        try:
            heads = self.write(live, [*notes, *step.changes])
        except Stale:
            return Answer("raised", Stale, self.now, self.store.dead)
        self.noted.pop(live.active.owner, None)
        return Answer("value", heads[len(notes) :], self.now, self.store.dead)

    def note(self, live: Live, change: Change) -> None:
        """Evidence that may wait: written at once, or when its time comes."""
        if self.scenario.late_notes:
            owner = live.active.owner
            self.noted[owner] = (*self.noted.get(owner, ()), change)
        else:
            self.write(live, [change])

    def flush(self, owner: str) -> None:
        """What an owner has noted is written: by the thread that does so, or as the process ends."""
        self.write(None, self.noted.pop(owner))

    def write(self, live: Live | None, changes: Any) -> list[Head]:
        """Writes to the journal, and looks at what is written."""
        before = self.store.heads
        heads = self.store.apply(changes)
        for change in changes:
            for event in change.events:
                match event:
                    case Admitted() | Joined(call=str()):
                        gone = self.owed(change.occurrence_id).gone
                        self.owe(change.occurrence_id, here=1, gone=-1 if gone else 0)
                        if isinstance(event, Admitted):
                            assert live is not None
                            admitted(self, live, before.get(change.occurrence_id), change, event)
                            # Until its body runs, which time that ran out meanwhile can prevent.
                            self.truth[change.occurrence_id, event.epoch] = EpochTruth("cancelled first")
                    case _:
                        pass
        return heads

    # -- endings --------------------------------------------------------------------------------------------------

    def fate(self, caller: int, name: str) -> None:
        """The body of a call goes one way or the other."""
        active, fate = self.active[caller], FATES[name]
        acts = fate.acts and self._takes_effect(active)
        at = (active.occurrence, active.epoch)
        self.truth[at] = EpochTruth(name, acts)
        number = sum(t.acts for t in self.truth.values())
        self.answer(caller, "fate", (name, f"{active.variant.text} {active.variant.key} paid as {number}"))
        acted(self, active.occurrence)

    def _takes_effect(self, active: Active) -> bool:
        """Whether the remote does it again: one that is idempotent, or knows the key, does it once."""
        if self.scenario.remote == "idempotent":
            return not self.effects(active.occurrence)
        if self.scenario.remote == "keyed":
            live = Live(self, active)
            assert isinstance(live.step, Execute) and live.step.epoch is not None
            key = live.step.epoch.idempotency_key
            lifetime = self.scenario.contract.key_lifetime_ns or 0
            if key in self.keys and self.now - self.keys[key] < lifetime:
                return False
            self.keys[key] = self.now
        return True

    def crash(self, caller: int, *, acts: bool) -> None:
        """The process of a caller dies where it stands."""
        active = self.active.pop(caller, None)
        owner = self.owner(caller)
        self.store.dead |= {owner}
        self.forgotten |= {change.occurrence_id for change in self.noted.pop(owner, ())}
        self.lives[caller] = self.lives.get(caller, 0) + 1
        self.runs.pop(caller, None)
        if active is None:
            return
        if active.stop == "inside":
            acts = acts and self._takes_effect(active)
            self.truth[active.occurrence, active.epoch] = EpochTruth("crashed", acts)
            acted(self, active.occurrence)
        if active.stop in ("inside", "joined"):
            self._gone(active.occurrence)

    def _gone(self, occurrence: str) -> None:
        self.owe(occurrence, here=-1, gone=1)

    def owed(self, occurrence: str) -> Ledger:
        return self.ledger.get(occurrence, Ledger())

    def owe(self, occurrence: str, *, here: int = 0, gone: int = 0, told: int = 0) -> None:
        before = self.owed(occurrence)
        self.ledger[occurrence] = Ledger(before.here + here, before.gone + gone, before.told + told)

    def _over(self, live: Live) -> None:
        active, call = live.active, live.call
        occurrence = self.last = call._occurrence or ""
        if live.run is not None:
            taken = tuple(sorted((which, frozenset(n)) for which, n in live.run._taken.items()))
            self.runs[active.caller] = (taken, frozenset(live.run.done))
        executed, joined = call._executed, call._waiting is not None
        if any(c.occurrence_id == occurrence for o, notes in self.noted.items() if o != active.owner for c in notes):
            self.forgotten |= {occurrence}  # whose debt it settled cannot be known yet
        if finished(self, live, self._fate_of(live)):
            gone = bool(self.owed(occurrence).gone) and not (executed or joined)
            self.owe(occurrence, told=1, here=-1 if executed or joined else 0, gone=-1 if gone else 0)
        elif executed or joined:
            self._gone(occurrence)

    def _fate_of(self, live: Live) -> str:
        if not live.call._executed:
            return ""
        token = live.call.token
        head = self.store.heads[live.call._occurrence or ""]
        return next(self.truth[head.id, a.epoch].fate for a in head.admissions if a.call == token)

    # -- truth ----------------------------------------------------------------------------------------------------

    def epochs(self, occurrence: str, fence: int = 99) -> Iterator[tuple[int, EpochTruth]]:
        return ((e, t) for (o, e), t in self.truth.items() if o == occurrence and e <= fence)

    def effects(self, occurrence: str, fence: int = 99) -> int:
        """How often the remote has done it, and it was not undone."""
        return sum(t.acts and not t.undone for _, t in self.epochs(occurrence, fence))

    def settled(self, occurrence: str, finding: Finding, fence: int) -> None:
        """A finding is recorded."""
        held = self.fences.get(occurrence, 0)
        if isinstance(finding, Present):
            self.fences[occurrence] = max(held, PRESENT + fence)
        elif isinstance(finding, Absent) and held < PRESENT:
            self.fences[occurrence] = max(held, fence)

    def compensated(self, occurrence: str, fence: int) -> None:
        """What the epochs up to the fence did is undone; a present finding of newer ones stands."""
        for epoch, truth in list(self.epochs(occurrence, fence)):
            self.truth[occurrence, epoch] = truth._replace(undone=True)
        held = self.fences.get(occurrence, 0)
        if held < PRESENT + fence + 1:
            self.fences[occurrence] = max(fence, held if held < PRESENT else 0)

    def running(self, occurrence: str, fence: int = 99) -> bool:
        """Whether something can still arrive."""
        return any(t.fate == "running" for _, t in self.epochs(occurrence, fence))

    def doubtful(self, occurrence: str) -> bool:
        """Whether nobody who saw all that was seen could say what the effect is."""
        fence = self.fences.get(occurrence, 0)
        known = [
            (epoch, Known.DOUBT if t.fate in ("running", "crashed") else FATES[t.fate].known)
            for epoch, t in self.epochs(occurrence)
            if not t.undone
        ]
        if any(k is Known.DONE for _, k in known):
            return False
        return any(k is Known.DOUBT and epoch > fence for epoch, k in known)

    def found(self, occurrence: str, fence: int) -> Finding:
        """What an honest look at the remote finds."""
        if self.effects(occurrence, fence):
            return Present("receipt")
        return Unclear("on its way") if self.running(occurrence, fence) else Absent(authoritative=True)
