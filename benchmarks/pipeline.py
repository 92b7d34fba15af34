"""The pipeline: deliveries in Parquet, CSV and JSON lines to a trace, on an engine, beside DuckDB.

python benchmarks/pipeline.py [--engine local|sail|both] [DELIVERIES ...] [--names DELIVERIES ...]

Default: both, 1000000 10000000.
"""

from __future__ import annotations

import argparse
import json
import resource
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any, cast

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.csv as pa_csv
import pyarrow.parquet as pq
from protocol import Measured, table, write
from pyspark.sql import SparkSession

from overlace import ingest
from overlace.spark.engines import SMALL, Engine, started
from overlace.trace.store import Trace

CLIENTS, TOPICS, DAYS, PER = 100_000, 1000, 7, 5
PART = 200_000
KINDS = ("deliveries.parquet", "deliveries.csv", "deliveries.jsonl")
AUDIENCES = 20_000
NAMES = 10_000_000


def part_of(first: int, count: int, names: int) -> pa.Table:
    """Rows of messages, one a delivery, their keys and names as text; `names`: receivers there are."""
    rng = np.random.default_rng([7, first])
    messages = np.arange(first, first + count)
    at = 1_767_571_200_000_000 + messages * (DAYS * 86_400_000_000 // 10_000_000)
    group = rng.integers(0, AUDIENCES, count)
    sizes = 1 + group % (2 * PER - 1)
    row = np.repeat(np.arange(count), sizes)
    place = np.arange(len(row)) - np.repeat(np.cumsum(sizes) - sizes, sizes)
    receiver = (group[row] * 7919 + place * 104_729 + (messages[row] * 31 if names > CLIENTS else 0)) % names
    text = [pc.binary_join_element_wise(mark, pa.array(each).cast(pa.string()), "") for mark, each in (
        ("m", messages[row]), ("c", rng.integers(0, CLIENTS, count)[row]), ("t", rng.integers(0, TOPICS, count)[row]),
        ("c", receiver),
    )]  # fmt: skip
    when = pa.array(at[row]).cast(pa.timestamp("us", "UTC"))
    size = pa.array(rng.integers(1, 4000, count)[row])
    return pa.table(
        [text[0], when, text[1], text[2], size, text[3]], ["id", "at", "client", "topic", "bytes", "receiver"]
    )


def logs_of(deliveries: int, folder: Path, names: int = CLIENTS) -> dict[str, Path]:
    """The same deliveries in three formats."""
    paths = {kind: folder / f"{deliveries}-{kind}" for kind in KINDS}
    with paths["deliveries.csv"].open("wb") as rows, paths["deliveries.jsonl"].open("wb") as lines:
        parquet = None
        for first in range(0, deliveries // PER, PART):
            made = part_of(first, min(PART, deliveries // PER - first), names)
            parquet = parquet or pq.ParquetWriter(paths["deliveries.parquet"], made.schema, compression="zstd")
            parquet.write_table(made)
            shown = made.set_column(1, "at", pc.strftime(made["at"], "%Y-%m-%dT%H:%M:%SZ"))
            pa_csv.write_csv(shown, rows, pa_csv.WriteOptions(include_header=first == 0, quoting_style="none"))
            texts = [shown[name].cast(pa.string()) for name in shown.column_names]
            parts = ['{"id":"', texts[0], '","at":"', texts[1], '","client":"', texts[2], '","topic":"', texts[3],
                     '","bytes":', texts[4], ',"receiver":"', texts[5], '"}\n', ""]  # fmt: skip
            joined = pc.binary_join_element_wise(*(pa.scalar(p) if isinstance(p, str) else p for p in parts))
            lines.write("".join(joined.to_pylist()).encode())
        assert parquet is not None
        parquet.close()
    return paths


DUCK = """
import sys
import duckdb
source, out = sys.argv[1:]
con = duckdb.connect()
con.execute("set threads = 2; set preserve_insertion_order = false; set enable_progress_bar = false")
con.execute(f'''create table messages as select id, min("at") as "at", min(client) as client, min(topic) as topic,
    min(bytes) as bytes, list_sort(list(distinct receiver)) as receivers from {source} group by id''')
con.execute('''create table audiences as select distinct hash(receivers) as audience, receivers from messages''')
con.execute('''create table traffic as select date_trunc('hour', "at") as bucket, client, topic,
    hash(receivers) as audience, count(*) as messages, sum(bytes) as bytes from messages group by all''')
con.execute('''create table names as select 'client' as kind, client as name, min("at") as since from messages
    group by client union all select 'topic', topic, min("at") from messages group by topic''')
for table in ("messages", "audiences", "traffic", "names"):
    con.execute(f"copy {table} to '{out}/{table}.parquet' (compression zstd)")
print(*con.execute("select count(*), sum(messages), sum(bytes) from traffic").fetchone(),
      con.execute("select count(*) from audiences").fetchone()[0])
"""
"""The same tables by DuckDB: messages, audiences, traffic and names, written as Parquet."""


def duckdb_of(path: Path) -> tuple[float, list[int]]:
    """(CPU seconds, sums) of the better of two runs of DuckDB, each in a process of its own."""
    reader = {".parquet": "read_parquet", ".csv": "read_csv", ".jsonl": "read_json"}[path.suffix]
    found = []
    for _ in range(2):
        with tempfile.TemporaryDirectory(dir=path.parent) as out:
            before = resource.getrusage(resource.RUSAGE_CHILDREN)
            command = [sys.executable, "-c", DUCK, f"{reader}('{path}')", out]
            done = subprocess.run(command, check=True, capture_output=True, text=True)
            after = resource.getrusage(resource.RUSAGE_CHILDREN)
        cpu = after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime
        found.append((cpu, [int(float(word)) for word in done.stdout.split()]))
    return min(found)


@contextmanager
def engine_of(name: str) -> Iterator[SparkSession]:
    """A session of an engine, as `overlace ingest` starts it for large logs."""
    with started(Engine("sail" if name == "sail" else "spark"), SMALL) as spark:
        yield spark


def sums_of(trace: Trace) -> list[int]:
    """Rows, messages and bytes of traffic, and audiences, as DuckDB counts them."""
    traffic = trace.read("traffic", ["messages", "bytes"])
    sums = [int(pc.sum(traffic[name]).as_py()) for name in ("messages", "bytes")]
    return [traffic.num_rows, *sums, trace.rows("audiences")]


def here(engine: str, path: Path) -> None:
    """Two ingests in one session, in this process; prints what they took as JSON."""
    found = []
    with Measured() as start:
        stack = ExitStack()
        spark = stack.enter_context(engine_of(engine))
        spark.range(1).count()
    with stack:
        for _ in range(2):
            with tempfile.TemporaryDirectory(dir=path.parent) as out:
                with Measured() as used:
                    trace = ingest(str(path), f"{out}/trace", spark=spark).trace
                size = sum(each.stat().st_size for each in Path(f"{out}/trace").rglob("*") if each.is_file())
                found.append([used.cpu, used.wall, used.driver, used.engine, used.workers, size])
                sums = sums_of(trace)
    print(json.dumps({"start": start.cpu, "runs": found, "sums": sums, "names": trace.rows("names")}))


def apart(engine: str, path: Path) -> dict[str, Any] | None:
    """`here` in a process of its own, so that what this one holds is not counted; none if it died."""
    command = [sys.executable, __file__, "--engine", engine, "--here", str(path)]
    done = subprocess.run(command, check=False, stdout=subprocess.PIPE, text=True)
    return cast("dict[str, Any]", json.loads(done.stdout.splitlines()[-1])) if done.returncode == 0 else None


def freshly(path: Path) -> float:
    """CPU seconds of `overlace ingest` in a fresh process, the engine's start included."""
    command = [sys.executable, "-c", "from overlace.cli import main; main()", "ingest", str(path)]
    with tempfile.TemporaryDirectory(dir=path.parent) as out, Measured() as used:
        subprocess.run([*command, "--out", f"{out}/trace"], check=True, capture_output=True)
    return used.cpu


HEAD = (
    "log", "deliveries", "engine", "DuckDB, CPU s", "first, CPU s", "second, CPU s", "second / DuckDB",
    "first / second", "second, wall", "fresh process, CPU s", "driver", "engine's memory", "workers", "trace",
)  # fmt: skip


def row(path: Path, deliveries: int, engine: str, fresh: bool = True) -> list[str]:
    """A log through an engine, beside DuckDB."""
    print(f"{path.name} on {engine} ...", file=sys.stderr, flush=True)
    cpu, sums = duckdb_of(path)
    done = apart(engine, path)
    if done is None:
        return [path.suffix[1:], f"{deliveries:,}", engine, f"{cpu:.1f}", "ended for want of memory", *[""] * 9]
    assert done["sums"] == sums, (path, done["sums"], sums)
    first, second = done["runs"]
    memory = [f"{each / 1e6:,.0f} MB" for each in second[2:]]
    alone = f"{freshly(path):.1f}" if fresh and engine == "local" else ""
    ratios = [f"{second[0] / cpu:.1f}", f"{first[0] / second[0]:.1f}"]
    return [
        path.suffix[1:], f"{deliveries:,}", engine, f"{cpu:.1f}", f"{first[0]:.1f}", f"{second[0]:.1f}", *ratios,
        f"{second[1]:.0f} s", alone, *memory,
    ]  # fmt: skip


def main() -> None:
    """Measure, and write the page."""
    asked = argparse.ArgumentParser(description=__doc__)
    asked.add_argument("--engine", choices=["local", "sail", "both"], default="both")
    asked.add_argument("--names", type=int, nargs="*", default=[], help="also logs of ten million names, so long")
    asked.add_argument("--here", type=Path, help=argparse.SUPPRESS)
    asked.add_argument("deliveries", type=int, nargs="*", default=[1_000_000, 10_000_000])
    given = asked.parse_args()
    if given.here:
        here(given.engine, given.here)
        return
    engines = ["local", "sail"] if given.engine == "both" else [given.engine]
    rows: list[list[str]] = []
    names: list[list[str]] = []
    for deliveries in sorted({*given.deliveries, *given.names}):
        with tempfile.TemporaryDirectory() as folder:
            if deliveries in given.deliveries:
                for path in logs_of(deliveries, Path(folder)).values():
                    for engine in engines:
                        rows.append(row(path, deliveries, engine))
                        write_page(rows, names)
                    path.unlink()
            if deliveries in given.names:
                path = logs_of(deliveries, Path(folder), NAMES)["deliveries.parquet"]
                for engine in engines:
                    names.append([f"{NAMES:,}", *row(path, deliveries, engine, fresh=False)])
                    write_page(rows, names)


def write_page(rows: list[list[str]], names: list[list[str]]) -> None:
    """Write what there is so far: the largest logs take long, and may take more memory than there is."""
    parts = [
        "Two ingests of one log in one session, messages and all other tables kept, beside DuckDB that makes messages, "
        "traffic, audiences and names of the same file, writes them as Parquet, and counts the same sums. CPU seconds "
        "are those of the whole process tree, the session's start apart; a fresh process is `overlace ingest`. "
        "Memory is the peak of the second ingest: of the Python that drives (on Sail with the engine in it), of "
        "Spark's JVM and of its Python workers.",
        table(HEAD, rows),
    ]
    if names:
        parts += ["## Many names: receivers of their own", table(("names", *HEAD), names)]
    write(__file__, "Pipeline", parts)


if __name__ == "__main__":
    main()
