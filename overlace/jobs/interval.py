"""How sure a saving is: replayed slice by slice over time, and drawn again from the slices.

Slices are whole days where the judging part has at least five, else pieces of equal length. The interval holds
95 % of the savings of 2,000 draws of as many slices, with replacement; a day's ups and downs stay together.
Where the log is long enough, plans made at earlier times (rolling origins), each judged on the days until the next,
lend their days, and the interval is widened to hold that of all of them: it then also knows how much plans of this
kind differ.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise

import numpy as np
import pyarrow as pa

from overlace.arrays.jit import Floats
from overlace.model import Observation, Overlay
from overlace.observe.known import Known
from overlace.observe.traffic import traffic_of
from overlace.replay.measure import measure
from overlace.trace.plans import Sure
from overlace.trace.store import DAY_US, Trace

DRAWS = 2_000
PIECES = 10


def slices_of(window: tuple[int, int], bucket_us: int, daily: bool = False) -> list[tuple[int, int]]:
    """Days (where there are five, or always), or else up to ten pieces of whole buckets."""
    begin, end = window
    if daily or end - begin >= 5 * DAY_US:
        edges = [begin, *range((begin // DAY_US + 1) * DAY_US, end, DAY_US), end]
    else:
        width = max(1, -(-(end - begin) // (PIECES * bucket_us))) * bucket_us
        edges = [*range(begin, end, width), end]
    return [(a, b) for a, b in pairwise(edges) if b > a]


def sums_of(
    observation: Observation, trace: Trace, window: tuple[int, int], before: Overlay, after: Overlay, metric: str,
    *, known: Known | None = None, daily: bool = False,
) -> Floats:  # fmt: skip
    """(before, after) of each slice of a window that holds traffic; `known` are the observation's numbers."""
    sums = []
    for each in slices_of(window, trace.bucket_us, daily):
        rows = traffic_of(trace, each, known)
        if rows.num_rows:
            sums.append([_total(observation, overlay, rows, trace.unit, metric) for overlay in (before, after)])
    return np.array(sums, dtype=np.float64).reshape(-1, 2)


def saving(judged: Floats, earlier: Sequence[Floats] = ()) -> Sure:
    """What slices say of a plan; with those that judged plans from earlier origins the interval can only grow."""
    count, origins = len(judged) + sum(map(len, earlier)), 1 + len(earlier)
    if judged[:, 0].sum() <= 0:
        return Sure(share=0.0, low=0.0, high=0.0, slices=count, origins=origins)
    share = float(_share(judged.sum(axis=0, keepdims=True))[0])
    ends = [share]
    for slices in (judged, np.concatenate([judged, *earlier])):
        rng = np.random.default_rng(0)
        drawn = slices[rng.integers(0, len(slices), (DRAWS, len(slices)))].sum(axis=1)
        ends += np.quantile(_share(drawn[drawn[:, 0] > 0]), [0.025, 0.975]).tolist()
    return Sure(share=share, low=min(ends), high=max(ends), slices=count, origins=origins)


def _share(sums: Floats) -> Floats:
    return np.asarray(1 - sums[:, 1] / sums[:, 0], dtype=np.float64)


def _total(observation: Observation, overlay: Overlay, rows: pa.Table, unit: str, metric: str) -> float:
    """The metric as a sum: a mean per delivery counts for all its deliveries."""
    metrics = measure(observation, overlay, rows, unit)
    value = metrics.of(metric)
    return value * metrics.of("deliveries") if metric.startswith("mean_") else value
