"""The second job, and what it sums up: messages under ids, joined over splits, written by day, reduced to traffic."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.fs as pafs

from overlace.ingest.notes import rows_from
from overlace.ingest.reduce import Ids, Partial, sum_parts
from overlace.ingest.splits import make_batches
from overlace.ingest.staging import HERE, Finished, Job, Parsed, Runner, answers, label, partial_of, stage
from overlace.ingest.tails import subtract
from overlace.ingest.tasks import Piece, finish, regroup
from overlace.trace.store import Part, place
from overlace.trace.traffic import Reduction, merge
from overlace.trace.writer import Writer

TOGETHER = 1_000_000
"""Messages in several splits that one task joins."""

AT_HOME = 400_000
"""Messages up to which the second job is done by the driver: to ask Spark costs as much."""

SUMMED = ("traffic", "audiences", "tail_traffic", "tail_audiences")
"""Tables of what was summed up: of a source, and of the part of it in which messages may go on."""


class Summed(NamedTuple):
    """What a task summed up of a source, or of the part of it in which messages may go on."""

    source: int
    tail: bool
    sums: Partial
    extra: int  # further rows that repeat others
    orphans: int
    incomplete: int


class Sums(NamedTuple):
    """What all tasks summed up, and the files of messages that they wrote."""

    parts: list[Summed]
    written: list[Part]


def sums_of(parsed: Sequence[Parsed], ids: Sequence[Ids]) -> Sums:
    """What the first job summed up already."""
    pairs = zip(parsed, ids, strict=True)
    return Sums(
        [
            Summed(read.source, read.tail, partial_of(tables, own), 0, read.orphans, read.incomplete)
            for (read, tables), own in pairs
        ],
        [],
    )


def finish_messages(
    job: Job, runner: Runner, pieces: Sequence[Piece], weights: Sequence[int], bridged: bool, shared: Sequence[int]
) -> Sums:
    """Put staged messages under ids, write and sum them up; `shared` are the scopes with keys in several splits."""
    runner = runner if sum(weights) > AT_HOME else HERE._replace(parallel=runner.parallel)
    work = make_batches(pieces, weights, runner.parallel)
    done = answers(runner.run(finish(job, work, bridged, shared), len(work), "encoding and reducing", 0.6, 0.85))
    count = sum(Finished(**each.about).shared for each in done)
    if count:
        held = [piece for piece in pieces if _has_shared(job, piece)]
        parts = -(-count // TOGETHER)
        done += answers(runner.run(regroup(job, held, parts), parts, "joining messages", 0.85, 0.9))
    sums = Sums([], [])
    for each in done:
        about = Finished(**each.about)
        for path, rows, hashed, source, group in about.parts:
            sums.written.append(Part(path, rows, int(hashed), source, group))
        if "traffic" in each:
            own = partial_of(each, None)
            sums.parts.append(Summed(about.source, about.tail, own, about.extra, about.orphans, about.incomplete))
    return sums


def stage_ids(job: Job, pieces: Sequence[Piece], ids: Sequence[Ids]) -> None:
    """Stage the ids of each split's codes for the second job."""
    for piece, own in zip(pieces, ids, strict=True):
        for kind, values in own._asdict().items():
            stage(job, f"ids/{piece.name}-{kind}", pa.table({"id": values}))


def stage_shared(job: Job, parsed: Sequence[Parsed], pieces: Sequence[Piece], several: set[int]) -> list[int]:
    """Stage the keys that lie in several splits; the scopes that have such."""
    found = []
    for scope in sorted(several):
        own = [
            np.unique(each.tables.table("keys")["high"].to_numpy())
            for each, piece in zip(parsed, pieces, strict=True)
            if piece.scope == scope and "keys" in each.tables
        ]
        if len(own) < 2:
            continue
        every = np.sort(np.concatenate(own))
        twice = np.unique(every[1:][every[1:] == every[:-1]])
        if len(twice):
            stage(job, f"shared/{scope}", pa.table({"high": twice}))
            found.append(scope)
    return found


def _has_shared(job: Job, piece: Piece) -> bool:
    files, at = place(f"{job.trace}/{job.staging}/messages/shared-{piece.name}.arrow")
    return bool(files.get_file_info(at).type == pafs.FileType.File)


def write_traffic(writer: Writer, job: Job, sums: Sums, ratio: int) -> list[pa.Table]:
    """Write traffic and audiences of each source, added to what an earlier part of it gave, and list its messages.

    `ratio` buckets of what was summed up are one bucket of the trace. Returns the traffic of each source.
    """
    tables: dict[str, list[tuple[str, pa.Table]]] = {table: [] for table in SUMMED}
    for number, source in enumerate(job.sources):
        own = [part for part in sums.parts if part.source == number]
        whole = sum_parts([part.sums for part in own], job.bucket_us, ratio)
        if source.begin and writer.base:
            traffic, audiences, *of_tail = (rows_from(writer.base, table, source.digest) for table in SUMMED)
            whole = merge([subtract(Reduction(traffic, audiences), Reduction(*of_tail)), whole])
        tail = sum_parts([part.sums for part in own if part.tail], job.bucket_us, ratio)
        for table in SUMMED:
            writer.drop(table, source.digest)
        writer.drop("messages", label(source.digest, True))
        if not source.begin:
            for table in ("messages", "sessions", "subscriptions"):
                writer.drop(table, source.digest)
        for table, rows in zip(SUMMED, (*whole, *tail), strict=True):
            tables[table].append((source.digest, rows))
    for table, rows_by_source in tables.items():
        writer.write_by_source(table, rows_by_source)
    order = {label(source.digest, tail): i for i, source in enumerate(job.sources) for tail in (False, True)}
    writer.add("messages", sorted(sums.written, key=lambda part: (part.path.rpartition("/")[0], order[part.source])))
    return [rows for _, rows in tables["traffic"]]
