"""Finds, in anyone's traces, the tool calls whose effect happened twice.

    import readmit_analysis

    traces = readmit_analysis.load("traces/")
    print(traces.coverage)
    for finding in traces.findings():
        print(finding.verdict, finding.confidence, finding.tool, finding.why)

Reading needs DuckDB, pictures need Altair: `pip install 'readmit[analysis]'`.
"""

from __future__ import annotations

from readmit_analysis._chart import timeline_chart
from readmit_analysis._coverage import Coverage, Reject
from readmit_analysis._extra import MissingExtra
from readmit_analysis._finding import Confidence, Finding, Findings, SpanRef, Verdict
from readmit_analysis._ingest import Progress
from readmit_analysis._load import load
from readmit_analysis._timeline import Lane, Timeline, TimelineEvent
from readmit_analysis._traces import Traces

__all__ = [
    "Confidence",
    "Coverage",
    "Finding",
    "Findings",
    "Lane",
    "MissingExtra",
    "Progress",
    "Reject",
    "SpanRef",
    "Timeline",
    "TimelineEvent",
    "Traces",
    "Verdict",
    "load",
    "timeline_chart",
]
