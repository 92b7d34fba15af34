"""Generate: a seeded trace of any size, the same however the work is cut into pieces."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
import pyarrow as pa

from overlace.arrays.jit import Ints
from overlace.errors import BadTrace
from overlace.model import Progress
from overlace.trace.address import absolute
from overlace.trace.store import DAY_US, HOUR_US, MINUTE_US, Part, Trace
from overlace.trace.tables import TIME, conform, numbers
from overlace.trace.traffic import NONE, Messages, Reduction, audience_hashes, merge, reduce
from overlace.trace.writer import Writer, write_part, writing
from overlace.workloads import Workload

PIECE = 1_000_000
"""Messages that are made at once."""

MERGED = 64
"""Reductions that are held before they are merged."""


def generate(
    workload: Workload,
    out: str,
    *,
    name: str = "sites",
    force: bool = False,
    piece: int = PIECE,
    progress: Progress | None = None,
) -> Trace:
    """Write the trace of a workload; refused where there is one, unless forced."""
    out = absolute(out)
    if Trace.exists(out) and not force:
        raise BadTrace(f"{out} is a trace already. Choose another name, or --force to replace it.")
    report = progress or (lambda share, what: None)
    bucket_us = HOUR_US if workload.days > 1 else MINUTE_US
    with writing(out, anew=True) as writer:
        writer.name(workload.names())
        held: list[Reduction] = []
        for first in range(0, workload.messages, piece):
            report(0.05 + 0.75 * first / workload.messages, f"making messages: {first:,} of {workload.messages:,}")
            messages = _messages(workload, first, min(piece, workload.messages - first))
            writer.add("messages", list(_write(writer, messages, first)))
            held.append(reduce(messages, bucket_us, numbers(writer.ids["client"])))
            if len(held) == MERGED:
                held = [merge(held)]
        report(0.8, "merging")
        merged = merge(held)
        report(0.9, f"merging: {merged.traffic.num_rows:,} rows")
        writer.write("traffic", merged.traffic)
        writer.write("audiences", merged.audiences)
        for table, rows in workload.tables().items():
            writer.write(table, rows)
        made = {key: value for key, value in workload.__dict__.items() if isinstance(value, int | float | bool | str)}
        trace = writer.commit(bucket_us=bucket_us, unit="message", notes={"generated": {name: made}})
    report(1.0, "done")
    return trace


def _messages(workload: Workload, first: int, count: int) -> Messages:
    columns, ones = workload.part(first, count), np.ones(count, dtype=np.int64)
    own: dict[str, Ints] = {each: columns[each] for each in ("at", "client", "topic", "bytes", "start", "receivers")}
    return Messages(attributes=np.full(count, NONE), weight=ones, logged=ones, **own)


def _write(writer: Writer, messages: Messages, first: int) -> Iterator[Part]:
    """Write messages by day, under ids."""
    clients, topics = (numbers(writer.ids[kind]) for kind in ("client", "topic"))
    rows = pa.table(
        {
            "message": np.arange(first, first + len(messages.at)),
            "at": pa.array(messages.at).cast(TIME),
            "client": clients[messages.client],
            "topic": pa.array(topics[messages.topic]),
            "bytes": messages.bytes,
            "audience": audience_hashes(messages, clients),
            "weight": messages.weight,
        }
    )
    day = messages.at // DAY_US
    for each in np.unique(day):
        own = conform(rows.filter(pa.array(day == each)), "messages")
        yield write_part(writer.path, "messages", own, f"day={np.datetime64(int(each), 'D')}/{writer.id}-{first}")
