from dataclasses import replace

import numpy as np
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from overlace.model import Observation, Offers, Overlay, Requests
from overlace.planners.channels.anneal import Anneal
from overlace.planners.channels.steps import TOGETHER, kept_ids
from overlace.planners.channels.strategies import Strategy1, Strategy2, Strategy3, Strategy31
from overlace.planners.channels.strategy4 import Strategy4
from overlace.testing import check_planner
from tests.channels.common import ONLINE, connections, observed
from tests.oracles.channels import offer


@settings(max_examples=20)
@given(st.data())
@pytest.mark.parametrize("planner", [*ONLINE, Anneal(sweeps=20)], ids=repr)
def test_the_laws_hold_from_any_channels_and_no_limit_that_held_is_broken_on_the_way(planner, data):
    joins = data.draw(st.lists(st.tuples(st.integers(1, 15), st.integers(1, 7)), min_size=1, max_size=8))
    before = data.draw(st.dictionaries(st.integers(1, 20), st.integers(0, 5)))
    wanted = data.draw(st.lists(st.integers(1, 20), max_size=6))
    observation = observed(
        joins, overlay=Overlay(channels=sorted(before.items())), requests=Requests(range(len(wanted)), wanted)
    )
    plan = check_planner(planner, observation)
    assert set(plan.after.channels[:, 0].tolist()) == set().union(*(offer(mask) for mask, _ in joins))
    if planner in (Strategy1(), Strategy2()):
        return
    had = connections(joins, before)
    overlay = plan.before
    for i in range(len(plan.steps)):
        overlay = overlay.apply(plan.step(i).changes)
        now = connections(joins, dict(overlay.channels.tolist()))
        for (_, limit), first, here in zip(joins, had, now, strict=True):
            assert here <= max(limit, first)


FOUR = st.lists(st.tuples(st.integers(1, 15), st.integers(1, 6)), min_size=1, max_size=8)
TIGHT = [(5, 3), (8, 5), (2, 2), (2, 1), (1, 1), (14, 4)]
SOME = {1: 3, 3: 1, 4: 1, 6: 3, 7: 4, 8: 3, 9: 0, 10: 2, 12: 0, 13: 1, 14: 2}


@pytest.mark.parametrize("planner", [Strategy3(), Strategy31(), Strategy4(effort=12)], ids=repr)
@settings(max_examples=60)
@example(TIGHT, SOME)
@given(FOUR, st.dictionaries(st.integers(1, 15), st.integers(0, 5), min_size=1))
def test_a_step_tells_who_needs_more_and_fewer_connections_and_breaks_no_limit(planner, joins, before):
    plan = planner.solve(observed(joins, overlay=Overlay(channels=sorted(before.items()))))
    had = counted = connections(joins, before)
    overlay = plan.before
    for i in range(len(plan.steps)):
        overlay = overlay.apply(plan.step(i).changes)
        now = connections(joins, dict(overlay.channels.tolist()))
        assert all(here <= max(limit, first) for (_, limit), first, here in zip(joins, had, now, strict=True))
        args = plan.steps.args
        assert args["relieved"][i] == sum(a < b for a, b in zip(now, counted, strict=True))
        assert args["burdened"][i] == sum(a > b for a, b in zip(now, counted, strict=True))
        if args["relieved"][i]:
            first = joins[args["first_client"][i]][0]
            assert any(a < b for a, b, (mask, _) in zip(now, counted, joins, strict=True) if mask == first)
        counted = now


def test_steps_that_move_several_combinations_at_once_tell_what_all_of_it_did():
    """One channel for all is cut apart while limits leave no room for a connection more."""
    rng = np.random.default_rng(0)
    found = 0
    for _ in range(60):
        joins = [(int(rng.integers(1, 64)), int(rng.integers(1, 3))) for _ in range(4)]
        overlay = Overlay(channels=[(a, 0) for a in range(1, 64)])
        plan = Strategy4().solve(observed(joins, overlay=overlay))
        had = connections(joins, dict(overlay.channels.tolist()))
        for i in range(len(plan.steps)):
            overlay = overlay.apply(plan.step(i).changes)
            now = connections(joins, dict(overlay.channels.tolist()))
            if plan.steps.reason[i] == TOGETHER:
                assert plan.steps.args["relieved"][i] == sum(a < b for a, b in zip(now, had, strict=True))
                assert plan.steps.args["burdened"][i] == sum(a > b for a, b in zip(now, had, strict=True))
                assert plan.steps.args["combinations"][i] == sum(plan.step(i).changes.action > 0) > 1
                found += 1
            had = now
    assert found > 5


def test_an_id_stays_with_the_larger_part_and_ties_go_to_the_least_combination():
    old = np.array([5, 5, 5, 7, 7, -1])
    assert kept_ids(np.array([0, 1, 1, 2, 3, 3]), old).tolist() == [8, 5, 5, 7, 9, 9]


def test_a_step_names_who_is_relieved_and_the_traffic():
    offers = Offers([4, 5, 6], [0b011, 0b101, 0b110], [3, 3, 3])
    apart = Overlay(channels=[[1, 0], [2, 1], [3, 2], [4, 3], [5, 4], [6, 5]])
    tight = Observation(offers=replace(offers, connections=np.array([2, 3, 3])), overlay=apart)
    plan = Strategy4().solve(tight)
    assert len(plan.steps) == 1
    assert "relieves 1 publishers, c4 among them" in plan.why(0)
    assert plan.why(0).endswith(f"{-plan.gain:.0f} messages more")
    together = Overlay(channels=[[a, 0] for a in range(1, 7)])
    back = Strategy1().solve(Observation(offers=offers, overlay=together))
    assert "messages fewer are received" in back.why(0)
