"""What tasks of an ingest do, as batch functions: they run in Spark's workers, or in a list.

`parse` reads splits: what it summed up or staged, the names it met, and the account of the lines. `finish` puts
staged messages under ids, writes them by day and sums them up. `regroup` joins the rows of messages that lie in
several splits. A task writes under names of its own and answers with them; what no answer names does not count.
"""

from __future__ import annotations

import uuid
from collections.abc import Iterator, Sequence
from typing import NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from overlace.arrays.csr import group as by_group
from overlace.arrays.csr import sort_groups, take_groups
from overlace.arrays.jit import Ints, kernel, size
from overlace.ingest.encode import encode
from overlace.ingest.files import hash_of
from overlace.ingest.keys import group_keys
from overlace.ingest.message_files import MessageFiles
from overlace.ingest.messages import (
    Messages,
    audience_sizes,
    compact_audiences,
    concatenate,
    distinct_sets,
    extra_rows,
    heads_of,
    incomplete_in,
    is_incomplete,
    orphans_in,
    receivers_of,
    take,
    without_orphans,
)
from overlace.ingest.reduce import Ids, put_under_ids, sum_up
from overlace.ingest.sources import Count
from overlace.ingest.splits import FileSplit
from overlace.ingest.staging import (
    BatchFunction,
    Finished,
    Job,
    Read,
    answer,
    from_lists,
    partial_tables,
    stage,
    stage_messages,
    staged,
    staged_messages,
)

FLUSH = 2_000_000
"""Messages that a task holds before it writes them."""


# --- parse ---------------------------------------------------------------------------------------------


