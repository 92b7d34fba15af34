"""The trees of channels: what each kind of tree meets, and the channels where most bounds are missed."""

from __future__ import annotations

import numpy as np
import pyarrow.parquet as pq

from overlace.model import name_of
from overlace.report.run_data import Json, RunData
from overlace.report.sheets import Amount
from overlace.report.tables import MOST_ROWS, Row, Table, more_of


def kind_table(found: Json) -> Table:
    """Our trees beside others within the same limits, and the star."""
    rows = []
    for each in found["kinds"]:
        figures = (f"{each['share_met']:.1%}", *(f"{each[name]:.4g} ms" for name in ("mean_ms", "p95_ms")))
        rows.append(Row((str(each["label"]),), (*figures, *map(Amount, (each["max_degree"], each["over_degree"])))))
    most = f"{found['share_met_at_most']:.1%} or less for any trees within the degree limits: proven"
    heads = ("tree", "bounds met", "mean delay", "95th percentile", "most children", "limits broken")
    return Table(f"Latency bounds met: {most}", heads, rows)


def tree_table(data: RunData) -> Table:
    """The channels in which most bounds are missed, and the largest."""
    rows = pq.read_table(data.run / "trees.parquet")
    channel, at = np.unique(rows["channel"].to_numpy(), return_inverse=True)
    bounded = np.array([each is not None for each in rows["met"].to_pylist()])
    met = np.array([bool(each) for each in rows["met"].to_pylist()])
    below = np.array([each is not None for each in rows["parent"].to_pylist()])
    delay = rows["delay_ms"].to_numpy()
    peers, bounds, kept = (np.bincount(at, weights=each) for each in (below, bounded, met & bounded))
    worst = np.zeros(len(channel))
    np.maximum.at(worst, at, delay)
    root = [name for name, up in zip(rows["client"].to_pylist(), below.tolist(), strict=True) if not up]
    order = np.lexsort((channel, -peers, kept - bounds))
    found = []
    for i in order[:MOST_ROWS].tolist():
        name = "in no channel" if channel[i] < 0 else name_of("channel", int(channel[i]), data.names)
        share = f"{kept[i] / bounds[i]:.1%}" if bounds[i] else ""
        cells = (root[i], Amount(peers[i]), Amount(bounds[i]), share)
        found.append(Row((name,), (*cells, f"{worst[i]:.4g} ms")))
    heads = ("channel", "root", "subscribers", "with a bound", "met", "longest delay")
    return Table("Trees by channel", heads, found, more_of(len(channel) - len(found), "channels"))
