"""What the analysis says about traces: verdicts, how sure it is, and on which spans it rests."""

from __future__ import annotations

import html
from dataclasses import asdict, dataclass
from enum import StrEnum
from typing import Any

__all__ = ["BENIGN", "Confidence", "Finding", "Findings", "SpanRef", "Verdict", "printable"]


class Verdict(StrEnum):
    """What was found; the last five are benign and reported apart."""

    DUPLICATE_EFFECT = "duplicate_effect"
    REPLAY_ON_AUTHORITY_ALONE = "replay_on_authority_alone"
    UNSETTLED_EFFECT = "unsettled_effect"
    EXPORT_DUPLICATE = "export_duplicate"
    LAYERED_SPANS = "layered_spans"
    ID_REUSE = "id_reuse"
    LEGITIMATE_REPEAT = "legitimate_repeat"
    JUSTIFIED_REPLAY = "justified_replay"


BENIGN = frozenset(
    {
        Verdict.EXPORT_DUPLICATE,
        Verdict.LAYERED_SPANS,
        Verdict.ID_REUSE,
        Verdict.LEGITIMATE_REPEAT,
        Verdict.JUSTIFIED_REPLAY,
    }
)


class Confidence(StrEnum):
    """How far the evidence carries: it was stated, it is the best reading, or the traces do not hold the answer."""

    CONFIRMED = "confirmed"
    LIKELY = "likely"
    CANNOT_TELL = "cannot_tell"


@dataclass(frozen=True, slots=True)
class SpanRef:
    """One span as evidence; ids in lower-case hex."""

    trace_id: str
    span_id: str


@dataclass(frozen=True, slots=True)
class Finding:
    """One finding.

    Attributes:
        verdict: What was found.
        confidence: How sure that is.
        occurrence_id: The occurrence of `readmit`, or None in traces that `readmit` did not write.
        tool: The tool's name, or None for a request outside of any tool.
        spans: The evidence, in order of time.
        why: What happened, in one sentence.
        justification: The justification that was found, or None.
        not_benign_because: Why it is no benign repeat; None for benign verdicts.
        reasons: What the confidence rests on.
        age_seconds: For an unsettled effect: how long it had been open at the end of the traces.
    """

    verdict: Verdict
    confidence: Confidence
    occurrence_id: str | None
    tool: str | None
    spans: tuple[SpanRef, ...]
    why: str
    justification: str | None = None
    not_benign_because: str | None = None
    reasons: tuple[str, ...] = ()
    age_seconds: float | None = None

    @property
    def benign(self) -> bool:
        """Whether this explains a repeat instead of accusing it."""
        return self.verdict in BENIGN

    def as_dict(self) -> dict[str, Any]:
        """The same as plain data, ready for `json.dumps`."""
        plain = asdict(self)
        plain["spans"] = [asdict(span) for span in self.spans]
        plain["reasons"] = list(self.reasons)
        return {**plain, "verdict": str(self.verdict), "confidence": str(self.confidence), "benign": self.benign}


class Findings(list[Finding]):
    """A list of findings that shows itself as a table in notebooks."""

    def _repr_html_(self) -> str:
        head = ("verdict", "confidence", "tool", "occurrence", "spans", "why", "because")
        rows = [
            (
                finding.verdict,
                finding.confidence,
                finding.tool or "",
                finding.occurrence_id or "",
                ", ".join(span.span_id for span in finding.spans[:4]) + (" …" if len(finding.spans) > 4 else ""),
                finding.why,
                finding.not_benign_because or finding.justification or "",
            )
            for finding in self
        ]
        cells = ["<tr>" + "".join(f"<td>{html.escape(printable(cell))}</td>" for cell in row) + "</tr>" for row in rows]
        return f"<table><tr>{''.join(f'<th>{name}</th>' for name in head)}</tr>{''.join(cells)}</table>"


def printable(text: str) -> str:
    """Text from a trace without control characters: it may come from anyone, and terminals obey escapes."""
    return "".join(char if char.isprintable() else "\N{REPLACEMENT CHARACTER}" for char in text)
