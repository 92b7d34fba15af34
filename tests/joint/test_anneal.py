"""Annealing keeps its books: what it believes of cost, loads and changes is what a recount gives."""

from dataclasses import replace

import numpy as np
import pytest

from overlace.model import Classes, Network, Observation, Overlay
from overlace.planners.joint.joint import Joint
from overlace.planners.search.anneal import anneal_state, start_annealing
from overlace.planners.search.clients import chain, exchange, sweep
from overlace.planners.search.limits import fits
from overlace.planners.search.walk import NO_LIMIT, Budget, Search, State, by_cost
from overlace.testing import check_planner
from overlace.workloads.square import square

BUDGETS = [Budget(), Budget(both=5), Budget(moves=3, swaps=1), Budget(swaps=0), Budget(moves=0)]


@pytest.mark.parametrize("budget", BUDGETS)
@pytest.mark.parametrize("planner", [Joint(beta=0.5), Joint(handled_cap=None, move_price=3.0, swap_price=2.0)])
def test_what_it_believes_is_what_a_recount_gives(budget, planner):
    problem = planner.problem(square(12, 40, 60, seed=1))
    search = Search(problem)
    kinds = ("clients", "links")
    now, draw = start_annealing(search, search.first, budget, kinds, 7)
    for heat in (0.5, 0.05):
        draw(2000, heat * search.first.cost / 40, 0.5)
        recount = Search(problem)
        recount.goto(State(now.system.seats.home, now.links))
        assert now.cost[0] == pytest.approx(recount.cost)
        assert now.changed.tolist() == [recount.moved, recount.swapped]
        assert np.allclose(now.system.loads.sent, recount.system.loads.sent)
        assert np.allclose(now.system.loads.handled, recount.system.loads.handled) or not problem.capped
        assert now.system.tree.parent.tolist() == recount.tree.parent.tolist()
        assert recount.moved <= budget.moves
        assert recount.swapped <= budget.swaps
        assert recount.moved + recount.swapped <= budget.both
        assert fits(recount.system.loads.sent, problem.limits.sent_cap)
        assert fits(recount.system.loads.handled, problem.limits.handled_cap)
        assert (recount.tree.degree <= problem.max_degree).all()
    assert now.changed.sum() > 0
    assert now.cost[1] <= search.first.cost


def test_the_same_seed_gives_the_same_state_and_it_is_never_worse():
    search = Search(Joint().problem(square(12, 40, 60, seed=2)))
    best = search.path(Budget(both=8), ("clients", "links"))
    found = [anneal_state(search, best, Budget(both=8), ("clients", "links"), 4000, seed) for seed in (3, 3)]
    assert found[0].home.tolist() == found[1].home.tolist()
    assert found[0].links.tolist() == found[1].links.tolist()
    assert by_cost(found[0]) <= by_cost(best)


def test_one_kind_alone_changes_only_that_kind():
    search = Search(Joint().problem(square(12, 40, 60, seed=2)))
    for kinds, place in ((("clients",), 1), (("links",), 0)):
        now, draw = start_annealing(search, search.first, Budget(NO_LIMIT, NO_LIMIT, NO_LIMIT), kinds, 1)
        draw(2000, search.first.cost / 40, 0.5)
        assert now.changed[place] == 0
        assert now.changed[1 - place] > 0


def groups_of_four():
    """Two brokers, groups of four clients, two of each at either: no single move saves anything."""
    return Observation(
        overlay=Overlay(placement=[[c, c % 2] for c in range(16)], tree=[[0, 1]]),
        network=Network(region=[0, 0], links=[[0, 1]], link_cost=[3.0]),
        classes=Classes.of([range(4 * g, 4 * g + 4) for g in range(4)], [10, 11, 12, 13]),
        clients=16,
    )


def test_it_finds_what_no_single_move_leads_to():
    """As single clients they are stuck; annealed they are not, nor where groups move."""
    observation, planner = groups_of_four(), Joint(sent_cap=None, handled_cap=None, effort=0)
    search = Search(planner.problem(observation))
    stuck = search.path(Budget(), ("clients",))
    assert stuck.cost == search.first.cost
    assert anneal_state(search, stuck, Budget(), ("clients",), 4000, 0).cost == 0
    plan = planner.solve(observation)
    assert planner.cost(observation, plan.after) == 0
    assert len(plan.steps) == 8


def three_in_a_ring():
    """Three full brokers around a hub; each has a client that belongs to the next one, and nowhere else but here."""
    talks = [[i, 3 + (i + 1) % 3] for i in range(3)] + [[i, 3 + i] for i in range(3)]
    return Observation(
        overlay=Overlay(placement=[[c, c % 3] for c in range(6)], tree=[[0, 3], [1, 3], [2, 3]]),
        network=Network(region=[0, 0, 0, -1], links=[[0, 3], [1, 3], [2, 3]], link_cost=[1.0, 1.0, 1.0]),
        classes=Classes.of(talks, [3, 3, 3, 2, 2, 2]), clients=6, sent=[1] * 6,
    )  # fmt: skip


def test_a_chain_passes_above_a_limit_and_ends_within_it():
    """No client alone has room, no two gain by trading places: only all three together do, as one step."""
    observation = three_in_a_ring()
    planner = Joint(sent_cap=1.0, handled_cap=None, effort=0, keep=(3, 4, 5))
    problem = planner.problem(observation)
    search, clients = Search(problem), problem.movable
    assert sweep(search.system, search.reach, clients, 0.0, 9) == (0.0, 0)
    assert exchange(search.system, clients, clients, 0.0, 9) == (0.0, 0)
    before = search.home.copy(), search.system.loads.sent.copy()
    assert chain(search.system, clients, clients, 0.0, 2) == (0.0, 0)  # three changes are needed
    assert search.home.tolist() == before[0].tolist()
    assert search.system.loads.sent.tolist() == before[1].tolist()
    assert chain(search.system, clients, clients, 0.0, 9) == (6.0, 3)
    assert search.home[:3].tolist() == [1, 2, 0]
    plan = check_planner(planner, observation)
    assert (len(plan.steps), plan.gain) == (1, 6.0)


def test_clients_that_talk_to_nobody_stay_and_change_nothing():
    observation = square(8, 40, 30, seed=2)
    alone = observation.clients + np.arange(20)
    classes = observation.classes
    more = replace(
        observation,
        overlay=Overlay(
            placement=np.concatenate([observation.overlay.placement, np.column_stack([alone, alone % 8])]),
            tree=observation.overlay.tree,
        ),
        classes=Classes(
            np.append(classes.start, classes.start[-1] + 1 + np.arange(20)), np.append(classes.members, alone),
            np.append(classes.demand, np.full(20, 5)), np.append(classes.bytes, np.full(20, 500)),
        ),
        clients=60, sent=np.append(observation.sent, np.zeros(20, int)),
        sent_bytes=np.append(observation.sent_bytes, np.zeros(20, int)),
    )  # fmt: skip
    without, beside = (Joint(sent_cap=None, effort=10).solve(each) for each in (observation, more))
    assert beside.changes == without.changes


def test_a_seed_beyond_64_bits_anneals_as_any_other():
    planner = Joint(sent_cap=None, handled_cap=None, effort=5)
    assert planner.cost(groups_of_four(), planner.solve(groups_of_four(), seed=2**64 + 1).after) == 0
