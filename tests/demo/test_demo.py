"""The demo, as a newcomer runs it: one command in an empty folder."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import time
from dataclasses import replace
from pathlib import Path

import pytest

from readmit import Guard
from readmit.demo import DemoReport, run_demo
from readmit.demo._report import GUARDED, UNGUARDED

LONGEST = 15.0  # seconds, imports included


def play(*arguments: str | Path, cwd: Path, columns: int = 100) -> subprocess.CompletedProcess[str]:
    """Runs `readmit demo`; its temporary folder is made below `cwd`'s parent."""
    temporary = cwd.parent / "temporary"
    temporary.mkdir(exist_ok=True)
    environment = {**os.environ, "TMPDIR": str(temporary), "HOME": str(cwd), "COLUMNS": str(columns), "TERM": "dumb"}
    return subprocess.run(
        [sys.executable, "-m", "readmit.cli", "demo", *map(str, arguments)],
        cwd=cwd,
        env=environment,
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        timeout=60,
    )


@pytest.fixture
def empty(tmp_path: Path) -> Path:
    """An empty folder."""
    folder = tmp_path / "empty"
    folder.mkdir()
    return folder


@pytest.mark.parametrize("columns", [80, 120])
def test_it_ends_with_the_servers_own_count(empty: Path, columns: int) -> None:
    began = time.monotonic()
    done = play(cwd=empty, columns=columns)
    took = time.monotonic() - began
    assert (done.returncode, done.stderr) == (0, ""), done.stdout
    lines = done.stdout.splitlines()
    assert lines[-1] == "guarded 1, unguarded 2"
    assert took < LONGEST
    assert list(empty.iterdir()) == [], "it writes only into the folder that it names"
    (written,) = (empty.parent / "temporary").iterdir()
    for path in (written, written / "readmit.db", written / "traces"):
        assert path.exists()
        assert any(str(path) in line for line in lines)
    narrated = [line for line in lines if "readmit " not in line and str(written.parent) not in line]
    assert max(map(len, narrated)) <= columns
    text = " ".join(done.stdout.split())
    for word in ("effect_unknown", "login of ann", "Bearer, Basic", "duplicate_effect", UNGUARDED, "not_sent", "msg-1"):
        assert word in text


def test_for_scripts_and_in_a_given_folder(empty: Path) -> None:
    done = play("--json", "--directory", "here", cwd=empty)
    assert done.returncode == 0, done.stderr
    report = json.loads(done.stdout)
    assert (report["guarded"], report["unguarded"], report["ok"]) == (1, 2, True)
    assert report["directory"] == str(empty / "here")
    assert {finding["tool"] for finding in report["findings"] if not finding["benign"]} == {UNGUARDED}
    assert [path.name for path in empty.iterdir()] == ["here"]
    assert list((empty.parent / "temporary").iterdir()) == []


@pytest.fixture(scope="module")
def report(tmp_path_factory: pytest.TempPathFactory) -> DemoReport:
    """One quiet demo in this process."""
    return run_demo(tmp_path_factory.mktemp("demo"), quiet=True)


def test_the_report(report: DemoReport, capsys: pytest.CaptureFixture[str]) -> None:
    assert (report.guarded, report.unguarded, report.ok) == (1, 2, True)
    assert report.line == "guarded 1, unguarded 2"
    assert report.traces == report.directory / "traces"
    assert report.seconds < LONGEST
    assert capsys.readouterr() == ("", "")


def test_the_analysis_names_the_twin_and_not_the_guarded_tool(report: DemoReport) -> None:
    accusing = {(str(finding.verdict), finding.tool) for finding in report.findings if not finding.benign}
    assert ("duplicate_effect", UNGUARDED) in accusing
    assert {tool for _, tool in accusing} == {UNGUARDED}
    assert ("justified_replay", "post_status") in {(str(f.verdict), f.tool) for f in report.findings if f.benign}


def test_the_journal_holds_the_story(report: DemoReport) -> None:
    guard = Guard(journal=report.journal)
    head = guard.show(report.occurrence_id)
    assert guard.pending() == []
    guard.close()
    assert head.opened.tool == GUARDED
    assert [admitted.justification for admitted in head.admissions] == ["first_attempt"]
    assert head.challenge is not None
    assert [asked.scheme for asked in head.challenge.challenges] == ["Bearer", "Basic"]
    effect = head.effects()
    assert (effect.state, effect.finding, head.closed) == ("reconciled", "present", True)


def test_a_second_demo_in_one_folder_has_its_own(report: DemoReport) -> None:
    again = run_demo(report.directory, quiet=True)
    assert again.ok
    assert again.directory.parent == report.directory
    assert again.directory != report.directory


def test_other_counts_are_not_ok(report: DemoReport) -> None:
    assert not replace(report, guarded=2).ok
    assert not replace(report, unguarded=1).ok
    assert not replace(report, findings=()).ok
    ours = tuple(replace(finding, tool=GUARDED) for finding in report.findings)
    assert not replace(report, findings=ours).ok
    assert not replace(report, findings=report.findings + ours).ok


def test_a_folder_that_cannot_be_written(empty: Path) -> None:
    (empty / "file").touch()
    done = play("--directory", empty / "file" / "below", cwd=empty)
    assert done.returncode == 1
    assert "The demo cannot be played" in done.stderr
