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

from overlace.arrays.draws import draw, drawing
from overlace.arrays.jit import COLD, Bools, Floats, Ints, Pairs, by_address, kernel
from overlace.arrays.vectors import copy_to
from overlace.planners.search.limits import added_by, excess, fits, priced
from overlace.planners.search.problem import SearchProblem, talking
from overlace.planners.search.system import (
    System,
    Tree,
    find_open,
    full,
    hang,
    prices,
    root_tree,
    seat,
    shift,
    traffic_cost,
    undo,
    work_of,
)
from overlace.planners.search.walk import TINY, Budget, Kind, Search, State, by_cost
from overlace.planners.search.wires import Wires, nearest, price_of
from overlace.stopping import asked

HOT, COOLS = 1.0, 0.02
"""What a change may cost at first with a chance of 1 in e, as a share of what a client pays, and what of it at last."""
COLDER, DEARER, BLIND = 0.003, 4.0, 0.2
"""Where loads are above what they should be: what is left of the heat at last, how much more each message too many
costs, and the share of clients that are drawn to any broker."""
LONG, LEAST = 2_000, 0.05
"""Draws for each client that so much heat needs to cool again; with fewer it begins colder, down to this share."""
HARDLY = 1e-6
"""The share of what a client pays that a change must save to stay in the plan."""
NEAR = 8
"""Brokers of which a new link leads to one, the nearest most often."""
SOFT = 1.0
"""What a message more than a broker may handle costs at first, in links; it rises as heat falls."""
LINKS, EXCHANGES = 0.15, 0.25
"""Shares of the draws that are about a link, and about two clients."""


AT_ONCE = 20_000
"""Draws between two looks at whether somebody wants it to end."""


class Cooling(NamedTuple):
    """How hot it is at first, what of that is left at last, and what a message too many costs at first."""

    hot: float
    share: float
    fine: float


@by_address
class Given(NamedTuple):
    """What does not change while it anneals."""

    wires: Wires
    near: Ints  # (brokers, NEAR): by the cost of a link
    parent: Ints  # the tree as it was
    stays: Bools
    max_degree: Ints
    movable: Ints
    apart: bool  # whether what passes brokers is counted by other classes than what is paid for
    move_price: float
    swap_price: float
    marginal: float  # what a change counts besides, but does not cost
    most: tuple[int, int, int]  # clients moved, links changed, both
    handled_cap: Floats  # what must hold where it ends; on the way what is above costs


@by_address
class Walk(NamedTuple):
    """Where it is, and the best that it met; changed in place."""

    system: System
    spare: Tree  # another one, to try a link
    links: Pairs
    cost: Floats  # now, the least, and what of it now is not for the ways of messages
    changed: Ints  # clients, links
    best_home: Ints
    best_links: Pairs
    random: Ints  # the state of draws
    over: Floats  # by how much what is handled is above what it should be: now, and at the best


def anneal_state(search: Search, best: State, budget: Budget, kinds: tuple[Kind, ...], draws: int, seed: int) -> State:
    """The best state after so many draws, improved as far as single changes go."""
    p = search.problem
    each = best.cost / max(1, len(talking(p.demand)))
    if draws < 1 or len(best.links) < 1 or not each > 0:
        return best
    now, run = start_annealing(search, best, budget, kinds, seed)
    hot = HOT * each * float(np.clip(draws / (LONG * max(1, len(p.movable))), LEAST, 1.0))
    run(draws, hot, COOLS if not best.over > 0.0 else COLDER)
    search.goto(State(now.best_home, now.best_links))
    search.descend(HARDLY * each, budget, kinds)  # whoever went astray on equal terms goes home
    search.descend(0.0, budget, kinds, trade=True)
    return min(best, search.state(), key=by_cost)


def start_annealing(
    search: Search, best: State, budget: Budget, kinds: tuple[Kind, ...], seed: int
) -> tuple[Walk, Callable[[int, float, float], None]]:
    """(where it is, a function that draws so many changes while it cools from a heat to heat x cooling)."""
    search.goto(best)
    clients = "clients" in kinds and len(search.problem.movable) > 0 and min(budget.moves, budget.both) > 0
    links = "links" in kinds and search.problem.rewires and min(budget.swaps, budget.both) > 0
    shares = (LINKS * links if clients else 1.0, EXCHANGES * clients)
    given = _given(search.problem, search.marginal, budget)
    p, area = search.problem, search.problem.limits.area
    besides = (
        search.cost - traffic_cost(p.demand, search.home, search.tree, p.node, area, len(search.system.loads.sent))[0]
    )
    system = search.system._replace(limits=search.system.limits._replace(handled_cap=p.handled_goal))
    over = np.full(2, excess(system.loads.handled, p.handled_goal) if p.capped else 0.0)
    now = Walk(
        system=system,
        spare=root_tree(search.links, p.wires),
        links=search.links.copy(),
        cost=np.array([search.cost, search.cost, besides]),
        changed=np.array([search.moved, search.swapped]),
        best_home=best.home.copy(),
        best_links=best.links.copy(),
        random=drawing(seed),
        over=over,
    )

    def run(draws: int, hot: float, cooling: float) -> None:
        tree, brokers = now.system.tree, len(now.system.node)
        link = sum((tree.up[tree.order[1:brokers]] / brokers).tolist())
        cools = Cooling(hot, cooling, (DEARER if now.over[0] > 0.0 else 1.0) * SOFT * link)
        for begin in range(0, draws, AT_ONCE):
            if asked():
                break
            anneal(given, now, (begin, min(begin + AT_ONCE, draws), draws), cools, shares)

    return now, run


