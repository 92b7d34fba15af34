"""Random numbers: by place, where the draw for (seed, stream, row) is the same whoever makes it, in whatever order; and
one after the other, from a state that a kernel keeps."""

from __future__ import annotations

import numpy as np

from overlace.arrays.hashing import mix
from overlace.arrays.jit import Floats, Ints, kernel


@kernel
def share_of(word: np.uint64) -> float:
    """A random word as a number in [0, 1)."""
    return float((word >> np.uint64(11)) * 2.0**-53)


@kernel
def below(word: np.uint64, bound: int) -> int:
    """A random word as one of 0 to bound - 1."""
    return int(np.int64(word >> np.uint64(33)) % bound)


@kernel
def remainder(word: np.uint64, bound: int) -> int:
    """A random word as one of 0 to bound - 1, by all of its bits: bounds may be large."""
    return int(np.int64(word % np.uint64(bound)))


@kernel
def word_at(seed: int, stream: int, row: int) -> np.uint64:
    """The random word of a row of a stream."""
    return mix(mix(mix(np.uint64(seed)) ^ np.uint64(stream)) ^ np.uint64(row))


@kernel
def draw_counted(counts: Ints, at: int, bound: int) -> int:
    """The next draw among 0 to bound - 1 where what is kept is the number of the last one."""
    counts[at] += 1
    return remainder(mix(np.uint64(counts[at])), bound)


@kernel
def uniform(seed: int, stream: int, first: int, count: int) -> Floats:
    """Uniform draws in [0, 1) for rows first to first + count of a stream."""
    out = np.empty(count, dtype=np.float64)
    for i in range(count):
        out[i] = share_of(word_at(seed, stream, first + i))
    return out


@kernel
def scattered(seed: int, stream: int, rows: Ints, size: int, most: int) -> tuple[Ints, Ints]:
    """(start, members): for each row `size` distinct sorted numbers below most, by its own draws."""
    start = size * np.arange(len(rows) + 1)
    members = np.empty(size * len(rows), dtype=np.int64)
    for i in range(len(rows)):
        state = word_at(seed, stream, rows[i])
        held = 0
        while held < size:
            state = mix(state)
            drawn = remainder(state, most)
            at = i * size
            fresh = True
            for k in range(held):
                if members[at + k] == drawn:
                    fresh = False
                    break
            if fresh:
                members[at + held] = drawn
                held += 1
        members[i * size : (i + 1) * size].sort()
    return start, members


def drawing(seed: int) -> Ints:
    """The state of draws that follow a seed."""
    return np.array([seed & LAST], dtype=np.int64)


LAST = (1 << 63) - 1


@kernel
def draw(state: Ints) -> float:
    """The next draw in [0, 1)."""
    return share_of(_next(state))


@kernel
def draw_below(state: Ints, bound: int) -> int:
    """The next draw among 0 to bound - 1."""
    return below(_next(state), bound)


@kernel
def _next(state: Ints) -> np.uint64:
    word = mix(np.uint64(state[0]))
    state[0] = np.int64(word >> np.uint64(1))
    return word
