"""A trace: a log reduced to tables, as Parquet files and one manifest that names the files that count.

    TRACE/trace.json            schema version, bucket width, unit of costs, and for each table its files
    TRACE/TABLE/...             the tables of tables.py: files and folders of Parquet

trace.json is written last, in one piece, so a killed write leaves the trace as it was; files and folders that it
does not name are no part of it (writer.py). A trace lies at any path that Arrow's file systems reach (address.py).
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import Annotated, Any

import msgspec
import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.fs as pafs
import pyarrow.parquet as pq

from overlace.arrays.csr import sort_groups
from overlace.arrays.hashing import fold
from overlace.arrays.jit import Ints
from overlace.errors import BadTrace, Busy, read_os
from overlace.model import Names
from overlace.trace.address import inside, place
from overlace.trace.notes import Count, check_notes
from overlace.trace.tables import (
    FOR_INGEST,
    HASHED,
    TIME,
    TRACE,
    arrow,
    check_version,
    groups,
    hashed_columns,
    lists,
    numbers,
    schema_of,
)

HOUR_US, MINUTE_US, DAY_US = 3_600_000_000, 60_000_000, 86_400_000_000

NEVER = np.iinfo(np.int64).min
"""When a name first came up that no log has; it goes before all others."""


class Part(msgspec.Struct, frozen=True, forbid_unknown_fields=True, omit_defaults=True):
    """Rows of a table that lie together: where, how many, their digest, and the source they came from."""

    path: str  # a file if it ends with .parquet, else a folder of such
    rows: Count
    hash: Annotated[int, msgspec.Meta(ge=0)]
    source: str = ""
    group: Annotated[int, msgspec.Meta(ge=-1, lt=1 << 31)] = -1  # the row group of the file that it is; -1: all of it

    @property
    def groups(self) -> list[int]:
        """The row groups of the file that it is; none: all of it."""
        return [self.group] if self.group >= 0 else []


class Manifest(msgspec.Struct, forbid_unknown_fields=True):
    """What trace.json says."""

    schema_version: int
    bucket_us: Annotated[int, msgspec.Meta(gt=0, lt=1 << 62)]
    unit: str
    tables: dict[str, list[Part]]
    notes: dict[str, Any] = {}
    generation: Count = 0


def read_manifest(text: bytes, where: str) -> Manifest:
    """What trace.json says; refused if it is altered, of another schema, or names files that are not the trace's."""
    try:
        about = msgspec.json.decode(text)
        version = about.get("schema_version") if isinstance(about, dict) else None
        check_version(version, where, f"Remove it and make it anew: `overlace ingest ... --out {where}`.")
        found = msgspec.convert(about, Manifest)
        check_notes(found.notes)
    except (msgspec.MsgspecError, ValueError, RecursionError) as error:
        raise BadTrace(f"{inside(where, 'trace.json')} cannot be read: {error}") from None
    file = inside(where, "trace.json")
    for table, parts in found.tables.items():
        if table not in TRACE:
            raise BadTrace(f"{file} names the table {table!r}, which a trace does not have")
        for part in parts:
            if not part.path.startswith(f"{table}/") or {"", ".", ".."} & {*part.path.split("/")}:
                raise BadTrace(f"{file} names {part.path!r} as a part of {table}, where no part of it lies")
    return found


