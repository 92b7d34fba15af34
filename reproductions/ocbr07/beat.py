"""The aims beside what was reached."""

from __future__ import annotations

import time
from dataclasses import replace

import numpy as np

from overlace.model import Observation, Plan, Planner, Progress
from overlace.planners.tree.hub_safe import HubSafe
from overlace.planners.tree.ocbr import Ocbr
from overlace.planners.tree.regraft import Regraft
from overlace.report.charts import Chart, Row
from overlace.workloads.square import square
from reproductions.ocbr07.few_links import cost_left
from reproductions.ocbr07.knows import KNOWS
from reproductions.ocbr07.optimum import ratios
from reproductions.result import Result, Spread


def timed(planner: Planner, observation: Observation, seed: int) -> tuple[float, float, Plan]:
    """(cost, CPU seconds, plan)."""
    begin = time.process_time()
    plan = planner.solve(observation, seed)
    return planner.cost(observation, plan.after), time.process_time() - begin, plan


def star(leaves: int, seed: int) -> Observation:
    """The unit square with all brokers linked to broker 0."""
    base = square(leaves + 1, 3 * leaves, 3 * leaves, seed=seed)
    return replace(base, overlay=replace(base.overlay, tree=[[0, v] for v in range(1, leaves + 1)]))


def beat(*, seeds: int | None = None, progress: Progress | None = None) -> Result:
    """Every aim with its figures."""
    count = seeds or 10
    rows: list[Row] = []
    for brokers in (8, 10, 12, 14):
        found = {name: Spread.of(each) for name, each in ratios(brokers, 1.0, count).items()}
        rows.append(
            _row(f"{brokers} brokers: cost / optimum", "regraft at most 1.001", found["ocbr"].mean,
                 found["regraft"].mean, found["regraft"].mean <= 1.001)
        )  # fmt: skip
    points = _thousand(range(count), everyone(), progress)
    fresh = _thousand(range(count, 2 * count), {"ocbr": Ocbr(), "hub-safe": HubSafe()}, progress)
    rows += _against_ocbr(points, fresh)
    left = [cost_left(20, seed) for seed in range(count)]
    ocbr = 1 - float(np.mean([each["ocbr, as it goes"] for each in left]))
    regraft = 1 - float(np.mean([each["regraft"] for each in left]))
    rows.append(
        _row(
            "100 brokers, 20 links changed: share of the cost removed",
            "4 times OCBR's",
            ocbr,
            regraft,
            regraft >= 4 * ocbr,
        )
    )
    ends = []
    for seed in range(min(count, 5)):
        hub = star(128, seed)
        here = Ocbr().cost(hub, hub.overlay)
        ends.append([timed(planner, hub, seed)[0] / here for planner in (Ocbr(), HubSafe())])
    mean = np.mean(ends, axis=0)
    rows.append(_row("a star of degree 128: cost left, hub-safe", "well below 0.9", mean[0], mean[1], mean[1] < 0.85))
    hub = star(1200, 0)
    here = Ocbr().cost(hub, hub.overlay)
    both = [timed(planner, hub, 0)[0] / here for planner in (Ocbr(), HubSafe())]
    rows.append(_row("a hub of degree 1,200: cost left, hub-safe", "works", both[0], both[1], both[1] < 1))
    paper = _mean(points, "hub-safe, paper's locks", "cost")
    notes = [
        f"Means of {count} instances (the star of degree 128: {min(count, 5)}, the hub of 1,200: 1). OCBR with n = 20, "
        "N = 20 and tenure 7. Small networks: workload lottery, beta 1. Others: workload square, beta 0, 4 clients and "
        "3 classes a broker (stars: 3 and 3).",
        "CPU seconds are of whole plans with their steps, one thread, kernels compiled before.",
        f"1,000 brokers, hub-safe / OCBR by instance: {_by_instance(points)}; other seeds ({count} to "
        f"{2 * count - 1}): {_by_instance(fresh)}. OCBR's rounds end near hub-safe's tree on some instances and at a "
        "multiple of its cost on others, so the ratio of the means depends on the seeds. Hub-safe with the paper's "
        f"locks costs {paper:,.0f}.",
        KNOWS,
    ]
    chart = Chart(
        "1,000 brokers: cost against CPU seconds", points, "seconds", "cost", series="planner", mark="point", log="xy",
        x_title="CPU seconds", y_title="cost",
    )  # fmt: skip
    return Result("Ours against OCBR", rows, notes, [chart])


def _row(what: str, aim: str, ocbr: float, ours: float, reached: bool) -> dict[str, object]:
    return {"what": what, "aim": aim, "OCBR": float(ocbr), "ours": float(ours), "reached": bool(reached)}


def everyone() -> dict[str, Planner]:
    """Who is tried on 1,000 brokers."""
    return {
        "ocbr": Ocbr(), "ocbr, relaxed locks": Ocbr(locks="relaxed"), "hub-safe": HubSafe(),
        "hub-safe, paper's locks": HubSafe(locks="paper"), "hub-safe + regraft": HubSafe(finish=True),
        "regraft": Regraft(kicks=0),
    }  # fmt: skip


def _thousand(seeds: range, planners: dict[str, Planner], progress: Progress | None) -> list[Row]:
    """1,000 brokers: cost and CPU seconds by planner and seed."""
    for planner in planners.values():
        planner.solve(square(40, 80, 80))  # compiled before the clock runs
    points: list[Row] = []
    for seed in seeds:
        if progress:
            progress(0.3 + 0.3 * seed / len(seeds), "1,000 brokers")
        observation = square(1000, 4000, 3000, seed=seed)
        for name, planner in planners.items():
            cost, seconds, _ = timed(planner, observation, seed)
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
    """Hub-safe, alone and followed by regraft, beside OCBR."""
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
