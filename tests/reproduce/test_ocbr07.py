"""The items of OCBR07 on few seeds: what they must show, whatever the figures."""

import pytest

from overlace.reproduce import ITEMS
from overlace.reproduce.ocbr07.few_links import cost_left
from overlace.reproduce.ocbr07.large import lower_bound, measured
from overlace.reproduce.ocbr07.optimum import ratios
from overlace.workloads.square import square


@pytest.mark.parametrize("item", ["figure-2", "rounds", "traps"])
def test_small_items_run(item):
    result = ITEMS["ocbr07"][item](seeds=1)
    assert result.rows
    assert result.notes


def test_the_laws_hold():
    rows = ITEMS["ocbr07"]["laws"](seeds=2).rows
    assert all(row["holds"] for row in rows)
    assert all(row["tried"] > 0 for row in rows)


def test_no_ratio_is_below_the_optimum():
    for values in ratios(7, 1.0, 2).values():
        assert min(values) >= 1 - 1e-12


@pytest.mark.parametrize("changed", [{}, {"metric": False, "locality": 0.0}])
def test_no_tree_is_below_the_lower_bound(changed):
    observation = square(20, 60, 60, seed=1, **changed)
    bound = lower_bound(observation)
    assert 0 < bound <= min(each[0] for each in measured(observation, 0).values())


def test_with_few_links_regraft_leaves_less_than_what_knows_only_neighbourhoods():
    left = cost_left(6, 0, brokers=30)
    assert left["regraft"] < left["ocbr, as it goes"]
    assert all(0 < each <= 1 for each in left.values())
