"""Hashes of integers that are the same on every machine: for audiences and for order-free digests."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from overlace.arrays.jit import Ints, kernel, size

Words = NDArray[np.uint64]

_P1, _P2, _P3, _P4, _P5 = map(
    np.uint64,
    (0x9E3779B185EBCA87, 0xC2B2AE3D27D4EB4F, 0x165667B19E3779F9, 0x85EBCA77C2B2AE63, 0x27D4EB2F165667C5),
)
"""The primes of XXH64."""


@kernel
def hash_long(value: np.uint64, seed: np.uint64) -> np.uint64:
    """XXH64 of the eight bytes of a value."""
    k = value * _P2
    k = ((k << np.uint64(31)) | (k >> np.uint64(33))) * _P1
    h = (seed + _P5 + np.uint64(8)) ^ k
    h = ((h << np.uint64(27)) | (h >> np.uint64(37))) * _P1 + _P4
    h = (h ^ (h >> np.uint64(33))) * _P2
    h = (h ^ (h >> np.uint64(29))) * _P3
    return h ^ (h >> np.uint64(32))


@kernel(work=size)
def fold(state: Words, words: Words) -> None:
    """Hash each word with the state of its row as the seed, in place."""
    for i in range(len(state)):
        state[i] = hash_long(words[i], state[i])


@kernel(work=size)
def fold_groups(start: Ints, words: Words, seed: np.uint64) -> Words:
    """The hash of each group of words, each word's hash being the seed of the next."""
    hashes = np.full(len(start) - 1, seed, dtype=np.uint64)
    for g in range(len(start) - 1):
        for k in range(start[g], start[g + 1]):
            hashes[g] = hash_long(words[k], hashes[g])
    return hashes


@kernel(work=size)
def xor_groups(start: Ints, words: Words, salt: np.uint64, seed: np.uint64) -> Words:
    """The xor of salt and the hashes of each group's words."""
    found = np.full(len(start) - 1, salt, dtype=np.uint64)
    for g in range(len(start) - 1):
        for k in range(start[g], start[g + 1]):
            found[g] ^= hash_long(words[k], seed)
    return found


@kernel
def mix(word: np.uint64) -> np.uint64:
    """Every bit of the result depends on every bit of the word (the finaliser of splitmix64)."""
    z = word + np.uint64(0x9E3779B97F4A7C15)
    z = (z ^ (z >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
    z = (z ^ (z >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    return z ^ (z >> np.uint64(31))


@kernel(work=size)
def hash_groups(start: Ints, members: Ints) -> Ints:
    """A hash of each group of integers in their order; never 0, which is left to say `no group`."""
    hashes = np.empty(len(start) - 1, dtype=np.int64)
    for g in range(len(start) - 1):
        state = np.uint64(0x243F6A8885A308D3)
        for k in range(start[g], start[g + 1]):
            state = mix(state ^ np.uint64(members[k] + 1))
        hashes[g] = np.int64(state) if state != 0 else 1
    return hashes


@kernel(work=size)
def distinct_groups(hashes: Ints, start: Ints, members: Ints) -> tuple[Ints, Ints, int]:
    """(group, first, clash): the number of each hash as they come up, where each came up first, and the first
    group whose members differ from those of its hash; -1 if there is none."""
    n = len(hashes)
    size = 16
    while size < 2 * n:
        size *= 2
    slot = np.full(size, -1, dtype=np.int64)
    group = np.empty(n, dtype=np.int64)
    first = np.empty(n, dtype=np.int64)
    found = 0
    clash = -1
    for i in range(n):
        at = np.int64(mix(np.uint64(hashes[i])) & np.uint64(size - 1))
        while slot[at] >= 0 and hashes[first[slot[at]]] != hashes[i]:
            at = (at + 1) & (size - 1)
        if slot[at] < 0:
            slot[at] = found
            first[found] = i
            found += 1
        g = slot[at]
        group[i] = g
        j = first[g]
        if clash < 0 and j != i:
            same = start[i + 1] - start[i] == start[j + 1] - start[j]
            k = 0
            while same and k < start[i + 1] - start[i]:
                same = members[start[i] + k] == members[start[j] + k]
                k += 1
            if not same:
                clash = i
    return group, first[:found].copy(), clash


@kernel(work=size)
def group_rows(keys: Ints) -> tuple[Ints, Ints]:
    """(group, first): the group of each row of a matrix, numbered as they come up, and each group's first row."""
    n, width = keys.shape
    size = 16
    while size < 2 * n:
        size *= 2
    slot = np.full(size, -1, dtype=np.int64)
    group = np.empty(n, dtype=np.int64)
    first = np.empty(n, dtype=np.int64)
    groups = 0
    for i in range(n):
        state = np.uint64(0)
        for c in range(width):
            state = mix(state ^ np.uint64(keys[i, c]))
        at = np.int64(state & np.uint64(size - 1))
        while True:
            g = slot[at]
            if g < 0:
                slot[at] = groups
                first[groups] = i
                group[i] = groups
                groups += 1
                break
            same = True
            for c in range(width):
                if keys[first[g], c] != keys[i, c]:
                    same = False
                    break
            if same:
                group[i] = g
                break
            at = (at + 1) & (size - 1)
    return group, first[:groups].copy()
