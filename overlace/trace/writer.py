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

import pyarrow as pa
import pyarrow.fs as pafs
import pyarrow.parquet as pq

from overlace.errors import BadTrace, Busy
from overlace.stopping import finishing
from overlace.trace.lock import Lock, locked
from overlace.trace.store import Part, Trace, absolute, digest, place, read_part
from overlace.trace.tables import SCHEMA_VERSION, TRACE, conform, schema_of

OURS = re.compile(r"[0-9a-f]{12}[^/]*\.parquet$")
"""Names of the files that a writer makes: its id first."""

GROUP = 1 << 20
"""Rows of a row group, at most."""

FILES = 128
"""Files of a table beyond which small ones are joined."""

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

    def commit(self, *, bucket_us: int, unit: str, notes: Mapping[str, object]) -> Trace:
        """Write the manifest: from now on the trace is what was written."""
        files, at = place(self.path)
        for table in list(self.parts):
            self.parts[table] = compact(self.path, table, self.parts[table], self.id)
        listed = {t: [part.document() for part in self.parts[t]] for t in sorted(self.parts) if self.parts[t]}
        about = {
            "schema_version": SCHEMA_VERSION,
            "generation": self.generation + 1,
            "bucket_us": bucket_us,
            "unit": unit,
            "tables": listed,
            "notes": notes,
        }
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
        counted = _paths(self.parts)
        counted |= _paths(self.base.parts if self.base else {})
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
            counted = _paths(trace.parts if trace else {})
            staged = files.get_file_info(f"{at}/{self.staging}")
            if staged.type == pafs.FileType.Directory:
                _delete(files, staged)
            inside = files.get_file_info(pafs.FileSelector(at, allow_not_found=True, recursive=True))
            for info in inside:
                ours = info.base_name.startswith((self.id, f".trace.json-{self.id}"))
                if ours and info.type == pafs.FileType.File and info.path.removeprefix(f"{at}/") not in counted:
                    _delete(files, info)
            folders = (info.path for info in inside if info.type == pafs.FileType.Directory)
            for folder in sorted(folders, key=len, reverse=True):
                if not files.get_file_info(pafs.FileSelector(folder, allow_not_found=True)):
                    files.delete_dir(folder)


def _paths(parts: Mapping[str, Sequence[Part]]) -> set[str]:
    """The files of all tables."""
    return {part.path for each in parts.values() for part in each}


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


def compact(root: str, table: str, parts: Sequence[Part], name: str) -> list[Part]:
    """The same parts with small files of one folder joined, if there are many; each part stays a row group."""
    own: dict[str, list[Part]] = {}
    for part in parts:
        own.setdefault(part.path, []).append(part)
    if len(own) <= FILES:
        return list(parts)
    folders: dict[str, list[str]] = {}
    for path, mine in own.items():
        if sum(part.rows for part in mine) < SMALL:
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
