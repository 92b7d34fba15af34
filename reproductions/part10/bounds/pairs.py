"""A lower bound on D that looks at each combination and one other in its channel: weaker, but for any size.

Every connection limit gets a price (Lagrange): a cut pays D plus price x connections - limit for every type.
With prices of 0 or more this is no more than D for a cut within its limits, so the least of it over all
cuts is a bound, and the highest over all prices the best of these.

The least over all cuts is bounded combination by combination. Put the combinations in order of the
messages R(b) that match them, most first, and fill each channel in that order. When b comes to the
combinations E that are there already, then
- b's subscribers receive the messages of the types of E that do not offer b: s(b) x R(E without b);
- the subscribers of E receive those of the types of b that E did not have: at least s x R(b without E),
  with s the fewest subscribers that a combination has;
- the types that offer b and something of E save a connection: their prices.

If E holds a sub-mask e of b, the first is at least s(b) x (R(e) - R(b)) and the prices saved are at most
all of b's. If not, every type t that saves has some e in E that comes before b and is no sub-mask of b.
Divide the messages of each type u that does not offer b among the types t that do, in any way: whatever E
is, what b's subscribers receive is then at least the sum over the saving t of the least, over such e, of
s(b) x what t got of the types that offer e. The sum over b of the least of all these (never more than 0,
which is a channel of its own) is a bound for every cut. It is concave and piecewise linear in the
prices: a linear programme finds the best ones, and the bound is then evaluated anew at these prices, so
that it is proven whatever the solver's tolerance.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from scipy.optimize import linprog
from scipy.sparse import coo_matrix, csr_matrix

from overlace.arrays.jit import Floats, Ints, kernel
from overlace.arrays.masks import bits
from overlace.planners.channels.book import Book
from reproductions.part10.bounds.channels import Limits

ROUNDS = 40  # of dividing messages better; more lift the bound a little


def bound_by_pairs(book: Book, limits: Limits, matched: Ints) -> tuple[float, Floats]:
    """(false positives at least, prices of a connection of each type)."""
    messages = limits.messages
    excess = np.maximum(np.diff(book.start) - limits.limit, 0)
    prices, least = np.zeros(len(excess)), 0.0
    hope = _prices(book, _terms(book, messages, matched, excess, None), excess)  # if it were only for sub-masks
    for _ in range(3):
        terms = _terms(book, messages, matched, excess, hope)
        there = _prices(book, terms, excess)
        value = _value(book, terms, excess, there)
        if value > least:
            prices, least = there, value
        hope = (hope + there) / 2
    return least, prices


class Terms(NamedTuple):
    """What a combination pays beside others; one entry per (combination, type that offers it) in by-order."""

    below: Floats  # of each combination, the least it pays beside a sub-mask; infinite: it has none
    apart: Floats  # of each combination, what others pay for it beside no sub-mask, at least
    share: Floats  # of each (combination, type), what saving that type's connection costs at least


def _terms(book: Book, messages: Ints, matched: Ints, excess: Ints, prices: Floats | None) -> Terms:
    """What each combination pays; messages are divided so that they weigh where the given prices are high."""
    offered = np.diff(book.by_start) > 0
    fewest = int(book.weight[offered].min(initial=0)) if offered.any() else 0
    rank = np.empty(len(matched), dtype=np.int64)
    sizes = np.array([int(mask).bit_count() for mask in book.combination.tolist()])
    rank[np.lexsort((book.combination, sizes, -matched))] = np.arange(len(matched))
    below = pays_below(book, matched)
    if prices is None:
        share = np.full(len(book.by_type), np.inf)
    else:
        need = prices + fewest * messages
        share = pays_beside(book, messages, rank, excess, need, ROUNDS) - fewest * messages[book.by_type]
    return Terms(below, fewest * matched.astype(np.float64), share)


def _value(book: Book, terms: Terms, excess: Ints, prices: Floats) -> float:
    """The bound on the false positives at given prices."""
    if len(prices) == 0:
        return 0.0
    saved = prices[book.by_type]
    owner = np.repeat(np.arange(len(terms.below)), np.diff(book.by_start))
    all_saved = np.bincount(owner, weights=saved, minlength=len(terms.below))
    single = np.bincount(owner, weights=np.minimum(0.0, terms.share - saved), minlength=len(terms.below))
    net = np.minimum(0.0, np.minimum(terms.below - all_saved, terms.apart + single))
    return float((prices * excess).sum() + net.sum())


def _prices(book: Book, terms: Terms, excess: Ints) -> Floats:
    """The prices at which the bound is highest: a linear programme. A type within its limit has none."""
    priced = np.flatnonzero(excess > 0)
    prices = np.zeros(len(excess))
    if len(priced) == 0:
        return prices
    column = np.full(len(excess), -1)
    column[priced] = np.arange(len(priced))
    owner = np.repeat(np.arange(len(terms.below)), np.diff(book.by_start))
    used = np.flatnonzero(column[book.by_type] >= 0)  # (combination, type) pairs with a price
    mine = np.unique(owner[used])
    row = np.searchsorted(mine, owner[used])
    p, n, q = len(priced), len(mine), len(used)
    price = column[book.by_type[used]]
    least = np.arange(n)
    under = np.flatnonzero(np.isfinite(terms.below[mine]))
    place = np.full(n, -1)
    place[under] = np.arange(len(under))
    sub = place[row] >= 0
    fine = np.flatnonzero(np.isfinite(terms.share[used]))  # elsewhere nothing can be saved beside no sub-mask
    last = len(under) + n + np.arange(len(fine))
    # net <= below - sum of prices; net <= apart + sum of singles; single <= share - price; net, single <= 0
    rows = np.concatenate([np.arange(len(under)), place[row[sub]], len(under) + least, len(under) + row, last, last])
    columns = np.concatenate([p + under, price[sub], p + least, p + n + np.arange(q), p + n + fine, price[fine]])
    values = np.ones(len(rows))
    values[len(under) + int(sub.sum()) + n :][:q] = -1.0
    sides = np.concatenate([terms.below[mine][under], terms.apart[mine], terms.share[used][fine]])
    matrix = csr_matrix(coo_matrix((values, (rows, columns)), shape=(len(sides), p + n + q)))
    gain = np.concatenate([-excess[priced].astype(np.float64), -np.ones(n), np.zeros(q)])
    limits = [(0, None)] * p + [(None, 0)] * (n + q)
    solved = linprog(gain, A_ub=matrix, b_ub=sides, bounds=limits, method="highs")
    if solved.x is not None:
        prices[priced] = np.maximum(solved.x[:p], 0.0)
    return prices


@kernel
def pays_below(book: Book, matched: Ints) -> Floats:
    """What each combination pays at least beside a sub-mask of it; infinite where there is none."""
    below = np.full(len(book.combination), np.inf)
    for b in range(len(below)):
        mask = book.combination[b]
        sub = (mask - 1) & mask
        while sub and book.by_start[b] < book.by_start[b + 1]:
            e = np.searchsorted(book.combination, sub)
            below[b] = min(below[b], float(book.weight[b] * (matched[e] - matched[b])))
            sub = (sub - 1) & mask
    return below


@kernel
def pays_beside(book: Book, messages: Ints, rank: Ints, excess: Ints, need: Floats, rounds: int) -> Floats:
    """Of each (combination b, type that offers it), what that type's saving costs b beside no sub-mask, at least.

    Infinite where there is nothing beside which it could save; 0 for types that have no need to. Any
    division of the messages is valid; rounds shift them to where a type gets less than it needs.
    """
    share = np.full(len(book.by_type), np.inf)
    types = len(book.attributes)
    for b in range(len(book.combination)):
        mask, first, last = book.combination[b], book.by_start[b], book.by_start[b + 1]
        part = np.zeros((last - first, types))
        for i in range(first, last):
            if excess[book.by_type[i]] == 0:
                share[i] = 0.0
                continue
            for u in range(types):
                common = bits(book.attributes[book.by_type[i]] & book.attributes[u] & ~mask)
                if common > 0 and mask & book.attributes[u] != mask:
                    part[i - first, u] = 16.0**common
        best = -np.inf
        for n in range(rounds):
            for u in range(types):
                total = part[:, u].sum()
                if total > 0:
                    part[:, u] *= book.weight[b] * messages[u] / total
            value = 0.0
            got = np.full(last - first, np.inf)
            for i in range(first, last):
                t = book.by_type[i]
                if excess[t] == 0:
                    got[i - first] = 0.0
                    continue
                least, worst = dearest(book, b, t, part[i - first], rank)
                got[i - first] = least
                if least < need[t]:
                    value += least - need[t]
                    for k in range(book.by_start[worst], book.by_start[worst + 1]):
                        part[i - first, book.by_type[k]] *= 1.0 + 0.5 * (1.0 - n / rounds)
            if value > best:
                best = value
                share[first:last] = got
            if value == 0.0:
                break
    return share


@kernel
def dearest(book: Book, b: int, t: int, part: Floats, rank: Ints) -> tuple[float, int]:
    """(paid, e): the least that type t gets of the types of an e before b that is no sub-mask of b, and that e."""
    least, worst = np.inf, -1
    mask = book.combination[b]
    for j in range(book.start[t], book.start[t + 1]):
        e = book.offered[j]
        if rank[e] >= rank[b] or book.combination[e] & mask == book.combination[e]:
            continue
        paid = 0.0
        for k in range(book.by_start[e], book.by_start[e + 1]):
            paid += part[book.by_type[k]]
        if paid < least:
            least, worst = paid, e
    return least, worst
