"""Why a step is made: to whom a client talks, what its way costs, what crossed a link that goes."""

from __future__ import annotations

import numpy as np
from scipy.sparse import csr_array
from scipy.sparse.csgraph import dijkstra

from overlace.arrays.jit import Ints
from overlace.planners.ordering import Change
from overlace.planners.search.problem import Problem

TALKS, SWAPS, TOGETHER, ACCESS = range(4)
"""Places in the planner's REASONS."""


class Present:
    """Homes and links as they are between two steps."""

    def __init__(self, problem: Problem, home: Ints) -> None:
        self.problem, self.home = problem, home.copy()
        self.links = {(int(a), int(b)) for a, b in problem.links}

    def do(self, change: Change) -> None:
        """Carry out a change."""
        if change.client >= 0:
            self.home[change.client] = change.new[1]
        else:
            self.links = (self.links - {change.old}) | {change.new}

    def access(self, client: int, broker: int) -> float:
        """What the client pays for the way to a broker."""
        limits = self.problem.limits
        return float(limits.amount[client] * limits.access[limits.group[client], broker])

    def partners(self, client: int, here: int, there: int) -> tuple[int, float, float]:
        """(broker, share, share): where most of a client's partners are, and how many are nearer to there than here."""
        d, p = self.problem.demand, self.problem
        weight = np.zeros(len(p.node))
        for k in d.of_class[d.of_start[client] : d.of_start[client + 1]]:
            others = d.member[d.start[k] : d.start[k + 1]]
            np.add.at(weight, self.home[others[others != client]], d.demand[k])
        total = weight.sum()
        if not total:
            return 0, 0.0, 0.0
        links = np.array(sorted(self.links), dtype=np.int64).reshape(-1, 2)
        far = csr_array((p.wire[links[:, 0], links[:, 1]] + 1e-12, (links[:, 0], links[:, 1])), shape=p.wire.shape)
        to = dijkstra(far, directed=False, indices=[here, there])
        near = int(weight.argmax())
        return near, float(weight[near] / total), float(weight[to[1] < to[0]].sum() / total)


def reason_of(changes: list[Change], gain: float, now: Present) -> tuple[int, dict[str, float | int]]:
    """(reason, what it names)."""
    moves = sum(change.client >= 0 for change in changes)
    change = changes[0]
    said: dict[str, float | int] = {"moves": moves, "links": len(changes) - moves}
    said |= dict.fromkeys(("messages", "share", "at", "access"), 0.0)
    said |= dict.fromkeys(("client", "from_broker", "to_broker", "near_broker", "left_broker", "right_broker"), 0)
    if change.client < 0:
        (a, b), (x, y) = change.old, change.new
        said |= {"left_broker": x, "right_broker": y, "from_broker": a, "to_broker": b, "messages": change.messages}
        return TOGETHER if len(changes) > 1 else SWAPS, said
    here, there = change.old[1], change.new[1]
    near, at, share = now.partners(change.client, here, there)
    access = now.access(change.client, here) - now.access(change.client, there)
    said |= {"client": change.client, "from_broker": here, "to_broker": there, "near_broker": near}
    said |= {"share": share, "at": at, "access": access}
    if len(changes) > 1:
        return TOGETHER, said
    return ACCESS if access > gain / 2 else TALKS, said
