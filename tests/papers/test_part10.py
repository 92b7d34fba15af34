"""The worked examples of PART10 §4, by the partitions they end with (R2, R7)."""

import pytest

from overlace.model import Observation, Offers, Overlay
from overlace.planners.channels.cost import cost
from overlace.planners.channels.strategies import Strategy1, Strategy2, Strategy3, Strategy31
from overlace.planners.channels.strategy4 import Strategy4
from overlace.replay.delivery import delivery


def mask(letters):
    return sum(1 << "ABCDE".index(letter) for letter in letters)


def publishers(*given):
    letters, limits = zip(*(each.split(":") if ":" in each else (each, "99") for each in given), strict=True)
    return Observation(offers=Offers(range(len(given)), [mask(each) for each in letters], [int(n) for n in limits]))


def channels(overlay):
    held = {}
    for combination, channel in overlay.channels.tolist():
        name = "".join(letter for i, letter in enumerate("ABCDE") if combination >> i & 1)
        held.setdefault(channel, []).append(name)
    return {" ".join(sorted(names, key=lambda n: (len(n), n))) for names in held.values()}


EXAMPLES = {
    "figure 4.1": (Strategy1(), ("AB", "AC", "ABC"), {"B AB", "A", "C AC", "BC ABC"}),
    "figure 4.2 (R2)": (Strategy2(), ("AB", "AC", "D", "ACD"), {"A B AB", "C D AC AD CD ACD"}),
    "figure 4.2 and p5": (Strategy2(), ("AB", "AC", "D", "ACD", "ABCD"), {
        "A B C D AB AC AD BC BD CD ABC ABD ACD BCD ABCD"}),
    "figure 4.3": (Strategy3(), ("AB:2", "AC:3", "C:2", "BC:3"), {"B AB", "A", "AC", "C", "BC"}),
    "figure 4.4": (Strategy3(), ("AB:2", "AC:1", "BD:3"), {"A B C AB AC", "D BD"}),
    "figure 4.5": (Strategy31(), ("AB:2", "AC:1", "BD:3"), {"A C AB AC", "B", "D BD"}),
    "figure 4.6 (b)": (Strategy31(), ("AD:3", "D:1", "AE:2"), {"D AD", "A", "E AE"}),
}  # fmt: skip


@pytest.mark.parametrize("name", EXAMPLES)
def test_worked_examples_end_with_these_channels(name):
    planner, given, wanted = EXAMPLES[name]
    assert channels(planner.solve(publishers(*given)).after) == wanted


@pytest.mark.parametrize("upto", range(1, 5))
def test_figure_4_3_step_by_step(upto):
    shown = [{"A B AB"}, {"B AB", "A", "C AC"}, {"B AB", "A", "AC", "C"}, {"B AB", "A", "AC", "C", "BC"}]
    given = ("AB:2", "AC:3", "C:2", "BC:3")[:upto]
    assert channels(Strategy3().solve(publishers(*given)).after) == shown[upto - 1]


def test_figure_4_6_strategy_4_finds_the_improvement_that_the_thesis_hopes_for():
    observation = publishers("AD:3", "D:1", "AE:2")
    plan = Strategy4().solve(observation)
    assert channels(plan.after) == {"A", "D", "AD", "E AE"} or (
        delivery(observation, plan.after).of("false_positive_rate") == 0
    )
    assert delivery(observation, Strategy31().solve(observation).after).of("false_positive_rate") > 0


def test_figure_4_2_who_receives_what_they_did_not_ask_for():
    observation = publishers("AB", "AC", "D", "ACD")
    after = Strategy2().solve(observation).after
    assert cost(observation, after) > cost(observation, Overlay(channels=Strategy1().solve(observation).after.channels))
