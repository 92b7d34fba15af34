"""Planners beyond the paper: stars under a cap, several hubs, bounded diameters, random links, bounds."""

import re

import networkx as nx
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from overlace.errors import BadParameter, NothingBetter, NotObserved
from overlace.model import Observation
from overlace.planners.mesh.baselines import CdOda2, RandomMesh
from overlace.planners.mesh.caps import CapTooLow, by_pairs, least_degree
from overlace.planners.mesh.cost import degrees_of
from overlace.planners.mesh.greedy_merge import GreedyMerge
from overlace.planners.mesh.hub_tree import HubTree
from overlace.planners.mesh.hubs import anneal, degrees, hub_links
from overlace.planners.mesh.interests import interests_of
from overlace.planners.mesh.prune import needed_links
from overlace.planners.mesh.star_cap import StarCap
from overlace.planners.mesh.td_cd_oda import TdCdOda
from overlace.planners.mesh.two_hub import TwoHub
from overlace.testing import check_planner
from reproductions.tdcd17.least_links import least_links, least_star_links
from reproductions.tdcd17.under_caps import frontier
from tests.mesh.meshes import diameters, graph_of, interests, links_of, observed, topic_graphs, uniform, useful
from tests.strategies import links

PLANNERS = {
    StarCap(): 2,
    StarCap(effort=300): 2,
    TwoHub(effort=200): 2,
    TwoHub(hubs=3, effort=0): 2,
    HubTree(diameter=2): 2,
    HubTree(diameter=3): 3,
    HubTree(diameter=4): 4,
    HubTree(diameter=6, spread=0): 6,
    HubTree(diameter=5, cap=99): 5,
    RandomMesh(degree=1): 99,
    RandomMesh(): 99,
}


@pytest.mark.parametrize("planner", PLANNERS, ids=repr)
@settings(max_examples=25)
@given(wants=interests(), data=st.data())
def test_the_laws_and_the_diameter_hold_whatever_mesh_was_there(planner, wants, data):
    observation = observed(wants, data.draw(links(len(wants))))
    plan = check_planner(planner, observation, seed=data.draw(st.integers(0, 3)))
    assert all(d <= PLANNERS[planner] for d in diameters(observation, plan.after.mesh))
    assert useful(observation, plan.after.mesh)
    if isinstance(planner, StarCap | HubTree):
        sizes = np.bincount(observation.interests[:, 1])
        assert len(plan.after.mesh) <= np.maximum(sizes - 1, 0).sum()


@pytest.mark.parametrize("planner", PLANNERS, ids=repr)
def test_larger_instances_keep_the_diameter_too(planner):
    observation = uniform(90, 30, 6, seed=2)
    assert max(diameters(observation, planner.solve(observation, 1).after.mesh)) <= PLANNERS[planner]


# --- stars under a cap -------------------------------------------------------------------------------


@given(interests(clients=14))
@settings(max_examples=50)
def test_without_a_cap_and_effort_it_is_cd_oda_2(wants):
    assert links_of(StarCap().solve(observed(wants))) == links_of(CdOda2().solve(observed(wants)))


@pytest.mark.parametrize("effort", [0, 2000])
@given(wants=interests(clients=14, topics=5), data=st.data())
@settings(max_examples=40)
def test_a_cap_holds_or_the_least_that_was_found_is_named(effort, wants, data):
    observation = observed(wants)
    bound = np.bincount(observation.interests[:, 1]).max() - 1
    cap = data.draw(st.integers(1, 14))
    said = ""
    try:
        plan = StarCap(cap=cap, effort=effort).solve(observation)
    except NothingBetter as error:
        said = str(error)
    if said:
        needs = re.search(r"needs (\d+) links", said)
        assert int(needs[1]) >= bound if needs else bound <= cap
        least = int(said.split("least cap found is ")[1].split(".")[0])
        assert least > cap
        plan, cap = StarCap(cap=least, effort=effort).solve(observation), least
    else:
        assert cap >= bound or effort
    assert degrees_of(observation, plan.after.mesh)[1] <= cap
    assert all(d <= 2 for d in diameters(observation, plan.after.mesh))


def test_a_budget_lowers_the_maximum_below_td_cd_oda_at_no_more_links():
    """The point of the planner: TDCD17's star algorithms link somebody to most others."""
    observation = uniform(100, 50, 8)
    average, maximum = degrees_of(observation, TdCdOda().solve(observation).after.mesh)
    ours = degrees_of(observation, StarCap(budget=average, effort=40_000).solve(observation).after.mesh)
    assert ours[0] <= average
    assert ours[1] <= maximum / 2
    with pytest.raises(NothingBetter, match="the budget is 2") as refused:
        StarCap(budget=2.0).solve(observation)
    assert refused.value.exit_code == 3
    with pytest.raises(NothingBetter, match="under a cap of 90"):
        StarCap(budget=2.0, cap=90).solve(observation)


