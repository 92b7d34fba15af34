"""A trap: every neighbourhood is as good as it can be, and the tree is far from the optimum."""

from __future__ import annotations

import numpy as np

from overlace.model import Classes, Network, Observation, Overlay, Planner, Progress
from overlace.planners.tree.exact import ExactTree
from overlace.planners.tree.hub_safe import HubSafe
from overlace.planners.tree.ocbr import Ocbr
from overlace.planners.tree.regraft import Regraft
from overlace.report.charts import Row
from reproductions.result import Measured, item


def ring(brokers: int, dear: float) -> Observation:
    """Brokers in a ring of links that cost 1, but for one that costs more; the tree lacks the cheap link opposite it.

    Each broker talks to the next. Only links of the ring could be wired, so the link that is missing joins the two
    ends of a row, which are in no neighbourhood together.
    """
    left = np.arange(brokers)
    links = np.sort(np.column_stack([left, (left + 1) % brokers]), axis=1)
    cost = np.ones(brokers)
    cost[brokers // 2 - 1] = dear
    return Observation(
        overlay=Overlay(placement=np.column_stack([left, left]), tree=links[:-1]),
        network=Network(links=links, link_cost=cost),
        classes=Classes.of([[int(v), int((v + 1) % brokers)] for v in left], np.full(brokers, 100)),
    )


@item("ocbr07/traps", "A trap for all local rearrangements")
def traps(seeds: int, progress: Progress) -> Measured:
    """Rings with a dear link."""
    rows: list[Row] = []
    for brokers in (4, 6, 8, 10, 12, 14):
        observation = ring(brokers, 10.0 * brokers)
        row: dict[str, object] = {"brokers": brokers, "dear link": 10 * brokers}
        least = ExactTree().cost(observation, ExactTree().solve(observation).after)
        planners: dict[str, Planner] = {
            "ocbr / optimum": Ocbr(samples=100, iterations=100),
            "hub-safe / optimum": HubSafe(),
            "regraft / optimum": Regraft(),
            "hub-safe + regraft / optimum": HubSafe(finish=True),
        }
        for name, planner in planners.items():
            row[name] = planner.cost(observation, planner.solve(observation).after) / least
        rows.append(row)
    return Measured(rows)
