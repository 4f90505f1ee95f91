"""One run of the command line: which journal, how to answer, and where."""

from __future__ import annotations

import json
import os
import shlex
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from rich.console import Console, RenderableType
from rich.text import Text

from readmit._errors import JournalUnavailable, OperatorError
from readmit._guard import Guard
from readmit.cli._exit import Exit, Stop


def default_journal() -> Path:
    """`READMIT_JOURNAL`, else `readmit.db` in the working directory: as the library for a program that starts here."""
    return Path(os.environ.get("READMIT_JOURNAL") or "readmit.db")


@dataclass(frozen=True, slots=True, kw_only=True)
class Session:
    """What every command is given.

    Args:
        journal: the journal's path.
        as_json: one JSON document on standard output instead of text for people.
        key_file: a file that holds the operator key.
    """

    journal: Path
    as_json: bool = False
    key_file: Path | None = None
    out: Console = field(default_factory=lambda: Console(highlight=False))
    err: Console = field(default_factory=lambda: Console(stderr=True, highlight=False))

    @property
    def more(self) -> str:
        """What a command that is shown needs at its end to find the same journal."""
        return "" if self.journal == default_journal() else f" --journal {shlex.quote(str(self.journal))}"

    @contextmanager
    def guard(self) -> Iterator[Guard]:
        """A guard on the journal, which must be there already: looking never makes one.

        Raises:
            Stop: there is no journal, or what was asked for does not fit what it holds.
        """
        self._there()
        guard = Guard(journal=self.journal)
        try:
            guard.ports()
            yield guard
        except JournalUnavailable as error:
            raise Stop(Exit.JOURNAL, str(error)) from error
        except OperatorError as error:
            raise Stop(Exit.NOTHING, str(error)) from error
        except ValueError as error:
            raise Stop(Exit.USAGE, str(error)) from error
        finally:
            guard.close()

    def _there(self) -> None:
        try:
            size = self.journal.stat().st_size
        except FileNotFoundError:
            raise Stop(
                Exit.JOURNAL,
                f"There is no journal at {self.journal}. It is made by the first guarded call, beside the program's "
                "script if nothing else was configured; name it with --journal or READMIT_JOURNAL.",
            ) from None
        except OSError as error:
            raise Stop(Exit.JOURNAL, f"The journal {self.journal} cannot be read: {error.strerror}.") from error
        if size == 0:
            raise Stop(Exit.JOURNAL, f"{self.journal} is empty, not a journal; nothing in it was changed.")

    def answer(self, document: Any, text: RenderableType) -> None:
        """Prints the answer: the document for scripts, or the text for people."""
        if self.as_json:
            print(json.dumps(document, ensure_ascii=False))
        else:
            self.out.print(text, crop=False)  # a command is one line, which a terminal wraps and copies whole

    def stopped(self, stop: Stop) -> int:
        """Says why a command ended before it was done."""
        if self.as_json:
            print(json.dumps({"error": stop.message, "exit_code": int(stop.code)}, ensure_ascii=False))
        elif stop.code is Exit.EXTRA:
            print(stop.message, file=self.err.file)
        else:
            self.err.print(Text.assemble(("readmit: ", "bold red"), stop.message), soft_wrap=True)
        return stop.code


def plain(document: Mapping[str, Any]) -> dict[str, Any]:
    """A document without what nobody gave."""
    return {name: value for name, value in document.items() if value is not None}
