"""Relations as sorted, distinct pairs of integers, and the difference of two of them.

A relation is an int64 array of shape (n, 2), sorted by left then right, no row twice. Everything here
is one linear pass over such arrays: no hashing, no Python object per row.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import ArrayLike

from overlace.arrays.jit import Ints, Pairs, kernel

NO_PAIRS: Pairs = np.empty((0, 2), dtype=np.int64)
NO_PAIRS.setflags(write=False)


def as_pairs(values: ArrayLike) -> Pairs:
    """Any rows of two integers as a relation: int64, sorted, distinct. Raises ValueError otherwise."""
    rows = np.asarray(values)
    if rows.size == 0:
        return NO_PAIRS
    if rows.ndim != 2 or rows.shape[1] != 2:
        raise ValueError(f"expected rows of two integers, found an array of shape {rows.shape}")
    if not np.issubdtype(rows.dtype, np.integer):
        raise ValueError(f"expected integers, found {rows.dtype}")
    rows = np.ascontiguousarray(rows, dtype=np.int64)
    return rows if is_sorted(rows) else sort_pairs(rows)


def sort_pairs(rows: Pairs) -> Pairs:
    """Rows in order of left then right, each once."""
    ordered = rows[order_of(rows)]
    fresh = np.ones(len(ordered), dtype=np.bool_)
    fresh[1:] = np.any(ordered[1:] != ordered[:-1], axis=1)
    return ordered[fresh]


def order_of(rows: Pairs) -> Ints:
    """The stable order that sorts rows by left then right."""
    low, high = (rows.min(), rows.max()) if len(rows) else (0, 0)
    if low >= 0 and high < 2**31:  # one sort of packed keys is several times faster than two
        return np.argsort((rows[:, 0] << 32) | rows[:, 1], kind="stable")
    return np.lexsort((rows[:, 1], rows[:, 0]))


def undirected(rows: Pairs) -> Pairs:
    """The same links with the lower id at the left."""
    if len(rows) == 0 or bool(np.all(rows[:, 0] <= rows[:, 1])):
        return rows
    return as_pairs(np.sort(rows, axis=1))


def is_sorted(rows: Pairs) -> bool:
    """Whether each row is greater than the one before it."""
    left, right = rows[:, 0], rows[:, 1]
    return bool(((left[:-1] < left[1:]) | ((left[:-1] == left[1:]) & (right[:-1] < right[1:]))).all())


@kernel
def compare(a: Pairs, i: int, b: Pairs, j: int) -> int:
    """-1, 0 or 1 as row i of a is less than, equal to or greater than row j of b; the end is greater than any row."""
    if j == len(b):
        return -1
    if i == len(a):
        return 1
    if a[i, 0] != b[j, 0]:
        return -1 if a[i, 0] < b[j, 0] else 1
    if a[i, 1] != b[j, 1]:
        return -1 if a[i, 1] < b[j, 1] else 1
    return 0


@kernel
def difference(before: Pairs, after: Pairs) -> tuple[Pairs, Pairs]:
    """(removed, added): the rows that only before has, and those that only after has."""
    removed = np.empty((len(before), 2), dtype=np.int64)
    added = np.empty((len(after), 2), dtype=np.int64)
    i = j = r = a = 0
    while i < len(before) or j < len(after):
        order = compare(before, i, after, j)
        if order < 0:
            removed[r, 0] = before[i, 0]
            removed[r, 1] = before[i, 1]
            r += 1
            i += 1
        elif order > 0:
            added[a, 0] = after[j, 0]
            added[a, 1] = after[j, 1]
            a += 1
            j += 1
        else:
            i += 1
            j += 1
    return removed[:r].copy(), added[:a].copy()


@kernel
def patch(base: Pairs, removed: Pairs, added: Pairs) -> tuple[Pairs, int, int]:
    """base without removed and with added, all three sorted.

    Returns the rows and two counts of misfits: removals of rows that are not there and additions
    of rows that are.
    """
    rows = np.empty((len(base) + len(added), 2), dtype=np.int64)
    i = r = a = n = missing = present = 0
    while i < len(base) or a < len(added):
        order = compare(base, i, added, a)
        if order > 0:
            rows[n, 0] = added[a, 0]
            rows[n, 1] = added[a, 1]
            n += 1
            a += 1
            continue
        while r < len(removed) and compare(removed, r, base, i) < 0:
            missing += 1
            r += 1
        gone = r < len(removed) and compare(removed, r, base, i) == 0
        if gone:
            r += 1
        else:
            rows[n, 0] = base[i, 0]
            rows[n, 1] = base[i, 1]
            n += 1
        if order == 0:
            present += 1
            a += 1
        i += 1
    return rows[:n].copy(), missing + len(removed) - r, present


@kernel(work=lambda rows, wanted: 8 * len(wanted) * len(rows).bit_length())
def positions(rows: Pairs, wanted: Pairs) -> Ints:
    """Where each wanted row stands in sorted rows, or -1."""
    found = np.empty(len(wanted), dtype=np.int64)
    for k in range(len(wanted)):
        low, high = 0, len(rows)
        while low < high:
            middle = (low + high) // 2
            if compare(rows, middle, wanted, k) < 0:
                low = middle + 1
            else:
                high = middle
        found[k] = low if low < len(rows) and compare(rows, low, wanted, k) == 0 else -1
    return found
