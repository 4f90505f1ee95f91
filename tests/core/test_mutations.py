"""The tests see it when a rule is broken: each mutation of the core must make the table or the exploration fail."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

import readmit
from tests.core.mutations import MUTATIONS, TABLE, Mutation, explored

pytestmark = pytest.mark.slow
_HERE = Path(__file__).parent
_PACKAGE = Path(readmit.__file__).parent


def _copy(folder: Path) -> Path:
    shutil.copytree(_PACKAGE, folder / "readmit", ignore=shutil.ignore_patterns("__pycache__"))
    return folder / "readmit"


def _run(folder: Path, *tests: str) -> subprocess.CompletedProcess[str]:
    """The tests, on the copy, without the remedies of every refusal."""
    environment = {**os.environ, "PYTHONPATH": str(folder), "READMIT_FAST": "1", "PYTHONDONTWRITEBYTECODE": "1"}
    command = [sys.executable, "-m", "pytest", "-x", "-q", "-p", "no:cacheprovider", *(str(_HERE / t) for t in tests)]
    return subprocess.run(command, cwd=_HERE.parents[1], env=environment, capture_output=True, text=True, timeout=300)


def test_the_copy_is_what_is_tested(tmp_path: Path) -> None:
    """The control: untouched, the copy passes; with its core gone, nothing does."""
    copied = _copy(tmp_path)
    tests = dict.fromkeys(m.seen_by for m in MUTATIONS)
    passed = _run(tmp_path, *tests)
    assert passed.returncode == 0, passed.stdout
    (copied / "_admission.py").write_text("raise RuntimeError('this copy is imported')\n")
    assert "this copy is imported" in _run(tmp_path, TABLE).stdout


@pytest.mark.parametrize("mutation", MUTATIONS, ids=lambda m: m.rule)
def test_a_broken_rule_is_seen(mutation: Mutation, tmp_path: Path) -> None:
    changed = _copy(tmp_path) / mutation.file
    text = changed.read_text(encoding="utf-8")
    assert text.count(mutation.old) == 1, "the rule is written in other words now: write the mutation anew"
    changed.write_text(text.replace(mutation.old, mutation.new), encoding="utf-8")
    done = _run(tmp_path, mutation.seen_by)
    assert done.returncode == 1, f"nobody sees it: {done.stdout}"
    assert "Violation" in done.stdout or "AssertionError" in done.stdout, done.stdout


def test_more_than_ten_rules_are_broken() -> None:
    assert len({m.rule for m in MUTATIONS}) == len(MUTATIONS) >= 10
    assert {m.seen_by for m in MUTATIONS} > {TABLE, explored("every fate")}
