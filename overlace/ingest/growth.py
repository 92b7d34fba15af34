"""What was read before, and what is new: logs that grow, are renamed, copied, packed and rotated.

A log is known by its fingerprint, the hash of its first 4 KB, and by the last 4 KB that were read of it, both unpacked.

    the same fingerprint, nothing more     nothing is read, under whatever name
    the same fingerprint, more bytes       the new ones are read; where state runs through the file, all of it
    shorter, or its last bytes differ      refused, unless it is to be replaced
    another fingerprint                    another log

Files of one folder whose names differ only by their rotation are one log, in which a key names one message.
"""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import PurePosixPath
from typing import NamedTuple, cast

import pyarrow as pa
import pyarrow.fs as pafs

from overlace.errors import BadTrace, Unfinished
from overlace.ingest.copies import Looked, drop_copies, hash_prefixes, length_of, tail_hash
from overlace.ingest.events import Settled
from overlace.ingest.files import HEAD, find_files, hash_of, open_file
from overlace.ingest.options import Options
from overlace.ingest.sources import FORMATS, SAMPLE, Source, bytes_waiting, hide, look_at
from overlace.trace.notes import Note
from overlace.trace.store import is_text, place, readable


class Found(NamedTuple):
    """What has to be read, and what need not be."""

    sources: list[Source]
    known: list[str]  # names, with why


def new_sources(paths: Sequence[str], options: Options, noted: Mapping[str, Note], key: bytes) -> Found:
    """The sources that have something new; work is linear in the files, whatever is known already."""
    looked, known = _look_at_all(paths, options, key)
    looked, doubles = drop_copies(looked)
    known += doubles
    found: dict[str, Source] = {}
    same: dict[str, Source] = {}
    begins = Counter(digest.partition("-")[0] for digest in noted)
    recognised = _recognise(looked, noted)
    moved = {
        each.source.log: noted[digest]["log"]
        for each, digest in zip(looked, recognised, strict=True)
        if digest is not None
    }
    for each, digest in zip(looked, recognised, strict=True):
        source = replace(each.source, log=moved.get(each.source.log, each.source.log))
        if digest is None:
            refuse_older(source, noted)
            alike = begins[source.digest]
            begins[source.digest] += 1
            own = f"{source.digest}-{alike}" if alike else source.digest
            if source.size:
                found[own] = replace(source, digest=own)
            else:
                known.append(f"{source.name}: its only line is unfinished, and waits for its end")
            continue
        grown = _find_new_part(source, digest, noted[digest], options)
        if grown is None:
            same[digest] = _as_before(source, digest, noted[digest], options)
        else:
            found[digest] = grown
    again = _find_rereads(found, same, noted)
    for digest, source in same.items():
        if digest not in again:
            before = noted[digest]["name"]
            renamed = f" ({before}, which was read before)" if before != source.label else ""
            waits = ", its last line is unfinished" if bytes_waiting(source) else ""
            known.append(f"{source.name}{renamed}: nothing new{waits}")
    return Found([*found.values(), *again.values()], known)


def _look_at_all(paths: Sequence[str], options: Options, key: bytes) -> tuple[list[Looked], list[str]]:
    looked, known, seen = [], [], set()
    for path in find_files(paths, options.skip):
        if not is_text(path):
            known.append(f"{readable(path)} is left out: its name is not UTF-8. Rename it to have it read")
            continue
        files, at = place(path)
        if at in seen:
            known.append(f"{path} was named twice: read once")
            continue
        seen.add(at)
        info = files.get_file_info(at)
        if info.type == pafs.FileType.File and info.size == 0:
            known.append(f"{PurePosixPath(path).name}: empty")
            continue
        try:
            looked.append(Looked(*look_at(path, options.format, options, key)))
        except Unfinished as error:
            known.append(str(error))
    return looked, known


# --- what was read before ---------------------------------------------------------------------------------


def _recognise(looked: Sequence[Looked], noted: Mapping[str, Note]) -> list[str | None]:
    """The source of the trace that each is, or none; none is two."""
    by_head: dict[tuple[int, str], list[str]] = {}
    for digest, before in noted.items():
        by_head.setdefault((before["head"], digest.partition("-")[0]), []).append(digest)
    lengths = sorted({length for length, _ in by_head})
    candidates: list[tuple[tuple[bool, int, int], int, str]] = []
    for i, (source, head) in enumerate(looked):
        for key in hash_prefixes(head, lengths, source.key).items():
            alike = [digest for digest in by_head.get(key, ()) if _continues(source, head, noted[digest])]
            candidates += [((noted[each]["name"] != source.label, -noted[each]["end"], i), i, each) for each in alike]
    found: list[str | None] = [None] * len(looked)
    taken: set[str] = set()
    for _, i, digest in sorted(candidates):
        if found[i] is None and digest not in taken:
            found[i] = digest
            taken.add(digest)
    return found


def _continues(source: Source, head: bytes, before: Note) -> bool:
    """Whether a file begins with all that was read of a source, or is that source read anew."""
    alike = before["name"] == source.label and before["log"] == source.log
    if before["end"] < HEAD and not alike and not _is_distinctive(source, before):
        return False
    if source.packed and tuple(before["disk"]) == source.disk:
        return True
    if tail_hash(source, before["end"]) == before["tail"]:
        return True
    length, start = before["start"]
    if not alike or length < HEAD or hash_of(head[:length], source.key) != start:
        return False
    was_cut = not source.packed and before["end"] > source.disk[0] and source.format != "parquet"
    return not was_cut  # but written anew, and so it is read anew


