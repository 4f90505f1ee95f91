"""`pending` and `show`: what people and scripts see; looking changes nothing and makes nothing."""

from __future__ import annotations

import json
import shutil
import sqlite3
import sys
from datetime import timedelta
from io import StringIO
from pathlib import Path

import pytest
from rich.console import Console

from readmit import Guard
from readmit._operator import Pending
from readmit.cli import _ids, main
from readmit.cli._tables import pending_table
from tests.cli.commands import readmit
from tests.cli.conftest import Scene

CALLED = "readmit" if shutil.which("readmit") else f"{sys.executable} -m readmit.cli"


def short(scene: Scene, kind: str, id: str) -> str:
    """An id as tables show it."""
    guard = Guard(journal=scene.journal)
    try:
        return _ids.short(guard, kind, [id])[id]
    finally:
        guard.close()


def test_pending_for_scripts(scene: Scene) -> None:
    done = readmit("pending", "--json", "--journal", scene.journal)
    assert done.code == 0, done.err
    charge, release = done.document
    assert charge.pop("age_seconds") >= 0
    assert charge == {
        "occurrence_id": scene.unknown,
        "tool": "billing.charge",
        "scope": "default",
        "principal": None,
        "epoch": 1,
        "state": "unknown",
        "recovery": "clear",
        "request_id": None,
        "shown": "",
        "remedies": ["reconcile", "accept", "compensate", "abandon"],
    }
    assert release["request_id"] == scene.request
    assert (release["principal"], release["epoch"], release["recovery"]) == ("ann", 0, "suspended (confirmation)")


@pytest.mark.parametrize("columns", [80, 120])
def test_pending_for_people(scene: Scene, columns: int) -> None:
    done = readmit("pending", "--journal", scene.journal, columns=columns)
    assert done.code == 0, done.err
    lines = done.out.splitlines()
    command = f"    {CALLED} show ID --journal {scene.journal}"
    assert lines[-1] == command, "one line, to be copied"
    assert max(map(len, lines[:-1])) <= columns
    for word in ("billing.charge", "deploy.release", "unknown, 1", "nothing sent", "chat-1 · ann", "reconcile"):
        assert word in done.out
    assert short(scene, "occurrence", scene.unknown) in done.out
    assert f"request {short(scene, 'request', scene.request)}" in " ".join(done.out.split())


@pytest.mark.parametrize("length", [18, 24, 30, 36])
@pytest.mark.parametrize("width", [80, 120])
def test_pending_keeps_words_and_ids_whole_however_long_the_ids_are(length: int, width: int) -> None:
    ids = ["01a22f97-debb-7759-b2f5-c7fd0541fa81", "01a22f97-debb-7759-b2f5-c7ffe68d611a"]
    entries = [
        Pending(
            occurrence_id=id,
            tool="deploy.release",
            scope="chat-1",
            principal="ann",
            epoch=0,
            state="",
            recovery="suspended (confirmation)",
            age=timedelta(seconds=3),
            request_id=None,
            shown="",
            remedies=("approve", "abandon"),
        )
        for id in ids
    ]
    console = Console(width=width, file=StringIO())
    with console.capture() as capture:
        console.print(pending_table(entries, {id: id[:length] for id in ids}))
    printed = capture.get()
    assert max(map(len, printed.splitlines())) <= width
    for word in (*(id[:length] for id in ids), "deploy.release", "nothing sent", "(confirmation)", "approve, abandon"):
        assert word in printed


def test_the_journal_is_found_as_the_library_finds_it(scene: Scene) -> None:
    for more in ({"cwd": scene.journal.parent}, {"env": {"READMIT_JOURNAL": str(scene.journal)}}):
        done = readmit("pending", "--json", **more)
        assert [entry["occurrence_id"] for entry in done.document] == [scene.unknown, scene.asking]


def test_nothing_open(tmp_path: Path) -> None:
    guard = Guard(journal=tmp_path / "j.db")
    guard.ports()
    guard.close()
    assert readmit("pending", "--journal", tmp_path / "j.db", "--json").document == []
    done = readmit("pending", "--journal", tmp_path / "j.db")
    assert (done.code, "Nothing is open" in done.out) == (0, True)


def test_show_for_scripts(scene: Scene) -> None:
    done = readmit("show", scene.unknown, "--json", "--journal", scene.journal)
    assert done.code == 0, done.err
    shown = done.document
    assert shown["occurrence_id"] == scene.unknown
    assert shown["open"] is True
    assert shown["effect"] == {"state": "unknown", "rule": "tool.raised", "strength": None, "finding": None}
    assert shown["recovery"] == {"state": "clear", "waiting": []}
    assert shown["authority"] == {"open": True, "sources": ["ambient"]}
    assert shown["delivery"] == {"state": "none", "owed": 1}
    assert shown["remedies"] == ["reconcile", "accept", "compensate", "abandon"]
    events = [(event["dimension"], event["kind"]) for event in shown["events"]]
    assert events == [
        ("identity", "opened"),
        ("admission", "admitted"),
        ("effect", "ended"),
        ("recovery", "suspended"),
    ]
    assert [event["place"] for event in shown["events"]] == [1, 2, 3, 4]


