"""A trace: a log reduced to tables, as Parquet files and one manifest that names the files that count.

    TRACE/trace.json            schema version, bucket width, unit of costs, and for each table its files
    TRACE/TABLE/*.parquet       the tables of tables.py

trace.json is written last, in one piece, so a killed write leaves the trace as it was; files that it
does not name are no part of it. One writer at a time (lock.py): each holds the lock of the folder, starts from what
the one before has left, and makes the next generation of the manifest, of which there can be but one. What a
generation no longer names stays until the next one, for those who are reading. A trace lies at any path that
Arrow's file systems reach.
"""

from __future__ import annotations

import contextlib
import hashlib
import json
import os
import re
import uuid
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.fs as pafs
import pyarrow.parquet as pq

from overlace.arrays.hashing import combine, hash_groups, mixed
from overlace.errors import BadTrace, Busy
from overlace.model import Names
from overlace.stopping import finishing
from overlace.trace.lock import Lock, locked
from overlace.trace.tables import FOR_INGEST, SCHEMA_VERSION, TRACE, check_version, conform, numbers, schema_of

OURS = re.compile(r"[0-9a-f]{12}[^/]*\.parquet$")
"""Names of the files that a writer makes: its id first."""

HOUR_US, MINUTE_US, DAY_US = 3_600_000_000, 60_000_000, 86_400_000_000


def place(path: str) -> tuple[pafs.FileSystem, str]:
    """The file system and the path in it: a local path, or an address like s3://bucket/folder."""
    if "://" in path:
        found: tuple[pafs.FileSystem, str] = pafs.FileSystem.from_uri(path)
        return found
    from pathlib import Path

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


def _words(values: pa.Array) -> Any:
    """A 64-bit word for each value; null has one of its own."""
    if isinstance(values, pa.ChunkedArray):
        values = pa.concat_arrays(values.chunks) if values.num_chunks else pa.nulls(0, values.type)
    if pa.types.is_string(values.type) or pa.types.is_large_string(values.type):
        coded = values.fill_null("").dictionary_encode()
        each = [hashlib.blake2b(v.encode(), digest_size=8).digest() for v in coded.dictionary.to_pylist()]
        words = np.frombuffer(b"".join(each), dtype=np.uint64)[numbers(coded.indices)]
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

    def document(self) -> dict[str, Any]:
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
        tables = [_read(self.path, path, wanted, groups) for path, groups in _files(self.parts.get(table, ()))]
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


def _files(parts: Sequence[Part]) -> list[tuple[str, list[int]]]:
    """(path, row groups): each file once; no row groups: all of it."""
    found: dict[str, list[int]] = {}
    for part in parts:
        groups = found.setdefault(part.path, [])
        if part.group >= 0:
            groups.append(part.group)
    return list(found.items())


def _read(root: str, path: str, schema: pa.Schema, groups: Sequence[int] = ()) -> pa.Table:
    files, at = place(root)
    try:
        with files.open_input_file(f"{at}/{path}") as raw:
            file = pq.ParquetFile(raw)
            found = file.read_row_groups(list(groups), schema.names) if groups else file.read(columns=schema.names)
    except (OSError, pa.ArrowException) as error:
        raise BadTrace(f"{root}/{path} is named by trace.json but cannot be read: {error}") from None
    return found if found.schema.equals(schema) else found.cast(schema)


@contextmanager
def writing(path: str, *, anew: bool = False, break_lock: bool = False) -> Iterator[Writer]:
    """Write to the trace there, or make it; nobody else does meanwhile, and what is not committed is removed.

    With `anew` what was there is replaced.
    """
    path = absolute(path)
    if not Trace.exists(path):
        refuse_foreign(path)
    files, at = place(path)
    there = files.get_file_info(at).type != pafs.FileType.NotFound
    if not there:
        files.create_dir(at, recursive=True)
    try:
        local = isinstance(files, pafs.LocalFileSystem)
        with locked(at, break_lock) if local else contextlib.nullcontext() as lock:
            writer = Writer(path, None if anew or not Trace.exists(path) else Trace.open(path), lock)
            writer.clear()
            try:
                yield writer
            finally:
                with finishing():
                    writer.tidy()
    finally:
        if not there and not files.get_file_info(pafs.FileSelector(at, allow_not_found=True)):
            files.delete_dir(at)


