"""The pipeline: deliveries in Parquet, CSV and JSON lines to a trace, on an engine, beside DuckDB.

python benchmarks/pipeline.py [--engine local|sail] [--names] [DELIVERIES ...]      default: 1000000 10000000
"""

from __future__ import annotations

import subprocess
import sys
import tempfile
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.csv as pa_csv
import pyarrow.parquet as pq
from protocol import Measured

CLIENTS, TOPICS, DAYS, PER = 100_000, 1000, 7, 5
PART = 200_000
KINDS = ("deliveries.parquet", "deliveries.csv", "deliveries.jsonl")
AUDIENCES = 20_000


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
create or replace table messages as select id, min(at) as at, min(client) as client, min(topic) as topic,
  min(bytes) as bytes, list_sort(list(distinct receiver)) as receivers from {source} group by id;
create or replace table audiences as select distinct hash(receivers) as audience, receivers from messages;
create or replace table traffic as select date_trunc('hour', at) as bucket, client, topic, hash(receivers) as audience,
  count(*) as messages, sum(bytes) as bytes from messages group by all;
copy messages to '{out}/m.parquet' (compression zstd); copy traffic to '{out}/t.parquet' (compression zstd);
copy audiences to '{out}/a.parquet' (compression zstd);
"""


def duckdb_of(path: Path) -> Measured:
    """The same tables by DuckDB, in a process of its own."""
    kind = {"parquet": "read_parquet", "csv": "read_csv", "jsonl": "read_json"}[path.suffix[1:]]
    with tempfile.TemporaryDirectory() as out:
        code = f"import duckdb; duckdb.sql({DUCK.format(source=f'{kind}({str(path)!r})', out=out)!r})"
        return Measured.of(lambda: subprocess.run([sys.executable, "-c", code], check=True))


if __name__ == "__main__":
    pass
