"""`load`: files in, `Traces` out."""

from __future__ import annotations

import os
import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any

from readmit_analysis._coverage import Coverage, Reject
from readmit_analysis._extra import require
from readmit_analysis._files import discover
from readmit_analysis._ingest import Progress, ingest
from readmit_analysis._sql import VIEWS, statement
from readmit_analysis._traces import Traces

if TYPE_CHECKING:
    from duckdb import DuckDBPyConnection

__all__ = ["load"]


def load(*paths: str | Path, progress: Callable[[Progress], None] | None = None) -> Traces:
    """Read traces: OTLP JSON, as lines or as one document, plain, gzip or zstd, told by their content.

    What cannot be read is counted and named in `coverage.rejects`; everything else is analysed. A path without any
    trace is no error: look at the coverage.

    Args:
        *paths: Files, globs, or directories (read with all that is below them).
        progress: Called before each group of files is read.

    Raises:
        MissingExtra: DuckDB is not installed.

    Example:
        >>> traces = load("traces/")  # doctest: +SKIP
        >>> for finding in traces.findings("duplicate_effect"):  # doctest: +SKIP
        ...     print(finding.tool, finding.why)
    """
    duckdb = require("duckdb", purpose="reading traces")
    files, rejects = discover(paths)
    spill = Path(tempfile.gettempdir()) / f"readmit-analysis-{os.getpid()}"  # made only if memory runs out
    config = {"autoinstall_known_extensions": "false", "temp_directory": str(spill)}
    con: DuckDBPyConnection = duckdb.connect(config=config)
    try:
        rejects += ingest(con, files, progress=progress)
        for name in VIEWS:
            kind = "VIEW" if name == "spans" else "TABLE"
            con.execute(f"CREATE {kind} {name} AS {statement('views', name)}")
        return Traces(con, _coverage(con, rejects))
    except BaseException:
        con.close()
        raise


def _coverage(con: DuckDBPyConnection, rejects: list[Reject]) -> Coverage:
    result = con.execute(statement("reader", "coverage"))
    names = [column[0] for column in result.description or ()]
    figures: dict[str, Any] = dict(zip(names, result.fetchone() or (), strict=True))
    services = con.execute("SELECT DISTINCT service FROM spans WHERE service IS NOT NULL ORDER BY service").fetchall()
    return Coverage(rejects=tuple(rejects), services=tuple(str(name) for (name,) in services), **figures)
