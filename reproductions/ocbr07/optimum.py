"""The table a reader would have wanted: cost / optimum for 5 to 14 brokers."""

from __future__ import annotations

from collections.abc import Sequence

from overlace.model import Planner, Progress
from overlace.planners.tree.baselines import Mst, Star
from overlace.planners.tree.exact import ExactTree
from overlace.planners.tree.hub_safe import HubSafe
from overlace.planners.tree.ocbr import Ocbr
from overlace.planners.tree.regraft import Regraft
from overlace.report.charts import Chart, Row
from reproductions.result import Measured, Spread, item
from reproductions.workloads.lottery import lottery


def planners(beta: float) -> dict[str, Planner]:
    """Who is compared with the optimum."""
    return {
        "ocbr": Ocbr(beta=beta),
        "ocbr, relaxed locks": Ocbr(beta=beta, locks="relaxed"),
        "ocbr, N = 200": Ocbr(beta=beta, samples=200, iterations=100),
        "hub-safe": HubSafe(beta=beta),
        "regraft": Regraft(beta=beta),
        "star": Star(beta=beta),
        "mst": Mst(beta=beta),
    }


def ratios(brokers: int, beta: float, seeds: int) -> dict[str, list[float]]:
    """Cost / optimum of every planner on every instance; `initial` is the tree to start from."""
    found: dict[str, list[float]] = {"initial": []}
    exact = ExactTree(beta=beta)
    for seed in range(seeds):
        observation = lottery(brokers, seed=seed)
        least = exact.cost(observation, exact.solve(observation).after)
        found["initial"].append(exact.cost(observation, observation.overlay) / least)
        for name, planner in planners(beta).items():
            cost = exact.cost(observation, planner.solve(observation, seed).after)
            found.setdefault(name, []).append(cost / least)
    return found


def _figures(measured: Measured, seeds: int) -> dict[str, object]:
    row = measured.rows[-1]  # links only, most brokers
    shown = {"ocbr": "ocbr", "larger": "ocbr, N = 200", "exact": "hub-safe", "whole": "regraft"}
    means = {name: str(row[column]).partition(" ")[0] for name, column in shown.items()}
    return {"brokers": row["brokers"], **means}


@item("ocbr07/optimum", "Cost / optimum for 5 to 14 brokers", seeds=20, figures=_figures)
def optimum(seeds: int, progress: Progress) -> Measured:
    """Cost / optimum, mean and worst."""
    sizes: Sequence[int] = range(5, 15)
    rows: list[Row] = []
    points: list[Row] = []
    for beta in (1.0, 0.0):
        for i, brokers in enumerate(sizes):
            progress((i + (0 if beta else len(sizes))) / (2 * len(sizes)), f"{brokers} brokers")
            spreads = {name: Spread.of(values) for name, values in ratios(brokers, beta, seeds).items()}
            rows.append(
                {"beta": beta, "brokers": brokers}
                | {name: f"{each.mean:.4f} ({each.high:.2f})" for name, each in spreads.items()}
            )
            for name in ("ocbr", "ocbr, N = 200", "hub-safe", "regraft"):
                each = spreads[name]
                points.append({"costs": f"beta = {beta:g}", "brokers": brokers, "planner": name, "mean": each.mean})
    title = "Cost / optimum, mean"
    chart = Chart(title, points, "brokers", "mean", "planner", "costs", y_title="cost / optimum")
    return Measured(rows, [chart])
