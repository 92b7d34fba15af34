"""Formats whose lines are rows: blank and broken lines set aside, the rest parsed in bulk."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from overlace.ingest.formats.columns import bad_events, ignored_events
from overlace.ingest.formats.lines import in_bulk, split, text_of


def read_rows(
    blocks: Iterator[tuple[int, bytes]],
    parse: Callable[[pa.Array], pa.Table],
    events_of: Callable[[pa.Table, pa.Array, Any], pa.RecordBatch],
    reason: Callable[[str], str],
    *,
    header: bool = False,
    shaped: Callable[[pa.Array], pa.Array] | None = None,
) -> Iterator[pa.RecordBatch]:
    """One event a line.

    `parse` gives one row a line or raises; `events_of` takes rows, their lines and offsets; `reason` says in
    our words why a line was refused; lines that are not `shaped` never reach the parser.
    """
    for offset, block in blocks:
        lines, offsets = split(offset, block)
        text, broken = text_of(lines)
        if offset == 0:
            text = pc.utf8_ltrim(text, characters="\ufeff")  # some programs begin a file with a mark
            broken = broken[broken > 0] if header else broken
        trimmed = pc.utf8_trim_whitespace(text)
        use = pc.greater(pc.utf8_length(trimmed), 0).to_numpy(zero_copy_only=False)
        blank = ~use
        use[broken] = blank[broken] = False
        if header and len(offsets) and offsets[0] == 0:
            use[0] = blank[0] = False
            yield ignored_events(offsets[:1], "header")
        if blank.any():
            yield ignored_events(offsets[blank], "blank")
        if len(broken):
            yield bad_events(offsets[broken], ["not UTF-8"] * len(broken), [""] * len(broken))
        if shaped is not None:
            fits = shaped(trimmed).to_numpy(zero_copy_only=False)
            odd = np.flatnonzero(use & ~fits)
            if len(odd):
                yield bad_events(offsets[odd], [reason("")] * len(odd), trimmed.take(pa.array(odd)).to_pylist())
            use &= fits
        at = np.flatnonzero(use)
        if len(at) == 0:
            continue
        chosen = text.take(pa.array(at))
        good, bad = in_bulk(parse, chosen)
        for rows, places in good:
            yield events_of(rows, chosen.take(pa.array(places)), offsets[at[places]])
        if bad:
            where = [i for i, _ in bad]
            yield bad_events(offsets[at[where]], [reason(why) for _, why in bad], [chosen[i].as_py() for i in where])