def _given(p: SearchProblem, marginal: float, budget: Budget) -> Given:
    return Given(
        wires=p.wires,
        near=nearest(p.wires, min(NEAR, len(p.node) - 1)),
        parent=p.parent,
        stays=p.stays,
        max_degree=p.max_degree,
        movable=p.movable,
        apart=p.load is not p.demand,
        move_price=p.move_price + p.least,
        swap_price=p.swap_price + p.least,
        marginal=marginal,
        most=(budget.moves, budget.swaps, budget.both),
        handled_cap=p.limits.handled_cap,
    )


@kernel(work=lambda given, now, draws, *_: work_of(now.system, draws[2]), brief=COLD)
def anneal(given: Given, now: Walk, draws: tuple[int, int, int], cooling: Cooling, shares: tuple[float, float]) -> None:
    """Draw changes from one to another of so many, while it cools.

    What brokers handle may be above its limits on the way, at a price that rises as it cools.
    """
    begin, end, total = draws
    for i in range(begin, end):
        heat = cooling.hot * cooling.share ** (i / total)
        fine = cooling.fine * (cooling.hot / heat)
        kind = draw(now.random)
        if kind < shares[0]:
            _draw_link(given, now, heat, fine)
        elif kind < shares[0] + shares[1]:
            _draw_exchange(given, now, heat, fine)
        else:
            _draw_client(given, now, heat, fine)
        if not now.over[0] > now.over[1]:
            _remember(given, now)


@kernel
def _remember(given: Given, now: Walk) -> None:
    """Keep this state if it is the best so far: nearer to what loads should be, or as near and cheaper."""
    system, home = now.system, now.system.seats.home
    if now.over[0] >= now.over[1] and not now.cost[0] < now.cost[1] * (1 - TINY):
        return
    if system.capped and not fits(system.loads.handled, given.handled_cap):
        return
    now.cost[1], now.over[1] = now.cost[0], now.over[0]
    for c in range(len(home)):
        now.best_home[c] = home[c]
    for row in range(len(now.links)):
        for side in range(2):
            now.best_links[row, side] = now.links[row, side]


@kernel
def _taken(now: Walk, more: float, heat: float) -> bool:
    """Whether a change is taken that costs more."""
    return bool(more <= 0.0 or draw(now.random) < math.exp(-more / heat))


@kernel
def _room(given: Given, now: Walk, kind: int) -> int:
    """How many more clients (0) or links (1) may change."""
    return int(min(given.most[kind] - now.changed[kind], given.most[2] - now.changed[0] - now.changed[1]))


@kernel
def _borne(now: Walk, heat: float, fine: float, paid: float, drawn: bool) -> bool:
    """Whether what brokers handle after a change is taken too; `drawn`: whether what is paid for it has been."""
    system = now.system
    over = excess(system.loads.handled, system.limits.handled_cap) if system.capped else 0.0
    more = fine * (over - now.over[0])
    if drawn and more > 0.0 and not _taken(now, more + min(0.0, paid), heat):
        return False
    if not drawn and not _taken(now, more + paid, heat):
        return False
    now.over[0] = over
    return True


@kernel
def _draw_client(given: Given, now: Walk, heat: float, fine: float) -> None:
    """A client goes to a broker by chance, to a cheap one more often."""
    system = now.system
    limits, home, out, chance = system.limits, system.seats.home, system.scratch.out, system.scratch.other
    c = given.movable[int(draw(now.random) * len(given.movable))]
    here, room = home[c], _room(given, now, 0)
    if here == limits.first[c] and room <= 0:
        return
    prices(system, c, given.move_price + given.marginal, out)
    find_open(system, c, room)
    open_to = system.scratch.open
    open_to[here] = True
    blind = now.over[1] > 0.0 and draw(now.random) < BLIND  # what costs more may yet relieve a broker
    least = out[here]
    for b in range(len(out)):
        if open_to[b]:
            least = min(least, out[b])
    total = 0.0
    for b in range(len(out)):
        chance[b] = 0.0
        if open_to[b] and blind:
            chance[b] = 1.0
        elif open_to[b] and out[b] - least < 40.0 * heat:
            chance[b] = math.exp((least - out[b]) / heat)
        total += chance[b]
    drawn, there = draw(now.random) * total, here
    for b in range(len(out)):
        drawn -= chance[b]
        if drawn < 0.0:
            there = b
            break
    change = added_by(limits, c, here, there)
    if there == here or change > room:
        return
    paid = out[there] - out[here]
    system.scratch.who[0], system.scratch.to[0] = c, there
    shift(system, 1)
    if not _borne(now, heat, fine, paid if blind else 0.0, not blind):
        undo(system, 1)
        return
    _count(given, now, change, paid, priced(limits, c, there, 0.0) - priced(limits, c, here, 0.0))


