"""What the exit code says, and how a command stops before it is done."""

from __future__ import annotations

from enum import IntEnum


class Exit(IntEnum):
    """The exit codes of `readmit`; a signal adds its own by the shell's rules."""

    DONE = 0
    NOTHING = 1
    USAGE = 2
    JOURNAL = 3
    NOT_CONFIRMED = 4
    EXTRA = 5


MEANING = {
    Exit.DONE: "done",
    Exit.NOTHING: "no such thing in the journal, or it has moved on; demo: other counts",
    Exit.USAGE: "the command line cannot be understood",
    Exit.JOURNAL: "the journal is not there, or cannot be read or written",
    Exit.NOT_CONFIRMED: "not confirmed at a terminal, and no valid operator key",
    Exit.EXTRA: "a part is not installed; the message is the command that installs it",
}


class Stop(Exception):
    """A command ends here, with an exit code and a sentence that says why and what to do."""

    def __init__(self, code: Exit, message: str) -> None:
        super().__init__(message)
        self.code = code
        self.message = message


def missing(extra: str) -> Stop:
    """The exact command that installs a part that is missing, and nothing else."""
    return Stop(Exit.EXTRA, f"pip install 'readmit[{extra}]'")
