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
from contextlib import ExitStack, contextmanager
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
from overlace.trace.names import names_table
from overlace.trace.store import HOUR_US, MINUTE_US, Trace
from overlace.trace.tables import TIME
from overlace.trace.writer import Writer
from overlace.workloads.sites import Sites

VARIANTS: dict[str, dict[str, Any]] = {
    "friendly": {"clients": 1000, "topics": 600},
    "every audience distinct": {"clients": 1000, "topics": 600, "scatter": True},
}
MESSAGES = {"friendly": 1 / 4.87, "every audience distinct": 1 / 5}
"""Messages for each delivery."""

HARD_UP_TO = 10_000_000
TEXT_UP_TO = 10_000_000
GENERATE_FROM = 50_000_000
AGAIN = 3


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
    """The log as text: JSON lines of a message and of a delivery, and CSV of a delivery."""
    kinds = ("messages.jsonl", "deliveries.jsonl", "deliveries.csv")
    paths = {name: folder / f"{log.deliveries}-{name}" for name in kinds}
    with ExitStack() as stack:
        messages, deliveries, rows = (stack.enter_context(path.open("w")) for path in paths.values())
        rows.write("message,at,client,topic,bytes,receiver\n")
        for first in range(0, log.workload.messages, 500_000):
            part = log.workload.part(first, min(500_000, log.workload.messages - first))
            times = np.datetime_as_string(part["at"].astype("datetime64[us]"), unit="us", timezone="UTC")
            for i, at in enumerate(times.tolist()):
                client, topic, length = f"c{part['client'][i]}", f"t{part['topic'][i]}", int(part["bytes"][i])
                receivers = [f"c{r}" for r in part["receivers"][part["start"][i] : part["start"][i + 1]].tolist()]
                row = {"at": at, "client": client, "topic": topic, "bytes": length}
                messages.write(json.dumps({**row, "receivers": receivers}) + "\n")
                head = json.dumps({"message": first + i, **row})[:-1]
                deliveries.write("".join(f'{head}, "receiver": "{r}"}}\n' for r in receivers))
                rows.write("".join(f"{first + i},{at},{client},{topic},{length},{r}\n" for r in receivers))
    return paths


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

HEAD = (
    "variant | deliveries | bucket | way | wall | CPU s | / DuckDB's CPU | peak memory | shuffled | spilled | "
    "slowest / median task | rows of traffic"
).split(" | ")
STAGE_HEAD = [*HEAD[:4], *"stage | wall | tasks | shuffled | spilled | median task | slowest task".split(" | ")]


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
        *case,
        way,
        spread([c.wall for c in costs], short),
        spread([c.cpu for c in costs], "{:.1f}".format),
        spread([c.cpu / rival for c in costs], "{:.1f}".format),
        size(memory),
        *((size(sum(s.shuffled for s in last)), size(sum(s.spilled for s in last))) if last else ("", "")),
        f"{uneven:.1f}" if uneven else "",
        f"{traffic:,}",
    )


def stage_rows(case: Sequence[str], way: str, cost: Cost) -> list[Sequence[str]]:
    """The stages of a run that took more than a tenth of it."""
    return [
        (
            *case,
            way,
            s.name,
            short(s.wall),
            f"{s.tasks}",
            size(s.shuffled),
            size(s.spilled),
            short(s.median),
            short(s.slowest),
        )
        for s in cost.stages
        if s.wall > 0.1 * cost.wall
    ]


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
columns = sys.stdin.read()
rows = f"'{path}'" if path.endswith(".parquet") else f"read_json('{path}', columns = {columns})"
if path.endswith(".csv"):
    rows = f"read_csv('{path}', columns = {columns}, header = true)"
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


# --- the parts of the page ------------------------------------------------------------------------------


class Done(NamedTuple):
    """A case that was measured: its rows of the page, and the stages that took long."""

    rows: list[Sequence[str]]
    stages: list[Sequence[str]]


