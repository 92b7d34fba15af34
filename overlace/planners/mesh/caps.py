"""Degree caps that cannot be kept: who forbids them, and the least that was found.

Two subscribers of a topic of two must be linked: a client needs a link to everybody it shares such a topic with.
A topic whose subscribers are all within so many steps of a root holds no more than a tree of that depth and degree.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import cached_property

import numpy as np

from overlace.arrays.jit import Ints, kernel
from overlace.errors import NothingBetter
from overlace.model import Names, name_of
from overlace.planners.mesh.interests import Interests


class CapTooLow(NothingBetter):
    """No mesh was found under a cap: which topic or client forbids it, and the least cap that is found, if asked."""

    def __init__(self, planner: str, cap: int, find: Callable[[], int], who: tuple[str, int, str]) -> None:
        super().__init__(planner, cap, who)
        self.planner, self.cap, self.find, self.who = planner, cap, find, who

    @cached_property
    def least(self) -> int:
        """The least cap under which a mesh was found: it takes some searches."""
        return self.find()

    def why(self, names: Names | None = None) -> str:
        """Who forbids the cap, and why."""
        kind, key, why = self.who
        return f"{kind} {name_of(kind, key, names)} {why}"

    def sentence(self, names: Names | None = None) -> str:
        """The error with the names of a system."""
        return (
            f"{self.planner}: no mesh was found under a cap of {self.cap}. {self.why(names)}; the least cap found is "
            f"{self.least}."
        )

    def __str__(self) -> str:
        return self.sentence()


def least_solved(highest: Callable[[int], int], low: int, high: int) -> int:
    """A cap, found by halving, under which a mesh is found again; `highest` is the maximum degree found under a cap.

    What was found at a maximum degree need not be found again under that cap: the search sees the cap. It ends within
    a thirty-second of a cap that was too low.
    """
    while (found := highest(high)) > high:
        high = found
    while low < high - high // 32:
        cap = (low + high) // 2
        low, high = (low, cap) if highest(cap) <= cap else (cap + 1, high)
    return high


def too_low(planner: str, given: Interests, cap: int, diameter: int, stuck: int, find: Callable[[], int]) -> CapTooLow:
    """The error for a cap: by who certainly forbids it, else by the topic at which the search was stuck."""
    if found := forbidden(given, cap, diameter):
        return CapTooLow(planner, cap, find, found)
    size = int(given.first[stuck + 1] - given.first[stuck])
    why = f"with {size:,} subscribers could not be connected {within(diameter)}"
    return CapTooLow(planner, cap, find, ("topic", stuck, why))


def forbidden(given: Interests, cap: int, diameter: int) -> tuple[str, int, str] | None:
    """(kind, id, why) of a client or topic that no tree of that diameter can serve under the cap, if one is known."""
    sizes = np.diff(given.first)
    largest = int(np.argmax(sizes))
    widest = least_degree(int(sizes[largest]), diameter)
    linked = by_pairs(given)
    busiest = int(np.argmax(linked))
    if linked[busiest] > max(cap, widest):
        why = (
            f"shares topics of two subscribers with {linked[busiest]:,} clients, so it needs {linked[busiest]:,} links"
        )
        return "client", busiest, why
    if widest > cap:
        why = f"has {sizes[largest]:,} subscribers, which {within(diameter)} needs {widest:,} links at a client"
        return "topic", largest, why
    return None


def within(diameter: int) -> str:
    """How far everybody of a topic may be from its middle."""
    deep, middle = diameter // 2, "one of two that are linked" if diameter % 2 else "one of them"
    return f"within {deep} link{'' if deep == 1 else 's'} of {middle}"


def least_degree(size: int, diameter: int) -> int:
    """The least greatest degree of a tree of so many clients and that diameter."""
    low, high = 0, max(size - 1, 0)
    while low < high:
        degree = (low + high) // 2
        if tree_size(degree, diameter, size) >= size:
            high = degree
        else:
            low = degree + 1
    return low


def tree_size(degree: int, diameter: int, enough: int) -> int:
    """How many clients a tree of a degree and diameter holds at most; no more are counted than are enough."""
    middle = 1 + diameter % 2  # a client, or two that are linked
    held, ends = min(middle, 1 + degree), degree if middle == 1 else 2 * max(degree - 1, 0)
    for _ in range(diameter // 2):
        held += ends
        ends *= max(degree - 1, 0)
        if held >= enough or not ends:
            break
    return held


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
