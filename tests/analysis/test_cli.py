from __future__ import annotations

import io
import json
import os
import pty
import subprocess
import sys
from pathlib import Path

from rich.console import Console

from readmit_analysis.cli import analyze
from tests.analysis.documents import line
from tests.analysis.scene import Scene

ARGS = '{"to": "ada"}'
CALL = "from readmit_analysis.cli import analyze; import sys; sys.exit(analyze(sys.argv[2:], format=sys.argv[1]))"


def printed(*paths: Path, format: str = "table") -> tuple[int, str]:
    console = Console(file=io.StringIO(), width=100)
    code = analyze(paths, format=format, console=console)  # type: ignore[arg-type]
    assert isinstance(console.file, io.StringIO)
    return code, console.file.getvalue()


def duplicate(folder: Path, tool: str = "send") -> None:
    with Scene(folder / "t.jsonl") as scene, scene.span("run"):
        with scene.tool(tool, ARGS, error="ReadTimeout"):
            scene.send(None, error="ReadTimeout")
        with scene.tool(tool, ARGS):
            scene.send(200)
            with scene.tool(f"x.{tool}", ARGS):
                scene.send(200)


def test_the_table_has_coverage_findings_and_benign_apart(tmp_path: Path) -> None:
    duplicate(tmp_path)
    (tmp_path / "notes.txt").write_text("hello")
    code, text = printed(tmp_path)
    assert code == 0
    places = [text.index(word) for word in ("Coverage", "not JSON", "Findings", "duplicate_effect", "likely")]
    assert places == sorted(places)
    assert text.index("Benign") < text.index("layered_spans")


def test_json_has_everything(tmp_path: Path) -> None:
    duplicate(tmp_path)
    (tmp_path / "notes.txt").write_text("hello")
    code, text = printed(tmp_path, format="json")
    value = json.loads(text)
    assert code == 0
    assert set(value) == {"coverage", "findings"}
    assert value["coverage"]["rejects"] == [
        {"path": str(tmp_path / "notes.txt"), "reason": "not JSON", "line": 1, "records": 1, "spans_kept": 0}
    ]
    first = value["findings"][0]
    assert {"verdict", "confidence", "occurrence_id", "spans", "why", "justification", "reasons", "benign"} <= set(
        first
    )
    assert (first["verdict"], first["confidence"], first["benign"]) == ("duplicate_effect", "likely", False)
    assert set(first["spans"][0]) == {"trace_id", "span_id"}


def test_nothing_readable_is_exit_code_2(tmp_path: Path) -> None:
    (tmp_path / "empty.jsonl").touch()
    assert printed(tmp_path)[0] == 2
    code, text = printed(tmp_path / "nowhere")
    assert code == 2
    assert "nothing found at this path" in text


def test_no_finding(tmp_path: Path) -> None:
    (tmp_path / "t.jsonl").write_text(line(1))
    code, text = printed(tmp_path)
    assert code == 0
    assert "No finding." in text


def test_hostile_names_do_not_reach_the_terminal(tmp_path: Path) -> None:
    duplicate(tmp_path, tool="[red]\x1b]0;owned\x07send")
    _, text = printed(tmp_path)
    assert "\x1b" not in text
    assert "[red]" in text


def test_json_on_standard_output_is_only_json(tmp_path: Path) -> None:
    duplicate(tmp_path)
    result = subprocess.run(
        [sys.executable, "-c", CALL, "json", str(tmp_path)], capture_output=True, text=True, check=True
    )
    assert json.loads(result.stdout)["findings"]
    assert result.stderr == ""


def test_progress_goes_to_a_terminal_on_the_error_stream(tmp_path: Path) -> None:
    duplicate(tmp_path)
    main, terminal = pty.openpty()
    result = subprocess.run(
        [sys.executable, "-c", CALL, "json", str(tmp_path)],
        stdout=subprocess.PIPE,
        stderr=terminal,
        check=True,
        env={**os.environ, "TERM": "xterm"},
    )
    os.close(terminal)
    assert json.loads(result.stdout)["findings"]
    assert b"reading" in os.read(main, 65_536)
    os.close(main)
