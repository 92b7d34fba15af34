import re

import pytest

from overlace.report.histograms import Histogram, histogram_svg, read_histogram
from tests.report.test_page import measured, plan_of, sites

__all__ = ["sites"]


def test_bars_of_a_histogram_add_up_to_one(sites):
    run, _, _ = sites
    sheets = [("today", measured(run)), ("after", measured(run, f"{plan_of(run)}/held-out"))]
    for metric, scale in (("hops", 1.0), ("latency_us", 1000.0)):
        found = read_histogram(sheets, metric, "axis", scale=scale)
        assert [sum(values) for values in found.series] == pytest.approx([1, 1])
        assert len(found.labels) == len(found.series[0]) + found.at_edges


@pytest.mark.parametrize("top", [1.0, 0.999, 0.52, 0.5, 0.2, 0.11, 0.1, 0.0037, 1e-9, 0.0])
def test_an_axis_has_a_few_round_marks(top):
    svg = histogram_svg(Histogram(["today", "after"], ["1", "2"], [[top, 0.0], [0.0, top]], False, "axis"), "title")
    grid = re.search(r'role-axis-grid"[^>]*>(.*?)</g>', svg)[1]
    assert 2 <= grid.count("<line") <= 6
    assert svg.count('aria-roledescription="bar"') == 4