class Writer:
    """Adds files to a trace; nothing counts until commit."""

    def __init__(self, path: str, base: Trace | None = None, lock: Lock | None = None) -> None:
        self.path = path
        self.base = base
        self.lock = lock
        if base is None and not Trace.exists(path):
            refuse_foreign(path)
        self.id = uuid.uuid4().hex[:12]
        self.staging = f".staging-{self.id}"
        self.generation = base.generation if base else _generation(path)
        self.parts: dict[str, list[Part]] = {}
        self.restart()

    def restart(self) -> None:
        """Forget what was written: what counts is what was there."""
        self.parts = {table: list(parts) for table, parts in self.base.parts.items()} if self.base else {}

    def write(self, table: str, rows: pa.Table, *, source: str = "", name: str = "", replace: bool = False) -> None:
        """Write a file of a table; with replace it becomes the whole table."""
        part = write_part(self.path, table, conform(rows, table), f"{self.id}{name}", source)
        kept = [] if replace else self.parts.get(table, [])
        self.parts[table] = [*kept, part] if part.rows else list(kept)

    def write_by_source(self, table: str, rows: Sequence[tuple[str, pa.Table]]) -> None:
        """Write one file with what each source gives, a row group each."""
        conformed = [(source, conform(each, table)) for source, each in rows]
        self.add(table, write_groups(self.path, table, conformed, f"{self.id}-{uuid.uuid4().hex[:8]}"))

    def add(self, table: str, parts: Sequence[Part]) -> None:
        """Count files that tasks have written."""
        self.parts[table] = [*self.parts.get(table, []), *parts]

    def drop(self, table: str, source: str) -> None:
        """No longer count the files that came from a source."""
        self.parts[table] = [part for part in self.parts.get(table, []) if part.source != source]

    def commit(self, *, bucket_us: int, unit: str, notes: Mapping[str, Any]) -> Trace:
        """Write the manifest: from now on the trace is what was written."""
        files, at = place(self.path)
        for table in list(self.parts):
            self.parts[table] = compact(self.path, table, self.parts[table], self.id)
        listed = {t: [part.document() for part in self.parts[t]] for t in sorted(self.parts) if self.parts[t]}
        about = {
            "schema_version": SCHEMA_VERSION, "generation": self.generation + 1, "bucket_us": bucket_us, "unit": unit,
            "tables": listed, "notes": notes,
        }  # fmt: skip
        text = json.dumps(about, indent=1, ensure_ascii=False) + "\n"
        files.create_dir(at, recursive=True)
        with finishing():
            if isinstance(files, pafs.LocalFileSystem):
                self._replace(at, text.encode())
            else:  # object stores put a whole object or none
                self._refuse_if_changed()
                with files.open_output_stream(f"{at}/trace.json") as stream:
                    stream.write(text.encode())
            self._sweep(files, at)
        return Trace.open(self.path)

    def _replace(self, at: str, manifest: bytes) -> None:
        """Make the next generation, which only one writer can, and put it in place."""
        beside, own = f"{at}/.trace.json-{self.id}", f"{at}/.generation-{self.generation + 1}"
        with open(beside, "wb") as file:
            file.write(manifest)
            file.flush()
            os.fsync(file.fileno())
        try:
            os.close(os.open(own, os.O_CREAT | os.O_EXCL | os.O_WRONLY, 0o666))
        except FileExistsError:
            raise self._beaten() from None
        try:
            self.refuse_if_broken()
            self._refuse_if_changed()
            os.replace(beside, f"{at}/trace.json")
        finally:
            os.unlink(own)

    def refuse_if_broken(self) -> None:
        """Refused if the lock was taken from us."""
        if self.lock is not None and not self.lock.holds():
            raise self._beaten()

    def _refuse_if_changed(self) -> None:
        if _generation(self.path) != self.generation:
            raise self._beaten()

    def _beaten(self) -> Busy:
        return Busy(
            f"{self.path}: another writer took the lock and changed the trace meanwhile. It is as that one left it; "
            "run this again."
        )

    def _sweep(self, files: pafs.FileSystem, at: str) -> None:
        """Remove files of ours that count no longer: those replaced before, and what dead writers have left."""
        counted = {part.path for parts in self.parts.values() for part in parts}
        counted |= {part.path for parts in (self.base.parts if self.base else {}).values() for part in parts}
        for table in TRACE:
            listing = pafs.FileSelector(f"{at}/{table}", allow_not_found=True, recursive=True)
            for info in files.get_file_info(listing):
                ours = OURS.match(info.base_name) and info.type == pafs.FileType.File
                if ours and info.path.removeprefix(f"{at}/") not in counted:
                    _delete(files, info)

    def clear(self) -> None:
        """Remove what dead writers have staged: all others are, since we hold the lock."""
        files, at = place(self.path)
        for info in files.get_file_info(pafs.FileSelector(at, allow_not_found=True)):
            if info.base_name.startswith((".staging-", ".trace.json-", ".generation-")):
                _delete(files, info)

    def tidy(self) -> None:
        """Remove what we have staged, and written but not committed, and folders that are empty."""
        files, at = place(self.path)
        with contextlib.suppress(OSError, BadTrace):
            trace = Trace.open(self.path) if Trace.exists(self.path) else None
            counted = {part.path for parts in trace.parts.values() for part in parts} if trace else set()
            staged = files.get_file_info(f"{at}/{self.staging}")
            if staged.type == pafs.FileType.Directory:
                _delete(files, staged)
            inside = files.get_file_info(pafs.FileSelector(at, allow_not_found=True, recursive=True))
            for info in inside:
                ours = info.type == pafs.FileType.File and info.base_name.startswith(
                    (self.id, f".trace.json-{self.id}")
                )
                if ours and info.path.removeprefix(f"{at}/") not in counted:
                    _delete(files, info)
            folders = (info.path for info in inside if info.type == pafs.FileType.Directory)
            for folder in sorted(folders, key=len, reverse=True):
                if not files.get_file_info(pafs.FileSelector(folder, allow_not_found=True)):
                    files.delete_dir(folder)


