"""Clients that move together: where a group has members at every broker no single move pays, and yet the whole does.

Groups are the clients of a class, those of them at one broker, communities of who talks with whom, and the clients of
a broker. A group goes where it costs least all together, at the price of each change; whoever fares better elsewhere
goes there afterwards, alone. Packed communities are the other place to start from than today's homes: each goes where
it costs least beside those that have been packed before it.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise
from typing import NamedTuple

import numpy as np

from overlace.arrays.communities import communities_at
from overlace.arrays.csr import group
from overlace.arrays.jit import Bools, Floats, Ints, by_address, kernel
from overlace.arrays.vectors import fill
from overlace.planners.search.limits import LoadLimits, added_by, priced
from overlace.planners.search.system import (
    Demand,
    System,
    add_span,
    ask_class,
    class_homes,
    group_prices,
    length,
    span,
    spread,
    try_shift,
    undo,
    work_of,
)

TRIED = 3
"""Of the brokers where a group costs least, so many are tried."""
CLIQUE, FRIENDS = 24, 8
"""Classes up to this size tie all their clients to one another, larger ones each to so many."""
MOST = 1_000
"""How many classes may be groups, and up to how many groups are packed by whom they talk with."""
RESOLUTIONS = (1.0, 2.0, 4.0, 8.0, 16.0, 32.0)


@by_address
class ClientGroups(NamedTuple):
    """Sets of clients, one after the other."""

    start: Ints
    member: Ints


NO_GROUPS = ClientGroups(np.zeros(1, dtype=np.int64), np.empty(0, dtype=np.int64))


@kernel
def _choose(system: System, groups: ClientGroups, g: int, broker: int) -> int:
    """Put the clients of a group into `scratch.who`: all (-1), those at a broker, or those that have moved (-2)."""
    home, first, place, who = system.seats.home, system.limits.first, system.limits.place, system.scratch.who
    count = 0
    for i in range(groups.start[g], groups.start[g + 1]):
        c = groups.member[i]
        if broker == -1 or home[c] == broker or (broker == -2 and place[home[c]] != place[first[c]]):
            who[count] = c
            count += 1
    return count


@kernel(work=lambda system, reach, groups, *_: work_of(system, 3 * len(groups.member)))
def move_groups(system: System, reach: Floats, groups: ClientGroups, price: float, room: int) -> tuple[float, int]:
    """Visit groups in this order, bring each where it pays most; (gain, changes added), as `sweep`.

    All clients of a group are tried together, and then those that are at one broker.
    """
    limits, home, out, n = system.limits, system.seats.home, system.scratch.out, len(system.node)
    who, to, talk = system.scratch.who, system.scratch.to, limits.talk
    most = 0.0
    for row in range(limits.access.shape[0]):
        for b in range(n):
            most = max(most, limits.access[row, b])
    spots = np.zeros(n, dtype=np.int64)
    gained, added = 0.0, 0
    for g in range(len(groups.start) - 1):
        for b in range(n):
            spots[b] = 0
        for i in range(groups.start[g], groups.start[g + 1]):
            spots[home[groups.member[i]]] += 1
        for spot in range(-1, n):
            if spot >= 0 and (spots[spot] < 2 or spots[spot] == groups.start[g + 1] - groups.start[g]):
                continue
            count = _choose(system, groups, g, spot)
            pays = 0.0  # more than all of them can save
            for i in range(count):
                c = who[i]
                pays += talk[c] * reach[home[c]] + most * limits.amount[c]
                pays -= price if home[c] == limits.first[c] and not limits.inside else 0.0
            if count < 2 or pays <= 0.0:
                continue
            now = group_prices(system, count, price, out)
            for _ in range(TRIED):
                best = -1
                for b in range(n):
                    if out[b] < now - 1e-9 * max(1.0, abs(now)) and (best < 0 or out[b] < out[best]):
                        best = b
                if best < 0:
                    break
                change = 0
                for i in range(count):
                    change += added_by(limits, who[i], home[who[i]], best)
                    to[i] = best
                if added + change <= room and try_shift(system, count):
                    added += change
                    gained += now - out[best] + price * change
                    break
                out[best] = np.inf
    return gained, added


@kernel(work=lambda system, groups, *_: work_of(system, 2 * len(groups.member)))
def return_groups(system: System, groups: ClientGroups, price: float) -> int:
    """Send the moved clients of each group home, all together, where they save less than their moves are priced at."""
    who, to, first = system.scratch.who, system.scratch.to, system.limits.first
    returned = 0
    for g in range(len(groups.start) - 1):
        count = _choose(system, groups, g, -2)
        for i in range(count):
            to[i] = first[who[i]]
        now = paid_by(system, count, price)
        if count == 0 or not try_shift(system, count):
            continue
        if paid_by(system, count, price) < now:
            returned += count
        else:
            undo(system, count)
    return returned


@kernel
def paid_by(system: System, count: int, price: float) -> float:
    """What the classes of the first clients of `scratch.who` pay, with access and the price of each move."""
    demand, scratch, work = system.demand, system.scratch, system.scratch.work
    work[4, 0] += 1
    asked, total = work[4, 0], 0.0
    for m in range(count):
        c = scratch.who[m]
        total += priced(system.limits, c, system.seats.home[c], price)
        for j in range(demand.of_start[c], demand.of_start[c + 1]):
            k = demand.of_class[j]
            if not ask_class(demand, scratch, k, asked):
                continue
            work[4, 0] += 1
            ends = class_homes(demand, system.seats, k, -1, work[1], work[4, 0], work[2])
            size = span(system.tree, work[2], ends, work[0], work[4, 0], work[3])
            total += demand.demand[k] * length(system.tree, system.node, work[3], size)
    return total


def groups_of(demand: Demand, movable: Ints, communities: Sequence[Ints], share: float) -> ClientGroups:
    """The sets of clients that may want to move together: communities, then the heaviest classes.

    To look at all of them takes as long as to look at every client alone, times `share`.
    """
    size = np.diff(demand.start)
    may = np.zeros(len(demand.of_start) - 1, dtype=np.bool_)
    may[movable] = True
    seen = np.append(0, np.cumsum(size[demand.of_class]))[demand.of_start]
    work = np.diff(seen) + 1.0  # members of all classes of each client
    left = share * float(work[may].sum())
    found: list[Ints] = []
    for community in communities:
        start, order = group(community, int(community.max(initial=-1)) + 1)
        found += [order[a:b] for a, b in pairwise(start.tolist()) if b - a > 1]
    classes = np.flatnonzero((size > 2) & (demand.demand > 0))
    heavy = classes[np.argsort(-(demand.demand[classes] * size[classes]), kind="stable")]
    found += [demand.member[demand.start[k] : demand.start[k + 1]] for k in heavy[:MOST].tolist()]
    kept: list[Ints] = []
    known: set[bytes] = set()
    for each in found:
        some = np.sort(each[may[each]])
        need = 2.0 * float(work[some].sum())  # all together, and those at each broker
        name = some.tobytes()
        if len(some) > 1 and need <= left and name not in known:
            known.add(name)
            kept.append(some)
            left -= need
    if not kept:
        return NO_GROUPS
    return ClientGroups(np.cumsum([0, *map(len, kept)]), np.concatenate(kept).astype(np.int64))


# --- communities


def ties_between(demand: Demand, clients: int) -> tuple[Ints, Ints, Floats]:
    """(left, right, weight): who talks with whom and how much, large classes by some of their pairs."""
    size = np.diff(demand.start)
    parts: list[tuple[Ints, Ints, Floats]] = []
    for s in np.unique(size[(size > 1) & (size <= CLIQUE)]).tolist():
        rows = np.flatnonzero((size == s) & (demand.demand > 0))
        members = demand.member[demand.start[rows][:, None] + np.arange(s)]
        one, two = np.triu_indices(s, 1)
        weight = np.repeat(demand.demand[rows] / (s - 1), len(one))
        parts.append((members[:, one].ravel(), members[:, two].ravel(), weight))
    for k in np.flatnonzero((size > CLIQUE) & (demand.demand > 0)).tolist():
        members = demand.member[demand.start[k] : demand.start[k + 1]]
        for step in range(1, FRIENDS + 1):  # a ring, and chords of it
            far = 1 + (step - 1) * (len(members) // (2 * FRIENDS))
            weight = np.full(len(members), demand.demand[k] / FRIENDS / 2)
            parts.append((members, np.roll(members, far), weight))
    if not parts:
        none = np.empty(0, dtype=np.int64)
        return none, none, np.empty(0)
    left, right, weight = (np.concatenate(each) for each in zip(*parts, strict=True))
    low, high = np.minimum(left, right), np.maximum(left, right)
    pairs, place = np.unique(low * clients + high, return_inverse=True)
    kept = pairs // clients != pairs % clients
    summed = np.bincount(place.reshape(-1), weights=weight, minlength=len(pairs))
    return pairs[kept] // clients, pairs[kept] % clients, summed[kept]


def find_communities(demand: Demand, limits: LoadLimits, movable: Ints, seed: int) -> list[Ints]:
    """Communities at rising resolutions, up to where the heaviest fits a broker."""
    clients = len(demand.of_start) - 1
    left, right, weight = ties_between(demand, clients)
    if not len(left):
        return []
    room = float(np.max(limits.sent_cap[: limits.may.shape[1]][limits.may.any(axis=0)], initial=0.0))
    found: list[Ints] = []
    for resolution in RESOLUTIONS:
        community = communities_at(left, right, weight, clients, seed, resolution)
        if not found or not np.array_equal(community, found[-1]):
            found.append(community)
        if np.bincount(community, weights=limits.sent).max() <= room:
            break
    return found


# --- packed communities


@kernel
def _send(limits: LoadLimits, sent: Floats, c: int, there: int) -> None:
    """Count what a client at a broker sends, for the broker and its area."""
    sent[there] += limits.sent[c]
    if limits.area[there] >= 0:
        sent[limits.area[there]] += limits.sent[c]


@kernel
def _roomy(limits: LoadLimits, sent: Floats, room: Floats, there: int, more: float) -> bool:
    """Whether a broker and its area have room for so much."""
    area = limits.area[there]
    return bool(sent[there] + more <= room[there] and (area < 0 or sent[area] + more <= room[area]))


@kernel(work=lambda system, community, *_: work_of(system, 2 * len(community)))
def pack(system: System, community: Ints, start: Ints, member: Ints, movable: Bools, room: Floats, home: Ints) -> None:
    """Give the clients of each group in turn a home, all the same if it has room, else one by one; `home` in place.

    The next is the one that talks most with those that have a home, of equals the first. Who may not move is where it
    is. A group goes where it costs least beside those that have a home by then; of equal
    brokers to where most of it is today, then to the one with most room.
    """
    demand, limits, tree, node = system.demand, system.limits, system.tree, system.node
    scratch, work, sums, out = system.scratch, system.scratch.work, system.scratch.sums, system.scratch.out
    n = len(node)
    sent, today = np.zeros(len(room)), np.zeros(n, dtype=np.int64)
    placed = np.zeros(len(home), dtype=np.bool_)
    for c in range(len(home)):
        placed[c] = not movable[c]
        if placed[c]:
            _send(limits, sent, c, home[c])
    pull = np.zeros(len(start) - 1)
    for turn in range(len(pull)):
        g = turn
        if len(pull) <= MOST:
            g = 0
            for i in range(len(pull)):
                if pull[i] > pull[g]:
                    g = i
        pull[g] = -np.inf
        whole, movers = 0.0, 0
        for at in range(start[g], start[g + 1]):
            c = member[at]
            whole += limits.sent[c] if movable[c] else 0.0
            movers += 1 if movable[c] else 0
            for j in range(demand.of_start[c], demand.of_start[c + 1]):
                k = demand.of_class[j]
                for i in range(demand.start[k], min(demand.start[k + 1], demand.start[k] + CLIQUE)):
                    pull[community[demand.member[i]]] += demand.demand[k]
        fit = False
        for b in range(n):
            fit = fit or _roomy(limits, sent, room, b, whole)
        begin = start[g]
        while begin < start[g + 1] and movers > 0:
            end = start[g + 1] if fit else begin + 1
            fill(sums[0], 0.0)
            fill(sums[1], 0.0)
            for b in range(n):
                today[b] = 0
            total = inner = load = 0.0
            work[4, 0] += 1
            asked = work[4, 0]
            for at in range(begin, end):
                c = member[at]
                if not movable[c]:
                    continue
                load += limits.sent[c]
                today[limits.first[c]] += 1
                for j in range(demand.of_start[c], demand.of_start[c + 1]):
                    k = demand.of_class[j]
                    if not ask_class(demand, scratch, k, asked):
                        continue
                    work[4, 0] += 1
                    stamp = work[4, 0]
                    count = 0
                    for i in range(demand.start[k], demand.start[k + 1]):
                        m = demand.member[i]
                        if placed[m] and work[1, home[m]] != stamp:
                            work[1, home[m]] = stamp
                            work[2, count] = home[m]
                            count += 1
                    if count > 0:
                        size = span(tree, work[2], count, work[0], stamp, work[3])
                        add_span(sums, work[3], size, demand.demand[k])
                        total += demand.demand[k]
                    else:
                        inner += demand.demand[k]
            spread(tree, node, sums, total, out)
            best, least = -1, np.inf
            for b in range(n):
                paid = out[b] + inner * node[b]
                may = True
                for at in range(begin, end):
                    c = member[at]
                    if movable[c]:
                        may = may and limits.may[limits.group[c], b]
                        paid += limits.access[limits.group[c], b] * limits.amount[c]
                if not may or not _roomy(limits, sent, room, b, load):
                    continue
                close = best >= 0 and abs(paid - least) <= 1e-9 * max(1.0, abs(least))
                if best < 0 or (paid < least and not close):
                    best, least = b, paid
                elif close and (today[b], room[b] - sent[b]) > (today[best], room[best] - sent[best]):
                    best = b
            for at in range(begin, end):
                c = member[at]
                if movable[c]:
                    home[c] = best if best >= 0 else limits.first[c]  # no room anywhere: it stays
                    _send(limits, sent, c, home[c])
                    placed[c] = True
            begin = end


def pack_groups(system: System, community: Ints, movable: Ints, room: Floats) -> Ints:
    """Homes for all clients, community by community, the heaviest first, where there is room for what they send."""
    limits = system.limits
    amount = int(community.max(initial=-1)) + 1
    load = np.bincount(community, weights=limits.sent, minlength=amount)
    talk = np.bincount(community, weights=limits.talk, minlength=amount)
    strong = np.argsort(-limits.talk, kind="stable")
    start, place = group(community[strong], amount)
    order = np.lexsort((np.arange(amount), -talk, -load))
    member = np.concatenate([strong[place[start[g] : start[g + 1]]] for g in order]) if amount else strong
    bounds = np.append(0, np.cumsum(np.diff(start)[order]))
    may = np.zeros(len(limits.first), dtype=np.bool_)
    may[movable] = True
    rank = np.empty(amount, dtype=np.int64)
    rank[order] = np.arange(amount)
    home = limits.first.copy()
    pack(system, rank[community], bounds, np.ascontiguousarray(member), may, room, home)
    return home
