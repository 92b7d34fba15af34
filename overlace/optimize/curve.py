"""The gain curve where a plan is judged: what the traffic costs after its first steps.

A plan can be stopped after any step. What it has brought by then is measured as the whole plan is: the overlay after
so many steps is replayed on the traffic that judges. Short plans are measured after every step. Of longer ones, the
points are spread as much over what the planner expects of the steps as over the steps: a steep beginning is seen too.

Keeps: the first point is today and the last is the whole plan, with the figures that judged them.
Reads: how many points there are follows from the size of the traffic, never from a clock: plan.json has stable bytes.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pyarrow as pa

from overlace.arrays.jit import Ints
from overlace.metrics import Metrics
from overlace.model import Steps
from overlace.observe.later import Later
from overlace.replay.measure import measure
from overlace.trace.judgement import Point
from overlace.trace.plan_tables import Columns, count_changes
from overlace.trace.tables import groups

MOST, LEAST = 24, 8
"""Points of a curve, both ends among them: as many where the traffic is small, and where it is large."""
WORK = 30_000_000
"""Rows, receivers and clients that the points between the ends may cost together: about three seconds."""
KEPT = ("link_messages", "mean_hops", "mean_latency_us", "local_share", "max_broker_load", "cut_share_max")
"""What is kept of each point beside what counts and what it costs."""


def curve_of(
    later: Later, columns: Columns, unit: str, metric: str, cost: float, ends: tuple[Metrics, Metrics]
) -> list[Point]:
    """The curve of a plan on later traffic; cost is the planner's own at first, ends are what was measured already."""
    observation, rows = later.observation, later.rows()
    changes, steps = columns
    if not len(steps) or not (ends[0].metric == metric).any():
        return []
    own = cost - np.append(0.0, np.cumsum(steps.gain))
    overlay, done, found = observation.overlay, 0, []
    for k in points_of(steps, how_many(rows, observation.clients)).tolist():
        end = int(steps.start[k])
        overlay, done = overlay.apply(changes.between(done, end)), end
        metrics = measure(later.stage, later.overlay(overlay), rows, unit) if 0 < k < len(steps) else ends[k > 0]
        so_far = count_changes(changes.between(0, end))
        kept = _keep_measured(metrics, (metric, "total_cost", "cost", *KEPT))
        found.append(Point(steps=k, moves=so_far.moves, links=so_far.links, own_cost=float(own[k]), metrics=kept))
    return found


def how_many(rows: pa.Table, clients: int) -> int:
    """Points that such traffic allows."""
    start, _ = groups(rows["receivers"])
    each = rows.num_rows + int(start[-1] - start[0]) + clients
    return int(np.clip(2 + WORK // max(each, 1), LEAST, MOST))


def points_of(steps: Steps, most: int) -> Ints:
    """Numbers of steps from none to all: each there is, or at most so many, spread over steps and gain alike."""
    total = len(steps)
    if total < most:
        return np.arange(total + 1)
    gain = np.abs(steps.gain)
    way = np.append(0.0, np.cumsum(1 / total + gain / (gain.sum() or 1.0)))
    return np.unique(np.searchsorted(way, np.linspace(0.0, way[-1], most)))


def _keep_measured(metrics: Metrics, names: Sequence[str]) -> dict[str, float]:
    """Those that were measured; where access has a cost, cost is with it."""
    known = [name for name in dict.fromkeys(names) if (metrics.metric == name).any()]
    return {name: metrics.of(name) for name in known if name != "cost" or "total_cost" not in known}
