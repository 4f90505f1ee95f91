"""What a demo left behind."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from readmit._operator import Pending

if TYPE_CHECKING:
    from readmit_analysis import Finding

GUARDED = "send_message"
UNGUARDED = "send_message_unguarded"
LEFT_UNKNOWN, LEFT_ASKING = "send_receipt", "close_account"


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
        left: what is open at the end, for whoever wants to try the commands: an unknown effect, an approval request.
        seconds: how long it took.
    """

    directory: Path
    journal: Path
    traces: Path
    guarded: int
    unguarded: int
    findings: tuple[Finding, ...]
    occurrence_id: str
    left: tuple[Pending, ...]
    seconds: float

    @property
    def ok(self) -> bool:
        """Whether the servers counted 1 and 2, and the analysis named the twin's duplicate and accused nobody else.

        What was left unknown is to be named as that.
        """
        accused = {(finding.tool, str(finding.verdict)) for finding in self.findings if not finding.benign}
        unsettled = {tool for tool, verdict in accused if verdict == "unsettled_effect"}
        repeated = {tool for tool, verdict in accused if verdict != "unsettled_effect"}
        named = {tool for tool, verdict in accused if verdict == "duplicate_effect"}
        counted = (self.guarded, self.unguarded) == (1, 2)
        return counted and repeated == named == {UNGUARDED} and unsettled == {LEFT_UNKNOWN}

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
            "left": [
                {"tool": p.tool, "occurrence_id": p.occurrence_id, "epoch": p.epoch, "request_id": p.request_id}
                for p in self.left
            ],
            "findings": [finding.as_dict() for finding in self.findings],
            "seconds": round(self.seconds, 3),
        }
