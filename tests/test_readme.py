"""Every Python block of the README runs, in order, as one program against a real server, and prints what it says."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

from sybil import Sybil
from sybil.parsers.markdown import PythonCodeBlockParser

from readmit.testing import LOST, EffectServer

README = Path(__file__).parent.parent / "README.md"
ID = re.compile(r"[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}")


def blocks() -> list[str]:
    return [str(e.parsed) for e in Sybil(parsers=[PythonCodeBlockParser()]).parse(README).examples()]


def promised(what: str) -> list[str]:
    """Text blocks that follow a comment."""
    return re.findall(rf"<!-- {what} -->\n```text\n(.*?)```", README.read_text(encoding="utf-8"), re.DOTALL)


def run(program: Path, server: EffectServer, code: list[str]) -> subprocess.CompletedProcess[str]:
    """Runs blocks as a program of somebody who has configured nothing."""
    program.write_text(f"BASE_URL = {server.url!r}\n" + "\n".join(code), encoding="utf-8")
    return subprocess.run(
        [sys.executable, "-W", "error", program],
        cwd=program.parent,
        env={k: v for k, v in os.environ.items() if not k.startswith("READMIT_")},
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )


def test_the_code_blocks_run_and_print_what_they_say(tmp_path: Path) -> None:
    outputs = promised("output")
    assert len(blocks()) >= 6
    assert len(outputs) == 2
    with EffectServer() as server:
        server.script("/messages", [LOST])
        ran = run(tmp_path / "program.py", server, blocks())
        assert ran.returncode == 0, ran.stderr
        assert [effect.path for effect in server.effects] == ["/messages"]
    for text in outputs:
        assert text in ran.stdout
    assert (tmp_path / "readmit.db").stat().st_mode & 0o777 == 0o600


def test_the_first_example_started_again_says_what_is_promised(tmp_path: Path) -> None:
    """One warning line, the traceback, and nothing sent."""
    (text,) = promised("the second run says")
    with EffectServer() as server:
        server.script("/messages", [LOST])
        first = run(tmp_path / "program.py", server, blocks()[:2])
        again = run(tmp_path / "program.py", server, blocks()[:2])
        assert (first.returncode, again.returncode, len(server.effects)) == (0, 1, 1)
    warning, traceback, _, error = ID.sub("ID", text).splitlines()
    said = ID.sub("ID", again.stderr).splitlines()
    assert [said[0], said[1], said[-1]] == [warning, traceback, error]
    assert [ID.sub("ID", line) for line in first.stderr.splitlines()] == [warning], "a refusal that is caught: one line"
