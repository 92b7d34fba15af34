"""Links replaced: take one out, join the two parts where it is cheapest; what pays most first.

Every swap of one link for another is looked at, by difference (`cut.py`). Pairs of nodes are left out by bounds: a pair
cannot be cheaper than the reaches of its two ends and the cheapest link at one of them. What was found for a link is
remembered; after a swap the most promising one is looked at anew until the best is up to date, and when nothing that is
known pays, the links around the loops that changed are looked at again, then all: at the end no single swap over the
whole tree pays. Kicks are a few random swaps that throw a tree out of its dent, kept if what follows ends lower.

Keeps: a tree; no broker above its limit; links that must stay; no more than so many links that differ from the first
tree, each of which counts `fee` more.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from overlace.arrays.draws import draw_below
from overlace.arrays.jit import Bools, Floats, Ints, Pairs, by_address, kernel
from overlace.arrays.vectors import fill
from overlace.arrays.wiring import Wiring, attach, detach, links_of, wire
from overlace.planners.search.cut import Workspace, new_workspace, weigh
from overlace.planners.search.spans import Spans
from overlace.planners.search.wires import SPARSE, price_of, prices_of


@by_address
class Rules(NamedTuple):
    """What a search for links must keep to."""

    kept: Bools  # per slot: its link must stay
    cap: Ints  # per node: most links
    parent: Ints  # the first tree, hung up at node 0
    most: int  # links that may differ from it
    fee: float  # what each of them counts


@by_address
class SearchTree(NamedTuple):
    """A tree under search."""

    wiring: Wiring
    workspace: Workspace
    fresh: Bools  # per slot: its link is not of the first tree
    waiting: Bools  # per slot: something around it has changed since it was looked at
    gain: Floats  # per slot: what the best swap saved when it was looked at
    found: Ints  # (slots, 3): its ends, and how many swaps ago
    near: Ints  # room for the nodes that one side's bound leaves
    far: Ints
    state: Ints  # links that differ from the first tree; swaps so far


@kernel
def stand(p: Spans, links: Pairs, rules: Rules) -> SearchTree:
    """A search that stands at these links."""
    n, slots = len(p.toll), len(links)
    fresh = np.zeros(slots, dtype=np.bool_)
    state = np.zeros(2, dtype=np.int64)
    for k in range(slots):
        fresh[k] = not is_first(rules, links[k, 0], links[k, 1])
        state[0] += fresh[k]
    return SearchTree(
        wiring=wire(n, links, prices_of(p.wires, links)),
        workspace=new_workspace(p),
        fresh=fresh,
        waiting=np.ones(slots, dtype=np.bool_),
        gain=np.zeros(slots),
        found=np.full((slots, 3), -1),
        near=np.empty(n, dtype=np.int64),
        far=np.empty(n, dtype=np.int64),
        state=state,
    )


@kernel
def is_first(rules: Rules, a: int, b: int) -> bool:
    """Whether a link is one of the first tree."""
    return bool(rules.parent[a] == b or rules.parent[b] == a)


@kernel
def may_join(s: SearchTree, rules: Rules, slot: int, a: int) -> bool:
    """Whether a node may have one more link once the slot's is out."""
    ends = (s.wiring.to[2 * slot] == a) + (s.wiring.to[2 * slot + 1] == a)
    return bool(s.wiring.degree[a] - ends + 1 <= rules.cap[a])