def parse(job: Job, tasks: Sequence[Sequence[FileSplit]]) -> BatchFunction:
    """The batch function that parses splits: numbers of tasks in, an answer a split out."""

    def run(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        for batch in batches:
            for task in batch["id"].to_pylist():
                for split in tasks[task]:
                    yield from _parse_split(job, split)

    return run


CHUNK, CONTENT_CHUNK = 96 << 20, 8 << 20
"""Bytes of a split that are held at once, where each line stands alone: what is packed cannot be cut before. With
content less: those who receive it may be many."""


def _parse_split(job: Job, split: FileSplit) -> Iterator[pa.RecordBatch]:
    """An answer a split, or several if it is large."""
    source = job.sources[split.source]
    batches, count = source.read(split.begin, split.end)
    held: list[pa.RecordBatch] = []
    lines = done = chunks = 0
    most = CONTENT_CHUNK if source.has_content else CHUNK
    for batch in batches:
        held.append(batch)
        if source.form.scope == "line" and count.size - done >= most:
            yield _answer_split(job, split._replace(number=split.number + chunks), held, count.lines - lines, count)
            held, lines, done, chunks = [], count.lines, count.size, chunks + 1
    yield _answer_split(job, split._replace(number=split.number + chunks), held, count.lines - lines, count)


def _answer_split(
    job: Job, split: FileSplit, batches: list[pa.RecordBatch], lines: int, count: Count
) -> pa.RecordBatch:
    source = job.sources[split.source]
    found = encode(batches, job, source)
    batches.clear()
    pa.default_memory_pool().release_unused()
    names = {kind: pa.table({"name": names, "at": first}) for kind, (names, first) in found.names.items()}
    tables: dict[str, pa.Table | pa.Buffer] = {"seen": found.seen, **names}
    if len(found.messages.key):
        tables["keys"] = pa.table({"high": np.sort(found.messages.key[:, 0])})
    read = Read(
        split.source,
        split.number,
        token=uuid.uuid4().hex[:12],
        tail=split.begin >= source.cut > 0,
        lines=lines,
        counted=[(kind, reason, rows) for (kind, reason), rows in found.counted.rows.items()],
        samples=[(reason, at, text) for reason, (at, text) in found.counted.samples.items()],
        extra=found.extra,
        messages=len(found.messages.at),
        keyed=len(found.messages.key) > 0,
        life=found.life.num_rows,
        bridges=bridges_in(found.life),
        folded=found.folded,
        first=found.first,
        last=found.last,
        span=found.span,
        size=count.size,
        last_bytes=hash_of(count.last),
        ended=count.last.endswith(b"\n"),
    )
    if found.life.num_rows:
        stage(job, f"life/{read.name}", found.life)
    if job.staged:
        stage_messages(job, read.name, found.messages)
    else:
        read = read._replace(orphans=orphans_in(found.messages), incomplete=incomplete_in(found.messages))
        tables |= partial_tables(sum_up(without_orphans(found.messages), job.bucket_us))
    return answer(read._asdict(), tables)


def bridges_in(life: pa.Table) -> list[str]:
    """The names of the bridges that the events are about."""
    about = pc.fill_null(pc.equal(life["reason"], "bridge"), False)
    own = life.filter(pc.or_(pc.equal(life["kind"], "bridge"), about))
    return sorted({(name or "").removeprefix("local.") for name in pc.unique(own["client"]).to_pylist()})


# --- finish --------------------------------------------------------------------------------------------


class Piece(NamedTuple):
    """A staged split: its name, its source, the scope in which its keys name messages, and whether it may go on."""

    name: str
    source: int
    scope: int
    tail: bool = False


def finish(job: Job, tasks: Sequence[Sequence[Piece]], bridged: bool, shared: Sequence[int]) -> BatchFunction:
    """The batch function that puts staged splits under ids; `shared` are the scopes with keys in several splits."""

    def run(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        for batch in batches:
            for task in batch["id"].to_pylist():
                files = MessageFiles(job)
                for piece in tasks[task]:
                    yield _finish_piece(job, piece, bridged, shared, files)
                    if files.rows >= FLUSH:
                        yield from files.flush()
                yield from files.flush()
                pa.default_memory_pool().release_unused()

    return run


def _finish_piece(job: Job, piece: Piece, bridged: bool, shared: Sequence[int], files: MessageFiles) -> pa.RecordBatch:
    ids = Ids(*(staged(job, f"ids/{piece.name}-{kind}")["id"].to_numpy() for kind in Ids._fields))
    messages = put_under_ids(staged_messages(job, piece.name), ids)
    done = Finished(piece.source, piece.tail)
    if piece.scope in shared and len(messages.key):
        among = staged(job, f"shared/{piece.scope}")["high"].to_numpy()
        together = np.isin(messages.key[:, 0], among) & (messages.key != 0).any(axis=1)
        chosen = np.flatnonzero(together)
        if len(chosen):
            done = done._replace(shared=len(chosen))
            stage_messages(job, f"shared-{piece.name}", compact_audiences(take(messages, chosen)))
            messages = take(messages, np.flatnonzero(~together))
    done = done._replace(orphans=orphans_in(messages), incomplete=incomplete_in(messages))
    messages = compact_audiences(without_orphans(messages))
    if bridged:
        messages = _with_bridged(job, piece.source, messages)
    if not job.reduce_only:
        files.add(piece.source, piece.tail, messages)
    return answer(done._asdict(), partial_tables(sum_up(messages, job.bucket_us)))


def _with_bridged(job: Job, source: int, messages: Messages) -> Messages:
    """Messages with the receivers that they reached over bridges."""
    more = staged(job, "bridged")
    mine = more.filter(pc.equal(more["source"], source))
    if mine.num_rows == 0 or len(messages.at) == 0:
        return messages
    offset = mine["offset"].to_numpy()
    order = np.argsort(messages.offset, kind="stable")
    at = np.minimum(np.searchsorted(messages.offset[order], offset), len(order) - 1)
    found = np.flatnonzero(messages.offset[order[at]] == offset)
    new_start, new = from_lists(mine["receivers"].take(pa.array(found)))
    logged = messages.audience >= 0
    start, members = take_groups(messages.start, messages.members, messages.audience[logged].astype(np.int64))
    sizes = np.zeros(len(logged), np.int64)
    sizes[logged] = np.diff(start)
    row = np.concatenate([np.repeat(np.arange(len(logged)), sizes), np.repeat(order[at[found]], np.diff(new_start))])
    bounds, placed = by_group(row, len(logged))
    start, members = sort_groups(bounds, np.concatenate([members, new])[placed])
    logged[order[at[found]]] = True
    audience, start, members = distinct_sets(start, members, logged)
    return messages._replace(audience=audience, start=start, members=members)


# --- regroup -------------------------------------------------------------------------------------------


def regroup(job: Job, pieces: Sequence[Piece], parts: int) -> BatchFunction:
    """The batch function that joins messages whose rows lie in several splits: part k of all keys in, sums out."""

    def run(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        for batch in batches:
            for number in batch["id"].to_pylist():
                files = MessageFiles(job)
                yield from _regroup_part(job, pieces, number, parts, files)
                yield from files.flush()

    return run


def _regroup_part(
    job: Job, pieces: Sequence[Piece], number: int, parts: int, files: MessageFiles
) -> Iterator[pa.RecordBatch]:
    """Join the messages of part `number` of all keys, and sum them up by source."""
    held, source, scope = [], [], []
    for piece in pieces:
        own = staged_messages(job, f"shared-{piece.name}")
        mine = np.flatnonzero((own.key[:, 0].view(np.uint64) >> np.uint64(8)) % np.uint64(parts) == np.uint64(number))
        held.append(take(own, mine))
        source.append(np.full(len(mine), 2 * piece.source + piece.tail))
        scope.append(np.full(len(mine), piece.scope))
    every, origin = concatenate(held), np.concatenate(source)
    n = len(every.at)
    if n == 0:
        return

    # rows of one key in one scope are one message; one row of it speaks for all
    high = np.ascontiguousarray(every.key[:, 0] ^ (np.concatenate(scope).astype(np.int64) << 48))
    group, first = group_keys(high, np.ascontiguousarray(every.key[:, 1]), np.ones(n, bool))
    bounds, order = by_group(group, len(first))
    head = heads_of(bounds, order, every.at, every.client)

    # its receivers are those that any of its rows names
    logged = every.audience >= 0
    start, members = receivers_of(every, order)
    start, members = sort_groups(start[bounds], members)
    summed = (every.lines, every.rows, every.balance)
    lines, rows, balance = (np.add.reduceat(each[order], bounds[:-1]) for each in summed)
    most = np.maximum.reduceat(every.most[order], bounds[:-1])
    any_logged = np.logical_or.reduceat(logged[order], bounds[:-1])

    # rows that only repeat others, without those that were counted in their own split already
    extra = extra_rows(lines, most, any_logged, np.diff(start)) * (balance == 0)
    before = extra_rows(every.lines, every.most, logged, audience_sizes(every)) * (every.balance == 0)
    more = spread_extra(bounds, order, extra, before, every.lines)

    audience, start, members = distinct_sets(start, members, any_logged)
    whole = take(every, head)._replace(
        audience=audience, start=start, members=members, lines=lines, rows=rows, most=most, balance=balance
    )
    cut = is_incomplete(whole)
    lost = (whole.client < 0) & ~cut
    gone, parted = np.zeros(n, bool), np.zeros(n, bool)
    gone[order], parted[order] = (np.repeat(each, np.diff(bounds)) for each in (lost, cut))

    # each message belongs to the source, or its tail, of the row that speaks for it
    for each in np.unique(origin):
        mine = np.flatnonzero((origin[head] == each) & ~lost & ~cut)
        messages = compact_audiences(take(whole, mine))
        owner, tail = int(each) // 2, bool(each % 2)
        if not job.reduce_only:
            files.add(owner, tail, messages)
        orphans, incomplete = (int(every.rows[(origin == each) & which].sum()) for which in (gone, parted))
        done = Finished(owner, tail, extra=int(more[origin == each].sum()), orphans=orphans, incomplete=incomplete)
        yield answer(done._asdict(), partial_tables(sum_up(messages, job.bucket_us)))


@kernel(work=size)
def spread_extra(bounds: Ints, order: Ints, extra: Ints, before: Ints, lines: Ints) -> Ints:
    """Rows that repeat others beyond those counted already, of the last pieces of each message first."""
    found = np.zeros(len(order), dtype=np.int64)
    for g in range(len(bounds) - 1):
        left = extra[g]
        for k in range(bounds[g], bounds[g + 1]):
            left -= before[order[k]]
        k = bounds[g + 1] - 1
        while left > 0 and k >= bounds[g]:
            i = order[k]
            found[i] = min(left, lines[i] - before[i])
            left -= found[i]
            k -= 1
    return found