@dataclass(frozen=True)
class Trace:
    """A trace as its manifest says it is."""

    path: str
    bucket_us: int = HOUR_US
    unit: str = "message"  # of link costs: message, gb, ms
    parts: Mapping[str, Sequence[Part]] = field(default_factory=dict)
    notes: Mapping[str, Any] = field(default_factory=dict)
    """What ingest keeps for the next ingest: by source, what was read of it."""
    generation: int = 0
    """How many times it was written."""

    def __repr__(self) -> str:
        rows = ", ".join(f"{table} {sum(part.rows for part in parts):,}" for table, parts in self.parts.items())
        return f"<Trace {self.path}: {rows or 'empty'}>"

    @classmethod
    def open(cls, path: str) -> Trace:
        """The trace there, or an error that says what is missing."""
        files, at = place(path)
        try:
            with files.open_input_stream(f"{at}/trace.json") as stream:
                about = read_manifest(stream.read(), path)
        except FileNotFoundError:
            raise BadTrace(
                f"{path} is no trace: it has no trace.json. `overlace ingest ... --out {path}` makes one."
            ) from None
        except OSError as error:
            raise BadTrace(f"{inside(path, 'trace.json')} cannot be read: {read_os(str(error)) or error}") from None
        return cls(path, about.bucket_us, about.unit, about.tables, about.notes, about.generation)

    @classmethod
    def exists(cls, path: str) -> bool:
        """Whether there is a trace."""
        files, at = place(path)
        return bool(files.get_file_info(f"{at}/trace.json").type == pafs.FileType.File)

    def read(self, table: str, columns: Sequence[str] | None = None, *, source: str | None = None) -> pa.Table:
        """All rows of a table, or those of one source, with the numbers of this process for ids."""
        if table == "names":
            rows = [
                own.set_column(1, "id", arrow(np.arange(len(own)), pa.int64()))
                for _, own in sorted(self._named.items())
            ]
            return pa.concat_tables([schema_of(table).empty_table(), *(each.cast(schema_of(table)) for each in rows)])
        return replace_ids(self.stored(table, columns, source=source), table, self.number)

    def stored(
        self,
        table: str,
        columns: Sequence[str] | None = None,
        *,
        extra: Sequence[pa.Field] = (),
        source: str | None = None,
        most: int | None = None,
    ) -> pa.Table:
        """All rows of a table as they are stored, none if the trace has no such table.

        `extra` are columns that its files may have beyond its schema. Of the first `most` rows no more is read.
        """
        schema = schema_of(table)
        wanted = pa.schema([*(schema if columns is None else map(schema.field, columns)), *extra])
        parts = [part for part in self.parts.get(table, ()) if source in (None, part.source)]
        try:
            tables, left = list[pa.Table](), most
            for path, groups in files_of(parts):
                tables.append(read_part(self.path, path, wanted, groups, left))
                left = None if left is None else left - len(tables[-1])
                if left == 0:
                    break
        except BadTrace:
            if self.replaced():
                raise Busy(f"{self.path} was written anew while it was read: read it again") from None
            raise
        return pa.concat_tables(tables) if tables else pa.Table.from_batches([], wanted)

    def replaced(self) -> bool:
        """Whether another trace is there by now, or none."""
        return not Trace.exists(self.path) or Trace.open(self.path).parts != self.parts

    def number(self, kind: str, ids: pa.Array) -> pa.Array:
        """The numbers of some ids."""
        found = pc.index_in(ids, value_set=self.ids.get(kind, pa.nulls(0, pa.int64())), skip_nulls=True)
        if found.null_count > ids.null_count:
            lost = ids.filter(pc.and_(found.is_null(), ids.is_valid()))
            raise BadTrace(f"{self.path}: {len(lost):,} rows name a {kind} without a name (first: {lost[0].as_py()})")
        return found.cast(pa.int64())

    def rows(self, table: str) -> int:
        """How many rows a table has, without reading it."""
        return sum(part.rows for part in self.parts.get(table, ()))

    def digest(self, *tables: str) -> str:
        """16 hex digits for some tables, or for all but the log's own accounting: the same for the same rows."""
        chosen = tables or tuple(sorted(set(TRACE) - set(FOR_INGEST)))
        state = np.zeros(1, dtype=np.uint64)
        for table in chosen:
            total = sum(part.hash for part in self.parts.get(table, ())) % 2**64
            for word in (total, self.rows(table)):
                fold(state, np.array([word], np.uint64))
        return f"{int(state[0]):016x}"

    @cached_property
    def names(self) -> Names:
        """Names by kind, at the place of their number: in order of when they first came up, then by name."""
        return {kind: rows["name"].to_pylist() for kind, rows in self._named.items()}

    @cached_property
    def ids(self) -> Mapping[str, pa.Array]:
        """Ids by kind, at the place of their number; of kinds that are not hashed they are the numbers."""
        return {kind: rows["id"].combine_chunks() for kind, rows in self._named.items()}

    @cached_property
    def since(self) -> Mapping[str, Ints]:
        """When each name first came up, by kind; NEVER where it did not."""
        return {kind: numbers(rows["since"], NEVER) for kind, rows in self._named.items()}

    @cached_property
    def _named(self) -> Mapping[str, pa.Table]:
        """The rows of names by kind, in order of their numbers."""
        rows = self.stored("names").combine_chunks()
        by_name = numbers(pc.sort_indices(rows["name"])).astype(np.int64)
        kinds = rows["kind"].combine_chunks().dictionary_encode() if rows.num_rows else pa.nulls(0).dictionary_encode()
        code, listed = numbers(kinds.indices), kinds.dictionary.to_pylist()
        hashed = np.isin(code, [i for i, kind in enumerate(listed) if kind in HASHED])
        key = np.where(hashed, numbers(rows["since"], NEVER), numbers(rows["id"]))
        order = by_name[np.lexsort((key[by_name], code[by_name]))]
        bounds = np.searchsorted(code[order], np.arange(len(listed) + 1)).tolist()
        rows = rows.take(arrow(order, pa.int64()))
        return {
            kind: rows.slice(first, end - first) for kind, first, end in zip(listed, bounds, bounds[1:], strict=False)
        }

    @cached_property
    def kept(self) -> dict[str, Any]:
        """What was read once and is asked for again, for as long as this object lives."""
        return {}

    def count(self, kind: str) -> int:
        """How many things of a kind have an id."""
        return len(self.names.get(kind, ()))

    def span(self) -> tuple[int, int]:
        """First and last-plus-one microsecond of its traffic, whole buckets; (0, 0) without traffic."""
        return self._span

    @cached_property
    def _span(self) -> tuple[int, int]:
        files, root = place(self.path)
        ends: list[int] = []
        for path, chosen in files_of(self.parts.get("traffic", ())):
            for each in _parquet_files(files, f"{root}/{path}"):
                ends += _ends_of(files, each, "bucket", chosen)
        return (min(ends), max(ends) + self.bucket_us) if ends else (0, 0)


