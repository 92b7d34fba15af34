"""Generate: a seeded trace of any size, written by Spark, the same however the work is cut.

Messages come in pieces of a fixed number; a task makes whole pieces, writes their messages and stages
their reduction. Pieces are numbered, so the files, and with them the trace, do not depend on how many
tasks there were or where they ran.
"""

from __future__ import annotations

import uuid
from collections.abc import Iterator, Sequence

import numpy as np
import pyarrow as pa
from pyspark.sql import SparkSession

from overlace.arrays.jit import Ints
from overlace.errors import BadTrace
from overlace.ingest.staging import ANSWER, Job, answer, answers, stage, staged
from overlace.model import Progress
from overlace.spark.watch import watch_jobs
from overlace.spark.work import number_tasks, run_on
from overlace.trace.store import DAY_US, HOUR_US, MINUTE_US, BatchFunction, Part, Trace, absolute
from overlace.trace.tables import TIME, conform
from overlace.trace.traffic import NONE, Messages, Reduction, audience_hashes, merge, reduce
from overlace.trace.writer import write_groups, writing
from overlace.workloads import Workload

PIECE = 1_000_000
MERGED = 64
"""Reductions that the driver holds before it merges them."""


def generate(
    workload: Workload,
    out: str,
    spark: SparkSession,
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
    tell = progress or (lambda share, what: None)
    with writing(out, anew=True) as writer:
        bucket_us = HOUR_US if workload.days > 1 else MINUTE_US
        job = Job(trace=out, staging=writer.staging, sources=(), bucket_us=bucket_us, id=writer.id)
        pieces = -(-workload.messages // piece)
        with watch_jobs(spark, tell, "making messages", 0.05, 0.8):
            done = answers(run_on(number_tasks(spark, pieces), make(workload, job, piece), ANSWER))
        done.sort(key=lambda each: int(each.about["number"]))
        tell(0.8, f"making messages: {workload.messages:,} messages")
        parts = [
            Part(path, rows, int(hashed), "", group)
            for each in done
            for path, rows, hashed, group in each.about["parts"]
        ]
        writer.add("messages", sorted(parts, key=lambda part: part.path.rpartition("/")[0]))
        tell(0.8, "merging")
        merged = _merge_staged(job, [each.about["token"] for each in done])
        tell(0.9, f"merging: {merged.traffic.num_rows:,} rows of traffic")
        writer.write("traffic", merged.traffic)
        writer.write("audiences", merged.audiences)
        for table, rows in workload.tables().items():
            writer.write(table, rows)
        made = {key: value for key, value in workload.__dict__.items() if isinstance(value, int | float | bool | str)}
        trace = writer.commit(bucket_us=bucket_us, unit="message", notes={"generated": {name: made}})
    tell(1.0, "done")
    return trace


def make(workload: Workload, job: Job, piece: int) -> BatchFunction:
    """The batch function that makes pieces: numbers of pieces in, parts of the trace out."""

    def run(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        for batch in batches:
            for number in batch["id"].to_pylist():
                yield _make_piece(workload, job, number, piece)

    return run


def _make_piece(workload: Workload, job: Job, number: int, piece: int) -> pa.RecordBatch:
    first = number * piece
    count = min(piece, workload.messages - first)
    columns = workload.part(first, count)
    ones = np.ones(count, dtype=np.int64)
    messages = Messages(
        attributes=np.full(count, NONE),
        weight=ones,
        logged=ones,
        **{name: columns[name] for name in ("at", "client", "topic", "bytes", "start", "receivers")},
    )
    made = reduce(messages, job.bucket_us)
    token = f"{number}-{uuid.uuid4().hex[:12]}"  # this attempt's own
    stage(job, f"traffic/{token}", made.traffic)
    stage(job, f"audiences/{token}", made.audiences)
    parts = _write(job, messages, np.arange(first, first + count), token)
    listed = [[part.path, part.rows, str(part.hash), part.group] for part in parts]
    return answer({"number": number, "token": token, "parts": listed}, {})


def _write(job: Job, messages: Messages, identity: Ints, token: str) -> list[Part]:
    """Write messages by day."""
    day = messages.at // DAY_US
    rows = pa.table(
        {
            "message": identity,
            "at": pa.array(messages.at).cast(TIME),
            "client": messages.client,
            "topic": pa.array(messages.topic, mask=messages.topic == NONE),
            "bytes": messages.bytes,
            "audience": audience_hashes(messages),
            "weight": messages.weight,
        }
    )
    parts = []
    for each in np.unique(day):
        own = conform(rows.filter(pa.array(day == each)), "messages")
        parts += write_groups(
            job.trace, "messages", [("", own)], f"day={np.datetime64(int(each), 'D')}/{job.id}-{token}"
        )
    return parts


def _merge_staged(job: Job, tokens: Sequence[str]) -> Reduction:
    """All staged reductions as one, a few at a time."""
    held: list[Reduction] = []
    for token in tokens:
        held.append(Reduction(*(staged(job, f"{table}/{token}") for table in ("traffic", "audiences"))))
        if len(held) == MERGED:
            held = [merge(held)]
    return merge(held)
