"""The notebooks run from top to bottom, and say what they are there to say."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import nbclient
import nbformat
import pytest

from tests.analysis.scene import SECOND, Scene

# nbformat has no types.
read: Callable[..., Any] = nbformat.read
code_cell: Callable[..., Any] = nbformat.v4.new_code_cell

NOTEBOOKS = Path(__file__).parents[2] / "notebooks"
HEADLINES = """
import json
print(json.dumps([
    {"verdict": f.verdict, "confidence": f.confidence, "guarded": f.occurrence_id is not None, "spans": len(f.spans)}
    for f in traces.findings()
]))
"""


def run(name: str, folder: Path) -> tuple[Any, list[dict[str, Any]]]:
    """Execute a notebook in a fresh kernel; returns it, and all its findings."""
    notebook = read(NOTEBOOKS / name, as_version=4)
    notebook.cells.append(code_cell(HEADLINES))
    nbclient.NotebookClient(notebook, timeout=120, resources={"metadata": {"path": str(folder)}}).execute()
    headlines = notebook.cells.pop().outputs[0].text
    return notebook, json.loads(headlines)


def pictures(notebook: Any) -> int:
    outputs = [output for cell in notebook.cells if cell.cell_type == "code" for output in cell.outputs]
    assert not [output for output in outputs if output.output_type in ("error", "stream")]
    return sum("image/png" in output.get("data", {}) for output in outputs)


def test_first_look_at_the_demo(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The guarded tool has no duplicate; its unguarded twin has one, of two executions."""
    monkeypatch.delenv("READMIT_TRACES", raising=False)
    monkeypatch.setenv("TMPDIR", str(tmp_path))
    notebook, findings = run("01_first_look.ipynb", tmp_path)
    duplicates = [finding for finding in findings if finding["verdict"] == "duplicate_effect"]
    assert [(finding["guarded"], finding["spans"]) for finding in duplicates] == [(False, 2)]
    assert duplicates[0]["confidence"] in ("confirmed", "likely")
    assert pictures(notebook) == 2


def test_first_look_at_traces_of_one_s_own(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    traces = tmp_path / "traces"
    traces.mkdir()
    with Scene(traces / "guarded.jsonl", service="guarded") as scene, scene.span("run"):
        with scene.epoch("o1", 1, effect="unknown", error="ReadTimeout"):
            scene.send(None, error="ReadTimeout", readmit__effect__state="unknown")
        scene.act("login", "o1", permit__source="login", permit__state="granted")
        scene.act("admit", "o1", admission__decision="refuse", admission__refusal="effect_unknown")
    with Scene(traces / "unguarded.jsonl", service="unguarded", seed=2) as scene, scene.span("run"):
        with scene.tool("send_message", '{"to": "ada"}', error="ReadTimeout"):
            scene.send(None, error="ReadTimeout")
        scene.wait(SECOND)
        with scene.tool("send_message", '{"to": "ada"}'):
            scene.send(200)
    monkeypatch.setenv("READMIT_TRACES", str(traces))
    notebook, findings = run("01_first_look.ipynb", tmp_path)
    assert [(finding["verdict"], finding["guarded"]) for finding in findings] == [
        ("duplicate_effect", False),
        ("unsettled_effect", True),
    ]
    assert pictures(notebook) == 2


def test_first_look_at_traces_without_a_duplicate(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    traces = tmp_path / "traces"
    traces.mkdir()
    with Scene(traces / "one.jsonl", service="one") as scene, scene.tool("send_message", '{"to": "ada"}'):
        scene.send(200)
    monkeypatch.setenv("READMIT_TRACES", str(traces))
    notebook, findings = run("01_first_look.ipynb", tmp_path)
    assert findings == []
    assert pictures(notebook) == 0
    shown = "\n".join(
        str(output.data) for cell in notebook.cells if cell.cell_type == "code" for output in cell.outputs
    )
    assert "No duplicate_effect in these traces." in shown
    assert "No call in these traces was guarded" in shown


@pytest.mark.parametrize("path", sorted(NOTEBOOKS.glob("*.ipynb")), ids=lambda path: path.name)
def test_notebooks_have_no_logic_of_their_own(path: Path) -> None:
    """What a notebook shows is in the package, where it is typed and tested."""
    notebook = read(path, as_version=4)
    nbformat.validate(notebook)
    code = "\n".join(cell.source for cell in notebook.cells if cell.cell_type == "code")
    assert not [word for word in ("def ", "class ", "for ", "while ", "lambda") if word in code]
