"""CC12's Figure 2: what interest clustering divides, community clustering keeps together."""

import numpy as np

from overlace.model import Classes, Flows, Observation, Overlay
from overlace.planners.placement.baselines import Interest
from overlace.planners.placement.community import Community
from overlace.planners.placement.leiden import Leiden
from overlace.workloads.backbone import layout

T1, T2 = 0, 1
HEAVY = 100


def figure_2():
    """s1 to s7 are clients 0 to 6. s2, s3, s4 subscribe to t1, s5, s6, s7 to t2; s1, s2 and s5 talk most."""
    talk = {(0, 1): HEAVY, (1, 4): HEAVY, (0, 2): 3, (0, 3): 2, (2, 5): 3, (3, 6): 2}
    pairs = np.array(list(talk))
    spots = layout(np.array([1, 1, 1]))
    return Observation(
        overlay=Overlay(placement=[[0, 0], [1, 1], [2, 1], [3, 1], [4, 2], [5, 2], [6, 2]], tree=spots.tree),
        network=spots.network(),
        flows=Flows(pairs[:, 0], pairs[:, 1], list(talk.values())),
        classes=Classes.of(pairs.tolist(), list(talk.values())),
        interests=[[1, T1], [2, T1], [3, T1], [4, T2], [5, T2], [6, T2]],
    )


def together(plan):
    home = plan.after.homes(7)
    return home[0] == home[1] == home[4]


def test_figure_2_c_interest_clustering_divides_s1_s2_and_s5():
    plan = Interest(method="k-medoids").solve(figure_2())
    home = plan.after.homes(7)
    assert not together(plan)
    assert home[1] == home[2] == home[3]
    assert home[4] == home[5] == home[6]


def test_figure_2_d_communities_keep_s1_s2_and_s5_together():
    free = {"region_sent": None, "broker_sent": None, "broker_handled": None}
    for planner in (Community(overload=10.0), Leiden(**free)):
        plan = planner.solve(figure_2())
        assert together(plan)
        assert plan.gain > 0


def test_moves_inside_a_region_cost_nothing_and_moves_across_cost_one():
    """(2)."""
    observation = figure_2()
    planner = Leiden(move_cost=1.0)
    moved = observation.overlay.placement.copy()
    moved[0, 1] = 1
    overlay = Overlay(placement=moved, tree=observation.overlay.tree)
    plain = Leiden().cost(observation, overlay)
    assert planner.cost(observation, overlay) == plain + 1
