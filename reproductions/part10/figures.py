"""Figures 5.2 to 5.20 as data: every point of their charts."""

from __future__ import annotations

from collections.abc import Iterator

from overlace.model import Progress
from overlace.report.charts import Chart, Row
from reproductions.part10.strategy_1 import strategy_1
from reproductions.part10.strategy_2 import strategy_2
from reproductions.part10.strategy_3 import strategy_3
from reproductions.part10.strategy_31 import strategy_31
from reproductions.result import Measured, item

DRAWN = {"strategy-1": strategy_1, "strategy-2": strategy_2, "strategy-3": strategy_3, "strategy-3.1": strategy_31}


@item("part10/figures", "Figures 5.2 to 5.20 as data")
def figures(seeds: int, progress: Progress) -> Measured:
    """What the charts of the items above are drawn from."""
    rows: list[Row] = []
    for i, (name, drawn) in enumerate(DRAWN.items()):
        for chart in drawn(seeds=seeds).charts:
            rows += marks_of(chart)
        progress((i + 1) / len(DRAWN), name)
    return Measured(rows)


def marks_of(chart: Chart) -> Iterator[Row]:
    """The marks of a chart; a panel that is a figure of its own goes by its own number."""
    figure, _, shown = chart.title.partition(": ")
    for row in chart.rows:
        series = str(row.get(chart.series or chart.panel, ""))
        one, _, panel = series.partition(": ")
        apart = chart.panel == "figure"
        yield {
            "figure": one if apart else figure,
            "shows": shown,
            "series": panel if apart else series,
            "x": chart.x,
            "at": row[chart.x],
            "y": chart.y,
            "is": row[chart.y],
            "least": row[chart.low] if chart.low else None,
            "most": row[chart.high] if chart.high else None,
        }
