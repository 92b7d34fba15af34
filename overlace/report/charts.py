"""Charts as SVG, drawn by Altair without a browser: files for reproductions and benchmarks, pictures inside a page."""

from __future__ import annotations

import math
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal

import altair as alt
from markupsafe import Markup

from overlace.extras import installing, missing_of, require

COLOURS = ("#30638e", "#d1495b", "#edae49", "#00798c", "#7b4b94", "#8d99ae", "#6a994e", "#bc6c25", "#1b2733")
WIDE, HIGH, PANEL = 460, 300, 250

Row = Mapping[str, Any]
AltairChart = alt.Chart | alt.LayerChart | alt.FacetChart


def rows_chart(rows: Sequence[Row]) -> alt.Chart:
    """A chart of plain rows; Altair wants no data frame."""
    return alt.Chart(alt.InlineData(values=[dict(row) for row in rows]))


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
    require("report")
    return draw_svg(specification(chart))


def draw_svg(chart: AltairChart) -> str:
    """A chart drawn by Vega as an SVG document."""
    import vl_convert

    return str(vl_convert.vegalite_to_svg(chart.to_json()))


def specification(chart: Chart) -> AltairChart:
    """The chart for Altair: marks, spread and panels."""
    base, encodings = rows_chart(chart.rows), _encodings(chart)
    if chart.mark == "line":
        marks = base.mark_line(point=alt.OverlayMarkDef(size=28))
    elif chart.mark == "point":
        marks = base.mark_point(filled=True, size=52, opacity=0.85)
    else:
        marks = base.mark_bar()
    layers = [marks.encode(**encodings)]

    if chart.low and chart.high:
        ends = encodings | {"y": alt.Y(f"{chart.low}:Q"), "y2": alt.Y2(f"{chart.high}:Q")}
        layers.append(base.mark_rule(opacity=0.6).encode(**ends))

    layered: AltairChart = alt.layer(*layers).properties(width=WIDE, height=HIGH)
    if chart.panel:
        panels = alt.Facet(f"{chart.panel}:N", sort=_distinct(chart, chart.panel), title=None)
        layered = layered.properties(width=PANEL, height=PANEL * 0.8).facet(panels, columns=3)
        # bars offset on a scale that panels share would have no width
        layered = layered.resolve_scale(x="independent", y="independent", xOffset="independent")

    titled = layered.properties(title=chart.title).configure(background="white")
    made: AltairChart = titled.configure_axis(gridColor="#eeeeee")
    return made


def _encodings(chart: Chart) -> dict[str, object]:
    """What goes across, up, and into colours."""
    numeric = all(isinstance(row[chart.x], int | float) for row in chart.rows)
    kind = "Q" if numeric and chart.mark != "bar" else "O" if numeric else "N"
    x = alt.X(f"{chart.x}:{kind}", title=chart.x_title or chart.x, sort=None)
    if kind == "Q":
        x = x.scale(type="log" if "x" in chart.log else "linear", zero=False)
    y = alt.Y(f"{chart.y}:Q", title=chart.y_title or chart.y)
    y = y.scale(type="log" if "y" in chart.log else "linear", zero=chart.mark == "bar" and "y" not in chart.log)
    found: dict[str, object] = {"x": x, "y": y}

    if chart.series:
        order = _distinct(chart, chart.series)
        colour = alt.Color(f"{chart.series}:N", sort=order, title=chart.series)
        found["color"] = colour.scale(domain=order, range=[COLOURS[i % len(COLOURS)] for i in range(len(order))])
        if chart.mark == "bar":
            found["xOffset"] = alt.XOffset(f"{chart.series}:N", sort=order)
    return found


def _distinct(chart: Chart, column: str) -> list[str]:
    """The values of a column, in order of appearance."""
    return list(dict.fromkeys(str(row[column]) for row in chart.rows))


# --- charts inside a page: colours and fonts are the page's ------------------------------------------------


def inline_svg(chart: AltairChart, wide: int, high: int, text: str) -> Markup:
    """A chart as an element of a page, with its text alternative; what a mark says of itself becomes its tip.

    Where the extra that draws is not installed, a line says what would.
    """
    if missing_of("vl_convert"):
        return Markup('<p class="note">A chart is missing here: <code>{}</code> and write the report anew.</p>').format(
            installing("report")
        )
    sized = chart.properties(width=wide, height=high, autosize=alt.AutoSizeParams(type="fit", contains="padding"))
    axis = alt.AxisConfig(
        domain=False,
        gridColor="var(--line)",
        labelColor="var(--soft)",
        labelFontSize=11,
        labelPadding=6,
        ticks=False,
        titleColor="var(--soft)",
        titleFontSize=11,
        titleFontWeight="normal",
    )
    view = alt.ViewConfig(stroke=None)
    made = sized.configure(background="transparent", font="system-ui, sans-serif", view=view, axis=axis)
    drawn = draw_svg(made).partition(">")[2]
    drawn = re.sub(r"\d+\.\d{3,}", lambda number: f"{float(number[0]):.2f}", drawn)
    drawn = re.sub(r'(<path aria-label="([^"]*)"[^>]*)/>', r"\1><title>\2</title></path>", drawn)
    head = Markup('<svg class="chart" viewBox="0 0 {} {}" role="img" aria-label="{}">').format(wide, high, text)
    return head + Markup(drawn)


def share_axis(column: str, shares: Sequence[float]) -> alt.Y:
    """A vertical axis in percent with a few round marks that hold all of these."""
    ticks = round_ticks(shares)
    percent = "format(100 * datum.value, '~r') + ' %'"
    axis = alt.Axis(title=None, values=ticks, labelExpr=percent)
    return alt.Y(f"{column}:Q", axis=axis, scale=alt.Scale(domain=[ticks[0], ticks[-1]], nice=False, zero=False))


def round_step(width: float) -> float:
    """The least of 1, 2, 5 x 10 ** k that is not below."""
    if width <= 0:
        return 1.0
    power = 10.0 ** math.floor(math.log10(width))
    return next(step * power for step in (1, 2, 5, 10) if step * power >= width * (1 - 1e-9))


def round_ticks(shares: Sequence[float]) -> list[float]:
    """Three to six round shares that hold all of these."""
    low, top = min(shares), max(shares)
    step = next(s for s in (0.001, 0.002, 0.005, 0.01, 0.02, 0.05, 0.1, 0.2, 0.25, 0.5, math.inf) if top - low <= 4 * s)
    if step == math.inf:
        step = float(math.ceil((top - low) / 4))
    first, last = math.floor(low / step + 1e-9), math.ceil(top / step - 1e-9)
    return [step * i for i in range(first, max(last, first + 2) + 1)]
