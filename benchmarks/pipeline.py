"""The pipeline: deliveries in Parquet or text to traffic and audiences, beside DuckDB; observe, replay, generate.

python benchmarks/pipeline.py [DELIVERIES ...]      default: 1000000 10000000
"""

from __future__ import annotations

import json
import multiprocessing
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ProcessPoolExecutor
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from protocol import Measured, short, table, tree_cpu, write
from pyspark.sql import SparkSession

from overlace.ingest.options import Options
from overlace.spark.ingest import ingest
from overlace.spark.session import session
from overlace.trace.store import HOUR_US, MINUTE_US, Trace, Writer, digest
from overlace.trace.tables import TIME
from overlace.workloads.sites import Sites

VARIANTS: dict[str, dict[str, Any]] = {
    "friendly": {"clients": 1000, "topics": 600},
    "every audience distinct": {"clients": 1000, "topics": 600, "scatter": True},
}
MESSAGES = {"friendly": 1 / 4.87, "every audience distinct": 1 / 5}
"""Messages for each delivery."""

HARD_UP_TO = 10_000_000
EXPRESSIONS_UP_TO = 10_000_000
TEXT = 1_000_000
GENERATE_FROM = 50_000_000
AGAIN = 3
NATIVE = {"spark.driver.memory": "1g"}
"""What a session for native work is started with; expressions get the package's own settings."""


class Log(NamedTuple):
    """Deliveries in a file, and the workload that they come from."""

    variant: str
    workload: Sites
    path: Path
    deliveries: int


class Case(NamedTuple):
    """A log to be reduced to buckets of a width."""

    log: Log
    bucket: str
    width: int

    def names(self) -> tuple[str, str, str]:
        """The columns that say which case a row is about."""
        return self.log.variant, f"{self.log.deliveries:,}", self.bucket


def raw(path: Path, workload: Sites) -> int:
    """Write one row a delivery, sorted by message; how many."""
    writer, rows = None, 0
    for first in range(0, workload.messages, 500_000):
        count = min(500_000, workload.messages - first)
        part = workload.part(first, count)
        per = np.diff(part["start"])
        columns = {
            "message": np.repeat(np.arange(first, first + count), per),
            "at": pa.array(np.repeat(part["at"], per)).cast(TIME),
            "client": np.repeat(part["client"], per).astype(np.int32),
            "topic": np.repeat(part["topic"], per).astype(np.int32),
            "bytes": np.repeat(part["bytes"], per).astype(np.int32),
            "receiver": part["receivers"].astype(np.int32),
        }
        made = pa.table(columns)
        writer = writer or pq.ParquetWriter(path, made.schema, compression="zstd")
        writer.write_table(made, row_group_size=1_000_000)
        rows += made.num_rows
    assert writer is not None
    writer.close()
    return rows


# --- logs, made in a process of their own: what it took is not counted with the driver ---------------------


def logs(folder: Path, sizes: Sequence[int]) -> list[Log]:
    """Every variant in every size."""
    made = []
    with ProcessPoolExecutor(1, multiprocessing.get_context("spawn")) as pool:
        for variant, parameters in VARIANTS.items():
            for size in sizes:
                if variant == "friendly" or size <= HARD_UP_TO:
                    workload = Sites(messages=int(size * MESSAGES[variant]), days=7, **parameters)
                    path = folder / f"{variant}-{size}.parquet"
                    made.append(Log(variant, workload, path, pool.submit(raw, path, workload).result()))
    return made


def cases(made: Sequence[Log]) -> list[Case]:
    """Buckets of an hour; for the largest friendly log also of a minute."""
    largest = max((log for log in made if log.variant == "friendly"), key=lambda log: log.deliveries)
    found = []
    for log in made:
        found.append(Case(log, "1 h", HOUR_US))
        if log is largest:
            found.append(Case(log, "1 min", MINUTE_US))
    return found


def as_text(log: Log, folder: Path) -> dict[str, Path]:
    """The log as lines of JSON: one a message with its receivers, and one a delivery with the message's id."""
    part = log.workload.part(0, log.workload.messages)
    times = np.datetime_as_string(part["at"].astype("datetime64[us]"), unit="us", timezone="UTC")
    by_message, by_delivery = folder / "messages.jsonl", folder / "deliveries.jsonl"
    with by_message.open("w") as messages, by_delivery.open("w") as deliveries:
        for i, at in enumerate(times.tolist()):
            client, topic = f"c{part['client'][i]}", f"t{part['topic'][i]}"
            receivers = [f"c{r}" for r in part["receivers"][part["start"][i] : part["start"][i + 1]].tolist()]
            row = {"at": at, "client": client, "topic": topic, "bytes": int(part["bytes"][i])}
            messages.write(json.dumps({**row, "receivers": receivers}) + "\n")
            for receiver in receivers:
                deliveries.write(json.dumps({"message": i, **row, "receiver": receiver}) + "\n")
    return {"a line a message": by_message, "a line a delivery": by_delivery}


