"""What a verdict says of a plan: what it is worth, and which gap between training and held-out traffic is named."""

from dataclasses import replace

import numpy as np
import pytest

from overlace.observe.later import later
from overlace.optimize.judge import GAP, explain_gap
from overlace.optimize.task import read_task
from overlace.trace.judgement import GroupCost, Interval
from overlace.verbs import optimize
from tests.optimize.asking import options_of
from tests.optimize.test_optimize import NAMES, TABLES, log
from tests.traces import trace_of


@pytest.fixture(scope="module")
def judged(tmp_path_factory):
    """(a verdict, the traffic that judges it)."""
    folder = tmp_path_factory.mktemp("judged")
    trace_of(folder / "trace", log(), NAMES, **TABLES)
    found = optimize(str(folder / "trace"), folder / "run", *options_of(placement="anywhere", budget=3, effort=0))
    task = read_task(folder / "run")
    return found.verdicts[0], later(task.trace, task.cut.held_out, task.known, task.observation)


def with_judgement(verdict, **changed):
    return replace(verdict, document=verdict.document.model_copy(
        update={"judged": verdict.judged.model_copy(update=changed)}
    ))  # fmt: skip


def saving_of(share):
    return Interval(share=share, low=share, high=share, slices=4, origins=1)


def test_a_gap_is_named_from_a_third_of_what_was_saved_in_the_training_window(judged):
    verdict, follows = judged
    assert verdict.train > 0
    least = (1 - GAP) * verdict.train

    def gap_of(share, expected=None):
        return explain_gap(with_judgement(verdict, saving=saving_of(share), expected=expected), follows)

    assert gap_of(least + 1e-9) == ""
    assert gap_of(least - 1e-3).startswith(
        f"{least - 1e-3:.1%} less is paid on held-out traffic where {verdict.train:.1%} less was"
    )
    assert gap_of(-0.25).startswith("25.0% more is paid on held-out traffic")
    assert gap_of(verdict.train, saving_of(verdict.train)) == ""  # as expected
    assert "and 1.0% less was expected" in gap_of(verdict.train, saving_of(0.01))


def test_newcomers_are_named_as_a_cause_by_their_share_of_what_is_paid(judged):
    verdict, follows = judged
    apart = [
        GroupCost(clients="known", before=300.0, after=1.0),
        GroupCost(clients="newcomers", before=100.0, after=9.0),
    ]
    said = explain_gap(with_judgement(verdict, saving=saving_of(0.0), apart=apart), follows)
    assert "Likely why: 25% of it is for messages with a client that had no traffic then" in said
    none = [apart[0], GroupCost(clients="newcomers", before=0.0, after=0.0)]
    assert "had no traffic then" not in explain_gap(with_judgement(verdict, saving=saving_of(0.0), apart=none), follows)


def test_a_gap_is_of_held_out_traffic_and_of_a_plan_that_had_saved_something(judged):
    verdict, follows = judged
    first = [each for each in verdict.judged.metrics if each.part == "train"]
    assert explain_gap(with_judgement(verdict, saving=saving_of(0.0), metrics=first), follows) == ""
    flat = [each.model_copy(update={"after": each.before}) for each in verdict.judged.metrics]
    assert explain_gap(with_judgement(verdict, saving=saving_of(-0.5), metrics=flat), follows) == ""
    assert explain_gap(with_judgement(verdict, saving=None), follows) == ""


def test_a_plan_is_worth_what_it_saves_where_it_is_judged_and_what_is_expected_only_where_nothing_is_held_out(judged):
    verdict, _ = judged
    expected = saving_of(0.125)
    there = with_judgement(verdict, expected=expected)
    assert there.part == "held-out"
    assert there.worth == verdict.judged.saving.share != 0.125
    train = [each for each in verdict.judged.metrics if each.part == "train"]
    assert with_judgement(verdict, expected=expected, metrics=train).worth == 0.125
    assert with_judgement(verdict, expected=None, metrics=train).worth == verdict.judged.saving.share
    alone = with_judgement(verdict, saving=None, expected=None, metrics=train)
    assert alone.worth == alone.train == pytest.approx(1 - train[0].after / train[0].before)
    assert np.isclose(verdict.train, alone.train)
