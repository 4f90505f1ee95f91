"""What the import costs beyond what it stands on: `python -m tests.bench.bench_import`."""

from __future__ import annotations

import subprocess
import sys

from tests.bench.figures import Figure, show
from tests.journal.processes import environment

BASE = ("httpx", "opentelemetry.sdk.trace", "opentelemetry.instrumentation.httpx")
TIMED = """
import sys, time
for name in sys.argv[1:-1]:
    __import__(name)
started = time.process_time()
__import__(sys.argv[-1])
print((time.process_time() - started) * 1000)
"""


def milliseconds(*names: str) -> float:
    """CPU of the last import after the others, in the best of seven processes."""
    command = [sys.executable, "-c", TIMED, *names]
    runs = [subprocess.run(command, env=environment(), check=True, capture_output=True, text=True) for _ in range(7)]
    return min(float(run.stdout) for run in runs)


def figures() -> list[Figure]:
    """The import of `readmit` alone."""
    return [Figure("import readmit, after httpx and OpenTelemetry", milliseconds(*BASE, "readmit"), 150, "ms")]


if __name__ == "__main__":
    show(figures())
