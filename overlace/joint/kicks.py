"""Kicks: disturb the best state a little, improve it again, keep it if it is better.

Some clients go to a random broker or back to where they were, some links are replaced by random short ones; then
the local search runs as before. It leads out of where single changes are stuck, and pays in small systems.
"""

from __future__ import annotations

import numpy as np

from overlace.joint.search import Budget, Kind, Search, State, by_cost, replaced
from overlace.joint.state import fits
from overlace.model import Progress

MOST = 0.2
"""The share of clients and links that a kick disturbs, at most."""


def kicked(
    search: Search, best: State, budget: Budget, kinds: tuple[Kind, ...], kicks: int, seed: int,
    progress: Progress | None = None,
) -> State:  # fmt: skip
    """The best state after so many kicks."""
    rng = np.random.default_rng(seed)
    usual = 2e-3 * search.first.cost
    for i in range(kicks):
        search.goto(best)
        share = MOST * rng.random()
        if "clients" in kinds:
            _scatter(search, budget, share, rng)
        if "links" in kinds:
            for _ in range(max(1, int(share * len(search.links)))):
                _rewire(search, rng)
        search.goto(search.state())
        price = usual * float(rng.choice([0.0, 0.25, 1.0, 2.0]))
        if _within(search, budget, kinds, usual):
            search.descend(price, budget, kinds)
            search.descend(0.0, budget, kinds, trade=True)
            if fits(search.loads.handled, search.problem.limits.handled_cap):
                best = min(best, search.state(), key=by_cost)
        if progress:
            progress((i + 1) / kicks, "kicks")
    return best


def _scatter(search: Search, budget: Budget, share: float, rng: np.random.Generator) -> None:
    """Send some clients to random brokers or back to their first home, where there is room."""
    p = search.problem
    limits, sent = p.limits, search.loads.sent
    for c in rng.permutation(p.movable)[: max(1, int(share * len(p.movable)))].tolist():
        there = int(rng.integers(len(p.node))) if rng.random() < 0.5 else int(limits.first[c])
        if limits.may[limits.group[c], there] and sent[there] + limits.sent[c] <= limits.sent_cap[there]:
            sent[search.home[c]] -= limits.sent[c]
            sent[there] += limits.sent[c]
            search.home[c] = there


def _rewire(search: Search, rng: np.random.Generator) -> None:
    """Replace a random link by a random one, short ones more often."""
    p, tree = search.problem, search.tree
    if len(p.node) < 3:
        return
    e = int(tree.order[int(rng.integers(1, len(p.node)))])
    up = int(tree.parent[e])
    if p.fixed[e, up]:
        return
    below = np.zeros(len(p.node), dtype=np.bool_)
    below[e] = True
    for v in tree.order[1:].tolist():
        below[v] |= below[tree.parent[v]]
    low, high = np.flatnonzero(below), np.flatnonzero(~below)
    spare = (tree.degree - (np.isin(np.arange(len(p.node)), (e, up)))) < p.max_degree
    chance = np.where(spare[low][:, None] & spare[high], p.wire[np.ix_(low, high)] + 1e-9, np.inf)
    chance = chance * rng.random(chance.shape)
    at = int(chance.argmin())
    if np.isfinite(chance.flat[at]):
        x, y = int(low[at // len(high)]), int(high[at % len(high)])
        search.rewire(replaced(search.links, e, up, x, y))


def _within(search: Search, budget: Budget, kinds: tuple[Kind, ...], price: float) -> bool:
    """Give up changes at a rising price until the budget holds; whether it does."""
    for _ in range(40):
        state = search.state()
        if state.changes <= budget.both and state.moved <= budget.moves and state.swapped <= budget.swaps:
            return True
        price *= 2
        search.descend(price, budget, kinds)
    return False
