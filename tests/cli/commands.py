"""Runs the real command: with pipes, as a script or an agent does, or at a pseudo-terminal, as a person does."""

from __future__ import annotations

import json
import os
import pty
import select
import subprocess
import sys
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

COMMAND = [sys.executable, "-m", "readmit.cli"]
_DEADLINE = 60.0  # seconds


@dataclass(frozen=True, slots=True)
class Ran:
    """What a command did."""

    code: int
    out: str
    err: str = ""

    @property
    def document(self) -> Any:
        """The one JSON document that it printed."""
        return json.loads(self.out)


def _environment(more: Mapping[str, str] | None, columns: int) -> dict[str, str]:
    kept = {name: value for name, value in os.environ.items() if not name.startswith("READMIT_")}
    return {**kept, "COLUMNS": str(columns), "TERM": "dumb", **(more or {})}


def readmit(
    *arguments: str | Path, env: Mapping[str, str] | None = None, cwd: Path | None = None, columns: int = 120
) -> Ran:
    """Runs one command without a terminal."""
    done = subprocess.run(
        [*COMMAND, *map(str, arguments)],
        env=_environment(env, columns),
        cwd=cwd,
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        timeout=_DEADLINE,
    )
    return Ran(done.returncode, done.stdout, done.stderr)


def at_terminal(
    *arguments: str | Path, types: Sequence[str], env: Mapping[str, str] | None = None, cwd: Path | None = None
) -> Ran:
    """Runs one command at a pseudo-terminal and types one line at each question; all it says comes back as `out`."""
    here, there = pty.openpty()
    process = subprocess.Popen(
        [*COMMAND, *map(str, arguments)],
        env=_environment(env, 120),
        cwd=cwd,
        stdin=there,
        stdout=there,
        stderr=there,
        start_new_session=True,
    )
    os.close(there)
    said, lines, deadline = b"", list(types), time.monotonic() + _DEADLINE
    try:
        while chunk := _read(here, deadline):
            said += chunk
            if lines and said.endswith(b"Type yes: "):
                os.write(here, lines.pop(0).encode() + b"\n")
        code = process.wait(timeout=max(0.1, deadline - time.monotonic()))
    finally:
        process.kill()
        process.wait()
        os.close(here)
    return Ran(code, said.decode().replace("\r\n", "\n"))


def _read(terminal: int, deadline: float) -> bytes:
    ready, _, _ = select.select([terminal], [], [], max(0.0, deadline - time.monotonic()))
    if not ready:
        return b""
    try:
        return os.read(terminal, 65536)
    except OSError:  # Linux says so when the other side is closed
        return b""
