"""The logs of a workload as its brokers write them, and its tables as files.

A broker logs the messages of the clients connected to it, one JSON object a line, into a gzipped file of its own. Some
lines cannot be read: one that breaks off, as of a broker that was killed while it wrote, or one without a time. They
are more than the messages, which are exactly the workload's. Draws depend on (seed, number of the message), so
the same workload gives the same lines.
"""

from __future__ import annotations

import gzip
import json
from contextlib import ExitStack
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from pyarrow import csv

from overlace.arrays.draws import uniform
from overlace.arrays.jit import Bools, Ints
from overlace.ingest.table_rows import KINDS
from overlace.trace.tables import TIME
from overlace.workloads import Workload

BAD = 31
"""The stream of draws that places bad lines."""

PIECE = 20_000
"""Messages that are in memory at a time."""


def write_logs(workload: Workload, folder: Path, *, bad: float = 0.001) -> tuple[list[Path], int]:
    """A log FOLDER/BROKER.jsonl.gz for each broker, in order of time; the files, and how many lines are bad.

    `bad` is the number of bad lines for each message. The workload needs the table sessions; a client is at
    one broker all the time.
    """
    tables = workload.tables()
    called = workload.names()
    brokers = called["broker"]
    quoted = {kind: _quoted(called[kind]) for kind in ("client", "topic", "broker")}
    home = np.zeros(len(quoted["client"]), dtype=np.int64)
    home[tables["sessions"]["client"].to_numpy()] = tables["sessions"]["broker"].to_numpy()
    folder.mkdir(parents=True, exist_ok=True)
    paths = [folder / f"{name}.jsonl.gz" for name in brokers]
    unreadable = 0
    with ExitStack() as opened:
        files = [opened.enter_context(gzip.GzipFile(path, "wb", 6, mtime=0)) for path in paths]
        for first in range(0, workload.messages, PIECE):
            columns = workload.part(first, min(PIECE, workload.messages - first))
            at_broker = home[columns["client"]]
            lines = _lines(columns, at_broker, quoted)
            draw = uniform(workload.seed, BAD, first, len(lines))
            unreadable += int((draw < bad).sum())
            order = np.argsort(at_broker, kind="stable")
            text = _with_bad_lines(lines, draw < bad, draw < bad / 2).take(order)
            ends = np.append(0, np.cumsum(np.bincount(at_broker, minlength=len(brokers))))
            offsets = np.frombuffer(text.buffers()[1], np.int32)[ends].tolist()
            for file, begin, end in zip(files, offsets, offsets[1:], strict=False):
                file.write(text.buffers()[2][begin:end])
    return paths, unreadable


def write_tables(workload: Workload, folder: Path) -> dict[str, Path]:
    """The tables that logs do not hold as FOLDER/TABLE.csv, with names in place of ids; by table."""
    tables = workload.tables()
    names = {kind: pa.array(called) for kind, called in workload.names().items()}
    folder.mkdir(parents=True, exist_ok=True)
    paths = {}
    for table in sorted(set(tables) - {"sessions"}):
        rows = tables[table]
        columns = {
            name: names[KINDS[name]].take(rows[name]) if name in KINDS else rows[name] for name in rows.schema.names
        }
        paths[table] = folder / f"{table}.csv"
        csv.write_csv(pa.table(columns), paths[table], csv.WriteOptions(quoting_style="none"))
    return paths


def _quoted(names: list[str]) -> pa.Array:
    """Names as JSON has them."""
    return pa.array([json.dumps(name, ensure_ascii=False) for name in names], pa.string())


def _lines(columns: dict[str, Ints], broker: Ints, quoted: dict[str, pa.Array]) -> pa.Array:
    """Messages as lines of JSON."""
    receivers = pa.ListArray.from_arrays(
        pa.array(columns["start"], pa.int32()), quoted["client"].take(pa.array(columns["receivers"]))
    )
    parts = (
        '{"at":"', pc.strftime(pa.array(columns["at"]).cast(TIME), "%Y-%m-%dT%H:%M:%SZ"),
        '","client":', quoted["client"].take(pa.array(columns["client"])),
        ',"topic":', quoted["topic"].take(pa.array(columns["topic"])),
        ',"bytes":', pa.array(columns["bytes"]),
        ',"receivers":[', pc.binary_join(receivers, ","),
        '],"broker":', quoted["broker"].take(pa.array(broker)),
        "}\n", "",
    )  # fmt: skip
    texts = [pa.scalar(part) if isinstance(part, str) else part for part in parts]
    return pc.binary_join_element_wise(*(text.cast(pa.string()) for text in texts))


def _with_bad_lines(lines: pa.Array, chosen: Bools, without_time: Bools) -> pa.Array:
    """The lines, the chosen ones with a bad one before them: their first half, or all of it without its time."""
    before = np.full(len(lines), "", dtype=object)
    for i in np.flatnonzero(chosen).tolist():
        line = lines[i].as_py()
        before[i] = '{"at":"not set"' + line[line.index(",") :] if without_time[i] else line[: len(line) // 2] + "\n"
    return pc.binary_join_element_wise(pa.array(before, pa.string()), lines, pa.scalar(""))
