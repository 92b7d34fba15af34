"""Why a step is made: to whom a client talks, what its way costs, what crossed a link that goes."""

from __future__ import annotations

import numpy as np

from overlace.arrays.jit import Floats, Ints, kernel
from overlace.planners.ordering import OverlayMove
from overlace.planners.search.problem import SearchProblem
from overlace.planners.search.system import Demand, Tree, root_tree

TALKS, SWAPS, TOGETHER, ACCESS, CLIENTS_TOGETHER, LINKS_TOGETHER = range(6)
"""Places in the planner's REASONS."""


class Present:
    """Homes and links as they are between two steps."""

    def __init__(self, problem: SearchProblem, home: Ints) -> None:
        self.problem, self.home = problem, home.copy()
        self.links = {(int(a), int(b)) for a, b in problem.links}
        self.tree: Tree | None = None

    def do(self, change: OverlayMove) -> None:
        """Carry out a change."""
        if change.client >= 0:
            self.home[change.client] = change.new[1]
        else:
            self.links = (self.links - {change.old}) | {change.new}
            self.tree = None

    def access(self, client: int, broker: int) -> float:
        """What the client pays for the way to a broker."""
        limits = self.problem.limits
        return float(limits.amount[client] * limits.access[limits.group[client], broker])

    def partners(self, client: int, here: int, there: int) -> tuple[int, float, float]:
        """(broker, share, share): where most of a client's partners are, and how many are nearer to there than here."""
        p = self.problem
        if self.tree is None:
            self.tree = root_tree(np.array(sorted(self.links), dtype=np.int64).reshape(-1, 2), p.wires)
        weight = partners_at(p.demand, self.home, client, len(p.node))
        total = weight.sum()
        if not total:
            return 0, 0.0, 0.0
        near = int(weight.argmax())
        to_here, to_there = (ways_to(self.tree, b) for b in (here, there))
        return near, float(weight[near] / total), float(weight[to_there < to_here].sum() / total)


def _work(demand: Demand, home: Ints, client: int, brokers: int) -> int:
    own = demand.of_class[demand.of_start[client] : demand.of_start[client + 1]]
    return 30 + int((demand.start[own + 1] - demand.start[own]).sum())


@kernel(work=_work)
def partners_at(demand: Demand, home: Ints, client: int, brokers: int) -> Floats:
    """What a client shares with others, by their brokers."""
    weight = np.zeros(brokers, dtype=np.float64)
    for j in range(demand.of_start[client], demand.of_start[client + 1]):
        k = demand.of_class[j]
        for i in range(demand.start[k], demand.start[k + 1]):
            if demand.member[i] != client:
                weight[home[demand.member[i]]] += demand.demand[k]
    return weight


@kernel(work=lambda tree, b: 2 * len(tree.parent))
def ways_to(tree: Tree, b: int) -> Floats:
    """What the links from each broker to one of them cost."""
    far = np.full(len(tree.parent), -1.0)
    far[b] = 0.0
    v = b
    while tree.parent[v] >= 0:
        far[tree.parent[v]] = far[v] + tree.up[v]
        v = tree.parent[v]
    for v in tree.order:
        if far[v] < 0:
            far[v] = far[tree.parent[v]] + tree.up[v]
    return far


def reason_of(changes: list[OverlayMove], gain: float, now: Present) -> tuple[int, dict[str, float | int]]:
    """(reason, what it names)."""
    moves = sum(change.client >= 0 for change in changes)
    change, together = changes[0], 0
    if len(changes) > 1:
        together = CLIENTS_TOGETHER if moves == len(changes) else TOGETHER if moves else LINKS_TOGETHER
    said: dict[str, float | int] = {"moves": moves, "links": len(changes) - moves}
    said |= dict.fromkeys(("messages", "share", "at", "access"), 0.0)
    said |= dict.fromkeys(("client", "from_broker", "to_broker", "near_broker", "left_broker", "right_broker"), 0)
    if change.client < 0:
        (a, b), (x, y) = change.old, change.new
        said |= {"left_broker": x, "right_broker": y, "from_broker": a, "to_broker": b, "messages": change.messages}
        return together or SWAPS, said
    here, there = change.old[1], change.new[1]
    near, at, share = now.partners(change.client, here, there)
    access = now.access(change.client, here) - now.access(change.client, there)
    said |= {"client": change.client, "from_broker": here, "to_broker": there, "near_broker": near}
    said |= {"share": share, "at": at, "access": access}
    return together or (ACCESS if access > max(gain / 2, 0) else TALKS), said
