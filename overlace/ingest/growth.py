"""What was read before, and what is new: logs that grow, are renamed, copied, packed and rotated.

A log is known by its fingerprint, the hash of its first 4 KB, and by the last 4 KB that were read of it, both unpacked;
what happens to it then stands in docs/formats.md ("Logs that grow"). Of files that are named together and begin alike,
which are copies, the longest is read. Files of one folder whose names differ only by their rotation are one log, in
which a key names one message.
"""

from __future__ import annotations

import json
import os
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from functools import partial
from typing import cast

import pyarrow as pa
import pyarrow.fs as pafs

from overlace.errors import BadTrace, Unfinished
from overlace.ingest.events import Settled
from overlace.ingest.files import HEAD, find_files, hash_of, hasher, open_file, tail_at
from overlace.ingest.options import Options
from overlace.ingest.sources import SAMPLE, Source, bytes_waiting, hide, look
from overlace.trace.address import is_text, name_of, place, readable
from overlace.trace.notes import Note
from overlace.trace.store import DAY_US


def new_sources(
    paths: Sequence[str], options: Options, noted: Mapping[str, Note], key: bytes
) -> tuple[list[Source], list[str]]:
    """(sources that have something new, what need not be read and why); linear in the files."""
    looked, known = _look_at_all(paths, options, key)
    looked, copies = drop_copies(looked)
    known += copies
    recognised = _recognise(looked, noted, options.replace)
    logs = {source.log: noted[digest]["log"] for source, digest in zip(looked, recognised, strict=True) if digest}
    begins = Counter(digest.partition("-")[0] for digest in noted)
    found: dict[str, Source] = {}
    same: dict[str, Source] = {}
    for source, digest in zip(looked, recognised, strict=True):
        source = replace(source, log=logs.get(source.log, source.log))
        if digest is not None:
            begin = _new_part(source, noted[digest], options)
            source = _as_before(source, digest, noted[digest], options)
            if begin is None:
                same[digest] = source
            else:
                found[digest] = replace(source, begin=begin)
        elif source.size == 0:
            known.append(f"{source.name}: its only line is unfinished, and waits for its end")
        else:
            alike = begins[source.digest]
            begins[source.digest] += 1
            own = f"{source.digest}-{alike}" if alike else source.digest
            found[own] = replace(source, digest=own)
    again = _find_rereads(found, same, noted)
    again |= _find_parts({**found, **again}, same, noted)
    for digest, source in same.items():
        if digest not in again:
            before = noted[digest]["name"]
            renamed = f" ({before}, which was read before)" if before != source.label else ""
            waits = ", its last line is unfinished" if bytes_waiting(source) else ""
            known.append(f"{source.name}{renamed}: nothing new{waits}")
    return [*{**found, **again}.values()], known


def _look_at_all(paths: Sequence[str], options: Options, key: bytes) -> tuple[list[Source], list[str]]:
    looked, known, seen = [], [], set()
    for path in find_files(paths, options.skip):
        if not is_text(path):
            known.append(f"{readable(path)} is left out: its name is not UTF-8. Rename it to have it read")
            continue
        files, at = place(path)
        info = files.get_file_info(at)
        if at in seen:
            known.append(f"{path} was named twice: read once")
        elif info.type == pafs.FileType.File and info.size == 0:
            known.append(f"{name_of(path)}: empty")
        elif info.type == pafs.FileType.NotFound and os.path.islink(at):
            known.append(f"{name_of(path)} is left out: a link to what is not there")
        else:
            try:
                looked.append(look(path, options, key))
            except Unfinished as error:
                known.append(str(error))
        seen.add(at)
    return looked, known


# --- copies ------------------------------------------------------------------------------------------------


def drop_copies(looked: Sequence[Source]) -> tuple[list[Source], list[str]]:
    """(files, said): of files of which one is the beginning of the other, or the same, the longest."""
    alike: dict[tuple[int, str], list[int]] = {}
    lengths = {source.start[0] for source in looked}
    for i, source in enumerate(looked):
        for start in starts_of(source, lengths):
            alike.setdefault(start, []).append(i)
    gone: dict[int, str] = {}
    for i, source in enumerate(looked):
        for j in alike[source.start]:
            if i != j and j not in gone and (word := _relation(source, looked[j], i < j)):
                gone[i] = f"{source.name} is {word} {looked[j].name}: read once"
                break
    return [each for i, each in enumerate(looked) if i not in gone], list(gone.values())