# --- what is measured -----------------------------------------------------------------------------------


class Stage(NamedTuple):
    """A stage of Spark's, as its own status has it."""

    name: str
    wall: float
    tasks: int
    shuffled: int  # bytes written for others to read
    spilled: int  # bytes, to disk
    median: float  # task
    slowest: float


class Cost(NamedTuple):
    """What one run took."""

    wall: float
    cpu: float
    stages: list[Stage]


def stages_of(spark: SparkSession, jobs: set[int]) -> list[Stage]:
    """The stages of some jobs that did run."""
    context = spark.sparkContext
    store, tracker = context._jsc.sc().statusStore(), context.statusTracker()
    quantiles = context._gateway.new_array(context._jvm.double, 2)
    quantiles[0], quantiles[1] = 0.5, 1.0
    found = []
    for number in sorted({stage for job in jobs for stage in tracker.getJobInfo(job).stageIds}):
        about = store.lastStageAttempt(number)
        summary = store.taskSummary(number, about.attemptId(), quantiles)
        if about.status().toString() != "COMPLETE" or not summary.isDefined():
            continue
        times = summary.get().executorRunTime()
        wall = about.completionTime().get().getTime() - about.submissionTime().get().getTime()
        spilled = about.diskBytesSpilled()
        median, slowest = times.apply(0) / 1e3, times.apply(1) / 1e3
        words = about.name().split(" at ")[0]
        found.append(Stage(words, wall / 1e3, about.numTasks(), about.shuffleWriteBytes(), spilled, median, slowest))
    return found


def costed(spark: SparkSession, run: Callable[[], Any]) -> tuple[Any, Cost]:
    """The result of a run and what it took. Memory is measured in another run: to look at it takes CPU."""
    tracker = spark.sparkContext.statusTracker()
    before = set(tracker.getJobIdsForGroup())
    cpu, wall = tree_cpu(), time.perf_counter()
    result = run()
    wall, cpu = time.perf_counter() - wall, tree_cpu() - cpu
    return result, Cost(wall, cpu, stages_of(spark, set(tracker.getJobIdsForGroup()) - before))


def peak(run: Callable[[], Any]) -> int:
    """The peak of the memory of the process tree."""
    with Measured() as used:
        run()
    return used.peak


class Started(NamedTuple):
    """What Spark's own start took, part by part."""

    parts: dict[str, Measured]

    def __str__(self) -> str:
        return ", ".join(f"{what} {short(used.wall)} ({used.cpu:.1f} CPU s)" for what, used in self.parts.items())


@contextmanager
def started(config: dict[str, str]) -> Iterator[tuple[SparkSession, Started]]:
    """A session with its Python workers started."""
    with Measured() as starting:
        context = session(master="local[2]", config=config)
        spark = context.__enter__()
    try:
        with Measured() as first_worker:
            spark.range(2).repartition(2).mapInArrow(lambda batches: batches, "id long").collect()
        yield spark, Started({"session": starting, "first Python worker": first_worker})
    finally:
        context.__exit__(None, None, None)


# --- the rows of the page -------------------------------------------------------------------------------

HEAD = ("variant", "deliveries", "bucket", "way", "wall", "CPU s", "/ DuckDB's CPU", "peak memory", "shuffled",
        "spilled", "slowest / median task", "rows of traffic")  # fmt: skip
STAGE_HEAD = ("variant", "deliveries", "bucket", "way", "stage", "wall", "tasks", "shuffled", "spilled", "median task",
              "slowest task")  # fmt: skip


def spread(values: Sequence[float], say: Callable[[float], str]) -> str:
    """A value, or the least and the largest."""
    low, high = say(min(values)), say(max(values))
    return low if low == high else f"{low} .. {high}"


def size(count: int) -> str:
    """Bytes for people."""
    return f"{count / 1e9:.2f} GB" if count >= 1e8 else f"{count / 1e6:.1f} MB" if count >= 1e5 else f"{count:,} B"


