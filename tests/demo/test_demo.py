"""The demo, as a newcomer runs it: one command in an empty folder."""

from __future__ import annotations

import json
import os
import shlex
import subprocess
import sys
import time
from dataclasses import replace
from pathlib import Path

import pytest

from readmit import Guard
from readmit.demo import DemoReport, run_demo
from readmit.demo._report import GUARDED, LEFT_ASKING, LEFT_UNKNOWN, UNGUARDED
from tests.cli.commands import at_terminal

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


def test_the_commands_that_it_shows_work_when_they_are_pasted(empty: Path) -> None:
    """In another folder, at a terminal that wraps long lines; those that act ask there, and are confirmed."""
    done = play(cwd=empty, columns=80)
    shown = [shlex.split(line) for line in done.stdout.splitlines() if line.startswith("  ") and "--journal" in line]
    commands = ["show", "pending", "reconcile", "approve", "operator-key"]
    verbs = [next(word for word in words if word in commands) for words in shown]
    assert verbs == commands
    for verb, words in zip(verbs, shown, strict=True):
        ran = at_terminal(*words[words.index(verb) :], types=["yes"], cwd=empty)
        assert ran.code == 0, ran.out
    (journal,) = (empty.parent / "temporary").glob("*/readmit.db")
    guard = Guard(journal=journal)
    waiting = {p.tool: guard.show(p.occurrence_id) for p in guard.pending()}
    guard.close()
    assert waiting[LEFT_UNKNOWN].effects().state == "reconciled"
    assert waiting[LEFT_ASKING].grants[0][1].via == "cli:terminal"


def test_for_scripts_and_in_a_given_folder(empty: Path) -> None:
    done = play("--json", "--directory", "here", cwd=empty)
    assert done.returncode == 0, done.stderr
    report = json.loads(done.stdout)
    assert (report["guarded"], report["unguarded"], report["ok"]) == (1, 2, True)
    assert report["directory"] == str(empty / "here")
    assert {finding["tool"] for finding in report["findings"] if not finding["benign"]} == {UNGUARDED, LEFT_UNKNOWN}
    assert [left["tool"] for left in report["left"]] == [LEFT_UNKNOWN, LEFT_ASKING]
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
    assert {tool for verdict, tool in accusing if verdict != "unsettled_effect"} == {UNGUARDED}
    assert {tool for verdict, tool in accusing if verdict == "unsettled_effect"} == {LEFT_UNKNOWN}
    assert ("justified_replay", "post_status") in {(str(f.verdict), f.tool) for f in report.findings if f.benign}


def test_the_journal_holds_the_story(report: DemoReport) -> None:
    guard = Guard(journal=report.journal)
    head = guard.show(report.occurrence_id)
    assert tuple((p.tool, p.state) for p in guard.pending()) == ((LEFT_UNKNOWN, "unknown"), (LEFT_ASKING, ""))
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
    assert not replace(report, findings=tuple(f for f in report.findings if f.verdict != "unsettled_effect")).ok


def test_a_folder_that_cannot_be_written(empty: Path) -> None:
    (empty / "file").touch()
    done = play("--directory", empty / "file" / "below", cwd=empty)
    assert done.returncode == 1
    assert "The demo cannot be played" in done.stderr
