"""One system of clients, links and loads: homes, tree, what each class spans, and what each broker bears.

A class pays demand x (links + brokers) of the minimal subtree that joins the homes of its clients; costs come
scaled by alpha and beta. Everything is asked by difference: what it costs a client to be elsewhere, what it
costs the classes to have a link replaced.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from overlace.arrays.csr import neighbours
from overlace.arrays.jit import Bools, Floats, Ints, Pairs, by_address, kernel
from overlace.arrays.trees import go_down
from overlace.arrays.vectors import copy_to, fill
from overlace.planners.search.limits import LoadLimits, fits, priced
from overlace.planners.search.wires import Wires, price_of

WORK = 20_000
"""Members of classes above which nothing is tried in plain Python."""


@by_address
class Demand(NamedTuple):
    """Who talks, and how much: classes by their clients, and clients by their classes."""

    start: Ints
    member: Ints
    demand: Floats
    of_start: Ints
    of_class: Ints


@by_address
class Tree(NamedTuple):
    """A rooted tree of brokers; up[v] is what the link from v to its parent costs."""

    parent: Ints
    up: Floats
    order: Ints  # parents before children
    depth: Ints
    degree: Ints


def root_tree(links: Pairs, wires: Wires) -> Tree:
    """The tree of these links, its root at broker 0."""
    n = len(links) + 1
    whole = np.zeros((4, n), dtype=np.int64)
    tree = Tree(whole[0], np.zeros(n), whole[1], whole[2], whole[3])
    hang(tree, links, wires)
    return tree


@kernel(work=lambda tree, *_: 6 * len(tree.parent))
def hang(tree: Tree, links: Pairs, wires: Wires) -> None:
    """Make a tree that of these links, its root at broker 0."""
    n = len(tree.parent)
    start, other, _ = neighbours(n, links)
    go_down(start, other, 0, tree.parent, tree.depth, tree.order, tree.degree)
    for v in range(n):
        tree.degree[v] = start[v + 1] - start[v]
        tree.up[v] = price_of(wires, v, tree.parent[v]) if tree.parent[v] >= 0 else 0.0


@kernel
def span(tree: Tree, terminals: Ints, count: int, mark: Ints, stamp: int, nodes: Ints) -> int:
    """Put the minimal subtree of the first terminals into nodes, its top last, marked by stamp; how many."""
    parent, depth = tree.parent, tree.depth
    top = terminals[0]
    mark[top] = stamp
    filled = 0
    for k in range(1, count):
        v = terminals[k]
        while mark[v] != stamp and depth[v] > depth[top]:
            mark[v] = stamp
            nodes[filled] = v
            filled += 1
            v = parent[v]
        if mark[v] == stamp:
            continue
        while depth[top] > depth[v]:
            nodes[filled] = top
            filled += 1
            top = parent[top]
            mark[top] = stamp
        while v != top:
            mark[v] = stamp
            nodes[filled], nodes[filled + 1] = v, top
            filled += 2
            v, top = parent[v], parent[top]
            mark[top] = stamp
    nodes[filled] = top
    return filled + 1


@by_address
class Seats(NamedTuple):
    """The home of each client, and of large classes how many are at each; changed in place."""

    home: Ints
    row: Ints  # of a class: its row of `many`, or -1
    many: NDArray[np.int32]  # (large classes, brokers)


def seat_all(demand: Demand, home: Ints, brokers: int) -> Seats:
    """Seats for these homes."""
    large = np.diff(demand.start) > brokers  # then to look at every broker is quicker
    row = np.where(large, np.cumsum(large) - 1, -1)
    many = np.zeros((int(large.sum()), brokers), dtype=np.int32)
    of = np.repeat(row, np.diff(demand.start))
    np.add.at(many, (of[of >= 0], home[demand.member[of >= 0]]), 1)
    return Seats(home, row, many)


def scan_seats(demand: Demand, home: Ints) -> Seats:
    """Seats that share their homes with others, and count nothing."""
    return Seats(home, np.full(len(demand.demand), -1), np.zeros((0, 0), dtype=np.int32))


@kernel
def seat(demand: Demand, seats: Seats, c: int, there: int) -> None:
    """Bring a client to a broker."""
    for j in range(demand.of_start[c], demand.of_start[c + 1]):
        row = seats.row[demand.of_class[j]]
        if row >= 0:
            seats.many[row, seats.home[c]] -= 1
            seats.many[row, there] += 1
    seats.home[c] = there


@kernel
def class_homes(demand: Demand, seats: Seats, k: int, without: int, seen: Ints, stamp: int, out: Ints) -> int:
    """The distinct homes of a class, one of its clients left out (-1: none is); how many."""
    home, many = seats.home, seats.many
    found = 0
    row = seats.row[k]
    if row >= 0:
        for b in range(many.shape[1]):
            if many[row, b] - (1 if without >= 0 and home[without] == b else 0) > 0:
                out[found] = b
                found += 1
        return found
    for i in range(demand.start[k], demand.start[k + 1]):
        c = demand.member[i]
        if c != without and seen[home[c]] != stamp:
            seen[home[c]] = stamp
            out[found] = home[c]
            found += 1
    return found


@kernel(work=lambda demand, home, tree, node, *_: 20 + 5 * len(demand.member) + len(node))
def traffic_cost(demand: Demand, home: Ints, tree: Tree, node: Floats, area: Ints, loads: int) -> tuple[float, Floats]:
    """(cost, handled): what all classes pay, and the messages that pass each broker and each area."""
    n = len(node)
    start, member, weight = demand.start, demand.member, demand.demand
    mark = np.zeros(max(n, loads), dtype=np.int64)
    seen = np.zeros(n, dtype=np.int64)
    terminals = np.zeros(n, dtype=np.int64)
    nodes = np.zeros(n, dtype=np.int64)
    handled = np.zeros(loads, dtype=np.float64)
    total = 0.0
    for k in range(len(weight)):
        count = 0
        for i in range(start[k], start[k + 1]):
            b = home[member[i]]
            if seen[b] != k + 1:
                seen[b] = k + 1
                terminals[count] = b
                count += 1
        if count == 0:
            continue
        size = span(tree, terminals, count, mark, k + 1, nodes)
        load(handled, area, nodes, size, weight[k], mark, k + 1)
        if start[k + 1] - start[k] > 1:
            total += weight[k] * length(tree, node, nodes, size)
    return total, handled


@kernel
def length(tree: Tree, node: Floats, nodes: Ints, size: int) -> float:
    """What a message pays for a subtree, its top last."""
    paid = node[nodes[size - 1]]
    for i in range(size - 1):
        paid += tree.up[nodes[i]] + node[nodes[i]]
    return float(paid)


@kernel
def load(handled: Floats, area: Ints, nodes: Ints, size: int, more: float, mark: Ints, stamp: int) -> None:
    """Let messages pass the brokers of a subtree, and each area once."""
    for i in range(size):
        handled[nodes[i]] += more
        where = area[nodes[i]]
        if where >= 0 and mark[where] != stamp:
            mark[where] = stamp
            handled[where] += more


@by_address
class Scratch(NamedTuple):
    """Room to work on."""

    work: Ints  # (5, brokers and areas): marks, then the last stamp
    sums: Floats  # (2, brokers)
    out: Floats
    other: Floats
    open: Bools  # brokers that a client may go to
    loads: Floats  # (2, brokers and areas): what was sent and handled before a trial
    asked: Ints  # per class: the stamp by which it was looked at last
    chosen: Ints  # per client
    who: Ints  # clients that go together
    to: Ints  # where each of them goes, and once they are there, where each was


def new_scratch(brokers: int, loads: int, classes: int, clients: int) -> Scratch:
    """Room for so many."""
    chosen, who, to = np.zeros((3, max(clients, 2)), dtype=np.int64)
    return Scratch(
        work=np.zeros((5, max(loads, brokers, 1)), dtype=np.int64),
        sums=np.zeros((2, brokers)),
        out=np.zeros(brokers),
        other=np.zeros(brokers),
        open=np.zeros(brokers, dtype=np.bool_),
        loads=np.zeros((2, loads)),
        asked=np.zeros(classes, dtype=np.int64),
        chosen=chosen,
        who=who,
        to=to,
    )


@by_address
class SystemLoads(NamedTuple):
    """What each broker and area bears now, changed in place, and the classes whose messages pass it."""

    sent: Floats
    handled: Floats
    demand: Demand
    seats: Seats


@by_address
class System(NamedTuple):
    """Clients at their homes on a tree, what they pay and bear; changed in place, and only as a whole."""

    demand: Demand
    seats: Seats
    tree: Tree
    node: Floats
    limits: LoadLimits
    loads: SystemLoads
    scratch: Scratch
    capped: bool  # whether anything that is handled has a limit


def work_of(system: System, clients: int) -> int:
    """About the microseconds that plain Python takes to price so many clients everywhere; much for large systems."""
    demand = system.demand
    if len(demand.member) > WORK:
        return clients * WORK
    size = np.diff(demand.start)
    return clients * (40 + 5 * len(system.node) + 4 * int(size @ size) // max(1, len(demand.of_start)))


@kernel
def add_client(system: System, c: int, sign: float) -> None:
    """Add (or take away) what the classes of a client make each broker handle."""
    work, loads, demand = system.scratch.work, system.loads, system.loads.demand
    for j in range(demand.of_start[c], demand.of_start[c + 1]):
        k = demand.of_class[j]
        work[4, 0] += 1
        stamp = work[4, 0]
        count = class_homes(demand, loads.seats, k, -1, work[1], stamp, work[2])
        size = span(system.tree, work[2], count, work[0], stamp, work[3])
        load(loads.handled, system.limits.area, work[3], size, sign * demand.demand[k], work[0], stamp)


@kernel
def settle(system: System, c: int, there: int) -> None:
    """Bring a client to a broker, whatever the limits say."""
    loads, area, sent = system.loads, system.limits.area, system.limits.sent[c]
    here = system.seats.home[c]
    if system.capped:
        add_client(system, c, -1.0)
    seat(system.demand, system.seats, c, there)
    if system.capped:
        add_client(system, c, 1.0)
    loads.sent[here] -= sent
    loads.sent[there] += sent
    if area[here] >= 0:
        loads.sent[area[here]] -= sent
    if area[there] >= 0:
        loads.sent[area[there]] += sent


@kernel
def full(system: System, here: int, there: int, more: float) -> bool:
    """Whether a broker or its area has no room for clients that send so much and come from another one."""
    limits, sent = system.limits, system.loads.sent
    if more <= 0.0:
        return False
    if sent[there] + more > limits.sent_cap[there] * (1 + 1e-12) + 1e-9:
        return True
    where = limits.area[there]
    if where < 0 or where == limits.area[here]:
        return False
    return bool(sent[where] + more > limits.sent_cap[where] * (1 + 1e-12) + 1e-9)


@kernel
def holds(system: System) -> bool:
    """Whether no load is above its limit."""
    if not fits(system.loads.sent, system.limits.sent_cap):
        return False
    return not system.capped or fits(system.loads.handled, system.limits.handled_cap)


@kernel
def shift(system: System, count: int) -> None:
    """Bring the first clients of `scratch.who` where `to` says, whatever the limits say.

    Loads are remembered, and `to` says then where they were: `undo` brings all back as it was.
    """
    scratch, loads, home = system.scratch, system.loads, system.seats.home
    who, to = scratch.who, scratch.to
    copy_to(scratch.loads[0], loads.sent)
    copy_to(scratch.loads[1], loads.handled)
    for i in range(count):
        c, here = who[i], home[who[i]]
        if here != to[i]:
            settle(system, c, to[i])
        to[i] = here


@kernel
def undo(system: System, count: int) -> None:
    """Take a `shift` back: homes, and loads without the rounding of having been added and taken away."""
    scratch, loads, home = system.scratch, system.loads, system.seats.home
    for i in range(count):
        c, there = scratch.who[i], home[scratch.who[i]]
        if there != scratch.to[i]:
            seat(system.demand, system.seats, c, scratch.to[i])
        scratch.to[i] = there
    copy_to(loads.sent, scratch.loads[0])
    copy_to(loads.handled, scratch.loads[1])


@kernel
def try_shift(system: System, count: int) -> bool:
    """`shift` if the limits hold then; else all stays as it was."""
    shift(system, count)
    if holds(system):
        return True
    undo(system, count)
    return False


@kernel
def try_settle(system: System, c: int, there: int) -> bool:
    """Bring a client to a broker if the limits hold then; else all stays as it was."""
    if full(system, system.seats.home[c], there, system.limits.sent[c]):
        return False
    if not system.capped:
        settle(system, c, there)
        return True
    system.scratch.who[0], system.scratch.to[0] = c, there
    shift(system, 1)
    if fits(system.loads.handled, system.limits.handled_cap):
        return True
    undo(system, 1)
    return False


@kernel(work=lambda tree, node: 2 * len(node) ** 2)
def reach_of(tree: Tree, node: Floats) -> Floats:
    """What the way from the farthest broker to each costs, that broker's own cost left out."""
    n = len(node)
    reach = np.zeros(n, dtype=np.float64)
    way = np.zeros((n, n), dtype=np.float64)
    for i in range(1, n):
        v = tree.order[i]
        p = tree.parent[v]
        for j in range(i):
            x = tree.order[j]
            way[x, v] = way[x, p] + tree.up[v] + node[v]
            way[v, x] = way[p, x] + tree.up[v] + node[p]
            reach[v] = max(reach[v], way[x, v])
            reach[x] = max(reach[x], way[v, x])
    return reach


