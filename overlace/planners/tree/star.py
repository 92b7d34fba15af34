"""The star: all brokers linked to one of them, the one for which (1) is least.

Two hops from anywhere to anywhere, and a hub that everything passes: a baseline. Where no broker could be linked to
all others, the one with the most candidate links is the hub and the others reach it in the fewest hops.

Keeps: a tree over candidate links; with degree limits, links are taken from the hub until it keeps its own.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from overlace.arrays.jit import Pairs, kernel
from overlace.model import Observation, Progress
from overlace.planners.search.spans import Spans
from overlace.planners.search.trees import star_costs
from overlace.planners.search.wires import SPARSE
from overlace.planners.tree.limits import within_limits
from overlace.planners.tree.planner import TreePlanner
from overlace.planners.tree.setting import Setting


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