@kernel
def best_join(p: Spans, s: SearchTree, rules: Rules, slot: int, below: float) -> tuple[float, int, int]:
    """(gain, a, b): the pair at which to join the parts of a slot's cut, if it gains more than `below`.

    a is -1 where no pair does.
    """
    w, d, wires = s.wiring, s.workspace, p.wires
    load, size, _ = weigh(p, w, d, slot)
    u, v = w.to[2 * slot + 1], w.to[2 * slot]
    current = load * w.price[slot] + d.reach[u] + d.reach[v]
    if s.fresh[slot]:
        current += rules.fee
    limit = current - below
    n = len(d.order)
    more = s.state[0] - s.fresh[slot] < rules.most  # a link that is not of the first tree may come in
    low_0 = low_1 = np.inf
    for i in range(n):
        if i < size:
            low_0 = min(low_0, d.reach[d.order[i]])
        else:
            low_1 = min(low_1, d.reach[d.order[i]])
    near = far = 0
    for i in range(n):
        x = d.order[i]
        other = low_1 if i < size else low_0
        if d.reach[x] + other + load * wires.cheapest[x] < limit and may_join(s, rules, slot, x):
            if i < size:
                s.near[near] = x
                near += 1
            else:
                s.far[far] = x
                far += 1
    best_a, best_b = -1, -1
    for i in range(near):
        a = s.near[i]
        base = d.reach[a]
        if base + low_1 + load * wires.cheapest[a] >= limit:
            continue
        sparse = wires.kind == SPARSE
        for j in range(wires.start[a] if sparse else 0, wires.start[a + 1] if sparse else far):
            b = wires.other[j] if sparse else s.far[j]
            if sparse and (d.side[b] == 0 or not may_join(s, rules, slot, b)):
                continue
            if base + d.reach[b] + load * wires.cheapest[b] >= limit:
                continue
            value = base + d.reach[b] + load * (wires.each[j] if sparse else price_of(wires, a, b))
            if value >= limit:
                continue
            first = is_first(rules, a, b)
            value += 0.0 if first else rules.fee
            if value < limit and (first or more):
                limit, best_a, best_b = value, a, b
    return current - limit, best_a, best_b


@kernel
def look_at(p: Spans, s: SearchTree, rules: Rules, slot: int, least: float) -> None:
    """Find the best swap for a slot and remember it."""
    gain, a, b = best_join(p, s, rules, slot, least)
    s.gain[slot] = gain if a >= 0 else 0.0
    s.found[slot, 0], s.found[slot, 1], s.found[slot, 2] = a, b, s.state[1]
    s.waiting[slot] = False


@kernel
def best_swap(p: Spans, s: SearchTree, rules: Rules, least: float, eager: bool) -> int:
    """The slot whose swap saves most; -1 where none saves more than `least`.

    Eager: all are looked at anew; else those around which something has changed and those that promise most, and all
    where none does.
    """
    slots = len(s.fresh)
    while True:
        best = -1
        for slot in range(slots):
            if (eager or s.waiting[slot]) and s.found[slot, 2] != s.state[1] and not rules.kept[slot]:
                look_at(p, s, rules, slot, least)
            if s.gain[slot] > least and (best < 0 or s.gain[slot] > s.gain[best]):
                best = slot
        if best >= 0:
            if s.found[best, 2] == s.state[1]:
                return best
            look_at(p, s, rules, best, least)
            continue
        for slot in range(slots):
            if s.found[slot, 2] != s.state[1] and not rules.kept[slot]:
                look_at(p, s, rules, slot, least)
                if s.gain[slot] > least:
                    best = slot
        if best < 0:
            return best


@kernel
def swap(p: Spans, s: SearchTree, rules: Rules, slot: int, a: int, b: int) -> None:
    """Put a-b into a slot, and have the links around the loop looked at again."""
    w, d = s.wiring, s.workspace
    weigh(p, w, d, slot)
    for end in (a, b):
        x = end
        while x >= 0:
            half = w.first[x]
            while half >= 0:
                s.waiting[half >> 1] = True
                half = w.after[half]
            x = d.up[x]
    put(p, s, rules, slot, a, b)
    s.waiting[slot] = True
    s.gain[slot] = 0.0
    s.state[1] += 1


@kernel
def put(p: Spans, s: SearchTree, rules: Rules, slot: int, a: int, b: int) -> None:
    """Put a-b into a slot."""
    detach(s.wiring, slot)
    attach(s.wiring, slot, a, b, price_of(p.wires, a, b))
    fresh = not is_first(rules, a, b)
    s.state[0] += np.int64(fresh) - np.int64(s.fresh[slot])
    s.fresh[slot] = fresh


@kernel
def descend(p: Spans, s: SearchTree, rules: Rules, least: float, whole: bool) -> float:
    """Take swaps that pay, link by link, until none does; with `whole`, none over the whole tree. What was saved."""
    saved = 0.0
    again = True
    while again:
        again = False
        for turn in range(2 if whole else 1):
            for slot in range(len(s.fresh)):
                if rules.kept[slot] or (turn == 0 and not s.waiting[slot]):
                    continue
                look_at(p, s, rules, slot, least)
                if s.gain[slot] > least:
                    saved += s.gain[slot]
                    swap(p, s, rules, slot, s.found[slot, 0], s.found[slot, 1])
                    again = True
            if again:
                break
    return saved


