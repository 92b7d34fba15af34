"""Links whose latency was not measured: no candidates where latency counts, and never 0."""

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st

from overlace.arrays.pairs import positions
from overlace.errors import BadObservation, NotObserved
from overlace.model import NOT_MEASURED, Network
from overlace.planners.joint.joint import Joint
from overlace.planners.placement.leiden import Leiden
from overlace.testing import check_planner
from tests.joint.test_joint import some
from tests.replay.traffic import batch_of, replay, replays
from tests.strategies import observations

LATENCIES = ("mean_latency_us", "p50_latency_us", "p95_latency_us", "p99_latency_us", "latency_us")


def with_latencies(observation, latency):
    return replace(observation, network=replace(observation.network, latency_us=latency))


def is_wired(observation):
    return positions(observation.overlay.tree, observation.network.links) >= 0


@st.composite
def partly_measured(draw, wired=True):
    """An observation of which some links that are not wired have no latency; `wired`: and all that are have one."""
    observation = draw(observations(least=2).filter(some))
    latency = np.array([draw(st.integers(NOT_MEASURED, 9)) for _ in observation.network.links])
    if wired:
        latency = np.where(is_wired(observation), np.maximum(latency, 0), latency)
    return with_latencies(observation, latency)


@given(partly_measured(), st.sampled_from([Joint(effort=1), Joint(effort=1, budget=2), Joint(method="tree", effort=0)]))
@settings(max_examples=40)
def test_a_plan_for_latency_is_that_of_a_network_without_the_links_not_measured(observation, planner):
    planner = replace(planner, objective="latency")
    plan = check_planner(planner, observation)
    network, known = observation.network, observation.network.measured
    without = Network(
        broker_cost=network.broker_cost, links=network.links[known], link_cost=network.link_cost[known],
        latency_us=network.latency_us[known],
    )  # fmt: skip
    expected = planner.solve(replace(observation, network=without))
    assert plan.after == expected.after
    network.check_measured(plan.after.tree)


@given(partly_measured())
@settings(max_examples=20)
def test_rows_that_may_be_wired_keep_their_meaning(observation):
    unwired = np.flatnonzero(~is_wired(observation))
    assume(len(unwired))
    row = int(unwired[-1])
    planner = Joint(objective="latency", wired_only=True, may_wire=(row,), effort=0)
    links = {tuple(each) for each in planner.solve(observation).changes.pairs("tree", 1).tolist()}
    allowed = {tuple(observation.network.links[row].tolist())} if observation.network.measured[row] else set()
    assert links <= allowed


@given(partly_measured(wired=False), st.sampled_from(["cost", "messages", "hops"]))
@settings(max_examples=40)
def test_other_objectives_plan_as_if_latencies_were_there(observation, objective):
    planner = Joint(objective=objective, effort=1)
    known = with_latencies(observation, np.zeros(len(observation.network.links)))
    assert planner.solve(observation).after == planner.solve(known).after


@given(partly_measured(wired=False))
@settings(max_examples=20)
def test_a_wired_link_without_a_latency_is_refused_by_name_where_latency_counts(observation):
    unknown = ~observation.network.measured & is_wired(observation)
    assume(unknown.any())
    first = "-".join(f"b{end}" for end in observation.network.links[unknown][0])
    said = rf"the latency of {unknown.sum()} of \d+ wired links was not measured \(first: {first}\)"
    for planner in (Joint(objective="latency"), Leiden(distance="latency")):
        with pytest.raises(NotObserved, match=said):
            planner.solve(observation)
        with pytest.raises(NotObserved, match=said):
            planner.cost(observation, observation.overlay)


@given(replays(), st.data())
def test_replay_leaves_latency_out_where_a_wired_link_has_none_and_nothing_else(drawn, data):
    observation, rows = drawn
    unknown = np.array([data.draw(st.booleans()) for _ in observation.network.links], dtype=np.bool_)
    partly = with_latencies(observation, np.where(unknown, NOT_MEASURED, observation.network.latency_us))
    full, found = (replay(each, each.overlay, [batch_of(rows)]) for each in (observation, partly))
    kept = ~np.isin(full.metric, LATENCIES) if (unknown & is_wired(observation)).any() else full.value == full.value
    for name in ("metric", "scope", "key", "other", "value"):
        assert getattr(found, name).tolist() == getattr(full, name)[kept].tolist()


def test_below_not_measured_there_is_nothing():
    with pytest.raises(BadObservation, match="latency_us: row 0 is -2"):
        Network(links=[[0, 1]], latency_us=[-2])