@kernel
def prices(system: System, c: int, price: float, out: Floats) -> None:
    """out[b]: what it costs a client to be at home at b, access and the price of a change included.

    From a broker to the next one down, those classes pay more that lie above, and those less that lie below; a class
    whose subtree holds both pays nothing at either. So it is enough to sum each class once over its subtree.
    """
    demand, seats, tree, limits = system.demand, system.seats, system.tree, system.limits
    work, sums, home = system.scratch.work, system.scratch.sums, system.seats.home
    mark, seen, terminals, nodes = work[0], work[1], work[2], work[3]
    below, across = sums[0], sums[1]
    fill(sums[0], 0.0)
    fill(sums[1], 0.0)
    total = 0.0
    stamp = work[4, 0]
    for j in range(demand.of_start[c], demand.of_start[c + 1]):
        k = demand.of_class[j]
        begin, weight = demand.start[k], demand.demand[k]
        size = demand.start[k + 1] - begin
        if size < 2:
            continue
        total += weight
        if size == 2:
            other = demand.member[begin] + demand.member[begin + 1] - c
            below[home[other]] += weight
            continue
        stamp += 1
        count = class_homes(demand, seats, k, c, seen, stamp, terminals)
        size = span(tree, terminals, count, mark, stamp, nodes)
        for i in range(size - 1):
            across[nodes[i]] += weight
        below[nodes[size - 1]] += weight
    work[4, 0] = stamp
    spread(tree, system.node, sums, total, out)
    row, amount, first = limits.access[limits.group[c]], limits.amount[c], limits.first[c]
    place, region = limits.place, limits.region
    for b in range(len(out)):
        out[b] += row[b] * amount
        if place[b] != place[first]:
            out[b] += price
        if region[b] != region[first]:
            out[b] += limits.leave


