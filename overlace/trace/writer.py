"""Writing a trace: files first, then the manifest that names them, so that a killed write leaves the trace as it was.

One writer at a time (lock.py): each holds the lock of the folder, starts from what the one before has left, and makes
the next generation of the manifest, of which there can be but one. What a generation no longer names stays until the
next one, for those who are reading.
"""

from __future__ import annotations

import contextlib
import json
import os
import re
import uuid
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager

import msgspec
import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.fs as pafs
import pyarrow.parquet as pq

from overlace.arrays.jit import Ints
from overlace.errors import BadTrace, Busy
from overlace.stopping import finishing
from overlace.trace.address import absolute, place
from overlace.trace.digests import digest
from overlace.trace.ids import identities
from overlace.trace.lock import Lock, StoreLock, locked
from overlace.trace.store import NEVER, Manifest, Part, Trace, read_part, replace_ids
from overlace.trace.tables import HASHED, SCHEMA_VERSION, TIME, TRACE, arrow, conform, numbers, schema_of, texts

OURS = re.compile(r"[0-9a-f]{12}[^/]*\.parquet$")
"""Names of the files that a writer makes: its id first."""

LOGS = "logs"
"""The source of parts that ingest has made from logs."""

GROUP = 1 << 20
"""Rows of a row group, at most."""

FILES = 128
"""Files of a table beyond which small ones are joined."""

GENERATION = re.compile(r"[a-z_]+/generation=(\d+)(?:-([0-9a-f]+))?/")
"""Folders that an engine writes for a writer, by its generation and id: what is in them is ours whatever its name."""

SMALL = 64_000
"""Rows below which a file is small."""


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
        with locked(at, break_lock, files, path) as lock:
            writer = Writer(path, None if anew or not Trace.exists(path) else Trace.open(path), lock)
            writer.clear()
            try:
                yield writer
            finally:
                with finishing():
                    writer.tidy()
    finally:
        if not there:
            _drop_empty(files, at)


