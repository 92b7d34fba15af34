"""The first bytes of a file: what it seems to be, and its first lines, whatever they hold."""

from __future__ import annotations

import zipfile
from contextlib import suppress
from typing import NamedTuple

from overlace.errors import BadTrace
from overlace.ingest.files import open_file
from overlace.ingest.lines import MARK
from overlace.trace.store import place

SEEN = 1 << 20
"""Bytes of a file that are looked at."""

SHOWN, WIDTH = 5, 100
"""Lines that are shown, and characters of each."""

MAGIC = (
    (b"\x89PNG", "a PNG image", ""),
    (b"\xff\xd8\xff", "a JPEG image", ""),
    (b"GIF8", "a GIF image", ""),
    (b"%PDF", "a PDF document", ""),
    (b"PK\x03\x04", "a zip archive", "Unpack it (unzip FILE) and peek at what is in it."),
    (b"BZh", "packed by bzip2", "Unpack it: bunzip2 -k FILE"),
    (b"\xfd7zXZ", "packed by xz", "Unpack it: xz -dk FILE"),
    (b"\x28\xb5\x2f\xfd", "packed by zstd", "Unpack it: zstd -dk FILE"),
    (b"7z\xbc\xaf", "a 7-Zip archive", "Unpack it and peek at what is in it."),
    (b"Rar!", "a RAR archive", "Unpack it and peek at what is in it."),
    (b"SQLite format 3\0", "an SQLite database", "Export a table: sqlite3 -header -csv FILE 'select ...' > NEW.csv"),
    (b"\xd4\xc3\xb2\xa1", "a packet capture (pcap)", "Packets are not read: export messages as CSV with tshark."),
    (b"\xa1\xb2\xc3\xd4", "a packet capture (pcap)", "Packets are not read: export messages as CSV with tshark."),
    (b"\x0a\x0d\x0d\x0a", "a packet capture (pcapng)", "Packets are not read: export messages as CSV with tshark."),
    (b"\x7fELF", "a program", ""),
    (b"Obj\x01", "Avro", "Export it as Parquet or JSON lines."),
    (b"ORC", "ORC", "Export it as Parquet."),
    (b"\x89HDF", "HDF5", "Export it as Parquet or CSV."),
)  # fmt: skip
"""What binary files begin with, what they are, and what to do."""

OFFICE = {
    "xl/": ("an Excel workbook", "Save the sheet as CSV (UTF-8)."),
    "word/": ("a Word document", ""),
    "content.xml": ("an OpenDocument file", "Save the sheet as CSV (UTF-8)."),
}


class Head(NamedTuple):
    """The first bytes of a file, unpacked."""

    path: str
    data: bytes
    whole: bool  # that is all of it
    packed: bool
    size: int  # of the file as it lies on disk

    def lines(self) -> list[str]:
        """The first lines, each cut to a width; what is no text as it would stand in a program."""
        if is_binary(self.data):
            return [repr(self.data[: WIDTH // 3])[2:-1][:WIDTH]]
        text = self.data[: SHOWN * 4096].removeprefix(MARK).decode("utf-8", "replace")
        listed = text.splitlines()[:SHOWN]
        return [line if len(line) <= WIDTH else line[: WIDTH - 3] + "..." for line in listed]


def read_head(path: str, seen: int = SEEN) -> Head:
    """The first bytes of a file; refused if it is packed and damaged."""
    files, at = place(path)
    size = files.get_file_info(at).size or 0
    if not size:
        return Head(path, b"", True, False, 0)
    with files.open_input_file(at) as raw:
        packed = raw.read(2) == b"\x1f\x8b"
    with open_file(path) as stream:
        data = stream.read(seen + 1)
    return Head(path, data[:seen], len(data) <= seen, packed, size)


def is_binary(data: bytes) -> bool:
    """Whether bytes are no text in an encoding that extends ASCII."""
    head = data[:4096]
    strange = sum(byte < 32 and byte not in b"\t\n\r\f\x1b" for byte in head)
    return b"\0" in head or head.startswith((b"\xff\xfe", b"\xfe\xff")) or strange > len(head) // 20


def binary_kind(head: Head) -> tuple[str, str] | None:
    """(what it is, what to do) of a file that is no text and no Parquet; None if it is."""
    data = head.data
    if data.startswith(b"PAR1") or not data:
        return None
    if data[257:262] == b"ustar":
        return "a tar archive", "Unpack it (tar xf FILE) and peek at what is in it."
    for magic, what, do in MAGIC:
        if data.startswith(magic):
            return _zipped(head.path) or (what, do) if magic.startswith(b"PK") else (what, do)
    if not is_binary(data):
        return None
    wide = data.startswith((b"\xff\xfe", b"\xfe\xff")) or 0.3 < data[:400].count(0) / min(400, len(data)) < 0.7
    if wide:
        big = data.startswith(b"\xfe\xff") or (not data.startswith(b"\xff\xfe") and data[:1] == b"\0")
        return "text in UTF-16", f"Convert it: iconv -f UTF-16{'BE' if big else 'LE'} -t UTF-8 FILE > NEW"
    return "a binary file of an unknown kind", ""


def _zipped(path: str) -> tuple[str, str] | None:
    """A document that is a zip archive inside."""
    with suppress(zipfile.BadZipFile, OSError, BadTrace), zipfile.ZipFile(path) as archive:
        names = archive.namelist()
        return next((kind for begin, kind in OFFICE.items() if any(name.startswith(begin) for name in names)), None)
    return None