def refuse_older(source: Source, noted: Mapping[str, Note]) -> None:
    """Refuse a file that begins like one of which more was read before: it was cut, or is a copy of an older state."""
    if source.packed or source.format == "parquet" or not source.marks:
        return
    length, start = source.marks[-1]
    for before in noted.values():
        if before["marks"].get(length) != start or before["end"] <= source.disk[0] or not before["account"]["kept"]:
            continue
        if before["name"] == source.label and before["log"] == source.log:
            raise BadTrace(
                f"{source.path} is {source.disk[0]:,} bytes long, but {before['end']:,} bytes of it were ingested "
                "before. Was it cut? Ingest it into a new trace."
            )
        if not source.form.one_broker or before["broker"] == hide(source.options["broker"] or "", source.key):
            raise BadTrace(
                f"{source.path} begins like {before['name']}, of which {before['end']:,} bytes were ingested before, "
                "and is shorter. If it is an older copy, leave it out (in a folder: --skip); if it is not, ingest it "
                "into a new trace."
            )


def _is_distinctive(source: Source, before: Note) -> bool:
    """Whether a short beginning that two files have in common shows that they are one."""
    if source.form.one_broker:
        return bool(before["broker"] == hide(source.options["broker"] or "", source.key))
    return bool(before["account"]["kept"])


def _as_before(source: Source, digest: str, before: Note, options: Options) -> Source:
    """A source that is known, read as it was read before, unless the user says otherwise now."""
    settled: Settled = {**source.options}
    if not _differs(source, before, options):
        settled.update(cast(Settled, before["settled"]))
    settled["map"] = {name: tuple(columns) for name, columns in settled.get("map", {}).items()}
    return replace(source, digest=digest, head=before["head"], options=settled, log=before["log"])


def _differs(source: Source, before: Note, options: Options) -> bool:
    """Whether a source is to be read otherwise than before: the user says so, or nothing could be read of it then."""
    asked = options.for_format(source.form)
    settled: Mapping[str, object] = before["settled"]
    given = {name: value for name, value in asked.items() if value is not None and value not in ({}, (), [])}
    other = any(name in settled and _plain(settled[name]) != _plain(value) for name, value in given.items())
    return other or not before["account"]["kept"]


def _plain(value: object) -> object:
    """A value as it is after a trip through JSON."""
    return json.loads(json.dumps(value))


def _find_new_part(source: Source, digest: str, before: Note, options: Options) -> Source | None:
    """A source that is known in part, from where it is to be read; none if it has nothing new."""
    same = _as_before(source, digest, before, options)
    end = before["end"]
    if source.packed and tuple(before["disk"]) == source.disk:
        return None
    if source.format == "parquet" and source.disk[0] == end:
        return None if before["tail"] == source.tail else same
    if source.format == "parquet" or tail_hash(source, end) != before["tail"]:
        return same  # written anew
    begin = _after(source, end, before["open"])
    if begin is None:
        return same  # what was taken for a whole line goes on
    if (length_of(source) if source.packed else source.size) <= begin:
        return None
    return same if source.form.scope == "file" or _differs(source, before, options) else replace(same, begin=begin)


def _after(source: Source, end: int, was_open: bool) -> int | None:
    """Where the line after `end` begins; none if the last line went on there."""
    if not was_open:
        return end
    with open_file(source.path) as stream:
        stream.seek(end)
        follows = stream.read(2)
    if follows[:1] in (b"\n", b""):
        return end + len(follows[:1])
    return end + 2 if follows == b"\r\n" else None


def _find_rereads(
    found: Mapping[str, Source], same: Mapping[str, Source], noted: Mapping[str, Note]
) -> dict[str, Source]:
    """Logs of brokers without anything new that are read again: messages crossed bridges between them and new ones."""
    again: dict[str, Source] = {}
    for name in sorted({source.format for source in found.values() if source.form.one_broker}):
        others = {each: before for each, before in noted.items() if before["format"] == name and before["bridges"]}
        new = [source for source in found.values() if source.format == name]
        spans = [(_first(source, noted), LAST) for source in new]
        near: set[str] = set()
        while grown := {
            each
            for each, before in others.items()
            if each not in near and "first" in before and any(_meet(before, *span) for span in spans)
        }:
            near |= grown
            spans = [(others[each]["first"], others[each]["last"]) for each in grown]
        missing = sorted(noted[each]["name"] for each in near - {*found, *same})
        grown_ones = [source for source in new if source.digest in noted]
        if missing and grown_ones:
            raise BadTrace(
                f"{grown_ones[0].path} has grown, and who received its messages may be in {', '.join(missing)}, "
                "ingested before. Name all logs of that time together."
            )
        again |= {each: replace(same[each], begin=0) for each in near if each in same}
    return again


LAST = 1 << 62


def _meet(before: Note, first: int, last: int) -> bool:
    """Whether a source that was read before has messages of some time."""
    return bool(before["first"] <= last and before["last"] >= first)


def _first(source: Source, noted: Mapping[str, Note]) -> int:
    """The first time of a source, as its first lines say."""
    before = noted.get(source.digest)
    known = before["first"] if before and "first" in before else LAST
    with open_file(source.path) as stream:
        lines = stream.read(SAMPLE).rpartition(b"\n")
    batches = source.form.read(iter([(0, lines[0] + lines[1] or lines[2])]), source.options)
    times = [at for batch in batches for at in batch["at"].cast(pa.int64()).to_pylist() if at is not None]
    return int(min([known, *times]))


__all__ = ["FORMATS", "Found", "new_sources", "refuse_older"]