class Writer:
    """Adds files to a trace; nothing counts until commit."""

    def __init__(self, path: str, base: Trace | None = None, lock: Lock | StoreLock | None = None) -> None:
        self.path = path
        self.base = base
        self.lock = lock
        if base is None and not Trace.exists(path):
            refuse_foreign(path)
        self.id = uuid.uuid4().hex[:12]
        self.staging = f".staging-{self.id}"
        self.generation = base.generation if base else _generation(path)
        self.parts: dict[str, list[Part]] = {}
        self.ids: dict[str, pa.Array] = {}
        self.restart()

    def restart(self) -> None:
        """Forget what was written: what counts is what was there."""
        self.parts = {table: list(parts) for table, parts in self.base.parts.items()} if self.base else {}
        self.ids = dict(self.base.ids) if self.base else {}

    def folder(self, table: str) -> str:
        """Where an engine writes what is new of a table: no other writer does, also if the lock was broken."""
        return f"{table}/generation={self.generation + 1}-{self.id}"

    def name(self, names: Mapping[str, Sequence[str] | pa.Array], since: Mapping[str, Ints] | None = None) -> None:
        """Write the names of all things, by kind in order of their numbers: what `write` takes the ids of.

        `since` is when they first came up, NEVER where they did not; what the trace has already counts too.
        """
        self.ids, tables = {}, [schema_of("names").empty_table()]
        for kind in sorted(names):
            listed = names[kind]
            own: pa.Array = listed if isinstance(listed, pa.Array) else texts(listed)
            hashed = kind in HASHED
            ids = identities(own.to_pylist()) if hashed else np.arange(len(own))
            _refuse_collisions(kind, ids, own)
            first = self._first(kind, own, (since or {}).get(kind)) if hashed else np.full(len(own), NEVER)
            self.ids[kind] = arrow(ids, pa.int64())
            columns = [texts([kind] * len(own)), self.ids[kind], own, arrow(first, TIME, first == NEVER)]
            tables.append(pa.table(columns, schema=schema_of("names")))
        self.store("names", pa.concat_tables(tables), replace=True)

    def _first(self, kind: str, names: pa.Array, since: Ints | None) -> Ints:
        """When names first came up, here or in the trace as it was."""
        first = np.full(len(names), NEVER) if since is None else since
        if self.base is None or kind not in self.base.names:
            return first
        place = numbers(pc.index_in(names, value_set=texts(self.base.names[kind])), -1)
        before = np.append(self.base.since[kind], NEVER)[place]
        return np.where(first == NEVER, before, np.where(before == NEVER, first, np.minimum(first, before)))

    def _identify(self, kind: str, numbered: pa.Array) -> pa.Array:
        """The ids of some numbers."""
        try:
            return self.ids.get(kind, pa.nulls(0, pa.int64())).take(numbered.cast(pa.int64()))
        except pa.ArrowIndexError as error:
            raise BadTrace(f"{self.path}: a {kind} without a name: {error}") from None

    def write(
        self,
        table: str,
        rows: pa.Table,
        *,
        source: str = "",
        name: str = "",
        replace: bool = False,
        beside: pa.Table | None = None,
    ) -> None:
        """Write rows with numbers for ids, those under which things were named or which the trace has.

        `beside` are columns that the file has beyond the table.
        """
        rows = replace_ids(conform(rows, table), table, self._identify)
        self.store(table, rows, source=source, name=name, replace=replace, beside=beside)

    def store(
        self,
        table: str,
        rows: pa.Table,
        *,
        source: str = "",
        name: str = "",
        replace: bool = False,
        beside: pa.Table | None = None,
    ) -> None:
        """Write a file of a table; with replace it becomes the whole table."""
        part = write_part(self.path, table, conform(rows, table), f"{self.id}{name}", source, beside)
        kept = [] if replace else self.parts.get(table, [])
        self.parts[table] = [*kept, part] if part.rows else list(kept)

    def add(self, table: str, parts: Sequence[Part]) -> None:
        """Count files that tasks have written."""
        self.parts[table] = [*self.parts.get(table, []), *parts]

    def drop(self, table: str, source: str) -> None:
        """No longer count the files that came from a source."""
        self.parts[table] = [part for part in self.parts.get(table, []) if part.source != source]

    def commit(self, *, bucket_us: int, unit: str, notes: Mapping[str, object]) -> Trace:
        """Write the manifest: from now on the trace is what was written."""
        files, at = place(self.path)
        for table in list(self.parts):
            self.parts[table] = compact(self.path, table, self.parts[table], self.id)
        listed = {table: self.parts[table] for table in sorted(self.parts) if self.parts[table]}
        about = Manifest(SCHEMA_VERSION, bucket_us, unit, listed, dict(notes), self.generation + 1)
        text = msgspec.json.format(msgspec.json.encode(about), indent=1).decode() + "\n"
        files.create_dir(at, recursive=True)
        with finishing():
            if isinstance(files, pafs.LocalFileSystem):
                self._replace(at, text.encode())
            else:  # object stores put a whole object or none
                self.refuse_if_broken()
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
        counted = _paths(self.parts) | _paths(self.base.parts if self.base else {})
        for info, path in self._files(files, at):
            if (OURS.match(info.base_name) or GENERATION.match(path)) and not _counts(path, counted):
                _delete(files, info)

    def _files(self, files: pafs.FileSystem, at: str) -> Iterator[tuple[pafs.FileInfo, str]]:
        """The files in the folders of tables, and their paths in the trace."""
        for table in TRACE:
            for info in _listed(files, f"{at}/{table}", recursive=True):
                if info.type == pafs.FileType.File:
                    yield info, info.path.removeprefix(f"{at}/")

    def clear(self) -> None:
        """Remove what dead writers have staged, and their next generation: all others are, since we hold the lock."""
        files, at = place(self.path)
        for info in _listed(files, at):
            if info.base_name.startswith((".staging-", ".trace.json-", ".generation-")):
                _delete(files, info)
        self._drop_unborn(files, at)

    def _drop_unborn(self, files: pafs.FileSystem, at: str) -> None:
        """Remove folders of generations that no manifest names yet, while the lock is ours."""
        if self.lock is not None and not self.lock.holds():
            return
        born = _generation(self.path)
        for info, path in self._files(files, at):
            found = GENERATION.match(path)
            if found and int(found[1]) > born:
                _delete(files, info)

    def tidy(self) -> None:
        """Remove what we have staged, and written but not committed, and folders that are empty."""
        files, at = place(self.path)
        with contextlib.suppress(OSError, BadTrace):
            trace = Trace.open(self.path) if Trace.exists(self.path) else None
            counted = _paths(trace.parts if trace else {})
            staged = files.get_file_info(f"{at}/{self.staging}")
            if staged.type == pafs.FileType.Directory:
                _delete(files, staged)
            self._drop_unborn(files, at)
            inside = _listed(files, at, recursive=True)
            for info in inside:
                path = info.path.removeprefix(f"{at}/")
                found = GENERATION.match(path)
                ours = info.base_name.startswith((self.id, f".trace.json-{self.id}")) or (found and found[2] == self.id)
                if ours and info.type == pafs.FileType.File and not _counts(path, counted):
                    _delete(files, info)
            folders = (info.path for info in inside if info.type == pafs.FileType.Directory)
            for folder in sorted(folders, key=len, reverse=True):
                _drop_empty(files, folder)


