"""What degree limits cost."""

from __future__ import annotations

import numpy as np

from overlace.model import Progress
from overlace.planners.tree.regraft import Regraft
from overlace.report.charts import Row
from overlace.workloads.square import square
from reproductions.result import Result, Spread


def caps(*, seeds: int | None = None, progress: Progress | None = None) -> Result:
    """Regraft with degree limits beside regraft without."""
    count = seeds or 5
    rows: list[Row] = []
    free = []
    observations = [square(100, 400, 300, seed=seed) for seed in range(count)]
    for seed, observation in enumerate(observations):
        plan = Regraft().solve(observation, seed)
        free.append((plan.planner.cost(observation, plan.after), int(np.bincount(plan.after.tree.ravel()).max())))
    for cap in (2, 3, 4, 6, 8):
        if progress:
            progress(cap / 10, f"at most {cap} links")
        more = []
        for seed, observation in enumerate(observations):
            plan = Regraft(max_degree=cap).solve(observation, seed)
            more.append(plan.planner.cost(observation, plan.after) / free[seed][0] - 1)
        each = Spread.of(more)
        rows.append({"most links of a broker": cap, "cost above unlimited, %": 100 * each.mean, "least": 100 * each.low,
                     "most": 100 * each.high})  # fmt: skip
    top = ", ".join(str(degree) for _, degree in free)
    notes = [
        f"100 brokers, workload square, {count} seeds. Without a limit the largest degrees are {top}.",
        "By tree.regraft, which knows the whole tree and is no exact search: under a loose limit it may end lower.",
    ]
    return Result("What degree limits cost", rows, notes)
