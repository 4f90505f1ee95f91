"""Other processes on the same journal: started, waited for, killed."""

from __future__ import annotations

import os
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

ROOT = Path(__file__).parents[2]
TIMEOUT = 60  # seconds


def command(module: str, *arguments: object) -> list[str]:
    """Runs a module of the tests with this interpreter, and with the same import path."""
    return [sys.executable, "-m", f"tests.journal.{module}", *map(str, arguments)]


def environment(**more: str) -> dict[str, str]:
    path = os.pathsep.join([str(ROOT), *(p for p in sys.path if p)])
    return {**os.environ, "PYTHONPATH": path, "PYTHONWARNINGS": "error", **more}


def run(
    module: str, *arguments: object, before: Sequence[str] = (), ends: int = 0, **more: Any
) -> subprocess.CompletedProcess[str]:
    """Runs a program to its end, which must be the expected one (-9: killed)."""
    done = subprocess.run(
        [*before, *command(module, *arguments)],
        cwd=ROOT,
        env=environment(),
        capture_output=True,
        text=True,
        timeout=TIMEOUT,
        **more,
    )
    assert done.returncode == ends, f"ended with {done.returncode}, not {ends}:\n{done.stdout}{done.stderr}"
    return done


@contextmanager
def started(module: str, *arguments: object) -> Iterator[subprocess.Popen[str]]:
    """A program that has said its first line; killed at the end if it still runs."""
    process = subprocess.Popen(
        command(module, *arguments),
        cwd=ROOT,
        env=environment(),
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
    )
    assert process.stdin is not None and process.stdout is not None
    try:
        first = process.stdout.readline()
        assert first == "ready\n", first + process.stdout.read()
        yield process
    finally:
        process.kill()
        process.wait(TIMEOUT)
        process.stdin.close()
        process.stdout.close()


def until(condition: Callable[[], object]) -> None:
    """Waits for a condition, which must come true."""
    deadline = time.monotonic() + TIMEOUT
    while not condition():
        assert time.monotonic() < deadline, "it did not come to that"
        time.sleep(0.005)


def ready() -> None:
    """In the program: it has come to the point where the test takes over."""
    print("ready", flush=True)


def wait_for_word() -> str:
    """In the program: until the test says a line, or is gone."""
    return sys.stdin.readline().strip()
