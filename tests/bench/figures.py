"""Figures beside what they should be."""

from __future__ import annotations

import platform
import sqlite3
from collections.abc import Iterable
from typing import NamedTuple

from rich.box import SIMPLE
from rich.console import Console
from rich.table import Table


class Figure(NamedTuple):
    """One measurement. `value` None: it could not be made here, and `detail` says why."""

    what: str
    value: float | None
    most: float
    unit: str
    detail: str = ""


def show(figures: Iterable[Figure]) -> None:
    """Prints one table."""
    table = Table(
        box=SIMPLE,
        title=f"{platform.python_implementation()} {platform.python_version()}, SQLite {sqlite3.sqlite_version}",
    )
    table.add_column("what")
    for name in ("is", "aim", ""):
        table.add_column(name, justify="right", no_wrap=True)
    table.add_column("how")
    for figure in figures:
        if figure.value is None:
            table.add_row(figure.what, "-", _number(figure.most, figure.unit), "", figure.detail, style="yellow")
            continue
        good = round(figure.value, 2) <= figure.most
        row = (figure.what, _number(figure.value, figure.unit), f"≤ {_number(figure.most, figure.unit)}")
        table.add_row(*row, "yes" if good else "NO", figure.detail, style="" if good else "red")
    Console().print(table)


def _number(value: float, unit: str) -> str:
    return f"{value:.2f} {unit}" if value < 10 else f"{value:.0f} {unit}"
