"""The commands, put together. This module needs cyclopts and rich."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Annotated

from cyclopts import App, CycloptsError, Group, Parameter

from readmit._version import __version__
from readmit.cli import _acts, _findings, _looking, _operator_key
from readmit.cli._exit import MEANING, Exit, Stop
from readmit.cli._session import Session, default_journal

_HELP = (
    "Work through what guarded calls wait for, and look at what happened.\n\nActs are asked about at a terminal. "
    "Without one they need an operator key: an agent with a shell does not approve itself."
)
_LOOK = Group("Look", sort_key=0)
_DECIDE = Group("Authority", sort_key=1)
_FIND = Group("Effect", sort_key=2)
_END = Group("End", sort_key=3)

app = App(
    name="readmit",
    help=_HELP,
    help_format="plaintext",
    help_epilogue="Exit codes\n" + "\n".join(f"  {code.value}  {meaning}" for code, meaning in MEANING.items()),
    version=__version__,
    result_action="return_value",
    group_commands=Group("Commands", sort_key=9),
)
app.meta.group_parameters = Group("For every command", sort_key=10)
for command, group in (
    (_looking.pending, _LOOK),
    (_looking.show, _LOOK),
    (_looking.analyze, _LOOK),
    (_looking.demo, _LOOK),
    (_acts.approve, _DECIDE),
    (_acts.deny, _DECIDE),
    (_acts.revoke, _DECIDE),
    (_acts.authenticated, _DECIDE),
    (_findings.reconcile, _FIND),
    (_findings.accept, _FIND),
    (_findings.compensate, _FIND),
    (_acts.declare_unknown, _FIND),
    (_acts.abandon, _END),
):
    app.command(command, group=group)
app.command(_operator_key.app)


@app.meta.default
def launch(
    *tokens: Annotated[str, Parameter(show=False, allow_leading_hyphen=True)],
    journal: Annotated[Path | None, Parameter(show_env_var=False)] = None,
    json: Annotated[bool, Parameter(negative=(), show_default=False)] = False,
    operator_key_file: Path | None = None,
) -> int:
    """Run one command.

    Args:
        *tokens: the command and what belongs to it.
        journal: the journal file; else READMIT_JOURNAL, else ./readmit.db. It is never made here.
        json: answer with one JSON document, also when the command stops with an error.
        operator_key_file: a file that holds the operator key; else READMIT_OPERATOR_KEY.
    """
    session = Session(journal=journal or default_journal(), as_json=json, key_file=operator_key_file)
    try:
        if tokens[:1] in (("demo",), ("analyze",)) and (journal or operator_key_file):
            raise Stop(Exit.USAGE, f"{tokens[0]} looks at no journal: it takes neither --journal nor a key.")
        words = ["declare-unknown" if word == "declare_unknown" else word for word in tokens[:1]]
        function, bound, left = app.parse_args([*words, *tokens[1:]], exit_on_error=False, print_error=False)
        done = function(*bound.args, **bound.kwargs, **dict.fromkeys(left, session))
    except CycloptsError as error:
        return session.stopped(
            Stop(Exit.USAGE, f"{error} `readmit --help` lists the commands; each has a --help of its own.")
        )
    except Stop as stop:
        return session.stopped(stop)
    return done if isinstance(done, int) else Exit.DONE


def run(arguments: Sequence[str]) -> int:
    """One command line; its exit code."""
    try:
        done = app.meta(arguments, exit_on_error=False, print_error=False)
    except CycloptsError as error:
        return Session(journal=default_journal(), as_json="--json" in arguments).stopped(
            Stop(Exit.USAGE, f"{error} See `readmit --help`.")
        )
    return done if isinstance(done, int) else Exit.DONE
