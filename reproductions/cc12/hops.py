"""CC12's Figures 5 to 7 (random overlay) and Figure 9 (equal regions): how many hops messages take."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np

from overlace.arrays.jit import Floats
from overlace.model import Progress
from overlace.planners.placement.baselines import Interest
from overlace.planners.placement.community import Community
from overlace.planners.placement.modularity import communities_after, merges
from overlace.planners.placement.ties import ties_of
from overlace.report.charts import Chart, Row
from reproductions.cc12.modularity import modularity
from reproductions.cc12.runs import NETWORKS, PLACEMENTS, SEEDS, Placed, comes_out, measured, observed, verdicts, within
from reproductions.result import FrozenPlanner, Measured, Spread, expected, item, mean_in, words


def _figures(measured: Measured, seeds: int) -> dict[str, object]:
    hops = {(row["network"], row["figure"]): mean_in(row["ours"]) for row in measured.rows}
    networks = list(dict.fromkeys(str(row["network"]) for row in measured.rows))

    def ordered(network: str) -> bool:
        start, interest, community = (hops.get((network, f"{each}: mean hops"), 0.0) for each in PLACEMENTS)
        return start > interest > community

    return {"verdicts": verdicts(measured.rows), "ordered": words([each for each in networks if ordered(each)])}


@item("cc12/figures-5-7", "Figures 5 to 7: hops on the random overlay", seeds=SEEDS, figures=_figures)
def figures_5_to_7(seeds: int, progress: Progress) -> Measured:
    """Hops at the start, by interests and by communities, on the random overlay; and the modularity of the networks."""
    printed = expected("cc12")
    rows: list[Row] = []
    bars: list[Row] = []
    for i, network in enumerate(NETWORKS):
        progress(i / len(NETWORKS), network)
        runs = {placement: _runs(network, planner, seeds) for placement, planner in PLACEMENTS.items()}
        medoids = _runs(network, Interest(method="k-medoids"), seeds)
        as_printed = _runs(network, Community(test="queue"), seeds)
        usual = [within(r.hops, 5, 9) for r in runs["start"]]
        paper = printed.get(("figures-5-7", network, "start 5-9 hops"))
        rows.append(line(network, "start: 5 to 9 hops, %", usual, paper))
        for label, each, key in (
            ("start: within 4 hops, %", runs["start"], None),
            ("interest (k-means): within 4 hops, %", runs["interest"], "interest within 4"),
            ("interest (k-medoids): within 4 hops, %", medoids, "interest within 4"),
            ("community: within 4 hops, %", runs["community"], "community within 4"),
            ("community, overload tested as printed: within 4 hops, %", as_printed, "community within 4"),
        ):
            paper = printed.get(("figures-5-7", network, key)) if key else None
            rows.append(line(network, label, [within(r.hops, 0, 4) for r in each], paper))
        modularities = [_modularity(network, seed) for seed in range(seeds)]
        rows.append(line(network, "modularity q", modularities, printed.get(("modularity", network, "q"))))
        for placement, each in runs.items():
            rows.append(line(network, f"{placement}: mean hops", [r.mean_hops for r in each], None))
        for placement in ("interest", "community"):
            moves = [r.moves for r in runs[placement]]
            rows.append(line(network, f"{placement}: clients moved across regions", moves, None))
        rows += [peak(network, placement, each, printed, "figures-5-7") for placement, each in runs.items()]
        bars += histogram(network, runs)
    return Measured(rows, [share_chart("Messages by hops (Figures 5 to 7)", bars, "hops")])


@item("cc12/figure-9", "Figure 9: hops on equal regions", seeds=SEEDS, figures=_figures)
def figure_9(seeds: int, progress: Progress) -> Measured:
    """The same on nine regions of five brokers."""
    printed = expected("cc12")
    rows: list[Row] = []
    bars: list[Row] = []
    for i, network in enumerate(NETWORKS):
        progress(i / len(NETWORKS), network)
        runs = {placement: _runs(network, planner, seeds, equal=True) for placement, planner in PLACEMENTS.items()}
        for placement, each in runs.items():
            value = [within(r.hops, 0, 5) for r in each]
            rows.append(
                line(network, f"{placement}: within 5 hops, %", value, printed.get(("figure-9", placement, "within 5")))
            )
            rows.append(peak(network, placement, each, printed, "figure-9"))
        bars += histogram(network, runs)
    return Measured(rows, [share_chart("Messages by hops on equal regions (Figure 9)", bars, "hops")])


def share_chart(title: str, rows: Sequence[Row], x: str) -> Chart:
    """The share of deliveries by hops or seconds, a line for each placement, a panel for each client network."""
    return Chart(title, rows, x, "share", "placement", "network", y_title="share of deliveries, %")


def line(network: str, what: str, values: Sequence[float], paper: float | None) -> dict[str, object]:
    """A row: the paper's figure, ours, and how far apart they are."""
    spread = Spread.of(values)
    return {
        "network": network,
        "figure": what,
        "paper": paper,
        "ours": str(spread),
        "low": spread.low,
        "high": spread.high,
        "ours - paper": None if paper is None else round(spread.mean - paper, 3),
        "comes out": comes_out(spread, paper),
    }


def peak(
    network: str, placement: str, runs: list[Placed], printed: Mapping[tuple[str, str, str], float], table: str
) -> dict[str, object]:
    """A row: the hops that most messages take; it comes out if over all seeds together it is one that is printed."""
    row = line(network, f"{placement}: most frequent hops", [float(np.argmax(r.hops)) for r in runs], None)
    peaks = [
        int(value) for (t, r, column), value in printed.items() if (t, r) == (table, placement) and "peak" in column
    ]
    if peaks:
        most = int(np.argmax(mean_hops_shares(runs)))
        row |= {"paper": " or ".join(map(str, peaks)), "comes out": most in peaks}
    return row


def mean_hops_shares(runs: list[Placed]) -> Floats:
    """The share of deliveries by hops, on the mean over seeds."""
    most = max(len(r.hops) for r in runs)
    shares: Floats = np.mean([np.pad(r.hops, (0, most - len(r.hops))) for r in runs], axis=0)
    return shares


def histogram(network: str, runs: dict[str, list[Placed]]) -> list[Row]:
    """Mean share of deliveries by hops, as rows of a chart."""
    rows: list[Row] = []
    for placement, each in runs.items():
        mean = mean_hops_shares(each)
        rows += [
            {"network": network, "placement": placement, "hops": h, "share": round(100 * float(mean[h]), 3)}
            for h in range(2, len(mean))
        ]
    return rows


def _runs(network: str, planner: FrozenPlanner | None, seeds: int, equal: bool = False) -> list[Placed]:
    return [measured(network, seed, planner, equal) for seed in range(seeds)]


def _modularity(network: str, seed: int) -> float:
    ties = ties_of(observed(network, seed))
    made, _ = merges(ties)
    return modularity(ties, communities_after(len(ties.start) - 1, made, len(made)))
