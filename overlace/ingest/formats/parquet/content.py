"""Columns of a Parquet file as the content of messages."""

from __future__ import annotations

import pyarrow as pa
import pyarrow.compute as pc

from overlace.arrays.jit import Bools
from overlace.errors import BadTrace, Unknown
from overlace.ingest.content import Content, asked_types, column_name, flags_in, numbers_in
from overlace.ingest.events import Settled
from overlace.ingest.formats.parquet.rows import Rows
from overlace.ingest.formats.parquet.values import as_text, nulls


def settle_columns(path: str, schema: pa.Schema, settled: Settled) -> None:
    """Settle the types of the columns that are content, in place."""
    wanted = asked_types(settled.get("content") or ())
    types = {}
    for name, asked in wanted.items():
        if name not in schema.names:
            raise Unknown("column", name, schema.names)
        types[name] = asked or _type_of(path, name, schema.field(name).type)
    if types:
        settled["types"] = types
        settled["unused"] = [name for name in settled["unused"] if name not in types]


def _type_of(path: str, name: str, kind: pa.DataType) -> str:
    inner = kind.value_type if pa.types.is_dictionary(kind) else kind
    if pa.types.is_boolean(inner):
        return "flag"
    if pa.types.is_integer(inner) or pa.types.is_floating(inner) or pa.types.is_decimal(inner):
        return "number"
    if pa.types.is_string(inner) or pa.types.is_large_string(inner):
        return "text"
    raise BadTrace(
        f"{path}: column {name} is {kind}, and content is text, numbers or flags. Leave it out of --content, or name a "
        f"type that it can be read as: {name}:text"
    )


def content_in(rows: Rows) -> tuple[Content, dict[str, Bools]]:
    """(columns, wrong): the content of all rows, and which rows cannot be read, by reason."""
    content, wrong = Content(), dict[str, Bools]()
    for name, kind in rows.options["types"].items():
        values = rows.column(name)
        if pa.types.is_dictionary(values.type) and kind != "text":
            values = values.cast(values.type.value_type)
        if kind == "text":
            column = as_text(values).cast(pa.string()).dictionary_encode()
        elif kind == "number" and (pa.types.is_integer(values.type) or pa.types.is_floating(values.type)):
            column = values.cast(pa.float64(), safe=False)
            column = pc.if_else(pc.is_nan(column), None, column)
        elif kind == "flag" and pa.types.is_boolean(values.type):
            column = values
        else:
            column = _from_text(name, kind, as_text(values).cast(pa.string()), wrong)
        content[column_name(kind, name)] = column
    return content, wrong


def _from_text(name: str, kind: str, text: pa.Array, wrong: dict[str, Bools]) -> pa.Array:
    """Text as numbers or flags, empty where it is blank."""
    found, fine, empty = (numbers_in if kind == "number" else flags_in)(text.fill_null(""))
    missing = nulls(text) | empty
    broken = ~fine & ~missing
    if broken.any():
        wrong[f"{name}: {'not a number' if kind == 'number' else 'neither true nor false'}"] = broken
    return pc.if_else(pa.array(fine & ~missing, pa.bool_()), found, None)
