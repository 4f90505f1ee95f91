"""What is said where a part is not installed: the exact command, and nothing else."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

WITHOUT = """
import sys
sys.modules.update(dict.fromkeys(sys.argv[1].split(",")))
from readmit.cli import main
sys.exit(main(sys.argv[2:]))
"""


def without(packages: str, *arguments: str, cwd: Path) -> subprocess.CompletedProcess[str]:
    """Runs a command in a process that cannot import some packages."""
    return subprocess.run(
        [sys.executable, "-c", WITHOUT, packages, *arguments], capture_output=True, text=True, cwd=cwd, timeout=60
    )


@pytest.mark.parametrize(
    ("packages", "arguments", "extra"),
    [
        ("cyclopts", ("pending",), "cli"),
        ("rich", ("pending",), "cli"),
        ("duckdb", ("analyze", "traces"), "analysis"),
        ("duckdb", ("demo",), "analysis"),
        ("opentelemetry.exporter.otlp.json.file", ("demo",), "otlp"),
    ],
)
def test_a_missing_extra_is_named_exactly(
    tmp_path: Path, packages: str, arguments: tuple[str, ...], extra: str
) -> None:
    done = without(packages, *arguments, cwd=tmp_path)
    assert done.returncode == 5
    assert done.stdout == ""
    assert done.stderr == f"pip install 'readmit[{extra}]'\n"
    assert list(tmp_path.iterdir()) == []
