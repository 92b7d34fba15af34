"""Parquet: a row a delivery (`receiver`) or a message (`receivers`), its columns mapped to fields.

Rows of one message that stand next to one another become one event with their receivers.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from overlace.arrays.jit import Bools
from overlace.errors import BadTrace, Busy
from overlace.ingest.content import Content, add_content, column_name, settle_content
from overlace.ingest.events import Blocks, Format, Settled
from overlace.ingest.fields import OPTIONS, match_columns, settle_mapping
from overlace.ingest.lines import Faults, TableRows
from overlace.ingest.rows import read_rows
from overlace.ingest.values import as_text, integers, is_list, list_column, mask_of
from overlace.ingest.where import check_columns, filter_columns, select_rows, settle_kinds
from overlace.trace.address import place

MAGIC = b"PAR1"
ROWS = 2_000_000
"""Rows of a split, and those that are read at once."""


def open_parquet(path: str, coded: Sequence[str] = ()) -> pq.ParquetFile:
    """The file, some of its columns dictionary-encoded, or what is wrong with it."""
    files, at = place(path)
    try:
        return pq.ParquetFile(files.open_input_file(at), read_dictionary=[*coded])
    except pa.ArrowInvalid as error:
        raise Busy(f"{path}: not a whole Parquet file ({str(error).splitlines()[0]}). Was it cut?") from None


def splits(path: str, rows: int = ROWS) -> list[tuple[int, int]]:
    """(first, last): runs of row groups of a file, each of about so many rows."""
    with open_parquet(path) as file:
        sizes = [file.metadata.row_group(group).num_rows for group in range(file.metadata.num_row_groups)]
    found, first, held = [], 0, 0
    for group, count in enumerate(sizes, 1):
        held += count
        if held >= rows or group == len(sizes):
            found.append((first, group))
            first, held = group, 0
    return found


def settle(path: str, options: Settled) -> Settled:
    """Which column is which, the key, the unit of times, and the types of content."""
    with open_parquet(path) as file:
        return settle_columns(
            path, file.schema_arrow, lambda names: next(file.iter_batches(1000, columns=names), None), options
        )


UNREAD = (pa.types.is_boolean, pa.types.is_duration, pa.types.is_interval)
"""Types that no field is read from."""

NO_TEXT = (pa.types.is_nested, pa.types.is_duration, pa.types.is_interval)
"""Types that no filter is held against."""


def settle_columns(
    name: str, schema: pa.Schema, first: Callable[[list[str]], pa.RecordBatch | None], options: Settled
) -> Settled:
    """The same of any table; `first` gives some columns of its first rows."""
    found = match_columns(schema.names, options["map"])
    check_columns(options, schema.names)
    types = {each.name: each.type.value_type if pa.types.is_dictionary(each.type) else each.type for each in schema}
    for each in (each for each in found if each):
        if schema.names.count(each.name) > 1:
            raise BadTrace(f"{name}: several columns are called {each.name}. Rename all but one.")
        listed = is_list(types[each.name]) and each.field in ("receivers", "attributes")
        odd = any(is_kind(types[each.name]) for is_kind in UNREAD)
        if (pa.types.is_nested(types[each.name]) and not listed) or odd:
            raise BadTrace(
                f"{name}: column {each.name} is {schema.field(each.name).type} and cannot be read as {each.field}. "
                f"Map another with --map {each.field}=COLUMN."
            )
    for column in filter_columns(options):
        several = schema.names.count(column) > 1
        if several or any(is_kind(types[column]) for is_kind in NO_TEXT):
            what = "there several times" if several else schema.field(column).type
            raise BadTrace(f"{name}: column {column} is {what}, and --where compares texts, numbers and true or false.")
    times = [each.name for each in found if each and each.field == "at"]
    texts = [each for each, kind in types.items() if pa.types.is_string(kind) and schema.names.count(each) == 1]
    head = first(list(dict.fromkeys([*times, *texts]))) if times else None
    plain = (pa.types.is_string, pa.types.is_integer, pa.types.is_floating)
    sampled = [column for column in times if any(is_plain(schema.field(column).type) for is_plain in plain)]
    samples = [value for column in sampled for value in head[column].to_pylist()] if head else []
    settled = settle_mapping(options, schema.names, samples, found, table=True)
    cells = {each: [value or "" for value in head[each].to_pylist()] for each in texts} if head else {}
    settled.update(settle_kinds(cells, options))
    settled["zoneless"] |= any(pa.types.is_timestamp(types[each]) and types[each].tz is None for each in times)
    return settle_content(settled, schema.names, lambda column: _type_of(name, column, types[column]))


def columns_read(options: Settled) -> list[str]:
    """The columns of a table that are read."""
    mapping = options["mapping"]
    listed = [name for names in mapping.values() for name in names]
    return list(dict.fromkeys([*listed, *options.get("types", ()), *filter_columns(options)]))


def _type_of(path: str, name: str, kind: pa.DataType) -> str:
    """The type of content that a column holds."""
    if pa.types.is_boolean(kind):
        return "flag"
    if pa.types.is_integer(kind) or pa.types.is_floating(kind) or pa.types.is_decimal(kind):
        return "number"
    if pa.types.is_string(kind) or pa.types.is_large_string(kind):
        return "text"
    raise BadTrace(
        f"{path}: column {name} is {kind}, and content is text, numbers or flags. Leave it out of --content, or name a "
        f"type that it can be read as: {name}:text"
    )


def read_groups(path: str, first: int, last: int, options: Settled) -> Iterator[pa.RecordBatch]:
    """Events of the messages in some row groups of one file."""
    coded = [name for field in ("client", "topic", "receiver", "broker") for name in options["mapping"].get(field, ())]
    with open_parquet(path, coded) as file:
        above = sum(file.metadata.row_group(group).num_rows for group in range(first))
        wanted = columns_read(options)
        for batch in file.iter_batches(ROWS, range(first, last), wanted, use_threads=False):
            columns = {name: batch[name] for name in wanted}
            yield from events_of(columns, batch.num_rows, above, options)
            above += batch.num_rows


def events_of(columns: Mapping[str, pa.Array], rows: int, above: int, options: Settled) -> Iterator[pa.RecordBatch]:
    """Bad rows by reason, then an event a run of rows of one message; `above` rows of the table stand above these."""
    faults = Faults(rows)
    select_rows({name: as_text(columns[name]).fill_null("") for name in filter_columns(options)}, options, faults)
    content = _content_of(columns, options.get("types") or {}, faults)
    named = {field: [columns[name] for name in names] for field, names in options["mapping"].items()}
    lines = TableRows(above + np.arange(rows))
    for batch in read_rows(lines, named, options, faults, content=content):
        joined = batch["kind"][0].as_py() == "message" and "receivers" not in options["mapping"]
        yield _join_runs(batch, options.get("group") or ()) if joined else batch


def _join_runs(batch: pa.RecordBatch, group: Sequence[str]) -> pa.RecordBatch:
    """Neighbours of one key that differ in receivers and times only as one event with the least time."""
    keyed = np.ones(batch.num_rows, bool) if group else mask_of(batch["message"].is_valid())
    turn = ~(keyed[1:] & keyed[:-1])
    varying = {"offset", "at", "receivers"} - {"receivers" if name == "receiver" else name for name in group}
    for name, values in zip(batch.schema.names, batch.columns, strict=True):
        if name not in varying and values.null_count < len(values):
            turn |= _changes(values)
    run = np.append(np.flatnonzero(np.append(True, turn)), batch.num_rows)
    if len(run) == batch.num_rows + 1:
        return batch
    receivers = batch["receivers"]
    start = receivers.offsets.to_numpy() - receivers.offsets[0].as_py()
    logged = np.logical_or.reduceat(mask_of(receivers.is_valid()), run[:-1])
    joined = {
        "at": pa.array(np.minimum.reduceat(integers(batch["at"]), run[:-1])).cast(batch["at"].type),
        "receivers": list_column(start[run], receivers.flatten(), pa.array(~logged)),
        "rows": pa.array(np.diff(run)),
    }
    batch = batch.take(pa.array(run[:-1]))
    for name, values in joined.items():
        place = batch.schema.get_field_index(name)
        batch = batch.set_column(place, batch.schema.field(place), values)
    return batch


def _changes(values: pa.Array) -> Bools:
    """Whether each value but the first differs from the one before."""
    if is_list(values.type):
        values = pc.binary_join(values.cast(pa.list_(pa.string())), "\x1f")
    values = values.indices if pa.types.is_dictionary(values.type) else values
    before, after = values[:-1], values[1:]
    other = pc.xor(before.is_null(), after.is_null())
    return mask_of(pc.or_(other, pc.fill_null(pc.not_equal(after, before), False)))


def _content_of(columns: Mapping[str, pa.Array], types: Mapping[str, str], faults: Faults) -> Content:
    content = Content()
    for name, kind in types.items():
        values = columns[name]
        if pa.types.is_dictionary(values.type):
            values = values.cast(values.type.value_type)
        if kind == "number" and (pa.types.is_integer(values.type) or pa.types.is_floating(values.type)):
            numbers = values.cast(pa.float64(), safe=False)
            content[column_name(kind, name)] = pc.if_else(pc.is_nan(numbers), None, numbers)
        elif kind == "flag" and pa.types.is_boolean(values.type):
            content[column_name(kind, name)] = values
        else:
            add_content(content, faults, name, as_text(values), kind)
    return content


def sniff(head: bytes) -> float:
    """Parquet begins with its magic."""
    return 1.0 if head.startswith(MAGIC) else 0.0


def read(blocks: Blocks, options: Settled) -> Iterator[pa.RecordBatch]:
    """A Parquet file is no list of lines; see `read_groups`."""
    raise BadTrace("a Parquet file cannot be read as lines")


FORMAT = Format(name="parquet", scope="line", sniff=sniff, read=read, keys="call", options=OPTIONS)
