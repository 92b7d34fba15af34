"""A trace: a log reduced to tables, as Parquet files and one manifest that names the files that count.

    TRACE/trace.json            schema version, bucket width, unit of costs, and for each table its files
    TRACE/TABLE/*.parquet       the tables of tables.py

trace.json is written last, in one piece, so a killed write leaves the trace as it was; files that it
does not name are no part of it (writer.py). A trace lies at any path that Arrow's file systems reach.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.fs as pafs
import pyarrow.parquet as pq
from numpy.typing import NDArray

from overlace.arrays.hashing import combine, hash_groups, mixed
from overlace.errors import BadTrace
from overlace.model import Names
from overlace.trace.tables import FOR_INGEST, TRACE, Numbers, check_version, numbers, schema_of

HOUR_US, MINUTE_US, DAY_US = 3_600_000_000, 60_000_000, 86_400_000_000


def place(path: str) -> tuple[pafs.FileSystem, str]:
    """The file system and the path in it: a local path, or an address like s3://bucket/folder."""
    if "://" in path:
        found: tuple[pafs.FileSystem, str] = pafs.FileSystem.from_uri(path)
        return found
    return pafs.LocalFileSystem(), str(Path(path).absolute())


def absolute(path: str) -> str:
    """The same path for every process, wherever it runs: addresses as they are, local paths from the root."""
    return path if "://" in path else place(path)[1]


def digest(table: pa.Table) -> tuple[int, int]:
    """(rows, hash): the same for the same rows in any order; digests of parts add up (modulo 2**64)."""
    state = np.zeros(table.num_rows, dtype=np.uint64)
    for i, name in enumerate(sorted(table.column_names)):
        combine(state, _words(table[name].combine_chunks()) ^ np.uint64(i + 1))
    with np.errstate(over="ignore"):
        return table.num_rows, int(mixed(state).sum(dtype=np.uint64)) if len(state) else 0


def _words(values: pa.Array) -> NDArray[np.uint64]:
    """A 64-bit word for each value; null has one of its own."""
    if isinstance(values, pa.ChunkedArray):
        values = pa.concat_arrays(values.chunks) if values.num_chunks else pa.nulls(0, values.type)
    if pa.types.is_string(values.type) or pa.types.is_large_string(values.type):
        coded = values.fill_null("").dictionary_encode()
        each = [hashlib.blake2b(v.encode(), digest_size=8).digest() for v in coded.dictionary.to_pylist()]
        words: Numbers = np.frombuffer(b"".join(each), dtype=np.uint64)[numbers(coded.indices)]
    elif pa.types.is_list(values.type) or pa.types.is_large_list(values.type):
        words = hash_groups(numbers(values.offsets).astype(np.int64), numbers(values.values).astype(np.int64))
    else:
        kind = np.float64 if pa.types.is_floating(values.type) else np.int64
        words = numbers(values, 0).astype(kind)
    null = numbers(values.is_null())
    return np.where(null, np.uint64(0xFFFF_0000_FFFF_0001), words.view(np.uint64))


