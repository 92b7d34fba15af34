"""Logs as a Spark data source: typed rows, not bytes.

    spark.dataSource.register(Logs)
    events = spark.read.format("overlace").options(path="logs/", format="mosquitto").load()

Splits of files are read by plain Python, record batch by record batch; nothing else of ingest is Python in a task.
"""

from __future__ import annotations

import gc
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, fields
from typing import Any

import pyarrow as pa
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.datasource import DataSource, DataSourceReader, InputPartition
from pyspark.sql.pandas.types import from_arrow_schema
from pyspark.sql.types import StructType

from overlace.errors import BadParameter, Unknown
from overlace.ingest.files import find_files, hash_of
from overlace.ingest.fragments import Split
from overlace.ingest.job import EVENT, Job, rows
from overlace.ingest.meter import Meter
from overlace.ingest.options import Options, read_fields, read_filters, read_mapping
from overlace.ingest.sources import identity_of, look, settle_together

LEAST, MOST, SHARES = 8 << 20, 64 << 20, 16
"""Bytes of a task, at least and at most; between, so many tasks."""

CONTENT = 2 << 20
"""Bytes of a split where messages have content: who receives them may be many times what they say."""

TOGETHER = 1 << 16
"""Rows of a batch that goes to the engine, at least."""


@dataclass
class ReadTask(InputPartition):
    """What one task reads: ranges of sources."""

    splits: list[tuple[int, int, int]]  # (source, begin, end)


def tasks_of(job: Job) -> list[ReadTask]:
    """Splits of all sources in order, as many to a task as make a fair share of bytes."""
    total = sum(source.size - source.begin for source in job.sources)
    most = min(MOST, max(LEAST, total // SHARES))
    found: list[ReadTask] = []
    room = 0
    for i, source in enumerate(job.sources):
        listed = source.splits(min(most, CONTENT) if source.has_content else most)
        weight = (source.size - source.begin) // max(len(listed), 1)
        for begin, end in listed:
            if not found or weight > room:
                found.append(ReadTask([]))
                room = most
            found[-1].splits.append((i, begin, end))
            room -= weight
    return found


def read_split(job: Job, source: int, begin: int, end: int) -> Iterator[pa.RecordBatch]:
    """The events of a part of a source: a pure function of its bytes, without any engine."""
    own = job.sources[source]
    split = Split(job, own)
    batches, count = own.read(begin, end)
    meter = Meter(job.meter, f"{source}-{begin}")
    for batch in split.events(batches, lambda: count.lines):
        yield batch
        meter.note(count)
    meter.note(count, end=True)
    if own.packed and not own.form.lines:
        last = "" if count.last.endswith(b"\n") else "open"
        about = {"rows": count.size, "reason": hash_of(count.last, job.key), "name": last}
        yield rows("account", 1, what="end", **about, **split.about)


def together(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    """The same rows in larger batches: each costs the engine as much as thousands of rows."""
    held: list[pa.RecordBatch] = []
    count = 0
    for batch in batches:
        held.append(batch)
        count += batch.num_rows
        if count >= TOGETHER:
            yield pa.concat_batches(held)
            held, count = [], 0
    if held:
        yield pa.concat_batches(held)


class Reader(DataSourceReader):
    """Reads the sources of a job."""

    def __init__(self, job: Job, tasks: Sequence[ReadTask]) -> None:
        self.job, self.tasks = job, tasks

    def partitions(self) -> Sequence[InputPartition]:
        """What each task reads."""
        return self.tasks or [ReadTask([])]

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        """The events of a task."""
        assert isinstance(partition, ReadTask)
        collecting = gc.isenabled()
        gc.disable()  # millions of rows without cycles: looking for some takes half of the time
        try:
            yield from together(batch for split in partition.splits for batch in read_split(self.job, *split))
        finally:
            if collecting:
                gc.enable()


class Logs(DataSource):
    """`format("overlace")`: `path` (files and folders, several by commas) and the options of `overlace ingest`."""

    job: Job | None = None  # what ingest has settled already
    tasks: Sequence[ReadTask] = ()

    @classmethod
    def name(cls) -> str:
        """What it is called in `format`."""
        return "overlace"

    def schema(self) -> StructType:
        """EVENT."""
        return SCHEMA

    def reader(self, schema: StructType) -> Reader:
        """A reader of the job, or of what the options name."""
        job = self.job or job_of(dict(self.options))
        return Reader(job, self.tasks or tasks_of(job))


def job_of(options: Mapping[str, str]) -> Job:
    """The job that options name in text, as the command line takes it: `path`, and those of Options about reading."""
    known = {each.name: str(each.type) for each in fields(Options) if each.name in READING}
    given: dict[str, Any] = {}
    for name, text in ((name.lower(), text) for name, text in options.items()):
        if name not in ("path", *known):
            raise Unknown("option", name, ["path", *known])
        if known.get(name, "").startswith("bool") and text.lower() not in ("true", "false"):
            raise BadParameter(f"{name} is {text!r}; expected true or false")
        kind = known.get(name, "tuple").partition("[")[0].partition(" ")[0]
        given[name] = (READ.get(name) or READ.get(kind, str))(text)
    paths = given.pop("path", ())
    if not paths:
        raise BadParameter('expected a path, as in spark.read.format("overlace").options(path="logs/")')
    chosen = Options(**given)
    key = chosen.key()
    looked = [look(path, chosen, key) for path in find_files(paths, chosen.skip)]
    sources = settle_together(looked)
    return Job(tuple(sources), chosen.identity or identity_of(sources), chosen.keep_topics, key)


READING = (
    "format map group content where deliveries_where delimiter header list_separator unit broker bridges identity "
    "keep_topics skip pseudonymise"
).split()
"""Options about how logs are read, not about what is kept of them."""

READ: Mapping[str, Callable[[str], Any]] = {
    "bool": lambda text: text.lower() == "true",
    "tuple": lambda text: read_fields([text]),
    "Mapping": lambda text: read_mapping([text]),
    **dict.fromkeys(("where", "deliveries_where"), lambda text: read_filters([text])),
}
"""What makes a value of a text, by the type of the option or its name."""


class EventType(StructType):
    """The type of EVENT as each engine asks for it: Spark wants a StructType, Sail takes what Arrow can read."""

    @classmethod
    def typeName(cls) -> str:  # noqa: N802
        """As Spark calls it."""
        return "struct"

    def __arrow_c_schema__(self) -> object:
        return EVENT.__arrow_c_schema__()


SCHEMA = EventType(from_arrow_schema(EVENT, prefer_timestamp_ntz=False).fields)


def read_events(spark: SparkSession, job: Job) -> DataFrame:
    """The events of a job's sources."""
    spark.dataSource.register(type("Logs", (Logs,), {"job": job, "tasks": tasks_of(job)}))
    return spark.read.format("overlace").load()
