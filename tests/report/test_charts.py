import re

import pytest

from overlace.report.charts import PANEL, Chart, chart_svg

ROWS = [
    {"network": network, "placement": placement, "hops": hops, "share": 1.0 + (3 * hops + len(placement)) % 7}
    for network in ("random", "small-world")
    for placement in ("start", "interest", "community")
    for hops in range(2, 12)
]


def bar_widths(svg):
    """The widths of all bars: rectangles that Vega draws as closed paths."""
    return [float(width) for width in re.findall(r'aria-roledescription="bar" d="M[^h"]*h(-?[\d.e-]+)v', svg)]


@pytest.mark.parametrize("panel", ["", "network"])
@pytest.mark.parametrize("series", ["", "placement"])
def test_bars_are_wide_enough_to_see(panel, series):
    rows = ROWS if panel else [row for row in ROWS if row["network"] == "random"]
    rows = rows if series else [row for row in rows if row["placement"] == "start"]
    widths = bar_widths(chart_svg(Chart("Hops", rows, "hops", "share", series=series, panel=panel, mark="bar")))
    assert len(widths) == len(rows)
    assert min(widths) > PANEL / (10 * 3) / 2  # ten groups of three side by side


def test_every_panel_has_its_own_axes():
    svg = chart_svg(Chart("Hops", ROWS, "hops", "share", series="placement", panel="network", mark="bar"))
    assert svg.count("Y-axis titled") == svg.count("X-axis titled") == 2
