"""Row groups of a Parquet file, column by column."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import cached_property

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from overlace.arrays.jit import Ints
from overlace.arrays.text import MISSING
from overlace.errors import NotSorted
from overlace.ingest.events import Settled, in_one_piece
from overlace.ingest.formats.parquet.files import key_ends
from overlace.ingest.formats.parquet.values import Names, Values, integers, number_names, recode

HEAD_ROWS = 10_000
"""Rows read at once for the rest of a message that runs into the next row group."""


class Rows:
    """Row groups of a file, column by column, with the rest of their last message if files are sorted."""

    def __init__(self, file: pq.ParquetFile, groups: Sequence[int], options: Settled) -> None:
        self.file, self.groups, self.options = file, groups, options
        self.skip = 0  # rows at the front that belong to the split before
        self.rest: pa.Table | None = None
        self.held: dict[str, pa.ChunkedArray] = {}  # read already
        self.schema = file.schema_arrow

    def settle_edges(self) -> None:
        """Give the first rows to the split before, and take the rest of the last message."""
        name = self.options["mapping"]["key"][0]
        self.held[name] = self._read(name)
        message = integers(self.held[name])
        if len(message) and (np.diff(message) < 0).any():
            raise NotSorted(f"not sorted by {name}")
        column = self.schema.get_field_index(name)
        if self.groups[0]:
            ends = key_ends(self.file.metadata, self.groups[0] - 1, column)
            before = ends[1] if ends else None
            self.skip = int(np.searchsorted(message, before, side="right")) if before is not None else 0
        if self.skip < len(message):
            self.rest = self._rest(name, column, int(message[-1]))

    def _rest(self, name: str, column: int, message: int) -> pa.Table | None:
        parts = []
        group = self.groups[-1] + 1
        while group < self.file.num_row_groups:
            ends = key_ends(self.file.metadata, group, column)
            if ends and ends[0] != message:
                break
            mapped = [n for names in self.options["mapping"].values() for n in names]
            wanted = list(dict.fromkeys([*mapped, *self.options.get("types", ())]))
            for batch in self.file.iter_batches(HEAD_ROWS, [group], wanted, use_threads=False):
                same = int(np.searchsorted(integers(batch[name]), message, side="right"))
                parts.append(batch.slice(0, same))
                if same < batch.num_rows:
                    return pa.Table.from_batches(parts)
            group += 1
        return pa.Table.from_batches(parts) if parts else None

    def _read(self, name: str) -> pa.ChunkedArray:
        return self.file.read_row_groups(list(self.groups), columns=[name], use_threads=False)[name]

    def column(self, name: str) -> pa.Array:
        """A column as one array."""
        own = self.held.pop(name) if name in self.held else self._read(name)
        chunks = [*own.slice(self.skip).chunks, *(self.rest[name].chunks if self.rest else [])]
        kind = self.schema.field(self.schema.get_field_index(name)).type
        together = pa.chunked_array(chunks, kind)
        if pa.types.is_dictionary(kind):
            together = together.unify_dictionaries()
        return in_one_piece(together)

    def columns_of(self, field: str) -> list[str]:
        """The columns of a field."""
        return list(self.options["mapping"].get(field, ()))


def coalesce(rows: Rows, field: str, read: Callable[[pa.Array, Settled], Values], n: int | None = None) -> Values:
    """A field from its columns: of each row the first that is there."""
    found: Values | None = None
    for name in rows.columns_of(field):
        mine = read(rows.column(name), rows.options)
        if found is None:
            found = mine
        else:
            use = found.state == MISSING
            found = Values(np.where(use, mine.values, found.values), np.where(use, mine.state, found.state))
    if found is None:
        count = n if n is not None else count_rows(rows)
        found = Values(np.zeros(count, np.int64), np.full(count, MISSING, np.int8))
    return found


def count_rows(rows: Rows) -> int:
    """How many rows are read."""
    count = sum(int(rows.file.metadata.row_group(g).num_rows) for g in rows.groups)
    return count - rows.skip + (rows.rest.num_rows if rows.rest else 0)


class Named:
    """A field's names: numbers without gaps are coded only where they are needed."""

    def __init__(self, rows: Rows, field: str, n: int) -> None:
        self.rows, self.field, self.n = rows, field, n
        columns = rows.columns_of(field)
        self.known = bool(columns)
        values = rows.column(columns[0]) if len(columns) == 1 else None
        plain = values is not None and pa.types.is_integer(values.type) and not values.null_count
        self.plain = values.to_numpy() if plain and values is not None else None

    @cached_property
    def full(self) -> Names:
        """Codes of all rows."""
        if self.plain is not None:
            (codes,), names = number_names([pa.array(self.plain)])
            return Names(codes, names)
        return _names(self.rows, self.field, self.n)

    def has(self, code: int) -> bool:
        """Whether some row has this code."""
        return self.plain is None and bool((self.full.codes == code).any())

    def at(self, chosen: Ints | None) -> Names:
        """Codes of some rows."""
        if chosen is None:
            return self.full
        if self.plain is not None:
            (codes,), names = number_names([pa.array(self.plain[chosen])])
            return Names(codes, names)
        return Names(self.full.codes[chosen], self.full.names)


def _names(rows: Rows, field: str, n: int) -> Names:
    found: Names | None = None
    for name in rows.columns_of(field):
        mine = number_names([rows.column(name)])
        own = Names(mine[0][0], mine[1])
        if found is None:
            found = own
        else:
            together = pc.unique(pa.concat_arrays([found.names, own.names]))
            left, right = (recode(each, together) for each in (found, own))
            found = Names(np.where(left == -1, right, left), together)
    return found or Names(np.full(n, -1, np.int32), pa.array([], pa.string()))
