from __future__ import annotations

from pathlib import Path

import pytest

from readmit_analysis import Finding, load
from tests.analysis.scene import MS, SECOND, Scene, span_id

ARGS = '{"to": "ada"}'


def found(path: Path) -> list[Finding]:
    with load(path) as traces:
        return traces.findings("unsettled_effect")


def test_an_unknown_epoch_and_its_age(tmp_path: Path) -> None:
    with Scene(tmp_path / "t.jsonl") as scene:
        with scene.epoch("o1", 1, effect="unknown", effect__rule="http.no_response"):
            pass
        scene.wait(60 * SECOND)
        scene.chat()
    (finding,) = found(tmp_path)
    assert (finding.confidence, finding.occurrence_id, finding.age_seconds) == ("confirmed", "o1", 60.01)
    assert finding.reasons == ("effect: http.no_response, stated on the epoch span",)


def test_an_admission_whose_epoch_never_came(tmp_path: Path) -> None:
    with Scene(tmp_path / "t.jsonl") as scene, scene.epoch("o1", 1, effect=None, executes=False):
        pass
    (finding,) = found(tmp_path)
    assert (finding.confidence, finding.occurrence_id) == ("cannot_tell", "o1")
    assert "its span never came" in finding.why


def test_a_later_decision_still_saw_it_as_unknown(tmp_path: Path) -> None:
    with Scene(tmp_path / "t.jsonl") as scene:
        with scene.epoch("o1", 1, effect=None, executes=False):
            pass
        scene.act("admit", "o1", admission__decision="refuse", effect__state="unknown")
    (finding,) = found(tmp_path)
    assert finding.confidence == "confirmed"


def test_a_later_rejected_epoch_settles_nothing(tmp_path: Path) -> None:
    with Scene(tmp_path / "t.jsonl") as scene:
        with scene.epoch("o1", 1, effect="unknown"):
            pass
        with scene.epoch("o1", 2, effect="rejected", justification="idempotency_key"):
            pass
        scene.act("reconcile", "o1", effect__state="unknown")
        scene.act("accept", "o1")
    assert [finding.confidence for finding in found(tmp_path)] == ["confirmed"]


@pytest.mark.parametrize(
    ("act", "state"),
    [("reconcile", "reconciled"), ("compensate", "compensated"), ("abandon", None), ("admit", "committed")],
)
def test_settled_later(tmp_path: Path, act: str, state: str | None) -> None:
    with Scene(tmp_path / "t.jsonl") as scene:
        with scene.epoch("o1", 1, effect="unknown"):
            pass
        scene.wait(MS)
        scene.act(act, "o1", effect__state=state)
    assert found(tmp_path) == []


def test_settled_by_a_later_epoch(tmp_path: Path) -> None:
    with Scene(tmp_path / "t.jsonl") as scene:
        with scene.epoch("o1", 1, effect="unknown"):
            pass
        with scene.epoch("o1", 2, effect="committed", justification="idempotency_key"):
            pass
    assert found(tmp_path) == []


def test_settled_then_unknown_again(tmp_path: Path) -> None:
    with Scene(tmp_path / "t.jsonl") as scene:
        with scene.epoch("o1", 1, effect="unknown"):
            pass
        scene.act("reconcile", "o1", effect__state="reconciled")
        with scene.epoch("o1", 2, effect="unknown", justification="reconciled_absent", before="reconciled"):
            pass
    assert [finding.confidence for finding in found(tmp_path)] == ["confirmed"]


@pytest.mark.parametrize("effect", ["committed", "rejected", "not_sent"])
def test_known_effects(tmp_path: Path, effect: str) -> None:
    with Scene(tmp_path / "t.jsonl") as scene, scene.epoch("o1", 1, effect=effect):
        pass
    assert found(tmp_path) == []


def test_reads_have_no_effect_to_settle(tmp_path: Path) -> None:
    with Scene(tmp_path / "t.jsonl") as scene:
        scene.act(
            "admit", "o1", admission__decision="admit", admission__justification="side_effect_free", admission__id="a"
        )
        attributes = {
            "gen_ai.operation.name": "execute_tool",
            "gen_ai.tool.name": "look",
            "readmit.operation": "execute",
        }
        scene.leaf(
            "execute_tool look", {**attributes, "readmit.occurrence.id": "o1"}, scope="readmit", error="ReadTimeout"
        )
    assert found(tmp_path) == []


def test_foreign_a_lost_answer(tmp_path: Path) -> None:
    with Scene(tmp_path / "t.jsonl") as scene, scene.span("run"):
        with scene.tool("send", ARGS, error="ReadTimeout") as span:
            scene.send(None, error="ReadTimeout")
        scene.wait(5 * SECOND - 10 * MS)
    (finding,) = found(tmp_path)
    assert (finding.confidence, [ref.span_id for ref in finding.spans]) == ("likely", [span_id(span)])
    assert finding.age_seconds == 5.0


@pytest.mark.parametrize("status", [200, 422])
def test_foreign_answered(tmp_path: Path, status: int) -> None:
    with Scene(tmp_path / "t.jsonl") as scene, scene.tool("send", ARGS, error="ValueError"):
        scene.send(status)
    assert found(tmp_path) == []


def test_foreign_repeated_with_success(tmp_path: Path) -> None:
    with Scene(tmp_path / "t.jsonl") as scene, scene.span("run"):
        with scene.tool("send", ARGS, error="ReadTimeout"):
            scene.send(None, error="ReadTimeout")
        with scene.tool("send", ARGS):
            scene.send(200)
    assert found(tmp_path) == []


def test_foreign_never_connected(tmp_path: Path) -> None:
    with Scene(tmp_path / "t.jsonl") as scene, scene.tool("send", ARGS, error="httpx.ConnectError"):
        scene.send(None, error="httpx.ConnectError")
    assert found(tmp_path) == []
