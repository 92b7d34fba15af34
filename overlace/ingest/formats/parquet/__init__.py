"""Parquet: a row a delivery (`receiver`) or a message (`receivers`), its columns mapped to fields.

Rows of one message that stand next to one another become one event. Where files are sorted by a whole number of
a message, a split also reads the rest of its last message, so no message is cut and none has to be joined;
otherwise events carry their keys. A file that claims to be sorted and is not raises `NotSorted`.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from functools import cached_property
from itertools import pairwise
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.fs as pafs
import pyarrow.parquet as pq

from overlace.arrays.jit import Bools, Ints
from overlace.arrays.text import (
    BEYOND,
    MISSING,
    TEXT,
    UNREADABLE,
    Small,
    split_cells,
)
from overlace.errors import BadTrace, NotSorted
from overlace.ingest.columns import (
    LARGEST,
    LOOKS_LIKE_A_LIST,
    OPTIONS,
    key_column,
    match_columns,
    separator_of,
    settle_mapping,
    spans_of,
    text_at,
)
from overlace.ingest.events import TIME, Blocks, Format, events
from overlace.ingest.formats.csv import KEY
from overlace.ingest.formats.parquet.values import (
    BROKEN,
    Names,
    Values,
    as_text,
    hashes_of,
    integers,
    least_of_runs,
    mix_words,
    name_column,
    nulls,
    number_column,
    number_names,
    numbers_in,
    places,
    recode,
    runs_of,
    text_of,
    times_in,
    words_of,
)
from overlace.trace.store import place

ROWS = 2_000_000
"""Rows that a task holds at once."""

HEAD_ROWS = 10_000
"""Rows read at once for the rest of a message that runs into the next row group."""


MAGIC = b"PAR1"


# --- what a file is ------------------------------------------------------------------------------------


def files_of(path: str) -> list[str]:
    """The files of a table: itself, or those in its folder, in order."""
    files, at = place(path)
    if files.get_file_info(at).type != pafs.FileType.Directory:
        return [path]
    inside = sorted(
        info.base_name for info in files.get_file_info(pafs.FileSelector(at)) if info.extension == "parquet"
    )
    return [f"{path}/{name}" for name in inside]


def opened(path: str) -> pq.ParquetFile:
    """The file, or what is wrong with it."""
    files, at = place(path)
    try:
        return pq.ParquetFile(files.open_input_file(at))
    except pa.ArrowInvalid as error:
        raise BadTrace(f"{path}: not a whole Parquet file ({str(error).splitlines()[0]}). Was it cut?") from None


def settle(path: str, options: dict[str, Any]) -> dict[str, Any]:
    """Which column is which, the key, the unit of times, and whether the file is sorted by message."""
    several = files_of(path)
    with opened(several[0]) as file:
        schema = file.schema_arrow
        found = match_columns(schema.names, options["map"])
        for each in found:
            if each:
                _refuse_type(path, each.name, each.field, schema.field(schema.get_field_index(each.name)).type)
        times = [each.name for each in found if each and each.field == "at"]
        head = next(file.iter_batches(1000, columns=times), None) if times else None
        samples = [] if head is None else [v for name in times for v in _sampled(head[name])]
        settled = settle_mapping(options, schema.names, samples, found)
        settled["zoneless"] = settled["zoneless"] or any(
            pa.types.is_timestamp(schema.field(name).type) and schema.field(name).type.tz is None for name in times
        )
        if not settled.get("group") and "key" not in settled["mapping"]:
            settled["group"] = tuple(name for name in KEY if name in settled["mapping"])
        settled["range"] = _range(file, settled) if len(several) == 1 else None
    return settled


def _sampled(values: pa.Array) -> list[Any]:
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


def _range(file: pq.ParquetFile, settled: Mapping[str, Any]) -> tuple[int, int] | None:
    """The least and largest message, if the statistics show row groups in order of one whole number."""
    names = settled["mapping"].get("key", ())
    if len(names) != 1 or settled.get("group"):
        return None
    column = file.schema_arrow.get_field_index(names[0])
    if not pa.types.is_integer(file.schema_arrow.field(column).type):
        return None
    ends = [_ends(file.metadata, group, column) for group in range(file.metadata.num_row_groups)]
    known = [each for each in ends if each]
    if not known or len(known) < len(ends) or any(left[1] > right[0] for left, right in pairwise(known)):
        return None
    return known[0][0], known[-1][1]


def _ends(about: pq.FileMetaData, group: int, column: int) -> tuple[int, int] | None:
    found = about.row_group(group).column(column)
    if not found.is_stats_set or not found.statistics.has_min_max or found.statistics.null_count:
        return None
    return int(found.statistics.min), int(found.statistics.max)


def span(path: str, options: Mapping[str, Any]) -> tuple[int, int] | None:
    """First and last time of a file, where its statistics say so."""
    names = options["mapping"].get("at", ())
    if len(names) != 1 or files_of(path) != [path]:
        return None
    with opened(path) as file:
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
        with opened(each) as file:
            sizes = [file.metadata.row_group(group).num_rows for group in range(file.metadata.num_row_groups)]
        held, end = 0, first + len(sizes)
        for group, count in enumerate(sizes, first):
            held += count
            if held >= rows or group + 1 == end:
                found.append((first, group + 1))
                first, held = group + 1, 0
    return found


# --- rows to events ------------------------------------------------------------------------------------


def read_groups(path: str, first: int, last: int, options: Mapping[str, Any]) -> Iterator[pa.RecordBatch]:
    """Events of the messages in some row groups."""
    called = options["mapping"]
    text = [name for field in ("client", "topic", "receiver", "broker") for name in called.get(field, ())]
    above = 0
    for each in files_of(path):
        with opened(each) as file:
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
        yield from _events(rows, before)


class Rows:
    """Row groups of a file, column by column, with the rest of their last message if files are sorted."""

    def __init__(self, file: pq.ParquetFile, groups: Sequence[int], options: Mapping[str, Any]) -> None:
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
            ends = _ends(self.file.metadata, self.groups[0] - 1, column)
            before = ends[1] if ends else None
            self.skip = int(np.searchsorted(message, before, side="right")) if before is not None else 0
        if self.skip < len(message):
            self.rest = self._rest(name, column, int(message[-1]))

    def _rest(self, name: str, column: int, message: int) -> pa.Table | None:
        parts = []
        group = self.groups[-1] + 1
        while group < self.file.num_row_groups:
            ends = _ends(self.file.metadata, group, column)
            if ends and ends[0] != message:
                break
            wanted = list(dict.fromkeys(n for names in self.options["mapping"].values() for n in names))
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
        flat = together.combine_chunks()
        if isinstance(flat, pa.ChunkedArray):
            flat = pa.concat_arrays(flat.chunks) if flat.num_chunks else pa.array([], kind)
        return flat

    def first_of(self, field: str) -> list[str]:
        """The columns of a field."""
        return list(self.options["mapping"].get(field, ()))


def _events(rows: Rows, before: int) -> Iterator[pa.RecordBatch]:
    wrong: dict[str, Bools] = {}
    at = _coalesced(rows, "at", times_in)
    called = {field: names[0] if len(names) == 1 else field for field, names in rows.options["mapping"].items()}
    n = len(at.state)
    offset = before + rows.skip + np.arange(n)
    _note(wrong, at.state, "at", called, "a time before 1900 or after 2199", "not a time", "empty")
    names = {field: Named(rows, field, n) for field in ("client", "topic", "broker")}
    for field, each in names.items():
        for code, reason in ((-1, "empty"), (BROKEN, "not UTF-8")):
            if (field == "client" or code == BROKEN) and each.has(code):
                wrong[f"{called.get(field, field)}: {reason}"] = each.full.codes == code
    numbers = {field: _coalesced(rows, field, numbers_in, n) for field in ("bytes", "weight")}
    for field, number in numbers.items():
        _note(wrong, number.state, field, called, f"above {LARGEST:,}", "not a whole number of 0 or more", None)
    start, receivers, there = _receivers(rows, n, called, wrong)
    attributes = _attributes(rows, n, called, wrong)
    bad = np.zeros(n, bool)
    for reason, which in wrong.items():
        fresh = which & ~bad
        if fresh.any():
            at_rows = np.flatnonzero(fresh)
            shown = [f"row {offset[at_rows[0]]:,}"] + [None] * (len(at_rows) - 1)
            texts = pa.repeat(pa.scalar(reason), len(at_rows))
            yield events(offset=offset[at_rows], kind="bad", reason=texts, sample=pa.array(shown, pa.string()))
        bad |= which
    keep = np.flatnonzero(~bad) if bad.any() else None
    if n == 0 or (keep is not None and len(keep) == 0):
        return

    def kept(values: Any) -> Any:
        return values if keep is None else values[keep]

    when = kept(at.values)
    keys, there_key = _keys(rows, n, keep, names, at.values, numbers)
    if keep is not None:
        sizes = np.diff(start)[keep]
        bounds = np.append(0, np.cumsum(sizes))
        receivers = Names(receivers.codes[places(start[keep], sizes)], receivers.names)
        start, there, offset = bounds, there[keep], offset[keep]
    alone = keys is None or bool(rows.first_of("receivers"))  # rows with lists are joined like any others
    run = np.arange(len(when) + 1) if alone or keys is None else runs_of(keys, there_key)
    whole = len(run) > len(when)
    head = run[:-1] if whole else least_of_runs(run, when)
    chosen = (None if whole else head) if keep is None else keep[head]  # rows that tell of their messages

    def at_heads(values: Any) -> Any:
        return values if whole else values[head]

    def at_chosen(values: Any) -> Any:
        return values if chosen is None else values[chosen]

    columns: dict[str, Any] = {"at": pa.array(at_heads(when)).cast(TIME)}
    columns |= {field: name_column(each.at(chosen)) for field, each in names.items() if each.known}
    for field, number in numbers.items():
        if rows.first_of(field):
            columns[field] = number_column(at_chosen(number.values), at_chosen(number.state))
    logged = there if whole or there.all() else np.logical_or.reduceat(there, run[:-1])
    bounds = pa.array((start if whole else start[run]).astype(np.int32))
    columns["receivers"] = pa.ListArray.from_arrays(
        bounds, name_column(receivers), mask=None if logged.all() else pa.array(~logged)
    )
    if attributes is not None:
        taken = attributes if keep is None else attributes.take(pa.array(keep))
        columns["attributes"] = taken if whole else taken.take(pa.array(head))
    if keys is not None and (alone or not rows.options.get("sorted")):
        columns["message"] = key_column(mix_words(at_heads(keys)), at_heads(there_key))
    if not whole:
        columns["rows"] = np.diff(run)
    yield events(offset=at_heads(offset), kind="message", **columns)


def _note(
    wrong: dict[str, Bools],
    state: Small,
    field: str,
    called: Mapping[str, str],
    beyond: str,
    unreadable: str,
    missing: str | None,
) -> None:
    for code, text in ((MISSING, missing), (UNREADABLE, unreadable), (BEYOND, beyond)):
        if text and (state == code).any():
            wrong[f"{called.get(field, field)}: {text}"] = state == code


def _coalesced(rows: Rows, field: str, read: Any, n: int | None = None) -> Values:
    """A field from its columns: of each row the first that is there."""
    found: Values | None = None
    for name in rows.first_of(field):
        mine = read(rows.column(name), rows.options)
        if found is None:
            found = mine
        else:
            use = found.state == MISSING
            found = Values(np.where(use, mine.values, found.values), np.where(use, mine.state, found.state))
    if found is None:
        count = n if n is not None else _length(rows)
        found = Values(np.zeros(count, np.int64), np.full(count, MISSING, np.int8))
    return found


def _length(rows: Rows) -> int:
    count = sum(int(rows.file.metadata.row_group(g).num_rows) for g in rows.groups)
    return count - rows.skip + (rows.rest.num_rows if rows.rest else 0)


class Named:
    """A field's names: numbers without gaps are coded only where they are needed."""

    def __init__(self, rows: Rows, field: str, n: int) -> None:
        self.rows, self.field, self.n = rows, field, n
        columns = rows.first_of(field)
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
    for name in rows.first_of(field):
        mine = number_names([rows.column(name)])
        own = Names(mine[0][0], mine[1])
        if found is None:
            found = own
        else:
            together = pc.unique(pa.concat_arrays([found.names, own.names]))
            left, right = (recode(each, together) for each in (found, own))
            found = Names(np.where(left == -1, right, left), together)
    return found or Names(np.full(n, -1, np.int32), pa.array([], pa.string()))


