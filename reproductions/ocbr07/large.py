"""Cost of trees of 20 to 1,000 brokers against the first tree, the baselines, the best known and a lower bound."""

from __future__ import annotations

import time
from collections.abc import Sequence
from itertools import combinations
from typing import NamedTuple

import numpy as np
from scipy.sparse.csgraph import minimum_spanning_tree, shortest_path

from overlace.arrays.jit import Floats
from overlace.model import Observation, Planner, Progress
from overlace.planners.tree.baselines import Mst, Star
from overlace.planners.tree.hub_safe import HubSafe
from overlace.planners.tree.ocbr import Ocbr
from overlace.planners.tree.regraft import Regraft
from overlace.planners.tree.rounds import Round
from overlace.planners.tree.setting import setting_of
from overlace.planners.tree.steps import plan_to
from overlace.report.charts import Chart, Row
from overlace.workloads.square import Talk, square
from reproductions.result import Measured, item

SIZES = {20: 5, 50: 5, 100: 5, 500: 3, 1000: 3}
"""Brokers, and how many seeds."""

KINDS: dict[str, dict[str, Talk | bool]] = {
    "metric, local": {},
    "metric, anywhere": {"talk": Talk(locality=0.0)},
    "not metric, local": {"metric": False},
    "not metric, anywhere": {"metric": False, "talk": Talk(locality=0.0)},
}


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


class Found(NamedTuple):
    """What a planner reached and what it took; rounds and what one of them takes only where there are rounds."""

    cost: float
    seconds: float  # CPU
    links: int  # changed
    rounds: int
    locks: float  # a round
    control: float  # messages a round


def measured(observation: Observation, seed: int) -> dict[str, Found]:
    """What every planner reached."""
    found = {}
    planners: dict[str, Planner] = {
        "star": Star(),
        "mst": Mst(),
        "ocbr": Ocbr(),
        "hub-safe": HubSafe(),
        "hub-safe + regraft": HubSafe(finish=True),
        "regraft": Regraft(kicks=100),
    }
    for name, planner in planners.items():
        begin = time.process_time()
        rounds: list[Round] = []
        if isinstance(planner, Ocbr | HubSafe) and not getattr(planner, "finish", False):  # what solve does, kept apart
            setting = setting_of(planner, observation)
            run = planner.run(setting, seed)
            plan, rounds = plan_to(planner, observation, seed, setting, run.links), run.rounds
        else:
            plan = planner.solve(observation, seed)
        taken = time.process_time() - begin
        locks = float(np.mean([each.locked for each in rounds])) if rounds else 0.0
        control = float(np.mean([each.control for each in rounds])) if rounds else 0.0
        cost = planner.cost(observation, plan.after)
        found[name] = Found(cost, taken, len(plan.changes) // 2, len(rounds), locks, control)
    return found


@item("ocbr07/large", "Trees of 20 to 1,000 brokers")
def large(seeds: int, progress: Progress) -> Measured:
    """Costs as multiples of the best known; rounds, links changed and seconds."""
    rows: list[Row] = []
    points: list[Row] = []
    for i, (kind, changed) in enumerate(KINDS.items()):
        for j, (brokers, usual) in enumerate(SIZES.items()):
            count = min(seeds or usual, usual)
            progress((i * len(SIZES) + j) / (len(SIZES) * len(KINDS)), f"{brokers} brokers, {kind}")
            found: dict[str, list[Found]] = {}
            ratios: dict[str, list[float]] = {}
            for seed in range(count):
                observation = square(brokers, 4 * brokers, 3 * brokers, seed=seed, **changed)  # type: ignore[arg-type]
                reached = measured(observation, seed)
                costs = {"initial": Mst().cost(observation, observation.overlay), "bound": lower_bound(observation)}
                costs |= {name: each.cost for name, each in reached.items()}
                best = min(each.cost for each in reached.values())
                for name, cost in costs.items():
                    ratios.setdefault(name, []).append(cost / best)
                for name, each in reached.items():
                    found.setdefault(name, []).append(each)
            mean = {name: float(np.mean(values)) for name, values in ratios.items()}
            rows.append(
                {"workload": kind, "brokers": brokers, "seeds": count}
                | {name: f"{value:.3f}" for name, value in mean.items()}
                | _taken({name: found[name] for name in ("ocbr", "hub-safe", "regraft")})
            )
            points += [
                {"workload": kind, "brokers": brokers, "tree": name, "ratio": mean[name]}
                for name in ("star", "mst", "ocbr", "hub-safe", "hub-safe + regraft")
            ]
    title = "Cost / best known"
    chart = Chart(title, points, "brokers", "ratio", "tree", "workload", log="xy", y_title=title.lower())
    return Measured(rows, [chart])


def _taken(found: dict[str, list[Found]]) -> dict[str, object]:
    """What some planners took, on the mean over the seeds."""
    row: dict[str, object] = {}
    for name, runs in found.items():
        each = Found(*np.mean(np.array(runs, dtype=np.float64), axis=0))
        row[f"{name}: CPU s, links"] = f"{each.seconds:.3f}, {each.links:.0f}"
        if each.rounds:
            shown = f"{each.rounds:.0f}; {each.locks:.0f}, {each.control:.0f}"
            row[f"{name}: rounds; locks, control messages a round"] = shown
    return row
