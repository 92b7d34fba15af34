"""How many elements a limited number of sets can cover: the question behind the upper bound on bounds met.

Branch and bound over the choice of sets, as bitmaps. What is not looked at when the steps run out counts with the most
it could bring, so the answer is always an upper bound; it is the maximum where the steps were enough.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from overlace.arrays.jit import Bools, Ints, kernel

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