@kernel
def find_open(system: System, c: int, room: int) -> None:
    """scratch.open[b]: whether a client may be at b, has room there, and adds no more than so many changes."""
    limits, sent, open_to = system.limits, system.loads.sent, system.scratch.open
    more, here, first = limits.sent[c], system.seats.home[c], limits.first[c]
    may, area, place, cap = limits.may[limits.group[c]], limits.area, limits.place, limits.sent_cap
    away = 1 if place[here] != place[first] else 0
    for b in range(len(open_to)):
        fine = may[b] and (0 if place[b] == place[first] else 1) - away <= room
        if fine and more > 0.0 and b != here:
            where = area[b]
            if sent[b] + more > cap[b] * (1 + 1e-12) + 1e-9:
                fine = False
            elif where >= 0 and where != area[here]:
                fine = sent[where] + more <= cap[where] * (1 + 1e-12) + 1e-9
        open_to[b] = fine


@kernel
def add_span(sums: Floats, nodes: Ints, size: int, demand: float) -> None:
    """Sum a class over its subtree: below the top of it, and across each of its links."""
    for i in range(size - 1):
        sums[1, nodes[i]] += demand
    sums[0, nodes[size - 1]] += demand


@kernel
def spread(tree: Tree, node: Floats, sums: Floats, total: float, out: Floats) -> None:
    """out[b]: what classes pay for the way from b to their subtrees; sums are used up."""
    below, across = sums[0], sums[1]  # demand of classes below the link from v up, and of those that cross it
    order, parent, up = tree.order, tree.parent, tree.up
    root = order[0]
    out[root] = 0.0
    for i in range(len(node) - 1, 0, -1):
        v = order[i]
        p = parent[v]
        out[root] += below[v] * (up[v] + node[p])
        below[p] += below[v]
    for i in range(1, len(node)):
        v = order[i]
        p = parent[v]
        above = total - below[v] - across[v]
        out[v] = out[p] + above * (up[v] + node[v]) - below[v] * (up[v] + node[p])


