"""CC12's Table IV (equal regions) and Table II (random overlay, cells missing): the load on the backbone."""

from __future__ import annotations

import numpy as np

from overlace.model import Progress
from overlace.report.charts import Chart, Row
from reproductions.cc12.runs import NETWORKS, PLACEMENTS, SEEDS, comes_out, measured
from reproductions.result import Measured, Spread, expected, item, mean_in, words


def _figures(measured: Measured, seeds: int) -> dict[str, object]:
    printed = [row for row in measured.rows if row["reduction comes out"] is not None]
    parts, better = [], []
    for network in dict.fromkeys(str(row["network"]) for row in printed):
        mine = [row for row in printed if row["network"] == network]
        fine = [str(row["placement"]) for row in mine if row["reduction comes out"]]
        off = [
            f"{row['placement']} ({mean_in(row['reduction %, ours']):.0f} for {row['reduction %, paper']:.0f} %)"
            for row in mine
            if not row["reduction comes out"]
        ]
        parts.append(f"{network.capitalize()}: {words(fine)}." + (f" Not: {words(off)}." if off else ""))
        interest, community = (mean_in(row["reduction %, ours"]) for row in mine)
        better += [network] if community > interest else []
    return {"verdicts": " ".join(parts), "better": words(better)}


@item("cc12/table-4", "Tables II and IV: load on the backbone", seeds=SEEDS, figures=_figures)
def table_4(seeds: int, progress: Progress) -> Measured:
    """Messages that a broker of the backbone handles, and by how much they fall."""
    printed = expected("cc12")
    rows: list[Row] = []
    bars: list[Row] = []
    for i, (equal, network) in enumerate((e, n) for e in (True, False) for n in NETWORKS):
        progress(i / 6, network)
        start = [measured(network, seed, None, equal).backbone for seed in range(seeds)]
        for placement, planner in PLACEMENTS.items():
            load = [measured(network, seed, planner, equal).backbone for seed in range(seeds)]
            cut = Spread.of([100 * (1 - b / a) for a, b in zip(start, load, strict=True)])
            paper = {
                each: printed.get(("table-4", placement, each)) if equal else None for each in ("load", "reduction")
            }
            rows.append(
                {
                    "overlay": "equal regions" if equal else "random",
                    "network": network,
                    "placement": placement,
                    "load, paper": paper["load"],
                    "load, ours": f"{np.mean(load):,.0f} ± {Spread.of(load).deviation:,.0f}",
                    "load comes out": comes_out(Spread.of(load), paper["load"]),
                    "reduction %, paper": paper["reduction"],
                    "reduction %, ours": str(cut) if placement != "start" else None,
                    "reduction comes out": comes_out(cut, paper["reduction"]),
                }
            )
            if equal and placement != "start":
                bars.append({"network": network, "placement": placement, "reduction": round(cut.mean, 2)})
    bars += [
        {"network": "the paper", "placement": placement, "reduction": printed["table-4", placement, "reduction"]}
        for placement in ("interest", "community")
    ]
    title, y_title = "Relief of the backbone on equal regions (Table IV)", "load taken off the backbone, %"
    chart = Chart(title, bars, "network", "reduction", "placement", mark="bar", y_title=y_title)
    return Measured(rows, [chart])
