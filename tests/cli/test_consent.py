"""Who may act: a person at a terminal, or a holder of the operator key; never an agent in passing."""

from __future__ import annotations

import json
import stat
from pathlib import Path

import pytest

from readmit.cli import main
from tests.cli.commands import Ran, at_terminal, readmit
from tests.cli.conftest import Scene


def acts(scene: Scene) -> list[tuple[str, ...]]:
    """Every command that grants or settles something."""
    on = (scene.unknown, "--by", "ann")
    return [
        ("approve", scene.request, "--by", "ann"),
        ("deny", scene.request, "--by", "ann"),
        ("authenticated", "--principal", "ann"),
        ("reconcile", *on, "--epoch", "1", "--absent", "--authoritative"),
        ("accept", *on, "--epoch", "1", "--statement", "x"),
        ("compensate", *on, "--epoch", "1"),
        ("abandon", *on, "--statement", "x"),
    ]


def test_an_agent_without_a_terminal_is_refused(scene: Scene, capsys: pytest.CaptureFixture[str]) -> None:
    before = scene.events()
    done = readmit(*acts(scene)[0], "--journal", scene.journal)
    assert (done.code, done.out) == (4, "")
    assert "needs a person" in done.err
    for command in acts(scene):
        assert main([*command, "--json", "--journal", str(scene.journal)]) == 4, command
        assert json.loads(capsys.readouterr().out)["exit_code"] == 4
    assert scene.events() == before


@pytest.mark.parametrize("answers", [[""], ["y", "y"], ["y", ""], ["yes please"]], ids=" ".join)
def test_only_yes_is_a_yes(scene: Scene, answers: list[str]) -> None:
    before = scene.events()
    done = at_terminal(*acts(scene)[0], "--journal", scene.journal, types=answers)
    assert done.code == 4
    assert "Nothing was recorded" in done.out
    assert scene.events() == before


def test_a_y_is_asked_about_once_more(scene: Scene) -> None:
    done = at_terminal(*acts(scene)[0], "--journal", scene.journal, types=["y", "yes"])
    assert done.code == 0, done.out


def set_key(scene: Scene, *, types: tuple[str, ...] = ()) -> str:
    """Sets an operator key at a terminal and returns it."""
    done = at_terminal("operator-key", "set", "--journal", scene.journal, "--json", types=types)
    assert done.code == 0, done.out
    document = Ran(0, done.out[done.out.index("{") :]).document
    return str(document["operator_key"])


def test_an_operator_key_stands_for_a_person(scene: Scene, tmp_path: Path) -> None:
    key = set_key(scene)
    kept = scene.journal.with_name("readmit.db-operator-key")
    assert stat.S_IMODE(kept.stat().st_mode) == 0o600
    assert key not in kept.read_text()
    assert json.loads(kept.read_text())["scheme"] == "scrypt"

    by_env = readmit(*acts(scene)[0], "--journal", scene.journal, "--json", env={"READMIT_OPERATOR_KEY": key})
    assert (by_env.code, by_env.document["via"]) == (0, "cli:key")
    assert by_env.document["request_id"] == scene.request
    file = tmp_path / "key"
    file.write_text(key + "\n")
    by_file = readmit(*acts(scene)[4], "--journal", scene.journal, "--operator-key-file", file, "--json")
    assert (by_file.code, by_file.document["via"]) == (0, "cli:key")
    assert [granted[-1]["via"] for granted in scene.events()] == ["cli:key", "cli:key"]


def by_key(scene: Scene, key: str, monkeypatch: pytest.MonkeyPatch, *more: str) -> int:
    """The exit code of an act with an operator key, without the price of another process."""
    monkeypatch.setenv("READMIT_OPERATOR_KEY", key)
    return main([*acts(scene)[0], *more, "--journal", str(scene.journal)])


def test_a_wrong_key_is_no_key(
    scene: Scene, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    assert by_key(scene, "wrong", monkeypatch) == 4
    assert "No operator key was set" in capsys.readouterr().err
    first = set_key(scene)
    assert by_key(scene, "wrong", monkeypatch) == 4
    assert by_key(scene, first, monkeypatch, "--operator-key-file", str(tmp_path / "nope")) == 4
    assert "cannot be read" in capsys.readouterr().err
    second = set_key(scene, types=("yes",))
    assert by_key(scene, first, monkeypatch) == 4
    assert by_key(scene, second, monkeypatch) == 0


def test_a_hash_that_cannot_be_understood_lets_nobody_through(scene: Scene, monkeypatch: pytest.MonkeyPatch) -> None:
    key = set_key(scene)
    kept = scene.journal.with_name("readmit.db-operator-key")
    for text in ("", "[]", '{"scheme": "scrypt"}', '{"n": 0, "r": 8, "p": 1, "salt": "", "hash": ""}'):
        kept.write_text(text)
        assert by_key(scene, key, monkeypatch) == 4, text


def test_a_key_is_set_at_a_terminal_only(scene: Scene, monkeypatch: pytest.MonkeyPatch) -> None:
    assert readmit("operator-key", "set", "--journal", scene.journal).code == 4
    assert not scene.journal.with_name("readmit.db-operator-key").exists()
    first = set_key(scene)
    refused = at_terminal("operator-key", "set", "--journal", scene.journal, types=["no"])
    assert refused.code == 4
    assert by_key(scene, first, monkeypatch) == 0