@kernel
def _count(given: Given, now: Walk, change: int, paid: float, besides: float) -> None:
    """Write down what a change of homes costs."""
    now.changed[0] += change
    now.cost[0] += paid - given.marginal * change
    now.cost[2] += besides + given.move_price * change


@kernel
def _draw_exchange(given: Given, now: Walk, heat: float, fine: float) -> None:
    """Two clients of two brokers trade places."""
    system = now.system
    limits, seats, out = system.limits, system.seats, system.scratch.out
    c = given.movable[int(draw(now.random) * len(given.movable))]
    d = given.movable[int(draw(now.random) * len(given.movable))]
    here, there = seats.home[c], seats.home[d]
    if here == there or not (limits.may[limits.group[c], there] and limits.may[limits.group[d], here]):
        return
    more = limits.sent[c] - limits.sent[d]
    if full(system, here, there, more) or full(system, there, here, -more):
        return
    change = added_by(limits, c, here, there) + added_by(limits, d, there, here)
    if change > _room(given, now, 0):
        return
    price = given.move_price + given.marginal
    prices(system, c, price, out)
    paid = out[there] - out[here]
    seat(system.demand, seats, c, there)
    prices(system, d, price, out)
    paid += out[here] - out[there]
    seat(system.demand, seats, c, here)
    if not _taken(now, paid, heat):
        return
    system.scratch.who[0], system.scratch.to[0] = c, there
    system.scratch.who[1], system.scratch.to[1] = d, here
    shift(system, 2)
    if not _borne(now, heat, fine, paid, True):
        undo(system, 2)
        return
    besides = priced(limits, c, there, 0.0) - priced(limits, c, here, 0.0)
    besides += priced(limits, d, here, 0.0) - priced(limits, d, there, 0.0)
    _count(given, now, change, paid, besides)


@kernel
def _fresh(given: Given, a: int, b: int) -> int:
    """1 for a link that was not there, 0 for one that was."""
    return 0 if given.parent[a] == b or given.parent[b] == a else 1


@kernel
def _stays(given: Given, a: int, b: int) -> bool:
    """Whether a link must stay."""
    if given.parent[a] == b:
        return bool(given.stays[a])
    return bool(given.parent[b] == a and given.stays[b])


@kernel
def _draw_link(given: Given, now: Walk, heat: float, fine: float) -> None:
    """A link to a broker nearby comes, one on the ring that it closes goes."""
    system = now.system
    tree, limits, n = system.tree, system.limits, len(system.node)
    x = int(draw(now.random) * n)
    y = given.near[x, int(draw(now.random) ** 2 * given.near.shape[1])]
    if x == y or not price_of(given.wires, x, y) < np.inf or tree.parent[x] == y or tree.parent[y] == x:
        return
    gone, seen = -1, 0
    a, b = x, y
    while a != b:
        if tree.depth[a] < tree.depth[b]:
            a, b = b, a
        if not _stays(given, a, tree.parent[a]):
            seen += 1
            if draw(now.random) * seen < 1.0:
                gone = a
        a = tree.parent[a]
    if gone < 0:
        return
    up = tree.parent[gone]
    for v in (x, y):
        if tree.degree[v] + 1 - (1 if v in (gone, up) else 0) > given.max_degree[v]:
            return
    change = _fresh(given, x, y) - _fresh(given, gone, up)
    if change > _room(given, now, 1):
        return
    row = 0
    while not (now.links[row, 0] == min(gone, up) and now.links[row, 1] == max(gone, up)):
        row += 1
    now.links[row, 0], now.links[row, 1] = min(x, y), max(x, y)
    grown, home = now.spare, system.seats.home
    hang(grown, now.links, given.wires)
    after, handled = traffic_cost(system.demand, home, grown, system.node, limits.area, len(system.loads.handled))
    if given.apart:
        _, handled = traffic_cost(system.loads.demand, home, grown, system.node, limits.area, len(handled))
    more = after - (now.cost[0] - now.cost[2]) + given.swap_price * change
    over = excess(handled, limits.handled_cap) if system.capped else 0.0
    if not _taken(now, more + given.marginal * change + fine * (over - now.over[0]), heat):
        now.links[row, 0], now.links[row, 1] = min(gone, up), max(gone, up)
        return
    hang(tree, now.links, given.wires)
    copy_to(system.loads.handled, handled)
    now.over[0] = over
    now.changed[1] += change
    now.cost[0] += more
    now.cost[2] += given.swap_price * change
