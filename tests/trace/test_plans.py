import hashlib
import json
from dataclasses import replace

import jsonschema
import numpy as np
import pytest
from hypothesis import given, settings

from overlace.catalog import PLANNERS
from overlace.errors import BadPlan, BadTrace, Unknown
from overlace.model import Changes, Observation, Overlay, Plan, Steps
from overlace.optimize.words import Units
from overlace.optimize.words import lines as lines_of
from overlace.planners.placement.baselines import Stay
from overlace.planners.tree.baselines import Mst
from overlace.testing import small_observations
from overlace.trace.judgement import Baseline, Interval, Judgement, Measure, Point
from overlace.trace.plan_file import MOST_LISTED, PlanFile
from overlace.trace.plans import (
    cut_plan,
    describe,
    load_plan,
    parameters_of,
    plan_difference,
    plan_id,
    read_columns,
    read_plan,
    save_plan,
    with_judgement,
)
from overlace.trace.runs import read_json, write_json
from overlace.workloads.square import square
from tests.strategies import observations
from tests.traces import write_plan

SQUARE = square(9, 20, 30, seed=1)
NAMES = {"broker": "oslo rome paris bern kiev riga wien porto lyon".split()}


JUDGED = {
    "train": [0, 1],
    "held_out": [1, 2],
    "objective": "cost",
    "limits": {"min_gain": 0.01},
    "metrics": [Measure(metric="cost", part="train", before=10.0, after=9.0)],
    "saving": None,
}


def written(folder, **parameters):
    plan = Mst(**parameters).solve(SQUARE)
    write_plan(plan, folder, "tree.mst", SQUARE, NAMES)
    return plan


def test_a_plan_is_read_again_as_it_was(tmp_path):
    plan = written(tmp_path / "a", beta=0.5)
    assert load_plan(tmp_path / "a", PLANNERS) == plan
    assert load_plan(tmp_path / "a/plan.json", PLANNERS) == plan


@settings(max_examples=15)
@given(observations())
def test_any_plan_is_read_again_and_can_be_cut_anywhere(tmp_path_factory, observation):
    folder = tmp_path_factory.mktemp("plans")
    plan = Mst().solve(observation)
    write_plan(plan, folder / "whole", "tree.mst", observation)
    assert load_plan(folder / "whole", PLANNERS) == plan
    for k in range(len(plan.steps) + 1):
        cut = cut_plan(folder / "whole", k, folder / f"{k}")
        assert load_plan(folder / f"{k}", PLANNERS) == plan.first(k)
        assert cut.cost_after == pytest.approx(plan.planner.cost(observation, plan.first(k).after))
        assert len(cut.steps) == k


def test_the_bytes_are_the_same_for_the_same_plan(tmp_path):
    written(tmp_path / "a")
    written(tmp_path / "b")
    for name in ("plan.json", "changes.parquet", "steps.parquet", "after.parquet"):
        assert (tmp_path / "a" / name).read_bytes() == (tmp_path / "b" / name).read_bytes()


def test_people_read_names_and_reasons(tmp_path):
    plan = written(tmp_path / "a")
    first = read_plan(tmp_path / "a").steps[0]
    assert first.why == plan.why(0, NAMES)
    assert [str(change) for change in first.changes] == ["- link riga - wien", "+ link paris - porto"]
    assert first.gain == plan.step(0).gain


def test_the_json_schema_holds_for_what_is_written(tmp_path):
    written(tmp_path / "a")
    jsonschema.validate(read_json(tmp_path / "a/plan.json"), PlanFile.model_json_schema())


def judge(folder, judged):
    """Judge a plan that is written already."""
    save_plan(load_plan(folder, PLANNERS), with_judgement(read_plan(folder), judged), folder, force=True)


def test_a_judged_curve_is_kept_documented_and_under_the_digest(tmp_path):
    written(tmp_path / "a")
    cost = read_plan(tmp_path / "a").cost_before
    point = Point(steps=0, moves=0, links=0, own_cost=cost, metrics={"cost": 10.0, "mean_hops": 2.5})
    judge(tmp_path / "a", Judgement(**JUDGED, curve=[point]))
    document = read_json(tmp_path / "a/plan.json")
    assert read_plan(tmp_path / "a").judged.curve == [point]
    assert list(document["judged"]["curve"][0]["metrics"]) == ["cost", "mean_hops"]
    schema = PlanFile.model_json_schema()
    jsonschema.validate(document, schema)
    assert "held-out traffic" in schema["$defs"]["Point"]["properties"]["metrics"]["description"]
    document["judged"]["curve"][0]["metrics"]["cost"] = 1.0
    write_json(tmp_path / "a/plan.json", document)
    with pytest.raises(BadPlan, match="it was altered"):
        read_plan(tmp_path / "a")


