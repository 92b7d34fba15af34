"""The curve on the page is the curve of the plan file."""

import json
import re
from html import unescape

import pytest

from overlace.optimize.words import flattens
from overlace.report.curve import gain_svg
from overlace.trace.judgement import Judgement, Measure, Point
from overlace.trace.plans import read_plan
from overlace.verbs import optimize
from tests.optimize.asking import options_of
from tests.optimize.test_optimize import NAMES, TABLES, log
from tests.report.test_page import Page, page_of, run_of_sites
from tests.traces import trace_of


@pytest.fixture(scope="module")
def judged(tmp_path_factory):
    """(plan file, page, text) of an optimized run."""
    folder = tmp_path_factory.mktemp("judged")
    trace_of(folder / "trace", log(), NAMES, **TABLES)
    options = options_of(placement="anywhere", allow_link=("plant*:*",), sent_cap=0, handled_cap=0, effort=1)
    found = optimize(str(folder / "trace"), folder / "run", *options)
    text = found.report.read_text(encoding="utf-8")
    return read_plan(found.verdicts[0].folder), Page(text), text


def dots_of(svg):
    return re.search(r'dots_marks"[^>]*>(.*?)</g>', svg)[1]


def stops_of(text):
    return json.loads(unescape(re.search(r'data-stops="([^"]*)"', text)[1]))


def judgement(values, steps=None, part="held-out"):
    """A judged curve with these values of cost."""
    points = [
        Point(steps=k, moves=k, links=0, own_cost=value, metrics={"cost": value})
        for k, value in zip(steps or range(len(values)), values, strict=True)
    ]
    metrics = [Measure(metric="cost", part=part, before=values[0], after=values[-1])]
    about = {"train": [0, 1], "held_out": [1, 2], "objective": "cost", "limits": {}, "saving": None}
    return Judgement(**about, metrics=metrics, curve=points)


def test_the_slider_stops_where_it_was_measured_and_says_so(judged):
    document, _, text = judged
    stops = stops_of(text)
    curve = document.judged.curve
    assert [steps for steps, _ in stops] == [point.steps for point in curve]
    for steps, said in stops:
        assert said.startswith(f"Measured after {steps} of {document.steps_total} steps: traffic cost (")
    assert f'max="{len(curve) - 1}" value="{len(curve) - 1}"' in text
    picture = re.search(r'<div class="slide".*?</svg>', text, re.DOTALL)[0]
    assert dots_of(picture).count("<path") == len(curve)
    for line in ("curve", "own"):
        assert len(re.search(rf'{line}_marks"[^>]*><path[^>]* d="M([^"]*)"', picture)[1].split("L")) == len(curve)


def test_the_figures_at_each_stop_are_the_measured_ones(judged):
    document, page, text = judged
    curve = document.judged.curve
    rows = page.tables["On held-out traffic, after the chosen steps"]
    each = len(rows) // len(curve)
    assert len(rows) == each * len(curve)
    for i, point in enumerate(curve):
        shown = {name: (today, after) for name, today, after, _ in rows[i * each : (i + 1) * each]}
        assert shown["traffic cost (messages × cost of links)"] == (curve[0].metrics["cost"], point.metrics["cost"])
        assert shown["deliveries at one broker"][1] == point.metrics["local_share"]
        assert shown["worst failure of a broker"][1] == point.metrics["cut_share_max"]
        assert shown["clients moved"][1] == point.moves
        assert shown["links changed"][1] == point.links
        assert shown["planner's estimate (messages × cost of links), training window"] == (
            document.cost_before,
            point.own_cost,
        )
    assert re.findall(r'<tbody class="stop"( hidden)?>', text) == [" hidden"] * (len(curve) - 1) + [""]


def test_where_the_curve_flattens_stands_in_the_answer_and_beside_the_curve(judged):
    document, _, text = judged
    flat = flattens(document.judged)
    assert flat
    assert unescape(text).count(flat[1:]) == 2  # among all figures, and in the picture's text alternative
    assert unescape(text).count(flat.removesuffix(" on held-out traffic")) == 2  # and short among the facts


def test_what_other_searches_reach_stands_in_the_answer(judged):
    document, page, _ = judged
    rows = page.tables["Other searches within the same limits (messages × cost of links)"]
    assert [row[0] for row in rows] == [
        "today", "placement and tree together", "placement and tree in turn", "placement alone", "tree alone",
        "this plan",
    ]  # fmt: skip
    assert [row[1] for row in rows] == [document.cost_before, *document.beside.values(), document.cost_after]
    assert [row[2] for row in rows] == pytest.approx([row[1] / document.cost_before for row in rows])


def test_a_plan_that_was_not_judged_keeps_its_own_curve(tmp_path):
    page, text = page_of(run_of_sites(tmp_path))
    stops = stops_of(text)
    assert [steps for steps, _ in stops] == list(range(len(stops)))
    assert stops[1][1].startswith("After 1 step: planner's estimate ")
    assert "after the chosen steps" not in text
    assert not [caption for caption in page.tables if caption.startswith("Other searches")]


@pytest.mark.parametrize(
    ("values", "steps", "said"),
    [
        ((100, 50, 12, 5, 0), None, "the first 3 of 4 steps bring 95% of the saving on held-out"),
        ((100, 8, 5, 0), None, "the first of 3 steps brings 92% of the saving"),
        (
            (100, 80, 20, 0),
            (0, 10, 2000, 5000),
            "more than 2,000 of 5,000 steps are needed for 90% of the saving on held-out",
        ),
        ((100, 95, 90, 10), None, "all 3 steps are needed for 90% of the saving on held-out"),
        ((100, 40, 50), None, "the first of 2 steps brings 120% of the saving"),
    ],
)
def test_it_says_after_how_many_steps_most_of_the_saving_is_there(values, steps, said):
    assert re.match(said, flattens(judgement(values, steps)))


def test_exactly_nine_tenths_are_most_of_the_saving():
    assert flattens(judgement((100, 10, 5, 0))).startswith("the first of 3 steps brings 90%")


def test_it_says_nothing_of_a_plan_that_saves_nothing_or_has_one_step():
    for values in ((100, 100, 100), (100, 120, 130), (100, 50), (0, 0, 0)):
        assert flattens(judgement(values)) == ""
    assert "in the training window" in flattens(judgement((100, 1, 0), part="train"))


@pytest.mark.parametrize("last", [1.0, 0.9995, 0.93, 0.5, 0.02, 0.0, 1.3, 40.0])
def test_the_axis_of_a_curve_holds_it_with_a_few_round_marks(last):
    svg = str(gain_svg([(0, 1.0), (3, last)], [(0, 1.0), (3, 1.0)], "text"))
    heights = [float(y) for y in re.findall(r"translate\([\d.]+,(-?[\d.]+)\)", dots_of(svg))]
    lines = re.search(r'role-axis-grid"[^>]*>(.*?)</g>', svg)[1]
    grid = [float(y) for y in re.findall(r"translate\(0,(-?[\d.]+)\)", lines)]
    assert len(heights) == 2
    assert 3 <= len(grid) <= 6
    assert min(grid) <= min(heights) <= max(heights) <= max(grid)
