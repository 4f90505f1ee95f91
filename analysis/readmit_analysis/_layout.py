"""Where the things of a timeline go on a picture. Pure: a timeline in, positions in pixels out.

Epochs last milliseconds, approvals take hours: on a straight time axis one of them would be invisible. So the picture
keeps the order and shortens the gaps; the axis says how much time really passed.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from itertools import pairwise

from readmit_analysis._finding import printable
from readmit_analysis._timeline import Lane, Timeline, TimelineEvent

__all__ = ["LANE_HEIGHT", "Bar", "Layout", "Point", "Text", "lay_out"]

LANE_HEIGHT = 62
_BAR = 24  # pixels
_LETTER = 6.3  # pixels, of the average letter at 11 px
_NARROWEST, _WIDEST, _WIDTH = 44.0, 150.0, 1180.0


@dataclass(frozen=True, slots=True)
class Bar:
    """A stretch of time on a lane."""

    x: float
    x2: float
    y: float
    y2: float
    state: str
    is_open: bool
    tooltip: str


@dataclass(frozen=True, slots=True)
class Point:
    """A moment on a lane."""

    x: float
    y: float
    state: str
    lane: str
    tooltip: str


@dataclass(frozen=True, slots=True)
class Text:
    """A word on the picture; `kind` is `bar` (inside a bar), `point` (beside a point), `time` or `lane`."""

    x: float
    y: float
    text: str
    kind: str
    state: str = ""


@dataclass(frozen=True, slots=True)
class Layout:
    """A picture of `width` by `height` pixels."""

    width: float
    height: float
    bars: tuple[Bar, ...]
    points: tuple[Point, ...]
    texts: tuple[Text, ...]


def lay_out(timeline: Timeline) -> Layout:
    """Place the events of a timeline."""
    places = _places(timeline)
    width = max(places.values()) + 2 * _NARROWEST
    lanes = [lane for lane in Lane if timeline.lane(lane)]
    bars: list[Bar] = []
    points: list[Point] = []
    texts = _times(places)
    for row, lane in enumerate(lanes):
        middle = (row + 0.5) * LANE_HEIGHT
        inferred = lane is Lane.EPOCH and timeline.occurrence_id is None
        texts.append(Text(-12, middle, "executions" if inferred else str(lane), "lane"))
        _fill(timeline.lane(lane), middle, places, width, bars, points, texts)
    return Layout(width, len(lanes) * LANE_HEIGHT, tuple(bars), tuple(points), tuple(texts))


def _places(timeline: Timeline) -> dict[int, float]:
    """The pixel of every moment: the order is kept, gaps grow with the logarithm of the time."""
    moments = sorted({at for event in timeline.events for at in (event.start_ns, event.end_ns) if at is not None})
    at = 60.0  # room for the words of the first moment
    places = {moments[0]: at}
    for before, now in pairwise(moments):
        at += min(_WIDEST, _NARROWEST + 22 * math.log10(1 + (now - before) / 1e6))
        places[now] = at
    shrink = min(1.0, _WIDTH / at)
    return {moment: place * shrink for moment, place in places.items()}


def _times(places: dict[int, float]) -> list[Text]:
    first = shown = min(places)
    texts: list[Text] = []
    for moment, place in places.items():
        text = f"+{_elapsed(moment - first)}" if moment > first else "0"
        if texts and text == f"+{_elapsed(shown - first)}":
            text = f"{_elapsed(moment - shown)} later"
        if not texts or place - texts[-1].x >= _LETTER * (len(text) + len(texts[-1].text)) / 2 + 6:
            texts.append(Text(place, -14, text, "time"))
            shown = moment
    return texts


def _elapsed(ns: int) -> str:
    seconds = ns / 1e9
    for size, unit in ((86400, "d"), (3600, "h"), (60, "min"), (1, "s")):
        if seconds >= size:
            return f"{seconds / size:.3g} {unit}"
    return f"{ns / 1e6:.3g} ms"


def _fill(
    events: tuple[TimelineEvent, ...],
    middle: float,
    places: dict[int, float],
    width: float,
    bars: list[Bar],
    points: list[Point],
    texts: list[Text],
) -> None:
    """Place one lane: stretches as bars, moments as points with their words in turn above and below."""
    below, taken = False, 0.0
    for event in sorted(events, key=lambda event: event.start_ns):
        x, label = places[event.start_ns], printable(event.label)
        tooltip = printable(", ".join(part for part in (event.label, event.state, event.detail, event.span_id) if part))
        if event.is_open or event.end_ns is not None:
            x2 = width if event.end_ns is None else max(places[event.end_ns], x + 5)
            y = middle + (7 if x < taken else 0)  # two attempts at the same time
            taken = max(taken, x2)
            bars.append(Bar(x, x2, y - _BAR / 2, y + _BAR / 2, event.state, event.is_open, tooltip))
            texts.append(_bar_text(label, x, x2, y, event.state))
        else:
            points.append(Point(x, middle, event.state, str(event.lane), tooltip))
            texts.append(Text(x, middle + (20 if below else -20), label, "point", event.state))
            below = not below


def _bar_text(label: str, x: float, x2: float, y: float, state: str) -> Text:
    room = int((x2 - x) / _LETTER)
    if len(label) <= room:
        return Text((x + x2) / 2, y, label, "bar", state)
    return Text((x + x2) / 2, y - _BAR / 2 - 9, label, "point", state)
