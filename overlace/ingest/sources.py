"""Sources: files of a log, what they are known by, and how they are read and cut for tasks.

What holds for a whole source (which column is which, the unit of its times) is settled from its first bytes,
once, and kept with it. A last line without an end is read if it can be, and else waits for its end.
"""

from __future__ import annotations

import itertools
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import PurePosixPath

import pyarrow as pa
import pyarrow.fs as pafs

from overlace.errors import Absent, BadTrace, Busy, Unfinished, Unknown
from overlace.ingest.events import Format, Settled
from overlace.ingest.files import HEAD, PACKED, hash_of, log_of, open_file, strip_rotation, tail_at
from overlace.ingest.formats import csv, json, jsonl, mosquitto, nats, padres, padres_quotes, parquet
from overlace.ingest.lines import MARK, blocks, raw_blocks
from overlace.ingest.options import Options
from overlace.ingest.presets import PRESETS
from overlace.matching.names import pseudonyms
from overlace.trace.address import name_of, place

FORMATS: Mapping[str, Format] = {
    form.name: form
    for form in (
        *(jsonl.FORMAT, csv.FORMAT, csv.COUNTS, mosquitto.FORMAT, nats.FORMAT),
        *(padres.FORMAT, padres_quotes.FORMAT, parquet.FORMAT, json.FORMAT),
        *(preset.format for preset in PRESETS.values()),
    )
}
SAMPLE = 256 << 10
"""Bytes from which what holds for a source is settled."""


@dataclass(frozen=True)
class Source:
    """A file to read, with its format, its options and where to begin."""

    path: str
    name: str
    digest: str  # what the trace knows it by: the hash of its first 4 KB when it was read first
    size: int  # bytes to read: without a last line that waits for its end
    format: str
    options: Settled = field(default_factory=lambda: Settled())
    packed: bool = False  # it must be unpacked from its beginning
    start: tuple[int, str] = (0, "")  # its fingerprint: how many bytes, up to 4 KB, and their hash
    marks: tuple[tuple[str, str], ...] = ()  # hashes of its first 256, 512, ... bytes, to tell an older copy
    disk: tuple[int, str] = (0, "")  # its bytes on disk, and the hash of the last of them
    tail: str = ""  # the hash of the last bytes that are read, unless it is packed
    open: bool = False  # its last line has no end, but can be read
    log: str = ""  # which log it is a part of: the files of one that is rotated have it in common
    begin: int = 0  # bytes below are known
    key: bytes = field(default=b"", repr=False)  # under which its hashes are made, where names are hidden
    head: bytes = field(default=b"", repr=False)  # its first 4 KB, until it is known what is new of it

    @property
    def label(self) -> str:
        """Its name as the trace has it."""
        return hide(self.name, self.key)

    @property
    def form(self) -> Format:
        """Its format."""
        return FORMATS[self.format]

    @property
    def keyed(self) -> bool:
        """Whether rows of one key are one message."""
        return bool(self.options.get("group") or "key" in self.options.get("mapping", ())) or self.form.keys == "call"

    @property
    def has_content(self) -> bool:
        """Whether what its messages say is read, and tells who receives them."""
        return self.form.content or bool(self.options.get("types"))

    @property
    def at_home(self) -> bool:
        """Whether receivers are at home at the broker that logs them: a delivery's own client is where its row says."""
        by_column = {"receiver", "receivers"} & {*self.options.get("mapping", ())}
        return self.form.at_home or bool(self.options.get("deliveries_where") and not by_column)

    def splits(self, most: int) -> list[tuple[int, int]]:
        """Ranges that can be read apart: one, unless each line stands alone and the file is plain."""
        if self.format == "parquet":
            return parquet.splits(self.path, parquet.ROWS)
        if self.packed or self.form.scope == "file":
            return [(self.begin, self.size)]
        return list(itertools.pairwise([*range(self.begin, self.size, most), self.size]))

    def read(self, begin: int, end: int) -> tuple[Iterator[pa.RecordBatch], Count]:
        """(events, count) of a split; the count holds once all events were taken."""
        count = Count()
        if self.format == "parquet":
            return count.rows(parquet.read_groups(self.path, begin, end, self.options)), count
        return self._events(begin, end, count), count

    def _events(self, begin: int, end: int, count: Count) -> Iterator[pa.RecordBatch]:
        with open_file(self.path) as file:
            if self.form.lines:
                stop = None if self.packed else self.size
                parts = self.form.lines(count.bytes_of(raw_blocks(file, stop=stop)))
            elif self.packed:
                file.seek(max(0, begin - HEAD))
                count.last = file.read(begin - max(0, begin - HEAD))
                parts = count.bytes_of(blocks(file, begin))
            else:
                parts = count.bytes_of(blocks(file, begin, end, stop=self.size))
            yield from self.form.read(count.lines_of(parts), self.options)


