import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from overlace.arrays.pairs import as_pairs, undirected
from overlace.model import Overlay, check_tree
from overlace.planners.tree.swaps import swaps
from tests.strategies import trees


@given(trees(1, 14), st.data())
def test_every_swap_leaves_a_tree_and_the_last_one_the_tree_that_was_wanted(first, data):
    n, links = first
    _, other = data.draw(trees(n, n))
    before, after = (undirected(as_pairs(each)) for each in (links, other))
    cost = data.draw(st.lists(st.integers(0, 3), min_size=2 * (n - 1), max_size=2 * (n - 1)))
    before_cost, after_cost = np.array(cost[: n - 1], float), np.array(cost[n - 1 :], float)
    removed, added = swaps(before, before_cost, after, after_cost)
    shared = {tuple(r) for r in before.tolist()} & {tuple(r) for r in after.tolist()}
    assert len(removed) == len(added) == n - 1 - len(shared)
    current = {tuple(r) for r in before.tolist()}
    for old, new in zip(before[removed].tolist(), after[added].tolist(), strict=True):
        current = current - {tuple(old)} | {tuple(new)}
        check_tree(Overlay(tree=sorted(current)).tree, n)
    assert current == {tuple(r) for r in after.tolist()}
    assert np.all(np.diff(after_cost[added]) >= 0)


def test_the_costliest_link_of_the_loop_goes():
    before, after = np.array([[0, 1], [1, 2], [2, 3]]), np.array([[0, 1], [0, 3], [1, 2]])
    removed, added = swaps(before, np.array([9.0, 9.0, 2.0]), after, np.array([9.0, 1.0, 9.0]))
    assert before[removed].tolist() == [[2, 3]]  # [0, 1] costs more, but stays
    assert after[added].tolist() == [[0, 3]]
