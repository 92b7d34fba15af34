"""Random numbers by place: the draw for (seed, stream, row) is the same whoever makes it, in whatever order."""

from __future__ import annotations

import numpy as np

from overlace.arrays.hashing import mix
from overlace.arrays.jit import Floats, Ints, kernel


@kernel
def uniform(seed: int, stream: int, first: int, count: int) -> Floats:
    """Uniform draws in [0, 1) for rows first to first + count of a stream."""
    base = mix(mix(np.uint64(seed)) ^ np.uint64(stream))
    out = np.empty(count, dtype=np.float64)
    for i in range(count):
        out[i] = (mix(base ^ np.uint64(first + i)) >> np.uint64(11)) * 2.0**-53
    return out


@kernel
def scattered(seed: int, stream: int, rows: Ints, size: int, most: int) -> tuple[Ints, Ints]:
    """(start, members): for each row `size` distinct sorted numbers below most, by its own draws."""
    base = mix(mix(np.uint64(seed)) ^ np.uint64(stream))
    start = size * np.arange(len(rows) + 1)
    members = np.empty(size * len(rows), dtype=np.int64)
    for i in range(len(rows)):
        state = mix(base ^ np.uint64(rows[i]))
        held = 0
        while held < size:
            state = mix(state)
            drawn = np.int64(state % np.uint64(most))
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
