"""What tasks answer, and what they leave for the next job of the same ingest."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import pyarrow as pa

from overlace.arrays.jit import Ints
from overlace.ingest.messages import ROWWISE, Grouped
from overlace.ingest.reduce import Ids, Partial, packed, unpacked
from overlace.ingest.sources import Source
from overlace.trace.store import place

NUMBER = pa.schema([pa.field("id", pa.int64())])


ANSWER = pa.schema([pa.field("about", pa.string()), pa.field("data", pa.binary())])


"""What tasks answer: JSON, and tables as bytes one after the other."""


BatchFunction = Callable[[Iterator[pa.RecordBatch]], Iterator[pa.RecordBatch]]


def answer(about: dict[str, Any], tables: dict[str, pa.Table | pa.Buffer]) -> pa.RecordBatch:
    """One row: what was done, and tables with the place of each in the bytes."""
    places, buffers, at = {}, [], 0
    for name, table in tables.items():
        data = packed(table) if isinstance(table, pa.Table) else table
        places[name] = (at, at + data.size)
        buffers.append(data.to_pybytes())
        at += data.size
    text = json.dumps({**about, "tables": places})
    return pa.RecordBatch.from_arrays([pa.array([text]), pa.array([b"".join(buffers)], pa.binary())], schema=ANSWER)


class Answer:
    """A task's answer as it is read."""

    def __init__(self, about: str, data: pa.Buffer) -> None:
        self.about: dict[str, Any] = json.loads(about)
        self.data = data

    def buffer(self, name: str) -> pa.Buffer:
        """A table's bytes."""
        first, last = self.about["tables"][name]
        return self.data.slice(first, last - first)

    def table(self, name: str) -> pa.Table:
        """A table."""
        return unpacked(self.buffer(name))

    def __contains__(self, name: str) -> bool:
        return name in self.about["tables"]


def answers(table: pa.Table) -> list[Answer]:
    """All answers of a job."""
    return [
        Answer(about, data.as_buffer())
        for batch in table.to_batches()
        for about, data in zip(batch["about"].to_pylist(), batch["data"], strict=True)
    ]


def label(source: str, tail: bool) -> str:
    """The name of what a source gave, or of what it gave from its cut on."""
    return f"{source}~" if tail else source


def partial_tables(part: Partial) -> dict[str, Any]:
    """What a task summed up, as tables."""
    return {
        "traffic": part.traffic,
        "audiences": pa.table({"receivers": as_lists(part.start, part.members)}),
        "sets": pa.table({"attributes": as_lists(part.sets_start, part.sets)}),
    }


def partial_of(told: Answer, ids: Ids | None) -> Partial:
    """What a task summed up, from its answer."""
    traffic = told.buffer("traffic")
    bucket = unpacked(traffic)["bucket"]
    start, members = from_lists(told.table("audiences")["receivers"])
    sets_start, sets = from_lists(told.table("sets")["attributes"])
    return Partial(traffic, bucket[0].as_py() if len(bucket) else 0, start, members, sets_start, sets, ids)


def as_lists(start: Ints, members: Ints) -> pa.Array:
    """Groups of numbers as a column of lists."""
    return pa.LargeListArray.from_arrays(pa.array(start), pa.array(members.astype(np.int32)))


def from_lists(lists: Any) -> tuple[Ints, Ints]:
    """(start, members) of a column of lists."""
    flat = lists.combine_chunks() if isinstance(lists, pa.ChunkedArray) else lists
    if isinstance(flat, pa.ChunkedArray):
        flat = pa.concat_arrays(flat.chunks) if flat.num_chunks else pa.array([], pa.large_list(pa.int32()))
    start = flat.offsets.to_numpy().astype(np.int64) if len(flat) else np.zeros(1, np.int64)
    members = flat.values.to_numpy()[start[0] : start[-1]].astype(np.int64) if len(flat) else np.empty(0, np.int64)
    return start - start[0], members


def stage(job: Job, path: str, table: pa.Table) -> None:
    """Write a table that only this ingest reads."""
    files, at = place(f"{job.trace}/{job.staging}/{path}.arrow")
    files.create_dir(at.rpartition("/")[0], recursive=True)
    options = pa.ipc.IpcWriteOptions(compression="lz4")
    with files.open_output_stream(at) as sink, pa.ipc.new_stream(sink, table.schema, options=options) as writer:
        writer.write_table(table)


def staged(job: Job, path: str) -> pa.Table:
    """A staged table."""
    files, at = place(f"{job.trace}/{job.staging}/{path}.arrow")
    with files.open_input_stream(at) as stream:
        return pa.ipc.open_stream(stream).read_all()


def stage_messages(job: Job, name: str, messages: Grouped) -> None:
    """Stage messages with their audiences and sets of attributes."""
    columns = {each: pa.array(getattr(messages, each)) for each in ROWWISE}
    if len(messages.key):
        columns |= {"high": pa.array(messages.key[:, 0]), "low": pa.array(messages.key[:, 1])}
    stage(job, f"messages/{name}", pa.table(columns))
    stage(job, f"audiences/{name}", pa.table({"receivers": as_lists(messages.start, messages.members)}))
    stage(job, f"sets/{name}", pa.table({"attributes": as_lists(messages.sets_start, messages.sets)}))


def staged_messages(job: Job, name: str) -> Grouped:
    """Messages as they were staged."""
    table = staged(job, f"messages/{name}")
    columns = {each: table[each].to_numpy() for each in ROWWISE}
    key = np.zeros((0, 2), np.int64)
    if "high" in table.column_names:
        key = np.column_stack([table["high"].to_numpy(), table["low"].to_numpy()])
    start, members = from_lists(staged(job, f"audiences/{name}")["receivers"])
    sets_start, sets = from_lists(staged(job, f"sets/{name}")["attributes"])
    return Grouped(**columns, key=key, start=start, members=members, sets_start=sets_start, sets=sets)


@dataclass(frozen=True)
class Job:
    """What every task of one ingest knows."""

    trace: str
    staging: str  # a folder of the trace
    sources: tuple[Source, ...]
    identity: str = "client"
    keep_topics: bool = False
    key: bytes = field(default=b"", repr=False)  # for pseudonyms; none: names stay as they are
    bucket_us: int = 0
    reduce_only: bool = False
    staged: bool = True  # messages are staged for a second job; else they are reduced at once
    id: str = ""
