from __future__ import annotations

from pathlib import Path

import pytest

from readmit_analysis import Lane, Timeline, load, timeline_chart
from readmit_analysis._layout import lay_out
from tests.analysis.scene import MS, SECOND, Scene

ARGS = '{"to": "ada"}'


@pytest.fixture
def guarded(tmp_path: Path) -> Path:
    """Lost answer, login, a refused repeat, a reconciliation, a returned result."""
    ours = {"readmit__occurrence__id": "o1", "readmit__effect__state": "unknown"}
    with Scene(tmp_path / "guarded.jsonl") as scene, scene.span("run"):
        with scene.epoch(
            "o1",
            1,
            effect="unknown",
            error="ReadTimeout",
            recovery__state="suspended",
            recovery__kind="challenge",
            permit__source="ambient",
            permit__state="granted",
        ):
            scene.send(None, error="httpx.ReadTimeout", **ours)
        scene.wait(3600 * SECOND)
        scene.act("login", "o1", permit__source="login", permit__state="granted", recovery__state="satisfied")
        scene.act(
            "admit", "o1", admission__decision="refuse", admission__refusal="effect_unknown", effect__state="unknown"
        )
        scene.act("reconcile", "o1", effect__state="reconciled")
        scene.act("admit", "o1", admission__decision="return", effect__state="reconciled")
    return tmp_path


def words(timeline: Timeline, lane: Lane) -> list[tuple[str, str]]:
    return [(event.label, event.state) for event in timeline.lane(lane)]


def test_the_lanes_of_an_occurrence(guarded: Path) -> None:
    with load(guarded) as traces:
        timeline = traces.timeline("o1")
    assert (timeline.occurrence_id, timeline.tool) == ("o1", "send_message")
    assert words(timeline, Lane.EPOCH) == [
        ("epoch 1", "unknown"),
        ("refuse: effect_unknown", "refuse"),
        ("return", "return"),
    ]
    assert words(timeline, Lane.SEND) == [("POST ReadTimeout", "unknown")]
    assert words(timeline, Lane.RECOVERY) == [("suspended, challenge", "suspended"), ("satisfied", "satisfied")]
    assert words(timeline, Lane.AUTHORITY) == [("login", "granted"), ("ambient granted", "granted")]
    assert words(timeline, Lane.EFFECT) == [
        ("in flight", "in flight"),
        ("unknown", "unknown"),
        ("reconciled", "reconciled"),
    ]
    assert [event.is_open for event in timeline.lane(Lane.EFFECT)] == [False, False, True]


def test_an_epoch_that_died_stays_open(tmp_path: Path) -> None:
    with Scene(tmp_path / "t.jsonl") as scene, scene.epoch("o1", 1, effect=None, executes=False):
        pass
    with load(tmp_path) as traces:
        timeline = traces.timeline("o1")
    (epoch,) = timeline.lane(Lane.EPOCH)
    assert (epoch.label, epoch.is_open) == ("epoch 1: no span", True)
    assert words(timeline, Lane.EFFECT) == [("unknown", "unknown")]


def test_an_unguarded_duplicate(tmp_path: Path) -> None:
    with Scene(tmp_path / "t.jsonl") as scene, scene.span("run"):
        with scene.tool("send", ARGS, error="ReadTimeout"):
            scene.send(None, error="ReadTimeout")
        scene.send(200, url="http://id.test/login")
        with scene.tool("send", ARGS):
            scene.send(200)
    with load(tmp_path) as traces:
        (finding,) = traces.findings("duplicate_effect")
        timeline = traces.timeline(finding)
    assert words(timeline, Lane.EPOCH) == [("execution 1", "unknown"), ("execution 2", "committed")]
    assert words(timeline, Lane.AUTHORITY) == [("login", "granted")]
    assert [label for label, _ in words(timeline, Lane.RECOVERY)] == ["clear", "suspended, failure", "clear"]
    assert words(timeline, Lane.EFFECT)[-1] == ("committed", "committed")


def test_requests_outside_of_any_tool(tmp_path: Path) -> None:
    with Scene(tmp_path / "t.jsonl") as scene, scene.span("job"):
        scene.send(None, error="ReadTimeout")
        scene.send(200)
    with load(tmp_path) as traces:
        (finding,) = traces.findings("duplicate_effect")
        timeline = traces.timeline(finding)
    assert (timeline.tool, words(timeline, Lane.SEND)) == (
        "",
        [("POST ReadTimeout", "unknown"), ("POST 200", "committed")],
    )


def test_an_unknown_occurrence(guarded: Path) -> None:
    with load(guarded) as traces, pytest.raises(KeyError, match="nothing in these traces belongs to o2"):
        traces.timeline("o2")


def test_the_layout_keeps_the_order_and_shortens_the_gaps(guarded: Path) -> None:
    with load(guarded) as traces:
        timeline = traces.timeline("o1")
    layout = lay_out(timeline)
    by_time = [event.start_ns for event in sorted(timeline.events, key=lambda event: event.start_ns)]
    assert by_time[-1] - by_time[0] > 3600 * SECOND
    assert layout.width < 1400
    assert all(bar.x < bar.x2 <= layout.width for bar in layout.bars)
    assert all(0 <= point.x <= layout.width for point in layout.points)
    times = [text.text for text in layout.texts if text.kind == "time"]
    assert times[0] == "0"
    assert "+1 h" in times
    assert len(times) == len(set(times))


def test_many_events_still_fit(tmp_path: Path) -> None:
    with Scene(tmp_path / "t.jsonl") as scene:
        for number in range(1, 41):
            with scene.epoch("o1", number, effect="unknown", justification="bounded_retry"):
                scene.wait(MS)
    with load(tmp_path) as traces:
        assert lay_out(traces.timeline("o1")).width < 1400


def test_the_picture_is_made_offline(guarded: Path, tmp_path: Path) -> None:
    with load(guarded) as traces:
        chart = timeline_chart(traces, "o1")
    chart.save(tmp_path / "o1.png")
    picture = (tmp_path / "o1.png").read_bytes()
    assert picture.startswith(b"\x89PNG")
    assert len(picture) > 5_000
