"""Files: found in folders, opened and unpacked, known by hashes of their bytes and by the log they are a part of."""

from __future__ import annotations

import gzip
import hashlib
import io
import os
import re
import zlib
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from fnmatch import fnmatch
from pathlib import Path, PurePosixPath
from typing import BinaryIO, cast

import pyarrow.fs as pafs

from overlace.errors import Absent, BadTrace, read_os
from overlace.trace.address import absolute, bare, inside, is_address, place

HEAD = 4096
PACKED = {b"\x1f\x8b": "gzip", b"BZh": "bzip2", b"\xfd7zXZ": "xz", b"\x28\xb5\x2f\xfd": "zstd", b"PK\x03\x04": "zip"}


def read_unpacked(path: str | Path, expected: str) -> bytes:
    """What a file holds, unpacked; an error says what was expected of it."""
    try:
        if is_address(str(path)):
            files, at = place(str(path))
            with files.open_input_stream(at) as stream:
                data = bytes(stream.read())
        else:
            data = Path(path).read_bytes()
    except OSError as error:
        raise BadTrace(f"{path}: {error.strerror or read_os(str(error)) or error}. Expected {expected}.") from None
    if data[:2] != b"\x1f\x8b":
        return data
    try:
        return gzip.decompress(data)
    except (OSError, EOFError, zlib.error):
        raise BadTrace(f"{path}: the gzip file is cut short or damaged. Fetch it again.") from None


@contextmanager
def open_file(path: str) -> Iterator[BinaryIO]:
    """A file as bytes, unpacked if it is packed."""
    files, at = place(path)
    with files.open_input_file(at) as raw:
        packed = raw.read(2) == b"\x1f\x8b"
        raw.seek(0)
        if not packed:
            yield cast(BinaryIO, io.BufferedReader(raw, min(1 << 20, raw.size() + 1)))
            return
        try:
            with gzip.open(cast(BinaryIO, raw)) as unpacked:
                yield cast(BinaryIO, unpacked)
        except (EOFError, zlib.error, gzip.BadGzipFile) as error:
            raise BadTrace(
                f"{path}: not a whole gzip file ({error}). Copy it again, or unpack what is there."
            ) from None


def find_files(paths: Sequence[str], skip: Sequence[str] = ()) -> list[str]:
    """The files that paths and folders stand for, in order, each once; hidden ones and what is skipped left out."""
    found = []
    for path in paths:
        files, at = place(path)
        info = files.get_file_info(at)
        if info.type == pafs.FileType.NotFound:
            raise Absent(f"{path} does not exist. Name the log's files or a folder with them.")
        if info.type == pafs.FileType.Directory:
            own = is_address(path)
            for each in sorted(_files_in(files, at)):
                parts = PurePosixPath(each.removeprefix(at).lstrip("/")).parts
                hidden = any(part.startswith((".", "_")) for part in parts)
                if not hidden and not any(fnmatch(parts[-1], pattern) for pattern in skip):
                    found.append(inside(path, each.removeprefix(at).lstrip("/")) if own else each)
        else:
            found.append(path)
    return found


def _files_in(files: pafs.FileSystem, folder: str) -> Iterator[str]:
    """The paths of all files in a folder, whatever their names are."""
    if isinstance(files, pafs.LocalFileSystem):  # which lists no names but those in UTF-8
        for inside, _, names in os.walk(folder, followlinks=True):
            yield from (os.path.join(inside, name) for name in names)
        return
    for each in files.get_file_info(pafs.FileSelector(folder, recursive=True)):
        if each.type == pafs.FileType.File:
            yield each.path


DATED = re.compile(r"(?<=.)[-._](\d{8}([-_T]?\d{2,6})?|\d{4}-\d\d-\d\d([-_T.]\d\d([-_:.]?\d\d){0,2})?|1\d{9})$")


COUNTED = re.compile(r"(?<=\w)(\.[A-Za-z]\w*)\.\d{1,4}$")
"""What a rotation adds to the name of a log: a date, or a number behind an extension."""


def strip_rotation(name: str) -> str:
    """The name of a log without what packing and rotating have added."""
    return COUNTED.sub(r"\1", DATED.sub("", name.removesuffix(".gz")))


def log_of(path: str, key: bytes = b"") -> str:
    """Which log a file is a part of: those of one folder whose names differ only by their rotation."""
    folder, _, name = bare(absolute(path)).rpartition("/")
    folder = folder if is_address(path) else os.path.realpath(folder)
    return hash_of(os.fsencode(f"{folder}/{strip_rotation(name)}"), key)


def hash_of(data: bytes, key: bytes = b"") -> str:
    """16 hex digits for some bytes; under a secret key where names are hidden."""
    state = hasher(key)
    state.update(data)
    return state.hexdigest()


def hasher(key: bytes = b"") -> hashlib.blake2b:
    """What hashes bytes piece by piece."""
    return hashlib.blake2b(digest_size=8, key=hashlib.blake2b(key).digest() if key else b"")


def tail_at(files: pafs.FileSystem, at: str, end: int, key: bytes = b"") -> str:
    """The hash of the last bytes before `end`, as they lie on disk."""
    with files.open_input_file(at) as raw:
        raw.seek(max(0, end - HEAD))
        return hash_of(raw.read(min(HEAD, end)), key)
