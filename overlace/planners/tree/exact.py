"""The cheapest tree of up to 14 brokers, by a dynamic programme over sets of them.

A link of the tree is crossed by the classes that its two sides split, whatever the trees on either side look
like, and a broker is passed by every class that does not lie wholly in one of the branches at it. So the
best tree below a broker over a set of others is the best choice of the branch that holds the lowest of them,
plus the best rest. Any link and broker costs, sparse links, degree limits and links that must stay.

Keeps: no tree is cheaper (the tests compare with all labelled trees).
Takes O(3^n n) steps, with degree limits so many times more.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from overlace.arrays.jit import Bools, Floats, Ints, Pairs, kernel
from overlace.arrays.trees import root_at
from overlace.errors import BadObservation, NothingBetter
from overlace.model import Observation, Progress
from overlace.planners.search.spans import Spans
from overlace.planners.search.wires import price_of
from overlace.planners.tree.planner import TreePlanner
from overlace.planners.tree.setting import Setting

MOST = 14
"""Brokers; with more the sets are too many."""


@dataclass(frozen=True)
class ExactTree(TreePlanner):
    """The cheapest tree there is, for up to 14 brokers; knows the whole tree and all classes."""

    paper: ClassVar[str] = "beyond OCBR07"

    def wanted(self, observation: Observation, setting: Setting, seed: int, progress: Progress | None = None) -> Pairs:
        """The cheapest tree."""
        brokers = observation.network.brokers
        if brokers > MOST:
            raise BadObservation(f"tree.exact takes up to {MOST} brokers, found {brokers}. Use tree.regraft.")
        return optimum(setting)


def optimum(setting: Setting) -> Pairs:
    """The links of the cheapest tree; of equal ones the observed tree."""
    p, n = setting.problem, len(setting.problem.toll)
    price = price_matrix(p, np.arange(n))
    kept = np.zeros((n, n), dtype=np.bool_)
    for a, b in setting.start[setting.kept].tolist():
        kept[a, b] = kept[b, a] = True
    masks = np.zeros(len(p.weight), dtype=np.int64)
    np.bitwise_or.at(masks, np.repeat(np.arange(len(masks)), np.diff(p.start)), 1 << p.terminal)
    best, parent = best_tree(price, p.toll, masks, p.weight, p.cap, kept)
    if not np.isfinite(best):
        raise NothingBetter("no tree over the candidate links keeps all degree limits and the links that must stay")
    start = root_at(n, setting.start, 0).parent
    if (
        tree_total(price, p.toll, masks, p.weight, start) <= best * (1 + 1e-12)
        and (np.bincount(setting.start.ravel(), minlength=n) <= p.cap).all()
    ):
        return setting.start
    return np.array([(min(v, parent[v]), max(v, parent[v])) for v in range(1, n)], dtype=np.int64).reshape(-1, 2)


@kernel
def price_matrix(p: Spans, nodes: Ints) -> Floats:
    """The price of a link between each two of some nodes."""
    k = len(nodes)
    price = np.full((k, k), np.inf)
    for i in range(k):
        for j in range(i):
            price[i, j] = price[j, i] = price_of(p.wires, nodes[i], nodes[j])
    return price


@kernel
def weight_within(k: int, masks: Ints, weight: Floats) -> Floats:
    """For every set of k nodes the weight of the classes that lie wholly in it."""
    within = np.zeros(1 << k)
    for i in range(len(masks)):
        within[masks[i]] += weight[i]
    for bit in range(k):
        for members in range(1 << k):
            if members >> bit & 1:
                within[members] += within[members ^ (1 << bit)]
    return within


@kernel
def tree_total(price: Floats, toll: Floats, masks: Ints, weight: Floats, parent: Ints) -> float:
    """What a tree, hung up at node 0, costs."""
    k = len(toll)
    within = weight_within(k, masks, weight)
    everything = (1 << k) - 1
    below = np.zeros(k, dtype=np.int64)
    for v in range(k):
        x = v
        while x >= 0:
            below[x] |= 1 << v
            x = parent[x]
    total = 0.0
    for v in range(k):
        total += toll[v] * within[everything]
        if parent[v] >= 0:
            inside, outside = within[below[v]], within[everything ^ below[v]]
            total += price[v, parent[v]] * (within[everything] - inside - outside)
            total -= toll[v] * outside + toll[parent[v]] * inside
    return total


@kernel
def best_tree(price: Floats, toll: Floats, masks: Ints, weight: Floats, cap: Ints, kept: Bools) -> tuple[float, Ints]:
    """(cost, parent) of the cheapest tree, hung up at node 0; infinite if there is none.

    rest[v, T, d] is the best of what hangs below v over the set T, in at most d branches; branch[U, v] of a
    branch U below v. Sets are of the nodes but 0, shifted by one; d is one layer where nobody has a limit.
    """
    k = len(toll)
    if k == 1:
        return 0.0, np.full(1, -1, dtype=np.int64)
    within = weight_within(k, masks, weight)
    everything, sets = (1 << k) - 1, 1 << (k - 1)
    limit = np.empty(k, dtype=np.int64)
    layers = 1
    for v in range(k):
        limit[v] = min(cap[v] - (v > 0), k)
        if limit[v] < k - 1 - (v > 0):
            layers = k + 1
    rest = np.full((k, sets, layers), np.inf)
    first = np.zeros((k, sets, layers), dtype=np.int64)  # the branch taken first
    branch = np.full((sets, k), np.inf)
    top = np.zeros((sets, k), dtype=np.int64)  # the node by which a branch hangs
    for v in range(k):
        for layer in range(layers):
            rest[v, 0, layer] = toll[v] * within[everything]
    for members in range(1, sets):
        whole = members << 1
        for v in range(1, k):  # what hangs below v over the others of this set
            if not members >> (v - 1) & 1:
                continue
            fill_rest(members ^ (1 << (v - 1)), v, rest, first, branch, layers)
        inside, outside = within[whole], within[everything ^ whole]
        crossing = within[everything] - inside - outside
        must, ends = 0, -1
        for a in range(k):
            for b in range(k):
                if kept[a, b] and whole >> a & 1 and not whole >> b & 1:
                    must += 1
                    ends = a * k + b
        for v in range(k):
            if whole >> v & 1 or must > 1:
                continue
            for u in range(1, k):
                if not whole >> u & 1 or (must == 1 and ends != u * k + v):
                    continue
                if layers > 1 and limit[u] < 0:
                    continue
                below = rest[u, members ^ (1 << (u - 1)), 0 if layers == 1 else limit[u]]
                cost = below + price[u, v] * crossing if crossing > 0 else below + 0.0 * price[u, v]
                cost -= toll[u] * outside + toll[v] * inside
                if cost < branch[members, v]:
                    branch[members, v] = cost
                    top[members, v] = u
        fill_rest(members, 0, rest, first, branch, layers)
    depth = 0 if layers == 1 else max(limit[0], 0)
    parent = np.full(k, -1, dtype=np.int64)
    total = rest[0, sets - 1, depth]
    if total == np.inf:
        return total, parent
    stack_v, stack_t, stack_d = [0], [sets - 1], [depth]
    while len(stack_v):
        v, members, d = stack_v.pop(), stack_t.pop(), stack_d.pop()
        while members:
            taken = int(first[v, members, d])
            u = int(top[taken, v])
            parent[u] = v
            stack_v.append(u)
            stack_t.append(taken ^ (1 << (u - 1)))
            stack_d.append(0 if layers == 1 else limit[u])
            members ^= taken
            d -= layers > 1
    return total, parent


@kernel
def fill_rest(members: int, v: int, rest: Floats, first: Ints, branch: Floats, layers: int) -> None:
    """Fill rest and first of what hangs below v over a set, from those of smaller sets."""
    if members == 0:
        return
    low = members & -members
    others = members ^ low
    part = others
    while True:  # every part of the others, the empty one last
        taken = part | low
        cost = branch[taken, v]
        if cost < np.inf:
            for d in range(1 if layers > 1 else 0, layers):
                found = cost + rest[v, members ^ taken, d - (layers > 1)]
                if found < rest[v, members, d]:
                    rest[v, members, d] = found
                    first[v, members, d] = taken
        if part == 0:
            break
        part = (part - 1) & others