@kernel
def ask_class(demand: Demand, scratch: Scratch, k: int, asked: int) -> bool:
    """Mark that class k was looked at; whether it joins several clients and was not marked before."""
    if scratch.asked[k] == asked or demand.start[k + 1] - demand.start[k] < 2:
        return False
    scratch.asked[k] = asked
    return True


@kernel
def group_prices(system: System, count: int, price: float, out: Floats) -> float:
    """out[b]: what it costs that the first clients of `scratch.who` are all at b; returned: what it costs as it is.

    What their classes pay for the others alone is left out of both.
    """
    demand, tree, home = system.demand, system.tree, system.seats.home
    scratch, work, sums, node = system.scratch, system.scratch.work, system.scratch.sums, system.node
    fill(sums[0], 0.0)
    fill(sums[1], 0.0)
    members = scratch.who[:count]
    work[4, 0] += 1
    mine = work[4, 0]
    for c in members:
        scratch.chosen[c] = mine
    total = inner = now = 0.0
    for c in members:
        for j in range(demand.of_start[c], demand.of_start[c + 1]):
            k = demand.of_class[j]
            if not ask_class(demand, scratch, k, mine):
                continue
            work[4, 0] += 1
            stamp = work[4, 0]
            ends = 0
            for side in range(2):  # the others, then all
                for i in range(demand.start[k], demand.start[k + 1]):
                    m = demand.member[i]
                    if (scratch.chosen[m] == mine) == (side == 1) and work[1, home[m]] != stamp:
                        work[1, home[m]] = stamp
                        work[2, ends] = home[m]
                        ends += 1
                if side == 0:
                    rest = ends
                    if rest > 0:
                        size = span(tree, work[2], rest, work[0], stamp, work[3])
                        add_span(sums, work[3], size, demand.demand[k])
                        total += demand.demand[k]
                        now -= demand.demand[k] * length(tree, node, work[3], size)
                    else:
                        inner += demand.demand[k]
            work[4, 0] += 1
            size = span(tree, work[2], ends, work[0], work[4, 0], work[3])
            now += demand.demand[k] * length(tree, node, work[3], size)
    spread(tree, node, sums, total, out)
    for b in range(len(out)):
        out[b] += inner * node[b]
    limits = system.limits
    place, region, may, access = limits.place, limits.region, limits.may, limits.access
    for c in members:
        now += priced(limits, c, home[c], price)
        row, amount, first = limits.group[c], limits.amount[c], limits.first[c]
        for b in range(len(out)):
            if not may[row, b]:
                out[b] = np.inf
                continue
            out[b] += access[row, b] * amount
            if place[b] != place[first]:
                out[b] += price
            if region[b] != region[first]:
                out[b] += limits.leave
    return now