def measured(
    case: Sequence[str], path: Path, options: Options, rival: Rival, spark: SparkSession, folder: Path
) -> Done:
    """An ingest beside DuckDB: a first run, several more, and one for the memory."""

    def run(name: str) -> Any:
        return ingest(str(path), str(folder / name), spark=spark, options=options)

    runs = []
    for i in range(1 + AGAIN):
        with tempfile.TemporaryDirectory(dir=folder) as out:
            (trace, *_), cost = costed(spark, partial(run, f"{out}/trace-{i}"))
            found = counted(trace.read("traffic"), trace.read("audiences"))
        runs.append(cost)
        assert found == rival.sums, (case, found, rival.sums)
    with tempfile.TemporaryDirectory(dir=folder) as out:
        memory = peak(partial(run, f"{out}/trace"))
    rows = [
        rival.row(case),
        row(case, "ingest, first run", runs[:1], rival.cpu, memory, rival.sums[0]),
        row(case, f"ingest, {AGAIN} runs more", runs[1:], rival.cpu, memory, rival.sums[0]),
    ]
    return Done(rows, stage_rows(case, "ingest", runs[-1]))


def of_tables(case: Case, spark: SparkSession, folder: Path) -> Done:
    """Parquet, of which only the reduction is kept."""
    rival = duck(case.log.path, case.width)
    options = Options(reduce_only=True, bucket="hour" if case.width == HOUR_US else "minute")
    return measured(case.names(), case.log.path, options, rival, spark, folder)


COMMON = {"at": "TIMESTAMP", "client": "VARCHAR", "topic": "VARCHAR", "bytes": "BIGINT"}
DELIVERY = {"message": "BIGINT", **COMMON, "receiver": "VARCHAR"}
TEXTS = {
    "messages.jsonl": ("JSON lines of a message", "lines", {**COMMON, "receivers": "VARCHAR[]"}),
    "deliveries.jsonl": ("JSON lines of a delivery", "lists", DELIVERY),
    "deliveries.csv": ("CSV of a delivery", "lists", DELIVERY),
}


def of_text(log: Log, paths: dict[str, Path], spark: SparkSession, folder: Path) -> list[Done]:
    """Text to a trace with all its messages, beside DuckDB's reduction."""
    done = []
    for name, (kind, way, columns) in TEXTS.items():
        rival = duck(paths[name], HOUR_US, [way], str(columns))
        case = (f"{log.variant}, {kind}", f"{log.deliveries:,}", "1 h")
        done.append(measured(case, paths[name], Options(), rival, spark, folder))
    return done


APART = """
import json, subprocess, sys
from protocol import Measured
with Measured() as used:
    subprocess.run(sys.argv[1:], capture_output=True, check=True)
print(json.dumps([used.wall, used.cpu, used.peak]))
"""


def apart(*words: str) -> tuple[float, float, float]:
    """(wall, CPU, peak memory) of a command, measured by a small process: what this one holds is not counted."""
    command = [sys.executable, "-c", APART, *COMMAND, *words]
    done = subprocess.run(command, capture_output=True, text=True, check=True, cwd=Path(__file__).parent)
    wall, cpu, memory = json.loads(done.stdout)
    return wall, cpu, memory


def freshly(paths: dict[str, Path], deliveries: int, folder: Path) -> list[Sequence[str]]:
    """Text in a fresh process, Spark's start included."""
    rows = []
    for name, (kind, *_) in TEXTS.items():
        out = folder / f"fresh-{name}"
        wall, cpu, memory = apart("ingest", str(paths[name]), "--out", str(out))
        lines = Trace.open(str(out)).read("sources")["lines"][0].as_py()
        rows.append((kind, f"{deliveries:,}", f"{lines:,}", short(wall), f"{cpu:.1f}", size(int(memory))))
    return rows


COMMAND = [sys.executable, "-c", "from overlace.cli import main; main()"]


