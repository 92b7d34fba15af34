"""What degree limits cost."""

from __future__ import annotations

import numpy as np

from overlace.model import Progress
from overlace.planners.tree.regraft import Regraft
from overlace.report.charts import Row
from overlace.workloads.square import square
from reproductions.result import Measured, Spread, item


@item("ocbr07/caps", "What degree limits cost", seeds=5)
def caps(seeds: int, progress: Progress) -> Measured:
    """Regraft with degree limits against regraft without."""
    rows: list[Row] = []
    free = []
    observations = [square(100, 400, 300, seed=seed) for seed in range(seeds)]
    for seed, observation in enumerate(observations):
        plan = Regraft().solve(observation, seed)
        free.append((plan.planner.cost(observation, plan.after), int(np.bincount(plan.after.tree.ravel()).max())))
    for cap in (2, 3, 4, 6, 8):
        progress(cap / 10, f"at most {cap} links")
        more = []
        for seed, observation in enumerate(observations):
            plan = Regraft(max_degree=cap).solve(observation, seed)
            more.append(plan.planner.cost(observation, plan.after) / free[seed][0] - 1)
        each = Spread.of(more)
        rows.append(
            {
                "most links of a broker": cap,
                "cost above unlimited, %": 100 * each.mean,
                "least": 100 * each.low,
                "most": 100 * each.high,
            }
        )
    return Measured(rows, facts={"degrees": ", ".join(str(degree) for _, degree in free)})
