"""How many elements a limited number of sets can cover: the question behind the upper bound on bounds met.

Branch and bound over the choice of sets, as bitmaps. What is not looked at when the steps run out counts with the most
it could bring, so the answer is always an upper bound; it is the maximum where the steps were enough.

How many bounds any tree could meet at most: three proofs, of which the least counts.

By way. A message reaches v no sooner than over the shortest way through any peers. Bounds below that are never met.

By level. Let a tree be given, cut back to the peers that lie on ways from the root to peers in time. One at level k (k
links below the root) gets its messages no sooner than after the shortest walk of k links, so it is in time only if that
walk is. Level k + 1 holds no more peers than those at level k may have children. Peers that are alike in degree limit
and in the levels where they could be in time are counted together; whoever is at LEVELS or deeper is only asked for the
shortest walk of at least so many links. The counts of any tree satisfy these inequalities, so the largest number in
time that satisfies them with fractions (a linear programme) is a bound. It is taken from the dual: for any prices y >=
0 of the inequalities A x <= b and any 0 <= x <= u, c x <= y b + sum of u max(0, c - y A), whatever a solver says of y.

By cover. The root has at most `degree` children, and whoever is in time is a child or hangs below one. Let S(c) be the
peers that are in time over the root's link to c and then the shortest way from c that avoids the root. Then all in
time lie in the union of S(c) over the children: no more than the most that so many of these sets cover. The same one
level down: for children C every peer in time is in C and in time over its own link, or lies in S(c, g), over the links
to c and on to g and then the shortest way, for one of at most sum of degree(c) grandchildren. So for each choice of C
the lesser of the two holds, and the largest over all choices bounds every tree. (A tree with fewer children than
allowed counts too: more sets never cover less.)
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from overlace.arrays.jit import Bools, Floats, Ints, by_address, kernel
from overlace.planners.dissemination.problem import TINY, TreeProblem, find_shortest, has_bound

Bitmaps = NDArray[np.uint64]  # (sets, words)
WORD = 64

ONES, PAIRS, FOURS = np.uint64(0x0101010101010101), np.uint64(0x5555555555555555), np.uint64(0x3333333333333333)
NIBBLES = np.uint64(0x0F0F0F0F0F0F0F0F)


def pack(sets: Bools) -> Bitmaps:
    """Sets as bitmaps: row i of sets says which elements set i holds."""
    room = -(-sets.shape[1] // WORD) * WORD
    padded = np.zeros((len(sets), room), dtype=np.bool_)
    padded[:, : sets.shape[1]] = sets
    return np.packbits(padded, axis=1, bitorder="little").view(np.uint64)


@kernel
def count_new(one: Bitmaps, covered: Bitmaps) -> int:
    """How many elements of a set are not covered."""
    total = 0
    for i in range(len(one)):
        x = one[i] & ~covered[i]
        x = x - ((x >> np.uint64(1)) & PAIRS)
        x = (x & FOURS) + ((x >> np.uint64(2)) & FOURS)
        x = (x + (x >> np.uint64(4))) & NIBBLES
        total += int((x * ONES) >> np.uint64(56))
    return total


@kernel
def most_covered(sets: Bitmaps, base: Bitmaps, many: int, steps: int) -> int:
    """The most elements that `many` of the sets cover together with a base, or more."""
    count, words = sets.shape
    nothing, whole = np.zeros(words, dtype=np.uint64), base.copy()
    for j in range(count):
        whole |= sets[j]
    total: int = count_new(whole, nothing)
    best: int = count_new(base, nothing)
    many = min(many, count)
    if many == 0 or best == total:
        return best
    covered = np.zeros((many + 1, words), dtype=np.uint64)
    covered[0] = base
    gain = np.zeros((many, count), dtype=np.int64)
    order = np.zeros((many, count), dtype=np.int64)
    size, at = np.zeros(many, dtype=np.int64), np.zeros(many, dtype=np.int64)
    list_gains(sets, covered[0], np.arange(count), gain[0], order[0])
    size[0], taken, level = count, 0, 0
    while level >= 0:
        i, left = at[level], many - level
        have = count_new(covered[level], nothing)
        hope = have
        for j in range(i, min(i + left, size[level])):
            hope += gain[level, order[level, j]]
        if min(hope, total) <= best or i >= size[level]:
            level -= 1  # gains only fall from here on
            continue
        if taken >= steps:
            best = min(hope, total)
            level -= 1
            continue
        at[level] += 1
        taken += 1
        chosen = order[level, i]
        covered[level + 1] = covered[level] | sets[chosen]
        best = max(best, have + gain[level, chosen])
        if best == total:
            return best
        if left > 1:
            rest = order[level, i + 1 : size[level]]
            list_gains(sets, covered[level + 1], rest, gain[level + 1], order[level + 1])
            size[level + 1], at[level + 1] = len(rest), 0
            level += 1
    return best


@kernel
def list_gains(sets: Bitmaps, covered: Bitmaps, among: Ints, gain: Ints, order: Ints) -> None:
    """What each of some sets would add to what is covered, and these sets with the most first."""
    lost = np.empty(len(among), dtype=np.int64)
    for j in range(len(among)):
        gain[among[j]] = count_new(sets[among[j]], covered)
        lost[j] = -gain[among[j]]
    place = np.argsort(lost, kind="mergesort")
    for j in range(len(among)):
        order[j] = among[place[j]]


LEVELS, LARGE = 24, 1_500
STEPS, INNER, WORK = 20_000, 300, 2e8
"""Steps of the search for a cover by the root's children, of one by grandchildren, and what all of those may take:
peers squared, times sets of children looked at."""


class Ceiling(NamedTuple):
    """The most bounds that any tree could meet, by each of the three proofs."""

    by_way: int
    by_level: int
    by_cover: int

    @property
    def most(self) -> int:
        """The least of the three: no tree meets more."""
        return min(self)


def bound_met(problem: TreeProblem) -> Ceiling:
    """The most bounds that any tree within the degree limits could meet, proven."""
    reach = find_shortest(problem.delay, problem.root)
    by_way = int((has_bound(problem) & (reach <= problem.bound + 2 * TINY)).sum())
    if by_way == 0:
        return Ceiling(0, 0, 0)
    return Ceiling(by_way, min(by_way, bound_levels(problem)), min(by_way, bound_cover(problem)))


def bound_levels(problem: TreeProblem) -> int:
    """The bound by level."""
    timely = list_levels(problem)
    others = np.flatnonzero(np.arange(len(problem.bound)) != problem.root)
    alike = np.column_stack([problem.degree[others], timely[:, others].T])
    kinds, sizes = np.unique(alike, axis=0, return_counts=True)
    gains, degree = kinds[:, 1:].astype(np.float64), kinds[:, 0].astype(np.float64)
    return price_levels(gains, degree, sizes.astype(np.float64), float(problem.degree[problem.root]))


def price_levels(gains: Floats, degree: Floats, sizes: Floats, top: float) -> int:
    """The most peers in time, for kinds of peers: what one gains at each level, its degree, how many there are."""
    from scipy.optimize import linprog
    from scipy.sparse import coo_matrix

    kinds, levels = gains.shape
    column = np.arange(kinds * levels).reshape(kinds, levels)  # the deepest level has no limit of its own
    size, level, flat = levels - 1 + kinds, np.tile(np.arange(levels), (kinds, 1)), np.ones(kinds * levels)
    limited = level < levels - 1
    above = level < levels - 2  # whose children are at a level with a limit
    row = np.concatenate([level[limited], level[above] + 1, np.repeat(np.arange(kinds), levels) + levels - 1])
    place = np.concatenate([column[limited], column[above], column.ravel()])
    value = np.concatenate([flat[: int(limited.sum())], -np.repeat(degree, levels).reshape(kinds, levels)[above], flat])
    limits = coo_matrix((value, (row, place)), shape=(size, kinds * levels)).tocsr()
    room = np.concatenate([[top], np.zeros(levels - 2), sizes])
    most = np.repeat(sizes, levels)
    solved = linprog(-gains.ravel(), A_ub=limits, b_ub=room, bounds=np.column_stack([0 * most, most]), method="highs")
    if solved.ineqlin is None or solved.ineqlin.marginals is None:
        return int(sizes.sum())
    prices = np.maximum(0.0, -solved.ineqlin.marginals)
    proven = prices @ room + np.maximum(0.0, gains.ravel() - limits.T @ prices) @ most
    return int(np.floor(proven + 1e-6))


def list_levels(problem: TreeProblem) -> Bools:
    """(levels, peers): whether a peer could be in time at level 1, 2, ..., the last standing for all deeper ones."""
    delay = np.where(np.eye(len(problem.bound), dtype=np.bool_), np.inf, problem.delay)
    delay[:, problem.root] = np.inf
    walk = np.full(len(delay), np.inf)
    walk[problem.root] = 0.0
    found = []
    for _ in range(LEVELS):
        walk = np.min(walk[:, None] + delay, axis=0)
        found.append(walk)
    found[-1] = walk_on(delay, walk)
    timely: Bools = (np.array(found) <= problem.bound + 2 * TINY) & has_bound(problem)
    return timely


@kernel
def walk_on(delay: Floats, walk: Floats) -> Floats:
    """The shortest ways from where walks have led so far, by any further links."""
    reach = walk.copy()
    done = np.zeros(len(walk), dtype=np.bool_)
    for _ in range(len(walk)):
        at, least = -1, np.inf
        for v in range(len(walk)):
            if not done[v] and reach[v] < least:
                at, least = v, reach[v]
        if at < 0:
            break
        done[at] = True
        for v in range(len(walk)):
            reach[v] = min(reach[v], least + delay[at, v])
    return reach


@by_address
class ShortestPaths(NamedTuple):
    """The shortest ways there are, whatever the degrees."""

    first: Floats  # ms: the root's link to each peer
    delay: Floats  # (n, n) ms
    through: Floats  # (n, n) ms: the shortest way between two peers that avoids the root
    bound: Floats  # ms; below 0 where there is none to meet
    degree: Ints
    sets: NDArray[np.uint64]  # a bitmap a peer: who is in time if this is a child of the root


def bound_cover(problem: TreeProblem) -> int:
    """The bound by cover; with more than LARGE peers all ways take too long, and all bounds are taken for possible."""
    n, root = len(problem.bound), problem.root
    if n > LARGE:
        return n
    delay = problem.delay.copy()
    delay[:, root] = np.inf
    through = shorten(delay)
    bound = np.where(has_bound(problem), problem.bound + 2 * TINY, -1.0)
    first = problem.delay[root]
    sets = first[:, None] + through <= bound
    sets[root] = False
    ways = ShortestPaths(first, delay, through, bound, problem.degree, pack(sets))
    looks = max(1, int(WORK / (n * n * (1 + problem.degree[root]))))
    found: int = most_reached(ways, int(problem.degree[root]), looks)
    return found


@kernel
def shorten(delay: Floats) -> Floats:
    """The shortest ways between all pairs."""
    n = len(delay)
    short = delay.copy()
    for v in range(n):
        short[v, v] = 0.0
    for k in range(n):
        for i in range(n):
            half = short[i, k]
            if half < np.inf:
                for j in range(n):
                    short[i, j] = min(short[i, j], half + short[k, j])
    return short


@kernel
def most_reached(ways: ShortestPaths, many: int, looks: int) -> int:
    """The most peers in time over any choice of the root's children, or more; at most so many choices are looked at."""
    sets = ways.sets
    count, words = sets.shape
    nothing = np.zeros(words, dtype=np.uint64)
    alone = most_covered(sets, nothing, many, STEPS)
    many = min(many, count)
    covered = np.zeros((many + 1, words), dtype=np.uint64)
    gain, order = np.zeros((many, count), dtype=np.int64), np.zeros((many, count), dtype=np.int64)
    size, at = np.zeros(many, dtype=np.int64), np.zeros(many, dtype=np.int64)
    chosen = np.zeros(many, dtype=np.int64)
    list_gains(sets, nothing, np.arange(count), gain[0], order[0])
    size[0], best, level, taken = count, 0, 0, 0
    while level >= 0:
        i, left = at[level], many - level
        hope = count_new(covered[level], nothing)
        for j in range(i, min(i + left, size[level])):
            hope += gain[level, order[level, j]]
        hope = min(hope, alone)
        if hope <= best or i >= size[level]:
            level -= 1
            continue
        if looks <= 0 or taken >= STEPS:
            best = hope
            level -= 1
            continue
        at[level] += 1
        taken += 1
        chosen[level] = order[level, i]
        if left == 1:
            best = max(best, min(hope, below_children(ways, chosen)))
            looks -= 1
            continue
        covered[level + 1] = covered[level] | sets[chosen[level]]
        rest = order[level, i + 1 : size[level]]
        list_gains(sets, covered[level + 1], rest, gain[level + 1], order[level + 1])
        size[level + 1], at[level + 1] = len(rest), 0
        level += 1
    return best


@kernel
def below_children(ways: ShortestPaths, children: Ints) -> int:
    """The most peers in time if these are the root's children, or more: by their links and those of grandchildren."""
    n, words = len(ways.bound), ways.sets.shape[1]
    base = np.zeros(words, dtype=np.uint64)
    sets = np.zeros((len(children) * n, words), dtype=np.uint64)
    many = 0
    for i in range(len(children)):
        c = children[i]
        if ways.first[c] <= ways.bound[c]:
            base[c >> 6] |= np.uint64(1) << np.uint64(c & 63)
        many += ways.degree[c]
        for g in range(n):
            if g == c:
                continue
            at = ways.first[c] + ways.delay[c, g]
            for v in range(n):
                if at + ways.through[g, v] <= ways.bound[v]:
                    sets[i * n + g, v >> 6] |= np.uint64(1) << np.uint64(v & 63)
    return most_covered(sets, base, many, INNER)
