"""Re-home clients one by one, where that pays more than a change is priced; exchange two where a cap is in the way."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from overlace.arrays.jit import Bools, Floats, Ints, kernel
from overlace.joint.state import Demand, Seats, Tree, add_client, fits, prices, seat


class Limits(NamedTuple):
    """What must hold: loads per broker, where a client may be, and how many changes may be made."""

    first: Ints  # home of each client before the plan
    sent: Floats  # messages that each client sends
    sent_cap: Floats  # per broker
    handled_cap: Floats
    may: Bools  # (groups, brokers)
    group: Ints  # per client, a row of `may`
    access: Floats  # (groups, brokers): cost per unit of a client's own traffic
    amount: Floats  # per client, its own traffic
    talk: Floats  # per client, the demand of its classes
    nearest: Floats  # per group, the least access where it may be


class Loads(NamedTuple):
    """What each broker bears now, changed in place, and the classes whose messages pass it."""

    sent: Floats
    handled: Floats
    demand: Demand
    seats: Seats


CLOSE = 1e-9
"""What two costs of a client must differ by, as a share of them, to count as different."""


class Desk(NamedTuple):
    """Room to work on."""

    work: Ints
    sums: Floats
    out: Floats
    other: Floats
    trial: Floats


@kernel
def new_desk(n: int) -> Desk:
    """Room for n brokers."""
    work = np.zeros((5, max(n, 1)), dtype=np.int64)
    row = np.zeros((5, n), dtype=np.float64)
    return Desk(work, row[:2], row[2], row[3], row[4])


@kernel
def own_prices(
    demand: Demand,
    seats: Seats,
    tree: Tree,
    node: Floats,
    limits: Limits,
    c: int,
    price: float,
    desk: Desk,
    out: Floats,
) -> None:
    """What it costs a client to be at each broker, access and the price of a change included."""
    prices(demand, seats, tree, node, c, desk.work, desk.sums, out)
    for b in range(len(node)):
        out[b] += limits.access[limits.group[c], b] * limits.amount[c] + (price if b != limits.first[c] else 0.0)


@kernel
def _less(a: float, b: float) -> bool:
    """Whether one cost is below another, rounding aside."""
    return bool(a < b - CLOSE * max(1.0, abs(b)))


@kernel
def full(limits: Limits, loads: Loads, b: int, more: float) -> bool:
    """Whether a broker has no room for clients that send so much."""
    return bool(loads.sent[b] + more > limits.sent_cap[b] * (1 + 1e-12) + 1e-9)


@kernel
def sweep(
    demand: Demand,
    seats: Seats,
    tree: Tree,
    node: Floats,
    reach: Floats,
    limits: Limits,
    loads: Loads,
    clients: Ints,
    price: float,
    room: int,
    capped: bool,
) -> tuple[float, int]:
    """Visit clients in this order, re-home each where it pays most; (gain, changes added), seats in place.

    A client that leaves its first home pays the price, one that comes back earns it; no more than `room`
    changes are added. A client at its first home is passed over where there is no room for it, or where the price is
    above all that it pays now.
    """
    n = len(node)
    desk = new_desk(n)
    out, trial = desk.out, desk.trial
    gained, added = 0.0, 0
    for c in clients:
        here = seats.home[c]
        group = limits.group[c]
        if here == limits.first[c]:
            pays = limits.talk[c] * reach[here] + limits.amount[c] * (
                limits.access[group, here] - limits.nearest[group]
            )
            if added >= room or pays <= price:
                continue
        own_prices(demand, seats, tree, node, limits, c, price, desk, out)
        for _ in range(4):  # of the best brokers, the first that fits
            best = -1
            for b in range(n):
                if b != here and limits.may[group, b] and _less(out[b], out[here]):
                    if best >= 0 and not _less(out[b], out[best]):
                        continue
                    if full(limits, loads, b, limits.sent[c]) or added + added_by(limits, c, here, b) > room:
                        continue
                    best = b
            if best < 0:
                break
            if capped:
                trial[:] = loads.handled
                add_client(loads.demand, loads.seats, tree, c, -1.0, trial, desk.work)
            seat(demand, seats, c, best)
            if capped:
                add_client(loads.demand, loads.seats, tree, c, 1.0, trial, desk.work)
                if not fits(trial, limits.handled_cap):
                    seat(demand, seats, c, here)
                    out[best] = np.inf
                    continue
                loads.handled[:] = trial
            loads.sent[here] -= limits.sent[c]
            loads.sent[best] += limits.sent[c]
            change = added_by(limits, c, here, best)
            added += change
            gained += out[here] - out[best] + price * change
            break
    return gained, added


@kernel
def added_by(limits: Limits, c: int, here: int, there: int) -> int:
    """Changes that a move adds: 1 away from the first home, -1 back to it."""
    return (1 if there != limits.first[c] else 0) - (1 if here != limits.first[c] else 0)


TRIED = 4
"""Of the clients at a full broker, those that lose least by leaving are tried for an exchange."""


class Leavers(NamedTuple):
    """Clients by broker and what each would lose by leaving, who loses least first; looked up when first asked for."""

    start: Ints
    client: Ints
    loss: Floats
    back: Floats  # what it would lose by going to its first home
    known: Bools  # per broker


@kernel
def _at(home: Ints, clients: Ints, n: int) -> Leavers:
    """The clients of each broker, what they lose not known yet."""
    start = np.zeros(n + 1, dtype=np.int64)
    for c in clients:
        start[home[c] + 1] += 1
    for b in range(n):
        start[b + 1] += start[b]
    place = start[:-1].copy()
    there = np.empty(len(clients), dtype=np.int64)
    for c in clients:
        there[place[home[c]]] = c
        place[home[c]] += 1
    loss = np.zeros((2, len(clients)), dtype=np.float64)
    return Leavers(start, there, loss[0], loss[1], np.zeros(n, dtype=np.bool_))


@kernel
def _look_up(
    demand: Demand,
    seats: Seats,
    tree: Tree,
    node: Floats,
    limits: Limits,
    leavers: Leavers,
    broker: int,
    price: float,
    desk: Desk,
) -> None:
    """Find what the clients of a broker would lose by going to their second best one, and sort them by it."""
    if leavers.known[broker]:
        return
    leavers.known[broker] = True
    first, last = leavers.start[broker], leavers.start[broker + 1]
    loss = np.full(last - first, np.inf, dtype=np.float64)
    back = np.empty(last - first, dtype=np.float64)
    for i in range(last - first):
        d = leavers.client[first + i]
        own_prices(demand, seats, tree, node, limits, d, price, desk, desk.other)
        here = seats.home[d]
        back[i] = desk.other[limits.first[d]] - desk.other[here]
        for b in range(len(node)):
            if b != here and limits.may[limits.group[d], b]:
                loss[i] = min(loss[i], desk.other[b] - desk.other[here])
    order = np.argsort(loss, kind="mergesort")
    leavers.client[first:last] = leavers.client[first:last][order]
    leavers.loss[first:last], leavers.back[first:last] = loss[order], back[order]


@kernel
def exchange(
    demand: Demand,
    seats: Seats,
    tree: Tree,
    node: Floats,
    limits: Limits,
    loads: Loads,
    clients: Ints,
    others: Ints,
    price: float,
    room: int,
    capped: bool,
) -> tuple[float, int]:
    """Clients that want to where there is no room trade places with one of the others that wants or can leave.

    As `sweep`. Where changes are scarce, only those make room that have moved already: they go on, or back.
    """
    n = len(node)
    desk = new_desk(n)
    out, other, trial = desk.out, desk.other, desk.trial
    home, first, sent = seats.home, limits.first, limits.sent
    everyone = _at(home, others, n)
    moved = _at(home, others[home[others] != first[others]], n)
    gained, added = 0.0, 0
    for c in clients:
        here, group = home[c], limits.group[c]
        own_prices(demand, seats, tree, node, limits, c, price, desk, out)
        best = -1
        for b in range(n):
            wanted = b != here and limits.may[group, b] and _less(out[b], out[here])
            if wanted and (best < 0 or _less(out[b], out[best])) and full(limits, loads, b, sent[c]):
                best = b
        if best < 0:
            continue
        left = room - added - added_by(limits, c, here, best)  # changes that the other one may add
        leavers = everyone if left > 0 else moved
        if left < -1 or leavers.start[best] == leavers.start[best + 1]:
            continue
        _look_up(demand, seats, tree, node, limits, leavers, best, price, desk)
        wins = out[here] - out[best]
        spare = limits.sent_cap[best] * (1 + 1e-12) + 1e-9 - loads.sent[best] - sent[c]
        chosen, place, most = -1, -1, CLOSE * max(1.0, wins)
        before, tried = -np.inf, 0
        for i in range(leavers.start[best], leavers.start[best + 1]):
            d = leavers.client[i]
            if leavers.loss[i] > wins or tried == TRIED:
                break
            if home[d] != best or d == c or sent[d] < -spare or leavers.loss[i] <= before:
                continue
            if left < 0 and leavers.back[i] > wins:
                continue
            before = leavers.loss[i]
            tried += 1
            seat(demand, seats, c, best)
            own_prices(demand, seats, tree, node, limits, d, price, desk, other)
            seat(demand, seats, c, here)
            for b in range(n):
                if b == best or not limits.may[limits.group[d], b] or added_by(limits, d, best, b) > left:
                    continue
                if full(limits, loads, b, sent[d] - (sent[c] if b == here else 0.0)):
                    continue
                if wins + other[best] - other[b] > most:
                    chosen, place, most = d, b, wins + other[best] - other[b]
        if chosen < 0:
            continue
        if capped:
            trial[:] = loads.handled
            add_client(loads.demand, loads.seats, tree, c, -1.0, trial, desk.work)
            seat(demand, seats, c, best)
            add_client(loads.demand, loads.seats, tree, c, 1.0, trial, desk.work)
            add_client(loads.demand, loads.seats, tree, chosen, -1.0, trial, desk.work)
            seat(demand, seats, chosen, place)
            add_client(loads.demand, loads.seats, tree, chosen, 1.0, trial, desk.work)
            if not fits(trial, limits.handled_cap):
                seat(demand, seats, c, here)
                seat(demand, seats, chosen, best)
                continue
            loads.handled[:] = trial
        else:
            seat(demand, seats, c, best)
            seat(demand, seats, chosen, place)
        loads.sent[here] -= sent[c]
        loads.sent[best] += sent[c] - sent[chosen]
        loads.sent[place] += sent[chosen]
        change = added_by(limits, c, here, best) + added_by(limits, chosen, best, place)
        added += change
        gained += most + price * change
    return gained, added


@kernel
def partners(demand: Demand, moved: Ints, clients: Ints) -> Ints:
    """Of these clients, in their order, those that share a class with one that moved, or are one."""
    met = np.zeros(len(demand.of_start) - 1, dtype=np.bool_)
    asked = np.zeros(len(demand.demand), dtype=np.bool_)
    for c in moved:
        met[c] = True
        for j in range(demand.of_start[c], demand.of_start[c + 1]):
            k = demand.of_class[j]
            if not asked[k]:
                asked[k] = True
                for i in range(demand.start[k], demand.start[k + 1]):
                    met[demand.member[i]] = True
    return clients[met[clients]]


@kernel
def try_move(
    demand: Demand,
    seats: Seats,
    tree: Tree,
    node: Floats,
    limits: Limits,
    loads: Loads,
    c: int,
    there: int,
    go: bool,
    strict: bool,
) -> tuple[bool, float]:
    """(whether it may, what it saves): a client to a broker; with `go` it goes, if it may or nothing is strict."""
    desk = new_desk(len(node))
    here = seats.home[c]
    prices(demand, seats, tree, node, c, desk.work, desk.sums, desk.out)
    row = limits.access[limits.group[c]]
    gain = desk.out[here] - desk.out[there] + (row[here] - row[there]) * limits.amount[c]
    if not go:
        return True, gain
    trial = loads.handled.copy()
    add_client(loads.demand, loads.seats, tree, c, -1.0, trial, desk.work)
    seat(demand, seats, c, there)
    add_client(loads.demand, loads.seats, tree, c, 1.0, trial, desk.work)
    if strict and (full(limits, loads, there, limits.sent[c]) or not fits(trial, limits.handled_cap)):
        seat(demand, seats, c, here)
        return False, gain
    loads.handled[:] = trial
    loads.sent[here] -= limits.sent[c]
    loads.sent[there] += limits.sent[c]
    return True, gain
