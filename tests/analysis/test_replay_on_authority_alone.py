from __future__ import annotations

from pathlib import Path

import pytest

from readmit_analysis import Finding, load
from tests.analysis.scene import MS, SECOND, Scene, span_id

ARGS = '{"to": "ada"}'


def found(path: Path) -> list[Finding]:
    with load(path) as traces:
        return traces.findings("replay_on_authority_alone")


@pytest.mark.parametrize("trigger", ["login", "approval"])
def test_an_observed_epoch_after_new_authority(tmp_path: Path, trigger: str) -> None:
    act = {"login": "login", "approval": "approve"}[trigger]
    with Scene(tmp_path / "t.jsonl") as scene, scene.span("run"):
        with scene.epoch("o1", 1, effect="unknown", mode="observe") as first:
            pass
        granted = scene.act(act, "o1", permit__source=trigger, permit__state="granted")
        with scene.epoch(
            "o1", 2, effect="committed", mode="observe", decision="observed", before="unknown", came_after=trigger
        ) as second:
            pass
    (finding,) = found(tmp_path)
    assert (finding.confidence, finding.occurrence_id, finding.tool) == ("confirmed", "o1", "send_message")
    assert first and second
    assert [span.span_id for span in finding.spans] == [span_id(first), granted, span_id(second)]


def test_it_counts_even_if_the_repeat_itself_had_no_effect(tmp_path: Path) -> None:
    with Scene(tmp_path / "t.jsonl") as scene:
        with scene.epoch("o1", 1, effect="unknown", mode="observe"):
            pass
        with scene.epoch("o1", 2, effect="not_sent", mode="observe", decision="observed", came_after="login"):
            pass
    (finding,) = found(tmp_path)
    assert finding.reasons[-1] == "this epoch itself had no effect: not_sent"


@pytest.mark.parametrize(
    ("effect", "options"),
    [
        ("rejected", {"decision": "observed", "mode": "observe"}),
        ("not_sent", {"justification": "not_sent"}),
        ("unknown", {"justification": "idempotency_key"}),
        ("unknown", {"justification": "ambiguity_accepted"}),
        ("unknown", {"decision": "observed", "mode": "observe", "came_after": "repeat"}),
        ("unknown", {"decision": "observed", "mode": "observe", "before": "reconciled"}),
    ],
)
def test_look_alikes(tmp_path: Path, effect: str, options: dict[str, str]) -> None:
    with Scene(tmp_path / "t.jsonl") as scene:
        with scene.epoch("o1", 1, effect=effect):
            pass
        with scene.epoch("o1", 2, effect="committed", **{"came_after": "login", **options}):  # type: ignore[arg-type]
            pass
    assert found(tmp_path) == []


def lost(scene: Scene) -> str:
    with scene.tool("send", ARGS, error="ReadTimeout") as span:
        scene.send(None, error="ReadTimeout")
    return span_id(span)


def done(scene: Scene) -> str:
    with scene.tool("send", ARGS) as span:
        scene.send(200)
    return span_id(span)


def test_foreign_a_sign_in_and_then_the_same_call(tmp_path: Path) -> None:
    with Scene(tmp_path / "t.jsonl") as scene, scene.span("run"):
        first = lost(scene)
        scene.wait(SECOND)
        login = scene.send(200, url="https://id.test/oauth/token?x=1")
        second = done(scene)
    (finding,) = found(tmp_path)
    assert (finding.confidence, [span.span_id for span in finding.spans]) == ("likely", [first, login, second])


def test_foreign_a_sign_in_that_only_shares_the_service(tmp_path: Path) -> None:
    with Scene(tmp_path / "t.jsonl") as scene:
        first = lost(scene)
        scene.wait(SECOND)
        login = scene.send(200, url="https://id.test/login")
        second = done(scene)
    (finding,) = found(tmp_path)
    assert (finding.confidence, [span.span_id for span in finding.spans]) == ("cannot_tell", [first, login, second])
    assert "someone else's" in finding.reasons[1]


def test_foreign_a_challenge_and_then_the_same_call(tmp_path: Path) -> None:
    with Scene(tmp_path / "t.jsonl") as scene, scene.span("run"):
        with scene.tool("send", ARGS, error="HTTPStatusError"):
            scene.send(401)
        done(scene)
    (finding,) = found(tmp_path)
    assert finding.confidence == "cannot_tell"


def test_foreign_inside_one_call(tmp_path: Path) -> None:
    with Scene(tmp_path / "t.jsonl") as scene, scene.tool("send", ARGS):
        first = scene.send(None, error="ReadError")
        scene.send(200, url="https://id.test/oauth/token")
        second = scene.send(200)
    (finding,) = found(tmp_path)
    assert (finding.confidence, [span.span_id for span in finding.spans]) == ("likely", [first, second])


def test_foreign_look_alikes(tmp_path: Path) -> None:
    with Scene(tmp_path / "t.jsonl") as scene:
        with scene.span("no sign-in"):
            lost(scene)
            done(scene)
        scene.wait(3600 * SECOND)
        with scene.span("a sign-in before both"):
            scene.send(200, url="https://id.test/login")
            lost(scene)
            scene.wait(MS)
            done(scene)
        scene.wait(3600 * SECOND)
        with scene.span("a sign-in that failed"):
            lost(scene)
            scene.send(500, url="https://id.test/login")
            done(scene)
        scene.wait(3600 * SECOND)
        with scene.span("a challenge, then something else"):
            with scene.tool("send", ARGS, error="HTTPStatusError"):
                scene.send(401)
            with scene.tool("send", '{"to": "bob"}'):
                scene.send(200)
    assert found(tmp_path) == []