def starts_of(source: Source, lengths: Iterable[int]) -> Iterator[tuple[int, str]]:
    """Beginnings of a file of some lengths, as fingerprints."""
    state, at = hasher(source.key), 0
    for length in sorted(lengths):
        if length <= len(source.head):
            state.update(source.head[at:length])
            yield length, state.hexdigest()
            at = length


def _relation(one: Source, other: Source, first: bool) -> str:
    """How one is contained in the other, if it is: of two that are the same the first in order counts."""
    if one.format == "parquet" or (one.packed == other.packed and one.disk == other.disk):
        same = not first and one.disk == other.disk and _are_equal(one.path, other.path)
        return "the same as" if same else ""
    rows = one.head.count(b"\n") > 1 or b"\n" not in one.head or not one.options.get("header")
    short, long = length_of(one), length_of(other)
    if short > long or (short == long and first) or not rows or tail_hash(other, short) != tail_hash(one, short):
        return ""
    if short == long:
        return "the same as"
    return "the beginning of" if not one.form.one_broker or one.options["broker"] == other.options["broker"] else ""


def _are_equal(path: str, other: str) -> bool:
    (files, at), (others, to) = place(path), place(other)
    with files.open_input_stream(at) as left, others.open_input_stream(to) as right:
        while (block := left.read(1 << 20)) == right.read(1 << 20):
            if not block:
                return True
    return False


def tail_hash(source: Source, end: int) -> str | None:
    """The hash of the last bytes before `end`, unpacked; none if it is not that long."""
    files, at = place(source.path)
    if not source.packed:
        return tail_at(files, at, end, source.key) if end <= source.disk[0] else None
    with open_file(source.path) as stream:
        stream.seek(max(0, end - HEAD))
        last = stream.read(min(HEAD, end))
    return hash_of(last, source.key) if len(last) == min(HEAD, end) else None


def length_of(source: Source) -> int:
    """Its bytes, unpacked."""
    if not source.packed:
        return source.disk[0]
    with open_file(source.path) as stream:
        return sum(map(len, iter(lambda: stream.read(1 << 20), b"")))


# --- what was read before ---------------------------------------------------------------------------------


def _recognise(looked: Sequence[Source], noted: Mapping[str, Note], replacing: bool) -> list[str | None]:
    """The source of the trace that each is, or none; none is two."""
    by_start: dict[tuple[int, str], list[str]] = {}
    for digest, before in noted.items():
        length, own = before["start"]
        by_start.setdefault((length, own), []).append(digest)
    lengths = {length for length, _ in by_start}
    candidates: list[tuple[tuple[bool, bool, int, int], int, str]] = []
    other: dict[int, list[str]] = {}
    for i, source in enumerate(looked):
        for start in starts_of(source, lengths):
            for digest in by_start.get(start, ()):
                before = noted[digest]
                named = before["name"] == source.label and before["log"] == source.log
                if not named and before["end"] < HEAD and not _is_distinctive(source, before):
                    continue
                goes_on = _goes_on(source, before)
                if not goes_on:
                    other.setdefault(i, []).append(digest)
                if goes_on or replacing:
                    candidates.append(((not goes_on, not named, -before["end"], i), i, digest))
        other.setdefault(i, []).extend(_longer(source, noted))
        if replacing:
            candidates += [((True, noted[each]["name"] != source.label, 0, i), i, each) for each in other[i]]
    found: list[str | None] = [None] * len(looked)
    taken: set[str] = set()
    for _, i, digest in sorted(candidates):
        if found[i] is None and digest not in taken:
            found[i] = digest
            taken.add(digest)
    for i, source in enumerate(looked):
        if found[i] is None and other[i]:
            before = noted[other[i][0]]
            raise BadTrace(
                f"{source.path} begins like {before['name']}, of which {before['end']:,} bytes were ingested before, "
                f"and {'goes on otherwise' if length_of(source) > before['end'] else 'is shorter'}. "
                "Leave it out if it is an older copy (in a folder: --skip); --replace takes it in place of what was "
                "ingested."
            )
    return found


