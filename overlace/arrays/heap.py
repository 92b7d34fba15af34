"""A heap of entries in two arrays: a key, and four numbers of which the first two break ties. The least is on top."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

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
def push(key: Floats, row: Ints, size: int, value: float, numbers: tuple[int, int, int, int]) -> int:
    """Add an entry; returns the new size."""
    key[size] = value
    row[size, 0], row[size, 1], row[size, 2], row[size, 3] = numbers
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


# --- a queue of numbers that knows where each one is, so that its worth may change while it waits


class Queue(NamedTuple):
    """Numbers that wait, the one worth most first, of equals the lowest."""

    item: Ints  # as a heap
    place: Ints  # of each number in the heap, or -1
    worth: Floats
    size: Ints  # one entry


def new_queue(count: int) -> Queue:
    """An empty queue for numbers below `count`."""
    none = np.full(count, -1, dtype=np.int64)
    return Queue(none.copy(), none, np.zeros(count), np.zeros(1, dtype=np.int64))


@kernel
def before(queue: Queue, a: int, b: int) -> bool:
    """Whether a comes before b."""
    return bool(queue.worth[a] > queue.worth[b] or (queue.worth[a] == queue.worth[b] and a < b))


@kernel
def settle_at(queue: Queue, i: int) -> None:
    """Let the entry at a place rise or sink to where it belongs."""
    item, place, size = queue.item, queue.place, queue.size[0]
    each = item[i]
    while i > 0 and before(queue, each, item[(i - 1) // 2]):
        item[i] = item[(i - 1) // 2]
        place[item[i]] = i
        i = (i - 1) // 2
    while 2 * i + 1 < size:
        child = 2 * i + 1
        if child + 1 < size and before(queue, item[child + 1], item[child]):
            child += 1
        if not before(queue, item[child], each):
            break
        item[i] = item[child]
        place[item[i]] = i
        i = child
    item[i] = each
    place[each] = i


@kernel
def enqueue(queue: Queue, each: int, worth: float) -> None:
    """Let a number wait, or tell what one that waits is worth now."""
    queue.worth[each] = worth
    if queue.place[each] < 0:
        queue.place[each] = queue.size[0]
        queue.item[queue.size[0]] = each
        queue.size[0] += 1
    settle_at(queue, queue.place[each])


@kernel
def dequeue(queue: Queue, each: int) -> None:
    """Take a number out."""
    i = queue.place[each]
    queue.place[each] = -1
    queue.size[0] -= 1
    if i < queue.size[0]:
        queue.item[i] = queue.item[queue.size[0]]
        queue.place[queue.item[i]] = i
        settle_at(queue, i)
