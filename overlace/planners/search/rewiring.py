"""From one tree to another, swap by swap: what pays most first, within the degree limits.

For any link that has to go there is at least one new link that joins the two parts it leaves (both trees span the
brokers), so one swap is always possible and there are as many as links that differ. Gains are found by difference
(`cut.py`). After each swap the gains of the others are out of date; the largest is worked out anew until the largest is
one that is up to date, so the order is the greedy one as long as gains fall, which they mostly do.

Keeps: a tree after every swap; no broker above its limit after a step, nor further above it than it was. Where no
single swap keeps the limits, several swaps are one step.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from overlace.arrays.jit import Floats, Ints, Pairs, by_address, kernel
from overlace.arrays.wiring import Wiring, attach, detach, wire
from overlace.planners.search.cut import Workspace, most_saved, new_workspace, weigh
from overlace.planners.search.spans import Spans
from overlace.planners.search.wires import price_of, prices_of

MANY, TIME, EXCESS = range(3)
"""Places in a rewiring's state: links that are left to be replaced, changes so far, links above what is allowed."""


@by_address
class Rewiring(NamedTuple):
    """Links that go and links that come; changed in place."""

    wiring: Wiring
    workspace: Workspace
    slots: Ints  # those whose links go, as many as are left
    added: Pairs  # the links that come
    left: Ints  # their rows, as many as are left
    stale: Floats  # per place of slots: what its best swap saved when it was looked at
    seen: Ints  # and when that was
    cap: Ints  # most links of each broker, or as many as it has at the end
    allowed: Ints  # that, or what it has now
    state: Ints


def rewiring(p: Spans, links: Pairs, goes: Ints, added: Pairs) -> Rewiring:
    """Nothing is replaced yet."""
    wiring = wire(len(p.toll), links, prices_of(p.wires, links))
    many, brokers = len(goes), len(p.cap)
    then = wiring.degree[:brokers] - np.bincount(links[goes].ravel(), minlength=brokers)
    cap = np.maximum(p.cap, then + np.bincount(added.ravel(), minlength=brokers))
    return Rewiring(
        wiring=wiring,
        workspace=new_workspace(p),
        slots=goes.astype(np.int64),
        added=np.ascontiguousarray(added),
        left=np.arange(many),
        stale=np.full(many, np.inf),
        seen=np.full(many, -1),
        cap=cap,
        allowed=np.maximum(cap, wiring.degree[:brokers]),
        state=np.array([many, 0, 0]),
    )


@kernel
def over(r: Rewiring, v: int, more: int) -> int:
    """How far a broker would be above what it is allowed with so many links more."""
    return int(max(0, r.wiring.degree[v] + more - r.allowed[v]))


@kernel
def best_add(p: Spans, r: Rewiring, slot: int, strict: bool) -> tuple[int, float, int]:
    """(place in left, gain, excess): the new link to put in place of a slot's.

    strict leaves out links that exceed what brokers are allowed; else the least excess comes first.
    """
    w, d = r.wiring, r.workspace
    load, _, _ = weigh(p, w, d, slot)
    u, v = w.to[2 * slot + 1], w.to[2 * slot]
    current = load * w.price[slot] + d.reach[u] + d.reach[v]
    best, gain, least = -1, -np.inf, 0
    for i in range(r.state[MANY]):
        a, b = r.added[r.left[i], 0], r.added[r.left[i], 1]
        if d.side[a] == d.side[b]:
            continue
        excess = over(r, a, 1 - (a == u) - (a == v)) + over(r, b, 1 - (b == u) - (b == v))
        if strict and excess > 0:
            continue
        if u != a and u != b:
            excess += over(r, u, -1)
        if v != a and v != b:
            excess += over(r, v, -1)
        excess -= over(r, u, 0) + over(r, v, 0)
        if a != u and a != v:
            excess -= over(r, a, 0)
        if b != u and b != v:
            excess -= over(r, b, 0)
        fall = current - (load * price_of(p.wires, a, b) + d.reach[a] + d.reach[b])
        if strict:
            excess = 0
        if best < 0 or excess < least or (excess == least and fall > gain):
            best, gain, least = i, fall, excess
    return best, gain, least


