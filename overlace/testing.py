"""What every overlay and every planner must keep, for our planners and for yours.

    from overlace.testing import check_planner, small_observations
    for observation in small_observations("tree").values():
        check_planner(MyPlanner(), observation)

No test library is needed: a broken law raises `Broken`, an AssertionError that says which.
"""

from __future__ import annotations

import pickle
from collections.abc import Mapping

import numpy as np

from overlace.arrays.masks import submasks
from overlace.errors import BadOverlay
from overlace.model import (
    ENDS,
    FACETS,
    Changes,
    Classes,
    Facet,
    Flows,
    Network,
    Observation,
    Offers,
    Overlay,
    Plan,
    Planner,
    check_tree,
    name_of,
)
from overlace.workloads.square import square


class Broken(AssertionError):
    """A planner broke a law."""


def _hold(law: bool, what: str) -> None:
    if not law:
        raise Broken(what)


def check_overlay(overlay: Overlay, observation: Observation) -> None:
    """Refuse an overlay that is not valid for this observation; an empty relation is always valid."""
    for facet in FACETS:
        rows = overlay.relation(facet)
        counts = {"client": observation.clients, "broker": observation.network.brokers}
        for side, kind in enumerate(ENDS[facet]):
            ids = rows[:, side]
            most = counts.get(kind, np.iinfo(np.int64).max)
            if ids.size and (ids.min() < 0 or ids.max() >= most):
                bad = int(ids.min() if ids.min() < 0 else ids.max())
                raise BadOverlay(f"{facet}: {kind} {bad} does not exist; there are {most}")
        if facet in ("placement", "channels"):
            again = np.flatnonzero(rows[1:, 0] == rows[:-1, 0])
            if len(again):
                who = name_of(ENDS[facet][0], int(rows[again[0], 0]))
                raise BadOverlay(f"{facet}: {who} stands in two rows; once is the rule")
    if (overlay.channels[:, 0] == 0).any():
        raise BadOverlay("channels: the empty combination is in a channel; nobody can ask for it")
    if len(overlay.tree):
        check_tree(overlay.tree, observation.network.brokers)


def check_planner(planner: Planner, observation: Observation, seed: int = 0) -> Plan:
    """Hold a planner to all its laws on one observation; returns the plan it made."""
    _check_planner_itself(planner)
    kept = pickle.loads(pickle.dumps(observation))
    plan = planner.solve(observation, seed)
    _hold(observation == kept, "solve changed its observation")
    _hold(planner.solve(observation, seed) == plan, f"seed {seed} gave two different plans")
    _hold(plan.planner == planner and plan.seed == seed, "the plan names another planner or seed")
    _hold(plan.before == observation.overlay, "the plan does not start at the observed overlay")
    for facet in FACETS:
        same = np.array_equal(plan.before.relation(facet), plan.after.relation(facet))
        _hold(facet in planner.facets or same, f"changed {facet}, but its facets are {planner.facets}")
    _check_changes(plan)
    _check_prefixes(planner, observation, plan)
    return plan


def _check_planner_itself(planner: Planner) -> None:
    kind = type(planner)
    _hold(eval(repr(planner), {kind.__name__: kind}) == planner, "its repr does not make it again")
    _hold(pickle.loads(pickle.dumps(planner)) == planner, "it does not survive pickling")
    _hold(kind() == kind(), "two planners with the same parameters differ")


def _check_changes(plan: Plan) -> None:
    there = plan.before.changes_to(plan.after)
    back = plan.after.changes_to(plan.before)
    _hold(plan.changes.sorted() == there.sorted(), "the changes are not the whole difference")
    _hold(plan.inverse().changes.sorted() == back.sorted(), "the inverse is not the whole way back")
    _hold(plan.before.apply(plan.changes) == plan.after, "the changes do not lead to the overlay after")
    _hold(plan.inverse().inverse() == plan, "the inverse of the inverse is another plan")
    _hold(bool((np.diff(plan.steps.start) > 0).all()), "a step has no change")


