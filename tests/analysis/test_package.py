from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

import readmit_analysis
from readmit_analysis import Confidence, Verdict, load
from readmit_analysis._sql import DETECTORS, VIEWS, header, statement
from tests.analysis.scene import Scene

SQL = Path(readmit_analysis.__file__).parent / "sql"


def test_all_is_sorted_and_complete() -> None:
    assert readmit_analysis.__all__ == sorted(readmit_analysis.__all__)
    assert all(hasattr(readmit_analysis, name) for name in readmit_analysis.__all__)


def test_every_statement_explains_itself() -> None:
    for path in SQL.glob("*/*.sql"):
        assert len(header(path.parent.name, path.stem)) > 60, path


def test_every_view_and_detector_is_used() -> None:
    assert sorted(VIEWS) == sorted(path.stem for path in (SQL / "views").iterdir())
    assert sorted(DETECTORS) == sorted(path.stem for path in (SQL / "detectors").iterdir())
    assert set(DETECTORS) == {str(verdict) for verdict in Verdict}


@pytest.mark.parametrize("name", [*VIEWS, *DETECTORS])
def test_portable_sql_keeps_to_what_ports(name: str) -> None:
    text = statement("views" if name in VIEWS else "detectors", name)
    code = "\n".join(part for part in text.splitlines() if not part.startswith("--"))
    for word in ("::", "string_agg", "list(", "struct_pack", "ASOF", "make_timestamp", "unnest", "QUALIFY", "EXCLUDE"):
        assert word not in code, (name, word)


def test_empty_input_runs_every_view_and_detector(tmp_path: Path) -> None:
    with load(tmp_path) as traces:
        assert traces.findings() == []
        assert (traces.coverage.spans, traces.coverage.rejects) == (0, (traces.coverage.rejects[0],))


def test_a_verdict_that_does_not_exist(tmp_path: Path) -> None:
    with load(tmp_path) as traces, pytest.raises(ValueError, match="duplicate_effects"):
        traces.findings("duplicate_effects")


def test_findings_of_one_verdict_and_as_a_table(tmp_path: Path) -> None:
    with Scene(tmp_path / "t.jsonl") as scene:
        for number in (1, 2):
            with scene.epoch("<o1>", number, effect="committed", mode="observe", decision="observed"):
                pass
    with load(tmp_path) as traces:
        findings = traces.findings("duplicate_effect")
        assert traces.findings() == findings
    assert findings[0].confidence is Confidence.CONFIRMED
    assert not findings[0].benign
    assert "&lt;o1&gt;" in findings._repr_html_()
    assert "<o1>" not in findings._repr_html_()


def test_sql_gives_relations(tmp_path: Path) -> None:
    with Scene(tmp_path / "t.jsonl") as scene:
        scene.chat()
    with load(tmp_path) as traces:
        relation = traces.sql("SELECT name, end_ns - start_ns AS ns FROM spans")
        assert relation.columns == ["name", "ns"]
        assert relation.fetchall() == [("chat m", 10_000_000)]
        assert "chat m" in str(traces.sql("SELECT name FROM spans"))


@pytest.mark.parametrize(
    ("missing", "call"),
    [
        ("duckdb", "readmit_analysis.load('x')"),
        ("duckdb", "from readmit_analysis.cli import analyze; analyze(['x'])"),
        ("altair", "readmit_analysis.timeline_chart(readmit_analysis.load('x'), 'o1')"),
    ],
)
def test_what_to_install(missing: str, call: str) -> None:
    """A fresh interpreter in which the package cannot be found."""
    program = (
        "import sys, importlib.abc\n"
        "class Hide(importlib.abc.MetaPathFinder):\n"
        "    def find_spec(self, name, path, target=None):\n"
        f"        if name.partition('.')[0] == {missing!r}:\n"
        "            raise ModuleNotFoundError(f'No module {name}', name=name)\n"
        "sys.meta_path.insert(0, Hide())\n"
        f"import readmit_analysis\n{call}\n"
    )
    result = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=False)
    assert result.returncode == 1
    assert "pip install 'readmit[analysis]'" in result.stderr.splitlines()[-1]
    assert missing in result.stderr.splitlines()[-1]
