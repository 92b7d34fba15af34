"""The pipeline: deliveries in sorted Parquet to traffic and audiences, beside DuckDB; observe and replay.

python benchmarks/pipeline.py [DELIVERIES ...]      default: 1000000 10000000
"""

from __future__ import annotations

import json
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
from protocol import Measured, short, table, write

from overlace.spark.deliveries import by_expressions, reduce_deliveries
from overlace.spark.session import session
from overlace.tables import TIME
from overlace.trace import HOUR_US, MINUTE_US, Writer, digest
from overlace.workloads.sites import Sites

VARIANTS: dict[str, dict[str, Any]] = {
    "friendly": {"clients": 1000, "topics": 600},
    "every audience distinct": {"clients": 1000, "topics": 600, "scatter": True},
}


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


DUCKDB = """
import duckdb, json, resource, sys, time
path, bucket, way = sys.argv[1:]
con = duckdb.connect()
con.execute("set threads = 2; set preserve_insertion_order = false; set enable_progress_bar = false")
began = time.perf_counter()
if way == "lists":
    con.execute(f'''create table m as select message, any_value("at") "at", any_value(client) client,
        any_value(topic) topic,
        any_value(bytes) bytes, list_sort(list(receiver)) receivers from '{path}' group by message''')
    con.execute(f'''create table traffic as select epoch_us("at") // {bucket} * {bucket} bucket, client, topic,
        receivers,
        count(*) messages, sum(bytes) bytes from m group by all''')
    con.execute("create table audiences as select distinct receivers from m")
else:
    con.execute(f'''create table m as select message, any_value("at") "at", any_value(client) client,
        any_value(topic) topic,
        any_value(bytes) bytes, bit_xor(hash(receiver + 1)) h, count(*) k from '{path}' group by message''')
    con.execute(f'''create table traffic as select epoch_us("at") // {bucket} * {bucket} bucket, client, topic, h, k,
        count(*) messages, sum(bytes) bytes from m group by all''')
    con.execute(f'''create table audiences as select h, k, list_sort(list(receiver)) receivers from '{path}'
        join (select h, k, min(message) message from m group by h, k) using (message) group by h, k''')
wall = time.perf_counter() - began
sums = "select count(*), sum(messages), sum(bytes), (select count(*) from audiences) from traffic"
rows = con.execute(sums).fetchone()
usage = resource.getrusage(resource.RUSAGE_SELF)
print(json.dumps([usage.ru_utime + usage.ru_stime, wall, usage.ru_maxrss * 1024, [int(r) for r in rows]]))
"""


def duck(path: Path, bucket_us: int) -> tuple[float, float, int, list[int], str]:
    """The faster of two correct queries: CPU, wall, peak, and the sums to compare."""
    found = []
    for way in ("lists", "hashes"):
        done = subprocess.run(
            [sys.executable, "-c", DUCKDB, str(path), str(bucket_us), way], capture_output=True, text=True, check=True
        )
        found.append((*json.loads(done.stdout), way))
    return min(found)


def sums(named: Any) -> list[int]:
    """Rows, messages, bytes and audiences, as DuckDB counts them."""
    traffic, audiences = named.reduction
    return [traffic.num_rows, *(int(traffic[c].to_numpy().sum()) for c in ("messages", "bytes")), audiences.num_rows]


COMMAND = [sys.executable, "-c", "from overlace.cli import main; main()"]


def observe_and_replay(named: Any, workload: Sites, folder: Path) -> list[str]:
    """CPU seconds of both commands in fresh processes, imports included."""
    writer = Writer(str(folder / "trace"))
    writer.write("traffic", named.reduction.traffic)
    writer.write("audiences", named.reduction.audiences)
    names = [("client", i, n) for i, n in enumerate(named.clients.to_pylist())]
    names += [("topic", i, n) for i, n in enumerate(named.topics.to_pylist())]
    for name, made in workload.tables().items():
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
    return found


def logs(folder: Path, sizes: list[int]) -> list[tuple[str, Sites, Path, int]]:
    """(variant, workload, file, deliveries) of every log, written once."""
    made = []
    for variant, parameters in VARIANTS.items():
        for size in sizes:
            if variant != "friendly" and size > 10_000_000:
                continue
            messages = int(size / (4.87 if variant == "friendly" else 5))
            workload = Sites(messages=messages, days=7, **parameters)
            path = folder / f"{variant}-{size}.parquet"
            made.append((variant, workload, path, raw(path, workload)))
    return made


