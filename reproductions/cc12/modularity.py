"""q of any cut of clients into communities (CC12 §III.A)."""

from __future__ import annotations

import numpy as np

from overlace.arrays.jit import Ints
from overlace.planners.placement.modularity import strengths
from overlace.planners.placement.ties import Ties


def modularity(ties: Ties, community: Ints) -> float:
    """q of any cut of the clients into communities (numbered from 0)."""
    strength = strengths(ties)
    total = strength.sum()
    if total == 0:
        return 0.0
    client = np.repeat(np.arange(len(strength)), np.diff(ties.start))
    inside = ties.weight[community[client] == community[ties.other]].sum()
    shares = np.bincount(community, weights=strength) / total
    return float(inside / total - (shares**2).sum())
