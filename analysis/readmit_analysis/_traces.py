"""Traces that were read: coverage, findings, timelines, and SQL over the canonical views."""

from __future__ import annotations

from typing import TYPE_CHECKING

from readmit_analysis._coverage import Coverage
from readmit_analysis._detect import detect
from readmit_analysis._finding import Finding, Findings
from readmit_analysis._timeline import Timeline, timeline

if TYPE_CHECKING:
    from types import TracebackType

    from duckdb import DuckDBPyConnection, DuckDBPyRelation

__all__ = ["Traces"]


class Traces:
    """Traces in DuckDB: the views `spans`, `tool_calls`, `sends`, `model_turns`, `epochs` and `occurrences`.

    Made by `load`. Use it as a context manager, or call `close`, to free its memory early.

    Attributes:
        coverage: What was read and how complete it is.
    """

    def __init__(self, con: DuckDBPyConnection, coverage: Coverage) -> None:
        self._con = con
        self.coverage = coverage

    def findings(self, *verdicts: str) -> Findings:
        """What the detectors find.

        Args:
            *verdicts: Only these, for instance `"duplicate_effect"`; by default all, benign ones included.

        Raises:
            ValueError: A verdict that does not exist.
        """
        return detect(self._con, verdicts)

    def timeline(self, occurrence: str | Finding) -> Timeline:
        """What happened in one occurrence, in order.

        Args:
            occurrence: An occurrence id, or a finding: then also without an occurrence id.

        Raises:
            KeyError: Nothing in these traces belongs to it.
        """
        return timeline(self._con, occurrence)

    def sql(self, query: str) -> DuckDBPyRelation:
        """Run SQL over the views.

        Returns:
            A DuckDB relation: it prints as a table; `.fetchall()` gives rows, `.df()` a pandas frame where pandas is
            installed.

        Example:
            >>> traces.sql("SELECT tool, count(*) FROM tool_calls GROUP BY tool").fetchall()  # doctest: +SKIP
        """
        return self._con.sql(query)

    def close(self) -> None:
        """Free the memory. Relations made by `sql` end with it."""
        self._con.close()

    def __enter__(self) -> Traces:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def __repr__(self) -> str:
        c = self.coverage
        return f"<Traces: {c.spans} spans in {c.traces} traces from {c.files} files, {len(c.rejects)} rejects>"