def _delete(files: pafs.FileSystem, info: pafs.FileInfo) -> None:
    """Remove a file or a folder; a task that nobody waits for may still write there."""
    with contextlib.suppress(OSError):
        if info.type == pafs.FileType.Directory:
            files.delete_dir(info.path)
        else:
            files.delete_file(info.path)


def _generation(path: str) -> int:
    """How many times the trace there was written, whatever else its manifest says."""
    files, at = place(path)
    try:
        with files.open_input_stream(f"{at}/trace.json") as stream:
            return int(json.loads(stream.read()).get("generation", 0))
    except (OSError, ValueError, TypeError, AttributeError):
        return 0


def refuse_foreign(path: str) -> None:
    """A new trace goes into a new folder, or into what a killed first write has left."""
    files, at = place(path)
    for info in files.get_file_info(pafs.FileSelector(at, allow_not_found=True)):
        if info.base_name not in TRACE and info.base_name != "trace.json" and not info.base_name.startswith("."):
            raise BadTrace(f"{path} holds other things ({info.base_name}) and is no trace. Choose another name for it.")


def write_part(root: str, table: str, rows: pa.Table, name: str, source: str = "") -> Part:
    """Write one Parquet file of a table and say what it holds; callable from any task."""
    files, at = place(root)
    path = f"{table}/{name}.parquet"
    if rows.num_rows:
        folder = f"{at}/{path}".rpartition("/")[0]
        files.create_dir(folder, recursive=True)
        pq.write_table(rows, f"{at}/{path}", filesystem=files, compression="zstd")
    return Part(path, *digest(rows), source)


def write_groups(root: str, table: str, rows: Sequence[tuple[str, pa.Table]], name: str) -> list[Part]:
    """Write one Parquet file of a table, a row group for each source that has rows; callable from any task."""
    some = [(source, each) for source, each in rows if each.num_rows]
    if not some:
        return []
    files, at = place(root)
    path = f"{table}/{name}.parquet"
    files.create_dir(f"{at}/{path}".rpartition("/")[0], recursive=True)
    parts, group = [], 0
    with (
        files.open_output_stream(f"{at}/{path}") as sink,
        pq.ParquetWriter(sink, some[0][1].schema, compression="zstd") as writer,
    ):
        for source, each in some:
            for first in range(0, each.num_rows, GROUP):
                piece = each.slice(first, GROUP)
                writer.write_table(piece, row_group_size=GROUP)
                parts.append(Part(path, *digest(piece), source, group))
                group += 1
    return parts


GROUP = 1 << 20
"""Rows of a row group, at most."""

FILES = 128
"""Files of a table beyond which small ones are joined."""

SMALL = 64_000
"""Rows below which a file is small."""


def compact(root: str, table: str, parts: Sequence[Part], name: str) -> list[Part]:
    """The same parts with small files of one folder joined, if there are many; each part stays a row group."""
    listed = _files(parts)
    if len(listed) <= FILES:
        return list(parts)
    rows: dict[str, int] = {}
    for part in parts:
        rows[part.path] = rows.get(part.path, 0) + part.rows
    folders: dict[str, list[str]] = {}
    for path, _ in listed:
        if rows[path] < SMALL:
            folders.setdefault(path.rpartition("/")[0], []).append(path)
    own: dict[str, list[Part]] = {}
    for part in parts:
        own.setdefault(part.path, []).append(part)
    moved: dict[str, list[Part]] = {}
    for folder, paths in folders.items():
        if len(paths) < 2:
            continue
        tables = [
            (part.source, _read(root, part.path, schema_of(table), [part.group] if part.group >= 0 else []))
            for path in paths for part in own[path]
        ]  # fmt: skip
        inner = folder.partition("/")[2]
        made = write_groups(root, table, tables, f"{inner + '/' if inner else ''}{name}-{uuid.uuid4().hex[:8]}")
        moved[paths[0]] = made
        moved |= {path: [] for path in paths[1:]}
    kept: list[Part] = []
    for path, _ in listed:
        kept += moved.get(path, own[path])
    return kept


def batches(table: pa.Table, size: int = 1 << 17) -> Iterator[pa.RecordBatch]:
    """A table as the record batches that batch functions take."""
    yield from table.to_batches(max_chunksize=size)


Runner = Callable[[Any, Iterable[pa.RecordBatch]], Iterator[pa.RecordBatch]]
"""How a batch function is run over batches: in this process, or by Spark."""


def here(function: Any, rows: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    """Run a batch function in this process."""
    yield from function(iter(rows))