class Count:
    """Counts the lines that go by, on its own account."""

    lines = 0
    size = 0  # bytes
    last = b""  # the last of them

    def lines_of(self, parts: Iterator[tuple[int, bytes]]) -> Iterator[tuple[int, bytes]]:
        """The same blocks of lines."""
        for offset, block in parts:
            self.lines += block.count(b"\n") + (not block.endswith(b"\n"))
            yield offset, block

    def bytes_of(self, parts: Iterator[tuple[int, bytes]]) -> Iterator[tuple[int, bytes]]:
        """The same blocks of a file."""
        for offset, block in parts:
            self.size += len(block)
            self.last = (self.last + block[-HEAD:])[-HEAD:]
            yield offset, block

    def rows(self, batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        """The same events, of a table: an event may stand for several rows."""
        for batch in batches:
            rows = batch["rows"]
            self.lines += len(rows) if rows.null_count == len(rows) else int(rows.to_numpy().sum())
            yield batch


def hide(name: str, key: bytes) -> str:
    """A name, or its pseudonym where names are hidden."""
    return str(pseudonyms(pa.array([name]), key)[0]) if key else name


def look(path: str, options: Options | None = None, key: bytes = b"") -> Source:
    """What a file is: its identity, its format (detected unless named) and what holds for all of it."""
    asked = options or Options()
    if asked.format is not None and asked.format not in FORMATS:
        raise Unknown("format", asked.format, FORMATS)
    files, at = place(path)
    info = files.get_file_info(at)
    if info.type != pafs.FileType.File:
        gone = info.type == pafs.FileType.NotFound
        raise Absent(f"{path} has gone") if gone else BadTrace(f"{path} is not a file")
    with files.open_input_file(at) as raw:
        magic = raw.read(min(HEAD, info.size))
        raw.seek(max(0, info.size - HEAD))
        end = raw.read(min(HEAD, info.size))

    kind = next((kind for mark, kind in PACKED.items() if magic.startswith(mark)), "")
    if kind not in ("", "gzip"):
        raise BadTrace(f"{path} is packed by {kind}, and only gzip is read. Unpack it first.")
    packed = bool(kind)
    with open_file(path) as stream:
        sample = stream.read(SAMPLE) if info.size else b""
    head, text = sample[:HEAD], sample[:200]
    wide = text.startswith((b"\xff\xfe", b"\xfe\xff")) or (len(text) > 20 and text.count(0) > len(text) // 4)
    if wide and not head.startswith(parquet.MAGIC):
        raise BadTrace(f"{path} is UTF-16 or not text. Convert it: iconv -f UTF-16 -t UTF-8 FILE > NEW")

    chosen, settled = _settle(path, sample, packed, asked)
    size, is_open = info.size, False
    if not packed and chosen is not parquet.FORMAT and not chosen.lines and not end.endswith(b"\n"):
        size, is_open = _end_of(path, info.size, chosen, settled, asked.whole_lines)
    tail = hash_of(end, key) if size == info.size else tail_at(files, at, size, key)
    return Source(
        path,
        name_of(path),
        digest=hash_of(head, key),
        size=size,
        format=chosen.name,
        options=settled,
        packed=packed,
        start=(len(head), hash_of(head, key)),
        marks=tuple((str(n), hash_of(head[:n], key)) for n in (256, 512, 1024, 2048, 4096) if n <= len(head)),
        disk=(info.size, hash_of(end, key)),
        tail=tail,
        open=is_open,
        log=chosen.name if chosen.one_log else log_of(path, key),
        key=key,
        head=head,
    )


def _settle(path: str, sample: bytes, packed: bool, asked: Options) -> tuple[Format, Settled]:
    """The format of a file, detected unless named, and what its first bytes settle for all of it."""
    name = asked.format or guess(sample[:HEAD].removeprefix(MARK))
    if name is None and b"\n" not in sample and not packed:
        raise Unfinished(f"{name_of(path)}: its only line is unfinished, and waits for its end")
    if name is None:
        kind = PurePosixPath(name_of(path)).suffix
        raise BadTrace(
            f"{path}: no known format ({', '.join(FORMATS)}) fits its first lines. Name one with --format, or leave "
            f"such files out with --skip '{'*' + kind if kind else name_of(path)}'."
        )
    chosen = FORMATS[name]
    given = asked.for_format(chosen)
    if name == "parquet":
        return chosen, parquet.settle(path, given)
    cut = sample if len(sample) < SAMPLE else sample[: sample.rfind(b"\n") + 1] or sample
    settled = chosen.settle(cut.removeprefix(MARK), given)
    if chosen.one_broker and not settled.get("broker"):
        stem = strip_rotation(name_of(path)).rpartition(".")
        settled["broker"] = stem[0] or stem[2]
    return chosen, settled


def _end_of(path: str, size: int, form: Format, settled: Settled, waits: bool) -> tuple[int, bool]:
    """(bytes to read, open): a last line without an end waits, unless it gives an event and need not wait."""
    with open_file(path) as file:
        first = size
        while first > 0:
            step = min(first, 1 << 16)
            file.seek(first - step)
            found = file.read(step).rfind(b"\n")
            first = first - step + found + 1
            if found >= 0:
                break
        file.seek(first)
        line = file.read(size - first)
    if waits:
        return first, False
    try:
        batches = list(form.read(iter([(first, line)]), settled))
    except BadTrace:
        return first, False
    kinds = {kind for batch in batches for kind in batch["kind"].cast(pa.string()).to_pylist()}
    whole = kinds and not kinds & {"bad", "ignored"}
    return (size, True) if whole or form.finished(line) else (first, False)


def refuse_changed(source: Source) -> None:
    """Refuse a file that is another by now: it was rotated or written anew between a look at it and its reading."""
    files, at = place(source.path)
    info = files.get_file_info(at)
    same = info.type == pafs.FileType.File and info.size >= source.size
    if same and not source.packed:
        same = tail_at(files, at, source.size, source.key) == source.tail
        if same and source.format != "parquet":
            with files.open_input_file(at) as raw:
                same = hash_of(raw.read(source.start[0]), source.key) == source.start[1]
    elif same:
        same = (info.size, tail_at(files, at, info.size, source.key)) == source.disk
    if not same:
        raise Busy(
            f"{source.path} was rotated or written anew while it was being read. Nothing was ingested; run this again."
        )


def guess(head: bytes) -> str | None:
    """The format that fits the first bytes best, if any does."""
    scores = {name: form.sniff(head) for name, form in FORMATS.items()}
    best = max(scores, key=lambda name: scores[name])
    return best if scores[best] >= 0.3 else None


def settle_together(sources: Sequence[Source]) -> list[Source]:
    """Sources that are read together: two logs of one broker are refused, tables are one log."""
    logs = {(s.options["broker"] or "", s.log) for s in sources if s.form.one_broker}
    twice = [name for name, count in Counter(broker for broker, _ in logs).items() if count > 1]
    if twice:
        raise BadTrace(
            f"two logs are of one broker by their file names ({', '.join(sorted(twice))}). "
            "Ingest them one by one with --broker."
        )
    tables = min((s.digest for s in sources if s.format == "parquet"), default="")
    return [replace(s, head=b"", log=tables if s.format == "parquet" else s.log) for s in sources]


def identity_of(sources: Sequence[Source]) -> str:
    """Who is one client, unless a user says otherwise: as the format of a source has it."""
    return next((s.form.identity for s in sources if s.form.identity != "client"), "client")


def bytes_waiting(source: Source) -> int:
    """Bytes of its last line, if that waits for its end."""
    return 0 if source.packed or source.format == "parquet" else source.disk[0] - source.size
