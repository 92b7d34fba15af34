"""Rows grouped by a small integer key: `start[k] : start[k + 1]` are the rows of key k."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from overlace.arrays.jit import Ints, Pairs, kernel, size


@kernel(work=lambda keys, n: len(keys) + n)
def group(keys: Ints, n: int) -> tuple[Ints, Ints]:
    """(start, order): rows order[start[k]:start[k + 1]] have key k, in their old order."""
    start = np.zeros(n + 1, dtype=np.int64)
    for k in range(len(keys)):
        start[keys[k] + 1] += 1
    for k in range(n):
        start[k + 1] += start[k]
    place = start[:-1].copy()
    order = np.empty(len(keys), dtype=np.int64)
    for k in range(len(keys)):
        order[place[keys[k]]] = k
        place[keys[k]] += 1
    return start, order


class Neighbours(NamedTuple):
    """The links at each node, in order of the links: `start[v] : start[v + 1]` are those of node v."""

    start: Ints
    other: Ints  # the far end
    link: Ints  # the row of the link


@kernel
def neighbours(n: int, links: Pairs) -> Neighbours:
    """The links at each of n nodes."""
    start = np.zeros(n + 1, dtype=np.int64)
    for k in range(len(links)):
        start[links[k, 0] + 1] += 1
        start[links[k, 1] + 1] += 1
    for v in range(n):
        start[v + 1] += start[v]
    place = start[:-1].copy()
    other = np.empty(2 * len(links), dtype=np.int64)
    link = np.empty(2 * len(links), dtype=np.int64)
    for k in range(len(links)):
        for side in range(2):
            v = links[k, side]
            other[place[v]] = links[k, 1 - side]
            link[place[v]] = k
            place[v] += 1
    return Neighbours(start, other, link)


def sort_groups(start: Ints, members: Ints) -> tuple[Ints, Ints]:
    """(start, members) with the members of each group sorted and distinct."""
    rising = np.ones(len(members) + 1, dtype=np.bool_)
    np.greater(members[1:], members[:-1], out=rising[1:-1])
    rising[start] = True
    if not rising.all():
        return sorted_groups(start, members)
    return start.astype(np.int64, copy=False), members.astype(np.int64, copy=False)


@kernel(work=lambda start, members: len(start) + 3 * len(members))
def sorted_groups(start: Ints, members: Ints) -> tuple[Ints, Ints]:
    """(start, members) with the members of each group sorted and distinct, where they are not yet."""
    kept = np.empty(len(members), dtype=np.int64)
    bounds = np.zeros(len(start), dtype=np.int64)
    n = 0
    for g in range(len(start) - 1):
        first = n
        if start[g + 1] - start[g] > 32:
            own = members[start[g] : start[g + 1]].copy()
            own.sort()
            for k in range(len(own)):
                if k == 0 or own[k] != own[k - 1]:
                    kept[n] = own[k]
                    n += 1
        else:  # most groups are small: put each member where it belongs
            for k in range(start[g], start[g + 1]):
                value = members[k]
                at = n
                while at > first and kept[at - 1] > value:
                    at -= 1
                if at > first and kept[at - 1] == value:
                    continue
                for move in range(n, at, -1):
                    kept[move] = kept[move - 1]
                kept[at] = value
                n += 1
        bounds[g + 1] = n
    return bounds, kept[:n].copy()


@kernel(work=size)
def copy(values: NDArray[Any], into: NDArray[Any]) -> None:
    """Copy an array to the beginning of another; of `into[:n] = values` numba would compile what it says of lengths."""
    for i in range(len(values)):
        into[i] = values[i]


@kernel(work=lambda start, members, chosen: 2 * len(chosen))
def take_groups(start: Ints, members: Ints, chosen: Ints) -> tuple[Ints, Ints]:
    """(start, members) of some of the groups."""
    bounds = np.zeros(len(chosen) + 1, dtype=np.int64)
    for i in range(len(chosen)):
        bounds[i + 1] = bounds[i] + start[chosen[i] + 1] - start[chosen[i]]
    taken = np.empty(bounds[-1], dtype=np.int64)
    for i in range(len(chosen)):
        copy(members[start[chosen[i]] : start[chosen[i] + 1]], taken[bounds[i] :])
    return bounds, taken
