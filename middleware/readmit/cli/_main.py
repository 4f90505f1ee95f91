"""The entry point. What it needs beyond the bare install is imported late, so that its absence can be said."""

from __future__ import annotations

import sys
from collections.abc import Sequence

from readmit.cli._exit import Exit, missing


def main(arguments: Sequence[str] | None = None) -> int:
    """Runs one command.

    Args:
        arguments: the command line; that of the process by default.

    Returns:
        The exit code, one of `Exit` (`analyze` has its own).

    Example:
        >>> int(main(["pending", "--journal", "nowhere.db", "--json"]))
        {"error": "There is no journal at nowhere.db. ...", "exit_code": 3}
        3
    """
    try:
        from readmit.cli import _app
    except ModuleNotFoundError as error:
        if (error.name or "").partition(".")[0] not in ("cyclopts", "rich"):
            raise
        print(missing("cli").message, file=sys.stderr)
        return Exit.EXTRA
    return _app.run(sys.argv[1:] if arguments is None else list(arguments))
