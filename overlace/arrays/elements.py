"""The elements of a JSON array as lines, where they lie: no byte moves, so offsets stay."""

from __future__ import annotations

import numpy as np

from overlace.arrays.jit import Ints, kernel
from overlace.arrays.text import Bytes

DEPTH, IN_STRING, ESCAPED, FILLED = range(4)
"""What is carried from one block to the next: brackets that are open, inside a string, behind a backslash in one, and
whether the current element has begun."""


def at_the_beginning() -> Ints:
    """The state before the first byte of a file."""
    return np.zeros(4, np.int64)


@kernel(work=lambda data, state: 4 * len(data))
def part_elements(data: Bytes, state: Ints) -> None:
    """Turn what parts the elements of the outermost array into newlines, and newlines inside elements into blanks.

    Its opening bracket becomes a blank. A newline inside a string stays a character that no string may hold.
    What follows the array is left as it is, for a reader of lines to refuse.
    """
    for i in range(len(data)):
        c = data[i]
        if state[IN_STRING]:
            if state[ESCAPED]:
                state[ESCAPED] = 0
            elif c == 92:  # backslash
                state[ESCAPED] = 1
            elif c == 34:  # quote
                state[IN_STRING] = 0
            if c == 10 or c == 13:
                data[i] = 1
            continue
        if c == 10 or c == 13 or c == 32 or c == 9:
            data[i] = 32
            continue
        depth = state[DEPTH]
        if depth == 1 and c == 44:  # a comma between elements
            data[i] = 10
            state[FILLED] = 0
            continue
        if depth == 0 and c == 91:  # the array begins
            data[i] = 32
            state[DEPTH] = 1
            continue
        if depth == 1 and c == 93:  # and ends
            data[i] = 10 if state[FILLED] else 32
            state[DEPTH] = 0
            state[FILLED] = 0
            continue
        state[FILLED] = 1
        if c == 34:
            state[IN_STRING] = 1
        elif c == 91 or c == 123:
            state[DEPTH] = depth + 1
        elif (c == 93 or c == 125) and depth > 1:
            state[DEPTH] = depth - 1
