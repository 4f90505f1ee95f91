"""Times that can be trusted on a machine that does other things too: contenders take turns, round by round."""

from __future__ import annotations

import gc
import statistics
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass

Clock = Callable[[], int]
CPU: Clock = time.process_time_ns
WALL: Clock = time.perf_counter_ns


@dataclass(frozen=True, slots=True)
class Times:
    """Microseconds a call, one figure for each round."""

    rounds: tuple[float, ...]

    @property
    def typical(self) -> float:
        """The median round."""
        return statistics.median(self.rounds)

    @property
    def quiet(self) -> float:
        """The best tenth: what it takes when nobody disturbs."""
        return sorted(self.rounds)[len(self.rounds) // 10]

    def over(self, *others: Times) -> float:
        """This divided by the sum of the others: the median over the rounds, each of which had the same weather."""
        return statistics.median(mine / sum(theirs) for mine, *theirs in self._beside(others))

    def beyond(self, *others: Times) -> Times:
        """What this takes more than the others together."""
        return Times(tuple(mine - sum(theirs) for mine, *theirs in self._beside(others)))

    def _beside(self, others: Sequence[Times]) -> list[tuple[float, ...]]:
        return list(zip(self.rounds, *(o.rounds for o in others), strict=True))


def take_turns(*contenders: Callable[[], object], clock: Clock, rounds: int = 60, calls: int = 100) -> list[Times]:
    """The times of each contender; the garbage of one is not another's to collect."""
    taken: list[list[float]] = [[] for _ in contenders]
    for contender in contenders:
        for _ in range(calls):
            contender()
    for _ in range(rounds):
        for times, contender in zip(taken, contenders, strict=True):
            gc.collect()
            started = clock()
            for _ in range(calls):
                contender()
            times.append((clock() - started) / calls / 1_000)
    return [Times(tuple(times)) for times in taken]
