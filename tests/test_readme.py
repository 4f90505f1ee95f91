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


def test_the_code_blocks_run_and_print_what_they_say(tmp_path: Path) -> None:
    blocks = [str(e.parsed) for e in Sybil(parsers=[PythonCodeBlockParser()]).parse(README).examples()]
    promised = re.findall(r"<!-- output -->\n```text\n(.*?)```", README.read_text(encoding="utf-8"), re.DOTALL)
    assert len(blocks) >= 5
    assert promised
    program = tmp_path / "program.py"
    with EffectServer() as server:
        server.script("/messages", [LOST])
        program.write_text(f"BASE_URL = {server.url!r}\n" + "\n".join(blocks), encoding="utf-8")
        ran = subprocess.run(
            [sys.executable, "-W", "error", program],
            cwd=tmp_path,
            env={k: v for k, v in os.environ.items() if not k.startswith("READMIT_")},
            capture_output=True,
            text=True,
            timeout=60,
            check=False,
        )
        assert ran.returncode == 0, ran.stderr
        assert [effect.path for effect in server.effects] == ["/messages"]
    for text in promised:
        assert text in ran.stdout
    assert (tmp_path / "readmit.db").stat().st_mode & 0o777 == 0o600
