"""Cost of trees of 20 to 1,000 brokers beside the first tree, the baselines, the best known and a lower bound."""

from __future__ import annotations

import time
from collections.abc import Sequence
from itertools import combinations

import numpy as np
from scipy.sparse.csgraph import minimum_spanning_tree, shortest_path

from overlace.arrays.jit import Floats
from overlace.model import Observation, Planner, Progress
from overlace.reproduce.result import Chart, Result, Row
from overlace.tree.hub_safe import HubSafe
from overlace.tree.mst import Mst
from overlace.tree.ocbr import Ocbr
from overlace.tree.regraft import Regraft
from overlace.tree.setting import setting_of
from overlace.tree.star import Star
from overlace.tree.steps import plan_to
from overlace.workloads.square import square

SIZES = {20: 5, 50: 5, 100: 5, 500: 2, 1000: 1}
"""Brokers, and how many seeds."""

KINDS: dict[str, dict[str, float | bool]] = {
    "metric, local": {}, "metric, anywhere": {"locality": 0.0}, "not metric, local": {"metric": False},
    "not metric, anywhere": {"metric": False, "locality": 0.0},
}  # fmt: skip


def lower_bound(observation: Observation) -> float:
    """What all classes would pay if each had a tree of its own, or less.

    A class at two or three brokers pays the least path or the least star of paths; for more, the dearest three
    of them and half a spanning tree (k / (2 (k - 1)) of it) are bounds for the Steiner tree.
    """
    n, links = observation.network.brokers, observation.network.links
    cost = np.zeros((n, n))
    cost[links[:, 0], links[:, 1]] = cost[links[:, 1], links[:, 0]] = observation.network.link_cost
    apart: Floats = shortest_path(cost, directed=False)
    homes = observation.overlay.homes(observation.clients)
    classes, total = observation.classes, 0.0
    for k in range(len(classes)):
        ends = np.unique(homes[classes.members[classes.start[k] : classes.start[k + 1]]])
        total += float(classes.demand[k]) * _steiner_bound(apart, ends.tolist())
    return total


def _steiner_bound(apart: Floats, ends: Sequence[int]) -> float:
    if len(ends) < 2:
        return 0.0
    if len(ends) == 2:
        return float(apart[ends[0], ends[1]])
    three = max(float(apart[list(some)].sum(axis=0).min()) for some in combinations(ends, 3))
    if len(ends) == 3:
        return three
    spanning = float(minimum_spanning_tree(apart[np.ix_(ends, ends)]).sum())
    return max(three, spanning * len(ends) / (2 * (len(ends) - 1)))


def measured(observation: Observation, seed: int) -> dict[str, tuple[float, float, int, int]]:
    """(cost, CPU seconds, links changed, rounds) of every planner."""
    found = {}
    planners: dict[str, Planner] = {
        "star": Star(), "mst": Mst(), "ocbr": Ocbr(), "hub-safe": HubSafe(), "hub-safe + regraft": HubSafe(finish=True),
        "regraft": Regraft(kicks=100),
    }  # fmt: skip
    for name, planner in planners.items():
        begin = time.process_time()
        rounds = 0
        if isinstance(planner, Ocbr | HubSafe) and not getattr(planner, "finish", False):  # what solve does, kept apart
            setting = setting_of(planner, observation)
            run = planner.run(setting, seed)
            plan, rounds = plan_to(planner, observation, seed, setting, run.links), len(run.rounds)
        else:
            plan = planner.solve(observation, seed)
        taken = time.process_time() - begin
        found[name] = (planner.cost(observation, plan.after), taken, len(plan.changes) // 2, rounds)
    return found


def large(*, seeds: int | None = None, progress: Progress | None = None) -> Result:
    """Costs as multiples of the best known; rounds, links changed and seconds."""
    rows: list[Row] = []
    points: list[Row] = []
    for i, (kind, changed) in enumerate(KINDS.items()):
        for j, (brokers, usual) in enumerate(SIZES.items()):
            count = min(seeds or usual, usual)
            sums: dict[str, list[tuple[float, float, int, int]]] = {}
            ratios: dict[str, list[float]] = {}
            for seed in range(count):
                if progress:
                    progress((i * len(SIZES) + j) / (len(SIZES) * len(KINDS)), f"{brokers} brokers, {kind}")
                observation = square(brokers, 4 * brokers, 3 * brokers, seed=seed, **changed)  # type: ignore[arg-type]
                found = measured(observation, seed)
                best = min(each[0] for each in found.values())
                initial = Mst().cost(observation, observation.overlay)
                bound = lower_bound(observation)
                for name, cost in {"initial": initial, "bound": bound}.items():
                    ratios.setdefault(name, []).append(cost / best)
                for name, each in found.items():
                    ratios.setdefault(name, []).append(each[0] / best)
                    sums.setdefault(name, []).append(each)
            mean = {name: float(np.mean(values)) for name, values in ratios.items()}
            row: dict[str, object] = {"workload": kind, "brokers": brokers, "seeds": count}
            row |= {name: f"{value:.3f}" for name, value in mean.items()}
            for name in ("ocbr", "hub-safe", "regraft"):
                _, seconds, links, rounds = np.mean(np.array(sums[name], dtype=np.float64), axis=0)
                row[f"{name}: CPU s, links, rounds"] = f"{seconds:.3f}, {links:.0f}" + (
                    f", {rounds:.0f}" if rounds else ""
                )
            rows.append(row)
            points += [
                {"workload": kind, "brokers": brokers, "tree": name, "ratio": mean[name]}
                for name in ("star", "mst", "ocbr", "hub-safe", "hub-safe + regraft")
            ]
    notes = [
        "Costs as multiples of the best known tree (the least of all planners); means over the seeds. `bound` is what "
        "classes would pay if each had a tree of its own: no one tree can be cheaper.",
        "Workload square: brokers in the unit square, cost 1 + distance in hundredths (or 1 to 101 by chance: not "
        "metric), 4 clients and 3 classes a broker, Zipf demands, locality 0.9 or 0, a random recursive tree to start "
        "from. OCBR: n = 20, N = 20, tenure 7. CPU seconds are of whole plans with their steps, one thread.",
        "Star, mst, regraft and the bound know the whole tree; a master of OCBR and hub-safe knows its neighbourhood.",
        "500 brokers have 2 seeds and 1,000 one, the others 5.",
    ]
    chart = Chart(
        "Cost / best known", points, "brokers", "ratio", series="tree", panel="workload", log="xy",
        y_title="cost / best known",
    )  # fmt: skip
    return Result("Trees of 20 to 1,000 brokers", rows, notes, [chart])
