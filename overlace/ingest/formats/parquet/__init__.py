"""Parquet: a row a delivery (`receiver`) or a message (`receivers`), its columns mapped to fields.

Rows of one message that stand next to one another become one event. Where files are sorted by a whole number of
a message, a split also reads the rest of its last message, so no message is cut and none has to be joined;
otherwise events carry their keys. A file that claims to be sorted and is not raises `NotSorted`.
"""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from overlace.errors import BadTrace
from overlace.ingest.content import with_content
from overlace.ingest.events import Blocks, Format, Settled
from overlace.ingest.fields import OPTIONS, match_columns, settle_mapping
from overlace.ingest.formats.csv import default_group
from overlace.ingest.formats.parquet.content import content_in, settle_columns
from overlace.ingest.formats.parquet.events import events_of
from overlace.ingest.formats.parquet.files import ROWS, files_of, key_range, open_parquet, span, splits
from overlace.ingest.formats.parquet.rows import Rows
from overlace.trace.store import place

MAGIC = b"PAR1"


def settle(path: str, options: Settled) -> Settled:
    """Which column is which, the key, the unit of times, and whether the file is sorted by message."""
    several = files_of(path)
    with open_parquet(several[0]) as file:
        schema = file.schema_arrow
        found = match_columns(schema.names, options["map"])
        for each in found:
            if each:
                _refuse_type(path, each.name, each.field, schema.field(schema.get_field_index(each.name)).type)
        times = [each.name for each in found if each and each.field == "at"]
        head = next(file.iter_batches(1000, columns=times), None) if times else None
        samples = [] if head is None else [v for name in times for v in _sample(head[name])]
        settled = settle_mapping(options, schema.names, samples, found)
        settled["zoneless"] = settled["zoneless"] or any(
            pa.types.is_timestamp(schema.field(name).type) and schema.field(name).type.tz is None for name in times
        )
        settle_columns(path, schema, settled)
        settled["group"] = settled.get("group") or default_group(settled)
        settled["range"] = key_range(file, settled) if len(several) == 1 else None
    return settled


def _sample(values: pa.Array) -> list[object]:
    kind = values.type
    return (
        values.to_pylist()
        if pa.types.is_string(kind) or pa.types.is_integer(kind) or pa.types.is_floating(kind)
        else []
    )


def _refuse_type(path: str, name: str, field: str, kind: pa.DataType) -> None:
    inner = kind.value_type if pa.types.is_dictionary(kind) else kind
    listed = pa.types.is_list(inner) or pa.types.is_large_list(inner)
    nested = pa.types.is_nested(inner) and not (listed and field in ("receivers", "attributes"))
    if nested or pa.types.is_boolean(inner):
        raise BadTrace(
            f"{path}: column {name} is {kind} and cannot be read as {field}. Map another with --map {field}=COLUMN."
        )


def read_groups(path: str, first: int, last: int, options: Settled) -> Iterator[pa.RecordBatch]:
    """Events of the messages in some row groups."""
    called = options["mapping"]
    text = [name for field in ("client", "topic", "receiver", "broker") for name in called.get(field, ())]
    above = 0
    for each in files_of(path):
        with open_parquet(each) as file:
            groups, count = file.metadata.num_row_groups, file.metadata.num_rows
        if first < groups:
            break
        first, last, above = first - groups, last - groups, above + count
    files, at = place(each)
    with pq.ParquetFile(files.open_input_file(at), read_dictionary=text) as file:
        before = above + sum(file.metadata.row_group(g).num_rows for g in range(first))
        rows = Rows(file, list(range(first, last)), options)
        if options.get("sorted"):
            rows.settle_edges()
        if not options.get("types"):
            yield from events_of(rows, before)
            return
        content, wrong = content_in(rows)
        n = len(next(iter(content.values())))
        yield from with_content(events_of(rows, before, wrong), before + rows.skip + np.arange(n), content)


def sniff(head: bytes) -> float:
    """Parquet begins with its magic."""
    return 1.0 if head.startswith(MAGIC) else 0.0


def read(blocks: Blocks, options: Settled) -> Iterator[pa.RecordBatch]:
    """A Parquet file is no list of lines; see `read_groups`."""
    raise BadTrace("a Parquet file cannot be read as lines")


FORMAT = Format(name="parquet", scope="line", sniff=sniff, read=read, keys="call", options=OPTIONS)

__all__ = ["FORMAT", "MAGIC", "ROWS", "files_of", "read", "read_groups", "settle", "sniff", "span", "splits"]