def _receivers(rows: Rows, n: int, called: Mapping[str, str], wrong: dict[str, Bools]) -> tuple[Ints, Names, Bools]:
    """(start, names, there): who received each row, and whether the row says so."""
    parts = []
    for field in ("receivers", "receiver"):
        parts += [_receivers_in(rows.column(name), field, name, rows.options, wrong) for name in rows.first_of(field)]
    if not parts:
        return np.zeros(n + 1, np.int64), Names(np.empty(0, np.int32), pa.array([], pa.string())), np.zeros(n, bool)
    start, names, there = parts[0]
    for more_start, more, more_there in parts[1:]:
        use = more_there & ~there
        together = pc.unique(pa.concat_arrays([names.names, more.names]))
        codes = np.concatenate([recode(names, together), recode(more, together)])
        sizes = np.where(use, np.diff(more_start), np.diff(start))
        begin = np.where(use, more_start[:-1] + len(names.codes), start[:-1])
        start = np.append(0, np.cumsum(sizes))
        names, there = Names(codes[places(begin, sizes)], together), there | more_there
    return start, names, there


def _receivers_in(
    values: pa.Array, field: str, name: str, options: Mapping[str, Any], wrong: dict[str, Bools]
) -> tuple[Ints, Names, Bools]:
    n = len(values)
    if pa.types.is_list(values.type) or pa.types.is_large_list(values.type):
        there = ~nulls(values)
        sizes = pc.fill_null(pc.list_value_length(values), 0).to_numpy(zero_copy_only=False).astype(np.int64)
        (codes,), names = number_names([values.flatten()])
        parent = np.repeat(np.arange(n), sizes)
        if (codes == BROKEN).any():
            wrong[f"{name}: not UTF-8"] = np.bincount(parent[codes == BROKEN], minlength=n) > 0
        keep = codes >= 0
        start = np.append(0, np.cumsum(np.bincount(parent[keep], minlength=n)))
        return start, Names(codes[keep], names), there
    separator, suspects, single = separator_of(options)
    inner = values.type.value_type if pa.types.is_dictionary(values.type) else values.type
    suspects = single if field == "receiver" else suspects
    if not pa.types.is_integer(inner) and (len(separator) or len(suspects)):
        coded = values if pa.types.is_dictionary(values.type) else as_text(values).dictionary_encode()
        text, broken = text_of(coded.dictionary)
        data, first, last = spans_of(text)
        room = int((last - first)[first >= 0].sum()) + len(first)
        kinds = np.full(len(first), TEXT, np.int8)
        begun, begin, end, state = split_cells(data, first, last, kinds, separator, suspects, room)
        index = coded.indices.fill_null(len(text)).to_numpy(zero_copy_only=False).astype(np.int64)
        odd = np.append(state == BEYOND, False)[index]
        if odd.any():
            wrong[LOOKS_LIKE_A_LIST.format(name)] = odd
        if np.append(broken, False)[index].any():
            wrong[f"{name}: not UTF-8"] = np.append(broken, False)[index]
        if len(separator):
            names = text_at(data, begin, end).dictionary_encode()
            sizes = np.append(np.diff(begun), 0)[index]
            start = np.append(0, np.cumsum(sizes))
            codes = names.indices.to_numpy()[places(np.append(begun[:-1], 0)[index], sizes)]
            there = sizes > 0 if field == "receiver" else index < len(text)
            return start, Names(codes.astype(np.int32), names.dictionary), there
        values = coded
    (codes,), names = number_names([values])
    if (codes == BROKEN).any():
        wrong[f"{name}: not UTF-8"] = codes == BROKEN
    known = codes >= 0
    if known.all():
        return np.arange(n + 1), Names(codes, names), known
    there = known if field == "receiver" else ~nulls(values)
    return np.append(0, np.cumsum(known)), Names(codes[known], names), there


