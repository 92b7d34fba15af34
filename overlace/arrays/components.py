"""Connected components: union-find over links, also within groups of nodes, and Kruskal's forest."""

from __future__ import annotations

import numpy as np

from overlace.arrays.jit import Bools, Ints, Pairs, kernel


@kernel
def find(leader: Ints, v: int) -> int:
    """The leader of v's component; halves the path on the way."""
    while leader[v] != v:
        leader[v] = leader[leader[v]]
        v = leader[v]
    return v


@kernel
def join(leader: Ints, u: int, v: int) -> bool:
    """Join two components under the lower leader; False if they were one already."""
    a, b = find(leader, u), find(leader, v)
    if a == b:
        return False
    if a < b:
        leader[b] = a
    else:
        leader[a] = b
    return True


@kernel(work=lambda n, links: n + links.size)
def components(n: int, links: Pairs) -> Ints:
    """For each of n nodes the lowest id in its component."""
    leader = np.arange(n)
    for k in range(len(links)):
        join(leader, links[k, 0], links[k, 1])
    for v in range(n):
        leader[v] = find(leader, v)
    return leader


@kernel(work=lambda n, links, order: n + 2 * links.size)
def spanning_forest(n: int, links: Pairs, order: Ints) -> Bools:
    """Which links Kruskal keeps when it looks at them in this order: one that closes no cycle."""
    leader = np.arange(n)
    kept = np.zeros(len(links), dtype=np.bool_)
    for k in order:
        kept[k] = join(leader, links[k, 0], links[k, 1])
    return kept


@kernel
def components_per_group(groups: int, start: Ints, group: Ints, links: Pairs) -> Ints:
    """How many components the members of each group form, linked only to one another.

    Node v belongs to the sorted groups group[start[v]:start[v + 1]]; a link joins its two ends in
    every group that both belong to. A group without members has no component.
    """
    count = np.zeros(groups, dtype=np.int64)
    for k in range(len(group)):
        count[group[k]] += 1
    leader = np.arange(len(group))
    for k in range(len(links)):
        i, end_i = start[links[k, 0]], start[links[k, 0] + 1]
        j, end_j = start[links[k, 1]], start[links[k, 1] + 1]
        while i < end_i and j < end_j:
            if group[i] < group[j]:
                i += 1
            elif group[i] > group[j]:
                j += 1
            else:
                if join(leader, i, j):
                    count[group[i]] -= 1
                i += 1
                j += 1
    return count
