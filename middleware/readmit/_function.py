"""Which function it is: two under one name would be taken for each other."""

from __future__ import annotations

from contextlib import suppress
from typing import Any

_PLAIN = (str, bytes, int, float, bool)


def differs(one: Any, other: Any) -> str:
    """What sets two functions under one name apart; an empty text where it is one function, declared again.

    Running a notebook cell again, or reloading a module, makes a new code object: the function as it is now. One
    code object twice is one `def` that ran twice: then the functions are as different as what they hold.

    Example:
        >>> def maker(account):
        ...     def pay(cents): return account, cents
        ...     return pay
        >>> differs(maker("ann"), maker("bob"))
        "one `def` made both, and their 'account' differs"
        >>> differs(maker("ann"), maker("ann"))
        ''
    """
    if elsewhere := apart(one, other):
        return elsewhere
    code = getattr(one, "__code__", None)
    if code is None or code is not getattr(other, "__code__", None):
        return ""
    mine, theirs = _held(one), _held(other)
    different = [name for name in mine.keys() & theirs.keys() if not _alike(mine[name], theirs[name])]
    if not different:
        return ""
    return f"one `def` made both, and their {', '.join(map(repr, sorted(different)))} differs"


def apart(one: Any, other: Any) -> str:
    """Where the two are, if that is not one place."""
    places = [f"{f.__module__}.{f.__qualname__}" for f in (one, other)]
    return "" if places[0] == places[1] else " and ".join(places)


def _held(function: Any) -> dict[str, Any]:
    """What a closure holds, by name."""
    held = {}
    for name, cell in zip(function.__code__.co_freevars, function.__closure__ or (), strict=True):
        with suppress(ValueError):  # the cell is empty yet: under this name the function itself will stand
            held[name] = cell.cell_contents
    return held


def _alike(mine: Any, theirs: Any) -> bool:
    if mine is theirs or (type(mine) is type(theirs) and isinstance(mine, _PLAIN) and mine == theirs):
        return True
    code = getattr(mine, "__code__", None)
    return code is not None and code is getattr(theirs, "__code__", None)
