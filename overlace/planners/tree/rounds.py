"""Masters rearranging their neighbourhoods in rounds, with locks: OCBR07 §3 and §3.1.

In a round (one window) every broker asks, in random order, to be a master. It is refused if what it has to
lock is locked; else it looks for a cheaper tree over its neighbourhood, and wires it if there is one. Locks of
a master that changed something last to the end of the round: its neighbours have no statistics yet on what
will pass between them (R9). Rounds follow one another until nobody finds anything better.

A neighbourhood that is untouched sees the same classes whatever others do: a rearrangement elsewhere
happens wholly behind one of its neighbours. So all views of a round are taken at its beginning, and the gains
of its masters add up (R6).
"""

from __future__ import annotations

from typing import Literal, NamedTuple

import numpy as np

from overlace.arrays.jit import Bools, Ints, Pairs, kernel
from overlace.arrays.pairs import as_pairs
from overlace.arrays.trees import root_at
from overlace.model import Progress
from overlace.planners.search.spans import Spans
from overlace.planners.tree.local import improve
from overlace.planners.tree.tabu import TabuEffort, optimize
from overlace.planners.tree.view import LocalView, Views, local_classes, neighbourhood, views_of

Locks = Literal["paper", "relaxed"]


class Protocol(NamedTuple):
    """How masters search and lock."""

    tabu: bool  # Figure 3; else exact or prune and regraft
    effort: TabuEffort
    relaxed: bool
    most: int  # links that may differ from the first tree
    fee: float  # what each link that a rearrangement changes must save


class First(NamedTuple):
    """The tree that the rounds start from."""

    parent: Ints
    keeper: Bools  # brokers at a link that must stay


class Round(NamedTuple):
    """What happened in a round."""

    asked: int  # masters that searched
    refused: int  # by locks
    acted: int
    links: int  # that were changed
    locked: int  # brokers that were locked, each time counted
    control: int  # messages: request, answer with the statistics and release (or refusal) to each neighbour
    gain: float


ASKED, REFUSED, ACTED, LINKS, LOCKED, CONTROL = range(6)
"""The counts of a round."""


class ProtocolRun(NamedTuple):
    """All rounds and where they led."""

    links: Pairs
    rounds: list[Round]


def run_rounds(
    p: Spans,
    links: Pairs,
    kept: Bools,
    protocol: Protocol,
    rounds: int | None,
    seed: int,
    progress: Progress | None = None,
) -> ProtocolRun:
    """Rounds from a tree until nobody finds anything better, or as many as are allowed."""
    links = np.ascontiguousarray(links)
    keeper = np.zeros(len(p.toll), dtype=np.bool_)
    keeper[links[kept].ravel()] = True
    first = First(root_at(len(p.toll), links, 0).parent, keeper)
    idle = np.zeros(p.wires.brokers, dtype=np.bool_)
    done: list[Round] = []
    rng = np.random.default_rng(seed)
    while len(links) and (rounds is None or len(done) < rounds):
        order = rng.permutation(p.wires.brokers)
        links = np.array(as_pairs(np.sort(links, axis=1)))
        random = rng.integers(0, 2**62, 1)
        links, tally, gain = one_round(p, links, order, first, idle, protocol, random)
        asked, refused, acted, changed, locked, control = (int(each) for each in tally)
        done.append(Round(asked, refused, acted, changed, locked, control, float(gain)))
        if progress:
            progress(0.9 * (1 - 1 / (1 + len(done))), f"round {len(done)}")
        if acted == 0:
            break
    return ProtocolRun(links, done)


@kernel
def one_round(
    p: Spans, links: Pairs, order: Ints, first: First, idle: Bools, protocol: Protocol, random: Ints
) -> tuple[Pairs, Ints, float]:
    """(links, tally, gain) after every broker has asked once; idle are those that need not ask again."""
    views = views_of(p, links)
    links = links.copy()
    degree, changed = degrees(p, links, first)
    locked = np.zeros(len(p.toll), dtype=np.bool_)
    tally = np.zeros(6, dtype=np.int64)
    saved = 0.0
    for master in order:
        if idle[master]:
            continue
        nodes = neighbourhood(views, master)
        k = len(nodes)
        if k < 3:
            idle[master] = True
            continue

        refused = locked[master]
        for i in range(1, k):
            refused = refused or (locked[nodes[i]] and not protocol.relaxed)
        if refused:
            tally[REFUSED] += 1
            tally[CONTROL] += 2 * (k - 1)
            continue
        tally[ASKED] += 1
        tally[LOCKED] += k
        tally[CONTROL] += 3 * (k - 1)

        view = look_around(p, views, master, degree, first)
        if protocol.tabu:
            gain, tree = optimize(p, view, protocol.effort, random)
        else:
            gain, tree = improve(p, view, protocol.effort.least)
            idle[master] = True

        fresh = more = 0  # links that change, and how many more than before differ from the first tree
        for i in range(1, k):
            a, b = nodes[i], nodes[tree[i]]
            fresh += tree[i] != 0
            more += not is_first(first, a, b)
            more -= not is_first(first, a, master)
        worth = gain - protocol.fee * max(more, 0)
        if worth <= protocol.effort.least or changed + more > protocol.most:
            continue

        rows = views.near_link[views.near_start[master] : views.near_start[master + 1]]
        for i in range(1, k):
            links[rows[i - 1], 0], links[rows[i - 1], 1] = nodes[i], nodes[tree[i]]
            if nodes[i] < p.wires.brokers:
                degree[nodes[tree[i]]] += 1
                degree[master] -= 1
        for i in range(k):
            locked[nodes[i]] = True
            if nodes[i] < p.wires.brokers:
                idle[nodes[i]] = False
        changed += more
        saved += gain
        tally[ACTED] += 1
        tally[LINKS] += fresh
    return links, tally, saved


@kernel
def is_first(first: First, a: int, b: int) -> bool:
    """Whether a link is one of the first tree."""
    return bool(first.parent[a] == b or first.parent[b] == a)


@kernel
def degrees(p: Spans, links: Pairs, first: First) -> tuple[Ints, int]:
    """(links of each broker, links that are not of the first tree); a client's link is no link of the tree."""
    degree = np.zeros(len(p.toll), dtype=np.int64)
    changed = 0
    for a, b in links:
        if max(a, b) < p.wires.brokers:
            degree[a] += 1
            degree[b] += 1
        changed += not is_first(first, a, b)
    return degree, changed


@kernel
def look_around(p: Spans, views: Views, master: int, degree: Ints, first: First) -> LocalView:
    """What a master sees, and what limits and links that must stay leave it to rearrange."""
    nodes = neighbourhood(views, master)
    k = len(nodes)
    room = np.full(k, k, dtype=np.int64)
    fixed = np.zeros(k, dtype=np.bool_)
    for i in range(k):
        v = nodes[i]
        if v < p.wires.brokers:
            here = degree[v] if i == 0 else 1
            room[i] = min(k, max(p.cap[v], degree[v]) - (degree[v] - here))
        fixed[i] = i > 0 and is_first(first, v, master) and first.keeper[v] and first.keeper[master]
    masks, weight = local_classes(p, views, master)
    return LocalView(nodes, masks, weight, room, fixed)