@dataclass(frozen=True)
class Part:
    """A file of a table, or a row group of it: where it lies, its rows, its digest, and the source it came from."""

    path: str
    rows: int
    hash: int
    source: str = ""
    group: int = -1  # the row group of the file that it is; -1: all of the file

    @property
    def groups(self) -> list[int]:
        """The row groups of the file that it is; none: all of it."""
        return [self.group] if self.group >= 0 else []

    def document(self) -> dict[str, object]:
        """As the manifest has it."""
        return {name: value for name, value in self.__dict__.items() if name != "group" or value >= 0}


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

    @classmethod
    def open(cls, path: str) -> Trace:
        """The trace there, or an error that says what is missing."""
        files, at = place(path)
        try:
            with files.open_input_stream(f"{at}/trace.json") as stream:
                about = json.loads(stream.read())
        except FileNotFoundError:
            raise BadTrace(
                f"{path} is no trace: it has no trace.json. `overlace ingest ... --out {path}` makes one."
            ) from None
        except (OSError, ValueError) as error:
            raise BadTrace(f"{path}/trace.json cannot be read: {error}") from None
        version = about.get("schema_version") if isinstance(about, dict) else None
        check_version(version, path, f"Remove it and make it anew: `overlace ingest ... --out {path}`.")
        parts = {table: [Part(**part) for part in listed] for table, listed in about["tables"].items()}
        return cls(path, about["bucket_us"], about["unit"], parts, about.get("notes", {}), about.get("generation", 0))

    @classmethod
    def exists(cls, path: str) -> bool:
        """Whether there is a trace."""
        files, at = place(path)
        return bool(files.get_file_info(f"{at}/trace.json").type == pafs.FileType.File)

    def read(self, table: str, columns: Sequence[str] | None = None) -> pa.Table:
        """All rows of a table, none if the trace has no such table."""
        schema = schema_of(table)
        wanted = schema if columns is None else pa.schema([schema.field(c) for c in columns])
        tables = [read_part(self.path, path, wanted, groups) for path, groups in files_of(self.parts.get(table, ()))]
        return pa.concat_tables(tables) if tables else pa.Table.from_batches([], wanted)

    def rows(self, table: str) -> int:
        """How many rows a table has, without reading it."""
        return sum(part.rows for part in self.parts.get(table, ()))

    def digest(self, *tables: str) -> str:
        """16 hex digits for some tables, or for all but the log's own accounting: the same for the same rows."""
        chosen = tables or tuple(sorted(set(TRACE) - set(FOR_INGEST)))
        state = np.zeros(1, dtype=np.uint64)
        for table in chosen:
            total = sum(part.hash for part in self.parts.get(table, ())) & 0xFFFF_FFFF_FFFF_FFFF
            combine(state, np.array([total], np.uint64))
            combine(state, np.array([self.rows(table)], np.uint64))
        return f"{int(state[0]):016x}"

    @cached_property
    def names(self) -> Names:
        """Names by kind, at the place of their id."""
        found: dict[str, list[str]] = {}
        for kind, _, name in sorted(zip(*(column.to_pylist() for column in self.read("names").columns), strict=True)):
            found.setdefault(kind, []).append(name)
        return found

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
        bucket = self.read("traffic", ["bucket"])["bucket"]
        if len(bucket) == 0:
            return (0, 0)
        at = numbers(bucket)
        return int(at.min()), int(at.max()) + self.bucket_us


def files_of(parts: Iterable[Part]) -> list[tuple[str, list[int]]]:
    """(path, row groups): each file once; no row groups: all of it."""
    found: dict[str, list[int]] = {}
    for part in parts:
        found.setdefault(part.path, []).extend(part.groups)
    return list(found.items())


def read_part(root: str, path: str, schema: pa.Schema, groups: Sequence[int] = ()) -> pa.Table:
    """A file of a trace, or some row groups of it, with exactly this schema; what may be empty may be missing."""
    files, at = place(root)
    try:
        with files.open_input_file(f"{at}/{path}") as raw:
            file = pq.ParquetFile(raw)
            found = file.read_row_groups(list(groups), schema.names) if groups else file.read(columns=schema.names)
    except (OSError, pa.ArrowException) as error:
        raise BadTrace(f"{root}/{path} is named by trace.json but cannot be read: {error}") from None
    for each in schema:  # a column that traces from before did not have is empty
        if each.nullable and each.name not in found.column_names:
            found = found.append_column(each, pa.nulls(found.num_rows, each.type))
    return found if found.schema.equals(schema) else found.select(schema.names).cast(schema)


def batches(table: pa.Table, size: int = 1 << 17) -> Iterator[pa.RecordBatch]:
    """A table as the record batches that batch functions take."""
    yield from table.to_batches(max_chunksize=size)


BatchFunction = Callable[[Iterator[pa.RecordBatch]], Iterator[pa.RecordBatch]]

Runner = Callable[[BatchFunction, Iterable[pa.RecordBatch], pa.Schema], Iterator[pa.RecordBatch]]
"""How a batch function is run over batches, in this process or by Spark; it yields rows of the schema."""


def here(function: BatchFunction, rows: Iterable[pa.RecordBatch], _: pa.Schema) -> Iterator[pa.RecordBatch]:
    """Run a batch function in this process."""
    yield from function(iter(rows))