@given(interests(clients=14))
@settings(max_examples=40)
def test_the_budget_of_td_cd_oda_s_average_is_always_kept(wants):
    observation = observed(wants)
    average, maximum = degrees_of(observation, TdCdOda().solve(observation).after.mesh)
    if average:
        ours = degrees_of(observation, StarCap(budget=average).solve(observation).after.mesh)
        assert ours[0] <= average
        assert ours[1] <= maximum or ours[0] < average


def test_the_frontier_is_points_that_none_of_the_others_beats():
    observation = uniform(60, 30, 6)
    points = frontier(observation, effort=3000)
    assert len(points) > 2
    assert all(a.maximum < b.maximum and a.average > b.average for a, b in zip(points, points[1:], strict=False))
    for point in points:
        assert degrees_of(observation, point.plan.after.mesh) == (point.average, point.maximum)
        assert max(diameters(observation, point.plan.after.mesh)) <= 2
    assert frontier(observation, effort=0, caps=[1])[0].maximum > 1  # a cap that cannot be met is left out


@given(interests(clients=12), st.integers(1, 12), st.integers(1, 2))
@settings(max_examples=40)
def test_annealing_knows_the_links_it_changes(wants, cap, slots):
    """It keeps no table of links: what it says of its degrees must be true of the links it ends with."""
    given_ = interests_of(observed(wants), "test")
    hubs = np.full((len(given_.first) - 1, slots), -1)
    for t in range(len(hubs)):
        own = given_.member[given_.first[t] : given_.first[t + 1]][:slots]
        hubs[t, : len(own)] = own
    every = np.arange(len(hubs))
    before = degrees(hub_links(given_, hubs, every), len(wants))
    best, over = anneal(given_, hubs, before.copy(), cap, 60, 5)
    after = degrees(hub_links(given_, best, every), len(wants))
    assert over == (np.maximum(after - cap, 0) ** 2).sum()
    weight = [(np.maximum(d - cap, 0) ** 2).sum() for d in (before, after)]
    assert (weight[1], after.sum()) <= (weight[0], before.sum())
    for t, row in enumerate(best):
        own = given_.member[given_.first[t] : given_.first[t + 1]]
        assert set(row[row >= 0]) <= set(own.tolist())
        assert len(set(row[row >= 0])) == min(slots, len(own))


@given(interests(clients=8, topics=5), st.data())
@settings(max_examples=60)
def test_pruning_takes_out_what_no_topic_needs_and_nothing_else(wants, data):
    observation = observed(wants, data.draw(links(len(wants), 40)))
    full = observed(wants, [*links_of(CdOda2().solve(observation)), *observation.overlay.mesh.tolist()]).overlay.mesh
    kept = full[needed_links(interests_of(observation, "test"), full)]
    assert all(d <= 2 for d in diameters(observation, kept))
    for i in range(len(kept)):
        assert any(d > 2 for d in diameters(observation, np.delete(kept, i, axis=0)))


def test_a_5_cycle_needs_all_its_links_and_a_chord_of_it_none():
    observation = observed({v: {0} for v in range(5)})
    cycle = np.array([(0, 1), (1, 2), (2, 3), (3, 4), (0, 4)])
    assert needed_links(interests_of(observation, "test"), cycle).all()
    assert needed_links(interests_of(observation, "test"), np.array([*cycle, (0, 2)])).sum() <= 5


# --- several hubs ------------------------------------------------------------------------------------


@pytest.mark.parametrize("hubs", [2, 3])
@given(wants=interests())
@settings(max_examples=30)
def test_two_hub_survives_every_loss_of_fewer_clients_than_hubs(hubs, wants):
    observation = observed(wants)
    plan = TwoHub(hubs=hubs, effort=100).solve(observation)
    for graph in topic_graphs(observation, plan.after.mesh):
        left = len(graph) - 1
        if left >= 1:
            assert nx.is_connected(graph)
            assert left < hubs or nx.node_connectivity(graph) >= hubs


def test_two_hub_under_a_cap_that_cannot_be_says_the_least_found():
    observation = uniform(40, 10, 5)
    with pytest.raises(NothingBetter, match="under a cap of 3.*needs .* links") as refused:
        TwoHub(cap=3, effort=500).solve(observation)
    least = int(str(refused.value).split("least cap found is ")[1].split(".")[0])
    plan = TwoHub(cap=least, effort=500).solve(observation)
    assert degrees_of(observation, plan.after.mesh)[1] <= least
    observation = uniform(60, 30, 5)
    plan = TwoHub(cap=30, effort=50_000).solve(observation)
    assert degrees_of(observation, plan.after.mesh)[1] <= 30


# --- longer ways, random links -----------------------------------------------------------------------


def test_longer_ways_need_fewer_links():
    observation = uniform(120, 60, 8, seed=4)
    sizes = [len(HubTree(diameter=d).solve(observation).after.mesh) for d in (2, 3, 4, 6)]
    assert sizes == sorted(sizes, reverse=True)


