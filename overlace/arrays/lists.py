"""Doubly linked lists: many at once, each item in one of them; to put one in or take one out takes constant time."""

from __future__ import annotations

from overlace.arrays.jit import Ints, kernel


@kernel
def put_in(head: Ints, after: Ints, before: Ints, v: int, k: int) -> None:
    """Put k at the head of list v."""
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