def _listed(files: pafs.FileSystem, at: str, recursive: bool = False) -> list[pafs.FileInfo]:
    """What a folder holds; nothing where it is not there, or goes while it is looked at."""
    try:
        return list(files.get_file_info(pafs.FileSelector(at, allow_not_found=True, recursive=recursive)))
    except FileNotFoundError:
        return []


def _drop_empty(files: pafs.FileSystem, at: str) -> None:
    """Remove a folder unless it holds something, also what another writer has just put there."""
    if isinstance(files, pafs.LocalFileSystem):
        with contextlib.suppress(OSError):
            os.rmdir(at)
    elif not _listed(files, at):
        files.delete_dir(at)


def _paths(parts: Mapping[str, Sequence[Part]]) -> set[str]:
    """The files and folders of all tables."""
    return {part.path for each in parts.values() for part in each}


def _counts(path: str, counted: set[str]) -> bool:
    """Whether a file is among those that count, or in one of their folders."""
    return path in counted or path.rpartition("/")[0] in counted


def _refuse_collisions(kind: str, ids: Ints, names: pa.Array) -> None:
    """Refuse two names of one kind with one id."""
    order = np.argsort(ids, kind="stable")
    same = np.flatnonzero(ids[order][1:] == ids[order][:-1])
    if len(same):
        one, other = (names[int(order[same[0] + i])].as_py() for i in range(2))
        raise BadTrace(
            f"the {kind} names {one!r} and {other!r} have the same id. Two of a billion names do with one chance in "
            "40; rename one of them."
        )


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
    except (FileNotFoundError, ValueError, TypeError, AttributeError):  # a store that fails is not a trace's absence
        return 0


def refuse_foreign(path: str) -> None:
    """A new trace goes into a new folder, or into what a killed first write has left."""
    files, at = place(path)
    for info in _listed(files, at):
        if info.base_name not in TRACE and info.base_name != "trace.json" and not info.base_name.startswith("."):
            raise BadTrace(f"{path} holds other things ({info.base_name}) and is no trace. Choose another name for it.")


def write_part(
    root: str, table: str, rows: pa.Table, name: str, source: str = "", beside: pa.Table | None = None
) -> Part:
    """Write one Parquet file of a table, with columns beyond it, and say what it holds; callable from any task."""
    files, at = place(root)
    path = f"{table}/{name}.parquet"
    if rows.num_rows:
        folder = f"{at}/{path}".rpartition("/")[0]
        files.create_dir(folder, recursive=True)
        whole = rows
        if beside is not None:
            for column in beside.column_names:
                whole = whole.append_column(column, beside[column])
        pq.write_table(whole, f"{at}/{path}", filesystem=files, compression="zstd")
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


def compact(root: str, table: str, parts: Sequence[Part], name: str) -> list[Part]:
    """The same parts with small files of one folder joined, if there are many; each part stays a row group.

    What logs gave stays as it is: its files have columns beyond the table.
    """
    own: dict[str, list[Part]] = {}
    for part in parts:
        own.setdefault(part.path, []).append(part)
    if len(own) <= FILES:
        return list(parts)
    folders: dict[str, list[str]] = {}
    for path, mine in own.items():
        if mine[0].source != LOGS and sum(part.rows for part in mine) < SMALL:
            folders.setdefault(path.rpartition("/")[0], []).append(path)
    for folder, paths in folders.items():
        if len(paths) < 2:
            continue
        small = [part for path in paths for part in own[path]]
        rows = [(part.source, read_part(root, part.path, schema_of(table), part.groups)) for part in small]
        inner = folder.partition("/")[2]
        made = write_groups(root, table, rows, f"{inner + '/' if inner else ''}{name}-{uuid.uuid4().hex[:8]}")
        own |= {path: [] for path in paths}
        own[paths[0]] = made
    return [part for mine in own.values() for part in mine]
