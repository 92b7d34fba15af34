"""Parquet: a row a delivery (`receiver`) or a message (`receivers`), its columns mapped to fields.

Rows of one message that stand next to one another become one event with their receivers; where rows have a key, the
event has it, too, for whoever joins those that stand elsewhere.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.fs as pafs
import pyarrow.parquet as pq
from xxhash import xxh3_64_intdigest

from overlace.arrays.hashing import mixed
from overlace.arrays.jit import Bools, Ints
from overlace.errors import BadTrace, Unknown
from overlace.ingest.content import Content, add_content, asked_types, column_name
from overlace.ingest.events import Blocks, Format, Settled, events, in_one_piece
from overlace.ingest.fields import OPTIONS, match_columns, settle_mapping
from overlace.ingest.formats.csv import default_group
from overlace.ingest.lines import Faults
from overlace.ingest.rows import read_fields, with_content
from overlace.ingest.values import as_text, integers, is_list, keys_in, list_column, mask_of, names_in
from overlace.trace.store import place

MAGIC = b"PAR1"
ROWS = 2_000_000
"""Rows that a task holds at once."""

SEEDS = (0x5851F42D4C957F2D, 0x14057B7EF767814F)


# --- files -------------------------------------------------------------------------------------------------


def files_of(path: str) -> list[str]:
    """The files of a table: itself, or those in its folder, in order."""
    files, at = place(path)
    if files.get_file_info(at).type != pafs.FileType.Directory:
        return [path]
    inside = sorted(
        info.base_name for info in files.get_file_info(pafs.FileSelector(at)) if info.extension == "parquet"
    )
    return [f"{path}/{name}" for name in inside]


def open_parquet(path: str) -> pq.ParquetFile:
    """The file, or what is wrong with it."""
    files, at = place(path)
    try:
        return pq.ParquetFile(files.open_input_file(at))
    except pa.ArrowInvalid as error:
        raise BadTrace(f"{path}: not a whole Parquet file ({str(error).splitlines()[0]}). Was it cut?") from None


def span(path: str, options: Settled) -> tuple[int, int] | None:
    """First and last time of a file, where its statistics say so."""
    names = options["mapping"].get("at", ())
    if len(names) != 1 or files_of(path) != [path]:
        return None
    with open_parquet(path) as file:
        column = file.schema_arrow.get_field_index(names[0])
        kind = file.schema_arrow.field(column).type
        if not pa.types.is_timestamp(kind):
            return None
        found = [file.metadata.row_group(g).column(column).statistics for g in range(file.metadata.num_row_groups)]
        if not found or any(each is None or not each.has_min_max for each in found):
            return None
        low, high = min(each.min for each in found), max(each.max for each in found)
        ends = pa.array([low, high], pa.timestamp("us", kind.tz)).cast(pa.int64()).to_pylist()
        return ends[0], ends[1]


def splits(path: str, rows: int = ROWS) -> list[tuple[int, int]]:
    """(first, last): runs of row groups of one file, each of about so many rows; numbered through all files."""
    found, first = [], 0
    for each in files_of(path):
        with open_parquet(each) as file:
            sizes = [file.metadata.row_group(group).num_rows for group in range(file.metadata.num_row_groups)]
        held, end = 0, first + len(sizes)
        for group, count in enumerate(sizes, first):
            held += count
            if held >= rows or group + 1 == end:
                found.append((first, group + 1))
                first, held = group + 1, 0
    return found


# --- what holds for a table --------------------------------------------------------------------------------


def settle(path: str, options: Settled) -> Settled:
    """Which column is which, the key, the unit of times, and the types of content."""
    with open_parquet(files_of(path)[0]) as file:

        def first(names: list[str]) -> pa.RecordBatch | None:
            return next(file.iter_batches(1000, columns=names), None)

        return settle_columns(path, file.schema_arrow, first, options)


def settle_columns(
    name: str, schema: pa.Schema, first: Callable[[list[str]], pa.RecordBatch | None], options: Settled
) -> Settled:
    """The same of any table; `first` gives some columns of its first rows."""
    found = match_columns(schema.names, options["map"])
    for each in found:
        if each:
            _refuse_type(name, each.name, each.field, schema.field(schema.get_field_index(each.name)).type)
    times = [each.name for each in found if each and each.field == "at"]
    head = first(times) if times else None
    samples = [] if head is None else [v for column in times for v in _sample(head[column])]
    settled = settle_mapping(options, schema.names, samples, found)
    settled["zoneless"] = settled["zoneless"] or any(
        pa.types.is_timestamp(schema.field(each).type) and schema.field(each).type.tz is None for each in times
    )
    wanted = asked_types(settled.get("content") or ())
    for column in wanted:
        if column not in schema.names:
            raise Unknown("column", column, schema.names)
    if wanted:
        settled["types"] = {c: kind or _type_of(name, c, schema.field(c).type) for c, kind in wanted.items()}
        settled["unused"] = [column for column in settled["unused"] if column not in wanted]
    settled["group"] = settled.get("group") or default_group(settled)
    return settled


def columns_read(options: Settled) -> list[str]:
    """The columns of a table that are read."""
    mapping = options["mapping"]
    return list(dict.fromkeys([*(n for names in mapping.values() for n in names), *options.get("types", ())]))


def _sample(values: pa.Array) -> list[object]:
    kind = values.type
    plain = pa.types.is_string(kind) or pa.types.is_integer(kind) or pa.types.is_floating(kind)
    return values.to_pylist() if plain else []


def _refuse_type(path: str, name: str, field: str, kind: pa.DataType) -> None:
    inner = kind.value_type if pa.types.is_dictionary(kind) else kind
    nested = pa.types.is_nested(inner) and not (is_list(inner) and field in ("receivers", "attributes"))
    if nested or pa.types.is_boolean(inner):
        raise BadTrace(
            f"{path}: column {name} is {kind} and cannot be read as {field}. Map another with --map {field}=COLUMN."
        )


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


# --- rows --------------------------------------------------------------------------------------------------


def read_groups(path: str, first: int, last: int, options: Settled) -> Iterator[pa.RecordBatch]:
    """Events of the messages in some row groups."""
    mapping = options["mapping"]
    text = [name for field in ("client", "topic", "receiver", "broker") for name in mapping.get(field, ())]
    wanted = columns_read(options)
    above = 0
    for each in files_of(path):
        with open_parquet(each) as file:
            groups, count = file.metadata.num_row_groups, file.metadata.num_rows
        if first < groups:
            break
        first, last, above = first - groups, last - groups, above + count
    files, at = place(each)
    with pq.ParquetFile(files.open_input_file(at), read_dictionary=text) as file:
        above += sum(file.metadata.row_group(g).num_rows for g in range(first))
        table = file.read_row_groups(list(range(first, last)), columns=wanted, use_threads=False).unify_dictionaries()
    columns = {name: in_one_piece(table[name]) for name in wanted}
    yield from events_of(columns, table.num_rows, above, options)


def events_of(columns: Mapping[str, pa.Array], rows: int, above: int, options: Settled) -> Iterator[pa.RecordBatch]:
    """Bad rows by reason, then an event a run of rows of one message; `above` rows of the table stand above these.

    Rows of a run differ in receivers and times only: how a table is cut or sorted says nothing about a message.
    """
    faults, offset = Faults(rows), above + np.arange(rows)
    content = _content_of(columns, options.get("types") or {}, faults)
    named = {field: [columns[name] for name in names] for field, names in options["mapping"].items()}
    found = read_fields(named, rows, options, faults)
    for code, which in faults.which().items():
        yield from _bad(offset[which], faults.reasons[code])
    if not faults.fine.any():
        return
    if not faults.fine.all():
        keep = pa.array(faults.fine)
        found, content = ({n: values.filter(keep) for n, values in each.items()} for each in (found, content))
        offset = offset[faults.fine]

    key = found.pop("key", None)
    group = options.get("group") or ()
    listed = dict.fromkeys(("receiver", "receivers"), "receivers")
    own = {**found, **({} if key is None else {"key": key})}
    words = [_words_of(own[listed.get(field, field)]) for field in group or ("key",) if listed.get(field, field) in own]
    if not words:
        yield with_content(events(offset=offset, kind="message", **found), content)
        return
    keyed = np.ones(len(offset), bool) if group or key is None else mask_of(key.is_valid())
    run = np.arange(len(offset) + 1)
    if "receivers" not in options["mapping"]:  # rows with lists are joined like any others
        turn = ~(keyed[1:] & keyed[:-1])
        for each in words:
            turn |= each[1:] != each[:-1]
        for name, values in {**found, **content}.items():
            if name not in ("at", "receivers", *group):
                turn |= _changes(values)
        run = np.append(np.flatnonzero(np.append(True, turn)), len(offset))
    head = _earliest(run, integers(found["at"]))
    receivers = found.pop("receivers", None)
    chosen = pa.array(head)
    found, content = ({n: values.take(chosen) for n, values in each.items()} for each in (found, content))
    if receivers is not None:
        there = mask_of(receivers.is_valid())
        logged = np.logical_or.reduceat(there, run[:-1])
        start = receivers.offsets.to_numpy() - receivers.offsets[0].as_py()
        found["receivers"] = list_column(start[run], receivers.flatten(), None if logged.all() else pa.array(~logged))
    if len(head) < len(offset):
        found["rows"] = pa.array(np.diff(run))
    if group or pa.types.is_integer(key.type):
        found["message"] = _key_column([each[head] for each in words], keyed[head])
    else:
        found["message"] = keys_in(key.take(chosen))
    yield with_content(events(offset=offset[head], kind="message", **found), content)


def _content_of(columns: Mapping[str, pa.Array], types: Mapping[str, str], faults: Faults) -> Content:
    """The columns of what messages say."""
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


def _bad(offset: Ints, reason: str) -> Iterator[pa.RecordBatch]:
    """Rows that cannot be read; the first is the sample."""
    if len(offset):
        shown = pa.array([f"row {offset[0]:,}"] + [None] * (len(offset) - 1), pa.string())
        yield events(offset=offset, kind="bad", reason=pa.repeat(pa.scalar(reason), len(offset)), sample=shown)


def _earliest(run: Ints, at: Ints) -> Ints:
    """The row with the least time of each run, the first of them."""
    if len(run) == len(at) + 1:
        return run[:-1]
    least = np.flatnonzero(at == np.repeat(np.minimum.reduceat(at, run[:-1]), np.diff(run)))
    return least[np.searchsorted(least, run[:-1])]


def _changes(values: pa.Array) -> Bools:
    """Whether each value but the first differs from the one before."""
    if is_list(values.type):
        values = pc.binary_join(values.cast(pa.list_(pa.string())), "\x1f")
    values = values.indices if pa.types.is_dictionary(values.type) else values
    before, after = values[:-1], values[1:]
    other = pc.xor(before.is_null(), after.is_null())
    return mask_of(pc.or_(other, pc.fill_null(pc.not_equal(after, before), False)))


def _words_of(values: pa.Array) -> Ints:
    """A word for each value: numbers and times themselves, hashes of names."""
    if is_list(values.type):
        values = pc.binary_join(values.cast(pa.list_(pa.string())), "\x1f")
    if pa.types.is_integer(values.type) or pa.types.is_timestamp(values.type):
        return integers(values)
    binary = pa.types.is_binary(values.type) or pa.types.is_fixed_size_binary(values.type)
    coded = values.dictionary_encode() if binary else names_in(values)
    hashes = [xxh3_64_intdigest(each) for each in coded.dictionary.cast(pa.binary()).to_pylist()]
    codes = coded.indices.fill_null(len(hashes)).to_numpy(zero_copy_only=False)
    return np.asarray(np.array([*hashes, 0], np.uint64).view(np.int64)[codes])


def _key_column(columns: list[Ints], there: Bools) -> pa.Array:
    """128-bit hashes of some words a row, null where there is no key."""
    out = []
    for seed in SEEDS:
        state = np.full(len(there), seed, np.uint64)
        for each in columns:
            state = mixed(state ^ each.view(np.uint64))
        out.append(state)
    known = None if there.all() else pa.py_buffer(np.packbits(there, bitorder="little"))
    return pa.Array.from_buffers(pa.binary(16), len(there), [known, pa.py_buffer(np.column_stack(out))])


def sniff(head: bytes) -> float:
    """Parquet begins with its magic."""
    return 1.0 if head.startswith(MAGIC) else 0.0


def read(blocks: Blocks, options: Settled) -> Iterator[pa.RecordBatch]:
    """A Parquet file is no list of lines; see `read_groups`."""
    raise BadTrace("a Parquet file cannot be read as lines")


FORMAT = Format(name="parquet", scope="line", sniff=sniff, read=read, keys="call", options=OPTIONS)
