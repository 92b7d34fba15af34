"""The gain curve is what a replay of the plan's first steps measures, on traffic that judges."""

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from overlace.catalog import PLANNERS
from overlace.model import Steps
from overlace.observe.traffic import traffic_of
from overlace.optimize.judge import KEPT, LEAST, MOST, WORK, how_many, points_of
from overlace.optimize.task import trace_of as trace_of_run
from overlace.replay.measure import measure
from overlace.trace.plans import load_plan, read_plan
from overlace.trace.runs import read_json, read_observation
from overlace.trace.traffic import TRAFFIC
from overlace.verbs import optimize
from tests.optimize.asking import options_of
from tests.optimize.test_optimize import NAMES, TABLES, log
from tests.traces import trace_of


def optimized(folder, **options):
    """A run, its one part, and the plan as it was written."""
    trace_of(folder / "trace", log(), NAMES, **TABLES)
    asked = {"placement": "anywhere", "allow_link": ("plant*:*",), "sent_cap": 0, "handled_cap": 0, "effort": 1}
    found = optimize(str(folder / "trace"), folder / "run", *options_of(**asked | options))
    return found, found.verdicts[0], read_plan(found.verdicts[0].folder)


@pytest.fixture(scope="module")
def made(tmp_path_factory):
    return optimized(tmp_path_factory.mktemp("curve"))


def test_the_curve_goes_from_today_to_the_whole_plan(made):
    _, part, document = made
    first, *_, last = document.judged.curve
    held_out = {each.metric: each for each in document.judged.metrics if each.part == "held-out"}
    assert next(iter(first.metrics)) == part.metric == "cost"
    assert set(first.metrics) == {"cost", *KEPT}
    assert first.metrics == {metric: held_out[metric].before for metric in first.metrics}
    assert last.metrics == {metric: held_out[metric].after for metric in last.metrics}
    assert (first.steps, first.moves, first.links) == (0, 0, 0)
    assert (last.steps, last.moves, last.links) == (document.steps_total, document.counts.moves, document.counts.links)


def test_every_point_is_what_an_independent_replay_of_the_first_steps_measures(made):
    found, part, document = made
    plan = load_plan(part.folder, PLANNERS)
    observation, _ = read_observation(found.run)
    trace, cut = trace_of_run(found.run)
    rows = traffic_of(trace, cut.held_out)
    assert [point.steps for point in document.judged.curve] == list(range(len(plan.steps) + 1))
    assert len(plan.steps) > 5
    for point in document.judged.curve:
        stopped = plan.first(point.steps)
        metrics = measure(observation, stopped.after, rows, trace.unit)
        assert point.metrics == {metric: metrics.of(metric) for metric in point.metrics}
        assert point.own_cost == pytest.approx(plan.planner.cost(observation, stopped.after))
        homes = [overlay.homes(observation.clients) for overlay in (observation.overlay, stopped.after)]
        assert point.moves == (homes[0] != homes[1]).sum()


def test_a_long_plan_is_measured_at_few_points(monkeypatch, tmp_path):
    monkeypatch.setattr("overlace.optimize.judge.MOST", 5)
    monkeypatch.setattr("overlace.optimize.judge.LEAST", 5)
    found, part, document = optimized(tmp_path)
    curve = document.judged.curve
    assert len(curve) <= 5 < document.steps_total
    assert (curve[0].steps, curve[-1].steps) == (0, document.steps_total)
    observation, _ = read_observation(found.run)
    trace, cut = trace_of_run(found.run)
    stopped = load_plan(part.folder, PLANNERS).first(curve[2].steps).after
    assert curve[2].metrics["cost"] == measure(observation, stopped, traffic_of(trace, cut.held_out), trace.unit).of(
        "cost"
    )


def test_where_nothing_is_held_out_the_curve_is_of_the_training_window(tmp_path):
    _, part, document = optimized(tmp_path, train=1)
    curve = document.judged.curve
    assert (curve[0].metrics["cost"], curve[-1].metrics["cost"]) == (part.before, part.after)
    for point in curve:
        assert point.own_cost == pytest.approx(point.metrics["cost"])


def test_the_objective_s_metric_is_there_whatever_it_is(tmp_path):
    _, part, document = optimized(tmp_path, objective="bytes")
    assert part.metric == "link_bytes"
    assert [list(point.metrics)[:2] for point in document.judged.curve] == [["link_bytes", "cost"]] * len(
        document.judged.curve
    )


def test_a_plan_without_steps_has_no_curve(tmp_path):
    trace_of(tmp_path / "trace", log(), NAMES, **TABLES)
    with pytest.raises(Exception, match="the best plan found saves 0.0%"):
        optimize(str(tmp_path / "trace"), tmp_path / "run", *options_of(budget=0))
    (path,) = (tmp_path / "run" / "plans").glob("*/plan.json")
    assert read_plan(path).judged.curve == []


def test_the_answer_says_where_the_curve_flattens_and_what_other_ways_reach(made):
    found, _, document = made
    said = dict(found.verdicts[0].lines)["steps"]
    assert said.endswith("on held-out traffic")
    assert any(text.startswith(said.removesuffix(" on held-out traffic")) for _, text in found.verdicts[0].summary)
    (part,) = read_json(found.run / "answer.json")["parts"]
    assert part["lines"]["steps"] == said
    assert part["enough"]["steps"] <= part["steps"]
    assert part["beside"] == document.beside
    assert min(document.beside.values()) == pytest.approx(document.cost_after)


@given(st.lists(st.floats(-1e6, 1e9), max_size=400), st.integers(2, 40))
def test_points_begin_with_none_end_with_all_and_are_no_more_than_asked_for(gain, most):
    steps = Steps(np.arange(len(gain) + 1), gain, np.zeros(len(gain)))
    points = points_of(steps, most).tolist()
    assert points[0] == 0
    assert points[-1] == len(gain)
    assert points == sorted(set(points))
    assert len(points) <= most
    if len(gain) < most:
        assert points == list(range(len(gain) + 1))


def test_where_the_gain_is_steep_there_are_more_points():
    gain = 0.9 ** np.arange(200)
    points = points_of(Steps(np.arange(201), gain, np.zeros(200)), 20)
    assert (points <= 40).sum() > 2 * (points > 160).sum() > 0


def test_large_traffic_has_fewer_points():
    def rows(audience):
        lists = pa.array([list(range(audience))], pa.list_(pa.int32()))
        numbers = [pa.array([1], field.type) for field in list(TRAFFIC)[:-1]]
        return pa.table([*numbers, lists], schema=TRAFFIC)

    assert how_many(rows(10), 100) == MOST
    assert how_many(rows(10), WORK) == LEAST
    assert LEAST < how_many(rows(WORK // 240), WORK // 24) < MOST
