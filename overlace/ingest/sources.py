"""Sources: files of a log, what they are known by, and how they are cut for tasks.

A source is the hash of its first 4 KB and how far it was read: the same file twice is known, and of a
longer version of it only the new bytes are new. What holds for a whole source (which column is which, the unit
of its times) is settled from its first bytes, once, and kept with it.
"""

from __future__ import annotations

import contextlib
import gzip
import hashlib
import io
import itertools
import zlib
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from fnmatch import fnmatch
from pathlib import PurePosixPath
from typing import Any, BinaryIO, NamedTuple, cast

import pyarrow as pa
import pyarrow.fs as pafs

from overlace.errors import BadTrace, Unknown
from overlace.ingest.events import Format
from overlace.ingest.formats import counts, csv, jsonl, mosquitto, padres, parquet
from overlace.ingest.lines import MARK, blocks
from overlace.ingest.options import Options
from overlace.trace.store import place

FORMATS: Mapping[str, Format] = {
    each.FORMAT.name: each.FORMAT for each in (jsonl, csv, counts, mosquitto, padres, parquet)
}
HEAD = 4096
SAMPLE = 256 << 10
"""Bytes from which what holds for a source is settled."""

SPLIT = 32 << 20
LEAST_SPLIT = 8 << 20

PACKED = {
    b"\x1f\x8b": "gzip", b"BZh": "bzip2", b"\xfd7zXZ": "xz", b"\x28\xb5\x2f\xfd": "zstd", b"PK\x03\x04": "zip",
}  # fmt: skip


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
    packed: bool = False  # it must be unpacked from its beginning
    tail: str = ""  # the hash of its last bytes
    begin: int = 0  # bytes below are known
    number: int = 0  # its own in the trace: message ids are made of it

    @property
    def form(self) -> Format:
        """Its format."""
        return FORMATS[self.format]

    @property
    def keyed(self) -> bool:
        """Whether rows of one key are one message."""
        return bool(self.options.get("group") or "key" in self.options.get("mapping", ())) or self.form.keys == "call"

    def splits(self, most: int | None = None) -> list[tuple[int, int]]:
        """Ranges that can be read apart: one, unless each line stands alone and the file is plain."""
        if self.format == "parquet":
            return parquet.splits(self.path, parquet.ROWS)
        most = most or SPLIT
        if self.packed or self.form.scope == "file" or self.size - self.begin <= most:
            return [(self.begin, self.size)]
        edges = [*range(self.begin, self.size, most), self.size]
        return list(itertools.pairwise(edges))

    def read(self, begin: int, end: int) -> tuple[Iterator[pa.RecordBatch], Count]:
        """(events, count) of a split; the count holds once all events were taken."""
        count = Count()
        if self.format == "parquet":
            return count.rows(parquet.read_groups(self.path, begin, end, self.options)), count
        return self._events(begin, end, count), count

    def _events(self, begin: int, end: int, count: Count) -> Iterator[pa.RecordBatch]:
        whole = self.packed or self.form.scope == "file"
        with opened(self.path) as file:
            parts = blocks(file, 0 if whole else begin, None if whole else end)
            yield from self.form.read(count.lines_of(parts), self.options)


