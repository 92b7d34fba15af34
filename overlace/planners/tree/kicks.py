"""Kicks: a few random swaps that throw a tree out of its dent, and a descent from there, kept if it ends lower.

Keeps: what a descent keeps (`descent.py`); the tree never ends dearer than it was.
"""

from __future__ import annotations

import numpy as np

from overlace.arrays.hashing import mix
from overlace.arrays.jit import Ints, Pairs, kernel
from overlace.planners.tree.cut import weigh
from overlace.planners.tree.descent import Rules, Search, descend, is_first, may_join, search_over, swap
from overlace.planners.tree.problem import SPARSE, Problem, price_of
from overlace.planners.tree.wiring import attach, detach, links_of


@kernel
def draw(random: Ints, below: int) -> int:
    """A random number below some bound; random holds the state."""
    word = mix(np.uint64(random[0]))
    random[0] = np.int64(word & np.uint64(0x7FFFFFFFFFFFFFFF))
    return np.int64((word >> np.uint64(11)) % np.uint64(below))  # type: ignore[return-value]


@kernel
def kick(p: Problem, s: Search, rules: Rules, random: Ints, tries: int) -> float:
    """Swap a random link for the cheapest of a few random pairs that join its parts. Returns what it costs."""
    slot = draw(random, len(s.fresh))
    if rules.kept[slot]:
        return 0.0
    w, d = s.wiring, s.desk
    load, size, _ = weigh(p, w, d, slot)
    u, v = w.to[2 * slot + 1], w.to[2 * slot]
    current = load * w.price[slot] + d.reach[u] + d.reach[v] + (rules.fee if s.fresh[slot] else 0.0)
    more = s.state[0] - s.fresh[slot] < rules.most
    best, best_a, best_b = np.inf, -1, -1
    for _ in range(tries):
        a = d.order[draw(random, size)]
        if p.kind == SPARSE:
            b = p.link_other[p.link_start[a] + draw(random, p.link_start[a + 1] - p.link_start[a])]
        else:
            b = d.order[size + draw(random, len(d.order) - size)]
        if d.side[b] == 0 or (a == u and b == v):
            continue
        first = is_first(rules, a, b)
        if not (first or more) or not may_join(s, rules, slot, a) or not may_join(s, rules, slot, b):
            continue
        value = d.reach[a] + d.reach[b] + load * price_of(p, a, b) + (0.0 if first else rules.fee)
        if value < best:
            best, best_a, best_b = value, a, b
    if best_a < 0 or best == np.inf:
        return 0.0
    swap(p, s, rules, slot, best_a, best_b)
    return float(best - current)


@kernel
def keep_trying(p: Problem, links: Pairs, rules: Rules, least: float, kicks: int, random: Ints) -> tuple[Pairs, float]:
    """(links, saved): kick, descend again, and go back unless that paid; so many times."""
    best = links.copy()
    saved = 0.0
    s = search_over(p, best, rules)
    for _ in range(kicks):
        s.waiting[:] = False
        change = 0.0
        for _ in range(1 + draw(random, 3)):
            change -= kick(p, s, rules, random, 6)
        change += descend(p, s, rules, least, False)
        if change > least:
            saved += change
            best[:] = links_of(s.wiring)
        else:
            go_back(p, s, rules, best)
    return best, saved


@kernel
def go_back(p: Problem, s: Search, rules: Rules, links: Pairs) -> None:
    """Stand at these links again."""
    w = s.wiring
    for k in range(len(links)):
        a, b = w.to[2 * k + 1], w.to[2 * k]
        if min(a, b) != links[k, 0] or max(a, b) != links[k, 1]:
            detach(w, k)
    for k in range(len(links)):
        a, b = w.to[2 * k + 1], w.to[2 * k]
        if min(a, b) != links[k, 0] or max(a, b) != links[k, 1]:
            attach(w, k, links[k, 0], links[k, 1], price_of(p, links[k, 0], links[k, 1]))
            fresh = not is_first(rules, links[k, 0], links[k, 1])
            s.state[0] += np.int64(fresh) - np.int64(s.fresh[k])
            s.fresh[k] = fresh
