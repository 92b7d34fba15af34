"""What links cost: all alike, one price for every pair of brokers, or only for some pairs."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from overlace.arrays.jit import Floats, Ints, Pairs, by_address, kernel

UNIFORM, FULL, SPARSE = 0, 1, 2
"""How prices are looked up: all alike, one for every pair of brokers, or only for some pairs."""


@by_address
class Wires(NamedTuple):
    """The price of a link between any two brokers; infinite where none could be."""

    brokers: int  # nodes from here on are clients, whose links are free
    kind: int
    price: Floats  # UNIFORM: one; FULL: in order of the pairs
    start: Ints  # SPARSE: links at each broker, by far end
    other: Ints
    each: Floats
    cheapest: Floats  # per broker the least price of a link


def wires_over(brokers: int, links: Pairs, price: Floats) -> Wires:
    """The prices of these links; no other can be."""
    none, nothing = np.empty(0, dtype=np.int64), np.empty(0)
    cheapest = np.full(brokers, np.inf)
    np.minimum.at(cheapest, links[:, 0], price)
    np.minimum.at(cheapest, links[:, 1], price)
    if len(links) == brokers * (brokers - 1) // 2:
        return Wires(brokers, FULL, price, none, none, nothing, cheapest)
    both = np.concatenate([links, links[:, ::-1]])
    order = np.lexsort((both[:, 1], both[:, 0]))
    start = np.searchsorted(both[order, 0], np.arange(brokers + 1))
    other = np.ascontiguousarray(both[order, 1])
    return Wires(brokers, SPARSE, nothing, start, other, np.concatenate([price, price])[order], cheapest)


def all_alike(brokers: int, price: float) -> Wires:
    """One price for any link."""
    none, nothing = np.empty(0, dtype=np.int64), np.empty(0)
    return Wires(brokers, UNIFORM, np.array([price]), none, none, nothing, np.full(brokers, price))


@kernel
def price_of(wires: Wires, a: int, b: int) -> float:
    """The price of a link between two nodes; infinite if it could not be wired."""
    if a > b:
        a, b = b, a
    if b >= wires.brokers:
        return 0.0 if a < wires.brokers else np.inf
    if wires.kind == UNIFORM:
        return float(wires.price[0])
    if wires.kind == FULL:
        return float(wires.price[a * (2 * wires.brokers - a - 1) // 2 + b - a - 1])
    low, high = wires.start[a], wires.start[a + 1]
    while low < high:
        middle = (low + high) // 2
        if wires.other[middle] < b:
            low = middle + 1
        else:
            high = middle
    if low < wires.start[a + 1] and wires.other[low] == b:
        return float(wires.each[low])
    return np.inf


@kernel(work=lambda wires, links: 3 * len(links))
def prices_of(wires: Wires, links: Pairs) -> Floats:
    """The price of each link."""
    found = np.empty(len(links), dtype=np.float64)
    for k in range(len(links)):
        found[k] = price_of(wires, links[k, 0], links[k, 1])
    return found


@kernel(work=lambda wires, most: 2 * wires.brokers**2)
def nearest(wires: Wires, most: int) -> Ints:
    """(brokers, most): the others by the price of a link, the cheapest first; a broker itself where there are fewer."""
    n = wires.brokers
    near = np.empty((n, most), dtype=np.int64)
    for x in range(n):
        filled = 0
        many = wires.start[x + 1] - wires.start[x] if wires.kind == SPARSE else n
        for j in range(many):
            y = wires.other[wires.start[x] + j] if wires.kind == SPARSE else j
            if y == x:
                continue
            price = price_of(wires, x, y)
            if filled == most and not price < price_of(wires, x, near[x, most - 1]):
                continue
            at = filled if filled < most else most - 1
            filled = min(filled + 1, most)
            while at > 0 and price < price_of(wires, x, near[x, at - 1]):
                near[x, at] = near[x, at - 1]
                at -= 1
            near[x, at] = y
        for i in range(filled, most):
            near[x, i] = x
    return near