def test_a_plan_file_without_a_field_that_came_later_can_be_read(tmp_path):
    """As an earlier version wrote it: the digest is of what is in the file."""
    written(tmp_path / "a")
    judge(tmp_path / "a", Judgement(**JUDGED))
    document = read_json(tmp_path / "a/plan.json")
    del document["judged"]["train_share"]
    plain = json.dumps({**document, "digest": ""}, sort_keys=True)
    write_json(
        tmp_path / "a/plan.json", document | {"digest": hashlib.blake2b(plain.encode(), digest_size=16).hexdigest()}
    )
    assert read_plan(tmp_path / "a").judged == Judgement(**JUDGED)


@pytest.mark.parametrize(
    ("change", "says"),
    [
        ({"cost_after": 0.0}, "it was altered"),
        ({"seed": 5}, "it was altered"),
        ({"colour": 1}, "colour: Extra inputs"),
        ({"steps": 7}, "steps: Input should be a valid list"),
    ],
)
def test_an_altered_plan_is_refused(tmp_path, change, says):
    written(tmp_path / "a")
    path = tmp_path / "a/plan.json"
    write_json(path, {**read_json(path), **change})
    with pytest.raises(BadPlan, match=says):
        read_plan(path)


def test_tables_of_another_plan_are_refused(tmp_path):
    written(tmp_path / "a")
    other = Mst().solve(square(9, 20, 30, seed=2))
    write_plan(other, tmp_path / "b", "tree.mst", square(9, 20, 30, seed=2))
    for name in ("changes.parquet", "steps.parquet", "after.parquet"):
        kept = (tmp_path / "a" / name).read_bytes()
        (tmp_path / "a" / name).write_bytes((tmp_path / "b" / name).read_bytes())
        with pytest.raises(BadPlan, match="/a/(plan.json|changes.parquet): .*(altered|expected)"):
            read_plan(tmp_path / "a")
        (tmp_path / "a" / name).write_bytes(kept)
    read_columns(tmp_path / "a", read_plan(tmp_path / "a"))
    (tmp_path / "a/after.parquet").unlink()
    with pytest.raises(BadPlan, match="after.parquet cannot be read"):
        read_plan(tmp_path / "a")


def test_what_is_no_plan_is_said(tmp_path):
    with pytest.raises(BadTrace, match="does not exist"):
        read_plan(tmp_path)
    written(tmp_path / "a")
    with pytest.raises(Unknown, match=r"no planner is called 'tree.mst'"):
        load_plan(tmp_path / "a", {"placement.stay": Stay})
    with pytest.raises(BadPlan, match="has 6 steps; cannot keep 9"):
        cut_plan(tmp_path / "a", 9, tmp_path / "b")
    with pytest.raises(BadTrace, match="is there already"):
        cut_plan(tmp_path / "a", 1, tmp_path / "a")


def test_two_plans_differ_by_the_changes_of_one_of_them(tmp_path):
    written(tmp_path / "a")
    cut_plan(tmp_path / "a", 4, tmp_path / "b")
    only_a, only_b, both = plan_difference(tmp_path / "a", tmp_path / "b")
    assert (len(only_a), only_b, both) == (4, [], 8)
    assert plan_difference(tmp_path / "a", tmp_path / "a") == ([], [], 12)


def test_changes_are_told_apart_by_id_and_not_by_name(tmp_path):
    same = {"broker": ["site"] * 9}
    write_plan(Mst().solve(SQUARE), tmp_path / "a", "tree.mst", SQUARE, same)
    cut_plan(tmp_path / "a", 3, tmp_path / "b")
    only_a, only_b, both = plan_difference(tmp_path / "a", tmp_path / "b")
    assert (len(only_a), only_b, both) == (6, [], 6)
    assert set(only_a) == {"- link site - site", "+ link site - site"}


