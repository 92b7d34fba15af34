"""The best link to replace, and what by: drop a link, reconnect the two halves at the best pair.

For a link e that is dropped, the classes that cross it pay anew for the way from their part of each half to the
new link's end there. Moving that end over a link f, away from e, costs a class more unless it also crosses f, and
less if it has nothing between e and f. So two matrices say it all: `both`, the demand that crosses e and f, and
`straight`, the demand whose subtree runs from e to f without a client or a fork between. They are summed once
over the distinct sets of homes; then every link and every pair of ends is looked at.
"""

from __future__ import annotations

import numpy as np

from overlace.arrays.jit import Bools, Floats, Ints, kernel
from overlace.planners.search.system import Tree, span


@kernel(work=lambda tree, fixed, start, homes, weight: 10 * len(homes) * len(tree.parent))
def crossings(tree: Tree, fixed: Bools, start: Ints, homes: Ints, weight: Floats) -> tuple[Floats, Floats]:
    """(both, straight) for a link that may go and any other, each named by its lower end; both[e, e]: all across e."""
    n = len(tree.parent)
    both = np.zeros((n, n), dtype=np.float64)
    straight = np.zeros((n, n), dtype=np.float64)
    mark = np.full(n, -1, dtype=np.int64)
    nodes = np.empty(n, dtype=np.int64)
    degree = np.zeros(n, dtype=np.int64)
    ends = np.full(n, -1, dtype=np.int64)
    segment = np.zeros(n, dtype=np.int64)
    below = np.zeros(n, dtype=np.int64)
    for k in range(len(weight)):
        count = start[k + 1] - start[k]
        if count < 2:
            continue
        terminals = homes[start[k] : start[k + 1]]
        size = span(tree, terminals, count, mark, k, nodes)
        for i in range(count):
            ends[terminals[i]] = k
        for i in range(size):
            degree[nodes[i]] = 0
        top = nodes[size - 1]
        for i in range(size - 1):
            v = nodes[i]
            degree[v] += 1
            degree[tree.parent[v]] += 1
            below[tree.parent[v]] = v
        # links of a run without client or fork share a segment, named by its lowest link
        for i in range(size - 1):
            v = nodes[i]
            low = v
            while ends[low] != k and degree[low] == 2:
                low = below[low]
            segment[v] = low
        if ends[top] != k and degree[top] == 2:
            one = two = -1
            for i in range(size - 1):
                if tree.parent[nodes[i]] == top:
                    if one < 0:
                        one = segment[nodes[i]]
                    else:
                        two = segment[nodes[i]]
            for i in range(size - 1):
                if segment[nodes[i]] == two:
                    segment[nodes[i]] = one
        for i in range(size - 1):
            e = nodes[i]
            if fixed[e, tree.parent[e]]:
                continue
            for j in range(size - 1):
                f = nodes[j]
                both[e, f] += weight[k]
                if segment[e] == segment[f]:
                    straight[e, f] += weight[k]
    return both, straight


@kernel(work=lambda tree, *_: len(tree.parent) ** 3)
def best_swaps(
    tree: Tree,
    node: Floats,
    wire: Floats,
    both: Floats,
    straight: Floats,
    first: Bools,
    fixed: Bools,
    max_degree: Ints,
    price: float,
    room: int,
) -> tuple[Floats, Ints, Ints]:
    """For each link (by its lower end) the best replacement: (change of cost and price, left, right).

    A link that was not there before the plan pays the price, one that comes back earns it. Infinite where a link
    is fixed or nothing may replace it.
    """
    n = len(node)
    score = np.full(n, np.inf, dtype=np.float64)
    left = np.full(n, -1, dtype=np.int64)
    right = np.full(n, -1, dtype=np.int64)
    inside = np.zeros(n, dtype=np.bool_)
    more = np.zeros(n, dtype=np.float64)
    lower = np.empty(n, dtype=np.int64)
    upper = np.empty(n, dtype=np.int64)
    for i in range(1, n):
        e = tree.order[i]
        p = tree.parent[e]
        if fixed[e, p]:
            continue
        crossing = both[e, e]
        inside[:] = False
        inside[e] = True
        more[e] = 0.0
        lows = 0
        for j in range(i, n):
            v = tree.order[j]
            q = tree.parent[v]
            if v != e and not inside[q]:
                continue
            inside[v] = True
            lower[lows] = v
            lows += 1
            if v != e:
                gone, back = crossing - both[e, v], straight[e, v]
                more[v] = more[q] + gone * (tree.up[v] + node[v]) - back * (tree.up[v] + node[q])
        # the upper half: from p up to the root, then down everywhere else
        more[p] = 0.0
        inside[p] = True
        ups = 1
        upper[0] = p
        v = p
        while tree.parent[v] >= 0:
            q = tree.parent[v]
            gone, back = crossing - both[e, v], straight[e, v]
            more[q] = more[v] + gone * (tree.up[v] + node[q]) - back * (tree.up[v] + node[v])
            inside[q] = True
            upper[ups] = q
            ups += 1
            v = q
        for j in range(1, n):
            v = tree.order[j]
            if inside[v]:
                continue
            q = tree.parent[v]
            gone, back = crossing - both[e, v], straight[e, v]
            more[v] = more[q] + gone * (tree.up[v] + node[v]) - back * (tree.up[v] + node[q])
            inside[v] = True
            upper[ups] = v
            ups += 1
        leaves = 0 if first[e, p] else -1
        for a in range(lows):
            x = lower[a]
            spare_x = tree.degree[x] - (1 if x == e else 0) < max_degree[x]
            if not spare_x:
                continue
            for b in range(ups):
                y = upper[b]
                w = wire[x, y]
                if not w < np.inf or (x == e and y == p):
                    continue
                enters = 0 if first[x, y] else 1
                if enters + leaves > room:
                    continue
                total = more[x] + more[y] + crossing * (w - tree.up[e]) + price * (enters + leaves)
                if total < score[e] - 1e-12 and tree.degree[y] - (1 if y == p else 0) < max_degree[y]:
                    score[e], left[e], right[e] = total, x, y
    return score, left, right
