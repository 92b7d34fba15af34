"""Sources: files of a log, what they are known by, and how they are cut for tasks.

A source is the hash of its first 4 KB and how far it was read: the same file twice is known, and of a
longer version of it only the new bytes are new.
"""

from __future__ import annotations

import gzip
import hashlib
import io
import itertools
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import PurePosixPath
from typing import Any, BinaryIO, cast

import pyarrow.fs as pafs

from overlace.errors import BadTrace, Unknown
from overlace.ingest.formats import counts, csv, jsonl, mosquitto
from overlace.ingest.formats.columns import COMMON, mapping
from overlace.ingest.formats.events import Format
from overlace.trace.store import place

FORMATS: Mapping[str, Format] = {
    each.name: each for each in (jsonl.FORMAT, csv.FORMAT, counts.FORMAT, mosquitto.FORMAT)
}
HEAD = 4096
SPLIT = 64 << 20


@dataclass(frozen=True)
class Source:
    """A file to read, with its format, its options and where to begin."""

    path: str
    name: str
    digest: str  # of its first 4 KB
    head: int  # how many bytes that is, for a shorter file
    size: int
    whole: bool  # it ends with a newline
    format: str
    options: Mapping[str, Any] = field(default_factory=dict)
    begin: int = 0  # bytes below are known
    number: int = 0  # its own in the trace: message ids are made of it

    @property
    def packed(self) -> bool:
        """Whether it must be unpacked from its beginning."""
        return self.path.endswith(".gz")

    def splits(self, most: int | None = None) -> list[tuple[int, int]]:
        """Byte ranges that can be read apart: one, unless each line stands alone and the file is plain."""
        most = most or SPLIT
        if self.packed or FORMATS[self.format].scope == "file" or self.size - self.begin <= most:
            return [(self.begin, self.size)]
        edges = [*range(self.begin, self.size, most), self.size]
        return list(itertools.pairwise(edges))


@contextmanager
def opened(path: str) -> Iterator[BinaryIO]:
    """A file as bytes, unpacked if it is packed."""
    files, at = place(path)
    with files.open_input_file(at) as raw:
        if path.endswith(".gz"):
            with gzip.open(cast(BinaryIO, raw)) as unpacked:
                yield cast(BinaryIO, unpacked)
        else:
            yield cast(BinaryIO, io.BufferedReader(raw, 1 << 20))


def find_files(paths: Sequence[str]) -> list[str]:
    """The files that paths and folders stand for, in order, hidden ones left out."""
    found = []
    for path in paths:
        files, at = place(path)
        info = files.get_file_info(at)
        if info.type == pafs.FileType.NotFound:
            raise BadTrace(f"{path} does not exist. Name the log's files or a folder with them.")
        if info.type == pafs.FileType.Directory:
            inside = files.get_file_info(pafs.FileSelector(at, recursive=True))
            prefix = path.partition("://")[0] + "://" if "://" in path else ""
            names = (each.path for each in inside if each.type == pafs.FileType.File)
            found += sorted(prefix + each for each in names if not PurePosixPath(each).name.startswith((".", "_")))
        else:
            found.append(path)
    return found


def look(path: str, form: str | None = None, options: Mapping[str, Any] | None = None) -> Source:
    """What a file is: its identity, its format (guessed unless named) and the options to read it with."""
    if form is not None and form not in FORMATS:
        raise Unknown("format", form, FORMATS)
    files, at = place(path)
    info = files.get_file_info(at)
    if info.type != pafs.FileType.File:
        raise BadTrace(f"{path} is not a file")
    with opened(path) as stream:
        head = stream.read(HEAD)
    shown = head.removeprefix(b"\xef\xbb\xbf")
    name = form or guess(shown)
    if name is None:
        raise BadTrace(f"{path}: no known format ({', '.join(FORMATS)}) fits its first lines. Name one with --format.")
    given = dict(options or {})
    given["group"] = tuple(_field(each) for each in given.get("group") or ())
    given["map"] = {_field(key): column for key, column in (given.get("map") or {}).items()}
    if name in ("csv", "counts"):
        given = csv.layout(shown, given)
        _check_fields(given)
    stem = PurePosixPath(path).name.removesuffix(".gz").rpartition(".")
    given.setdefault("broker", stem[0] or stem[2])
    whole = True
    if not path.endswith(".gz") and info.size:
        with files.open_input_file(at) as raw:
            raw.seek(info.size - 1)
            whole = raw.read(1) == b"\n"
    digest = hashlib.blake2b(head, digest_size=8).hexdigest()
    return Source(path, PurePosixPath(path).name, digest, len(head), info.size, whole, name, given)


def _check_fields(options: Mapping[str, Any]) -> None:
    """Refuse a mapping or a group that names what the log does not have, before anything is read."""
    fields = mapping(options["columns"], options["map"])
    for name in options["group"]:
        if name not in fields:
            raise Unknown("field of this log", name, fields)


def guess(head: bytes) -> str | None:
    """The format that fits the first bytes best, if any does."""
    scores = {name: form.sniff(head) for name, form in FORMATS.items()}
    best = max(scores, key=lambda name: scores[name])
    return best if scores[best] >= 0.3 else None


def _field(name: str) -> str:
    """A field by any of its common names: sender is client."""
    if name in COMMON:
        return name
    known = next((key for key, names in COMMON.items() if name.lower() in names), None)
    if known is None:
        raise Unknown("field", name, COMMON)
    return known
