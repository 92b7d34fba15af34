"""How sure a saving is: replayed slice by slice over time, and drawn again from the slices.

Slices are whole days where the traffic that judges has at least five, several days each where it has more than thirty,
else pieces of equal length. The interval holds 95 % of the savings of 2,000 draws of as many slices, with replacement;
a day's ups and downs stay together.
Plans made at earlier times (rolling origins), each judged on the rest of the training window, lend their slices, and
the interval is widened to hold that of all of them: it then also knows how much plans of this kind differ.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise

import numpy as np
import pyarrow as pa
from scipy.stats import t as student

from overlace.arrays.jit import Floats
from overlace.model import Observation, Overlay
from overlace.observe.later import Later
from overlace.replay.measure import measure
from overlace.trace.judgement import Interval
from overlace.trace.store import DAY_US

DRAWS = 2_000
PIECES, MOST = 10, 30
"""Slices of a short part, and of a long one, about."""


def slices_of(window: tuple[int, int], bucket_us: int, daily: bool = False, most: int = MOST) -> list[tuple[int, int]]:
    """Days (where there are five, or always), several together where there are many; else pieces of whole buckets."""
    begin, end = window
    if daily or end - begin >= 5 * DAY_US:
        several = -(-(end - begin) // (most * DAY_US)) * DAY_US
        edges = [begin, *range((begin // DAY_US + 1) * DAY_US, end, several), end]
    else:
        width = max(1, -(-(end - begin) // (PIECES * bucket_us))) * bucket_us
        edges = [*range(begin, end, width), end]
    return [(a, b) for a, b in pairwise(edges) if b > a]


def sums_of(
    later: Later, before: Overlay, after: Overlay, unit: str, metric: str, slices: Sequence[tuple[int, int]]
) -> Floats:
    """(before, after) of each slice of time that holds traffic; the overlays are those of the stage."""
    sums = []
    for begin, end in slices:
        which = np.flatnonzero((later.traffic.bucket >= begin) & (later.traffic.bucket < end))
        if len(which):
            rows = later.rows(which)
            sums.append([total(later.stage, overlay, rows, unit, metric) for overlay in (before, after)])
    return np.array(sums, dtype=np.float64).reshape(-1, 2)


def saving(judged: Floats, earlier: Sequence[Floats] = ()) -> Interval:
    """What slices say of a plan; with those that judged plans from earlier origins the interval can only grow."""
    count, origins = len(judged) + sum(map(len, earlier)), 1 + len(earlier)
    if judged[:, 0].sum() <= 0:
        return Interval(share=0.0, low=0.0, high=0.0, slices=count, origins=origins)
    share = float(_share(judged.sum(axis=0, keepdims=True))[0])
    ends = [share]
    for slices in (judged, np.concatenate([judged, *earlier])):
        rng = np.random.default_rng(0)
        drawn = slices[rng.integers(0, len(slices), (DRAWS, len(slices)))].sum(axis=1)
        ends += np.quantile(_share(drawn[drawn[:, 0] > 0]), [0.025, 0.975]).tolist()
    return Interval(share=share, low=min(ends), high=max(ends), slices=count, origins=origins)


def expect_saving(earlier: Sequence[Floats]) -> Interval | None:
    """What plans from earlier times say of one that has not been judged; None where there are none.

    The traffic that followed each is cut into four stretches of about equal cost. Another stretch is expected among
    those with 95 % where their shares differ as draws of one normal distribution do; days after each other are too much
    alike to be drawn one by one.
    """
    sums = [each for each in earlier if len(each) and each[:, 0].sum() > 0]
    if not sums:
        return None
    share = float(_share(np.concatenate(sums).sum(axis=0, keepdims=True))[0])
    shares = np.concatenate([_share(_stretches(each)) for each in sums])
    count, reach = len(shares), 1.0
    if count > 1:
        reach = float(student.ppf(0.975, count - 1) * shares.std(ddof=1) * np.sqrt(1 + 1 / count))
    return Interval(
        share=share, low=share - reach, high=min(1.0, share + reach), slices=sum(map(len, sums)), origins=len(sums)
    )


STRETCHES = 4


def _stretches(sums: Floats) -> Floats:
    """Slices in order, added up to a few stretches of about equal cost."""
    paid = np.cumsum(sums[:, 0])
    place = np.minimum((STRETCHES * (paid - sums[:, 0] / 2) / paid[-1]).astype(np.int64), STRETCHES - 1)
    found = np.zeros((STRETCHES, 2))
    np.add.at(found, place, sums)
    return found[found[:, 0] > 0]


def _share(sums: Floats) -> Floats:
    return np.asarray(1 - sums[:, 1] / sums[:, 0], dtype=np.float64)


def total(observation: Observation, overlay: Overlay, rows: pa.Table, unit: str, metric: str) -> float:
    """A metric as a sum: a mean per delivery counts for all its deliveries."""
    metrics = measure(observation, overlay, rows, unit)
    if "latency" in metric and metric not in metrics:
        observation.network.check_measured(overlay.tree)
    value = metrics.of(metric)
    return value * metrics.of("deliveries") if metric.startswith("mean_") else value