@kernel
def next_swap(p: Spans, r: Rewiring, fee: float) -> tuple[int, int, float]:
    """(place in slots, place in left, gain): the swap that saves most within the degree limits; -1 where none is.

    A place whose gain is minus infinity is left out, unless that is so of all.
    """
    many, now = r.state[MANY], r.state[TIME]
    again = False
    while many > 0:
        pick = 0
        for i in range(1, many):
            if r.stale[i] > r.stale[pick] or (r.stale[i] == r.stale[pick] and r.slots[i] < r.slots[pick]):
                pick = i
        if r.stale[pick] == -np.inf:  # no swap was within the limits: look at all of them again
            if again:
                return -1, -1, 0.0
            again = True
            for i in range(many):
                if r.seen[i] != now:
                    r.stale[i] = np.inf
            continue
        place, gain, _ = best_add(p, r, r.slots[pick], True)
        known = r.seen[pick] == now
        r.stale[pick], r.seen[pick] = gain, now
        if place < 0:
            continue
        if known:
            return pick, place, gain - fee
        first = True
        for i in range(many):
            first = first and (i == pick or r.stale[i] <= gain)
        if first:
            return pick, place, gain - fee
    return -1, -1, 0.0


@kernel
def next_of_several(p: Spans, r: Rewiring) -> tuple[int, int, float]:
    """(place in slots, place in left, gain): the swap after which brokers are least above what they are allowed."""
    pick, place, gain, least = -1, -1, -np.inf, 0
    for i in range(r.state[MANY]):
        found, fall, extra = best_add(p, r, r.slots[i], False)
        if found >= 0 and (place < 0 or extra < least or (extra == least and fall > gain)):
            pick, place, gain, least = i, found, fall, extra
    return pick, place, gain


@kernel
def replace_link(p: Spans, r: Rewiring, pick: int, place: int) -> tuple[float, float, int, float]:
    """(gain, messages that crossed the link, who saves most, how much): carry out a swap."""
    w, d, cap = r.wiring, r.workspace, r.cap
    slot, row = r.slots[pick], r.left[place]
    a, b = r.added[row, 0], r.added[row, 1]
    load, _, crossing = weigh(p, w, d, slot)
    fresh = price_of(p.wires, a, b)
    before = d.reach[w.to[2 * slot]] + d.reach[w.to[2 * slot + 1]]
    gain = load * (w.price[slot] - fresh) + before - d.reach[a] - d.reach[b]
    who, most = most_saved(p, w, d, slot, crossing, a, b)
    detach(w, slot)
    attach(w, slot, a, b, fresh)
    r.state[MANY] -= 1
    r.state[TIME] += 1
    last = r.state[MANY]
    r.slots[pick], r.stale[pick], r.seen[pick] = r.slots[last], r.stale[last], r.seen[last]
    r.left[place] = r.left[last]
    excess = 0
    for v in range(len(cap)):
        excess += over(r, v, 0)
    r.state[EXCESS] = excess
    if excess == 0:
        for v in range(len(cap)):
            r.allowed[v] = max(cap[v], min(r.allowed[v], w.degree[v]))
    return gain, load, who, most


@kernel
def gain_of(p: Spans, links: Pairs, slot: int, a: int, b: int) -> tuple[float, float]:
    """(gain, messages that crossed the link): what a link a-b in the place of another saves."""
    w, d = wire(len(p.toll), links, prices_of(p.wires, links)), new_workspace(p)
    load, _, _ = weigh(p, w, d, slot)
    before = d.reach[w.to[2 * slot]] + d.reach[w.to[2 * slot + 1]]
    return load * (w.price[slot] - price_of(p.wires, a, b)) + before - d.reach[a] - d.reach[b], load


@kernel
def gains_in_order(p: Spans, links: Pairs, goes: Ints, added: Pairs) -> Floats:
    """What each of some swaps saves, carried out one after the other; every prefix of them must leave a tree."""
    w, d = wire(len(p.toll), links, prices_of(p.wires, links)), new_workspace(p)
    gains = np.empty(len(goes))
    for i in range(len(goes)):
        slot, a, b = goes[i], added[i, 0], added[i, 1]
        load, _, _ = weigh(p, w, d, slot)
        fresh = price_of(p.wires, a, b)
        before = d.reach[w.to[2 * slot]] + d.reach[w.to[2 * slot + 1]]
        gains[i] = load * (w.price[slot] - fresh) + before - d.reach[a] - d.reach[b]
        detach(w, slot)
        attach(w, slot, a, b, fresh)
    return gains