def buckets(variant: str, deliveries: int, largest: int) -> list[tuple[str, int]]:
    """An hour; for the largest friendly log also a minute."""
    return [("1 h", HOUR_US), *([("1 min", MINUTE_US)] if variant == "friendly" and deliveries == largest else [])]


def main() -> None:
    sizes = [int(word) for word in sys.argv[1:]] or [1_000_000, 10_000_000]
    rows: dict[tuple[str, int, str], list[Any]] = {}
    seen: dict[tuple[str, int, str], Any] = {}
    small = []
    with tempfile.TemporaryDirectory() as folder:
        made = logs(Path(folder), sizes)
        largest = max(deliveries for _, _, _, deliveries in made)
        with Measured() as starting:
            context = session(master="local[2]", config={"spark.driver.memory": "1g"})
            spark = context.__enter__()
        with Measured() as first_worker:
            spark.range(2).repartition(2).mapInArrow(lambda batches: batches, "id long").collect()
        for variant, workload, path, deliveries in made:
            for bucket, width in buckets(variant, deliveries, largest):
                key = (variant, deliveries, bucket)
                cpu, wall, peak, expected, way = duck(path, width)
                rows[key] = [row(key, f"DuckDB ({way})", wall, cpu, cpu, peak, expected[0])]
                for name in ("native, first run", "native, second run"):
                    with Measured() as used:
                        named = reduce_deliveries([str(path)], spark, width)
                    assert sums(named) == expected, (name, sums(named), expected)
                    seen[key] = (digests(named), cpu)
                    rows[key].append(row(key, name, used.wall, used.cpu, cpu, used.peak, expected[0]))
            named = reduce_deliveries([str(path)], spark, HOUR_US)
            with tempfile.TemporaryDirectory() as run:
                used_by = observe_and_replay(named, workload, Path(run))
            small.append((variant, f"{deliveries:,}", *(f"{each.num_rows:,}" for each in named.reduction), *used_by))
        context.__exit__(None, None, None)
        with session(master="local[2]") as spark:
            spark.range(2).repartition(2).mapInArrow(lambda batches: batches, "id long").collect()
            for variant, _, path, deliveries in made:
                key = (variant, deliveries, "1 h")
                if deliveries <= 10_000_000:
                    with Measured() as used:
                        named = by_expressions(spark.read.parquet(str(path)), HOUR_US)
                    assert digests(named) == seen[key][0], "the ways differ"
                    traffic = named.reduction.traffic.num_rows
                    rows[key].append(row(key, "expressions", used.wall, used.cpu, seen[key][1], used.peak, traffic))
    head = (
        "variant",
        "deliveries",
        "bucket",
        "way",
        "wall",
        "CPU s",
        "/ DuckDB's CPU",
        "peak memory",
        "rows of traffic",
    )
    parts = [
        f"Spark's own start: session {short(starting.wall)} ({starting.cpu:.1f} CPU s), first Python worker "
        f"{short(first_worker.wall)} ({first_worker.cpu:.1f} CPU s). Not counted below. Memory is that of the driver, "
        "its JVM (1 GB heap; 4 GB for expressions) and two Python workers together, shared pages counted in part.",
        "## Raw deliveries to traffic and audiences\n\n"
        + table(head, [each for group in rows.values() for each in group]),
    ]
    head = ("variant", "deliveries", "rows of traffic", "audiences", "observe, CPU", "replay, CPU")
    parts += [
        "## Observe and replay from the reduction, each in a fresh process, imports included\n\n" + table(head, small)
    ]
    write(__file__, "Pipeline", parts)


def row(key: tuple[str, int, str], way: str, wall: float, cpu: float, duckdb: float, peak: int, traffic: int) -> Any:
    """One way of doing it."""
    variant, deliveries, bucket = key
    measured = (short(wall), f"{cpu:.1f}", f"{cpu / duckdb:.1f}", f"{peak / 1e9:.2f} GB")
    return (variant, f"{deliveries:,}", bucket, way, *measured, f"{traffic:,}")


def digests(named: Any) -> Any:
    """What must be the same, whichever way it was done."""
    return digest(named.reduction.traffic), digest(named.reduction.audiences)


if __name__ == "__main__":
    main()
