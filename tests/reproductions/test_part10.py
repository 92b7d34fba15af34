from itertools import combinations
from pathlib import Path

import numpy as np
import pytest

import reproductions
from overlace.planners.channels.strategies import Strategy1, Strategy2, Strategy3
from overlace.planners.channels.strategy4 import Strategy4
from overlace.planners.dissemination.problem import measure as measure_tree
from overlace.replay.delivery import delivery
from overlace.report.charts import Chart
from reproductions import ITEMS
from reproductions.pages import read_measured
from reproductions.part10.bounds.least import bound
from reproductions.part10.comparison import CASES
from reproductions.part10.curves import PRINTED, Setup, end, first_offers, grow, points
from reproductions.part10.dissemination import (
    ARRANGED,
    GREEDY,
    STAR,
    draw_problem,
    generate_delays,
    make_trees,
    run_seed,
)
from reproductions.part10.figures import marks_of
from reproductions.part10.formulas import most_1, most_2
from reproductions.part10.matching import WORKLOADS, measure

MEASURES = ("channels", "mean_connections", "false_positive_rate", "received")


@pytest.mark.parametrize(("n", "m"), [(4, 2), (4, 3), (5, 2), (4, 4)])
def test_the_formulas_count_what_all_publishers_of_a_size_can_make(n, m):
    masks = [sum(1 << a for a in chosen) for chosen in combinations(range(n), m)]
    offered = {s for mask in masks for s in range(1, mask + 1) if s & mask == s}
    assert most_1(n, m) == (1 if m == n else len(offered))
    assert most_2(n, m) == len(masks)


def test_the_printed_maxima_count_the_empty_combination_and_ours_do_not():
    """R1."""
    for (table, row, column), value in PRINTED.items():
        if (table, column) == ("4.1", "channels"):
            n, size = row.split(", ")
            m = int(size.split("..")[1])
            assert most_1(int(n), m) == (value if m == int(n) else value - 1)


def test_no_run_goes_above_the_formulas():
    setup = Setup(6, (2, 3), 120)
    for strategy, most in ((Strategy1(), most_1(6, 3)), (Strategy2(), most_2(6, 3))):
        assert all(metrics.of("channels") <= most for _, metrics in grow(strategy, setup, 0, points(120)))


def test_the_points_of_a_curve_are_what_so_many_publishers_alone_would_make():
    setup = Setup(6, (2, 3), 40, (3, 7))
    found = dict(grow(Strategy3(), setup, 1, [10, 40]))
    for joined, metrics in found.items():
        alone = first_offers(setup.draw(1), joined)
        after = delivery(alone, Strategy3().solve(alone, 1).after)
        assert {name: metrics.of(name) for name in MEASURES} == {name: after.of(name) for name in MEASURES}
    assert found[40] == end(Strategy3(), setup, 1)


def test_what_a_join_costs_is_counted_for_every_strategy_and_only_splits_and_merges_count():
    rows = {row["strategy"]: row for row in ITEMS["part10"]["joins"](seeds=1).rows}
    assert len({tuple(row) for row in rows.values()}) == 1
    assert len(rows) == 9
    early, late = (f"channels changed per join, {half} 500" for half in ("first", "last"))
    assert rows["strategy 1"][late] == 0  # nearly all is apart by then
    assert all(row[early] > row[late] for row in rows.values())
    assert rows["strategy 4, repair only"][late] < rows["strategy 4"][late]


def test_every_point_of_a_chart_is_data_with_the_number_of_its_figure():
    curve = Chart("5.2: channels", [{"n": 1, "y": 2.0, "s": "a", "l": 1, "h": 3}], "n", "y", "s", low="l", high="h")
    bars = Chart("5.9 and 5.10: sizes", [{"n": "1", "y": 2, "figure": "5.10: b"}], "n", "y", panel="figure", mark="bar")
    [point], [bar] = (list(marks_of(chart)) for chart in (curve, bars))
    assert list(point.values()) == ["5.2", "channels", "a", "n", 1, "y", 2.0, 1, 3]
    assert list(bar.values()) == ["5.10", "sizes", "b", "n", "1", "y", 2, None, None]


def test_every_figure_from_5_2_to_5_20_has_points():
    rows = ITEMS["part10"]["figures"](seeds=1).rows
    assert {row["figure"] for row in rows} == {f"5.{k}" for k in range(2, 21)}
    seven = [row for row in rows if row["figure"] == "5.7" and row["at"] == 1000]
    assert [row["series"] for row in seven] == ["n=10, m=7..7"]


def test_strategy_4_reaches_what_it_is_to_reach_on_the_first_seed():
    """The aims are for the mean of five seeds; the first alone meets them, and stays above the bound."""
    for case in CASES[:3]:
        observation = case.draw(0)
        rate = delivery(observation, Strategy4().solve(observation).after).of("false_positive_rate")
        assert bound(observation).rate <= rate <= case.aim


def test_the_page_of_the_matcher_compares_the_same_answers():
    rows = measure((300,), 200, lambda share, what: None)
    assert [row["same answers"] for row in rows] == [True] * len(WORKLOADS)
    assert all(row["matches a message"] > 0 for row in rows)
    assert all(
        row["same answers"] for row in read_measured(Path(reproductions.__file__).parent / "part10", "matching").rows
    )


def test_generated_delays_are_a_measured_matrix_in_kind():
    """Both ways alike, and some detours are faster than the straight way, as on real networks."""
    delay = generate_delays(60, 0)
    assert (delay == generate_delays(60, 0)).all()
    assert np.allclose(delay, delay.T)
    assert (delay[~np.eye(60, dtype=bool)] > 0).all()
    around = (delay[:, :, None] + delay[None]).min(axis=1)
    assert (around < delay).any()


def test_every_tree_of_the_page_keeps_its_limits_but_the_star():
    problem = draw_problem(40, 2, 1)
    for name, parent in make_trees(problem, 1).items():
        assert (measure_tree(problem, parent).over_degree == 0) == (name != STAR)
    runs = run_seed(40, 2, 1)
    assert runs[GREEDY].met <= runs[ARRANGED].met <= runs[ARRANGED].upper
