"""Communities of a weighted graph, by NetworKit's Leiden."""

from __future__ import annotations

import numpy as np

from overlace.arrays.jit import Floats, Ints

SEEDS = (1 << 63) - 1


def communities_at(left: Ints, right: Ints, weight: Floats, nodes: int, seed: int, resolution: float = 1.0) -> Ints:
    """The community of each node, one thread, numbered by their lowest node."""
    import networkit as nk

    threads = nk.getMaxNumberOfThreads()
    nk.setNumberOfThreads(1)
    nk.setSeed(seed & SEEDS, False)
    try:
        graph = nk.GraphFromCoo((weight, (left, right)), n=nodes, weighted=True)
        found = nk.community.ParallelLeiden(graph, randomize=True, iterations=3, gamma=resolution)
        community = np.array(found.run().getPartition().getVector(), dtype=np.int64)
    finally:
        nk.setNumberOfThreads(threads)
    _, first, number = np.unique(community, return_index=True, return_inverse=True)
    rank = np.empty(len(first), dtype=np.int64)
    rank[np.argsort(first, kind="stable")] = np.arange(len(first))
    return rank[number.reshape(-1)]
