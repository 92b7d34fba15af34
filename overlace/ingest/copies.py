"""Files whose content is the same, or the beginning of that of another, are read once."""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from typing import NamedTuple

from overlace.ingest.files import HEAD, hash_of, hasher, open_file, tail_at
from overlace.ingest.formats import parquet
from overlace.ingest.sources import Source
from overlace.trace.store import place


class Looked(NamedTuple):
    """A source, and its first bytes."""

    source: Source
    head: bytes


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
    length = 0
    with open_file(source.path) as stream:
        while block := stream.read(1 << 20):
            length += len(block)
    return length


def drop_copies(looked: Sequence[Looked]) -> tuple[list[Looked], list[str]]:
    """(sources, said): without those that are the same as another, or the beginning of it."""
    lengths = sorted({each.source.head for each in looked if each.source.head})
    begins: dict[tuple[int, str], list[int]] = {}
    for i, each in enumerate(looked):
        for length, own in hash_prefixes(each.head, lengths, each.source.key).items():
            begins.setdefault((length, own), []).append(i)
    gone: dict[int, str] = {}
    for i, each in enumerate(looked):
        others = [j for j in begins.get((each.source.head, each.source.digest), ()) if j != i and j not in gone]
        for j in others:
            word = _relation(each, looked[j], i < j)
            if word:
                gone[i] = f"{each.source.name} is {word} {looked[j].source.name}: read once"
                break
    return [each for i, each in enumerate(looked) if i not in gone], list(gone.values())


def _relation(one: Looked, other: Looked, first: bool) -> str:
    """How one is contained in the other, if it is: of two that are the same the first in order stays."""
    a, b = one.source, other.source
    if "parquet" in (a.format, b.format):
        alike = a.disk == b.disk and not first and _whole_digest(a.path) == _whole_digest(b.path)
        return "the same as" if alike else ""
    if a.packed == b.packed and a.disk == b.disk:
        return "the same as" if not first and _whole_digest(a.path) == _whole_digest(b.path) else ""
    long, short = length_of(b), length_of(a)
    if short > long or (short == long and first) or not _has_rows(one) or tail_hash(b, short) != tail_hash(a, short):
        return ""
    if short == long:
        return "the same as"
    return "the beginning of" if not a.form.one_broker or a.options["broker"] == b.options["broker"] else ""


def _has_rows(looked: Looked) -> bool:
    """Whether it begins with more than a line that many files may have in common."""
    head = looked.head
    return head.count(b"\n") > 1 or (b"\n" not in head or not looked.source.options.get("header"))


def hash_prefixes(head: bytes, lengths: Sequence[int], key: bytes = b"") -> dict[int, str]:
    """Hashes of its first bytes, by how many."""
    found, state, at = {}, hasher(key), 0
    for length in lengths:
        if length > len(head):
            break
        state.update(head[at:length])
        found[length] = state.hexdigest()
        at = length
    return found


def _whole_digest(path: str) -> bytes:
    state = hashlib.blake2b()
    for each in parquet.files_of(path):
        files, at = place(each)
        with files.open_input_stream(at) as raw:
            while block := raw.read(1 << 20):
                state.update(block)
    return state.digest()