def row(case: Sequence[str], way: str, costs: Sequence[Cost], rival: float, memory: int, traffic: int) -> Sequence[str]:
    """One way of doing it: least and largest of its runs."""
    last = costs[-1].stages
    uneven = max((s.slowest / s.median for s in last if s.tasks > 2 and s.median), default=0)
    return (
        *case, way, spread([c.wall for c in costs], short), spread([c.cpu for c in costs], "{:.1f}".format),
        spread([c.cpu / rival for c in costs], "{:.1f}".format), size(memory),
        *((size(sum(s.shuffled for s in last)), size(sum(s.spilled for s in last))) if last else ("", "")),
        f"{uneven:.1f}" if uneven else "", f"{traffic:,}",
    )  # fmt: skip


def stage_rows(case: Sequence[str], way: str, cost: Cost) -> list[Sequence[str]]:
    """The stages of a run that took more than a tenth of it."""
    return [
        (*case, way, s.name, short(s.wall), f"{s.tasks}", size(s.shuffled), size(s.spilled), short(s.median),
         short(s.slowest))
        for s in cost.stages if s.wall > 0.1 * cost.wall
    ]  # fmt: skip


# --- the rival ------------------------------------------------------------------------------------------


class Rival(NamedTuple):
    """The fastest correct DuckDB query: what it took, and the sums to compare."""

    cpu: float
    wall: float
    peak: int
    sums: list[int]
    way: str

    def row(self, case: Sequence[str]) -> Sequence[str]:
        """Its row of the page."""
        cost = Cost(self.wall, self.cpu, [])
        return row(case, f"DuckDB ({self.way})", [cost], self.cpu, self.peak, self.sums[0])


DUCKDB = """
import duckdb, json, resource, sys, time
path, bucket, way = sys.argv[1:]
rows = f"'{path}'" if path.endswith(".parquet") else f"read_json('{path}', columns = {sys.stdin.read()})"
con = duckdb.connect()
con.execute("set threads = 2; set preserve_insertion_order = false; set enable_progress_bar = false")
began = time.perf_counter()
of_message = 'any_value("at") "at", any_value(client) client, any_value(topic) topic, any_value(bytes) bytes'
if way == "hashes":
    con.execute(f'''create table m as select message, {of_message}, bit_xor(hash(receiver + 1)) h, count(*) k
        from {rows} group by message''')
    audience = "h, k"
else:
    if way == "lists":
        con.execute(f'''create table m as select {of_message}, list_sort(list(receiver)) receivers
            from {rows} group by message''')
    else:
        con.execute(f'create table m as select * exclude (receivers), list_sort(receivers) receivers from {rows}')
    audience = "receivers"
con.execute(f'''create table traffic as select epoch_us("at") // {bucket} * {bucket} bucket, client, topic, {audience},
    count(*) messages, sum(bytes) bytes from m group by all''')
if way == "hashes":
    con.execute(f'''create table audiences as select h, k, list_sort(list(receiver)) receivers from {rows}
        join (select h, k, min(message) message from m group by h, k) using (message) group by h, k''')
else:
    con.execute("create table audiences as select distinct receivers from m")
wall = time.perf_counter() - began
sums = "select count(*), sum(messages), sum(bytes), (select count(*) from audiences) from traffic"
rows = con.execute(sums).fetchone()
usage = resource.getrusage(resource.RUSAGE_SELF)
print(json.dumps([usage.ru_utime + usage.ru_stime, wall, usage.ru_maxrss * 1024, [int(r) for r in rows]]))
"""


def duck(path: Path, bucket_us: int, ways: Sequence[str] = ("lists", "hashes"), columns: str = "") -> Rival:
    """The best of several queries, two runs each."""
    found = []
    for way in (*ways, *ways):
        command = [sys.executable, "-c", DUCKDB, str(path), str(bucket_us), way]
        done = subprocess.run(command, input=columns, capture_output=True, text=True, check=True)
        found.append(Rival(*json.loads(done.stdout), way))
    return min(found)


def counted(traffic: pa.Table, audiences: pa.Table) -> list[int]:
    """Rows, messages, bytes and audiences, as DuckDB counts them."""
    return [traffic.num_rows, *(int(traffic[c].to_numpy().sum()) for c in ("messages", "bytes")), audiences.num_rows]


def digests(named: Any) -> Any:
    """What must be the same, whichever way it was done."""
    return digest(named.reduction.traffic), digest(named.reduction.audiences)


# --- the parts of the page ------------------------------------------------------------------------------


class Reduced(NamedTuple):
    """A case done natively: its rows, and what the other ways must equal."""

    case: Case
    rival: Rival
    digests: Any
    rows: list[Sequence[str]]
    stages: list[Sequence[str]]


