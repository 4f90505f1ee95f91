"""Reads a folder of OTLP JSON lines with nothing but json, to compare with what was sent."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any


def spans_in(folder: Path) -> list[dict[str, Any]]:
    """Every span of every line that is whole; a line that is not JSON raises."""
    return [span for path in sorted(folder.glob("*.jsonl")) for span in spans_of(path.read_text("utf-8").splitlines())]


def spans_of(lines: list[str]) -> list[dict[str, Any]]:
    """Every span of these lines."""
    return [
        span
        for line in lines
        for resource in json.loads(line)["resourceSpans"]
        for scope in resource["scopeSpans"]
        for span in scope["spans"]
    ]
