"""The items of OCBR07 on few seeds: what they must show, whatever the figures."""

import pytest

from overlace.workloads.square import Talk, square
from reproductions import ITEMS
from reproductions.ocbr07.drift import POLICIES, follow
from reproductions.ocbr07.few_links import cost_left
from reproductions.ocbr07.large import lower_bound, measured
from reproductions.ocbr07.optimum import ratios
from reproductions.workloads.days import Days


def test_figure_2_is_seen_as_the_paper_says():
    result = ITEMS["ocbr07"]["figure-2"]()
    assert [row["seen by bm as"] for row in result.rows] == ["not seen", "b1 c4", "b1 b3", "b1 b3"]
    assert [row["with"] for row in result.rows] == [None, 3, 6, 6]


def test_rounds_end_with_one_in_which_all_are_asked_and_none_acts():
    result = ITEMS["ocbr07"]["rounds"]()
    last = {row["planner"]: row for row in result.rows}
    assert len(last) == 4
    for row in last.values():
        assert row["acted"] == row["refused"] == row["links changed"] == 0
        assert row["control messages"] > row["locks"] > 0
    assert any("neighbourhood" in note and "whole tree" in note for note in result.notes)


def test_the_traps_hold_all_who_know_only_neighbourhoods():
    for row in ITEMS["ocbr07"]["traps"]().rows:
        assert row["ocbr / optimum"] == row["hub-safe / optimum"] > 10
        assert row["regraft / optimum"] == row["hub-safe + regraft / optimum"] == 1


def test_the_laws_hold():
    rows = ITEMS["ocbr07"]["laws"](seeds=2).rows
    assert all(row["holds"] for row in rows)
    assert all(row["tried"] > 0 for row in rows)


def test_no_ratio_is_below_the_optimum():
    for values in ratios(7, 1.0, 2).values():
        assert min(values) >= 1 - 1e-12


@pytest.mark.parametrize("changed", [{}, {"metric": False, "talk": Talk(locality=0.0)}])
def test_no_tree_is_below_the_lower_bound(changed):
    observation = square(20, 60, 60, seed=1, **changed)
    bound = lower_bound(observation)
    assert 0 < bound <= min(each.cost for each in measured(observation, 0).values())


def test_with_few_links_regraft_leaves_less_than_what_knows_only_neighbourhoods():
    left = cost_left(6, 0, brokers=30)
    assert left["regraft"] < left["ocbr, as it goes"]
    assert all(0 < each <= 1 for each in left.values())


def test_rounds_and_what_they_take_are_given_for_those_who_have_rounds():
    found = measured(square(20, 60, 60, seed=1), 0)
    assert {name for name, each in found.items() if each.rounds} == {"ocbr", "hub-safe"}
    assert found["ocbr"].control > found["ocbr"].locks > 0
    assert found["regraft"].locks == 0


def test_who_follows_the_traffic_changes_links_and_pays_less():
    days = Days(brokers=20, clients=60, classes=60, windows=6)
    base, windows = days.observation(), days.traffic()
    costs, changed = follow(POLICIES["never changed"], base, windows, 0)
    assert changed == [0] * 5
    better, links = follow(POLICIES["regraft, smoothed"], base, windows, 0)
    assert sum(better) < sum(costs)
    assert sum(links) > 0
