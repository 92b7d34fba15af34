"""What is given to the search: demand, costs and limits; and one numbering of the clients, whatever they are called."""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from overlace.arrays.csr import group, sort_groups, take_groups
from overlace.arrays.hashing import mix
from overlace.arrays.jit import Bools, Floats, Ints, Pairs, kernel
from overlace.planners.search.limits import LoadLimits
from overlace.planners.search.system import Demand, root_tree, traffic_cost
from overlace.planners.search.wires import Wires

ROUNDS = 4


@dataclass(frozen=True)
class SearchProblem:
    """Demand, costs, limits, and the system as it was."""

    demand: Demand
    wires: Wires  # cost of a link, infinite where none may be
    node: Floats  # cost of a broker
    links: Pairs  # the tree as it was
    parent: Ints  # the same tree, hung up at broker 0
    stays: Bools  # per broker: the link to its parent there stays
    max_degree: Ints
    limits: LoadLimits
    capped: bool  # whether a broker has a limit on what it handles
    movable: Ints  # clients that may move
    sent_goal: Floats  # what each broker and area should send at most; its limit is that, or what is so today
    handled_goal: Floats
    load: Demand  # the classes whose messages pass brokers: those that pay, unless bytes or deliveries are paid for
    rewires: bool = True  # whether any link could be replaced
    move_price: float = 0.0  # what a moved client costs
    swap_price: float = 0.0  # what a changed link costs
    least: float = 0.0  # what a change must save besides
    degree_goal: Ints | None = None  # most links of each broker where that is less than today's; None: as max_degree

    def is_first(self, links: Pairs) -> Bools:
        """Whether each link is one of the tree as it was."""
        a, b = links[:, 0], links[:, 1]
        return np.asarray((self.parent[a] == b) | (self.parent[b] == a))

    def must_stay(self, links: Pairs) -> Bools:
        """Whether each link is one that stays."""
        a, b = links[:, 0], links[:, 1]
        return np.asarray(((self.parent[a] == b) & self.stays[a]) | ((self.parent[b] == a) & self.stays[b]))


def demand_of(start: Ints, member: Ints, demand: Floats, clients: int) -> Demand:
    """Classes by their clients, and clients by their classes."""
    of_class = np.repeat(np.arange(len(demand)), np.diff(start))
    bounds, order = group(member, clients)
    return Demand(start, member, demand, bounds, of_class[order])


def loads_at(limits: LoadLimits, load: Demand, home: Ints, links: Pairs, wires: Wires) -> tuple[Floats, Floats]:
    """(sent, handled): what each broker and area bears when clients have these homes."""
    node = np.zeros(len(limits.area))
    return sent_at(limits, home), traffic_cost(
        load, home, root_tree(links, wires), node, limits.area, len(limits.sent_cap)
    )[1]


def sent_at(limits: LoadLimits, home: Ints) -> Floats:
    """What clients with these homes send, by broker and area."""
    loads, known = len(limits.sent_cap), limits.area[home] >= 0
    sent = np.bincount(home, weights=limits.sent, minlength=loads).astype(np.float64)
    return sent + np.bincount(limits.area[home[known]], weights=limits.sent[known], minlength=loads)


def talking(demand: Demand) -> Ints:
    """The clients that share a class with another one."""
    paid = np.repeat((np.diff(demand.start) > 1) & (demand.demand > 0), np.diff(demand.start))
    return np.unique(demand.member[paid])


def renumber(p: SearchProblem) -> tuple[SearchProblem, Ints]:
    """(the problem with its clients in an order that follows from the system alone, the old number of each).

    Who talks most comes first; clients are told apart by what they send, where they are and with whom they talk, then
    with whom those talk, and so on. Only those that nothing tells apart keep the order of their numbers.
    """
    limits, clients = p.limits, len(p.limits.first)
    may = np.zeros(clients, dtype=np.int64)
    may[p.movable] = 1
    given = np.column_stack([limits.first, limits.group, may, _bits(limits.sent), _bits(limits.amount)])
    color, kind = refine(p.demand, np.ascontiguousarray(given), ROUNDS)
    order = np.lexsort((color, -limits.talk))
    rank = np.empty(clients, dtype=np.int64)
    rank[order] = np.arange(clients)
    demand = _under(p.demand, rank, kind)
    load = demand
    if p.load is not p.demand:
        load = _under(p.load, rank, refine(p.load, np.ascontiguousarray(given), ROUNDS)[1])
    per_client = {name: getattr(limits, name)[order] for name in ("first", "sent", "group", "amount", "talk")}
    movable = np.sort(rank[p.movable])
    return replace(p, demand=demand, load=load, limits=limits._replace(**per_client), movable=movable), order


def _under(demand: Demand, rank: Ints, kind: NDArray[np.uint64]) -> Demand:
    """The classes under other numbers of clients, in the order of their kinds."""
    rows = np.argsort(kind, kind="stable")
    start, member = take_groups(demand.start, demand.member, rows)
    return demand_of(*sort_groups(start, rank[member]), demand.demand[rows], len(rank))


def _bits(values: Floats) -> Ints:
    return np.ascontiguousarray(values, dtype=np.float64).view(np.int64)


@kernel(work=lambda demand, given, rounds: 8 * rounds * (len(demand.member) + given.size))
def refine(demand: Demand, given: Ints, rounds: int) -> tuple[NDArray[np.uint64], NDArray[np.uint64]]:
    """(of clients, of classes): hashes that say what is around each, whatever its number."""
    color = np.zeros(len(given), dtype=np.uint64)
    for c in range(len(given)):
        for i in range(given.shape[1]):
            color[c] = mix(color[c] ^ np.uint64(given[c, i]))
    kind = np.zeros(len(demand.demand), dtype=np.uint64)
    for turn in range(rounds):
        for k in range(len(kind)):
            total = np.uint64(demand.start[k + 1] - demand.start[k])
            for i in range(demand.start[k], demand.start[k + 1]):
                total += mix(color[demand.member[i]])
            kind[k] = mix(total ^ mix(np.uint64(np.int64(demand.demand[k] * 1024.0))))
        if turn == rounds - 1:
            break
        for c in range(len(color)):
            total = color[c]
            for j in range(demand.of_start[c], demand.of_start[c + 1]):
                total += mix(kind[demand.of_class[j]])
            color[c] = mix(total)
    return color, kind
