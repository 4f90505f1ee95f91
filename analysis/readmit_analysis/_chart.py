"""The timeline of an occurrence as a picture (Altair)."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict
from typing import TYPE_CHECKING, Any

from readmit_analysis._extra import require
from readmit_analysis._finding import Finding, printable
from readmit_analysis._layout import LANE_HEIGHT, Layout, lay_out
from readmit_analysis._traces import Traces

if TYPE_CHECKING:
    import altair

__all__ = ["timeline_chart"]

_COLOURS = {
    "committed": "#2e8b57",
    "unknown": "#e08e1b",
    "in flight": "#f3d9a4",
    "rejected": "#6c8ebf",
    "not_sent": "#b8c4d6",
    "reconciled": "#2a9d8f",
    "compensated": "#8e6bbf",
    "not seen": "#d9d9d9",
    "no effect": "#d9d9d9",
    "suspended": "#c8553d",
    "satisfied": "#8fbf9f",
    "clear": "#e6e6e6",
    "granted": "#2e8b57",
    "consumed": "#2e8b57",
    "denied": "#c8553d",
    "revoked": "#c8553d",
    "expired": "#9a9a9a",
    "stale": "#9a9a9a",
    "refuse": "#c8553d",
    "return": "#2e8b57",
    "wait": "#9a9a9a",
    "reconcile": "#2a9d8f",
    "abandon": "#444444",
    "accept": "#8e6bbf",
    "declare_unknown": "#e08e1b",
}
_INK, _PALE_INK, _LINE = "#222222", "#666666", "#e3e3e3"
_DARK = ("committed", "reconciled", "compensated", "suspended", "rejected")
_FONT = "sans-serif"


def timeline_chart(traces: Traces, occurrence: str | Finding) -> altair.LayerChart:
    """Draw one occurrence: epochs on top, its sends, and the lanes recovery, authority and effect below.

    Order is kept and gaps are shortened; the axis tells the time that really passed. `chart.save("x.png")` makes a
    picture without a browser and without a network.

    Args:
        traces: What `load` returned.
        occurrence: An occurrence id, or a finding.

    Raises:
        MissingExtra: Altair is not installed.
        KeyError: Nothing in the traces belongs to it.
    """
    alt = require("altair", purpose="drawing timelines")
    timeline = traces.timeline(occurrence)
    layout = lay_out(timeline)
    title = printable(timeline.tool or "requests")
    subtitle = (
        f"occurrence {printable(timeline.occurrence_id)}" if timeline.occurrence_id else "outside of readmit, inferred"
    )
    layers = [
        _lines(alt, layout),
        *_bars(alt, layout),
        *_points(alt, layout),
        *_texts(alt, layout),
    ]
    chart: altair.LayerChart = (
        alt.layer(*layers)
        .properties(
            width=layout.width,
            height=layout.height,
            padding={"left": 88, "top": 8, "right": 12, "bottom": 8},
            title=alt.TitleParams(title, subtitle=[f"{subtitle}; long gaps are shortened"], anchor="start", offset=28),
        )
        .configure_view(stroke=None)
        .configure_title(font=_FONT, subtitleFont=_FONT, subtitleColor=_PALE_INK)
    )
    return chart


def _data(alt: Any, rows: Sequence[Any]) -> Any:
    return alt.Data(values=[asdict(row) for row in rows])


def _x(alt: Any, layout: Layout, name: str = "x") -> Any:
    return alt.X(f"{name}:Q", axis=None, scale=alt.Scale(domain=[0, layout.width], nice=False))


def _y(alt: Any, layout: Layout, name: str = "y") -> Any:
    return alt.Y(f"{name}:Q", axis=None, scale=alt.Scale(domain=[layout.height, 0], nice=False))


def _colour(alt: Any) -> Any:
    scale = alt.Scale(domain=list(_COLOURS), range=list(_COLOURS.values()))
    return alt.Color("state:N", scale=scale, legend=None)


def _lines(alt: Any, layout: Layout) -> Any:
    """A line between lanes."""
    rows = [
        {"y": row * LANE_HEIGHT, "x": 0, "x2": layout.width} for row in range(round(layout.height / LANE_HEIGHT) + 1)
    ]
    base = alt.Chart(alt.Data(values=rows)).mark_rule(color=_LINE, clip=False)
    return base.encode(x=_x(alt, layout), x2="x2:Q", y=_y(alt, layout))


def _bars(alt: Any, layout: Layout) -> list[Any]:
    """Stretches; those without an end in the traces are pale and dashed."""
    layers = []
    for is_open, style in ((False, {}), (True, {"strokeDash": [4, 3], "fillOpacity": 0.45})):
        rows = [bar for bar in layout.bars if bar.is_open is is_open]
        if rows:
            base = alt.Chart(_data(alt, rows)).mark_rect(cornerRadius=3, strokeWidth=1, stroke="#ffffff", **style)
            layers.append(
                base.encode(
                    x=_x(alt, layout),
                    x2="x2:Q",
                    y=_y(alt, layout),
                    y2="y2:Q",
                    color=_colour(alt),
                    tooltip=alt.Tooltip("tooltip:N", title="span"),
                )
            )
    return layers


def _points(alt: Any, layout: Layout) -> list[Any]:
    """Moments: sends as circles, everything else as diamonds."""
    layers = []
    for shape, rows in (
        ("circle", [point for point in layout.points if point.lane == "sends"]),
        ("diamond", [point for point in layout.points if point.lane != "sends"]),
    ):
        if rows:
            base = alt.Chart(_data(alt, rows)).mark_point(shape=shape, filled=True, size=110, opacity=1)
            tooltip = alt.Tooltip("tooltip:N", title="span")
            layers.append(base.encode(x=_x(alt, layout), y=_y(alt, layout), color=_colour(alt), tooltip=tooltip))
    return layers


def _texts(alt: Any, layout: Layout) -> list[Any]:
    styles: dict[str, dict[str, Any]] = {
        "lane": {"align": "right", "fontSize": 12, "fontWeight": "bold", "color": _INK},
        "time": {"align": "center", "fontSize": 10, "color": _PALE_INK},
        "point": {"align": "center", "fontSize": 10.5, "color": _INK},
        "bar": {"align": "center", "fontSize": 11, "color": _INK},
        "dark": {"align": "center", "fontSize": 11, "color": "#ffffff"},
    }
    layers = []
    dark = {id(text) for text in layout.texts if text.kind == "bar" and _on_dark(layout, text.x, text.y)}
    for kind, style in styles.items():
        rows = [text for text in layout.texts if ("dark" if id(text) in dark else text.kind) == kind]
        if rows:
            base = alt.Chart(_data(alt, rows)).mark_text(baseline="middle", font=_FONT, clip=False, **style)
            layers.append(base.encode(x=_x(alt, layout), y=_y(alt, layout), text="text:N"))
    return layers


def _on_dark(layout: Layout, x: float, y: float) -> bool:
    under = [bar for bar in layout.bars if bar.x <= x <= bar.x2 and bar.y <= y <= bar.y2]
    return any(bar.state in _DARK and not bar.is_open for bar in under)