def files_of(parts: Iterable[Part]) -> list[tuple[str, list[int]]]:
    """(path, row groups): each file once; no row groups: all of it."""
    found: dict[str, list[int]] = {}
    for part in parts:
        found.setdefault(part.path, []).extend(part.groups)
    return list(found.items())


def replace_ids(rows: pa.Table, table: str, change: Callable[[str, pa.Array], pa.Array]) -> pa.Table:
    """The rows with every column of hashed ids, and lists of them, changed; lists are sorted, left is below right."""
    if rows.num_rows == 0:
        return rows
    for column, kind in hashed_columns(table).items():
        if column not in rows.column_names:
            continue
        place, values = rows.schema.get_field_index(column), rows[column].combine_chunks()
        if pa.types.is_list(values.type):
            start, members = groups(values)
            start, members = sort_groups(start, numbers(change(kind, arrow(members, pa.int64()))))
            changed = lists(start, members, schema_of(table).field(column).type)
        else:
            changed = change(kind, values)
        rows = rows.set_column(place, rows.schema.field(place).with_type(changed.type), changed)
    if {"left", "right"} <= set(rows.column_names):
        left, right = numbers(rows["left"]), numbers(rows["right"])
        for column, values in (("left", np.minimum(left, right)), ("right", np.maximum(left, right))):
            place = rows.schema.get_field_index(column)
            rows = rows.set_column(place, rows.schema.field(place), arrow(values, pa.int64()))
    return rows


def read_part(root: str, path: str, schema: pa.Schema, groups: Sequence[int] = (), most: int | None = None) -> pa.Table:
    """A part of a trace, or some row groups of a file, with exactly this schema; what may be empty may be missing."""
    files, at = place(root)
    try:
        tables = [_read_file(files, each, schema, groups, most) for each in _parquet_files(files, f"{at}/{path}")]
    except (OSError, pa.ArrowException) as error:
        raise BadTrace(
            f"{inside(root, path)} is named by trace.json but cannot be read: {read_os(str(error)) or error}"
        ) from None
    return pa.concat_tables(tables).slice(0, most) if tables else schema.empty_table()


def _parquet_files(files: pafs.FileSystem, path: str) -> list[str]:
    """The files of a part: itself, or those in its folder but for an engine's own notes."""
    if path.endswith(".parquet"):
        return [path]
    found = files.get_file_info(pafs.FileSelector(path))
    return sorted(i.path for i in found if i.type == pafs.FileType.File and not i.base_name.startswith(("_", ".")))


def _read_file(
    files: pafs.FileSystem, path: str, schema: pa.Schema, groups: Sequence[int], most: int | None
) -> pa.Table:
    with files.open_input_file(path) as raw:
        file = pq.ParquetFile(raw)
        if most is not None:  # the row groups that hold the first rows
            groups = groups or range(file.num_row_groups)
            ends = np.cumsum([file.metadata.row_group(group).num_rows for group in groups])
            groups = groups[: int(np.searchsorted(ends, most)) + 1]
        found = file.read_row_groups(list(groups), schema.names) if groups else file.read(columns=schema.names)
    for each in schema:  # a column that traces from before did not have is empty
        if each.nullable and each.name not in found.column_names:
            found = found.append_column(each, pa.nulls(found.num_rows, each.type))
    return found if found.schema.equals(schema) else found.select(schema.names).cast(schema)


def _ends_of(files: pafs.FileSystem, path: str, column: str, groups: Sequence[int]) -> list[int]:
    """The first and the last time, in microseconds, of row groups of a Parquet file, or of all; none without rows."""
    with files.open_input_file(path) as raw:
        file = pq.ParquetFile(raw)
        place, ends = file.schema_arrow.get_field_index(column), list[int]()
        in_micros = file.schema_arrow.field(column).type.unit == "us"
        for group in groups or range(file.num_row_groups):
            about = file.metadata.row_group(group)
            stated = about.column(place).statistics
            if in_micros and stated is not None and stated.has_min_max:
                ends += [stated.min_raw, stated.max_raw]
            elif about.num_rows:
                at = numbers(file.read_row_group(group, [column])[column].cast(TIME))
                ends += [int(at.min()), int(at.max())]
    return ends
