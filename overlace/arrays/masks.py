"""Sets of at most 63 things as bits of an int64, and their non-empty subsets."""

from __future__ import annotations

import numpy as np

from overlace.arrays.csr import copy
from overlace.arrays.jit import Ints, kernel

MOST_BITS = 63


@kernel
def bits(mask: int) -> int:
    """How many bits are set."""
    count = 0
    while mask > 0:
        mask &= mask - 1
        count += 1
    return count


@kernel
def bits_of(masks: Ints) -> Ints:
    """How many bits are set in each mask."""
    count = np.empty(len(masks), dtype=np.int64)
    for i in range(len(masks)):
        count[i] = bits(masks[i])
    return count


@kernel
def submasks(mask: int) -> Ints:
    """The non-empty sub-masks of a mask, ascending: 2 ** bits - 1 of them."""
    found = np.empty((1 << bits(mask)) - 1, dtype=np.int64)
    sub = mask
    for i in range(len(found) - 1, -1, -1):
        found[i] = sub
        sub = (sub - 1) & mask
    return found


@kernel
def submasks_of(masks: Ints) -> Ints:
    """The distinct non-empty sub-masks of any of the masks, ascending."""
    total = 0
    for i in range(len(masks)):
        total += (1 << bits(masks[i])) - 1
    found = np.empty(total, dtype=np.int64)
    filled = 0
    for i in range(len(masks)):
        own = submasks(masks[i])
        copy(own, found[filled:])
        filled += len(own)
    found.sort()
    distinct = 0
    for i in range(total):
        if distinct == 0 or found[i] != found[distinct - 1]:
            found[distinct] = found[i]
            distinct += 1
    return found[:distinct].copy()
