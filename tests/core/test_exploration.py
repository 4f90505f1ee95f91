"""Every interleaving, up to a depth, of the real core: callers, people, faults and late outcomes around one remote.

The calls are the real generators, stepped by hand between every decision and its being written; the acts are the real
operator calls; the oracle is the remote's own effect counter. What must hold stands in `checks.py`.
"""

from __future__ import annotations

import logging
from collections.abc import Iterator

import pytest

from tests.core.explore import explore
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


@pytest.mark.slow
@pytest.mark.parametrize("scenario", SCENARIOS, ids=lambda s: s.name)
def test_nothing_deeper_breaks_a_rule(scenario: Scenario) -> None:
    explore(scenario, scenario.deeper)
