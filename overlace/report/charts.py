"""Charts of reproductions and benchmarks as SVG files, drawn without a browser."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal

import altair as alt
import vl_convert

COLOURS = ("#30638e", "#d1495b", "#edae49", "#00798c", "#7b4b94", "#8d99ae", "#6a994e", "#bc6c25", "#1b2733")
WIDE, HIGH, PANEL = 460, 300, 250

Row = Mapping[str, Any]


@dataclass(frozen=True)
class Chart:
    """A picture as data: which columns of its rows go where."""

    title: str
    rows: Sequence[Row]
    x: str
    y: str
    series: str = ""  # one colour each
    panel: str = ""  # small multiples
    low: str = ""  # the spread around y
    high: str = ""
    mark: Literal["line", "point", "bar"] = "line"
    x_title: str = ""
    y_title: str = ""
    log: Literal["", "x", "y", "xy"] = ""


def chart_svg(chart: Chart) -> str:
    """The chart as an SVG document."""
    return str(vl_convert.vegalite_to_svg(specification(chart).to_json()))


def specification(chart: Chart) -> Any:
    """The chart for Altair: marks, spread and panels."""
    base = alt.Chart(alt.Data(values=[dict(row) for row in chart.rows]))  # type: ignore[no-untyped-call]
    numeric = all(isinstance(row[chart.x], int | float) for row in chart.rows)
    kind = "Q" if numeric and chart.mark != "bar" else "O" if numeric else "N"
    x = alt.X(f"{chart.x}:{kind}", title=chart.x_title or chart.x, sort=None)
    y = alt.Y(f"{chart.y}:Q", title=chart.y_title or chart.y)
    if kind == "Q":
        x = x.scale(type="log" if "x" in chart.log else "linear", zero=False)
    y = y.scale(type="log" if "y" in chart.log else "linear", zero=chart.mark == "bar" and "y" not in chart.log)
    drawn: dict[str, Any] = {"x": x, "y": y}
    if chart.series:
        order = list(dict.fromkeys(str(row[chart.series]) for row in chart.rows))
        colour = alt.Color(f"{chart.series}:N", sort=order, title=chart.series)
        drawn["color"] = colour.scale(domain=order, range=[COLOURS[i % len(COLOURS)] for i in range(len(order))])
        if chart.mark == "bar":
            drawn["xOffset"] = alt.XOffset(f"{chart.series}:N", sort=order)
    marks = {
        "line": lambda: base.mark_line(point=alt.OverlayMarkDef(size=28)),
        "point": lambda: base.mark_point(filled=True, size=52, opacity=0.85),
        "bar": lambda: base.mark_bar(),
    }
    layers = [marks[chart.mark]().encode(**drawn)]
    if chart.low and chart.high:
        ends = {key: each for key, each in drawn.items() if key != "y"}
        rule = base.mark_rule(opacity=0.6)
        layers.append(rule.encode(y=alt.Y(f"{chart.low}:Q"), y2=alt.Y2(f"{chart.high}:Q"), **ends))
    made = alt.layer(*layers)
    if chart.panel:
        made = made.properties(width=PANEL, height=PANEL * 0.8)
        order = list(dict.fromkeys(str(row[chart.panel]) for row in chart.rows))
        made = made.facet(alt.Facet(f"{chart.panel}:N", sort=order, title=None), columns=3)
        # bars offset on a scale that panels share would have no width
        made = made.resolve_scale(x="independent", y="independent", xOffset="independent")
    else:
        made = made.properties(width=WIDE, height=HIGH)
    return made.properties(title=chart.title).configure(background="white").configure_axis(gridColor="#eeeeee")
