"""What a demo tells, step by step. This one tells nothing; `_terminal` needs rich."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from readmit._fold import Head
from readmit._operator import Pending

if TYPE_CHECKING:
    from readmit.demo._report import DemoReport
    from readmit.demo._sides import Told


class Narrator:
    """Listens and keeps quiet."""

    def opens(self, folder: Path) -> None:
        """Before anything happens."""

    def first_call(self, ours: Told, theirs: Told, head: Head) -> None:
        """The first attempt lost its answer."""

    def login(self, head: Head) -> None:
        """The login was renewed."""

    def repeat(self, ours: Told, theirs: Told, head: Head) -> None:
        """The call was made again."""

    def settled(self, again: Told, head: Head, receipt: str, *, by: str) -> None:
        """A person found the effect, and the call was made once more."""

    def straight_through(self, refused: Exception, head: Head, status: int, effects: int) -> None:
        """A call that never left was made again."""

    def left_open(self, left: Sequence[Pending]) -> None:
        """What is open now, and stays so."""

    def analysed(self, report: DemoReport) -> None:
        """The traces were read."""

    def closes(self, report: DemoReport) -> None:
        """The last words."""
