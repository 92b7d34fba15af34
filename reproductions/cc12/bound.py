"""No placement within the caps can cost less than this.

For each client on its own: at most so much of its traffic can be with clients of its broker as the broker's cap leaves
room for those who send it, taken by the best ratio of traffic to load and the last one in part (the relaxed knapsack);
the same for its region. What is left goes at least as far as two brokers of one region, or two regions, are apart. Half
of all that (each tie was counted at both ends) is a bound on messages x distance; access and moves are left out.
"""

from __future__ import annotations

import numpy as np

from overlace.arrays.jit import Floats, kernel
from overlace.planners.placement.problem import Problem
from overlace.planners.placement.ties import Ties


def lower_bound(problem: Problem) -> float:
    """Messages x distance that every placement costs at least, if caps on what is sent hold."""
    region, may = problem.region, problem.may
    brokers = np.flatnonzero(may)
    apart = problem.apart[np.ix_(brokers, brokers)]
    same = region[brokers][:, None] == region[brokers][None, :]
    different = ~np.eye(len(brokers), dtype=np.bool_)
    near = float(apart[same & different].min(initial=np.inf))
    far = float(apart[~same].min(initial=np.inf))
    near = min(near, far)
    if not np.isfinite(near):
        return 0.0
    far = far if np.isfinite(far) else near
    most_broker, most_region = float(problem.broker_sent[may].max()), float(problem.region_sent[region[may]].max())
    return float(bound_within(problem.ties, problem.sent, most_broker, most_region, near, max(far, near)))


@kernel
def bound_within(ties: Ties, sent: Floats, broker: float, region: float, near: float, far: float) -> float:
    """The bound, given the largest caps and the least distances inside and between regions."""
    start, other, weight = ties.start, ties.other, ties.weight
    total = 0.0
    for c in range(len(start) - 1):
        low, high = start[c], start[c + 1]
        whole = weight[low:high].sum()
        ratio = np.empty(high - low)
        for k in range(low, high):
            ratio[k - low] = weight[k] / max(sent[other[k]], 1e-12)
        order = np.argsort(-ratio)
        total += far * whole
        for room, saved in ((broker - sent[c], near), (region - sent[c], far - near)):
            for i in order:
                if room <= 0 and sent[other[low + i]] > 0:
                    break
                load = sent[other[low + i]]
                part = 1.0 if load <= room else room / load
                total -= saved * part * weight[low + i]
                room -= load
    return total / 2
