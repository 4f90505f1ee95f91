"""How the demo sets what it tells: names beside values, a line for each request that a server saw."""

from __future__ import annotations

import httpx
from rich.console import Group, RenderableType
from rich.table import Table
from rich.text import Text

import readmit
from readmit.demo._sides import Told


def as_lines(told: Told, rows: tuple[tuple[str, str, str], ...]) -> RenderableType:
    """What the server saw, what the tool said, what is known of it."""
    seen = told.seen or ("nothing: no request left",)
    server = [("server" if i == 0 else "", line, _weight(line)) for i, line in enumerate(seen)]
    match told.error:
        case httpx.HTTPStatusError() as error:
            raised = [("tool", f"HTTPStatusError {error.response.status_code}", "")]
        case None | readmit.Refused():
            raised = []
        case error:
            raised = [("tool", type(error).__name__, "")]
    return as_rows((*server, *raised, *rows))


def _weight(seen: str) -> str:
    if "effect" not in seen:
        return ""
    return "bold" if "effect 1" in seen else "bold red"


def as_rows(rows: tuple[tuple[str, str, str], ...]) -> Table:
    """Names beside values, each with a style."""
    grid = Table.grid(padding=(0, 1))
    grid.add_column(style="dim", no_wrap=True)
    grid.add_column(overflow="fold")
    for name, value, style in rows:
        grid.add_row(name, Text(value, style=style))
    return grid


def as_gates(*gates: tuple[str, bool, str]) -> RenderableType:
    """The gates one below the other: open or closed, and why."""
    grid = Table.grid(padding=(0, 2))
    for name, is_open, why in gates:
        grid.add_row(Text(name, style="dim"), Text("open", "green") if is_open else Text("CLOSED", "bold red"), why)
    return Group(grid)
