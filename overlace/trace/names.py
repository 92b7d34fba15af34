"""Names of a trace: their table, built in one place, and ids in order of first appearance."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from overlace.arrays.jit import Ints
from overlace.trace.tables import schema_of


def names_table(names: Mapping[str, Sequence[str] | pa.Array]) -> pa.Table:
    """The table of names, given by kind in order of their ids."""
    parts = [schema_of("names").empty_table()]
    for kind in sorted(names):
        own = names[kind] if isinstance(names[kind], pa.Array) else pa.array(names[kind], pa.string())
        columns = [pa.array([kind] * len(own), pa.string()), pa.array(np.arange(len(own), dtype=np.int32)), own]
        parts.append(pa.table(columns, schema=schema_of("names")))
    return pa.concat_tables(parts)


def number_names(known: Sequence[str], used: Iterable[tuple[pa.Array, Ints]], later: int) -> pa.Array:
    """Known names, then new ones in order of when they first came up, then by name; what came up `later` never did."""
    have = pa.array(known, pa.string())
    tables = [pa.table({"name": names, "at": at}) for names, at in used if len(names)]
    if not tables:
        return have
    every = pa.concat_tables(tables)
    every = every.filter(pc.less(every["at"], later)).group_by("name").aggregate([("at", "min")])
    if len(have):
        every = every.filter(pc.invert(pc.is_in(every["name"], value_set=have)))
    new = every.sort_by([("at_min", "ascending"), ("name", "ascending")])["name"].combine_chunks()
    if isinstance(new, pa.ChunkedArray):
        new = pa.concat_arrays(new.chunks) if new.num_chunks else pa.array([], pa.string())
    return pa.concat_arrays([have, new])
