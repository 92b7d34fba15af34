"""One row of cells a line, read where it lies: the spans of wanted cells, every line on its own.

A cell in double quotes may hold the delimiter and, doubled, quotes; it ends in its line. Cells with doubled quotes
are decoded in place.
"""

from __future__ import annotations

import numpy as np

from overlace.arrays.jit import Ints, kernel
from overlace.arrays.text import TEXT, Bytes, Small

OPEN_QUOTE, AFTER_QUOTE, COLUMNS = 1, 2, 3
"""What is wrong with a line: a quote that does not close, text after a closing quote, too many or few columns."""


@kernel(work=lambda data, first, *_: 4 * len(data) + 10 * len(first))
def scan_cells(
    data: Bytes, first: Ints, last: Ints, delimiter: int, field: Ints, rank: Ints, fields: int
) -> tuple[Small, Ints, Ints, Small]:
    """(state, begin, end, kind) of each line, the last three by field. `field[c]` is that of column c, -1 for none.

    Of the columns of a field the one with the least rank that is not empty is taken.
    """
    n, columns = len(first), len(field)
    state = np.zeros(n, dtype=np.int8)
    begin = np.full((fields, n), -1, dtype=np.int64)
    finish = np.full((fields, n), -1, dtype=np.int64)
    kinds = np.zeros((fields, n), dtype=np.int8)
    ranks = np.empty(fields, dtype=np.int64)
    for line in range(n):
        i, end = first[line], last[line]
        ranks[:] = -1
        column = 0
        wrong = 0
        while True:
            if i < end and data[i] == 34:
                value = out = i + 1
                i += 1
                closed = False
                while i < end:
                    if data[i] == 34:
                        if i + 1 < end and data[i + 1] == 34:
                            i += 1
                        else:
                            closed = True
                            i += 1
                            break
                    if out != i:
                        data[out] = data[i]
                    out += 1
                    i += 1
                if not closed:
                    wrong = OPEN_QUOTE
                    break
                if i < end and data[i] != delimiter:
                    wrong = AFTER_QUOTE
                    break
                value_end = out
            else:
                value = i
                while i < end and data[i] != delimiter:
                    i += 1
                value_end = i
            if column < columns and value_end > value:
                f = field[column]
                if f >= 0 and (ranks[f] < 0 or rank[column] < ranks[f]):
                    ranks[f] = rank[column]
                    begin[f, line], finish[f, line], kinds[f, line] = value, value_end, TEXT
            column += 1
            if i >= end:
                break
            i += 1
        if wrong == 0 and column != columns:
            wrong = COLUMNS
        if wrong:
            state[line] = wrong
            for f in range(fields):
                begin[f, line] = finish[f, line] = -1
                kinds[f, line] = 0
    return state, begin, finish, kinds
