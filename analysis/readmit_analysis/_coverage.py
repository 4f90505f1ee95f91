"""What was read, what was not, and how complete the traces are."""

from __future__ import annotations

import html
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

__all__ = ["Coverage", "Reject"]


@dataclass(frozen=True, slots=True)
class Reject:
    """Something in the input that could not be read.

    Attributes:
        path: The file, or the path as it was given if nothing was found there.
        reason: Why, in one sentence.
        line: Where it starts, counted from 1, or None if it concerns the whole file.
        records: How many records (lines, documents) were lost.
        spans_kept: Whole spans that were saved out of the damaged record.
    """

    path: Path
    reason: str
    line: int | None = None
    records: int = 1
    spans_kept: int = 0


@dataclass(frozen=True, slots=True)
class Coverage:
    """How much of the story these traces tell. A missing span is unknown, never "no effect".

    Attributes:
        files: Files from which at least one span was read.
        rejects: What could not be read, by file.
        spans: Distinct spans.
        copies: Further copies of those spans (equal trace id and span id).
        traces: Distinct trace ids.
        services: The `service.name`s seen, sorted.
        first_ns: Start of the earliest span, nanoseconds since 1970, or None.
        last_ns: End of the latest span, nanoseconds since 1970, or None.
        orphans: Spans whose parent is in none of the files.
        unfinished: Spans without an end.
        without_ids: Spans without trace id or span id: they cannot be evidence.
        tool_calls: Executions of tools, layers and copies collapsed.
        with_readmit: Those that carry the attributes of `readmit`.
        with_arguments: Those whose arguments can be compared: by a digest, or because the span holds them.
        model_turns: Calls to a model.
        sends: HTTP requests of clients.
        epochs: Epochs with a span of their own.
        admitted_only: Admissions whose epoch has no span: a crash, or a lost span.
    """

    files: int
    rejects: tuple[Reject, ...]
    spans: int = 0
    copies: int = 0
    traces: int = 0
    services: tuple[str, ...] = ()
    first_ns: int | None = None
    last_ns: int | None = None
    orphans: int = 0
    unfinished: int = 0
    without_ids: int = 0
    tool_calls: int = 0
    with_readmit: int = 0
    with_arguments: int = 0
    model_turns: int = 0
    sends: int = 0
    epochs: int = 0
    admitted_only: int = 0

    def as_dict(self) -> dict[str, Any]:
        """The same as plain data, ready for `json.dumps`."""
        plain = asdict(self)
        plain["services"] = list(self.services)
        plain["rejects"] = [{**asdict(reject), "path": str(reject.path)} for reject in self.rejects]
        return plain

    def _repr_html_(self) -> str:
        rows = [(name, value) for name, value in self.as_dict().items() if name != "rejects"]
        rows += [(f"not read: {reject.path.name}", reject.reason) for reject in self.rejects]
        cells = (f"<tr><th>{html.escape(name)}</th><td>{html.escape(str(value))}</td></tr>" for name, value in rows)
        return f"<table>{''.join(cells)}</table>"
