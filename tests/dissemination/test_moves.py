"""Moves: what one says it costs is what it costs, and one that is refused leaves no trace."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from overlace.planners.dissemination.arrange import climb, sweep
from overlace.planners.dissemination.baselines import grow_by_bound
from overlace.planners.dissemination.moves import (
    below_price,
    grow,
    set_prices,
    try_exchange_peers,
    try_exchange_subtrees,
    try_insert,
    try_rehang,
)
from overlace.planners.dissemination.problem import find_arrivals
from tests.dissemination.common import plane, problems

MOVES = [try_rehang, try_exchange_subtrees, try_exchange_peers, try_insert]


def check(problem, tree):
    """Lists, counts, arrivals and limits all say the same tree."""
    parent = tree.parent
    assert (tree.children == np.bincount(parent[parent >= 0], minlength=len(parent))).all()
    assert (tree.children <= problem.degree).all()
    for p in range(len(parent)):
        below, c = [], tree.first[p]
        while c >= 0:
            below.append(int(c))
            c = tree.after[c]
        assert sorted(below) == [v for v in range(len(parent)) if parent[v] == p]
    assert tree.arrival.tolist() == pytest.approx(find_arrivals(problem, parent).tolist(), abs=1e-12)


@given(problems(least=3, most=7), st.data())
def test_a_move_costs_what_it_says_or_leaves_all_as_it_was(problem, data):
    tree, prices = grow(problem.delay, problem.degree, grow_by_bound(problem), problem.root), set_prices(problem)
    peers = st.integers(0, len(problem.bound) - 1)
    for _ in range(8):
        move, v, w = data.draw(st.sampled_from(MOVES)), data.draw(peers), data.draw(peers)
        if v in (problem.root, w):
            continue
        before, parent = below_price(tree, prices, problem.root), tree.parent.copy()
        most = data.draw(st.sampled_from([np.inf, 0.0, -0.5]))
        added = move(tree, prices, v, w, 1e300 if most == np.inf else most)
        check(problem, tree)
        if added == np.inf:
            assert tree.parent.tolist() == parent.tolist()
        else:
            assert added <= most
            assert below_price(tree, prices, problem.root) - before == pytest.approx(added, abs=1e-9)


def test_climbing_ends_where_no_move_helps():
    problem = plane(25, 2, 0)
    tree = grow(problem.delay, problem.degree, climb(problem, grow_by_bound(problem), 50), problem.root)
    assert not sweep(tree, set_prices(problem))
    check(problem, tree)
