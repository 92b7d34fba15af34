"""The training window of a trace whose traffic repeats, read by this process and added up by an engine.

python benchmarks/observing.py [ROWS ...]

Default: 2000000 20000000.
"""

from __future__ import annotations

import sys
import tempfile
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
from protocol import table, write
from scale import OBSERVED, apart

COMBINATIONS, CLIENTS, WIDTH, DAYS = 500_000, 100_000, 6, 28
PART = 1_000_000


def repeating(folder: Path, rows: int) -> Path:
    """Messages of half a million pairs of client and audience, again and again for 28 days: a row a message."""
    path, writer = folder / "log.parquet", None
    for first in range(0, rows, PART):
        rng = np.random.default_rng([3, first])
        count = min(PART, rows - first)
        pair = rng.integers(0, COMBINATIONS, count)
        at = 1_767_571_200_000_000 + (first + np.arange(count)) * (DAYS * 86_400_000_000 // rows)
        to = ((pair % 50_000)[:, None] * 7919 + np.arange(WIDTH) * 104_729) % CLIENTS
        names = pa.array([f"c{i}" for i in range(CLIENTS)])
        receivers = pa.ListArray.from_arrays(
            pa.array(np.arange(0, count * WIDTH + 1, WIDTH, dtype=np.int32)), names.take(pa.array(to.ravel()))
        )
        made = pa.table(
            {
                "at": pa.array(at).cast(pa.timestamp("us", "UTC")),
                "client": names.take(pa.array(pair % CLIENTS)),
                "topic": pa.array([f"t{i}" for i in range(1000)]).take(pa.array(pair % 1000)),
                "receivers": receivers,
            }
        )
        writer = writer or pq.ParquetWriter(path, made.schema, compression="zstd")
        writer.write_table(made)
    assert writer is not None
    writer.close()
    return path


def main() -> None:
    """Measure, and write the page."""
    rows = []
    for size in [int(word) for word in sys.argv[1:]] or [2_000_000, 20_000_000]:
        with tempfile.TemporaryDirectory() as folder:
            out = Path(folder) / "trace"
            made = apart("--ingest", "sail", repeating(Path(folder), size), out)
            assert not isinstance(made, str), made
            seen = set()
            for reader in ("none", "local", "sail"):
                taken = apart("--observe", reader, out)
                name = "this process" if reader == "none" else reader
                if isinstance(taken, str):
                    rows.append(["", name, taken, *[""] * 3])
                    continue
                seen.add(taken[5])
                memory = [f"{each / 1e6:,.0f} MB" for each in taken[2:4]]
                rows.append([f"{taken[6]:,}", name, f"{taken[0]:.1f}", f"{taken[1]:.0f}", *memory])
            assert len(seen) < 2, "readers differ"
    parts = [
        f"{COMBINATIONS:,} pairs of a client and an audience of {WIDTH} send again and again for {DAYS} days, in "
        "buckets of an hour. An engine adds up each pair over the window before anything comes into this process. "
        "CPU seconds and memory as in [scale](scale.md).",
        table(OBSERVED, rows),
    ]
    write(__file__, "Observing", parts)


if __name__ == "__main__":
    main()
