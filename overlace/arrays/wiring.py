"""A tree that is rewired in place: the links at each node as linked lists, a slot for each link.

A swap takes the link in a slot out and puts another one in, in constant time. Slot k is the half-link 2k at
its left end and 2k + 1 at its right end.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from overlace.arrays.jit import Floats, Ints, Pairs, by_address, kernel
from overlace.arrays.lists import put_in, take_out


@by_address
class Wiring(NamedTuple):
    """The links of a tree by slot, and at each node a list of its half-links."""

    first: Ints  # per node its first half-link, -1 at the end
    after: Ints  # per half-link the next one at the same node
    before: Ints
    to: Ints  # per half-link the node at the other end
    price: Floats  # per slot
    degree: Ints  # per node


@kernel
def wire(n: int, links: Pairs, price: Floats) -> Wiring:
    """The wiring of these links, slot k holding link k."""
    made = Wiring(
        np.full(n, -1, dtype=np.int64),
        np.full(2 * len(links), -1, dtype=np.int64),
        np.full(2 * len(links), -1, dtype=np.int64),
        np.zeros(2 * len(links), dtype=np.int64),
        np.zeros(len(links), dtype=np.float64),
        np.zeros(n, dtype=np.int64),
    )
    for k in range(len(links)):
        attach(made, k, links[k, 0], links[k, 1], price[k])
    return made


@kernel
def attach(w: Wiring, slot: int, a: int, b: int, price: float) -> None:
    """Put a link into a free slot."""
    w.price[slot] = price
    for side in range(2):
        half = 2 * slot + side
        node, other = (a, b) if side == 0 else (b, a)
        w.to[half] = other
        put_in(w.first, w.after, w.before, node, half)
        w.degree[node] += 1


@kernel
def detach(w: Wiring, slot: int) -> None:
    """Take the link out of a slot."""
    for side in range(2):
        half = 2 * slot + side
        node = w.to[half ^ 1]
        take_out(w.first, w.after, w.before, node, half)
        w.degree[node] -= 1


@kernel
def links_of(w: Wiring) -> Pairs:
    """The link in each slot, lower end first."""
    links = np.empty((len(w.price), 2), dtype=np.int64)
    for k in range(len(links)):
        a, b = w.to[2 * k + 1], w.to[2 * k]
        links[k, 0] = min(a, b)
        links[k, 1] = max(a, b)
    return links
