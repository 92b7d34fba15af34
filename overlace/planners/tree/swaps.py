"""From one tree to another, one swap at a time, a tree after each.

Adding a link to a tree closes one loop, and at least one link of that loop is not wanted at the end
(otherwise the final tree would hold the loop). Taking out the costliest of those gives a tree that is
one swap nearer, so there are exactly as many swaps as links that differ.
"""

from __future__ import annotations

import numpy as np

from overlace.arrays.jit import Bools, Floats, Ints, Pairs, kernel
from overlace.arrays.pairs import positions
from overlace.arrays.trees import root_at


def swaps(before: Pairs, before_cost: Floats, after: Pairs, after_cost: Floats) -> tuple[Ints, Ints]:
    """(removed, added): rows of before and of after that are exchanged, cheapest new link first."""
    brokers = len(before) + 1
    keep = positions(after, before) >= 0
    new = np.flatnonzero(positions(before, after) < 0)
    added = new[np.lexsort((new, after_cost[new]))]
    tree = root_at(brokers, before, 0)
    return exchange(tree.parent.copy(), tree.link.copy(), keep, before_cost, after[added]), added


@kernel
def exchange(parent: Ints, link: Ints, keep: Bools, cost: Floats, added: Pairs) -> Ints:
    """For each added link the row of the link that leaves the loop it closes.

    Rows below len(keep) are links of the tree as it was; an added link gets the rows after them.
    """
    removed = np.empty(len(added), dtype=np.int64)
    seen = np.full(len(parent), -1, dtype=np.int64)
    for k in range(len(added)):
        u, v = added[k, 0], added[k, 1]
        w = u
        while w >= 0:
            seen[w] = k
            w = parent[w]
        top = v
        while seen[top] != k:
            top = parent[top]
        below = -1  # the lower end of the link that leaves
        near = u  # the end of the new link that is cut off with it
        for end in (u, v):
            w = end
            while w != top:
                row = link[w]
                if row < len(keep) and not keep[row]:
                    worse = below < 0 or cost[row] > cost[link[below]]
                    if worse or (cost[row] == cost[link[below]] and row < link[below]):
                        below = w
                        near = end
                w = parent[w]
        removed[k] = link[below]
        far = v if near == u else u
        above, row = far, len(keep) + k
        w = near
        while True:  # turn the way from the new link down to the cut
            up, old = parent[w], link[w]
            parent[w] = above
            link[w] = row
            if w == below:
                break
            above, row, w = w, old, up
    return removed
