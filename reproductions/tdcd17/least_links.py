"""How few links could do: lower bounds by linear programmes, solved by scipy's HiGHS.

Any topic-connected mesh: a topic of n subscribers needs n - 1 links among them, and each of its subscribers at
least one. The least sum of shares of links that keeps this is a bound.

Any mesh of stars: let x say how much a subscriber is its topic's centre. For each topic two subscribers share,
their link is at least as much there as either is its centre. The least sum of links is a bound; with a cap
nobody has more links than that.

Whole links are counted, so a bound is rounded up. Programmes grow with the pairs that share a topic: small
instances only, and `most_pairs` refuses others.
"""

from __future__ import annotations

import numpy as np
from scipy.optimize import linprog
from scipy.sparse import coo_array, csr_array, vstack

from overlace.arrays.jit import Floats, Ints, Pairs
from overlace.errors import BadParameter, NothingBetter
from overlace.model import Observation
from overlace.planners.mesh.interests import interests_of

MOST_PAIRS = 200_000


def least_links(observation: Observation, most_pairs: int = MOST_PAIRS) -> int:
    """No topic-connected mesh has fewer links."""
    pairs, row, topic = sharing(observation, most_pairs)
    given = interests_of(observation, "bounds")
    size = np.diff(given.first)
    several = np.flatnonzero(size > 1)
    number = np.full(observation.topics, -1)
    number[several] = np.arange(len(several))
    per_topic = _rows(number[topic], row, np.ones(len(row)), len(several), len(pairs))
    member = np.concatenate([pairs[row, 0], pairs[row, 1]]) * observation.topics + np.tile(topic, 2)
    known, at = np.unique(member, return_inverse=True)
    per_member = _rows(at, np.tile(row, 2), np.ones(2 * len(row)), len(known), len(pairs))
    needed = np.concatenate([size[several] - 1, np.ones(len(known))])
    return _least(np.ones(len(pairs)), -vstack([per_topic, per_member]), -needed)


def least_star_links(observation: Observation, cap: int | None = None, most_pairs: int = MOST_PAIRS) -> int:
    """No mesh of a star for each topic has fewer links; with a cap, none whose degrees stay under it."""
    pairs, row, topic = sharing(observation, most_pairs)
    given = interests_of(observation, "bounds")
    centre = np.repeat(np.arange(observation.topics), np.diff(given.first)) * observation.clients + given.member
    low, high = (np.searchsorted(centre, topic * observation.clients + pairs[row, side]) for side in (0, 1))
    n, each = len(pairs), np.arange(len(row))
    one = np.ones(len(row))
    links = _rows(
        np.concatenate([each, each, each]),
        np.concatenate([n + low, n + high, row]),
        np.concatenate([one, one, -one]),
        len(row),
        n + len(centre),
    )
    limit = np.zeros(len(row))
    if cap is not None:
        ends, rows = pairs.T.reshape(-1), np.tile(np.arange(n), 2)
        links = vstack([links, _rows(ends, rows, np.ones(2 * n), observation.clients, n + len(centre))])
        limit = np.concatenate([limit, np.full(observation.clients, float(cap))])
    held = np.flatnonzero(np.diff(given.first) > 0)
    number = np.full(observation.topics, -1)
    number[held] = np.arange(len(held))
    of = number[centre // observation.clients]
    whole = _rows(of, n + np.arange(len(centre)), np.ones(len(centre)), len(held), n + len(centre))
    weight = np.concatenate([np.ones(n), np.zeros(len(centre))])
    return _least(weight, links, limit, whole, np.ones(len(held)))


def sharing(observation: Observation, most_pairs: int) -> tuple[Pairs, Ints, Ints]:
    """(pairs, row, topic): pairs of clients that share a topic; for each topic they share, the row of the pair."""
    given = interests_of(observation, "bounds")
    size = np.diff(given.first)
    if (size * (size - 1) // 2).sum() > most_pairs:
        raise BadParameter(
            f"bounds: {int((size * (size - 1) // 2).sum()):,} pairs of subscribers; a programme takes {most_pairs:,}"
        )
    left, right, topic = [], [], []
    for t in range(observation.topics):
        own = given.member[given.first[t] : given.first[t + 1]].astype(np.int64)
        i, j = np.triu_indices(len(own), 1)
        left.append(own[i])
        right.append(own[j])
        topic.append(np.full(len(i), t))
    key = np.concatenate(left) * observation.clients + np.concatenate(right)
    known, row = np.unique(key, return_inverse=True)
    return np.column_stack([known // observation.clients, known % observation.clients]), row, np.concatenate(topic)


def _rows(row: Ints, column: Ints, value: Floats, rows: int, columns: int) -> csr_array:
    return coo_array((value, (row, column)), shape=(rows, columns)).tocsr()


def _least(
    weight: Floats, upper: csr_array, limit: Floats, equal: csr_array | None = None, given: Floats | None = None
) -> int:
    if len(weight) == 0:
        return 0
    found = linprog(weight, upper, limit, equal, given, bounds=(0, 1), method="highs-ipm")
    if found.status == 2:
        raise NothingBetter("bounds: no mesh keeps these limits, not even with shares of links")
    if not found.success:
        raise NothingBetter(f"bounds: the programme was not solved: {found.message}")
    return int(np.ceil(found.fun - 1e-6))
