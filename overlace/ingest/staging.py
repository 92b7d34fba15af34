"""What jobs are made of: how they run, what tasks answer, and what they leave for the next job of the same ingest."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa

from overlace.arrays.jit import Ints
from overlace.ingest.messages import ROWWISE, Messages
from overlace.ingest.reduce import Ids, Partial, from_bytes, to_bytes
from overlace.ingest.sources import Source
from overlace.trace.store import place
from overlace.trace.tables import groups, lists

NUMBER = pa.schema([pa.field("id", pa.int64())])
ANSWER = pa.schema([pa.field("about", pa.string()), pa.field("data", pa.binary())])
"""What tasks answer: JSON, and tables as bytes one after the other."""

BatchFunction = Callable[[Iterator[pa.RecordBatch]], Iterator[pa.RecordBatch]]


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
    predicates: tuple[str, ...] = ()  # filters that are the attributes of messages with content
    filters: int = 0  # content subscriptions, staged: messages with content are matched against them


class Runner(NamedTuple):
    """How jobs run: `run(function, tasks, stage, begin, end)` gives all answers; `parallel` tasks run at once."""

    run: Callable[[BatchFunction, int, str, float, float], pa.Table]
    parallel: int = 1


def in_process(function: BatchFunction, tasks: int, *_: object) -> pa.Table:
    """Run a job in this process, task by task."""
    numbers = pa.RecordBatch.from_arrays([pa.array(np.arange(tasks))], schema=NUMBER)
    return pa.Table.from_batches(list(function(iter([numbers]))))


HERE = Runner(in_process)


# --- answers -------------------------------------------------------------------------------------------


class Read(NamedTuple):
    """What became of a split, as its task answers it."""

    source: int
    number: int
    token: str  # of the attempt: what another one has staged does not count
    tail: bool  # messages in it may go on in what is logged later
    lines: int
    counted: Sequence[tuple[str, str, int]]  # kind, reason, lines
    samples: Sequence[tuple[str, int, str]]  # of bad lines: reason, offset, text
    extra: int  # rows that only repeat others
    messages: int
    keyed: bool  # some message has a key
    life: int  # staged events that are no messages
    bridges: Sequence[str]  # that events are about
    folded: int  # topic names that folding saved
    first: int  # times of messages
    last: int
    span: tuple[int, int]  # times of all events
    size: int  # bytes, unpacked
    last_bytes: str  # their hash
    ended: bool  # the last line has its end
    orphans: int = 0  # rows that name receivers of messages that nobody published, where that is known already
    incomplete: int = 0  # rows of messages of which a row is missing or too many, likewise

    @property
    def name(self) -> str:
        """Under which it has staged what it found."""
        return f"{self.source}-{self.number}-{self.token}"


class Finished(NamedTuple):
    """What a task of the second job did of a source, or which files it wrote."""

    source: int = 0
    tail: bool = False
    shared: int = 0  # messages that lie in several splits: joined by another job
    extra: int = 0  # further rows that repeat others
    orphans: int = 0
    incomplete: int = 0
    parts: Sequence[tuple[str, int, str, str, int]] = ()  # path, rows, hash, source, row group


def answer(about: Mapping[str, object], tables: Mapping[str, pa.Table | pa.Buffer]) -> pa.RecordBatch:
    """One row: what was done, and tables with the place of each in the bytes."""
    places, buffers, at = {}, [], 0
    for name, table in tables.items():
        data = to_bytes(table) if isinstance(table, pa.Table) else table
        places[name] = (at, at + data.size)
        buffers.append(data.to_pybytes())
        at += data.size
    text = json.dumps({**about, "tables": places})
    return pa.RecordBatch.from_arrays([pa.array([text]), pa.array([b"".join(buffers)], pa.binary())], schema=ANSWER)


class Answer:
    """A task's answer as it is read."""

    def __init__(self, about: str, data: pa.Buffer) -> None:
        self.about: dict[str, Any] = json.loads(about)  # what the task gave to `answer`
        self.places: dict[str, tuple[int, int]] = self.about.pop("tables")
        self.data = data

    def buffer(self, name: str) -> pa.Buffer:
        """A table's bytes."""
        first, last = self.places[name]
        return self.data.slice(first, last - first)

    def table(self, name: str) -> pa.Table:
        """A table."""
        return from_bytes(self.buffer(name))

    def __contains__(self, name: str) -> bool:
        return name in self.places


def answers(table: pa.Table) -> list[Answer]:
    """All answers of a job."""
    return [
        Answer(about, data.as_buffer())
        for batch in table.to_batches()
        for about, data in zip(batch["about"].to_pylist(), batch["data"], strict=True)
    ]


class Parsed(NamedTuple):
    """A split that was read: what became of it, and the tables with its names, keys and sums."""

    read: Read
    tables: Answer


def by_source(parsed: Sequence[Parsed], sources: int) -> list[list[Parsed]]:
    """The splits of each source."""
    found: list[list[Parsed]] = [[] for _ in range(sources)]
    for each in parsed:
        found[each.read.source].append(each)
    return found


def label(source: str, tail: bool) -> str:
    """The name of what a source gave, or of what it gave from its cut on."""
    return f"{source}~" if tail else source


def partial_tables(part: Partial) -> dict[str, pa.Table | pa.Buffer]:
    """What a task summed up, as tables."""
    return {
        "traffic": part.traffic,
        "audiences": pa.table({"receivers": as_lists(part.start, part.members)}),
        "sets": pa.table({"attributes": as_lists(part.sets_start, part.sets)}),
    }


def partial_of(answer: Answer, ids: Ids | None) -> Partial:
    """What a task summed up, from its answer."""
    traffic = answer.buffer("traffic")
    bucket = from_bytes(traffic)["bucket"]
    start, members = from_lists(answer.table("audiences")["receivers"])
    sets_start, sets = from_lists(answer.table("sets")["attributes"])
    return Partial(traffic, bucket[0].as_py() if len(bucket) else 0, start, members, sets_start, sets, ids)


def as_lists(start: Ints, members: Ints) -> pa.Array:
    """Groups of numbers as a column of lists."""
    return lists(start, members, pa.large_list(pa.int32()))


def from_lists(column: pa.ChunkedArray) -> tuple[Ints, Ints]:
    """(start, members) of a column of lists."""
    start, members = groups(column)
    return start, members.astype(np.int64)


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


def stage_messages(job: Job, name: str, messages: Messages) -> None:
    """Stage messages with their audiences and sets of attributes."""
    columns = {each: pa.array(getattr(messages, each)) for each in ROWWISE}
    if len(messages.key):
        columns |= {"high": pa.array(messages.key[:, 0]), "low": pa.array(messages.key[:, 1])}
    stage(job, f"messages/{name}", pa.table(columns))
    stage(job, f"audiences/{name}", pa.table({"receivers": as_lists(messages.start, messages.members)}))
    stage(job, f"sets/{name}", pa.table({"attributes": as_lists(messages.sets_start, messages.sets)}))


def staged_messages(job: Job, name: str) -> Messages:
    """Messages as they were staged."""
    table = staged(job, f"messages/{name}")
    columns = {each: table[each].to_numpy() for each in ROWWISE}
    key = np.zeros((0, 2), np.int64)
    if "high" in table.column_names:
        key = np.column_stack([table["high"].to_numpy(), table["low"].to_numpy()])
    start, members = from_lists(staged(job, f"audiences/{name}")["receivers"])
    sets_start, sets = from_lists(staged(job, f"sets/{name}")["attributes"])
    return Messages(**columns, key=key, start=start, members=members, sets_start=sets_start, sets=sets)
