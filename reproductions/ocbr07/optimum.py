"""The table a reader would have wanted: cost / optimum for 5 to 14 brokers."""

from __future__ import annotations

from collections.abc import Sequence

from overlace.model import Planner, Progress
from overlace.planners.tree.exact import Exact
from overlace.planners.tree.hub_safe import HubSafe
from overlace.planners.tree.mst import Mst
from overlace.planners.tree.ocbr import Ocbr
from overlace.planners.tree.regraft import Regraft
from overlace.planners.tree.star import Star
from overlace.report.charts import Chart, Row
from overlace.workloads.lottery import lottery
from reproductions.ocbr07.knows import KNOWS
from reproductions.result import Result, Spread


def planners(beta: float) -> dict[str, Planner]:
    """Who is compared with the optimum."""
    return {
        "ocbr": Ocbr(beta=beta), "ocbr, relaxed locks": Ocbr(beta=beta, locks="relaxed"),
        "ocbr, N = 200": Ocbr(beta=beta, samples=200, iterations=100), "hub-safe": HubSafe(beta=beta),
        "regraft": Regraft(beta=beta), "star": Star(beta=beta), "mst": Mst(beta=beta),
    }  # fmt: skip


def ratios(brokers: int, beta: float, seeds: int) -> dict[str, list[float]]:
    """Cost / optimum of every planner on every instance; `initial` is the tree to start from."""
    found: dict[str, list[float]] = {"initial": []}
    exact = Exact(beta=beta)
    for seed in range(seeds):
        observation = lottery(brokers, seed=seed)
        least = exact.cost(observation, exact.solve(observation).after)
        found["initial"].append(exact.cost(observation, observation.overlay) / least)
        for name, planner in planners(beta).items():
            cost = exact.cost(observation, planner.solve(observation, seed).after)
            found.setdefault(name, []).append(cost / least)
    return found


def optimum(*, seeds: int | None = None, progress: Progress | None = None) -> Result:
    """Cost / optimum, mean and worst."""
    instances = seeds or 20
    sizes: Sequence[int] = range(5, 15)
    rows: list[Row] = []
    points: list[Row] = []
    for beta in (1.0, 0.0):
        for i, brokers in enumerate(sizes):
            if progress:
                progress((i + (0 if beta else len(sizes))) / (2 * len(sizes)), f"{brokers} brokers")
            spreads = {name: Spread.of(values) for name, values in ratios(brokers, beta, instances).items()}
            rows.append(
                {"beta": beta, "brokers": brokers}
                | {name: f"{each.mean:.4f} ({each.high:.2f})" for name, each in spreads.items()}
            )
            for name in ("ocbr", "ocbr, N = 200", "hub-safe", "regraft"):
                each = spreads[name]
                points.append({"costs": f"beta = {beta:g}", "brokers": brokers, "planner": name, "mean": each.mean})
    notes = [
        f"Mean and, in brackets, worst of {instances} instances (seeds 0 to {instances - 1}); optimum: tree.exact.",
        "Workload lottery: link costs 1 to 50, not metric; broker costs 0 to 30; a uniform random tree to start from; "
        "beta 1 counts brokers, beta 0 links only. OCBR: n = 20, N = 20, tenure 7 unless said otherwise.",
        "With links only and costs that are not metric, a neighbourhood of three has few other trees: masters are "
        "stuck early, whatever search they use. A larger search per master (N = 200, n = 100) or an exact one "
        "(hub-safe) hardly helps; looking at the whole tree does.",
        KNOWS,
    ]
    chart = Chart(
        "Cost / optimum, mean", points, "brokers", "mean", series="planner", panel="costs", y_title="cost / optimum"
    )
    return Result("Cost / optimum for 5 to 14 brokers", rows, notes, [chart])
