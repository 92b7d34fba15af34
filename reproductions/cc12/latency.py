"""CC12's Table III (equal regions) and what the text says of Table I (random overlay): how long messages take."""

from __future__ import annotations

import numpy as np

from overlace.model import Progress
from overlace.report.charts import Row
from reproductions.cc12.hops import line, share_chart
from reproductions.cc12.runs import NETWORKS, PLACEMENTS, SEEDS, between, comes_out, measured, verdicts
from reproductions.result import Measured, Spread, expected, item, mean_in, words

BINS = {"< 0.1": (0.0, 0.1), "[0.1, 0.5)": (0.1, 0.5), "[0.5, 1]": (0.5, 1.0), "> 1": (1.0, np.inf)}


def _better(measured: Measured, seeds: int) -> dict[str, object]:
    share = {(row["network"], str(row["figure"]).partition(":")[0]): mean_in(row["ours"]) for row in measured.rows}
    networks = [str(network) for network, placement in share if placement == "start"]
    better = [n for n in networks if share[n, "community"] > max(share[n, "interest"], share[n, "start"])]
    return {"verdicts": verdicts(measured.rows), "better": words(better)}


@item("cc12/table-1", "Table I: messages within half a second on the random overlay", seeds=SEEDS, figures=_better)
def table_1(seeds: int, progress: Progress) -> Measured:
    """Messages within half a second before and after, on the random overlay."""
    printed = expected("cc12")
    rows: list[Row] = []
    for i, network in enumerate(NETWORKS):
        progress(i / len(NETWORKS), network)
        for placement, planner in PLACEMENTS.items():
            runs = [measured(network, seed, planner) for seed in range(seeds)]
            paper = printed.get(("table-1", network, f"{placement} below 0.5 s"))
            rows.append(
                line(network, f"{placement}: below 0.5 s, %", [between(r.latency, 0, 0.5) for r in runs], paper)
            )
    return Measured(rows)


def _classes(measured: Measured, seeds: int) -> dict[str, object]:
    cells = [f"{placement} {name} s" for placement in PLACEMENTS for name in BINS]
    fine = {
        network: {
            f"{row['placement']} {name} s"
            for row in measured.rows
            if row["network"] == network
            for name in str(row["comes out"]).split("; ")
        }
        for network in dict.fromkeys(str(row["network"]) for row in measured.rows)
    }
    return {
        "always": "; ".join(cell for cell in cells if all(cell in each for each in fine.values())) or "no class",
        "never": "; ".join(cell for cell in cells if not any(cell in each for each in fine.values())) or "no class",
    }


@item("cc12/table-3", "Table III: latencies on equal regions", seeds=SEEDS, figures=_classes)
def table_3(seeds: int, progress: Progress) -> Measured:
    """Latencies on equal regions, in the paper's four classes."""
    printed = expected("cc12")
    rows: list[Row] = []
    bars: list[Row] = []
    for i, network in enumerate(NETWORKS):
        progress(i / len(NETWORKS), network)
        for placement, planner in PLACEMENTS.items():
            runs = [measured(network, seed, planner, True) for seed in range(seeds)]
            row: dict[str, object] = {"network": network, "placement": placement}
            fine = []
            for name, (low, high) in BINS.items():
                spread = Spread.of([between(r.latency, low, high) for r in runs])
                row |= {f"{name} s, paper": printed["table-3", placement, name], f"{name} s, ours": str(spread)}
                bars.append(
                    {"network": network, "seconds": name, "placement": placement, "share": round(spread.mean, 2)}
                )
                fine += [name] if comes_out(spread, printed["table-3", placement, name]) else []
            rows.append(row | {"comes out": "; ".join(fine) or "nothing"})
    bars += [
        {"network": "the paper", "seconds": name, "placement": placement, "share": printed["table-3", placement, name]}
        for placement in PLACEMENTS
        for name in BINS
    ]
    chart = share_chart("Latency on equal regions (Table III)", bars, "seconds")
    return Measured(rows, [chart])
