"""Who acts: a person at a terminal who has seen what it is, or a holder of the operator key (see `_key`)."""

from __future__ import annotations

import os
import sys
from dataclasses import dataclass
from pathlib import Path

from rich.panel import Panel
from rich.table import Table
from rich.text import Text

from readmit.cli import _key
from readmit.cli._exit import Exit, Stop
from readmit.cli._session import Session
from readmit.cli._text import clean

KEY = "READMIT_OPERATOR_KEY"


@dataclass(frozen=True, slots=True, kw_only=True)
class Act:
    """What is about to be recorded, as the person sees it.

    Args:
        operation: the Python name.
        by: who acts.
        shown: names and values, in order; a value that is None is left out.
        meaning: what it changes, and what not.
        notes: what the person might not expect.
    """

    operation: str
    by: str | None
    shown: tuple[tuple[str, str | None], ...]
    meaning: str
    notes: tuple[str, ...] = ()


def consent(session: Session, act: Act) -> str:
    """Asks at the terminal, or checks the operator key.

    Returns:
        What the act is recorded with: `cli:terminal` or `cli:key`.

    Raises:
        Stop: neither.
    """
    if session.key_file is not None:
        return _by_key(session, _from_file(session.key_file))
    if at_terminal():
        _ask(session, act)
        return "cli:terminal"
    if key := os.environ.get(KEY):
        return _by_key(session, key)
    raise Stop(
        Exit.NOT_CONFIRMED,
        f"`{act.operation}` needs a person: run it at a terminal, where it asks, or with an operator key "
        f"({KEY} or --operator-key-file; `readmit operator-key set` makes one). Nothing was recorded.",
    )


def at_terminal() -> bool:
    """Whether somebody can see what is asked and answer it."""
    return sys.stdin.isatty() and sys.stderr.isatty()


def asked(session: Session, question: str) -> None:
    """Asks one question at the terminal; only `yes` is a yes.

    Raises:
        Stop: any other answer, or none.
    """
    answer = ""
    for _ in range(2):  # a `y` is too little, and asked about once more
        session.err.print(Text.assemble(question, " Type ", ("yes", "bold"), ": "), end="")
        try:
            answer = sys.stdin.readline()
        except KeyboardInterrupt:
            answer = ""
        if answer.strip().lower() != "y":
            break
    if answer.strip() != "yes":
        raise Stop(Exit.NOT_CONFIRMED, f"{answer.strip() or 'nothing'!r} is not yes. Nothing was recorded.")


def panel(act: Act) -> Panel:
    """What a person confirms, in full: no id is shortened here."""
    grid = Table.grid(padding=(0, 2))
    grid.add_column(style="dim", no_wrap=True)
    grid.add_column(overflow="fold")
    for name, value in (*act.shown, ("by", act.by)):
        if value is not None:
            grid.add_row(name, Text(clean(value)))
    body = Table.grid(padding=(1, 0))
    body.add_row(grid)
    body.add_row(Text(act.meaning))
    for note in act.notes:
        body.add_row(Text(note, style="yellow"))
    return Panel(body, title=Text(act.operation, style="bold"), title_align="left", border_style="yellow")


def _ask(session: Session, act: Act) -> None:
    session.err.print(panel(act))
    asked(session, "Record this?")


def _from_file(path: Path) -> str:
    try:
        return path.read_text("utf-8")
    except (OSError, UnicodeDecodeError) as error:
        raise Stop(
            Exit.NOT_CONFIRMED, f"The operator key cannot be read from {path}: {error}. Nothing was recorded."
        ) from error


def _by_key(session: Session, key: str) -> str:
    try:
        good = _key.fits(key, session.journal)
    except FileNotFoundError:
        raise Stop(
            Exit.NOT_CONFIRMED,
            f"No operator key was set for {session.journal}: run `readmit operator-key set` at a terminal. "
            "Nothing was recorded.",
        ) from None
    except (OSError, ValueError) as error:
        raise Stop(Exit.NOT_CONFIRMED, f"{error}. Nothing was recorded.") from error
    if not good:
        raise Stop(Exit.NOT_CONFIRMED, f"This is not the operator key of {session.journal}. Nothing was recorded.")
    return "cli:key"