def _goes_on(source: Source, before: Note) -> bool:
    """Whether a file that begins like a source has all that was read of it.

    Parquet and JSON arrays are written as a whole, their ends change as they grow: a longer one has.
    """
    if source.packed and tuple(before["disk"]) == source.disk:
        return True
    if (source.format == "parquet" or source.form.lines) and length_of(source) > before["end"]:
        return True
    return tail_hash(source, before["end"]) == before["tail"]


def _longer(source: Source, noted: Mapping[str, Note]) -> list[str]:
    """Sources that begin like all of a file that is shorter than 4 KB, and of which more was read."""
    if source.packed or source.format == "parquet" or not source.marks:
        return []
    length, start = source.marks[-1]
    return [
        digest
        for digest, before in noted.items()
        if before["marks"].get(length) == start
        and before["end"] > source.disk[0]
        and before["account"]["kept"]
        and (not source.form.one_broker or before["broker"] == hide(source.options["broker"] or "", source.key))
    ]


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
    return replace(source, digest=digest, options=settled, log=before["log"])


def _differs(source: Source, before: Note, options: Options) -> bool:
    """Whether a source is to be read otherwise than before: the user says so, or nothing could be read of it then."""
    settled: Mapping[str, object] = before["settled"]
    asked = options.for_format(source.form)
    given = {name: value for name, value in asked.items() if value is not None and value not in ({}, (), [])}
    as_kept = partial(json.dumps, sort_keys=True)
    other = any(name in settled and as_kept(settled[name]) != as_kept(value) for name, value in given.items())
    return other or not before["account"]["kept"]


def _new_part(source: Source, before: Note, options: Options) -> int | None:
    """From where a source that is known is to be read; none if it has nothing new."""
    end = before["end"]
    if source.packed and tuple(before["disk"]) == source.disk:
        return None
    if not _goes_on(source, before):
        return 0
    if source.format == "parquet":
        return None if source.disk[0] == end else 0
    begin = _after(source, end) if before["open"] else end
    if begin is None:
        return 0  # what was taken for a whole line goes on
    if (length_of(source) if source.packed else source.size) <= begin:
        return None
    return 0 if source.form.scope == "file" or _differs(source, before, options) else begin


def _after(source: Source, end: int) -> int | None:
    """Where the line after `end` begins; none if the last line went on there."""
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
        spans = [(_first(source, noted), 1 << 62) for source in new]
        near: set[str] = set()
        while grown := {
            each
            for each, before in others.items()
            if each not in near
            and "first" in before
            and any(before["first"] <= last and before["last"] >= first for first, last in spans)
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


def _find_parts(
    found: Mapping[str, Source], same: Mapping[str, Source], noted: Mapping[str, Note]
) -> dict[str, Source]:
    """Parts of logs that are read again: messages have rows in them and in a part that is read anew."""
    again: dict[str, Source] = {}
    anew = [(digest, each) for digest, each in found.items() if digest in noted and not each.begin]
    left = [(digest, each) for digest, each in anew if each.keyed or each.form.one_log]
    while left:
        digest, source = left.pop()
        parts = {each for each, part in noted.items() if part["log"] == source.log and _are_near(part, noted[digest])}
        missing = sorted(noted[each]["name"] for each in parts - {*found, *same})
        if missing:
            raise BadTrace(
                f"{source.path} is read anew, and rows of its messages may be in {', '.join(missing)}, ingested "
                "before. Name all parts of the log together, or ingest what there is into a new trace."
            )
        new = {each: replace(found.get(each) or same[each], begin=0) for each in parts - {*again, digest}}
        left += [(each, part) for each, part in new.items() if each in same or found[each].begin]
        again |= new
    return again


def _are_near(one: Note, other: Note) -> bool:
    """Whether some messages of two sources are at most a day apart; of those without any nothing is known."""
    if "first" not in one or "first" not in other:
        return True
    return one["first"] <= other["last"] + DAY_US and other["first"] <= one["last"] + DAY_US


def _first(source: Source, noted: Mapping[str, Note]) -> int:
    """The first time of a source, as its first lines say."""
    before = noted.get(source.digest)
    known = before["first"] if before and "first" in before else 1 << 62
    with open_file(source.path) as stream:
        lines = stream.read(SAMPLE).rpartition(b"\n")
    batches = source.form.read(iter([(0, lines[0] + lines[1] or lines[2])]), source.options)
    times = [at for batch in batches for at in batch["at"].cast(pa.int64()).to_pylist() if at is not None]
    return int(min([known, *times]))
