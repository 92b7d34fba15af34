"""The order in which a tree becomes another, swap by swap: what pays most first, within the degree limits.

For any link that has to go there is at least one new link that joins the two parts it leaves (both trees
span the brokers), so one swap is always possible and there are as many as links that differ. Gains are
found by difference (`cut.py`). After each swap the gains of the others are out of date; the largest is
worked out anew until the largest is one that is up to date, so the order is the greedy one as long as
gains fall, which they mostly do.

Keeps: a tree after every swap; no broker above its limit after a step, nor further above it than it was.
Where no single swap keeps the limits, several swaps are one step.
"""

from __future__ import annotations

import numpy as np

from overlace.arrays.jit import Bools, Floats, Ints, Pairs, kernel
from overlace.planners.tree.cut import Desk, desk_for, most_saved, weigh
from overlace.planners.tree.problem import Problem, price_of
from overlace.planners.tree.wiring import Wiring, attach, detach, wire


@kernel
def over(w: Wiring, allowed: Ints, v: int, more: int) -> int:
    """How far a broker would be above what it is allowed with so many links more."""
    return int(max(0, w.degree[v] + more - allowed[v]))


@kernel
def best_add(
    p: Problem, w: Wiring, d: Desk, slot: int, added: Pairs, left: Ints, many: int, allowed: Ints, strict: bool
) -> tuple[int, float, int, int]:
    """(place in left, gain, excess, crossing): the new link to put in place of a slot's.

    strict leaves out links that exceed what brokers are allowed; else the least excess comes first.
    """
    load, _, crossing = weigh(p, w, d, slot)
    u, v = w.to[2 * slot + 1], w.to[2 * slot]
    current = load * w.price[slot] + d.reach[u] + d.reach[v]
    best, gain, least = -1, -np.inf, 0
    for i in range(many):
        a, b = added[left[i], 0], added[left[i], 1]
        if d.side[a] == d.side[b]:
            continue
        excess = over(w, allowed, a, 1 - (a == u) - (a == v)) + over(w, allowed, b, 1 - (b == u) - (b == v))
        if strict and excess > 0:
            continue
        if u != a and u != b:
            excess += over(w, allowed, u, -1)
        if v != a and v != b:
            excess += over(w, allowed, v, -1)
        excess -= over(w, allowed, u, 0) + over(w, allowed, v, 0)
        if a != u and a != v:
            excess -= over(w, allowed, a, 0)
        if b != u and b != v:
            excess -= over(w, allowed, b, 0)
        fall = current - (load * price_of(p, a, b) + d.reach[a] + d.reach[b])
        if strict:
            excess = 0
        if best < 0 or excess < least or (excess == least and fall > gain):
            best, gain, least = i, fall, excess
    return best, gain, least, crossing


@kernel
def gains_in_order(p: Problem, links: Pairs, price: Floats, goes: Ints, added: Pairs) -> Floats:
    """What each of some swaps saves, carried out one after the other; every prefix of them must leave a tree."""
    w, d = wire(len(p.toll), links, price), desk_for(p)
    gains = np.empty(len(goes))
    for i in range(len(goes)):
        slot, a, b = goes[i], added[i, 0], added[i, 1]
        load, _, _ = weigh(p, w, d, slot)
        fresh = price_of(p, a, b)
        before = d.reach[w.to[2 * slot]] + d.reach[w.to[2 * slot + 1]]
        gains[i] = load * (w.price[slot] - fresh) + before - d.reach[a] - d.reach[b]
        detach(w, slot)
        attach(w, slot, a, b, fresh)
    return gains


@kernel
def order_swaps(
    p: Problem, links: Pairs, price: Floats, goes: Ints, added: Pairs, cap: Ints, most: int
) -> tuple[Ints, Ints, Floats, Ints, Floats, Bools]:
    """(removed, added, gain, class, saving, closed) of up to `most` swaps, one row each.

    Rows of links and of added; the class that saves most and what it saves; whether a step ends here.
    """
    w, d = wire(len(p.toll), links, price), desk_for(p)
    many = len(goes)
    swaps = min(many, most)
    out, into = np.zeros(swaps, dtype=np.int64), np.zeros(swaps, dtype=np.int64)
    gains, saving = np.zeros(swaps), np.zeros(swaps)
    who, closed = np.zeros(swaps, dtype=np.int64), np.zeros(swaps, dtype=np.bool_)
    left = np.arange(len(added))
    slots = goes.copy()
    allowed = np.maximum(cap, w.degree)
    stale = np.empty(many)
    for i in range(many):
        _, stale[i], _, _ = best_add(p, w, d, slots[i], added, left, many, allowed, True)
    excess = 0
    for step in range(swaps):
        pick, place, gain, crossing = -1, -1, -np.inf, 0
        if excess == 0:
            while place < 0:
                pick, second = 0, -np.inf
                for i in range(1, many):
                    if stale[i] > stale[pick] or (stale[i] == stale[pick] and slots[i] < slots[pick]):
                        pick, second = i, stale[pick]
                    elif stale[i] > second:
                        second = stale[i]
                if stale[pick] == -np.inf:  # no swap was within the limits: look at all of them again
                    for i in range(many):
                        _, stale[i], _, _ = best_add(p, w, d, slots[i], added, left, many, allowed, True)
                        if stale[i] > stale[pick]:
                            pick = i
                    if stale[pick] == -np.inf:
                        break
                    second = -np.inf
                found, stale[pick], _, crossing = best_add(p, w, d, slots[pick], added, left, many, allowed, True)
                if stale[pick] >= second:
                    place, gain = found, stale[pick]
        change = 0
        if place < 0:
            for i in range(many):
                found, fall, extra, _ = best_add(p, w, d, slots[i], added, left, many, allowed, False)
                if found >= 0 and (place < 0 or extra < change or (extra == change and fall > gain)):
                    pick, place, gain, change = i, found, fall, extra
            _, _, _, crossing = best_add(p, w, d, slots[pick], added, left, many, allowed, False)
        excess += change
        slot, row = slots[pick], left[place]
        a, b = added[row, 0], added[row, 1]
        who[step], saving[step] = most_saved(p, w, d, slot, crossing, a, b)
        detach(w, slot)
        attach(w, slot, a, b, price_of(p, a, b))
        out[step], into[step], gains[step], closed[step] = slot, row, gain, excess == 0
        many -= 1
        slots[pick], stale[pick] = slots[many], stale[many]
        left[place] = left[many]
        if excess == 0:
            for v in range(len(cap)):
                allowed[v] = max(cap[v], min(allowed[v], w.degree[v]))
    return out, into, gains, who, saving, closed
