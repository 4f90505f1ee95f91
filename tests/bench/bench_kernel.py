"""What a guarded call asks of the disk: `python -m tests.bench.bench_kernel`."""

from __future__ import annotations

import tempfile
from pathlib import Path

from tests.bench.figures import Figure, show
from tests.journal import tracer

CALLS = 100


def figures() -> list[Figure]:
    """Fsyncs a call, counted by strace."""
    what = "fsyncs of an effectful call"
    if reason := tracer.why_not():
        return [Figure(what, None, 1, "", reason)]
    with tempfile.TemporaryDirectory() as folder:
        count = tracer.syncs_between_marks(Path(folder), "counted", CALLS, "plain")
    return [Figure(what, count / CALLS, 1, "", f"{count} in {CALLS} calls")]


if __name__ == "__main__":
    show(figures())
