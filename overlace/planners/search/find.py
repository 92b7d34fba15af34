"""What planners ask of the search: the best state within a budget, by one kind of change or by both."""

from __future__ import annotations

from overlace.arrays.draws import drawing
from overlace.arrays.wiring import links_of
from overlace.model import Progress
from overlace.planners.search.anneal import LINKS, anneal_state
from overlace.planners.search.groups import find_communities
from overlace.planners.search.links import keep_trying, stand
from overlace.planners.search.problem import SearchProblem
from overlace.planners.search.trees import other_trees
from overlace.planners.search.walk import MIDDLE as LARGEST
from overlace.planners.search.walk import STEEP, TINY, Budget, Kind, Search, State, by_cost, size_of
from overlace.stopping import asked

DRAWS = 600_000
"""Random changes that annealing draws in a system of middle size."""
MIDDLE = 40_000
"""Size of a system up to which annealing draws as many, and fewer beyond: brokers x clients, or"""
WEIGHS = 4
"""so many times the members of all classes, which a draw of a link looks at."""
TRIAL, WORTH, FAR = 10, 1e-4, 1.05
"""Annealing draws a part of the draws first, and all of them only where that saves this share of today's cost, and
comes to no more than so many times the cost of a rival."""

TURNS, VAIN = 10, 3
"""Times that it anneals, at most, while a load is above what it should be, and times that it does so in vain."""
KICK, TOLD = 100, 50
"""Draws of links that a kick is worth; and kicks between two words of progress."""
PART = 20
"""In the largest systems communities are looked for where one in so many clients can move."""
FEW = 30
"""Clients below which once is enough."""


def find(
    search: Search, budget: Budget, kinds: tuple[Kind, ...], draws: int, seed: int, rival: State | None = None
) -> State:
    """The best state within the budget, from where the search is."""
    if kinds == ("links",) and not search.problem.capped:
        return find_links(search, budget, kicks_for(draws), seed)
    state = search.path(budget, kinds)
    spare = search.spare
    return min(refine(search, state, budget, kinds, draws, seed, rival), spare, key=by_cost)


def find_links(search: Search, budget: Budget, kicks: int, seed: int, progress: Progress | None = None) -> State:
    """The best tree within the budget: from where the search is, and where all may change from other trees too."""
    tell = progress or (lambda share, what: None)
    p, begin = search.problem, search.state()
    ends, starts = [search.path(budget, ("links",))], []
    if kicks and p.rewires and len(p.node) <= STEEP:
        free = min(budget.swaps, budget.both) >= len(search.links) and not p.least
        starts = other_trees(search.spans(), p.links[p.must_stay(p.links)]) if free else [begin.links]
    for links in starts:
        search.goto(State(search.home, links))
        search.descend(0.0, budget, ("links",))
        ends.append(search.state())
    for i, state in enumerate(ends):

        def part(share: float, what: str, i: int = i) -> None:
            tell(0.9 * (i + share) / len(ends), what)

        ends[i] = kick_tree(search, state, budget, kicks, seed, part)
    return min(ends, key=by_cost)


def kick_tree(
    search: Search, best: State, budget: Budget, kicks: int, seed: int, progress: Progress | None = None
) -> State:
    """The best tree after so many kicks."""
    search.goto(best)
    p = search.problem
    if not kicks or not p.rewires:
        return best
    most = min(budget.swaps, budget.both - search.moved)
    rules, spans, random = search.rules(most, p.least + p.swap_price), search.spans(), drawing(seed)
    standing = stand(spans, search.links, rules)
    for done in range(0, kicks, TOLD):
        if asked():
            break
        if progress:
            progress(done / kicks, "kicks")
        keep_trying(spans, standing, rules, TINY * max(1.0, best.cost), min(TOLD, kicks - done), random)
    search.goto(State(search.home, links_of(standing.wiring)))
    return min(best, search.state(), key=by_cost)


def kicks_for(draws: int) -> int:
    """Kicks that take about as long as so many draws of both kinds."""
    return int(LINKS * draws) // KICK


def refine(
    search: Search,
    state: State,
    budget: Budget,
    kinds: tuple[Kind, ...],
    draws: int,
    seed: int,
    rival: State | None = None,
) -> State:
    """Annealed, first for a tenth of the draws, and no longer where that brings nothing or a rival is still far better.

    One kind of change alone gets as many draws as it has among both.
    """
    if kinds == ("links",) and not search.problem.capped:
        return kick_tree(search, state, budget, kicks_for(draws), seed)
    share = 1.0 if len(kinds) > 1 else LINKS if kinds == ("links",) else 1 - LINKS
    tried = anneal_state(search, state, budget, kinds, int(share * draws / TRIAL), seed)
    behind = rival is not None and tried.cost > FAR * rival.cost
    if tried.lawful == state.lawful and (behind or state.cost - tried.cost < WORTH * search.first.cost):
        return tried
    state = tried
    vain, few = 0, len(search.problem.movable) < FEW
    for turn in range(TURNS):
        before = by_cost(state)
        state = anneal_state(search, state, budget, kinds, int(share * draws), seed + turn)
        vain = 0 if by_cost(state) < before else vain + 1
        if not state.over > 0.0 or vain == (1 if few else VAIN) or asked():
            break
    return state


def search_over(problem: SearchProblem, budget: Budget, seed: int) -> Search:
    """A search that knows communities, where the budget is large enough to move them."""
    moves, movable = min(budget.moves, budget.both), len(problem.movable)
    if not moves or (size_of(problem) > LARGEST and moves * PART < movable):
        return Search(problem)
    return Search(problem, find_communities(problem.demand, problem.limits, problem.movable, seed))


def draws_for(search: Search, effort: float) -> int:
    """How many changes to draw: as many as the effort says in small systems, fewer in large ones."""
    size = max(len(search.problem.node) * len(search.home), WEIGHS * len(search.problem.demand.member))
    return int(DRAWS * effort * MIDDLE // max(size, MIDDLE))
