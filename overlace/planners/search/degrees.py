"""Brokers with more links than they may have give some away, one swap at a time, each as cheap as was found."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from overlace.arrays.components import components
from overlace.arrays.jit import Bools, Ints, Pairs
from overlace.planners.search.walk import Budget, Search, State, by_cost
from overlace.planners.search.wires import prices_of

TRIED = 6
"""Of the cheapest links that could take another's place, so many are tried."""


def too_many(search: Search, links: Pairs) -> int:
    """How many links brokers have above what they may have, all together."""
    goal = search.problem.degree_goal
    return 0 if goal is None else int(np.maximum(_degree(search, links) - goal, 0).sum())


def thin_out(search: Search, state: State, budget: Budget) -> State:
    """The state with links of crowded brokers replaced, as long as changes are left and a swap helps."""
    while left := too_many(search, state.links):
        tried = []
        for links in _swaps(search, state.links):
            if too_many(search, links) < left:
                search.goto(State(state.home, links))
                tried += [search.state()] if budget.holds(search.state()) else []
        if not tried:
            break
        state = min(tried, key=by_cost)
    search.goto(state)
    return search.state()


def _swaps(search: Search, links: Pairs) -> Iterator[Pairs]:
    """Links with one of a crowded broker replaced by one of the cheapest between brokers that have room."""
    p, brokers = search.problem, search.problem.wires.brokers
    assert p.degree_goal is not None
    crowded = _degree(search, links) > p.degree_goal
    for k in np.flatnonzero(crowded[links].any(axis=1) & ~p.must_stay(links)).tolist():
        rest = np.delete(links, k, axis=0)
        room = _degree(search, rest) < p.degree_goal
        pairs = _between(rest, brokers, room)
        pairs = pairs[(pairs != links[k]).any(axis=1)]
        price = prices_of(p.wires, pairs)
        for i in np.argsort(price, kind="stable")[:TRIED].tolist():
            if np.isfinite(price[i]):
                yield np.concatenate([rest, pairs[i : i + 1]])


def _between(rest: Pairs, brokers: int, room: Bools) -> Pairs:
    """Pairs of brokers with room, one on either side of a tree that lacks a link."""
    side = components(brokers, rest)
    one, other = (np.flatnonzero(room & (side == each)) for each in np.unique(side)[:2])
    return np.sort(np.column_stack([np.repeat(one, len(other)), np.tile(other, len(one))]), axis=1).astype(np.int64)


def _degree(search: Search, links: Pairs) -> Ints:
    return np.bincount(links.ravel(), minlength=search.problem.wires.brokers)
