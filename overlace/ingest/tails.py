"""Where messages of several rows end: what must be read again when a log has grown, and what need not be.

From its cut on, a source is read again with what was added: messages there may go on. What that part gave is
kept apart, so that it can be taken back. No key of what is read may lie in what is not; where one does, more is
read.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace

import numpy as np
import pyarrow as pa

from overlace.arrays.jit import Ints
from overlace.errors import BadTrace
from overlace.ingest.coded import Events
from overlace.ingest.growth import number_sources
from overlace.ingest.keys import group_keys, keys_of
from overlace.ingest.notes import Note, rows_from
from overlace.ingest.sources import Source
from overlace.ingest.staging import Job, Parsed, by_source, label
from overlace.trace.store import Trace
from overlace.trace.traffic import SUMS, Reduction, merge
from overlace.trace.writer import Writer

ZONE = 1 << 20
"""Bytes from the end of a source in which messages may go on; a key is looked for in as many before."""


class Crossed(Exception):
    """Keys that were read lie in parts of the log that were not: by source, from where it must be read."""

    def __init__(self, needs: Mapping[str, int]) -> None:
        super().__init__(str(needs))
        self.needs = dict(needs)


def with_cut(source: Source) -> Source:
    """A source with the place from which messages may go on: the first in its last part that parts no message."""
    if not may_join(source):
        return source
    low = source.size - ZONE
    if source.packed or low <= source.begin:
        return replace(source, cut=source.begin)
    batches, _ = source.read(max(source.begin, low - ZONE), source.size)
    events = Events([batch for batch in batches if batch.num_rows])
    rows = np.flatnonzero(events.is_kind("message", "counts", "delivery"))
    keys, keyed = keys_of(events, source.options["group"]) if source.options.get("group") else events.keys()
    high, low_word = (np.ascontiguousarray(keys[rows, i]) for i in range(2))
    group, _ = group_keys(high, low_word, np.ascontiguousarray(keyed[rows]))
    last = np.zeros(int(group.max(initial=-1)) + 1, np.int64)
    last[group] = np.arange(len(rows))
    open_until = np.maximum.accumulate(np.append(-1, last[group]))[:-1]
    apart = np.flatnonzero(open_until < np.arange(len(rows)))
    offsets = events.offset[rows][apart]
    return replace(source, cut=int(next(iter(offsets[offsets >= low]), source.begin)))


def may_join(source: Source) -> bool:
    """Whether its messages may have several rows, in this file or in others of the same log."""
    return source.keyed and source.form.keys == "source" and source.form.scope == "line" and source.format != "parquet"


def refuse_crossed(
    trace: Trace,
    sources: Sequence[Source],
    keys: Mapping[str, Ints],
    noted: Mapping[str, Note],
    same: Mapping[str, Source],
) -> None:
    """Refuse sources that must be read from further up for the keys that were met (by log) to lie in what is read.

    Where names are hidden no keys are kept: then all files of a log that are named (also the `same` ones) are read.
    """
    begins = {source.digest: source.begin for source in sources}
    needs: dict[str, int] = {}
    for digest, before in noted.items():
        mine = keys.get(before.get("log", ""))
        if mine is None or len(mine) == 0 or not before["keyed"] or begins.get(digest) == 0:
            continue
        hidden = bool(before.get("hidden")) and (digest in begins or digest in same)
        if hidden or _meet(trace, label(digest, False), mine):
            needs[digest] = 0
        elif digest not in begins and _meet(trace, label(digest, True), mine):
            needs[digest] = before.get("cut", 0)
    if needs:
        raise Crossed(needs)


def _meet(trace: Trace, source: str, keys: Ints) -> bool:
    """Whether some of the keys are a source's."""
    return bool(np.isin(rows_from(trace, "keys", source)["key"].to_numpy(), keys).any())


def widen_sources(
    sources: Sequence[Source], needs: Mapping[str, int], same: Mapping[str, Source], noted: Mapping[str, Note]
) -> list[Source]:
    """The sources to read, with those and that of them that further keys lie in."""
    found = [replace(each, begin=min(each.begin, needs.get(each.digest, each.begin))) for each in sources]
    have = {each.digest for each in found}
    missing = [digest for digest in needs if digest not in have and digest not in same]
    if missing:
        names = ", ".join(sorted(noted[digest]["name"] for digest in missing))
        raise BadTrace(
            f"messages of {names}, ingested before, go on in {', '.join(sorted(each.name for each in sources))}: "
            "they are one log that was rotated or captured in parts. Name all of its files together."
        )
    found += [replace(same[digest], begin=begin) for digest, begin in needs.items() if digest not in have]
    return [with_cut(each) for each in number_sources(found, noted)]


def subtract(whole: Reduction, part: Reduction) -> Reduction:
    """What is left of some traffic when a part of it is taken back."""
    if part.traffic.num_rows == 0:
        return whole
    traffic = part.traffic
    for name in SUMS:
        at = traffic.schema.get_field_index(name)
        traffic = traffic.set_column(at, traffic.schema.field(at), pa.array(-traffic[name].to_numpy()))
    left = merge([whole, Reduction(traffic, part.audiences)])
    rows = left.traffic.filter(pa.array(left.traffic["messages"].to_numpy() != 0))
    used = np.unique(rows["audience"].to_numpy())
    audiences = left.audiences.filter(pa.array(np.isin(left.audiences["audience"].to_numpy(), used)))
    return Reduction(rows, audiences)


def keys_by_log(job: Job, parsed: Sequence[Parsed]) -> dict[str, Ints]:
    """The keys that were met, by log."""
    found: dict[str, list[Parsed]] = {}
    for source, own in zip(job.sources, by_source(parsed, len(job.sources)), strict=True):
        if may_join(source):
            found.setdefault(source.log, []).extend(own)
    return {log: _keys(own) for log, own in found.items()}


def write_keys(writer: Writer, job: Job, parsed: Sequence[Parsed]) -> None:
    """Write the keys of each source, for when it has grown; those of names that are hidden are not kept."""
    rows = []
    for source, own in zip(job.sources, by_source(parsed, len(job.sources)), strict=True):
        for tail in (False, True):
            if tail or not source.begin:
                writer.drop("keys", label(source.digest, tail))
            if may_join(source) and not job.key:
                keys = _keys([each for each in own if each.read.tail == tail])
                rows.append((label(source.digest, tail), pa.table({"key": keys})))
    writer.write_by_source("keys", rows)


def _keys(splits: Sequence[Parsed]) -> Ints:
    """The keys that some splits have met, each once."""
    met = [each.tables.table("keys")["high"].to_numpy() for each in splits if "keys" in each.tables]
    own = np.concatenate([np.empty(0, np.int64), *met])
    return np.unique(own[own != 0])
