"""CC12's Table IV (equal regions) and Table II (random overlay, cells missing): the load on the backbone."""

from __future__ import annotations

from typing import Any

import numpy as np

from overlace.model import Progress
from overlace.report.charts import Chart
from reproductions.cc12.runs import COMES_OUT, NETWORKS, SEEDS, WAYS, comes_out, measured
from reproductions.result import Result, Spread, expected


def table_4(*, seeds: int | None = None, progress: Progress | None = None) -> Result:
    """Messages that a broker of the backbone handles, and by how much they fall."""
    seeds, printed = seeds or SEEDS, expected("cc12")
    rows: list[dict[str, Any]] = []
    bars: list[dict[str, Any]] = []
    for i, (equal, network) in enumerate((e, n) for e in (True, False) for n in NETWORKS):
        if progress:
            progress(i / 6, network)
        start = [measured(network, seed, None, equal).backbone for seed in range(seeds)]
        for way, planner in WAYS.items():
            load = [measured(network, seed, planner, equal).backbone for seed in range(seeds)]
            cut = Spread.of([100 * (1 - b / a) for a, b in zip(start, load, strict=True)])
            paper = {each: printed.get(("table-4", way, each)) if equal else None for each in ("load", "reduction")}
            rows.append({
                "overlay": "equal regions" if equal else "random", "network": network, "placement": way,
                "load, paper": paper["load"],
                "load, ours": f"{np.mean(load):,.0f} ± {Spread.of(load).deviation:,.0f}",
                "load comes out": comes_out(Spread.of(load), paper["load"]),
                "reduction %, paper": paper["reduction"],
                "reduction %, ours": str(cut) if way != "start" else None,
                "reduction comes out": comes_out(cut, paper["reduction"]),
            })  # fmt: skip
            if equal and way != "start":
                bars.append({"network": network, "placement": way, "reduction": round(cut.mean, 2)})
    bars += [
        {"network": "the paper", "placement": way, "reduction": printed["table-4", way, "reduction"]}
        for way in ("interest", "community")
    ]
    notes = [
        f"{seeds} seeds; load is messages handled by a broker of the backbone, on the mean, of 20,000 sent. A message "
        f"to several receivers crosses a link once. {COMES_OUT}",
        "Which client network Table IV used the paper does not say; the random overlay is Table II, whose cells are "
        "missing from the text we have.",
        "What comes out, by client network. Scale-free: both reductions, though its seeds differ widely and on the "
        "mean interests relieve the backbone as much as communities, which the paper's do not. Random: that of "
        "interests; communities relieve less than printed (29 for 44 %). Small-world: neither, both relieve more "
        "(52 and 58 %). Communities beat interests on random and small-world. Loads grow with the number of messages, "
        "which the paper does not print, so that some agree is chance.",
    ]
    chart = Chart(
        "Relief of the backbone on equal regions (Table IV)", bars, "network", "reduction", series="placement",
        mark="bar", y_title="load taken off the backbone, %",
    )  # fmt: skip
    return Result("Tables II and IV: load on the backbone", rows, notes, [chart])
