"""What a demo left behind."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from readmit_analysis import Finding

GUARDED = "send_message"
UNGUARDED = "send_message_unguarded"


@dataclass(frozen=True, slots=True, kw_only=True)
class DemoReport:
    """What a demo did and where it is kept.

    Attributes:
        directory: holds everything that was written.
        journal: the guarded tool's journal.
        traces: the folder of OTLP JSON lines.
        guarded: effects that the guarded tool's server counted.
        unguarded: effects that the twin's server counted.
        findings: what the analysis found in the traces, benign ones included.
        occurrence_id: the guarded call, for `show`.
        seconds: how long it took.
    """

    directory: Path
    journal: Path
    traces: Path
    guarded: int
    unguarded: int
    findings: tuple[Finding, ...]
    occurrence_id: str
    seconds: float

    @property
    def ok(self) -> bool:
        """Whether the servers counted 1 and 2, and the analysis named the twin's duplicate and accused nobody else."""
        accused = {finding.tool for finding in self.findings if not finding.benign}
        named = {finding.tool for finding in self.findings if finding.verdict == "duplicate_effect"}
        return (self.guarded, self.unguarded) == (1, 2) and accused == named == {UNGUARDED}

    @property
    def line(self) -> str:
        """The servers' own count."""
        return f"guarded {self.guarded}, unguarded {self.unguarded}"

    def document(self) -> dict[str, Any]:
        """For scripts."""
        return {
            "guarded": self.guarded,
            "unguarded": self.unguarded,
            "ok": self.ok,
            "directory": str(self.directory),
            "journal": str(self.journal),
            "traces": str(self.traces),
            "occurrence_id": self.occurrence_id,
            "findings": [finding.as_dict() for finding in self.findings],
            "seconds": round(self.seconds, 3),
        }
