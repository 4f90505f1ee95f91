"""`readmit operator-key set`: makes the key that stands for a person where there is no terminal."""

from __future__ import annotations

from typing import Annotated

from cyclopts import App, Group, Parameter
from rich.text import Text

from readmit.cli import _key
from readmit.cli._consent import KEY, asked, at_terminal
from readmit.cli._exit import Exit, Stop
from readmit.cli._session import Session

app = App(
    name="operator-key",
    help="The key that stands for a person where there is no terminal.",
    group=Group("Set up", sort_key=4),
)


@app.command(name="set")
def set_key(*, session: Annotated[Session, Parameter(parse=False)]) -> int:
    """Make a new operator key for this journal and print it, once; only its hash is kept, beside the journal.

    Only at a terminal. A key that was set before stops working.
    """
    if not at_terminal():
        raise Stop(Exit.NOT_CONFIRMED, "An operator key is set at a terminal only. Nothing was changed.")
    path = _key.key_path(session.journal)
    if path.exists():
        asked(session, f"The journal {session.journal} has an operator key. Replace it?")
    try:
        key = _key.make_key(session.journal)
    except OSError as error:
        raise Stop(Exit.JOURNAL, f"The hash of a key cannot be kept in {path}: {error.strerror}.") from error
    text = Text(f"The operator key of {session.journal}; it is shown only now:\n\n", style="dim")
    text.append(f"  {key}\n\n", style="not dim bold")
    text.append(f"Put it into {KEY}, or into a file for --operator-key-file, where no agent can read it.\n")
    text.append(f"Its hash is in {path}.")
    session.answer({"operator_key": key, "kept_in": str(path)}, text)
    return Exit.DONE
