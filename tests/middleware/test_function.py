"""Two functions under one name: calls of one would be taken for the other."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

import readmit
from readmit import Guard

CELL = """
def pay(cents, rate=1):
    return cents * rate
"""


@pytest.fixture
def guard() -> Iterator[Guard]:
    made = Guard(journal=":memory:")
    yield made
    made.close()


def tool_for(guard: Guard, account: object, name: str | None = None) -> Callable[[int], object]:
    @guard.tool(effect="write", name=name)
    def pay(cents: int) -> object:
        return account, cents

    return pay


class Client:
    """Something that a tool holds."""


@pytest.mark.parametrize("others", [("ann", "bob"), (1, 2), (1, True), (None, "bob"), (Client(), Client())])
def test_a_factory_cannot_give_two_of_its_functions_one_name(guard: Guard, others: tuple[object, object]) -> None:
    tool_for(guard, others[0])
    with pytest.raises(ValueError, match=r"'account' differs.*name=.*parameter"):
        tool_for(guard, others[1])


def test_two_names_are_two_tools(guard: Guard) -> None:
    ann, bob = tool_for(guard, "ann", "ann.pay"), tool_for(guard, "bob", "bob.pay")
    assert (ann(5), bob(5)) == (("ann", 5), ("bob", 5))


def test_a_factory_may_make_the_same_function_again(guard: Guard) -> None:
    client = Client()
    for account in ("ann", client):
        name = f"{type(account).__name__}.pay"
        tool_for(guard, account, name)
        assert tool_for(guard, account, name)(5) == (account, 5)


def test_a_function_that_calls_itself_or_its_twin_may_be_made_again(guard: Guard) -> None:
    def made() -> Callable[[int], int]:
        def half(number: int) -> int:
            return number // 2

        @guard.tool(effect="read", name="countdown")
        def countdown(number: int) -> int:
            return countdown(half(number)) if number else 0

        return countdown

    made()
    assert made()(4) == 0


def test_a_notebook_cell_may_be_run_again(guard: Guard) -> None:
    for _ in range(2):
        cell: dict[str, Any] = {"__name__": "__main__"}
        exec(CELL, cell)
        assert guard.tool(effect="write")(cell["pay"])(5) == 5


def test_functions_of_two_places_differ(guard: Guard) -> None:
    guard.tool(effect="write", name="pay")(lambda cents: cents)

    def pay(cents: int) -> int:
        return cents

    with pytest.raises(ValueError, match=r"lambda.*and .*pay"):
        guard.tool(effect="write", name="pay")(pay)


def test_a_program_that_is_configured_anew_makes_its_tools_anew(tmp_path: Path) -> None:
    """Each test of an application configures the default guard and calls its factory: these never meet."""

    def made(url: str) -> Callable[[int], str]:
        @readmit.tool(effect="write", name="tests.configured_anew")
        def pay(cents: int) -> str:
            return url

        return pay

    try:
        for number in range(2):
            readmit.configure(journal=tmp_path / f"{number}.db")
            assert made(f"loopback:{number}")(5) == f"loopback:{number}"
        with pytest.raises(ValueError, match="'url' differs"):
            made("loopback:2")
        with pytest.raises(ValueError, match="Two functions are named"):
            readmit.configure(journal=tmp_path / "2.db").tool(effect="write", name="tests.configured_anew")(tool_for)
    finally:
        readmit.configure(journal=":memory:")