def _attributes(rows: Rows, n: int, called: Mapping[str, str], wrong: dict[str, Bools]) -> pa.Array | None:
    names = rows.first_of("attributes")
    if not names:
        return None
    start, found, there = _receivers_in(rows.column(names[0]), "attributes", names[0], rows.options, wrong)
    mask = None if there.all() else pa.array(~there)
    return pa.ListArray.from_arrays(pa.array(start.astype(np.int32)), name_column(found), mask=mask)


# --- which rows are one message ------------------------------------------------------------------------


def _keys(
    rows: Rows, n: int, keep: Ints | None, names: Mapping[str, Named], at: Ints, numbers: Mapping[str, Values]
) -> tuple[Ints | None, Any]:
    """(words, there): what rows of one message agree in, two words or one a row; None where each stands alone."""
    group = rows.options.get("group") or ()
    parts: list[Ints] = []
    there = np.ones(n, bool)
    for field in group or (("key",) if rows.first_of("key") else ()):
        if field in names:
            codes, called = names[field].full
            parts.append(np.append(hashes_of(called), [0, 0])[codes])
        elif field == "at":
            parts.append(at)
        elif field in numbers:
            parts.append(np.where(numbers[field].state == MISSING, -1, numbers[field].values))
        else:
            column = rows.column(rows.first_of(field)[0])
            if field == "key" and not group:
                there = ~nulls(column)
            parts.append(words_of(column))
    if not parts:
        return None, None
    words = parts[0] if len(parts) == 1 else np.column_stack(parts)
    return (words, there) if keep is None else (words[keep], there[keep])


def sniff(head: bytes) -> float:
    """Parquet begins with its magic."""
    return 1.0 if head.startswith(MAGIC) else 0.0


def read(blocks: Blocks, options: Mapping[str, Any]) -> Iterator[pa.RecordBatch]:
    """A Parquet file is no list of lines; see `read_groups`."""
    raise BadTrace("a Parquet file cannot be read as lines")


FORMAT = Format(
    name="parquet",
    scope="line",
    sniff=sniff,
    read=read,
    keys="call",
    options=OPTIONS,
)
