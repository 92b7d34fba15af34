"""Moving traffic: what smoothing, hysteresis and a known period save, in cost and in changed links."""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np

from overlace.errors import NothingBetter
from overlace.model import Classes, Observation, Overlay, Progress
from overlace.planners.tree.cost import cost
from overlace.planners.tree.ocbr import Ocbr
from overlace.planners.tree.regraft import Regraft
from overlace.report.charts import Chart, Row
from reproductions.ocbr07.smoothing import Smoothing
from reproductions.result import Measured, Spread, item
from reproductions.workloads.days import Days

PERIOD = 8


@dataclass(frozen=True)
class Policy:
    """How a tree follows the traffic: what it expects, who plans, what a changed link must save."""

    planner: str
    smoothing: Smoothing | None  # None: the last window comes again
    least: float  # share of the expected cost that each changed link must save


HYSTERESIS = 0.001
"""Share of the expected cost that each changed link must save."""

VARIANTS = {
    "": (None, 0.0),
    ", smoothed": (Smoothing(0.3), 0.0),
    ", hysteresis": (None, HYSTERESIS),
    ", smoothed, hysteresis": (Smoothing(0.3), HYSTERESIS),
    ", period known": (Smoothing(0.5, PERIOD), 0.0),
    ", period known, hysteresis": (Smoothing(0.5, PERIOD), HYSTERESIS),
}
POLICIES = {"never changed": Policy("", None, 0.0)} | {
    f"{planner}{name}": Policy(planner, *variant)
    for planner in ("ocbr", "regraft")
    for name, variant in VARIANTS.items()
}


def follow(policy: Policy, base: Observation, windows: list[Classes], seed: int) -> tuple[list[float], list[int]]:
    """(cost, links changed) in each window but the first, the tree being planned before the window begins."""
    overlay, costs, changed = base.overlay, [], []
    for t in range(1, len(windows)):
        expected = (policy.smoothing or Smoothing(1.0)).forecast(windows[:t])
        observation = replace(base, overlay=overlay, classes=expected)
        after = _planned(policy, observation, seed + t)
        changed.append(len(overlay.changes_to(after)) // 2)
        overlay = after
        costs.append(cost(replace(base, classes=windows[t]), overlay))
    return costs, changed


def _planned(policy: Policy, observation: Observation, seed: int) -> Overlay:
    if not policy.planner:
        return observation.overlay
    least = policy.least * cost(observation, observation.overlay)
    planner = Ocbr(rounds=1, min_gain=least) if policy.planner == "ocbr" else Regraft(kicks=0, min_gain=least)
    try:
        return planner.solve(observation, seed).after
    except NothingBetter:
        return observation.overlay


def measured(seed: int, turnover: float, progress: Progress) -> dict[str, tuple[float, float, list[float]]]:
    """(cost / oracle, links changed per window, cost / oracle of each window) of every policy."""
    days = Days(seed=seed, turnover=turnover)
    first, windows = days.observation(), days.traffic()
    base = replace(first, overlay=Regraft(kicks=20).solve(replace(first, classes=windows[0]), seed).after)
    best = []
    for t in range(1, len(windows)):
        now = replace(first, classes=windows[t])
        best.append(cost(now, Regraft(kicks=20).solve(now, seed).after))
    skip = 2 * PERIOD  # two days to learn from
    found = {}
    for i, (name, policy) in enumerate(POLICIES.items()):
        progress(i / len(POLICIES), name)
        costs, changed = follow(policy, base, windows, seed)
        ratio = [c / b for c, b in zip(costs, best, strict=True)]
        found[name] = (sum(costs[skip:]) / sum(best[skip:]), float(np.mean(changed[skip:])), ratio)
    return found


def _figures(measured: Measured, seeds: int) -> dict[str, object]:
    cost = {(row["classes replaced"], row["policy"]): row["cost / oracle"] for row in measured.rows}
    replaced = measured.rows[0]["classes replaced"]
    known = [
        f"{planner} {cost[replaced, planner]:.3f} and {cost[replaced, f'{planner}, period known']:.3f}"
        for planner in ("ocbr", "regraft")
    ]
    return {"period": PERIOD, "hysteresis": f"{100 * HYSTERESIS:g} %", "known_period": "; ".join(known)}


@item("ocbr07/drift", "Traffic that drifts and comes back by the day", seeds=10, figures=_figures)
def drift(seeds: int, progress: Progress) -> Measured:
    """Cost against an oracle and links changed per window."""
    rows: list[Row] = []
    for turnover in (0.02, 0.0):
        runs = [measured(seed, turnover, progress) for seed in range(seeds)]
        for name in POLICIES:
            above, links = Spread.of([run[name][0] for run in runs]), Spread.of([run[name][1] for run in runs])
            rows.append(
                {
                    "classes replaced": f"{turnover:.0%}",
                    "policy": name,
                    "cost / oracle": above.mean,
                    "least": above.low,
                    "most": above.high,
                    "links changed per window": links.mean,
                }
            )
    return Measured(rows, [chart_of(rows)])


def chart_of(rows: list[Row]) -> Chart:
    """Cost against links changed, a panel for each planner and turnover."""
    points: list[Row] = []
    for row in rows:
        for planner in ("ocbr", "regraft"):
            name, _, policy = str(row["policy"]).partition(", ")
            if name in (planner, "never changed"):
                shown = "never changed" if name == "never changed" else policy or "plain"
                panel = f"{planner}, {row['classes replaced']} of the classes replaced per window"
                points.append(
                    {
                        "panel": panel,
                        "policy": shown,
                        "ratio": row["cost / oracle"],
                        "links": row["links changed per window"],
                    }
                )
    title, x_title = "Moving traffic: cost against links changed", "links changed per window"
    return Chart(
        title, points, "links", "ratio", "policy", "panel", mark="point", x_title=x_title, y_title="cost / oracle"
    )
