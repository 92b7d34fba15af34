"""How far the pipeline goes: growth in deliveries, keys, names, files, one message with half of the rows, workers.

python benchmarks/scale.py [--most DELIVERIES]

Default: 100000000.
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, cast

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
from pipeline import CLIENTS, NAMES, PER, part_of
from protocol import Measured, table, write
from pyspark.sql import SparkSession

from overlace import ingest
from overlace.observe.cut import cut
from overlace.observe.observation import observe_with_names
from overlace.observe.traffic import IN_PROCESS
from overlace.spark.engines import SMALL, Engine, started
from overlace.spark.reduction import OnEngine
from overlace.trace.store import Trace

PART = 200_000
LINES = 200
LIMIT = 1800.0
"""Seconds after which a case is given up."""

ENGINES = {
    "local": Engine(),
    "sail": Engine("sail"),
    "1 worker": Engine(master="local-cluster[1,1,6144]", conf={"spark.executor.memory": "6g"}),
    "2 workers": Engine(master="local-cluster[2,1,6144]", conf={"spark.executor.memory": "6g"}),
}


def written(path: Path, parts: Iterator[pa.Table]) -> Path:
    """Tables as one Parquet file."""
    writer = None
    for each in parts:
        writer = writer or pq.ParquetWriter(path, each.schema, compression="zstd")
        writer.write_table(each)
    assert writer is not None
    writer.close()
    return path


def plain(folder: Path, deliveries: int) -> Path:
    """Messages of some five deliveries each, whose rows lie together; 100,000 clients."""
    count = deliveries // PER
    parts = (part_of(k, min(PART, count - k), CLIENTS) for k in range(0, count, PART))
    return written(folder / "log.parquet", parts)


def named(folder: Path, deliveries: int) -> Path:
    """The same with receivers of their own: 10 million names."""
    count = deliveries // PER
    parts = (part_of(k, min(PART, count - k), NAMES) for k in range(0, count, PART))
    return written(folder / "log.parquet", parts)


def rows_of(message: np.ndarray[Any, Any], receiver: np.ndarray[Any, Any]) -> pa.Table:
    """One delivery a row, of messages by their number."""
    at = pa.array(1_767_571_200_000_000 + message * 10_000).cast(pa.timestamp("us", "UTC"))
    words = [
        pa.array([f"{mark}{i}" for i in each.tolist()])
        for mark, each in (("m", message), ("c", message % CLIENTS), ("t", message % 1000), ("c", receiver))
    ]
    return pa.table([words[0], at, *words[1:]], ["id", "at", "client", "topic", "receiver"])


def scattered(folder: Path, deliveries: int) -> Path:
    """Two rows a message, half a log apart: no key is whole in any split."""
    keys = deliveries // 2

    def parts() -> Iterator[pa.Table]:
        for turn in range(2):
            for first in range(0, keys, PART):
                message = np.arange(first, min(first + PART, keys))
                yield rows_of(message, (message // 7 + 1 + turn) % 1000)

    return written(folder / "log.parquet", parts())


def skewed(folder: Path, deliveries: int) -> Path:
    """One message has half of all rows."""
    half = deliveries // 2

    def parts() -> Iterator[pa.Table]:
        for first in range(0, half, PART):
            row = np.arange(first, min(first + PART, half))
            yield rows_of(np.append(row + 1, np.zeros(len(row), np.int64)), np.append(row % 1000, row))

    return written(folder / "log.parquet", parts())


def many(folder: Path, deliveries: int) -> Path:
    """Files of 200 lines."""
    (folder / "logs").mkdir()
    for k in range(deliveries // LINES):
        at = 1_767_571_200 + k * LINES
        lines = (
            f'{{"at":{at + i},"client":"c{i % 50}","topic":"t{k % 9}","receivers":["c{i % 7}"]}}\n'
            for i in range(LINES)
        )
        (folder / "logs" / f"{k}.jsonl").write_text("".join(lines))
    return folder / "logs"


LOGS = {each.__name__: each for each in (plain, named, scattered, skewed, many)}


@contextmanager
def engine_of(name: str) -> Iterator[SparkSession]:
    """A session as `overlace ingest` starts it for large logs."""
    with started(ENGINES[name], SMALL) as spark:
        spark.range(1).count()
        yield spark


def ingested(engine: str, log: Path, out: Path) -> None:
    """One ingest, in this process; prints what it took as JSON."""
    with engine_of(engine) as spark, Measured() as used:
        trace = ingest(str(log), str(out), spark=spark).trace
    print(json.dumps([used.cpu, used.wall, used.driver, used.engine, used.workers, trace.digest()]))


def observed(engine: str, out: Path) -> None:
    """The training window of a trace, in this process; prints what it took as JSON."""

    def look(spark: SparkSession | None) -> None:
        reader = OnEngine(spark) if spark else IN_PROCESS
        with Measured() as used:
            trace = Trace.open(str(out))
            observation, _ = observe_with_names(trace, cut(trace, 0.7, reader).train, reader)
        found = [used.cpu, used.wall, used.driver, used.engine, used.workers, observation.digest()]
        print(json.dumps([*found, trace.rows("traffic")]))

    if engine == "none":
        look(None)
        return
    with engine_of(engine) as spark:
        look(spark)


def apart(*words: object) -> list[Any] | str:
    """What a process of its own prints, or why there is nothing."""
    command = [sys.executable, str(Path(__file__).with_name("scale.py")), *map(str, words)]
    print(*words, "...", file=sys.stderr, flush=True)
    try:
        done = subprocess.run(command, check=False, stdout=subprocess.PIPE, text=True, timeout=LIMIT)
    except subprocess.TimeoutExpired:
        return f"not in {LIMIT:,.0f} s"
    return cast("list[Any]", json.loads(done.stdout.splitlines()[-1])) if done.returncode == 0 else "out of memory"


HEAD = ("log", "deliveries", "engine", "CPU s", "s", "CPU s per million", "driver", "engine's memory", "workers")
OBSERVED = ("rows of traffic", "read by", "CPU s", "s", "driver", "engine's memory")


def cases(most: int) -> list[tuple[str, int, str]]:
    """(log, deliveries, engine) in the order in which they are measured."""
    steps = [n for n in (1_000_000, 10_000_000, 100_000_000) if n <= most]
    middle = steps[-2:][0]
    return [
        *(("plain", n, "local") for n in steps),
        *(("plain", middle, engine) for engine in ("1 worker", "2 workers", "sail")),
        *(("scattered", n, "local") for n in steps),
        *(("skewed", n, "local") for n in steps[:2]),
        *(("named", n, "local") for n in steps[:2]),
        *(("many", LINES * n, "local") for n in (50, 500, 5000) if n * 1000 <= most),
    ]


def main() -> None:
    """Measure, and write the page."""
    asked = argparse.ArgumentParser(description=__doc__)
    asked.add_argument("--most", type=int, default=100_000_000)
    asked.add_argument("--ingest", nargs=3, help=argparse.SUPPRESS)
    asked.add_argument("--observe", nargs=2, help=argparse.SUPPRESS)
    given = asked.parse_args()
    if given.ingest:
        ingested(given.ingest[0], Path(given.ingest[1]), Path(given.ingest[2]))
        return
    if given.observe:
        observed(given.observe[0], Path(given.observe[1]))
        return
    rows: list[list[str]] = []
    windows: list[list[str]] = []
    digests: dict[tuple[str, int], str] = {}
    for log, deliveries, engine in cases(given.most):
        with tempfile.TemporaryDirectory() as folder:
            path, out = LOGS[log](Path(folder), deliveries), Path(folder) / "trace"
            found = apart("--ingest", engine, path, out)
            rows.append([log, f"{deliveries:,}", engine, *shown(found, deliveries)])
            write_page(rows, windows)
            if not isinstance(found, str):
                assert digests.setdefault((log, deliveries), found[5]) == found[5], "engines differ"
            if log == "plain" and engine == "local" and not isinstance(found, str):
                seen = set()
                for reader in ("none", "local", "sail"):
                    taken = apart("--observe", reader, out)
                    name = "this process" if reader == "none" else reader
                    if isinstance(taken, str):
                        windows.append(["", name, taken, *[""] * 3])
                        continue
                    seen.add(taken[5])
                    memory = [f"{each / 1e6:,.0f} MB" for each in taken[2:4]]
                    windows.append([f"{taken[6]:,}", name, f"{taken[0]:.1f}", f"{taken[1]:.0f}", *memory])
                    write_page(rows, windows)
                assert len(seen) < 2, "readers differ"


def shown(found: list[Any] | str, deliveries: int) -> list[str]:
    """What an ingest took, for the page."""
    if isinstance(found, str):
        return [found, *[""] * 5]
    memory = [f"{each / 1e6:,.0f} MB" for each in found[2:5]]
    return [f"{found[0]:.1f}", f"{found[1]:.0f}", f"{found[0] / deliveries * 1e6:.1f}", *memory]


def write_page(rows: list[list[str]], windows: list[list[str]]) -> None:
    """Write what there is so far: the largest take long."""
    parts = [
        "The first ingest of a session that has started, messages and all other tables kept. CPU seconds are those of "
        "the whole process tree; memory is the peak: of the Python that drives, of the engine's JVMs, of Python "
        "workers. `plain`: Parquet, a row a delivery, some five to a message, 100,000 clients. `named`: the same with "
        "10 million names. `scattered`: two rows a message, half a log apart, so that no key is whole in any split. "
        "`skewed`: one message has half of all rows. `many`: files of 200 JSON lines. A worker has one core.",
        table(HEAD, rows),
    ]
    if windows:
        parts += ["## Observing the training window", table(OBSERVED, windows)]
    write(__file__, "Scale", parts)


if __name__ == "__main__":
    main()
