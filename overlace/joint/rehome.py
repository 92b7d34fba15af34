"""Re-home clients one by one, where that pays more than a change is priced; exchange two where a cap is in the way."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from overlace.arrays.jit import Bools, Floats, Ints, kernel
from overlace.joint.state import Demand, Tree, add_client, fits, prices


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
    """What each broker bears now; changed in place."""

    sent: Floats
    handled: Floats


@kernel
def _own_prices(
    demand: Demand,
    home: Ints,
    tree: Tree,
    node: Floats,
    way: Floats,
    limits: Limits,
    c: int,
    price: float,
    work: Ints,
    near: Floats,
    out: Floats,
) -> None:
    """What it costs a client to be at each broker, access and the price of a change included."""
    prices(demand, home, tree, node, way, c, work, near, out)
    for b in range(len(node)):
        out[b] += limits.access[limits.group[c], b] * limits.amount[c] + (price if b != limits.first[c] else 0.0)


@kernel
def sweep(
    demand: Demand,
    home: Ints,
    tree: Tree,
    node: Floats,
    way: Floats,
    limits: Limits,
    loads: Loads,
    clients: Ints,
    price: float,
    room: int,
    capped: bool,
) -> tuple[float, int]:
    """Visit clients in this order, re-home each where it pays most; (gain, changes added), home in place.

    A client that leaves its first home pays the price, one that comes back earns it; no more than `room`
    changes are added. A client at its first home is passed over where there is no room for it, or where the price is
    above all that it pays now.
    """
    n = len(node)
    work = np.zeros((6, max(n, 1)), dtype=np.int64)
    near = np.zeros(2 * n, dtype=np.float64)
    out = np.empty(n, dtype=np.float64)
    trial = np.empty(n, dtype=np.float64)
    reach = np.zeros(n, dtype=np.float64)
    for x in range(n):
        for b in range(n):
            reach[b] = max(reach[b], way[x, b])
    gained, added = 0.0, 0
    for c in clients:
        here = home[c]
        group = limits.group[c]
        if here == limits.first[c]:
            pays = limits.talk[c] * reach[here] + limits.amount[c] * (
                limits.access[group, here] - limits.nearest[group]
            )
            if added >= room or pays <= price:
                continue
        _own_prices(demand, home, tree, node, way, limits, c, price, work, near, out)
        for _ in range(4):  # of the best brokers, the first that fits
            best = -1
            for b in range(n):
                if (
                    b != here
                    and limits.may[group, b]
                    and out[b] < out[here] - 1e-9
                    and (best < 0 or out[b] < out[best])
                ):
                    if loads.sent[b] + limits.sent[c] > limits.sent_cap[b] * (1 + 1e-12) + 1e-9:
                        continue
                    if added + _added(limits, c, here, b) > room:
                        continue
                    best = b
            if best < 0:
                break
            if capped:
                trial[:] = loads.handled
                add_client(demand, home, tree, c, -1.0, trial, work)
                home[c] = best
                add_client(demand, home, tree, c, 1.0, trial, work)
                if not fits(trial, limits.handled_cap):
                    home[c] = here
                    out[best] = np.inf
                    continue
                loads.handled[:] = trial
            home[c] = best
            loads.sent[here] -= limits.sent[c]
            loads.sent[best] += limits.sent[c]
            change = _added(limits, c, here, best)
            added += change
            gained += out[here] - out[best] + price * change
            break
    return gained, added


@kernel
def _added(limits: Limits, c: int, here: int, there: int) -> int:
    """Changes that a move adds: 1 away from the first home, -1 back to it."""
    return (1 if there != limits.first[c] else 0) - (1 if here != limits.first[c] else 0)


TRIED = 4
"""Of the clients at a full broker, those that lose least by leaving are tried for an exchange."""


@kernel
def _losses(
    demand: Demand,
    home: Ints,
    tree: Tree,
    node: Floats,
    way: Floats,
    limits: Limits,
    clients: Ints,
    price: float,
    work: Ints,
    near: Floats,
    out: Floats,
) -> Floats:
    """What each client would lose by going to its second best broker; infinite for those that may not move."""
    loss = np.full(len(home), np.inf, dtype=np.float64)
    for d in clients:
        _own_prices(demand, home, tree, node, way, limits, d, price, work, near, out)
        for b in range(len(node)):
            if b != home[d] and limits.may[limits.group[d], b]:
                loss[d] = min(loss[d], out[b] - out[home[d]])
    return loss


@kernel
def exchange(
    demand: Demand,
    home: Ints,
    tree: Tree,
    node: Floats,
    way: Floats,
    limits: Limits,
    loads: Loads,
    clients: Ints,
    price: float,
    room: int,
    capped: bool,
) -> tuple[float, int]:
    """Clients that want to where there is no room trade places with one that wants or can leave; as `sweep`."""
    n = len(node)
    work = np.zeros((6, max(n, 1)), dtype=np.int64)
    near = np.zeros(2 * n, dtype=np.float64)
    out = np.empty(n, dtype=np.float64)
    other = np.empty(n, dtype=np.float64)
    trial = np.empty(n, dtype=np.float64)
    gained, added = 0.0, 0
    loss = _losses(demand, home, tree, node, way, limits, clients, price, work, near, out)
    order = np.argsort(loss[clients], kind="mergesort")
    for c in clients:
        here = home[c]
        _own_prices(demand, home, tree, node, way, limits, c, price, work, near, out)
        best = -1
        for b in range(n):
            full = loads.sent[b] + limits.sent[c] > limits.sent_cap[b] * (1 + 1e-12) + 1e-9
            if b != here and full and limits.may[limits.group[c], b] and (best < 0 or out[b] < out[best]):
                best = b
        if best < 0 or out[best] >= out[here] - 1e-9:
            continue
        wins = out[here] - out[best]
        spare = limits.sent_cap[best] * (1 + 1e-12) + 1e-9 - loads.sent[best] - limits.sent[c]
        chosen, place, most = -1, -1, 1e-9
        before, tried = -np.inf, 0
        for i in order:  # those at the full broker that lose least by leaving
            d = clients[i]
            if loss[d] > wins or tried == TRIED:
                break
            if home[d] != best or d == c or limits.sent[d] < -spare or loss[d] <= before:
                continue
            before = loss[d]
            tried += 1
            home[c] = best
            _own_prices(demand, home, tree, node, way, limits, d, price, work, near, other)
            home[c] = here
            for b in range(n):
                if b == best or not limits.may[limits.group[d], b]:
                    continue
                held = loads.sent[b] + limits.sent[d] - (limits.sent[c] if b == here else 0.0)
                if held > limits.sent_cap[b] * (1 + 1e-12) + 1e-9:
                    continue
                if added + _added(limits, c, here, best) + _added(limits, d, best, b) > room:
                    continue
                if wins + other[best] - other[b] > most:
                    chosen, place, most = d, b, wins + other[best] - other[b]
        if chosen < 0:
            continue
        if capped:
            trial[:] = loads.handled
            add_client(demand, home, tree, c, -1.0, trial, work)
            home[c] = best
            add_client(demand, home, tree, c, 1.0, trial, work)
            add_client(demand, home, tree, chosen, -1.0, trial, work)
            home[chosen] = place
            add_client(demand, home, tree, chosen, 1.0, trial, work)
            if not fits(trial, limits.handled_cap):
                home[c], home[chosen] = here, best
                continue
            loads.handled[:] = trial
        home[c], home[chosen] = best, place
        loads.sent[here] -= limits.sent[c]
        loads.sent[best] += limits.sent[c] - limits.sent[chosen]
        loads.sent[place] += limits.sent[chosen]
        change = _added(limits, c, here, best) + _added(limits, chosen, best, place)
        added += change
        gained += most + price * change
    return gained, added


@kernel
def try_move(
    demand: Demand,
    home: Ints,
    tree: Tree,
    node: Floats,
    way: Floats,
    limits: Limits,
    loads: Loads,
    c: int,
    there: int,
    go: bool,
    strict: bool,
) -> tuple[bool, float]:
    """(whether it may, what it saves): a client to a broker; with `go` it goes, if it may or nothing is strict."""
    n = len(node)
    work = np.zeros((6, max(n, 1)), dtype=np.int64)
    near = np.zeros(2 * n, dtype=np.float64)
    out = np.empty(n, dtype=np.float64)
    here = home[c]
    prices(demand, home, tree, node, way, c, work, near, out)
    row = limits.access[limits.group[c]]
    gain = out[here] - out[there] + (row[here] - row[there]) * limits.amount[c]
    if not go:
        return True, gain
    trial = loads.handled.copy()
    add_client(demand, home, tree, c, -1.0, trial, work)
    home[c] = there
    add_client(demand, home, tree, c, 1.0, trial, work)
    room = loads.sent[there] + limits.sent[c] <= limits.sent_cap[there] * (1 + 1e-12) + 1e-9
    if strict and not (room and fits(trial, limits.handled_cap)):
        home[c] = here
        return False, gain
    loads.handled[:] = trial
    loads.sent[here] -= limits.sent[c]
    loads.sent[there] += limits.sent[c]
    return True, gain