class Count:
    """Counts the lines that go by, on its own account."""

    lines = 0
    size = 0  # bytes

    def lines_of(self, parts: Iterator[tuple[int, bytes]]) -> Iterator[tuple[int, bytes]]:
        """The same blocks."""
        for offset, block in parts:
            self.lines += block.count(b"\n") + (not block.endswith(b"\n"))
            self.size += len(block)
            yield offset, block

    def rows(self, batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        """The same events, of a table: an event may stand for several rows."""
        for batch in batches:
            rows = batch["rows"]
            self.lines += len(rows) if rows.null_count == len(rows) else int(rows.to_numpy().sum())
            yield batch


@contextmanager
def opened(path: str) -> Iterator[BinaryIO]:
    """A file as bytes, unpacked if it is packed."""
    files, at = place(path)
    with files.open_input_file(at) as raw:
        packed = raw.read(2) == b"\x1f\x8b"
        raw.seek(0)
        if not packed:
            yield cast(BinaryIO, io.BufferedReader(raw, 1 << 20))
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
            raise BadTrace(f"{path} does not exist. Name the log's files or a folder with them.")
        if info.type == pafs.FileType.Directory and not at.endswith("/DataFrame.parquet"):
            inside = files.get_file_info(pafs.FileSelector(at, recursive=True))
            prefix = path.partition("://")[0] + "://" if "://" in path else ""
            names = (each.path for each in inside if each.type == pafs.FileType.File)
            found += sorted(prefix + each for each in names if not _left_out(each.removeprefix(at), skip))
        else:
            found.append(path)
    return found


def _left_out(path: str, skip: Sequence[str]) -> bool:
    parts = PurePosixPath(path.lstrip("/")).parts
    hidden = any(part.startswith((".", "_")) for part in parts)
    return hidden or any(fnmatch(parts[-1], pattern) for pattern in skip)


def look(path: str, form: str | None = None, options: Options | None = None) -> Source:
    """What a file is: its identity, its format (detected unless named) and what holds for all of it."""
    if form is not None and form not in FORMATS:
        raise Unknown("format", form, FORMATS)
    asked = options or Options()
    files, at = place(path)
    info = files.get_file_info(at)
    if info.type == pafs.FileType.Directory and form == "parquet":
        return _look_at_table(path, asked)
    if info.type != pafs.FileType.File:
        raise BadTrace(f"{path} is not a file")
    with files.open_input_file(at) as raw:
        start = raw.read(min(HEAD, info.size))
        raw.seek(max(0, info.size - HEAD))
        end = raw.read(min(HEAD, info.size))
    packed = _refuse_packed(path, start)
    with opened(path) as stream:
        sample = stream.read(SAMPLE) if info.size else b""
    head = sample[:HEAD]
    if not head.startswith(parquet.MAGIC):
        _refuse_encoding(path, head)
    name = form or guess(head.removeprefix(MARK))
    if name is None:
        kind = PurePosixPath(path).suffix
        raise BadTrace(
            f"{path}: no known format ({', '.join(FORMATS)}) fits its first lines. Name one with --format, or leave "
            f"such files out with --skip '{'*' + kind if kind else PurePosixPath(path).name}'."
        )
    chosen = FORMATS[name]
    given = asked.for_format(chosen)
    if name == "parquet":
        settled = parquet.settle(path, given)
    else:
        cut = sample if len(sample) < SAMPLE else sample[: sample.rfind(b"\n") + 1] or sample
        settled = chosen.settle(cut.removeprefix(MARK), given)
    if chosen.one_broker and not settled.get("broker"):
        stem = PurePosixPath(path).name.removesuffix(".gz").rpartition(".")
        settled["broker"] = stem[0] or stem[2]
    digest = hashlib.blake2b(head, digest_size=8).hexdigest()
    tail = hashlib.blake2b(end, digest_size=8).hexdigest()
    return Source(
        path, PurePosixPath(path).name, digest, len(head), info.size, packed or end.endswith(b"\n"), name, settled,
        packed, tail,
    )  # fmt: skip


def _look_at_table(path: str, asked: Options) -> Source:
    """A table in several files, as one source."""
    state, total = hashlib.blake2b(digest_size=8), 0
    for each in parquet.files_of(path):
        files, at = place(each)
        size = files.get_file_info(at).size
        total += size
        state.update(tail_at(files, at, size).encode())
    form = parquet.FORMAT
    settled = parquet.settle(path, asked.for_format(form))
    name = PurePosixPath(path).stem
    return Source(path, name, state.hexdigest(), HEAD, total, True, form.name, settled, False, state.hexdigest())


def _refuse_packed(path: str, start: bytes) -> bool:
    """Whether it is gzip; other archives are refused."""
    kind = next((kind for magic, kind in PACKED.items() if start.startswith(magic)), None)
    if kind not in (None, "gzip"):
        raise BadTrace(f"{path} is packed by {kind}, and only gzip is read. Unpack it first.")
    return kind == "gzip"


def _refuse_encoding(path: str, head: bytes) -> None:
    """Refuse what is text in another encoding, or one JSON value instead of lines."""
    if head.startswith((b"\xff\xfe", b"\xfe\xff")) or (len(head) > 20 and head[:200].count(0) > len(head[:200]) // 4):
        raise BadTrace(f"{path} is UTF-16 or not text. Convert it: iconv -f UTF-16 -t UTF-8 FILE > NEW")
    if head.removeprefix(MARK).lstrip()[:1] == b"[":
        raise BadTrace(
            f"{path} is one JSON array; one object a line is expected. Convert it: jq -c '.[]' FILE > NEW.jsonl"
        )


def guess(head: bytes) -> str | None:
    """The format that fits the first bytes best, if any does."""
    scores = {name: form.sniff(head) for name, form in FORMATS.items()}
    best = max(scores, key=lambda name: scores[name])
    return best if scores[best] >= 0.3 else None


# --- what is new ---------------------------------------------------------------------------------------


class Found(NamedTuple):
    """What has to be read, and what need not be."""

    sources: list[Source]
    known: list[str]  # names, with why


def new_sources(paths: Sequence[str], options: Options, noted: Mapping[str, Any]) -> Found:
    """The sources that have something new; work is linear in the files, whatever is known already."""
    by_head: dict[str, list[str]] = {}
    by_name: dict[str, list[str]] = {}
    for digest, before in noted.items():
        by_head.setdefault(digest.partition("-")[0], []).append(digest)
        if before["head"] < HEAD:
            by_name.setdefault(before["name"], []).append(digest)
    begins = Counter(digest.partition("-")[0] for digest in noted)
    alike: dict[tuple[str, int, str], list[Source]] = {}
    found: dict[str, Source] = {}
    same: dict[str, Source] = {}
    known: list[str] = []
    seen: set[str] = set()
    for path in find_files(paths, options.skip):
        files, at = place(path)
        if at in seen:
            known.append(f"{path} was named twice: read once")
            continue
        seen.add(at)
        if files.get_file_info(at).type == pafs.FileType.File and files.get_file_info(at).size == 0:
            known.append(f"{PurePosixPath(path).name}: empty")
            continue
        source = look(path, options.format, options)
        candidates = [*by_head.get(source.digest, ()), *by_name.get(source.name, ())]
        digest, before = _recognised(source, {each: noted[each] for each in dict.fromkeys(candidates)})
        if before is None:
            like = alike.setdefault((source.digest, source.size, source.tail), [])
            twin = next((each for each in like if _whole_digest(each.path) == _whole_digest(source.path)), None)
            if twin is not None:
                known.append(f"{source.name} is the same as {twin.name}: read once")
                continue
            like.append(source)
            again = begins[source.digest]
            digest = f"{source.digest}-{again}" if again else source.digest
            begins[source.digest] += 1
            found[digest] = replace(source, digest=digest)
        elif before["packed"] != source.packed:
            raise BadTrace(
                f"{path} begins like {before['name']}, which was ingested before. Ingest it packed or plain, not both."
            )
        elif before["end"] == source.size:
            same[digest] = _grown(source, digest, before)
        else:
            found[digest] = _grown(source, digest, before)
    joined = _joined(found, same, noted)
    known += [f"{source.name}: nothing new" for digest, source in same.items() if digest not in joined]
    return Found(_numbered([*found.values(), *joined.values()], noted), known)


def _joined(found: Mapping[str, Source], same: Mapping[str, Source], noted: Mapping[str, Any]) -> dict[str, Source]:
    """Sources without anything new that must be read again: they tell receivers of messages in those that have."""
    formats = {s.format for s in found.values() if s.form.keys == "call" and s.form.scope == "line"} - {"parquet"}
    again = {digest: replace(source, begin=0) for digest, source in same.items() if source.format in formats}
    for digest, source in found.items():
        if digest in noted and source.format in formats:
            others = {each for each, before in noted.items() if before.get("format") == source.format}
            missing = sorted(noted[each]["name"] for each in others - {*found, *same})
            if missing:
                raise BadTrace(
                    f"{source.path} has grown, and who received its messages may be in {', '.join(missing)}, ingested "
                    "before. Name all these logs together."
                )
    return again


def _grown(source: Source, digest: str, before: Mapping[str, Any]) -> Source:
    """A source that is known in part: only its new bytes where each line stands alone, and read as before."""
    settled = {**source.options, **before.get("settled", {})}
    settled["map"] = {name: tuple(columns) for name, columns in settled.get("map", {}).items()}
    same = replace(source, digest=digest, head=before["head"], options=settled)
    alone = source.form.scope == "line" and source.format != "parquet" and before["whole"] and not before["keyed"]
    return replace(same, begin=before["end"] if alone and not source.packed else 0)


def _recognised(source: Source, noted: Mapping[str, Any]) -> tuple[str, Any]:
    """(identity, what is noted) of a source that was read before, in part or whole."""
    files, at = place(source.path)
    for digest, before in noted.items():
        if files.get_file_info(at).type == pafs.FileType.Directory:
            return digest, {**before, "end": source.size}
        with opened(source.path) as stream:
            first = hashlib.blake2b(stream.read(before["head"]), digest_size=8).hexdigest()
        if digest.partition("-")[0] != first or (before["head"] < HEAD and before["name"] != source.name):
            continue
        if before["packed"] != source.packed:
            return digest, before
        if before["end"] <= source.size and before["tail"] == tail_at(files, at, before["end"]):
            return digest, before
        if before["name"] == source.name and before["end"] > source.size:
            raise BadTrace(
                f"{source.path} is {source.size:,} bytes long, but {before['end']:,} bytes of it were ingested before. "
                "Was it cut? Ingest it into a new trace."
            )
    return "", None


def tail_at(files: pafs.FileSystem, at: str, end: int) -> str:
    """The hash of the last bytes before `end`, as they lie on disk."""
    with files.open_input_file(at) as raw:
        raw.seek(max(0, end - HEAD))
        return hashlib.blake2b(raw.read(min(HEAD, end)), digest_size=8).hexdigest()


def _whole_digest(path: str) -> bytes:
    state = hashlib.blake2b()
    for each in parquet.files_of(path):
        files, at = place(each)
        with files.open_input_stream(at) as raw:
            while block := raw.read(1 << 20):
                state.update(block)
    return state.digest()


def _numbered(sources: Sequence[Source], noted: Mapping[str, Any]) -> list[Source]:
    """Each source with its own number: the one it has, or the next."""
    free = max((each["number"] for each in noted.values()), default=-1) + 1
    numbered = []
    for source in sources:
        if source.digest in noted:
            numbered.append(replace(source, number=noted[source.digest]["number"]))
        else:
            numbered.append(replace(source, number=free))
            free += 1
    return numbered


def settle_together(sources: Sequence[Source]) -> list[Source]:
    """Sources that are read together: two logs of one broker are refused, sorted tables are marked as such."""
    brokers = [s.options["broker"] for s in sources if s.form.one_broker]
    twice = [name for name, count in Counter(brokers).items() if count > 1]
    if twice:
        raise BadTrace(
            f"two logs are of one broker by their file names ({', '.join(sorted(twice))}). "
            "Ingest them one by one with --broker."
        )
    tables = [s for s in sources if s.format == "parquet"]
    ranges = sorted(s.options["range"] for s in tables if s.options.get("range"))
    apart = len(ranges) == len(tables) and all(left[1] < right[0] for left, right in itertools.pairwise(ranges))
    return [replace(s, options={**s.options, "sorted": apart}) if s.format == "parquet" else s for s in sources]


def shown_mapping(source: Source) -> list[str]:
    """What was settled for a source, for people."""
    mapping, lines = source.options.get("mapping"), []
    if mapping is None:
        return []
    lines.append("; ".join(f"{field} from {', else '.join(names)}" for field, names in mapping.items()))
    if source.options.get("unused"):
        lines.append(f"not used: {', '.join(source.options['unused'])}")
    if source.options.get("unit"):
        words = {"s": "seconds", "ms": "milliseconds", "us": "microseconds", "ns": "nanoseconds"}
        lines.append(f"times that are numbers are {words[source.options['unit']]} since 1970 (--time-unit)")
    if source.options.get("zoneless"):
        lines.append("times without a zone are taken as UTC")
    group = source.options.get("group")
    if group and source.format != "counts":
        lines.append(f"rows that agree in {', '.join(group)} are one message (--group)")
    elif "key" in mapping:
        lines.append(f"rows that agree in {', else '.join(mapping['key'])} are one message")
    return lines


def first_and_last(source: Source) -> tuple[int, int] | None:
    """Two times of a source, near its beginning and its end, where that is cheap to find out."""
    if source.format == "parquet":
        return parquet.span(source.path, source.options)
    if source.packed or source.form.scope == "file" or source.size < 2 * HEAD:
        return None
    found: list[int] = []
    with opened(source.path) as file, contextlib.suppress(BadTrace):
        for begin, end in ((source.begin, min(source.size, source.begin + HEAD)), (source.size - HEAD, source.size)):
            for batch in source.form.read(blocks(file, begin, end), source.options):
                found += [at for at in batch["at"].cast(pa.int64()).to_pylist() if at is not None]
            file.seek(0)
    return (min(found), max(found)) if found else None
