"""Degree caps that cannot be kept: who forbids them, and the least that was found.

Two subscribers of a topic of two must be linked: a client needs a link to everybody it shares such a topic with.
A topic whose subscribers are all within so many steps of a root holds no more than a tree of that depth and degree.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from overlace.arrays.jit import Ints, kernel
from overlace.errors import NothingBetter
from overlace.model import Names, name_of
from overlace.planners.mesh.interests import Interests


class CapTooLow(NothingBetter):
    """No mesh was found under a cap: which topic or client forbids it, and the least cap that was found."""

    def __init__(self, planner: str, cap: int, least: int, kind: str, key: int, why: str) -> None:
        self.parts = (planner, cap, least, kind, key, why)
        super().__init__(self.said())

    @property
    def least(self) -> int:
        """The least cap under which a mesh was found."""
        return self.parts[2]

    def said(self, names: Names | None = None) -> str:
        """The error with the names of a system."""
        planner, cap, least, kind, key, why = self.parts
        return (
            f"{planner}: no mesh was found under a cap of {cap}. {kind} {name_of(kind, key, names)} {why}; the least "
            f"cap found is {least}."
        )


def least_solved(highest: Callable[[int], int], low: int, high: int) -> int:
    """A cap, found by halving, under which a mesh is found again; `highest` is the maximum degree found under a cap.

    What was found at a maximum degree need not be found again under that cap: the search sees the cap.
    """
    while (found := highest(high)) > high:
        high = found
    while low < high:
        cap = (low + high) // 2
        low, high = (low, cap) if highest(cap) <= cap else (cap + 1, high)
    return high


def too_low(planner: str, given: Interests, cap: int, deep: int, least: int, stuck: int) -> CapTooLow:
    """The error for a cap: by who certainly forbids it, else by the topic at which the search was stuck.

    `deep` is how many steps from its root a topic may reach; 1 is a star.
    """
    sizes = np.diff(given.first)
    largest = int(np.argmax(sizes))
    widest = least_degree(int(sizes[largest]), deep)
    linked = by_pairs(given)
    busiest = int(np.argmax(linked))
    if linked[busiest] > max(cap, widest):
        why = f"shares topics of two subscribers with {linked[busiest]:,} clients, so it needs {linked[busiest]} links"
        return CapTooLow(planner, cap, least, "client", busiest, why)
    if widest > cap:
        held = f"all within {ways(deep)} of one of them needs {widest} links at a client"
        why = f"has {sizes[largest]:,} subscribers: {held}"
        return CapTooLow(planner, cap, least, "topic", largest, why)
    why = f"with {sizes[stuck]:,} subscribers could not be connected within {ways(deep)} of one of them"
    return CapTooLow(planner, cap, least, "topic", stuck, why)


def ways(deep: int) -> str:
    """So many links on a path."""
    return f"{deep} link{'' if deep == 1 else 's'}"


def least_degree(size: int, deep: int) -> int:
    """The least greatest degree of a tree of so many clients, all within so many steps of its root."""
    low, high = 0, max(size - 1, 0)
    while low < high:
        degree = (low + high) // 2
        if holds(degree, deep, size):
            high = degree
        else:
            low = degree + 1
    return low


def holds(degree: int, deep: int, size: int) -> bool:
    """Whether a tree of a degree and depth holds so many clients."""
    held, ends = 1, degree
    for _ in range(deep):
        held += ends
        ends *= max(degree - 1, 0)
        if held >= size:
            return True
    return held >= size


@kernel
def by_pairs(given: Interests) -> Ints:
    """For each client, with how many others it shares a topic that nobody else wants: these links must be there."""
    clients = len(given.start) - 1
    linked, mark = np.zeros(clients, dtype=np.int64), np.full(clients, -1, dtype=np.int64)
    for v in range(clients):
        for i in range(given.start[v], given.start[v + 1]):
            begin, end = given.first[given.topic[i]], given.first[given.topic[i] + 1]
            if end - begin == 2:
                u = given.member[begin] + given.member[begin + 1] - v
                if mark[u] != v:
                    mark[u] = v
                    linked[v] += 1
    return linked