@pytest.mark.parametrize("diameter", [2, 3, 4, 6])
@given(wants=interests(clients=16, topics=6), data=st.data())
@settings(max_examples=40)
def test_trees_under_a_cap_keep_it_and_their_diameter_or_say_who_forbids_it_and_the_least_found(diameter, wants, data):
    observation, cap, said = observed(wants), data.draw(st.integers(1, 8)), ""
    try:
        plan = HubTree(diameter=diameter, cap=cap).solve(observation)
    except CapTooLow as error:
        said, least = str(error), error.least
    if said:
        assert re.search(r"(topic|client) \S+ .*; the least cap found is \d+\.$", said)
        assert least > cap
        plan, cap = HubTree(diameter=diameter, cap=least).solve(observation), least
    assert degrees_of(observation, plan.after.mesh)[1] <= cap
    assert all(d <= diameter for d in diameters(observation, plan.after.mesh))


def tree_of(degree, diameter):
    """Clients of the largest tree of a degree and a diameter, grown and counted."""
    tree = nx.Graph([(0, 1)]) if diameter % 2 else nx.empty_graph(1)
    ends = list(tree)
    for _ in range(diameter // 2):
        grown = []
        for v in ends:
            for _ in range(degree - tree.degree[v]):
                grown.append(len(tree))
                tree.add_edge(v, grown[-1])
        ends = grown
    assert max(dict(tree.degree).values()) <= degree
    return len(tree)


@given(interests(clients=7, topics=5), st.integers(1, 4))
@settings(max_examples=60)
def test_who_is_said_to_forbid_a_cap_does(wants, cap):
    """The bounds behind the message, by brute force: links of topics of two, and trees that hold a topic."""
    observation = observed(wants)
    given_ = interests_of(observation, "test")
    sizes = np.bincount(observation.interests[:, 1])
    members = [set(observation.interests[observation.interests[:, 1] == t, 0].tolist()) for t in range(len(sizes))]
    linked = by_pairs(given_)
    for v in range(len(wants)):
        assert linked[v] == len({u for own in members if len(own) == 2 and v in own for u in own - {v}})
    for diameter in (2, 3, 4, 6):
        most = tree_of(cap, diameter)
        for size in sizes.tolist():
            assert (least_degree(size, diameter) <= cap) == (size <= max(most, 1))


def test_a_cap_that_two_of_a_topic_forbid_names_the_client_and_with_names_by_its_name():
    observation = observed({0: {0, 1, 2}, 1: {0}, 2: {1}, 3: {2}})
    with pytest.raises(CapTooLow, match="client c0 shares topics of two subscribers with 3 clients") as refused:
        HubTree(diameter=6, cap=2).solve(observation)
    assert refused.value.least == 3
    assert "client ann shares" in refused.value.sentence({"client": ["ann", "bob", "cid", "dan"]})


def test_random_links_give_everybody_the_degree_in_each_topic():
    observation = uniform(60, 6, 2, seed=5)
    plan = RandomMesh(degree=4).solve(observation, 3)
    for graph in topic_graphs(observation, plan.after.mesh):
        assert min(d for _, d in graph.degree) >= 4
    assert RandomMesh().solve(observation, 1).after != RandomMesh().solve(observation, 2).after


# --- bounds ------------------------------------------------------------------------------------------


@given(interests(clients=7, topics=5))
@settings(max_examples=30, deadline=None)
def test_no_mesh_is_below_the_bounds(wants):
    observation = observed(wants)
    for planner in (GreedyMerge(), StarCap(effort=200), HubTree()):
        assert len(planner.solve(observation).after.mesh) >= least_links(observation)
    stars = links_of(CdOda2().solve(observation))
    assert len(stars) >= least_star_links(observation) >= least_links(observation)


def test_the_bounds_are_exact_for_topics_apart_and_know_the_cap():
    observation = observed({0: {0}, 1: {0}, 2: {0}, 3: {1}, 4: {1}})
    assert least_links(observation) == least_star_links(observation) == 3
    with pytest.raises(NothingBetter, match="no mesh"):
        least_star_links(observed({v: {0} for v in range(9)}), cap=1)
    with pytest.raises(BadParameter, match="a programme takes 5"):
        least_links(uniform(20, 4, 2), most_pairs=5)


# --- bad input ---------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "wrong",
    [
        lambda: StarCap(cap=0), lambda: StarCap(effort=-1), lambda: StarCap(budget=0.0), lambda: TwoHub(hubs=0),
        lambda: TwoHub(cap=0), lambda: TwoHub(effort=-1), lambda: HubTree(diameter=1), lambda: HubTree(spread=-1.0),
        lambda: RandomMesh(degree=0),
    ],
)  # fmt: skip
def test_parameters_out_of_range_are_refused(wrong):
    with pytest.raises(BadParameter, match="expected"):
        wrong()


@pytest.mark.parametrize("planner", PLANNERS, ids=repr)
def test_nothing_observed_is_refused_and_idle_clients_are_not(planner):
    with pytest.raises(NotObserved, match="subscriptions"):
        planner.solve(Observation())
    observation = observed({0: {0}, 1: set(), 2: {3}, 3: {0, 5}}, mesh=[(1, 2)], topics=9)
    assert graph_of(observation, planner.solve(observation).after.mesh).edges == {(0, 3)}
