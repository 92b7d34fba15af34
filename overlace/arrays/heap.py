"""A heap of entries in two arrays: a key, and four numbers of which the first two break ties. The least is on top."""

from __future__ import annotations

from overlace.arrays.jit import Floats, Ints, kernel


@kernel
def comes_first(key: Floats, row: Ints, i: int, j: int) -> bool:
    """Whether entry i is to be taken before entry j: the lesser key, then the lesser numbers."""
    if key[i] != key[j]:
        return bool(key[i] < key[j])
    if row[i, 0] != row[j, 0]:
        return bool(row[i, 0] < row[j, 0])
    return bool(row[i, 1] < row[j, 1])


@kernel
def swap(key: Floats, row: Ints, i: int, j: int) -> None:
    """Exchange two entries."""
    key[i], key[j] = key[j], key[i]
    for k in range(4):
        row[i, k], row[j, k] = row[j, k], row[i, k]


@kernel
def push(key: Floats, row: Ints, size: int, value: float, a: int, b: int, c: int, d: int) -> int:
    """Add an entry; returns the new size."""
    key[size] = value
    row[size, 0], row[size, 1], row[size, 2], row[size, 3] = a, b, c, d
    i = size
    while i and comes_first(key, row, i, (i - 1) // 2):
        swap(key, row, i, (i - 1) // 2)
        i = (i - 1) // 2
    return size + 1


@kernel
def pop(key: Floats, row: Ints, size: int) -> int:
    """Take the first entry out, which is then at the new size; returns it."""
    size -= 1
    swap(key, row, 0, size)
    i = 0
    while True:
        child = 2 * i + 1
        if child >= size:
            return size
        if child + 1 < size and comes_first(key, row, child + 1, child):
            child += 1
        if not comes_first(key, row, child, i):
            return size
        swap(key, row, i, child)
        i = child
