"""Re-home clients one by one where that pays more than a change is priced; exchange two where a limit is in the way."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from overlace.arrays.jit import Bools, Floats, Ints, kernel
from overlace.arrays.vectors import copy_to, sort_by
from overlace.planners.search.limits import added_by, excess
from overlace.planners.search.system import (
    Demand,
    System,
    find_open,
    full,
    holds,
    prices,
    seat,
    settle,
    try_settle,
    try_shift,
    undo,
    work_of,
)

CLOSE = 1e-9
"""What two costs of a client must differ by, as a share of them, to count as different."""
TRIED = 4
"""Of the brokers that pay most, and of the clients at a full broker that lose least by leaving, so many are tried."""

LONGEST = 5
"""Clients of a chain, at most."""
RELIEF = 200_000
"""As many brokers are tried for all clients together to relieve one that is too full, if that is more."""


@kernel
def _is_less(a: float, b: float) -> bool:
    """Whether one cost is below another, rounding aside."""
    return bool(a < b - CLOSE * max(1.0, abs(b)))


@kernel(work=lambda system, reach, clients, *_: work_of(system, len(clients)))
def sweep(system: System, reach: Floats, clients: Ints, price: float, room: int) -> tuple[float, int]:
    """Visit clients in this order, re-home each where it pays most; (gain, changes added).

    A client that leaves its first home pays the price, one that comes back earns it; no more than `room`
    changes are added. A client at its first place is passed over where it cannot save anything, or
    not so much as the price.
    """
    limits, home, out, open_to = system.limits, system.seats.home, system.scratch.out, system.scratch.open
    place = limits.place
    gained, added = 0.0, 0
    for c in clients:
        here = home[c]
        group = limits.group[c]
        if place[here] == place[limits.first[c]]:
            pays = limits.talk[c] * reach[here] + limits.amount[c] * (
                limits.access[group, here] - limits.nearest[group]
            )
            if pays <= 0.0 or (not limits.inside and (added >= room or pays <= price)):
                continue
        prices(system, c, price, out)
        find_open(system, c, room - added)
        for _ in range(TRIED):
            best = -1
            for b in range(len(out)):
                if open_to[b] and _is_less(out[b], out[here]) and (best < 0 or _is_less(out[b], out[best])):
                    best = b
            if best < 0:
                break
            if not try_settle(system, c, best):
                open_to[best] = False
                continue
            change = added_by(limits, c, here, best)
            added += change
            gained += out[here] - out[best] + price * change
            break
    return gained, added


@kernel(work=lambda system, clients, *_: 4 * work_of(system, len(clients)))
def relieve(system: System, clients: Ints, sent: Floats, handled: Floats, price: float, room: int) -> tuple[float, int]:
    """Visit clients in this order, re-home each where loads come nearest to what they should be; as `sweep`."""
    limits, home, loads = system.limits, system.seats.home, system.loads
    out, open_to = system.scratch.out, system.scratch.open
    gained, added = 0.0, 0
    tries = max(TRIED, RELIEF // max(1, len(clients)))
    over = excess(loads.sent, sent) + excess(loads.handled, handled)
    for c in clients:
        if not over > 0.0:
            break
        here = home[c]
        area = limits.area[here]
        crowded = loads.sent[here] > sent[here] or (area >= 0 and loads.sent[area] > sent[area])
        if not crowded and not excess(loads.handled, handled) > 0.0:
            continue
        prices(system, c, price, out)
        find_open(system, c, room - added)
        open_to[here] = False
        for _ in range(tries):
            best = -1
            for b in range(len(out)):
                if open_to[b] and (best < 0 or _is_less(out[b], out[best])):
                    best = b
            if best < 0:
                break
            if try_settle(system, c, best):
                left = excess(loads.sent, sent) + excess(loads.handled, handled)
                if left < over * (1 - CLOSE):
                    over = left
                    change = added_by(limits, c, here, best)
                    added += change
                    gained += out[here] - out[best] + price * change
                    break
                settle(system, c, here)
            open_to[best] = False
    return gained, added


class Leavers(NamedTuple):
    """Clients by broker and what each would lose by leaving, who loses least first; looked up when first asked for."""

    start: Ints
    client: Ints
    loss: Floats
    known: Bools  # per broker


@kernel
def _at(system: System, clients: Ints, away: bool) -> Leavers:
    """The clients of each broker, or only those that have moved, what they lose not known yet."""
    home, first, place = system.seats.home, system.limits.first, system.limits.place
    n = len(place)
    start = np.zeros(n + 1, dtype=np.int64)
    for c in clients:
        if not away or place[home[c]] != place[first[c]]:
            start[home[c] + 1] += 1
    for b in range(n):
        start[b + 1] += start[b]
    count = np.zeros(n, dtype=np.int64)
    there = np.zeros(start[n], dtype=np.int64)
    for c in clients:
        if not away or place[home[c]] != place[first[c]]:
            there[start[home[c]] + count[home[c]]] = c
            count[home[c]] += 1
    return Leavers(start, there, np.zeros(start[n]), np.zeros(n, dtype=np.bool_))


@kernel
def _look_up(system: System, leavers: Leavers, broker: int, price: float, back: bool) -> None:
    """Find what the clients of a broker would lose by going to their second best one, or back; sort them by it."""
    if leavers.known[broker]:
        return
    limits, other, place = system.limits, system.scratch.other, system.limits.place
    leavers.known[broker] = True
    for i in range(leavers.start[broker], leavers.start[broker + 1]):
        d = leavers.client[i]
        prices(system, d, price, other)
        here, may = system.seats.home[d], limits.may[limits.group[d]]
        least = np.inf
        for b in range(len(other)):
            if b != here and (place[b] == place[limits.first[d]] if back else may[b]):
                least = min(least, other[b] - other[here])
        leavers.loss[i] = least
    sort_by(leavers.loss, leavers.client, leavers.start[broker], leavers.start[broker + 1])


@kernel(work=lambda system, clients, others, *_: work_of(system, 4 * len(clients) + len(others)))
def exchange(system: System, clients: Ints, others: Ints, price: float, room: int) -> tuple[float, int]:
    """Clients that want to where there is no room trade places with one of the others that wants or can leave.

    As `sweep`. Where changes are scarce, only those make room that have moved already: they go on, or back.
    """
    limits, home, sent = system.limits, system.seats.home, system.limits.sent
    out, other, open_to, n = system.scratch.out, system.scratch.other, system.scratch.open, len(system.node)
    everyone = _at(system, others, False)
    moved = _at(system, others, True)
    returning = _at(system, others, True)
    gained, added = 0.0, 0
    for c in clients:
        here, may = home[c], limits.may[limits.group[c]]
        prices(system, c, price, out)
        find_open(system, c, 1)
        best = -1
        for b in range(n):
            wanted = not open_to[b] and may[b] and _is_less(out[b], out[here])
            if wanted and (best < 0 or _is_less(out[b], out[best])):
                best = b
        if best < 0:
            continue
        left = room - added - added_by(limits, c, here, best)  # changes that the other one may add
        leavers = everyone if left > 0 else moved if left == 0 else returning
        if left < -1 or leavers.start[best] == leavers.start[best + 1]:
            continue
        _look_up(system, leavers, best, price, left < 0)
        wins = out[here] - out[best]
        chosen, place, most = -1, -1, CLOSE * max(1.0, wins)
        before, tried = -np.inf, 0
        for i in range(leavers.start[best], leavers.start[best + 1]):
            d = leavers.client[i]
            if leavers.loss[i] > wins or tried == TRIED:
                break
            if home[d] != best or d == c or leavers.loss[i] <= before:
                continue
            if full(system, here, best, sent[c] - sent[d]):
                continue
            before = leavers.loss[i]
            tried += 1
            seat(system.demand, system.seats, c, best)
            prices(system, d, price, other)
            seat(system.demand, system.seats, c, here)
            find_open(system, d, left)
            swaps = limits.may[limits.group[d], here] and added_by(limits, d, best, here) <= left
            open_to[here] = swaps and not full(system, best, here, sent[d] - sent[c])
            for b in range(n):
                if b != best and open_to[b] and wins + other[best] - other[b] > most:
                    chosen, place, most = d, b, wins + other[best] - other[b]
        if chosen < 0:
            continue
        system.scratch.who[0], system.scratch.to[0] = chosen, place
        system.scratch.who[1], system.scratch.to[1] = c, best
        if not try_shift(system, 2):
            continue
        change = added_by(limits, c, here, best) + added_by(limits, chosen, best, place)
        added += change
        gained += most + price * change
    return gained, added


@kernel(work=lambda system, clients, others, *_: work_of(system, len(clients) + len(others)))
def chain(system: System, clients: Ints, others: Ints, price: float, room: int) -> tuple[float, int]:
    """Clients go to where there is no room, somebody there goes on to where there is none either, and so on.

    On the way limits are exceeded; where no end within them pays, all stays as it was. As `sweep`.
    """
    limits, home, scratch = system.limits, system.seats.home, system.scratch
    out, open_to, who, to = scratch.out, scratch.open, scratch.who, scratch.to
    everyone, moved = _at(system, others, False), _at(system, others, True)
    gained, added = 0.0, 0
    for c in clients:
        copy_to(scratch.loads[0], system.loads.sent)
        copy_to(scratch.loads[1], system.loads.handled)
        goes, wins, changes, count, held = c, 0.0, 0, 0, False
        while count < LONGEST:
            here = home[goes]
            prices(system, goes, price, out)
            find_open(system, goes, 1)
            best, ends, may = -1, -1, limits.may[limits.group[goes]]
            for b in range(len(out)):
                pays = b != here and may[b] and _is_less(out[b], out[here] + wins)
                if pays and added + changes + added_by(limits, goes, here, b) <= room:
                    if open_to[b] and count > 0 and (ends < 0 or _is_less(out[b], out[ends])):
                        ends = b
                    if not open_to[b] and (best < 0 or _is_less(out[b], out[best])):
                        best = b
            there = ends if ends >= 0 else best
            if there < 0:
                break
            who[count], to[count] = goes, here
            count += 1
            wins += out[here] - out[there]
            changes += added_by(limits, goes, here, there)
            settle(system, goes, there)
            if there == ends:
                held = holds(system) and wins > CLOSE * max(1.0, abs(out[there]))
                break
            leavers = everyone if added + changes < room else moved
            _look_up(system, leavers, there, price, False)
            goes = -1
            for i in range(leavers.start[there], leavers.start[there + 1]):
                d = leavers.client[i]
                fresh = home[d] == there
                for k in range(count):
                    fresh = fresh and who[k] != d
                if fresh and not full(system, there, there, -limits.sent[d]) and limits.sent[d] > 0.0:
                    goes = d
                    break
            if goes < 0:
                break
        if not held:
            undo(system, count)
            continue
        added += changes
        gained += wins + price * changes
    return gained, added


@kernel(work=lambda demand, moved, clients: 2 * len(demand.member) + len(clients))
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
    found = 0
    some = np.zeros(len(clients), dtype=np.int64)
    for c in clients:
        if met[c]:
            some[found] = c
            found += 1
    return some[:found]