def natively(case: Case, spark: SparkSession) -> Reduced:
    """A case by DuckDB and by native work in tasks: a first run, several more, and one for the memory."""
    rival = duck(case.log.path, case.width)

    def run() -> Any:
        return reduce_deliveries([str(case.log.path)], spark, case.width)

    runs = []
    for _ in range(1 + AGAIN):
        named, cost = costed(spark, run)
        runs.append(cost)
        assert counted(*named.reduction) == rival.sums, (case, counted(*named.reduction), rival.sums)
    seen = digests(named)
    del named
    memory = peak(run)
    traffic = rival.sums[0]
    rows = [
        rival.row(case.names()),
        row(case.names(), "native, first run", runs[:1], rival.cpu, memory, traffic),
        row(case.names(), f"native, {AGAIN} runs more", runs[1:], rival.cpu, memory, traffic),
    ]
    return Reduced(case, rival, seen, rows, stage_rows(case.names(), "native", runs[-1]))


def freshly(done: Reduced) -> None:
    """Add what the case takes as the very first job of a session."""
    with started(NATIVE) as (spark, _):
        named, cost = costed(spark, lambda: reduce_deliveries([str(done.case.log.path)], spark, done.case.width))
        memory = peak(lambda: reduce_deliveries([str(done.case.log.path)], spark, done.case.width))
    traffic = named.reduction.traffic.num_rows
    done.rows.append(row(done.case.names(), "native, first job of a session", [cost], done.rival.cpu, memory, traffic))


def expressed(done: Reduced, spark: SparkSession) -> None:
    """Add what the case takes by expressions, with the same digests."""

    def run() -> Any:
        return by_expressions(spark.read.parquet(str(done.case.log.path)), done.case.width)

    named, cost = costed(spark, run)
    assert digests(named) == done.digests, "the ways differ"
    names, traffic = done.case.names(), named.reduction.traffic.num_rows
    done.rows.append(row(names, "expressions", [cost], done.rival.cpu, peak(run), traffic))
    done.stages.extend(stage_rows(names, "expressions", cost))


def ingested(log: Log, spark: SparkSession, folder: Path) -> tuple[list[Sequence[str]], list[Sequence[str]]]:
    """(rows, stages): the log as text, ingested to a trace with all its messages, beside DuckDB's reduction."""
    common = {"at": "TIMESTAMP", "client": "VARCHAR", "topic": "VARCHAR", "bytes": "BIGINT"}
    asked = {
        "a line a message": ("lines", {**common, "receivers": "VARCHAR[]"}, {}),
        "a line a delivery": ("lists", {"message": "BIGINT", **common, "receiver": "VARCHAR"}, {"id": "message"}),
    }
    rows, stages = [], []
    for kind, path in as_text(log, folder).items():
        way, columns, mapping = asked[kind]
        rival = duck(path, HOUR_US, [way], str(columns))
        case = (f"{log.variant}, {kind}", f"{log.deliveries:,}", "1 h")
        options = Options(format="jsonl", map=mapping)
        run = partial(ingest, [str(path)], spark=spark, options=options)
        runs = []
        for i in range(1 + AGAIN):
            (trace, *_), cost = costed(spark, partial(run, str(folder / f"{path.stem}-{i}")))
            runs.append(cost)
            found = counted(trace.read("traffic"), trace.read("audiences"))
            assert found == rival.sums, (kind, found, rival.sums)
        memory = peak(partial(run, str(folder / f"{path.stem}-memory")))
        rows.append(rival.row(case))
        rows.append(row(case, "ingest, first run", runs[:1], rival.cpu, memory, rival.sums[0]))
        rows.append(row(case, f"ingest, {AGAIN} runs more", runs[1:], rival.cpu, memory, rival.sums[0]))
        stages += stage_rows(case, "ingest", runs[-1])
    return rows, stages


COMMAND = [sys.executable, "-c", "from overlace.cli import main; main()"]


def observe_and_replay(log: Log, named: Any, folder: Path) -> Sequence[str]:
    """CPU seconds of both commands in fresh processes, imports included."""
    writer = Writer(str(folder / "trace"))
    writer.write("traffic", named.reduction.traffic)
    writer.write("audiences", named.reduction.audiences)
    names = [("client", i, n) for i, n in enumerate(named.clients.to_pylist())]
    names += [("topic", i, n) for i, n in enumerate(named.topics.to_pylist())]
    for name, made in log.workload.tables().items():
        if name == "names":
            broker = made.filter(pa.compute.is_in(made["kind"], pa.array(["broker", "region"])))
            names += list(
                zip(broker["kind"].to_pylist(), broker["id"].to_pylist(), broker["name"].to_pylist(), strict=True)
            )
        elif name in ("brokers", "links", "sessions"):
            writer.write(name, made)
    kinds, ids, called = zip(*names, strict=True)
    writer.write("names", pa.table({"kind": kinds, "id": pa.array(ids, pa.int32()), "name": called}))
    writer.commit(bucket_us=HOUR_US, unit="message", notes={})
    found = []
    for words in (["observe", str(folder / "trace"), "--out", str(folder / "run")], ["replay", str(folder / "run")]):
        subprocess.run([*COMMAND, "--version"], capture_output=True, check=True)
        with Measured() as used:
            subprocess.run([*COMMAND, *words], capture_output=True, check=True)
        found.append(f"{used.cpu:.2f} s")
    return log.variant, f"{log.deliveries:,}", *(f"{each.num_rows:,}" for each in named.reduction), *found


