"""Every interleaving, up to a depth, of the real core: callers, people, faults and late outcomes around one remote.

The calls are the real generators, stepped by hand between every decision and its being written; the acts are the real
operator calls; the oracle is the remote's own effect counter. What must hold stands in `checks.py`.
"""

from __future__ import annotations

import logging
from collections.abc import Iterator
from dataclasses import replace

import pytest

from tests.core.explore import explore, wander
from tests.core.scenario import Scenario
from tests.core.scenarios import SCENARIOS


@pytest.fixture(autouse=True)
def quiet() -> Iterator[None]:
    """Each refusal is a warning; here there are hundreds of thousands."""
    logging.disable(logging.CRITICAL)
    yield
    logging.disable(logging.NOTSET)


@pytest.mark.parametrize("scenario", SCENARIOS, ids=lambda s: s.name)
def test_nothing_that_can_happen_breaks_a_rule(scenario: Scenario) -> None:
    explored = explore(scenario, scenario.depth)
    assert explored.worlds > 50


@pytest.mark.parametrize("scenario", SCENARIOS, ids=lambda s: s.name)
def test_nothing_further_off_breaks_a_rule(scenario: Scenario) -> None:
    """A sample of long histories: the same ones in every run."""
    assert wander(_longer(scenario), seed=1, walks=40, length=28) > 100


@pytest.mark.slow
@pytest.mark.parametrize("scenario", SCENARIOS, ids=lambda s: s.name)
def test_nothing_deeper_breaks_a_rule(scenario: Scenario) -> None:
    explore(scenario, scenario.deeper)


@pytest.mark.slow
@pytest.mark.parametrize("seed", (2,))
@pytest.mark.parametrize("scenario", SCENARIOS, ids=lambda s: s.name)
def test_nothing_in_many_long_histories_breaks_a_rule(scenario: Scenario, seed: int) -> None:
    wander(_longer(scenario), seed=seed, walks=150, length=34)


def _longer(scenario: Scenario) -> Scenario:
    return replace(scenario, calls=9, most_acts=7)
