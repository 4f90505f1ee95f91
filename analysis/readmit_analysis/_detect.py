"""Runs the detectors and gathers their rows into findings."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING, Any

from readmit_analysis._finding import Confidence, Finding, Findings, SpanRef, Verdict
from readmit_analysis._sql import DETECTORS, statement

if TYPE_CHECKING:
    from duckdb import DuckDBPyConnection

__all__ = ["detect"]

_COLUMNS = """
    finding, confidence, occurrence_id, tool, trace_id, span_id, why, justification, not_benign_because, reasons, age_ns
"""
_ORDER = {confidence: place for place, confidence in enumerate(Confidence)}


def detect(con: DuckDBPyConnection, verdicts: Iterable[str] = ()) -> Findings:
    """Run the detectors.

    Args:
        con: A connection on which the views exist.
        verdicts: Only these; by default all of them.

    Returns:
        The findings: in the order of the verdicts, the surest first, then by time.

    Raises:
        ValueError: A verdict that does not exist.
    """
    wanted = [Verdict(verdict) for verdict in verdicts] or [Verdict(name) for name in DETECTORS]
    return Findings(finding for verdict in Verdict if verdict in wanted for finding in _run(con, verdict))


def _run(con: DuckDBPyConnection, verdict: Verdict) -> list[Finding]:
    rows = con.execute(
        f"SELECT {_COLUMNS} FROM ({statement('detectors', verdict)}) ORDER BY position NULLS LAST, trace_id, span_id"
    ).fetchall()
    groups: dict[str, list[tuple[Any, ...]]] = {}
    for row in rows:
        groups.setdefault(row[0], []).append(row)
    findings = [_finding(verdict, group) for group in groups.values()]
    return sorted(findings, key=lambda finding: _ORDER[finding.confidence])


def _finding(verdict: Verdict, rows: list[tuple[Any, ...]]) -> Finding:
    _, confidence, occurrence_id, tool, _, _, why, justification, not_benign, reasons, age_ns = rows[0]
    spans = dict.fromkeys(SpanRef(row[4], row[5]) for row in rows)
    return Finding(
        verdict=verdict,
        confidence=Confidence(confidence),
        occurrence_id=occurrence_id,
        tool=tool,
        spans=tuple(spans),
        why=why,
        justification=justification,
        not_benign_because=not_benign,
        reasons=tuple(reasons.split(" | ")) if reasons else (),
        age_seconds=None if age_ns is None else age_ns / 1e9,
    )
