"""The Gomory-Hu tree of the traffic: optimal at any size where every link costs the same.

With equal link costs, and brokers that cost the same or nothing, (1) is the sum over the links of what crosses
them. What crosses a cut of the brokers, the classes with clients on both sides, is a symmetric submodular
function, and the tree whose links are least cuts between all pairs of brokers has the least such sum. It is
found with one least cut per broker (Gusfield's way, parts swapped so that it is a cut tree), each by a
maximum flow (Dinic) in which a class is an arc that all its brokers lead into and out of.

Where costs differ it is still the tree in which least crosses, blind to what links cost: a baseline.

Keeps: a tree; with degree limits or links that must stay it is changed until it keeps them, and is then not
optimal. Needs every two brokers to be candidates for a link.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar, NamedTuple

import numpy as np

from overlace.arrays.csr import copy
from overlace.arrays.jit import Floats, Ints, Pairs, kernel
from overlace.errors import BadObservation
from overlace.model import Observation, Progress
from overlace.planners.search.spans import Spans
from overlace.planners.search.wires import SPARSE
from overlace.planners.tree.limits import within_limits
from overlace.planners.tree.planner import TreePlanner
from overlace.planners.tree.setting import Setting


@dataclass(frozen=True)
class GomoryHu(TreePlanner):
    """The tree in which least crosses the links; optimal where all cost the same. Knows all classes."""

    paper: ClassVar[str] = "beyond OCBR07"

    def wanted(self, observation: Observation, setting: Setting, seed: int, progress: Progress | None = None) -> Pairs:
        """The cut tree, within the limits."""
        p = setting.problem
        if p.wires.kind == SPARSE:
            missing = p.wires.brokers * (p.wires.brokers - 1) // 2 - len(observation.network.links)
            raise BadObservation(
                f"tree.gomory-hu needs a candidate link between every two of the {p.wires.brokers} brokers; {missing} "
                "are missing. Use tree.regraft or tree.hub-safe."
            )
        parent, _ = cut_tree(p)
        below = np.arange(1, p.wires.brokers)
        wanted = np.column_stack([np.minimum(below, parent[1:]), np.maximum(below, parent[1:])])
        return within_limits(setting, wanted)


class Flow(NamedTuple):
    """A network of arcs, each beside its reverse: brokers, then for each class a way in and a way out."""

    first: Ints  # per node its first arc, -1 at the end
    after: Ints
    to: Ints
    room: Floats


@kernel
def flow_of(p: Spans) -> Flow:
    """The network in which a least cut is a least cut of the brokers by classes."""
    classes = len(p.weight)
    arcs = 0
    for k in range(classes):
        size = p.start[k + 1] - p.start[k]
        arcs += 2 if size == 2 else 4 * size + 2
    first = np.full(p.wires.brokers + 2 * classes, -1, dtype=np.int64)
    f = Flow(first, np.empty(arcs, dtype=np.int64), np.empty(arcs, dtype=np.int64), np.empty(arcs))

    filled = 0
    for k in range(classes):
        begin, end = p.start[k], p.start[k + 1]
        if end - begin == 2:
            filled = add_arc(f, filled, p.terminal[begin], p.terminal[begin + 1], p.weight[k], p.weight[k])
            continue
        into, out = p.wires.brokers + 2 * k, p.wires.brokers + 2 * k + 1
        filled = add_arc(f, filled, into, out, p.weight[k], 0.0)
        for i in range(begin, end):
            filled = add_arc(f, filled, p.terminal[i], into, np.inf, 0.0)
            filled = add_arc(f, filled, out, p.terminal[i], np.inf, 0.0)
    return f


@kernel
def add_arc(f: Flow, filled: int, a: int, b: int, there: float, back: float) -> int:
    """An arc and its reverse."""
    for node, other, room in ((a, b, there), (b, a, back)):
        f.to[filled] = other
        f.room[filled] = room
        f.after[filled] = f.first[node]
        f.first[node] = filled
        filled += 1
    return filled


class FlowScratch(NamedTuple):
    """What a maximum flow is worked out in; `level` is 0 or more on the source's side when it is done."""

    room: Floats  # per arc, what is left of it
    level: Ints  # per node, how many arcs with room it is from the source; -1: not to be reached
    queue: Ints
    at: Ints  # per node, the arc that is tried next
    path: Ints  # the arcs from the source to where the search is


@kernel
def find_levels(f: Flow, scratch: FlowScratch, source: int) -> None:
    """Breadth first from the source over arcs with room."""
    level, queue = scratch.level, scratch.queue
    level[:] = -1
    level[source] = 0
    queue[0] = source
    filled = 1
    i = 0
    while i < filled:
        v = queue[i]
        i += 1
        arc = f.first[v]
        while arc >= 0:
            if scratch.room[arc] > 0 and level[f.to[arc]] < 0:
                level[f.to[arc]] = level[v] + 1
                queue[filled] = f.to[arc]
                filled += 1
            arc = f.after[arc]


@kernel
def least_cut(f: Flow, scratch: FlowScratch, source: int, sink: int) -> float:
    """The weight of the least cut (Dinic)."""
    room, level, at, path = scratch.room, scratch.level, scratch.at, scratch.path
    copy(f.room, room)
    total = 0.0
    while True:
        find_levels(f, scratch, source)
        if level[sink] < 0:
            return total

        copy(f.first, at)
        depth = 0
        v = source
        while True:  # paths along the levels, until all are full
            if v == sink:
                total += fill_path(scratch, depth)
                depth = 0
                while room[path[depth]] > 0:
                    depth += 1
                v = f.to[path[depth] ^ 1]
                continue
            while at[v] >= 0 and not (room[at[v]] > 0 and level[f.to[at[v]]] == level[v] + 1):
                at[v] = f.after[at[v]]
            if at[v] >= 0:
                path[depth] = at[v]
                v = f.to[at[v]]
                depth += 1
            elif depth > 0:
                depth -= 1
                v = f.to[path[depth] ^ 1]
                at[v] = f.after[at[v]]
            else:
                break


@kernel
def fill_path(scratch: FlowScratch, length: int) -> float:
    """Send as much along a path as its fullest arc lets through; returns how much."""
    room, path = scratch.room, scratch.path
    least = np.inf
    for i in range(length):
        least = min(least, room[path[i]])
    for i in range(length):
        room[path[i]] -= least
        room[path[i] ^ 1] += least
    return least


@kernel
def cut_tree(p: Spans) -> tuple[Ints, Floats]:
    """(parent, weight): the cut tree hung up at broker 0, and what crosses each broker's link up."""
    f = flow_of(p)
    nodes = len(f.first)
    level, queue = np.empty(nodes, dtype=np.int64), np.empty(nodes, dtype=np.int64)
    at, path = np.empty(nodes, dtype=np.int64), np.empty(nodes, dtype=np.int64)
    scratch = FlowScratch(np.empty(len(f.room)), level, queue, at, path)
    parent = np.zeros(p.wires.brokers, dtype=np.int64)
    crosses = np.zeros(p.wires.brokers)
    for s in range(1, p.wires.brokers):
        t = parent[s]
        weight = least_cut(f, scratch, s, t)
        crosses[s] = weight
        for i in range(p.wires.brokers):
            if i != s and level[i] >= 0 and parent[i] == t:
                parent[i] = s
        if level[parent[t]] >= 0:
            parent[s] = parent[t]
            parent[t] = s
            crosses[s] = crosses[t]
            crosses[t] = weight
    return parent, crosses
