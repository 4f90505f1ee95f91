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


def test_the_first_example_is_refused_as_promised_and_so_is_each_run_after_it(tmp_path: Path) -> None:
    """One warning line, the traceback, and nothing sent."""
    (error,) = promised("it ends with")
    warning = error.removeprefix("readmit.ReplayRefused: ")
    assert len([line for line in blocks()[0].splitlines() if line]) <= 15
    with EffectServer() as server:
        server.script("/messages", [LOST])
        for sent in (1, 1, 1):
            ran = run(tmp_path / "program.py", server, blocks()[:1])
            said = ID.sub("ID", ran.stderr).splitlines(keepends=True)
            assert (ran.returncode, len(server.effects)) == (1, sent)
            assert [said[0], said[1], said[-1]] == [
                ID.sub("ID", warning),
                "Traceback (most recent call last):\n",
                ID.sub("ID", error),
            ]


def test_the_other_code_blocks_run_and_print_what_they_say(tmp_path: Path) -> None:
    """As one program, in the folder where the first example left its open occurrence: there somebody settles it."""
    outputs = promised("output")
    assert len(blocks()) >= 6
    with EffectServer() as server:
        server.script("/messages", [LOST])
        run(tmp_path / "first.py", server, blocks()[:1])
        ran = run(tmp_path / "program.py", server, ["import httpx", "import readmit", *blocks()[1:]])
        assert ran.returncode == 0, ran.stderr
        assert "send_message unknown" in ran.stdout
        assert [effect.path for effect in server.effects] == ["/messages"]
        again = run(tmp_path / "first.py", server, blocks()[:1])
        assert "the effect is already there" in again.stderr
        assert [effect.path for effect in server.effects] == ["/messages"]
    assert len(outputs) == 2
    for text in outputs:
        assert text in ran.stdout
    assert (tmp_path / "readmit.db").stat().st_mode & 0o777 == 0o600
