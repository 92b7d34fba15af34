"""Plain loops over vectors, where numba would compile far more for a slice, a fill or a sort."""

from __future__ import annotations

from overlace.arrays.jit import Floats, Ints, kernel


@kernel
def copy_to(target: Floats, source: Floats) -> None:
    """Copy one vector into another."""
    for i in range(len(source)):
        target[i] = source[i]


@kernel
def fill(target: Floats, value: float) -> None:
    """Give all entries of a vector one value."""
    for i in range(len(target)):
        target[i] = value


@kernel
def sort_by(key: Floats, item: Ints, first: int, last: int) -> None:
    """Sort the entries from first to last (left out) of both by key, equal ones by item; in place, as a heap."""
    count = last - first
    for end in range(count // 2 - 1, -count, -1):
        if end >= 0:
            low, size = end, count
        else:  # the largest of those left goes to the end of them
            size = count + end
            key[first], key[first + size] = key[first + size], key[first]
            item[first], item[first + size] = item[first + size], item[first]
            low = 0
        while 2 * low + 1 < size:
            child = 2 * low + 1
            a, b = first + child, first + child + 1
            if child + 1 < size and (key[a] < key[b] or (key[a] == key[b] and item[a] < item[b])):
                child += 1
                a = b
            at = first + low
            if key[at] > key[a] or (key[at] == key[a] and item[at] > item[a]):
                break
            key[at], key[a] = key[a], key[at]
            item[at], item[a] = item[a], item[at]
            low = child