@pytest.mark.parametrize("columns", [80, 120])
def test_show_for_people(scene: Scene, columns: int) -> None:
    done = readmit("show", scene.unknown, "--journal", scene.journal, columns=columns)
    assert done.code == 0, done.err
    commands = [line for line in done.out.splitlines() if line.startswith(f"    {CALLED} ")]
    assert len(commands) == 4 and all(line.endswith(f" --journal {scene.journal}") for line in commands)
    assert max(len(line) for line in done.out.splitlines() if line not in commands) <= columns
    text = " ".join(done.out.split())
    for lane in ("admission", "recovery", "authority", "effect", "delivery"):
        assert lane in text
    for word in (
        scene.unknown,
        "first_attempt",
        "TimeoutError",
        f"{CALLED} reconcile",
        f"{CALLED} accept",
        "may happen twice",
    ):
        assert word in text


def test_a_closed_one_is_shown_by_a_short_id_too(scene: Scene) -> None:
    shown = scene.shown(scene.closed)
    assert (shown["open"], shown["effect"]["state"], shown["delivery"]["state"]) == (False, "committed", "accepted")
    done = readmit("show", short(scene, "occurrence", scene.closed), "--journal", scene.journal)
    assert scene.closed in done.out and "It is closed" in done.out
    assert main(["show", scene.closed + "0", "--journal", str(scene.journal)]) == 1


def test_an_id_may_be_a_beginning_that_no_other_has(scene: Scene) -> None:
    asking = short(scene, "occurrence", scene.asking)
    assert len(asking) < len(scene.asking)
    assert readmit("show", asking, "--json", "--journal", scene.journal).document["occurrence_id"] == scene.asking
    both = readmit("show", scene.unknown[:6], "--json", "--journal", scene.journal)
    assert both.code == 1
    assert both.document["exit_code"] == 1
    for one in (scene.unknown, scene.asking, scene.closed):
        assert one in both.document["error"]
    assert main(["show", "", "--journal", str(scene.journal)]) == 1


@pytest.mark.parametrize("command", [("pending",), ("show", "x"), ("approve", "x", "--by", "ann")])
def test_no_journal_is_made(tmp_path: Path, command: tuple[str, ...]) -> None:
    done = readmit(*command, cwd=tmp_path)
    assert done.code == 3
    assert "There is no journal at readmit.db" in done.err
    assert list(tmp_path.iterdir()) == []


def test_a_journal_that_is_none(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    empty, text, foreign = (tmp_path / name for name in ("empty.db", "text.db", "foreign.db"))
    empty.touch()
    text.write_text("not a database, but long enough to be looked at\n" * 40)
    with sqlite3.connect(foreign) as connection:
        connection.execute("CREATE TABLE theirs (x)")
    connection.close()
    for path, word in ((empty, "empty"), (text, "not a database"), (foreign, "another program"), (tmp_path, "")):
        before = path.read_bytes() if path.is_file() else b""
        assert main(["pending", "--json", "--journal", str(path)]) == 3
        said = json.loads(capsys.readouterr().out)
        assert said["exit_code"] == 3
        assert word in said["error"]
        assert (path.read_bytes() if path.is_file() else b"") == before


def test_texts_from_outside_cannot_move_the_cursor(tmp_path: Path) -> None:
    guard = Guard(journal=tmp_path / "j.db")

    @guard.tool(effect="write", name="pay\x1b[2K\u202eyap", key="order")
    def pay(order: str) -> None:
        raise TimeoutError

    with pytest.raises(TimeoutError):
        pay("1\x1b]0;title\x07")
    (entry,) = guard.pending()
    guard.close()
    for command in (("pending",), ("show", entry.occurrence_id)):
        done = readmit(*command, "--journal", tmp_path / "j.db")
        assert done.code == 0, done.err
        assert not {"\x1b", "\x07", "\u202e"} & set(done.out)
        assert "\\x1b" in done.out


def test_usage_errors(scene: Scene, capsys: pytest.CaptureFixture[str]) -> None:
    for command in (
        ("nope",),
        ("show",),
        ("approve", scene.request),
        ("--journal",),
        ("accept", "x", "--epoch", "one"),
    ):
        assert main(command) == 2
        assert "readmit --help" in capsys.readouterr().err
        assert main(["--json", *command]) == 2
        assert json.loads(capsys.readouterr().out)["exit_code"] == 2


def test_what_looks_at_no_journal_takes_none(tmp_path: Path) -> None:
    for command in ("demo", "analyze"):
        done = readmit(command, "--journal", tmp_path / "j.db")
        assert (done.code, "looks at no journal" in done.err) == (2, True)
    done = readmit("analyze")
    assert (done.code, "trace files, or folders" in done.err) == (2, True)
    done = readmit("analyze", tmp_path)
    assert (done.code, "a folder without files" in done.out) == (2, True)


def test_help_documents_the_exit_codes_and_every_command() -> None:
    done = readmit("--help")
    assert done.code == 0
    for code in range(6):
        assert f"\n  {code}  " in done.out
    acts = "approve deny revoke authenticated reconcile accept compensate abandon declare-unknown"
    for command in ["pending", "show", "analyze", "demo", *acts.split()]:
        assert f" {command} " in done.out
        assert main([command, "--help"]) == 0
    assert main(["declare_unknown", "--help"]) == 0
    assert readmit().out == done.out
