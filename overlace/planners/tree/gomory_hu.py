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
    f = Flow(
        np.full(p.wires.brokers + 2 * classes, -1, dtype=np.int64), np.empty(arcs, dtype=np.int64),
        np.empty(arcs, dtype=np.int64), np.empty(arcs),
    )  # fmt: skip
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


@kernel
def levels(f: Flow, room: Floats, source: int, level: Ints, queue: Ints) -> None:
    """How many arcs with room each node is from the source; -1 where it cannot be reached."""
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
            if room[arc] > 0 and level[f.to[arc]] < 0:
                level[f.to[arc]] = level[v] + 1
                queue[filled] = f.to[arc]
                filled += 1
            arc = f.after[arc]


@kernel
def least_cut(f: Flow, source: int, sink: int, room: Floats, level: Ints, queue: Ints, at: Ints, way: Ints) -> float:
    """The weight of the least cut; level is then 0 or more on the source's side."""
    room[:] = f.room
    total = 0.0
    while True:
        levels(f, room, source, level, queue)
        if level[sink] < 0:
            return total
        at[:] = f.first
        depth = 0
        v = source
        while True:
            if v == sink:
                least = np.inf
                for i in range(depth):
                    least = min(least, room[way[i]])
                total += least
                back = 0
                for i in range(depth - 1, -1, -1):
                    room[way[i]] -= least
                    room[way[i] ^ 1] += least
                    if room[way[i]] <= 0:
                        back = i
                depth = back
                v = f.to[way[depth] ^ 1]
                continue
            while at[v] >= 0 and not (room[at[v]] > 0 and level[f.to[at[v]]] == level[v] + 1):
                at[v] = f.after[at[v]]
            if at[v] >= 0:
                way[depth] = at[v]
                v = f.to[at[v]]
                depth += 1
            elif depth > 0:
                depth -= 1
                v = f.to[way[depth] ^ 1]
                at[v] = f.after[at[v]]
            else:
                break


@kernel
def cut_tree(p: Spans) -> tuple[Ints, Floats]:
    """(parent, weight): the cut tree hung up at broker 0, and what crosses each broker's link up."""
    f = flow_of(p)
    nodes = len(f.first)
    room = np.empty(len(f.room))
    level, queue = np.empty(nodes, dtype=np.int64), np.empty(nodes, dtype=np.int64)
    at, way = np.empty(nodes, dtype=np.int64), np.empty(nodes, dtype=np.int64)
    parent = np.zeros(p.wires.brokers, dtype=np.int64)
    crosses = np.zeros(p.wires.brokers)
    for s in range(1, p.wires.brokers):
        t = parent[s]
        weight = least_cut(f, s, t, room, level, queue, at, way)
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
