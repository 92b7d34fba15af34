"""Histograms of deliveries and clients: bins joined to a few bars, before and after side by side."""

from __future__ import annotations

import json
import math
from collections.abc import Iterable, Sequence
from typing import NamedTuple

import altair as alt
import numpy as np
from markupsafe import Markup

from overlace.arrays.jit import Floats
from overlace.report.charts import inline_svg, round_step, rows_chart, share_axis
from overlace.report.sheets import Sheets

MOST_BARS = 14
"""Bars that a histogram shows."""
DRAWN = {
    "hops": ("Links per delivery", "links, both client links counted", 1.0),
    "latency_us": ("Latency per delivery", "milliseconds", 1000.0),
    "degree": ("Links per client", "links of a client", 1.0),
}
"""Metrics with bins: title, axis, and what a unit of the axis is in the metric's."""
COLOURS = ("var(--today)", "var(--after)")
"""The page's own, so that they change with its scheme."""


class Histogram(NamedTuple):
    """Shares of deliveries (or clients) per bar, one list a sheet; labels at the bars, or at their edges."""

    names: Sequence[str]
    labels: Sequence[str]
    series: Sequence[Sequence[float]]
    at_edges: bool
    axis: str

    def bin_name(self, i: int) -> str:
        """What a bar stands for."""
        return f"{self.labels[i]} to {self.labels[i + 1]}" if self.at_edges else self.labels[i]


def draw_histograms(sheets: Sheets, metrics: Iterable[str] = DRAWN) -> list[tuple[str, Markup]]:
    """(title, picture) of each metric of which there is something to draw."""
    found = []
    for title, axis, scale, metric in ((*DRAWN[metric], metric) for metric in metrics):
        if histogram := read_histogram(sheets, metric, axis, scale=scale):
            found.append((title, histogram_svg(histogram, title)))
    return found


def histogram_svg(histogram: Histogram, title: str) -> Markup:
    """Bars of shares side by side, one colour a series."""
    names, count = histogram.names, len(histogram.series[0])
    bar = 0.84 / len(names)
    rows = [
        {
            "from": i + 0.08 + s * bar,
            "to": i + 0.08 + (s + 1) * bar - 0.02,
            "share": share,
            "series": names[s],
            "tip": f"{names[s]}, {histogram.bin_name(i)}: {100 * share:.1f} %",
        }
        for s, shares in enumerate(histogram.series)
        for i, share in enumerate(shares)
    ]
    places = [i + (0 if histogram.at_edges else 0.5) for i in range(len(histogram.labels))]
    labels = f"{json.dumps(histogram.labels)}[floor(datum.value)]"
    across = alt.Axis(title=histogram.axis, values=places, labelExpr=labels, labelOverlap=True, grid=False)
    highest = max(max(shares) for shares in histogram.series)
    chart = (
        rows_chart(rows)
        .mark_bar()
        .encode(
            x=alt.X("from:Q", axis=across, scale=alt.Scale(domain=[0, count], nice=False)),
            x2="to:Q",
            y=share_axis("share", [0.0, highest]),
            y2=alt.datum(0),
            color=alt.Color("series:N", legend=None, scale=alt.Scale(domain=names, range=COLOURS[: len(names)])),
            description="tip:N",
        )
    )
    text = ". ".join(
        f"{name}: " + ", ".join(f"{histogram.bin_name(i)} {100 * v:.1f} %" for i, v in enumerate(shares) if v > 0)
        for name, shares in zip(names, histogram.series, strict=True)
    )
    return inline_svg(chart, 380, 214, f"{title}. {histogram.axis}. {text}.")


def read_histogram(sheets: Sheets, metric: str, axis: str, *, scale: float = 1.0) -> Histogram | None:
    """Bins of a metric as shares; wide bins are joined; None where there is nothing, or only zeros."""
    columns = [sheet.column(metric, "bin") for _, sheet in sheets]
    keys = np.concatenate([column.key for column in columns]) / scale
    counts = np.concatenate([column.value for column in columns])
    if len(keys) == 0 or counts.sum() == 0 or (scale != 1 and keys.max() == 0):
        return None
    low, high = float(keys.min()), _quantile(keys, counts, 0.999)
    whole = scale == 1 and high - low < MOST_BARS
    width = 1.0 if whole else round_step((high - (0 if scale != 1 else low)) / MOST_BARS)
    first = math.floor(low) if whole else math.floor(low / width) * width
    n = max(1, min(MOST_BARS + 1, math.floor((high - first) / width) + 1))
    series = []
    for column in columns:
        place = np.clip(np.floor((column.key / scale - first) / width + 1e-9), 0, n - 1).astype(np.int64)
        sums = np.bincount(place, weights=column.value, minlength=n)
        series.append((sums / max(sums.sum(), 1)).tolist())
    beyond = bool(keys.max() >= first + n * width)
    if whole:
        labels = [f"{first + i:g}" + ("+" if beyond and i == n - 1 else "") for i in range(n)]
    else:
        labels = [f"{first + i * width:g}" for i in range(n)] + ["…" if beyond else f"{first + n * width:g}"]
    names = [heading for heading, _ in sheets]
    return Histogram(names, labels, series, not whole, axis)


def _quantile(keys: Floats, counts: Floats, share: float) -> float:
    order = np.argsort(keys, kind="stable")
    below = np.cumsum(counts[order])
    return float(keys[order][min(int(np.searchsorted(below, share * below[-1])), len(keys) - 1)])
