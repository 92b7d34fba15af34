"""Annealing: changes are drawn at random, and one that costs more is taken too, the less often the colder it is.

A client is drawn and goes where chance puts it, cheap brokers more often: all brokers are priced at once, so no draw
is in vain. Two clients trade places. A link to a broker nearby is put in and another one on the ring that it closes
is taken out. Every change has the price at which the budget ran out, so what was bought early can be given up. It
begins at the best state that is known and remembers the best that it meets; budget and limits hold all the time.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import NamedTuple

import numpy as np

from overlace.arrays.hashing import mix
from overlace.arrays.jit import Bools, Floats, Ints, Pairs, kernel
from overlace.joint.problem import Problem, talking
from overlace.joint.rehome import Desk, Limits, Loads, added_by, full, new_desk, own_prices
from overlace.joint.search import TINY, Budget, Kind, Search, State, by_cost
from overlace.joint.state import Demand, Seats, Tree, add_client, bill, fits, rooted, seat

HOT, COOLS = 1.0, 0.02
"""What a change may cost at first with a chance of 1 in e, as a share of what a client pays, and what of it at last."""
LONG, LEAST = 2_000, 0.05
"""Draws for each client that so much heat needs to cool again; with fewer it begins colder, down to this share."""
HARDLY = 1e-6
"""The share of what a client pays that a change must save to stay in the plan."""
SEEDS = (1 << 63) - 1
NEAR = 8
"""Brokers of which a new link leads to one, the nearest most often."""
LINKS, EXCHANGES = 0.15, 0.25
"""Shares of the draws that are about a link, and about two clients."""


class Given(NamedTuple):
    """What does not change while it anneals."""

    demand: Demand
    wire: Floats
    near: Ints  # (brokers, NEAR): by the cost of a link
    node: Floats
    first: Bools  # links as they were
    fixed: Bools
    max_degree: Ints
    movable: Ints
    limits: Limits
    capped: bool
    apart: bool  # whether what passes brokers is counted by other classes than what is paid for
    move_price: float
    swap_price: float
    marginal: float  # what a change counts besides, but does not cost
    most: tuple[int, int, int]  # clients moved, links changed, both


class Now(NamedTuple):
    """Where it is, and the best that it met; changed in place."""

    seats: Seats
    links: Pairs
    tree: Tree
    loads: Loads
    cost: Floats  # now, the least, and what of it now is not for the ways of messages
    changed: Ints  # clients, links
    best_home: Ints
    best_links: Pairs
    state: Ints  # of the random numbers


def annealed(search: Search, best: State, budget: Budget, kinds: tuple[Kind, ...], draws: int, seed: int) -> State:
    """The best state after so many draws, improved as far as single changes go."""
    p = search.problem
    each = best.cost / max(1, len(talking(p.demand)))
    if draws < 1 or len(best.links) < 1 or not each > 0:
        return best
    now, draw = opened(search, best, budget, kinds, seed)
    hot = HOT * each * float(np.clip(draws / (LONG * max(1, len(p.movable))), LEAST, 1.0))
    draw(draws, hot, COOLS)
    search.goto(State(now.best_home, now.best_links))
    search.descend(HARDLY * each, budget, kinds)  # whoever went astray on equal terms goes home
    search.descend(0.0, budget, kinds, trade=True)
    return min(best, search.state(), key=by_cost)


def opened(
    search: Search, best: State, budget: Budget, kinds: tuple[Kind, ...], seed: int
) -> tuple[Now, Callable[[int, float, float], None]]:
    """(where it is, a function that draws so many changes while it cools from a heat to heat x cooling)."""
    search.goto(best)
    clients = "clients" in kinds and len(search.problem.movable) > 0 and min(budget.moves, budget.both) > 0
    links = "links" in kinds and search.problem.rewires and min(budget.swaps, budget.both) > 0
    shares = (LINKS * links if clients else 1.0, EXCHANGES * clients)
    given = _given(search.problem, search.marginal, budget)
    besides = search.cost - bill(search.problem.demand, search.home, search.tree, search.problem.node)[0]
    figures = np.array([search.cost, search.cost, besides]), np.array([search.moved, search.swapped])
    kept = best.home.copy(), best.links.copy(), np.array([seed & SEEDS], dtype=np.int64)
    now = Now(search.seats, search.links.copy(), search.tree, search.loads, *figures, *kept)
    return now, lambda draws, heat, cooling: anneal(given, now, draws, heat, cooling, shares)


def _given(p: Problem, marginal: float, budget: Budget) -> Given:
    apart = np.where(np.eye(len(p.node), dtype=bool), np.inf, p.wire)
    near = np.argsort(apart, axis=1, kind="stable")[:, : min(NEAR, len(p.node) - 1)]
    return Given(
        p.demand, p.wire, near, p.node, p.first, p.fixed, p.max_degree, p.movable, p.limits, p.capped,
        p.load is not p.demand,
        p.move_price + p.least, p.swap_price + p.least, marginal, (budget.moves, budget.swaps, budget.both),
    )  # fmt: skip


@kernel
def anneal(given: Given, now: Now, draws: int, hot: float, cooling: float, shares: tuple[float, float]) -> None:
    """Draw changes while it cools from `hot` to hot x cooling."""
    desk = new_desk(len(given.node))
    for i in range(draws):
        heat = hot * cooling ** (i / draws)
        kind = _random(now)
        if kind < shares[0]:
            _draw_link(given, now, heat)
        elif kind < shares[0] + shares[1]:
            _draw_exchange(given, now, heat, desk)
        else:
            _draw_client(given, now, heat, desk)
        if now.cost[0] < now.cost[1] * (1 - TINY):
            now.cost[1] = now.cost[0]
            now.best_home[:] = now.seats.home
            now.best_links[:] = now.links


@kernel
def _random(now: Now) -> float:
    """The next draw in [0, 1)."""
    drawn = mix(np.uint64(now.state[0]))
    now.state[0] = np.int64(drawn >> np.uint64(1))
    return float((drawn >> np.uint64(11)) * 2.0**-53)


@kernel
def _taken(now: Now, more: float, heat: float) -> bool:
    """Whether a change is taken that costs more."""
    return bool(more <= 0.0 or _random(now) < math.exp(-more / heat))


@kernel
def _room(given: Given, now: Now, kind: int) -> int:
    """How many more clients (0) or links (1) may change."""
    return int(min(given.most[kind] - now.changed[kind], given.most[2] - now.changed[0] - now.changed[1]))


@kernel
def _access(limits: Limits, c: int, here: int, there: int) -> float:
    """What the way to another home costs a client more."""
    row = limits.access[limits.group[c]]
    return float((row[there] - row[here]) * limits.amount[c])


@kernel
def _draw_client(given: Given, now: Now, heat: float, desk: Desk) -> None:
    """A client goes to a broker by chance, to a cheap one more often."""
    limits, seats, loads = given.limits, now.seats, now.loads
    c = given.movable[int(_random(now) * len(given.movable))]
    here, room = seats.home[c], _room(given, now, 0)
    if here == limits.first[c] and room <= 0:
        return
    out, chance = desk.out, desk.other
    price = given.move_price + given.marginal
    own_prices(given.demand, seats, now.tree, given.node, limits, c, price, desk, out)
    least = out[here]
    for b in range(len(out)):
        may = limits.may[limits.group[c], b] and not full(limits, loads, b, limits.sent[c])
        chance[b] = 1.0 if b == here or may else 0.0
        if chance[b] > 0.0:
            least = min(least, out[b])
    total = 0.0
    for b in range(len(out)):
        if chance[b] > 0.0:
            chance[b] = math.exp((least - out[b]) / heat)
            total += chance[b]
    drawn, there = _random(now) * total, here
    for b in range(len(out)):
        drawn -= chance[b]
        if drawn < 0.0:
            there = b
            break
    change = added_by(limits, c, here, there)
    if there == here or change > room:
        return
    if given.capped:
        desk.trial[:] = loads.handled
        add_client(loads.demand, loads.seats, now.tree, c, -1.0, desk.trial, desk.work)
    seat(given.demand, seats, c, there)
    if given.capped:
        add_client(loads.demand, loads.seats, now.tree, c, 1.0, desk.trial, desk.work)
        if not fits(desk.trial, limits.handled_cap):
            seat(given.demand, seats, c, here)
            return
        loads.handled[:] = desk.trial
    loads.sent[here] -= limits.sent[c]
    loads.sent[there] += limits.sent[c]
    now.changed[0] += change
    now.cost[0] += out[there] - out[here] - given.marginal * change
    now.cost[2] += _access(limits, c, here, there) + given.move_price * change


@kernel
def _draw_exchange(given: Given, now: Now, heat: float, desk: Desk) -> None:
    """Two clients of two brokers trade places."""
    limits, seats, loads, demand = given.limits, now.seats, now.loads, given.demand
    c = given.movable[int(_random(now) * len(given.movable))]
    d = given.movable[int(_random(now) * len(given.movable))]
    here, there = seats.home[c], seats.home[d]
    if here == there or not (limits.may[limits.group[c], there] and limits.may[limits.group[d], here]):
        return
    more = limits.sent[c] - limits.sent[d]
    if (more > 0 and full(limits, loads, there, more)) or (more < 0 and full(limits, loads, here, -more)):
        return
    change = added_by(limits, c, here, there) + added_by(limits, d, there, here)
    if change > _room(given, now, 0):
        return
    price = given.move_price + given.marginal
    own_prices(demand, seats, now.tree, given.node, limits, c, price, desk, desk.out)
    paid = desk.out[there] - desk.out[here]
    seat(demand, seats, c, there)
    own_prices(demand, seats, now.tree, given.node, limits, d, price, desk, desk.out)
    paid += desk.out[here] - desk.out[there]
    taken = _taken(now, paid, heat)
    if taken and given.capped:
        seat(demand, seats, c, here)
        desk.trial[:] = loads.handled
        add_client(loads.demand, loads.seats, now.tree, c, -1.0, desk.trial, desk.work)
        seat(demand, seats, c, there)
        add_client(loads.demand, loads.seats, now.tree, c, 1.0, desk.trial, desk.work)
        add_client(loads.demand, loads.seats, now.tree, d, -1.0, desk.trial, desk.work)
        seat(demand, seats, d, here)
        add_client(loads.demand, loads.seats, now.tree, d, 1.0, desk.trial, desk.work)
        taken = fits(desk.trial, limits.handled_cap)
        if taken:
            loads.handled[:] = desk.trial
        else:
            seat(demand, seats, d, there)
    if not taken:
        seat(demand, seats, c, here)
        return
    if not given.capped:
        seat(demand, seats, d, here)
    loads.sent[here] -= more
    loads.sent[there] += more
    now.changed[0] += change
    now.cost[0] += paid - given.marginal * change
    now.cost[2] += _access(limits, c, here, there) + _access(limits, d, there, here) + given.move_price * change


@kernel
def _draw_link(given: Given, now: Now, heat: float) -> None:
    """A link to a broker nearby comes, one on the ring that it closes goes."""
    tree, n = now.tree, len(given.node)
    x = int(_random(now) * n)
    y = given.near[x, int(_random(now) ** 2 * given.near.shape[1])]
    if not given.wire[x, y] < np.inf or tree.parent[x] == y or tree.parent[y] == x:
        return
    gone, seen = -1, 0
    a, b = x, y
    while a != b:
        if tree.depth[a] < tree.depth[b]:
            a, b = b, a
        if not given.fixed[a, tree.parent[a]]:
            seen += 1
            if _random(now) * seen < 1.0:
                gone = a
        a = tree.parent[a]
    if gone < 0:
        return
    up = tree.parent[gone]
    for v in (x, y):
        if tree.degree[v] + 1 - (1 if v in (gone, up) else 0) > given.max_degree[v]:
            return
    change = (0 if given.first[x, y] else 1) - (0 if given.first[gone, up] else 1)
    if change > _room(given, now, 1):
        return
    row = 0
    while not (now.links[row, 0] == min(gone, up) and now.links[row, 1] == max(gone, up)):
        row += 1
    now.links[row, 0], now.links[row, 1] = min(x, y), max(x, y)
    grown = rooted(now.links, given.wire)
    after, handled = bill(given.demand, now.seats.home, grown, given.node)
    if given.apart:
        _, handled = bill(now.loads.demand, now.seats.home, grown, given.node)
    more = after - (now.cost[0] - now.cost[2]) + given.swap_price * change
    holds = not given.capped or fits(handled, given.limits.handled_cap)
    if not holds or not _taken(now, more + given.marginal * change, heat):
        now.links[row, 0], now.links[row, 1] = min(gone, up), max(gone, up)
        return
    tree.parent[:], tree.up[:], tree.order[:] = grown.parent, grown.up, grown.order
    tree.depth[:], tree.degree[:] = grown.depth, grown.degree
    now.loads.handled[:] = handled
    now.changed[1] += change
    now.cost[0] += more
    now.cost[2] += given.swap_price * change