def observe_and_replay(log: Log, spark: SparkSession, folder: Path) -> Sequence[str]:
    """CPU seconds of both commands in fresh processes, imports included."""
    path = str(folder / "trace")
    trace = ingest(str(log.path), path, spark=spark, options=Options(reduce_only=True)).trace
    tables = log.workload.tables()
    place = {int(name): i for i, name in enumerate(trace.names["client"])}
    writer = Writer(path, trace)
    names = tables["names"]
    of_brokers = {
        kind: names.filter(pc.equal(names["kind"], kind)).sort_by("id")["name"].to_pylist()
        for kind in ("broker", "region")
    }
    writer.write("names", names_table({**trace.names, **of_brokers}), replace=True)
    for name in ("brokers", "links"):
        writer.write(name, tables[name])
    clients = tables["sessions"]["client"].to_pylist()
    known = [i for i, client in enumerate(clients) if client in place]
    sessions = tables["sessions"].take(known)
    sessions = sessions.set_column(0, "client", pa.array([place[clients[i]] for i in known], pa.int32()))
    writer.write("sessions", sessions)
    made = writer.commit(bucket_us=trace.bucket_us, unit="message", notes={})
    found = []
    for words in (["observe", path, "--out", str(folder / "run")], ["replay", str(folder / "run")]):
        subprocess.run([*COMMAND, "--version"], capture_output=True, check=True)
        with Measured() as used:
            subprocess.run([*COMMAND, *words], capture_output=True, check=True)
        found.append(f"{used.cpu:.2f} s")
    return log.variant, f"{log.deliveries:,}", *(f"{made.rows(t):,}" for t in ("traffic", "audiences")), *found


def generated(messages: int, folder: Path) -> Sequence[str]:
    """What `overlace generate sites` takes in a fresh process, Spark's start included."""
    out = folder / "generated"
    wall, cpu, memory = apart("generate", "sites", "--messages", str(messages), "--out", str(out))
    trace = Trace.open(str(out))
    count = trace.rows("messages")
    spent = (short(wall), f"{cpu:.1f}", f"{count / wall:,.0f}", f"{count / cpu:,.0f}", size(int(memory)))
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
        with started({}) as (spark, start):
            tables = [of_tables(case, spark, folder) for case in cases(made)]
            texts: list[Done] = []
            written: dict[str, Path] = {}
            for log in made:
                if log.variant == "friendly" and log.deliveries <= TEXT_UP_TO:
                    written = as_text(log, folder)
                    texts += of_text(log, written, spark, folder)
                with tempfile.TemporaryDirectory() as run:
                    small.append(observe_and_replay(log, spark, Path(run)))
        largest = max((log for log in made if log.variant == "friendly" and log.deliveries <= TEXT_UP_TO), key=_size)
        fresh = freshly(written, largest.deliveries, folder)
        generating = [generated(max(sizes) // 5, folder)] if max(sizes) >= GENERATE_FROM else []
    page(start, tables, texts, fresh, small, generating)


def _size(log: Log) -> int:
    return log.deliveries


def page(
    start: Started, tables: Sequence[Done], texts: Sequence[Done], fresh: Any, small: Any, generating: Any
) -> None:
    """Write what was measured."""
    parts = [
        f"Spark's own start: {start}. Not counted below, except where a row says so. Memory is that of the driver, its "
        "JVM and its Python workers together, shared pages counted in part, in a run of its own; what this script "
        "itself holds is among it, except for fresh processes. `a .. b`: least and largest of several runs in one "
        "session.",
        "## Deliveries in Parquet to traffic and audiences (`--reduce-only`)\n\n"
        + table(HEAD, [row for each in tables for row in each.rows]),
        "## Text to a trace with all its messages; DuckDB makes traffic and audiences only\n\n"
        + table(HEAD, [row for each in texts for row in each.rows]),
        "## Text to a trace in a fresh process, Spark's start included\n\n"
        + table(("kind", "deliveries", "lines", "wall", "CPU s", "peak memory"), fresh),
        "## Spark's stages that took a tenth of a run or more\n\n"
        + table(STAGE_HEAD, [row for each in (*tables, *texts) for row in each.stages]),
        "## Observe and replay from the reduction, each in a fresh process, imports included\n\n"
        + table(("variant", "deliveries", "rows of traffic", "audiences", "observe, CPU", "replay, CPU"), small),
    ]
    if generating:
        head = ("messages", "deliveries", "wall", "CPU s", "messages / s", "messages / CPU s", "peak memory")
        parts.append("## Generate sites, in a fresh process, Spark's start included\n\n" + table(head, generating))
    write(__file__, "Pipeline", parts)


if __name__ == "__main__":
    main()
