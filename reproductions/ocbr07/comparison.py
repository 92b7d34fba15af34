"""Ours against OCBR: the aims and what was reached."""

from __future__ import annotations

import time
from dataclasses import replace

import numpy as np

from overlace.model import Observation, Planner, Progress
from overlace.planners.tree.hub_safe import HubSafe
from overlace.planners.tree.ocbr import Ocbr
from overlace.planners.tree.regraft import Regraft
from overlace.report.charts import Chart, Row
from overlace.workloads.square import square
from reproductions.ocbr07.few_links import AIM, FEW, cost_left
from reproductions.ocbr07.optimum import ratios
from reproductions.result import Measured, Spread, item

STARS = 5
"""How many stars of degree 128 are tried, at most."""


def timed(planner: Planner, observation: Observation, seed: int) -> tuple[float, float]:
    """(cost, CPU seconds) of a plan."""
    begin = time.process_time()
    plan = planner.solve(observation, seed)
    return planner.cost(observation, plan.after), time.process_time() - begin


def star(leaves: int, seed: int) -> Observation:
    """The unit square with all brokers linked to broker 0."""
    base = square(leaves + 1, 3 * leaves, 3 * leaves, seed=seed)
    return replace(base, overlay=replace(base.overlay, tree=[[0, v] for v in range(1, leaves + 1)]))


def left_of_star(leaves: int, seed: int) -> list[float]:
    """The share of a star's cost that OCBR and hub-safe leave."""
    hub = star(leaves, seed)
    here = Ocbr().cost(hub, hub.overlay)
    return [timed(planner, hub, seed)[0] / here for planner in (Ocbr(), HubSafe())]


def _figures(measured: Measured, seeds: int) -> dict[str, object]:
    return {"stars": min(seeds, STARS), "end": 2 * seeds - 1}


@item("ocbr07/comparison", "Ours against OCBR", seeds=10, figures=_figures)
def comparison(seeds: int, progress: Progress) -> Measured:
    """Every aim with its figures."""
    rows: list[Row] = []
    for brokers in (8, 10, 12, 14):
        found = ratios(brokers, 1.0, seeds)
        ocbr, regraft = (Spread.of(found[name]).mean for name in ("ocbr", "regraft"))
        what = f"{brokers} brokers: cost / optimum"
        rows.append(_row(what, "regraft at most 1.001", ocbr, regraft, regraft <= 1.001))

    points = _thousand(range(seeds), everyone(), progress)
    fresh = _thousand(range(seeds, 2 * seeds), {"ocbr": Ocbr(), "hub-safe": HubSafe()}, progress)
    rows += _against_ocbr(points, fresh)

    left = [cost_left(FEW, seed) for seed in range(seeds)]
    ocbr, regraft = (1 - float(np.mean([each[name] for each in left])) for name in ("ocbr, as it goes", "regraft"))
    what = f"100 brokers, {FEW} links changed: share of the cost removed"
    rows.append(_row(what, f"{AIM} times OCBR's", ocbr, regraft, regraft >= AIM * ocbr))

    ocbr, ours = np.mean([left_of_star(128, seed) for seed in range(min(seeds, STARS))], axis=0)
    rows.append(_row("a star of degree 128: cost left, hub-safe", "well below 0.9", ocbr, ours, ours < 0.85))
    ocbr, ours = left_of_star(1200, 0)
    rows.append(_row("a hub of degree 1,200: cost left, hub-safe", "works", ocbr, ours, ours < 1))

    title = "1,000 brokers: cost against CPU seconds"
    chart = Chart(title, points, "seconds", "cost", "planner", mark="point", log="xy", x_title="CPU seconds")
    locked = _mean(points, "hub-safe, paper's locks", "cost")
    facts = {"by_instance": _by_instance(points), "other_seeds": _by_instance(fresh), "paper_locks": f"{locked:,.0f}"}
    return Measured(rows, [chart], facts)


def _row(what: str, aim: str, ocbr: float, ours: float, reached: bool) -> dict[str, object]:
    return {"what": what, "aim": aim, "OCBR": float(ocbr), "ours": float(ours), "reached": bool(reached)}


def everyone() -> dict[str, Planner]:
    """Who is tried on 1,000 brokers."""
    return {
        "ocbr": Ocbr(),
        "ocbr, relaxed locks": Ocbr(locks="relaxed"),
        "hub-safe": HubSafe(),
        "hub-safe, paper's locks": HubSafe(locks="paper"),
        "hub-safe + regraft": HubSafe(finish=True),
        "regraft": Regraft(kicks=0),
    }


def _thousand(seeds: range, planners: dict[str, Planner], progress: Progress) -> list[Row]:
    """1,000 brokers: cost and CPU seconds by planner and seed."""
    for planner in planners.values():
        planner.solve(square(40, 80, 80))  # compiled before the clock runs
    points: list[Row] = []
    for seed in seeds:
        progress(0.3 + 0.3 * seed / len(seeds), "1,000 brokers")
        observation = square(1000, 4000, 3000, seed=seed)
        for name, planner in planners.items():
            cost, seconds = timed(planner, observation, seed)
            points.append({"planner": name, "seed": seed, "cost": cost, "seconds": seconds})
    return points


def _mean(points: list[Row], name: str, what: str) -> float:
    return float(np.mean(_each(points, name, what)))


def _each(points: list[Row], name: str, what: str) -> list[float]:
    return [float(row[what]) for row in points if row["planner"] == name]


def _by_instance(points: list[Row]) -> str:
    ratio = np.sort(np.array(_each(points, "hub-safe", "cost")) / _each(points, "ocbr", "cost"))
    return " ".join(f"{each:.2f}" for each in ratio)


def _against_ocbr(points: list[Row], fresh: list[Row]) -> list[Row]:
    """Hub-safe, alone and followed by regraft, against OCBR."""
    rows: list[Row] = []
    half = "at most half of OCBR's"
    for what, found in (("hub-safe", points), ("hub-safe, other seeds", fresh)):
        ocbr, ours = _mean(found, "ocbr", "cost"), _mean(found, "hub-safe", "cost")
        rows.append(_row(f"1,000 brokers: cost, {what}", half, ocbr, ours, ours <= 0.5 * ocbr))
    ocbr, ours = _mean(points, "ocbr", "cost"), _mean(points, "hub-safe + regraft", "cost")
    better = ours < _mean(points, "hub-safe", "cost")
    rows.append(_row("1,000 brokers: cost, hub-safe + regraft", "better still", ocbr, ours, better))
    for name in ("ocbr", "ocbr, relaxed locks"):
        ocbr, ours = _mean(points, name, "seconds"), _mean(points, "hub-safe", "seconds")
        what = f"1,000 brokers: CPU seconds, hub-safe against {name}"
        rows.append(_row(what, "at most a quarter", ocbr, ours, ours <= ocbr / 4))
    return rows
