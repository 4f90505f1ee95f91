"""strace: counts the system calls of a program, and makes them fail or kill."""

from __future__ import annotations

import re
import shutil
import subprocess
import sys
from functools import lru_cache
from pathlib import Path

import pytest

from tests.journal.caller import MARK
from tests.journal.processes import run

SYNC = ("fsync", "fdatasync")


@lru_cache
def why_not() -> str:
    """Why it cannot be used here; empty if it can."""
    if not shutil.which("strace"):
        return "needs strace (`apt-get install strace`)"
    probe = subprocess.run(["strace", "-f", "-o", "/dev/null", sys.executable, "-S", "-c", ""], capture_output=True)
    return f"strace may not trace here: {probe.stderr.decode().strip()}" if probe.returncode else ""


def needed() -> None:
    """Skips the test, and says why, where it cannot be used."""
    if reason := why_not():
        pytest.skip(reason)


def syncs_between_marks(folder: Path, *arguments: object) -> int:
    """How often a program waited for its disk between its two marks."""
    log = folder / "trace"
    traced = ",".join((*SYNC, "?access", "faccessat", "?faccessat2"))
    run("caller", folder, *arguments, before=["strace", "-f", "-o", str(log), "-e", f"trace={traced}"])
    _before, between, after = log.read_text().split(MARK)
    assert after, "the program went on after its second mark"
    return len(re.findall(rf"\b(?:{'|'.join(SYNC)})\(", between))


def injected(log: Path) -> int:
    """How often a fault was really injected."""
    return log.read_text().count("(INJECTED)")
