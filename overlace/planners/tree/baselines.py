"""Trees to compare with: the minimum spanning tree and the star.

The minimum spanning tree of the links that could be wired.

The tree with the least total link cost (Kruskal; ties to what is wired, then to the lowest ids). It
does not look at the traffic: a baseline. Swaps bring in the cheapest new link first and take out the
costliest link of the loop that it closes; the traffic's cost may grow on the way.

Keeps: a tree over all brokers after every step. With degree limits, links that must stay or a least gain, the tree is
changed until it keeps them and the swaps come in the order of `ordering.py`.

The star: all brokers linked to one of them, the one for which (1) is least.

Two hops from anywhere to anywhere, and a hub that everything passes: a baseline. Where no broker could be linked to
all others, the one with the most candidate links is the hub and the others reach it in the fewest hops.

Keeps: a tree over candidate links; with degree limits, links are taken from the hub until it keeps its own.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import ClassVar

import numpy as np

from overlace.arrays.jit import Pairs, kernel
from overlace.model import Changes, Observation, Plan, Progress, Steps
from overlace.planners.search.rewiring import gains_in_order
from overlace.planners.search.spans import Spans
from overlace.planners.search.trees import star_costs
from overlace.planners.search.wires import SPARSE
from overlace.planners.tree.limits import within_limits
from overlace.planners.tree.planner import TreePlanner
from overlace.planners.tree.setting import Setting, all_links, setting_of, spanning_tree
from overlace.planners.tree.steps import BUILDS, REASONS, plan_to
from overlace.planners.tree.swaps import swaps


@dataclass(frozen=True)
class Mst(TreePlanner):
    """The cheapest links that join all brokers, whatever the traffic."""

    REASONS: ClassVar[tuple[str, ...]] = (
        REASONS[BUILDS],
        "{left_broker}-{right_broker} costs {new:amount} and joins what {from_broker}-{to_broker} joined for "
        "{old:amount}",
        *REASONS[BUILDS + 1 :],
    )

    def solve(self, observation: Observation, seed: int = 0, *, progress: Progress | None = None) -> Plan:
        """Swap by swap from the observed tree to the minimum spanning tree."""
        setting = setting_of(self, observation)
        network, before = observation.network, observation.overlay
        wanted = all_links(network)[spanning_tree(network, before.tree)]
        limited = self.min_gain > 0 or bool((setting.problem.cap < network.brokers).any()) or len(self.keep) > 0
        if limited or len(before.tree) == 0:
            wanted = within_limits(setting, wanted)
            plan = plan_to(self, observation, seed, setting, wanted, progress)
            if not setting.built:
                return plan
            return replace(plan, steps=replace(plan.steps, reason=plan.steps.reason + 1))  # its own stands before them
        old_cost, new_cost = network.costs_of(before.tree), network.costs_of(wanted)
        removed, added = swaps(before.tree, old_cost, wanted, new_cost)
        n = len(added) if self.max_swaps is None else min(len(added), self.max_swaps)
        removed, added = removed[:n], added[:n]
        old, new = before.tree[removed], wanted[added]
        rows = np.stack([old, new], axis=1).reshape(-1, 2)  # the old link first: brokers must never see a loop
        changes = Changes(np.ones(2 * n), np.tile([-1, 1], n), rows[:, 0], rows[:, 1])
        gain = gains_in_order(setting.problem, setting.start, removed, new)
        args = {
            "left_broker": new[:, 0],
            "right_broker": new[:, 1],
            "new": new_cost[added],
            "from_broker": old[:, 0],
            "to_broker": old[:, 1],
            "old": old_cost[removed],
        }
        if progress:
            progress(1.0, "swaps")
        steps = Steps(np.arange(0, 2 * n + 1, 2), gain, np.ones(n), args)
        return Plan(self, seed, before, before.apply(changes), changes, steps)


@dataclass(frozen=True)
class Star(TreePlanner):
    """All brokers linked to the best hub; knows the whole tree and all classes."""

    def wanted(self, observation: Observation, setting: Setting, seed: int, progress: Progress | None = None) -> Pairs:
        """The star, within the limits."""
        p = setting.problem
        if p.wires.brokers < 2:
            wanted = setting.start
        elif p.wires.kind == SPARSE:
            wanted = nearest_hops(p, int(np.argmax(np.diff(p.wires.start))))
        else:
            hub = int(np.argmin(star_costs(p)))
            others = np.delete(np.arange(p.wires.brokers), hub)
            wanted = np.column_stack([np.minimum(others, hub), np.maximum(others, hub)])
        return within_limits(setting, wanted)


@kernel
def nearest_hops(p: Spans, hub: int) -> Pairs:
    """The tree of the fewest hops to the hub over candidate links; of equal ones the cheapest link."""
    hops = np.full(p.wires.brokers, -1, dtype=np.int64)
    hops[hub] = 0
    queue = np.empty(p.wires.brokers, dtype=np.int64)
    queue[0] = hub
    filled = 1
    i = 0
    links = np.empty((p.wires.brokers - 1, 2), dtype=np.int64)
    while i < filled:
        v = queue[i]
        i += 1
        for j in range(p.wires.start[v], p.wires.start[v + 1]):
            x = p.wires.other[j]
            if hops[x] < 0:
                hops[x] = hops[v] + 1
                queue[filled] = x
                filled += 1
    for i in range(1, filled):
        x = queue[i]
        best = -1
        for j in range(p.wires.start[x], p.wires.start[x + 1]):
            near = hops[p.wires.other[j]] == hops[x] - 1
            if near and (best < 0 or p.wires.each[j] < p.wires.each[best]):
                best = j
        links[i - 1, 0], links[i - 1, 1] = min(x, p.wires.other[best]), max(x, p.wires.other[best])
    return links
