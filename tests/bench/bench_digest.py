"""What a digest costs, binding included: `python -m tests.bench.bench_digest`.

Every figure is the smallest of several repeats, in microseconds a call. `digest` includes binding, `+ each` also the
digests of the single parameters, `secret` makes it an HMAC. For scale: the same binding by `inspect`, and SHA-256 alone
over the JSON text of the arguments.
"""

from __future__ import annotations

import hashlib
import inspect
import json
from collections.abc import Callable
from timeit import Timer
from typing import Any

from rich.box import SIMPLE
from rich.console import Console
from rich.table import Table

from readmit._digest import Binder

REPEATS = 25
SECONDS = 0.02  # of each repeat
SECRET = b"a secret of thirty-two bytes, yes"


def charge(
    order_id: str, cents: int, currency: str = "EUR", *, memo: str = "", lines: Any = (), capture: bool = True
) -> None: ...


SIGNATURE = inspect.signature(charge)
MEMO = "Invoice 2024-117, autumn workshop, thank you"


def arguments(lines: int, memo: str = MEMO) -> tuple[tuple[Any, ...], dict[str, Any]]:
    """An order with so many lines."""
    made = [{"sku": f"sku-{n:05}", "count": n % 7 + 1, "price": n * 1.25, "gift": n % 2 == 0} for n in range(lines)]
    return ("ord_8f3a2b1c9d7e", 129_900), {"memo": memo, "lines": made}


CASES = {
    "200 B": arguments(1),
    "2 KB": arguments(32),
    "200 KB, lines": arguments(3_200),
    "200 KB, text": arguments(1, "x" * 200_000),
}


def microseconds(calls: list[Callable[[], object]]) -> list[float]:
    """The smallest time of each call; the calls take turns, so that a slow spell of the machine hits them all."""
    timers = [Timer(call) for call in calls]
    numbers = [max(1, int(SECONDS / max(timer.timeit(3) / 3, 1e-7))) for timer in timers]
    rounds = [
        [timer.timeit(number) / number for timer, number in zip(timers, numbers, strict=True)] for _ in range(REPEATS)
    ]
    return [min(times) * 1e6 for times in zip(*rounds, strict=True)]


def by_inspect(args: tuple[Any, ...], kwargs: dict[str, Any]) -> dict[str, Any]:
    bound = SIGNATURE.bind(*args, **kwargs)
    bound.apply_defaults()
    return bound.arguments


def _shown(figure: float) -> str:
    return f"{figure:.1f}" if figure < 1_000 else f"{figure:,.0f}"


def measure(args: tuple[Any, ...], kwargs: dict[str, Any]) -> list[str]:
    """One row of the table."""
    binder = Binder(charge, tool="shop.charge")
    text = json.dumps(binder.bind(args, kwargs)).encode()
    calls: list[Callable[[], object]] = [
        lambda: binder.bind(args, kwargs),
        lambda: binder.digest(binder.bind(args, kwargs)),
        lambda: dict(binder.digest(binder.bind(args, kwargs)).parameters),
        lambda: binder.digest(binder.bind(args, kwargs), secret=SECRET),
        lambda: by_inspect(args, kwargs),
        lambda: hashlib.sha256(text).hexdigest(),
    ]
    return [f"{len(text):,}", *map(_shown, microseconds(calls))]


def main() -> None:
    table = Table(box=SIMPLE, title="Digest of a call's arguments, µs (aim: 200 B in 12)")
    table.add_column("arguments", no_wrap=True)
    for name in ("bytes", "bind", "digest", "+ each", "secret", "inspect", "sha256"):
        table.add_column(name, justify="right", style="bold" if name == "digest" else None)
    for name, case in CASES.items():
        table.add_row(name, *measure(*case))
    Console().print(table)


if __name__ == "__main__":
    main()