@kernel
def steepest(p: Spans, s: SearchTree, rules: Rules, least: float, eager: bool) -> float:
    """Take the swap that pays most, again and again. Returns what was saved."""
    saved = 0.0
    while True:
        slot = best_swap(p, s, rules, least, eager)
        if slot < 0:
            return saved
        saved += s.gain[slot]
        swap(p, s, rules, slot, s.found[slot, 0], s.found[slot, 1])


@kernel
def relieve(p: Spans, s: SearchTree, rules: Rules) -> int:
    """Take links away from brokers above their limits, the cheapest way first; a broker it fails at, or -1."""
    for v in range(p.wires.brokers):
        while s.wiring.degree[v] > rules.cap[v]:
            best, at, best_a, best_b = -np.inf, -1, -1, -1
            half = s.wiring.first[v]
            while half >= 0:
                if not rules.kept[half >> 1]:
                    gain, a, b = best_join(p, s, rules, half >> 1, best)
                    if a >= 0:
                        best, at, best_a, best_b = gain, half >> 1, a, b
                half = s.wiring.after[half]
            if at < 0:
                return v
            swap(p, s, rules, at, best_a, best_b)
    return -1


@kernel
def kick(p: Spans, s: SearchTree, rules: Rules, random: Ints, tries: int) -> float:
    """Swap a random link for the cheapest of a few random pairs that join its parts. Returns what it costs."""
    slot = draw_below(random, len(s.fresh))
    if rules.kept[slot]:
        return 0.0
    w, d, wires = s.wiring, s.workspace, p.wires
    load, size, _ = weigh(p, w, d, slot)
    u, v = w.to[2 * slot + 1], w.to[2 * slot]
    current = load * w.price[slot] + d.reach[u] + d.reach[v] + (rules.fee if s.fresh[slot] else 0.0)
    more = s.state[0] - s.fresh[slot] < rules.most
    best, best_a, best_b = np.inf, -1, -1
    for _ in range(tries):
        a = d.order[draw_below(random, size)]
        if wires.kind == SPARSE:
            b = wires.other[wires.start[a] + draw_below(random, wires.start[a + 1] - wires.start[a])]
        else:
            b = d.order[size + draw_below(random, len(d.order) - size)]
        if d.side[b] == 0 or (a == u and b == v):
            continue
        first = is_first(rules, a, b)
        if not (first or more) or not may_join(s, rules, slot, a) or not may_join(s, rules, slot, b):
            continue
        value = d.reach[a] + d.reach[b] + load * price_of(wires, a, b) + (0.0 if first else rules.fee)
        if value < best:
            best, best_a, best_b = value, a, b
    if best_a < 0 or best == np.inf:
        return 0.0
    swap(p, s, rules, slot, best_a, best_b)
    return float(best - current)


@kernel
def keep_trying(p: Spans, s: SearchTree, rules: Rules, least: float, kicks: int, random: Ints) -> float:
    """Kick, descend again, and go back unless that paid; so many times. Returns what was saved."""
    best = links_of(s.wiring)
    saved = 0.0
    for _ in range(kicks):
        for k in range(len(best)):
            s.waiting[k] = False
        fill(s.gain, 0.0)
        change = 0.0
        for _ in range(1 + draw_below(random, 3)):
            change -= kick(p, s, rules, random, 6)
        change += descend(p, s, rules, least, False)
        if change > least:
            saved += change
            best = links_of(s.wiring)
        else:
            go_back(p, s, rules, best)
    return saved


@kernel
def go_back(p: Spans, s: SearchTree, rules: Rules, links: Pairs) -> None:
    """Stand at these links again."""
    w = s.wiring
    for k in range(len(links)):
        a, b = w.to[2 * k + 1], w.to[2 * k]
        if min(a, b) != links[k, 0] or max(a, b) != links[k, 1]:
            put(p, s, rules, k, links[k, 0], links[k, 1])
    s.state[1] += 1
