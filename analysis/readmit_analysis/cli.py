"""What the command `readmit analyze` does."""

from __future__ import annotations

import json
import sys
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Literal

from readmit_analysis._extra import require
from readmit_analysis._load import load

if TYPE_CHECKING:
    from rich.console import Console

    from readmit_analysis._ingest import Progress

__all__ = ["analyze"]


def analyze(
    paths: Sequence[str | Path], *, format: Literal["table", "json"] = "table", console: Console | None = None
) -> int:
    """Read traces and print what they tell.

    The table begins with the coverage; benign repeats come apart from the findings. The JSON is
    `{"coverage": {…}, "findings": [{"verdict", "confidence", "occurrence_id", "spans", "why", …}]}`, with benign ones
    marked `"benign": true`.

    Args:
        paths: Files, globs, directories.
        format: `table` for people, `json` for scripts.
        console: Where to print; by default the terminal. Progress goes to the error stream.

    Returns:
        The exit code: 0 if the analysis ran, with or without findings; 2 if not one span could be read.

    Raises:
        MissingExtra: DuckDB is not installed.
    """
    require("duckdb", purpose="readmit analyze")
    console = console or require("rich.console", purpose="readmit analyze").Console()
    with _progress() as report, load(*paths, progress=report) as traces:
        findings = traces.findings()
        coverage = traces.coverage
    if format == "json":
        plain = {"coverage": coverage.as_dict(), "findings": [finding.as_dict() for finding in findings]}
        console.out(json.dumps(plain, indent=2), highlight=False)
    else:
        from readmit_analysis._report import print_report

        print_report(console, coverage, findings)
    return 0 if coverage.spans else 2


@contextmanager
def _progress() -> Iterator[Callable[[Progress], None] | None]:
    """A progress bar on the error stream, if a person is looking at it."""
    if not sys.stderr.isatty():
        yield None
        return
    from rich.console import Console
    from rich.progress import BarColumn, DownloadColumn, SpinnerColumn, TextColumn, TimeElapsedColumn
    from rich.progress import Progress as Bar

    name = TextColumn("reading {task.description}", markup=False)
    columns = (SpinnerColumn(), name, BarColumn(), DownloadColumn(), TimeElapsedColumn())
    with Bar(*columns, console=Console(stderr=True), transient=True) as bar:
        task = bar.add_task("traces", total=None)

        def report(progress: Progress) -> None:
            bar.update(task, completed=progress.done, total=progress.total, description=progress.path.name)

        yield report