def _check_prefixes(planner: Planner, observation: Observation, plan: Plan) -> None:
    overlay, cost = plan.before, planner.cost(observation, plan.before)
    start, saved = cost, 0.0
    for i in range(len(plan.steps)):
        step = plan.step(i)
        overlay = overlay.apply(step.changes)
        check_overlay(overlay, observation)
        saved += step.gain
        there = planner.cost(observation, overlay)
        near = 1e-9 * max(1.0, abs(start), abs(there))
        _hold(
            abs(start - there - saved) <= near,
            f"after step {i} the cost fell by {start - there!r}, the gains add up to {saved!r}",
        )
        _hold(bool(plan.why(i)), f"step {i} has no reason")
    _hold(overlay == plan.after, "the steps do not lead to the overlay after")
    for k in {0, len(plan.steps) // 2, len(plan.steps)}:
        part = plan.first(k)
        _hold(part.before == plan.before and len(part.steps) == k, f"first({k}) is not a prefix")
    _hold(plan.first(len(plan.steps)) == plan, "the first of all steps is not the plan")


# --- small observations ------------------------------------------------------------------------------


def small_observations(facet: Facet | None = None) -> Mapping[str, Observation]:
    """Small cases by name, the awkward ones among them; those that a facet can use, or all."""
    cases: dict[str, tuple[tuple[Facet, ...], Observation]] = {
        "three in a row": (("placement", "tree"), three_in_a_row()),
        "one broker": (("placement", "tree"), one_broker()),
        "square": (("placement", "tree"), square(9, 20, 30, seed=1)),
        "no tree yet": (("tree",), _without_tree(square(6, 12, 15, seed=2))),
        "equal costs": (("placement", "tree"), equal_costs()),
        "four clients": (
            ("mesh",),
            Observation(interests=[[0, 0], [0, 1], [1, 0], [1, 2], [2, 1], [2, 2], [3, 3]]),
        ),
        "four clients, linked": (("mesh",), linked_clients()),
        "three publishers": (("channels",), three_publishers()),
        "three publishers, cut": (("channels",), three_publishers(cut=True)),
    }
    return {name: each for name, (uses, each) in cases.items() if facet is None or facet in uses}


def three_in_a_row() -> Observation:
    """Brokers 0-1-2 in a row, a client at each end, all they say crosses both links."""
    return Observation(
        overlay=Overlay(placement=[[0, 0], [1, 2]], tree=[[0, 1], [1, 2]]),
        network=Network(links=[[0, 1], [1, 2], [0, 2]], link_cost=[5, 5, 1]),
        flows=Flows([0, 1], [1, 0], [10, 4], [100, 40]),
        classes=Classes.of([[0, 1]], [14]),
    )


def one_broker() -> Observation:
    """Everybody at the only broker: nothing to gain."""
    return Observation(
        overlay=Overlay(placement=[[0, 0], [1, 0]]),
        network=Network(region=[0]),
        flows=Flows([0], [1], [3]),
        classes=Classes.of([[0, 1]], [3]),
    )


def equal_costs() -> Observation:
    """A path of five brokers where every link costs the same: all ties, one class of a single client."""
    left, right = np.triu_indices(5, 1)
    return Observation(
        overlay=Overlay(placement=[[c, c % 5] for c in range(10)], tree=[[0, 1], [1, 2], [2, 3], [3, 4]]),
        network=Network(links=np.column_stack([left, right])),
        flows=Flows([0, 4, 9, 3], [4, 0, 5, 3], [7, 2, 5, 9]),
        classes=Classes.of([[0, 4], [9, 5, 2], [3]], [9, 5, 100]),
    )


def linked_clients() -> Observation:
    """Four clients with two topics and a mesh that leaves one topic in two parts."""
    interests = [[0, 0], [1, 0], [2, 0], [3, 0], [0, 1], [3, 1]]
    return Observation(interests=interests, overlay=Overlay(mesh=[[0, 1], [1, 2], [2, 3]]))


def three_publishers(*, cut: bool = False) -> Observation:
    """Publishers of AB, AC and BD with 2, 1 and 3 connections (PART10, figure 4.4)."""
    offers = Offers([0, 1, 2], [0b0011, 0b0101, 0b1010], [2, 1, 3])
    if not cut:
        return Observation(offers=offers)
    held = np.unique(np.concatenate([submasks(mask) for mask in (0b0011, 0b0101, 0b1010)]))
    channels = [[combination, 1 if combination & 0b1000 else 0] for combination in held.tolist()]
    return Observation(offers=offers, overlay=Overlay(channels=channels))


def _without_tree(observation: Observation) -> Observation:
    overlay = Overlay(placement=observation.overlay.placement)
    return Observation(
        overlay=overlay, network=observation.network, classes=observation.classes, clients=observation.clients
    )


__all__ = ["Broken", "Changes", "check_overlay", "check_planner", "small_observations"]
