"""The packaged `.sql` files: finding them, and reading their header."""

from __future__ import annotations

from functools import cache
from importlib import resources

__all__ = ["DETECTORS", "VIEWS", "header", "statement"]

# In the order in which they build on each other.
VIEWS = (
    "spans",
    "ancestry",
    "context",
    "model_turns",
    "tool_spans",
    "sends",
    "tool_calls",
    "epochs",
    "acts",
    "occurrences",
    "epoch_repeats",
    "send_repeats",
    "call_repeats",
)

DETECTORS = (
    "duplicate_effect",
    "replay_on_authority_alone",
    "unsettled_effect",
    "export_duplicate",
    "layered_spans",
    "id_reuse",
    "legitimate_repeat",
    "justified_replay",
)


@cache
def statement(folder: str, name: str) -> str:
    """The text of one packaged statement.

    Args:
        folder: `reader`, `views` or `detectors`.
        name: The file's name without `.sql`.
    """
    return (resources.files(__package__) / "sql" / folder / f"{name}.sql").read_text(encoding="utf-8")


def header(folder: str, name: str) -> str:
    """The comment at the top of a packaged statement: what it finds and why one may believe it."""
    lines = []
    for line in statement(folder, name).splitlines():
        if not line.startswith("--"):
            break
        lines.append(line.removeprefix("--").removeprefix(" "))
    return "\n".join(lines)