def test_whole_numbers_are_written_as_the_numbers_they_stand_for(tmp_path):
    assert parameters_of(Mst(alpha=2)) == parameters_of(Mst(alpha=2.0))
    plan = Counting().solve(SQUARE, np.int64(3))
    write_plan(plan, tmp_path / "a", "counting", SQUARE)
    assert read_plan(tmp_path / "a").cost_before == 140


class Counting(Stay):
    def cost(self, observation, overlay):
        return 140


def test_the_id_follows_from_what_decides_the_plan():
    assert plan_id("tree.mst", {"a": 1, "b": 2}, 0, "x") == plan_id("tree.mst", {"b": 2, "a": 1}, 0, "x")
    ids = {plan_id("tree.mst", {"a": a}, seed, o) for a in (1, 2) for seed in (0, 1) for o in "xy"}
    assert len(ids) == 8


@pytest.mark.parametrize("first", [10, 500_000])
def test_a_plan_of_a_million_changes_lists_the_first_ones_and_keeps_all(tmp_path, first):
    n = 1_000_000
    mesh = np.column_stack([np.zeros(n, np.int64), np.arange(1, n + 1)])
    changes = Changes.of("mesh", 1, mesh)
    steps = Steps([0, first, n], [0.0, 0.0], [0, 0])
    plan = Plan(Everything(), 0, Overlay(), Overlay(mesh=mesh), changes, steps)
    document = write_plan(plan, tmp_path / "a", "everything", Observation(clients=n + 1))
    assert (document.steps_total, document.changes_total) == (2, n)
    assert sum(len(step.changes) for step in document.steps) == MOST_LISTED
    assert sum(len(step.changes) + step.more for step in document.steps) == (n if first == 10 else first)
    assert load_plan(tmp_path / "a", {"everything": Everything}) == plan


class Everything(Stay):
    facets = ("mesh",)
    REASONS = ("links",)

    def cost(self, observation, overlay):
        return 0.0


def test_a_plan_without_a_step_is_a_plan(tmp_path):
    observation = small_observations("placement")["equal costs"]
    plan = Stay().solve(observation)
    document = write_plan(plan, tmp_path / "a", "placement.stay", observation)
    assert document.steps == []
    assert load_plan(tmp_path / "a", PLANNERS) == plan
    assert json.loads((tmp_path / "a/plan.json").read_text())["cost_after"] == document.cost_before
    assert describe(replace(plan, seed=0), "placement.stay", observation) == document


def test_a_rule_for_newcomers_is_part_of_the_plan_and_of_its_digest(tmp_path):
    written(tmp_path / "a")
    plain = read_json(tmp_path / "a/plan.json")
    assert plain["newcomers"] is None
    rule = {"rule": "region", "brokers": {"north": "oslo"}, "default": "rome"}
    assert PlanFile.model_validate({**plain, "newcomers": rule}).newcomers.brokers == {"north": "oslo"}
    write_json(tmp_path / "a/plan.json", {**plain, "newcomers": rule})
    with pytest.raises(BadPlan, match="it was altered"):
        read_plan(tmp_path / "a")
    for wrong in ({"rule": "region"}, {"rule": "", "default": "rome"}, {**rule, "colour": "red"}):
        write_json(tmp_path / "a/plan.json", {**plain, "newcomers": wrong})
        with pytest.raises(BadPlan, match="newcomers"):
            read_plan(tmp_path / "a")
    jsonschema.validate({**plain, "newcomers": rule}, PlanFile.model_json_schema())


@pytest.mark.parametrize(("greedy", "said"), [(0.2, False), (0.304, False), (0.31, True)])
def test_the_first_lines_say_where_a_baseline_does_better(tmp_path, greedy, said):
    written(tmp_path / "a")
    saving = Interval(share=0.3, low=0.2, high=0.4, slices=9, origins=3)
    given = JUDGED | {"saving": saving, "baselines": [Baseline(links="today", changes=5, share=greedy)]}
    judge(tmp_path / "a", Judgement(**given, train_share=0.7))
    lines = lines_of(read_plan(tmp_path / "a"), Units("message"))
    assert lines[0][0] == "windows"
    assert "(70% of the messages)" in lines[0][1]
    assert ("beaten by a baseline" in [what for what, _ in lines[:4]]) == said
