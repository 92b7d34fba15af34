"""Who talks with whom, both ways together: the client graph as rows grouped by client.

CC12 R9: flows are directed, closeness serves both directions alike, so the weight of a pair is w_nk + w_kn. What a
client says to itself is left out.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from overlace.arrays.csr import group
from overlace.arrays.jit import Floats, Ints, kernel, size
from overlace.model import Observation
from overlace.planners.placement.cost import Weight


class Ties(NamedTuple):
    """The others that each client talks with: other[start[c]:start[c + 1]], ascending, with the traffic both ways."""

    start: Ints
    other: Ints
    weight: Floats


def ties_of(observation: Observation, weight: Weight = "messages") -> Ties:
    """The client graph of the observed flows."""
    flows = observation.flows
    amount = (flows.messages if weight == "messages" else flows.bytes).astype(np.float64)
    return ties_between(observation.clients, flows.sender, flows.receiver, amount)


def ties_between(clients: int, left: Ints, right: Ints, weight: Floats) -> Ties:
    """The graph of weighted pairs, in any order, any of them several times."""
    apart = (left != right) & (weight > 0)
    left, right, weight = left[apart], right[apart], weight[apart]
    ends, far = np.concatenate([left, right]), np.concatenate([right, left])
    _, by_far = group(far, clients)
    start, by_end = group(ends[by_far], clients)
    order = by_far[by_end]
    return Ties(*merge_rows(start, far[order], np.concatenate([weight, weight])[order]))


@kernel(work=size)
def merge_rows(start: Ints, other: Ints, weight: Floats) -> tuple[Ints, Ints, Floats]:
    """Rows that agree in both ends made one; others ascend within a group."""
    bounds = np.zeros(len(start), dtype=np.int64)
    kept = np.empty(len(other), dtype=np.int64)
    total = np.empty(len(other), dtype=np.float64)
    n = 0
    for c in range(len(start) - 1):
        for k in range(start[c], start[c + 1]):
            if n > bounds[c] and kept[n - 1] == other[k]:
                total[n - 1] += weight[k]
            else:
                kept[n] = other[k]
                total[n] = weight[k]
                n += 1
        bounds[c + 1] = n
    return bounds, kept[:n].copy(), total[:n].copy()
