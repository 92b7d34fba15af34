"""Linked lists in arrays: many at once, each item in one of them; and links between nodes, listed at both ends."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from overlace.arrays.jit import Ints, kernel


@kernel
def put_in(head: Ints, after: Ints, before: Ints, v: int, k: int) -> None:
    """Put k at the head of list v, a list in both directions."""
    after[k], before[k] = head[v], -1
    if head[v] >= 0:
        before[head[v]] = k
    head[v] = k


@kernel
def take_out(head: Ints, after: Ints, before: Ints, v: int, k: int) -> None:
    """Take k out of list v."""
    if before[k] >= 0:
        after[before[k]] = after[k]
    else:
        head[v] = after[k]
    if after[k] >= 0:
        before[after[k]] = before[k]


class Links(NamedTuple):
    """Links that are added one by one, and at each node a list of them, the last one first; changed in place.

    Link k is the half-link 2k at its one end and 2k + 1 at its other.
    """

    head: Ints  # per node its first half-link; -1: none
    after: Ints  # per half-link the next one at the same node
    to: NDArray[np.int32]  # per half-link the node at the other end
    degree: Ints  # per node
    many: Ints  # one entry: how many links there are


@kernel
def no_links(nodes: int, room: int) -> Links:
    """No link yet, and room for so many."""
    return Links(
        np.full(nodes, -1, dtype=np.int64),
        np.empty(2 * room, dtype=np.int64),
        np.empty(2 * room, dtype=np.int32),
        np.zeros(nodes, dtype=np.int64),
        np.zeros(1, dtype=np.int64),
    )


@kernel
def add_link(links: Links, one: int, other: int) -> None:
    """Add a link that is not there."""
    half = 2 * links.many[0]
    links.to[half], links.after[half], links.head[one] = other, links.head[one], half
    links.to[half + 1], links.after[half + 1], links.head[other] = one, links.head[other], half + 1
    links.degree[one] += 1
    links.degree[other] += 1
    links.many[0] += 1


@kernel
def are_linked(links: Links, one: int, other: int) -> bool:
    """Whether there is a link between two nodes."""
    half = links.head[one]
    while half >= 0 and links.to[half] != other:
        half = links.after[half]
    return bool(half >= 0)


@kernel
def link_ends(links: Links) -> tuple[NDArray[np.int32], NDArray[np.int32]]:
    """(one, other): the ends of each link as it was added."""
    last = 2 * links.many[0]
    return links.to[1:last:2].copy(), links.to[0:last:2].copy()