def generated(messages: int, folder: Path) -> Sequence[str]:
    """What `overlace generate sites` takes in a fresh process, Spark's start included."""
    out = folder / "generated"
    with Measured() as used:
        subprocess.run(
            [*COMMAND, "generate", "sites", "--messages", str(messages), "--out", str(out)],
            capture_output=True, check=True,
        )  # fmt: skip
    trace = Trace.open(str(out))
    count = trace.rows("messages")
    spent = (
        short(used.wall),
        f"{used.cpu:.1f}",
        f"{count / used.wall:,.0f}",
        f"{count / used.cpu:,.0f}",
        size(used.peak),
    )
    return f"{count:,}", f"{deliveries(trace):,}", *spent


def deliveries(trace: Trace) -> int:
    """How many deliveries a trace stands for."""
    audiences, traffic = trace.read("audiences").sort_by("audience"), trace.read("traffic")
    receivers = pc.list_value_length(audiences["receivers"]).to_numpy()
    which = np.searchsorted(audiences["audience"].to_numpy(), traffic["audience"].to_numpy())
    return int((traffic["messages"].to_numpy() * receivers[which]).sum())


def main() -> None:
    """Measure, and write the page."""
    sizes = [int(word) for word in sys.argv[1:]] or [1_000_000, 10_000_000]
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        made = logs(folder, sizes)
        small = []
        with started(NATIVE) as (spark, start):
            with Measured() as start.parts["first native job"]:
                reduce_deliveries([str(made[0].path)], spark, HOUR_US)
            done = [natively(case, spark) for case in cases(made)]
            for log in made:
                with tempfile.TemporaryDirectory() as run:
                    named = reduce_deliveries([str(log.path)], spark, HOUR_US)
                    small.append(observe_and_replay(log, named, Path(run)))
        for each in done:
            if each.case.log.deliveries == max(log.deliveries for log in made if log.variant == each.case.log.variant):
                freshly(each)
        with started({}) as (spark, _):
            for each in done:
                if each.case.width == HOUR_US and each.case.log.deliveries <= EXPRESSIONS_UP_TO:
                    expressed(each, spark)
            friendly = [log for log in made if log.variant == "friendly"]
            ingesting = ingested(min(friendly, key=lambda log: abs(log.deliveries - TEXT)), spark, folder)
        generating = [generated(max(sizes) // 5, folder)] if max(sizes) >= GENERATE_FROM else []
    page(start, done, ingesting, small, generating)


def page(start: Started, done: Sequence[Reduced], ingesting: Any, small: Any, generating: Any) -> None:
    """Write what was measured."""
    parts = [
        f"Spark's own start: {start}. Not counted below, except where a row says so. Memory is that of the driver, its "
        "JVM (1 GB heap for native work; what the package gives for expressions and ingest) and two Python workers "
        "together, shared pages counted in part, in a run of its own. `a .. b`: least and largest of several runs.",
        "## Raw deliveries to traffic and audiences\n\n" + table(HEAD, [row for each in done for row in each.rows]),
        "## Text to a trace with all its messages; DuckDB makes traffic and audiences only\n\n"
        + table(HEAD, ingesting[0]),
        "## Spark's stages that took a tenth of a run or more\n\n"
        + table(STAGE_HEAD, [*(row for each in done for row in each.stages), *ingesting[1]]),
        "## Observe and replay from the reduction, each in a fresh process, imports included\n\n"
        + table(("variant", "deliveries", "rows of traffic", "audiences", "observe, CPU", "replay, CPU"), small),
    ]
    if generating:
        head = ("messages", "deliveries", "wall", "CPU s", "messages / s", "messages / CPU s", "peak memory")
        parts.append("## Generate sites, in a fresh process, Spark's start included\n\n" + table(head, generating))
    write(__file__, "Pipeline", parts)


if __name__ == "__main__":
    main()
