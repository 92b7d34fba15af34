"""Messages as typed columns: an attribute each, a row a message.

Numbers are float64, absent as not-a-number; flags are 0 and 1 in the same way; texts are codes of a dictionary, absent
as -1. That is what kernels read.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from overlace.arrays.jit import Floats
from overlace.errors import BadTrace, Unknown
from overlace.matching.content.constraints import Message, Type, Value, present, type_of

Codes = NDArray[np.int32]
NO_NUMBERS = np.empty(0, dtype=np.float64)
NO_CODES = np.empty(0, dtype=np.int32)


class AttributeColumn(NamedTuple):
    """The values of one attribute."""

    type: Type
    numbers: Floats  # of a number or flag, not-a-number where absent; otherwise empty
    codes: Codes  # of a text: rows of words, -1 where absent; otherwise empty
    words: pa.Array  # the distinct texts

    def value(self, row: int) -> Value | None:
        """The value of a message, None if it is absent."""
        if self.type == "text":
            return str(self.words[self.codes[row]].as_py()) if self.codes[row] >= 0 else None
        number = float(self.numbers[row])
        return None if np.isnan(number) else bool(number) if self.type == "flag" else number


class Columns(NamedTuple):
    """Messages by their attributes."""

    rows: int
    columns: Mapping[str, AttributeColumn]

    @classmethod
    def from_batch(cls, batch: pa.RecordBatch | pa.Table, names: Iterable[str] | None = None) -> Columns:
        """The columns of an Arrow record batch or table as attributes: all, or those named. Null means absent."""
        chosen = batch.schema.names if names is None else list(names)
        for name in chosen:
            if name not in batch.schema.names:
                raise Unknown("column", name, batch.schema.names)
        read = {name: _column(name, batch.column(name)) for name in chosen}
        return cls(batch.num_rows, {name: each for name, each in read.items() if each is not None})

    @classmethod
    def from_messages(cls, messages: Iterable[Message]) -> Columns:
        """Messages one by one, for tests and small things. An attribute has one type in all of them."""
        rows = [present(each) for each in messages]
        names = dict.fromkeys(name for row in rows for name in row)
        arrays = {}
        for name in names:
            kinds = {type_of(row[name]) for row in rows if name in row}
            if len(kinds) > 1:
                raise BadTrace(f"attribute {name}: found values of types {' and '.join(sorted(kinds))}, expected one")
            kind = {"text": pa.string(), "number": pa.float64(), "flag": pa.bool_()}[kinds.pop()]
            arrays[name] = pa.array([row.get(name) for row in rows], kind)
        read = {name: _column(name, array) for name, array in arrays.items()}
        return cls(len(rows), {name: each for name, each in read.items() if each is not None})

    def types(self) -> dict[str, Type]:
        """The type of each attribute."""
        return {name: each.type for name, each in self.columns.items()}

    def messages(self) -> Iterator[dict[str, Value]]:
        """The messages one by one."""
        for row in range(self.rows):
            values = ((name, each.value(row)) for name, each in self.columns.items())
            yield {name: value for name, value in values if value is not None}


def attribute_type(kind: pa.DataType) -> Type | None:
    """The type of the attribute that an Arrow column of this type is; None if it can be none."""
    if pa.types.is_dictionary(kind):
        kind = kind.value_type
    if pa.types.is_boolean(kind):
        return "flag"
    if pa.types.is_integer(kind) or pa.types.is_floating(kind) or pa.types.is_decimal(kind):
        return "number"
    if pa.types.is_string(kind) or pa.types.is_large_string(kind) or pa.types.is_string_view(kind):
        return "text"
    return None


def _column(name: str, values: pa.Array | pa.ChunkedArray) -> AttributeColumn | None:
    """An Arrow column as an attribute; None if it is null throughout by its type."""
    kind = attribute_type(values.type)
    plain = values.type.value_type if pa.types.is_dictionary(values.type) else values.type
    if pa.types.is_null(plain):
        return None
    if kind is None:
        raise BadTrace(
            f"column {name}: found {values.type}, expected text, a number or a flag. Cast it, or leave it out."
        )
    if isinstance(values, pa.ChunkedArray):
        values = values.combine_chunks() if values.num_chunks != 1 else values.chunk(0)
    if kind == "text":
        return _text_column(values)
    if pa.types.is_dictionary(values.type):
        values = values.cast(values.type.value_type)
    if kind == "flag":
        values = values.cast(pa.uint8())
    numbers = values.cast(pa.float64(), safe=False).to_numpy(zero_copy_only=False)
    return AttributeColumn(kind, numbers, NO_CODES, pa.array([], pa.string()))


def _text_column(values: pa.Array) -> AttributeColumn:
    if pa.types.is_string_view(values.type):
        values = values.cast(pa.string())
    if not pa.types.is_dictionary(values.type):
        values = values.dictionary_encode()
    elif values.dictionary.null_count or pc.count_distinct(values.dictionary).as_py() != len(values.dictionary):
        values = values.cast(values.type.value_type).dictionary_encode()  # words are distinct
    codes = values.indices.cast(pa.int32()).fill_null(-1).to_numpy(zero_copy_only=False)
    return AttributeColumn("text", NO_NUMBERS, np.asarray(codes, dtype=np.int32), values.dictionary.cast(pa.string()))
