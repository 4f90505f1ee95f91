"""Coverage and findings on a terminal."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from datetime import UTC, datetime

from rich.console import Console, Group
from rich.panel import Panel
from rich.table import Table
from rich.text import Text

from readmit_analysis._coverage import Coverage
from readmit_analysis._finding import Confidence, Finding, Findings, printable

__all__ = ["print_report"]

_SHOWN = 100
_STYLES = {Confidence.CONFIRMED: "bold red", Confidence.LIKELY: "bold yellow", Confidence.CANNOT_TELL: "cyan"}


def print_report(console: Console, coverage: Coverage, findings: Findings) -> None:
    """Print what was read first, then what was found, and what turned out benign apart from it."""
    console.print(Panel(_coverage(coverage), title="Coverage", title_align="left"))
    accusing = [finding for finding in findings if not finding.benign]
    if accusing:
        console.print(_findings(accusing[:_SHOWN]))
        if len(accusing) > _SHOWN:
            console.print(f"… and {len(accusing) - _SHOWN} more; --format json lists them all")
    else:
        console.print("No finding." if coverage.spans else "Nothing to analyse.")
    benign = [finding for finding in findings if finding.benign]
    if benign:
        console.print(_benign(benign))


def _coverage(coverage: Coverage) -> Group:
    grid = Table.grid(padding=(0, 2))
    grid.add_column(style="dim")
    grid.add_column()
    for name, text in _figures(coverage):
        grid.add_row(name, Text(printable(text)))
    parts: list[Table | Text] = [grid]
    if coverage.rejects:
        rejects = Table("not read", "line", "records", "why", box=None, padding=(0, 2, 0, 0), header_style="dim")
        for reject in coverage.rejects[:_SHOWN]:
            kept = f" ({reject.spans_kept} whole spans saved)" if reject.spans_kept else ""
            line = "" if reject.line is None else str(reject.line)
            path = Text(printable(str(reject.path)), overflow="fold")
            rejects.add_row(path, line, str(reject.records or ""), Text(printable(reject.reason + kept)))
        parts += [Text(""), rejects]
        if len(coverage.rejects) > _SHOWN:
            parts.append(Text(f"… and {len(coverage.rejects) - _SHOWN} more"))
    return Group(*parts)


def _figures(c: Coverage) -> Iterable[tuple[str, str]]:
    copies = f", {_count(c.copies, 'further copy', 'further copies')} collapsed" if c.copies else ""
    yield "spans", f"{c.spans} in {_count(c.traces, 'trace')} from {_count(c.files, 'file')}{copies}"
    if c.services:
        yield "services", ", ".join(c.services[:8]) + (" …" if len(c.services) > 8 else "")
    if c.first_ns is not None and c.last_ns is not None:
        yield "time", f"{_moment(c.first_ns)} to {_moment(c.last_ns)}"
    yield "tool calls", f"{c.tool_calls}: {c.with_readmit} with readmit, {c.with_arguments} with comparable arguments"
    around = (_count(c.model_turns, "model turn"), _count(c.sends, "HTTP request"), _count(c.epochs, "epoch"))
    yield "around them", ", ".join(around)
    gaps = (
        (c.orphans, "without the parent"),
        (c.unfinished, "without an end"),
        (c.without_ids, "without ids"),
        (c.admitted_only, "admitted without the epoch's span"),
    )
    missing = ", ".join(f"{count} {what}" for count, what in gaps if count)
    known = "nothing that shows" if c.spans else "everything: no span could be read"
    yield "missing", f"{missing}: unknown, not absent" if missing else known


def _count(number: int, one: str, many: str | None = None) -> str:
    return f"{number} {one}" if number == 1 else f"{number} {many or one + 's'}"


def _moment(ns: int) -> str:
    try:
        return datetime.fromtimestamp(ns / 1e9, UTC).strftime("%Y-%m-%d %H:%M:%S UTC")
    except (ValueError, OverflowError, OSError):
        return f"{ns} ns"


def _findings(findings: list[Finding]) -> Table:
    table = Table(title="Findings", title_justify="left", show_lines=True, expand=True)
    table.add_column("what and where", width=37, overflow="fold")
    table.add_column("why", ratio=1)
    for finding in findings:
        table.add_row(_what(finding), _why(finding))
    return table


def _what(finding: Finding) -> Text:
    text = Text(finding.verdict, style="bold")
    text.append(f"  {finding.confidence}\n", style=_STYLES[finding.confidence])
    text.append(f"tool {printable(finding.tool)}" if finding.tool else "no tool", style="not bold")
    if finding.occurrence_id:
        text.append(f"\n{printable(finding.occurrence_id)}", style="not bold dim")
    spans = [printable(span.span_id) for span in finding.spans]
    for pair in range(0, min(len(spans), 6), 2):
        text.append("\n" + "  ".join(spans[pair : pair + 2]), style="not bold")
    if len(spans) > 6:
        text.append(f"\nand {len(spans) - 6} more spans", style="not bold dim")
    return text


def _why(finding: Finding) -> Text:
    text = Text(printable(finding.why))
    if finding.age_seconds is not None:
        text.append(f"; open for {_age(finding.age_seconds)} at the end of these traces")
    if finding.not_benign_because:
        text.append("\nnot benign: ", style="dim")
        text.append(printable(finding.not_benign_because))
    for reason in finding.reasons:
        text.append(f"\n· {printable(reason)}", style="dim")
    return text


def _age(seconds: float) -> str:
    for size, unit in ((86400, "days"), (3600, "hours"), (60, "minutes")):
        if seconds >= 2 * size:
            return f"{seconds / size:.0f} {unit}"
    return f"{seconds:.0f} seconds" if seconds >= 2 else "less than two seconds"


def _benign(findings: list[Finding]) -> Table:
    """Benign repeats, counted: there can be as many of them as calls."""
    table = Table(title="Benign, for the record", title_justify="left", expand=True)
    table.add_column("class", min_width=17)
    table.add_column("tool", ratio=1, overflow="fold")
    table.add_column("count", min_width=5, justify="right")
    table.add_column("for instance", ratio=2)
    counts = Counter((finding.verdict, finding.tool) for finding in findings)
    examples = {(finding.verdict, finding.tool): finding for finding in reversed(findings)}
    for key, count in counts.items():
        table.add_row(key[0], Text(printable(key[1] or "")), str(count), Text(printable(examples[key].why)))
    return table
