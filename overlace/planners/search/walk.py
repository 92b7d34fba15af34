"""The search: local changes at a price each, which falls until the budget of changes is used.

At a price, clients are re-homed and links replaced as long as that saves more than the changes cost; undoing a
change earns its price back, so what was bought early can be given up for something better. The price falls by a
factor until nothing more fits the budget; then it swings up and down a few times around where it ended, and the
best state within the budget is kept.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Literal, NamedTuple

import numpy as np

from overlace.arrays.jit import Floats, Ints, Pairs
from overlace.arrays.wiring import links_of
from overlace.planners.search.clients import chain, exchange, partners, relieve, sweep
from overlace.planners.search.groups import NO_GROUPS, groups_of, move_groups, pack_groups, return_groups
from overlace.planners.search.limits import excess, fits
from overlace.planners.search.links import Rules, SearchTree, best_swap, descend, stand, steepest, swap
from overlace.planners.search.problem import SearchProblem, sent_at
from overlace.planners.search.spans import Spans, spans_of
from overlace.planners.search.system import (
    System,
    SystemLoads,
    Tree,
    new_scratch,
    reach_of,
    root_tree,
    scan_seats,
    seat_all,
    traffic_cost,
)

Kind = Literal["clients", "links"]
FALL = 0.75, 0.5
"""What is left of the price from one level to the next, in small and in large systems."""
ENOUGH = 1e-9, 1e-3
"""The share of the cost that a round must save for another one to follow."""
ROUND = 1e-9, 1e-4
"""The share of the cost that a visit of clients must save for their partners to be visited too, and in the largest."""
SWINGS = (1.6, 1.3, 1.15, 2.0), (1.5,)
SMALL = 9_000
"""Brokers times clients up to which the price falls slowly and swings several times."""
MIDDLE = 200_000
"""Brokers times clients above which it makes the largest steps."""
SHARE = 4.0, 1.0
"""How long to look at groups, times as long as at every client alone, in small and in large systems."""
STEEP = 128
"""Brokers up to which the best swap of all is taken; above, the best one of each link in turn."""
MANY = 2_000
"""Brokers above which links alone are not replaced at a falling price."""
TRIED = 8  # of the best swaps, where brokers cannot handle what the first would bring
TINY = 1e-9
FAR = 0.5
"""What is left of the cost of a state where another is far better."""
RISE = 1.5, 2.0
"""How the price rises from one level to the next where changes are undone, and in the largest systems."""
NO_LIMIT = 1 << 60


@dataclass(frozen=True)
class State:
    """A system on the way: homes and links, what they cost (prices of changes included), and the changes."""

    home: Ints
    links: Pairs
    cost: float = 0.0
    moved: int = 0
    swapped: int = 0
    over: float = 0.0  # what loads are above what they should be
    lawful: bool = True  # whether no load is above its limit

    @property
    def changes(self) -> int:
        """Clients moved and links changed."""
        return self.moved + self.swapped


class Budget(NamedTuple):
    """How many clients may move, how many links may change, and how many of both together."""

    moves: int = NO_LIMIT
    swaps: int = NO_LIMIT
    both: int = NO_LIMIT

    def used(self, state: State) -> bool:
        """Whether nothing more can be changed."""
        return state.changes >= self.both or (state.moved >= self.moves and state.swapped >= self.swaps)

    def holds(self, state: State) -> bool:
        """Whether no more has changed than may."""
        return state.changes <= self.both and state.moved <= self.moves and state.swapped <= self.swaps


NO_BUDGET = Budget()


class Search:
    """Walks from state to state; what follows from a state is kept beside it."""

    def __init__(self, problem: SearchProblem, communities: Sequence[Ints] = ()) -> None:
        self.problem = problem
        self.large, self.huge = (size_of(problem) > most for most in (SMALL, MIDDLE))
        self.starts, self.groups = communities[-1:] if self.large else communities[-2:], NO_GROUPS
        if len(communities):
            self.groups = groups_of(problem.demand, problem.movable, communities, SHARE[self.large])
        self._spans: tuple[Ints, Spans] | None = None
        self._reach: Floats | None = None
        clients = len(problem.limits.first)
        loads = len(problem.limits.sent_cap)
        self.scratch = new_scratch(len(problem.node), loads, len(problem.demand.demand), clients)
        self.goto(State(problem.limits.first.copy(), problem.links))
        self.first = self.state()
        self.marginal = 0.0  # the price of a change at which the last path ran out of budget
        self.spare = self.first  # the best state that the last path met

    def goto(self, state: State) -> None:
        """Take up a state."""
        self._traded = self.problem.limits.first
        self.seats = seat_all(self.problem.demand, state.home.copy(), len(self.problem.node))
        self.rewire(state.links)
        self._count()

    @property
    def home(self) -> Ints:
        """The home of each client now."""
        return self.seats.home

    def state(self) -> State:
        """Where the search is."""
        return State(self.home.copy(), self.links, self.cost, self.moved, self.swapped, self.over, self.lawful)

    @property
    def reach(self) -> Floats:
        """What the way from the farthest broker to each costs."""
        if self._reach is None:
            self._reach = reach_of(self.tree, self.problem.node)
        return self._reach

    def rewire(self, links: Pairs) -> None:
        """Take up other links; `goto` or `descend` must follow."""
        self.links = links
        self.tree: Tree = root_tree(links, self.problem.wires)
        self._reach = None

    def _count(self) -> None:
        p = self.problem
        limits = p.limits
        loads = len(limits.sent_cap)
        routed, handled = traffic_cost(p.demand, self.home, self.tree, p.node, limits.area, loads)
        seats = self.seats
        if p.load is not p.demand:
            handled = traffic_cost(p.load, self.home, self.tree, p.node, limits.area, loads)[1]
            seats = scan_seats(p.load, self.home)
        sent = sent_at(limits, self.home)
        self.over = excess(sent, p.sent_goal) + (excess(handled, p.handled_goal) if p.capped else 0.0)
        self.lawful = fits(sent, limits.sent_cap) and (not p.capped or fits(handled, limits.handled_cap))
        if self.over > 0:  # what is above its goal must not grow, and what has fallen stays down
            caps = np.maximum(p.sent_goal, sent), np.maximum(p.handled_goal, handled)
            limits = limits._replace(sent_cap=caps[0], handled_cap=caps[1])
        else:
            limits = limits._replace(sent_cap=p.sent_goal, handled_cap=p.handled_goal)
        self.system = System(
            p.demand,
            self.seats,
            self.tree,
            p.node,
            limits,
            SystemLoads(sent, handled, p.load, seats),
            self.scratch,
            p.capped,
        )
        place, first = limits.place, limits.first
        self.moved = int((place[self.home] != place[first]).sum())
        self.swapped = int((~p.is_first(self.links)).sum())
        left = limits.leave * int((limits.region[self.home] != limits.region[first]).sum())
        access = limits.access[limits.group, self.home] * limits.amount
        paid = (p.move_price + p.least) * self.moved + (p.swap_price + p.least) * self.swapped
        self.cost = float(routed + access.sum()) + left + paid

    def routed(self) -> float:
        """What the ways of all messages cost now."""
        p = self.problem
        return float(traffic_cost(p.demand, self.home, self.tree, p.node, p.limits.area, len(p.limits.sent_cap))[0])

    def descend(
        self, price: float, budget: Budget, kinds: tuple[Kind, ...], trade: bool = False, groups: bool = True
    ) -> None:
        """Improve until no change pays its price, or in large systems until a round brings hardly anything.

        Groups are looked at first, once; in the largest systems pairs trade places where something has changed since.
        """
        before = np.inf
        while True:
            if self.over > 0 and "clients" in kinds:
                self._relieve(price, budget)
            pays = self.cost + price * (self.moved + self.swapped)
            if before - pays <= ENOUGH[self.large] * max(1.0, self.cost):
                return
            before, going = pays, False
            if "clients" in kinds:
                going |= self._rehome(price, budget, trade, groups)
            if "links" in kinds:
                going |= self._regraft(price, budget)
            if not going or kinds == ("links",):  # links alone are replaced until none pays
                return
            groups = False

    def _relieve(self, price: float, budget: Budget) -> None:
        """Bring loads that are above what they should be nearer to it, whatever that costs."""
        p = self.problem
        room = min(budget.moves - self.moved, budget.both - self.moved - self.swapped)
        talk, sent = p.limits.talk[p.movable], p.limits.sent[p.movable]
        first = -sent if room < len(p.movable) else talk / np.maximum(sent, 1e-9)  # few moves must relieve most
        order = p.movable[np.lexsort((talk, first))]
        relieve(self.system, order, p.sent_goal, p.handled_goal, max(price, p.least) + p.move_price, room)
        self._count()

    def _rehome(self, price: float, budget: Budget, trade: bool, groups: bool) -> bool:
        p, moved = self.problem, False
        price = max(price, p.least) + p.move_price
        for way in ("group",) * groups + ("one",) + ("trade",) * trade + ("chain",) * (trade and not self.large):
            clients = p.movable
            if way == "trade" and self.huge:
                clients = partners(p.demand, np.flatnonzero(self._traded != self.home), clients)
                self._traded = self.home.copy()
            while len(clients):
                room = min(budget.moves - self.moved, budget.both - self.moved - self.swapped)
                home = self.home.copy()
                gained, added = self._visit(way, clients, price, room)
                self.moved += added
                self.cost -= gained - (p.move_price + p.least) * added
                if gained - price * added <= ROUND[self.huge] * max(1.0, self.cost):
                    break
                moved = True
                if way == "group" or (way == "trade" and self.huge):
                    break
                clients = partners(p.demand, np.flatnonzero(home != self.home), p.movable)
        if moved:
            self._count()
        return moved

    def _visit(self, way: str, clients: Ints, price: float, room: int) -> tuple[float, int]:
        """(gain, changes added): these clients re-homed one by one, or exchanged with any other, or groups moved."""
        if way == "trade":
            return exchange(self.system, clients, self.problem.movable, price, room)
        if way == "chain":
            return chain(self.system, clients, self.problem.movable, price, room)
        if way == "group":
            return move_groups(self.system, self.reach, self.groups, price, room)
        return sweep(self.system, self.reach, clients, price, room)

    def _regraft(self, price: float, budget: Budget) -> bool:
        """Replace links as long as that pays; where brokers can handle only so much, one by one."""
        p = self.problem
        room = min(budget.swaps - self.swapped, budget.both - self.moved - self.swapped)
        if not p.rewires:
            return False
        rules = self.rules(self.swapped + room, max(price, p.least) + p.swap_price)
        spans, least = self.spans(), TINY * max(1.0, self.cost)
        standing: SearchTree = stand(spans, self.links, rules)
        if p.capped:
            moved = self._swap_within(spans, standing, rules, least)
        else:
            steep = len(p.node) <= STEEP
            few = rules.most < len(self.links)
            saved = steepest(spans, standing, rules, least, steep) if steep or few else 0.0
            moved = saved + descend(spans, standing, rules, least, True) > 0.0
        if moved:
            self.rewire(links_of(standing.wiring))
            self._count()
        return moved

    def rules(self, most: int, fee: float) -> Rules:
        """What a search for links must keep to, from where it is."""
        p = self.problem
        return Rules(p.must_stay(self.links), p.max_degree, p.parent, most, fee)

    def spans(self) -> Spans:
        """What each class spans; found again only where clients have moved."""
        if self._spans is None or not np.array_equal(self._spans[0], self.home):
            self._spans = self.home.copy(), home_spans(self.problem, self.home)
        return self._spans[1]

    def _swap_within(self, spans: Spans, standing: SearchTree, rules: Rules, least: float) -> bool:
        """Carry out the best swaps that keep what brokers handle within their limits."""
        moved, links, vain = False, self.links, 0
        while vain < TRIED:
            slot = best_swap(spans, standing, rules, least, len(self.problem.node) <= STEEP)
            if slot < 0:
                break
            made = links.copy()
            made[slot] = np.sort(standing.found[slot, :2])
            if self.bears(made):
                swap(spans, standing, rules, slot, *made[slot].tolist())
                moved, links, vain = True, made, 0
            else:
                standing.gain[slot] = 0.0
                vain += 1
        return moved

    def bears(self, links: Pairs) -> bool:
        """Whether brokers can handle what would pass them with these links."""
        p = self.problem
        if not p.capped:
            return True
        tree, limits = root_tree(links, p.wires), p.limits
        handled = traffic_cost(p.load, self.home, tree, p.node, limits.area, len(limits.handled_cap))[1]
        return fits(handled, limits.handled_cap)

    def top_gain(self, kinds: tuple[Kind, ...]) -> float:
        """More than any one change saves: where prices start."""
        p = self.problem
        if "links" in kinds:
            return self.cost
        talk, access, amount = (each.max(initial=0.0) for each in (p.limits.talk, p.limits.access, p.limits.amount))
        return float(min(self.cost, talk * self.reach.max(initial=0.0) + access * amount))

    def path(self, budget: Budget, kinds: tuple[Kind, ...]) -> State:
        """The best state within the budget: from where it is, or back from packed communities.

        Annealing goes on from the first, unless the other is far better: it mends small faults, not large ones.
        """
        if "clients" not in kinds and (
            min(budget.swaps, budget.both) >= len(self.links) or len(self.problem.node) > MANY
        ):
            self.descend(0.0, budget, kinds)
            self.marginal, self.spare = 0.0, self.state()
            return self.spare
        if self.huge and "clients" in kinds and min(budget.moves, budget.both) >= len(self.problem.movable):
            return self._from_all(budget, kinds)
        if self.huge and "clients" in kinds and len(self.starts):
            return self._from_far(budget, kinds)
        best, marginal, links = self._fall(budget, kinds), self.marginal, self.links
        self.spare = best
        for community in self.starts if "clients" in kinds else ():
            self.goto(State(self.first.home, links))
            self.goto(State(pack_groups(self.system, community, self.problem.movable, self.problem.sent_goal), links))
            self.descend(0.0, NO_BUDGET, kinds, trade=True)
            if not by_cost(self.state()) < by_cost(replace(best, cost=FAR * best.cost)):
                self.spare = min(self.spare, self.state(), key=by_cost) if budget.holds(self.state()) else self.spare
                continue
            state = self._rise(budget, kinds, marginal)
            self.spare = min(self.spare, state, key=by_cost)
            if by_cost(state) < by_cost(replace(best, cost=FAR * best.cost)):
                best, marginal = state, self.marginal
        self.marginal = marginal
        return best

    def improve(self, state: State, budget: Budget, kinds: tuple[Kind, ...]) -> State:
        """The best state that is found from one that is known, with hardly more work than to look at it."""
        self.goto(state)
        best, each = self.state(), max(0.0, self.first.cost - self.cost) / max(1, self.moved + self.swapped)
        self.descend(0.0, budget, kinds, trade=True)
        best = min(best, self.state(), key=by_cost)
        return self._swing(best, each / 4, budget, kinds) if budget.used(best) else best

    def _from_far(self, budget: Budget, kinds: tuple[Kind, ...]) -> State:
        """In a large system back from packed communities, and from where it is only if that is no great gain."""
        begin, home = (
            self.state(),
            pack_groups(self.system, self.starts[-1], self.problem.movable, self.problem.sent_goal),
        )
        self.goto(State(home, begin.links))
        self.descend(0.0, NO_BUDGET, kinds)
        each = max(0.0, begin.cost - self.cost) / max(1, self.moved + self.swapped)
        best = self._rise(budget, kinds, each)
        marginal = self.marginal
        if not by_cost(best) < by_cost(replace(begin, cost=FAR * begin.cost)):
            self.goto(begin)
            best, marginal = min(
                (best, marginal), (self._fall(budget, kinds), self.marginal), key=lambda x: by_cost(x[0])
            )
        self.goto(best)
        self.descend(0.0, budget, kinds, trade=True)
        self.marginal, self.spare = marginal, min(best, self.state(), key=by_cost)
        return self.spare

    def _from_all(self, budget: Budget, kinds: tuple[Kind, ...]) -> State:
        """The best end from packed communities and, if that is no great gain, from where it is; changes are free."""
        begin = self.state()
        self.marginal, ends = 0.0, [begin]
        self.goto(self.first)
        starts = [pack_groups(self.system, each, self.problem.movable, self.problem.sent_goal) for each in self.starts]
        for home in (*starts, begin.home):
            if by_cost(min(ends, key=by_cost)) < by_cost(replace(begin, cost=FAR * begin.cost)):
                break
            self.goto(State(home, begin.links))
            self.descend(0.0, budget, kinds)
            ends.append(self.state())
        self.goto(min(ends, key=by_cost))
        self.descend(0.0, budget, kinds, trade=True)
        self.spare = self.state()
        return self.spare

    def _fall(self, budget: Budget, kinds: tuple[Kind, ...]) -> State:
        """Let the price fall until the budget is used, swing around there, and take the best state."""
        price, least = self.top_gain(kinds), max(self.problem.least, TINY * max(1.0, self.cost))
        best, crowded = self.state(), self.over > 0  # whoever relieves a broker moves at any price
        while price > least:
            self.descend(price, budget, kinds)
            best = min(best, self.state(), key=by_cost)
            if budget.used(best) and not crowded:
                break
            price *= FALL[self.large] if price > 1e-4 * self.first.cost else 0.1
        self.descend(0.0, budget, kinds, trade=True)
        best = min(best, self.state(), key=by_cost)
        if crowded:
            price = max(0.0, self.first.cost - best.cost) / max(1, best.changes) / 4
        self.marginal = price if budget.used(best) else 0.0
        return self._swing(best, price, budget, kinds) if budget.used(best) else best

    def _rise(self, budget: Budget, kinds: tuple[Kind, ...], price: float) -> State:
        """Let the price rise until so much is undone that the budget holds; then swing around there."""
        price = max(price / 10, 1e-6 * self.first.cost / max(1, len(self.home)))
        top = 2 * max(self.top_gain(kinds), self.first.cost)
        while not budget.holds(self.state()) and price < top:
            self._undo(price)
            self.descend(price, NO_BUDGET, kinds, groups=not self.huge)
            price *= RISE[self.huge]
        if not budget.holds(self.state()):
            return self.first
        self.descend(0.0, budget, kinds, trade=not self.huge)
        best = self.state()
        self.marginal = price if budget.used(best) else 0.0
        return self._swing(best, price, budget, kinds) if budget.used(best) and not self.huge else best

    def _undo(self, price: float) -> None:
        """Send groups home whose moves do not pay their price all together."""
        p = self.problem
        return_groups(self.system, self.groups, max(price, p.least) + p.move_price)
        self._count()

    def _swing(self, best: State, price: float, budget: Budget, kinds: tuple[Kind, ...]) -> State:
        """Let the price go up and down a few times around where the budget ran out."""
        for swing in SWINGS[self.large]:
            self.goto(best)
            high = price * swing
            while high > 0.5 * price:
                self.descend(high, budget, kinds, groups=False)
                high *= 0.7 if self.large else 0.9
            self.descend(0.0, budget, kinds, trade=True)
            best = min(best, self.state(), key=by_cost)
        return best


def size_of(problem: SearchProblem) -> int:
    """Brokers times clients."""
    return len(problem.limits.first) * len(problem.node)


def by_cost(state: State) -> tuple[bool, float, float, int]:
    """Less above the limits first, then less cost, then fewer changes."""
    return not state.lawful, round(state.over, 6), state.cost, state.changes


def home_spans(p: SearchProblem, home: Ints) -> Spans:
    """What the classes of a problem span with these homes."""
    demand = p.demand
    paid = np.where(np.diff(demand.start) > 1, demand.demand, 0.0)
    return spans_of(demand.start, home[demand.member], paid, p.wires, p.node, p.max_degree)
