"""What to expect of the next window, from those before it.

OCBR07 §3 plans for the last window as if it came again. Where traffic wavers, an average over several windows is a
better guess, recent ones counting more; where it comes back by the day, the windows one, two, ... periods before
the next one are. Classes are matched by their clients; demands are averages, rounded, and a class that
rounds to none is left out.

    days = [(since + i * DAY_US, since + (i + 1) * DAY_US) for i in range(14)]
    plan = Regraft(min_gain=100).solve(expect(trace, days, Smoothing(0.3)))
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from itertools import pairwise

import numpy as np

from overlace.arrays.csr import take_groups
from overlace.arrays.hashing import distinct_groups, hash_groups
from overlace.arrays.jit import Floats, Ints
from overlace.errors import BadParameter, NotObserved
from overlace.model import Classes, Observation
from overlace.observe.known import known_in
from overlace.observe.observation import observe_with_names, sums_in
from overlace.trace.store import Trace

LEAST = 1e-3
"""What a window must weigh, beside the one that weighs most, to be looked at."""


@dataclass(frozen=True)
class Smoothing:
    """The mean of earlier windows, each weighing less than the one after it by `share`."""

    share: float = field(
        default=0.3,
        metadata={"help": "by how much a window weighs less than the next one; above 0, 1: only the last counts"},
    )
    period: int | None = field(
        default=None, metadata={"help": "windows after which traffic comes back; only those so far back count"}
    )

    def __post_init__(self) -> None:
        if not 0 < self.share <= 1:
            raise BadParameter(f"share is {self.share}; expected a number above 0 and up to 1")
        if self.period is not None and self.period < 1:
            raise BadParameter(f"period is {self.period}; expected 1 or more windows")

    def weights(self, windows: int) -> Floats:
        """What each of so many windows weighs for the next one; they add up to 1, and those too old weigh nothing.

        Until a whole period has been seen, all windows count.
        """
        age = np.arange(windows, 0, -1)
        if self.period is None or windows < self.period:
            turns, counts = age, np.ones(windows, dtype=np.bool_)
        else:
            turns, counts = age // self.period, age % self.period == 0
        weight = np.where(counts, (1 - self.share) ** (turns - 1.0), 0.0)
        weight[weight < LEAST * weight.max()] = 0.0
        return np.asarray(weight / weight.sum())

    def forecast(self, windows: Sequence[Classes]) -> Classes:
        """The classes to expect in the window after these, oldest first."""
        if not windows:
            raise NotObserved("smoothing: no window was observed yet")
        weight = self.weights(len(windows))
        used = np.flatnonzero(weight).tolist()
        return mean_classes([windows[i] for i in used], weight[used])


def expect(trace: Trace, windows: Sequence[tuple[int, int]], smoothing: Smoothing | None = None) -> Observation:
    """The observation of the last of some windows, oldest first, with the classes to expect of the next one.

    Everything else, flows too, is of the last window. A client that has no home there any more is in no class.
    """
    if not windows:
        raise NotObserved("smoothing: no window was named")
    smoothing = smoothing or Smoothing()
    weight = smoothing.weights(len(windows))
    used = np.flatnonzero(weight).tolist()
    last, known = observe_with_names(trace, windows[-1])[0], known_in(trace, windows[-1])
    seen = [sums_in(trace, windows[i], known).objects()[1] for i in used]
    return replace(last, classes=_at_home(mean_classes(seen, weight[used]), last))


def _at_home(classes: Classes, last: Observation) -> Classes:
    """The classes without the members that have no home; all of them where no home is known."""
    known = np.arange(int(classes.members.max(initial=-1)) + 1) < last.clients
    if len(last.overlay.placement):
        known &= last.overlay.homes(len(known)) >= 0
    stays = known[classes.members]
    start = np.append(0, np.cumsum(stays))[classes.start]
    return Classes(start, classes.members[stays], classes.demand, classes.bytes)


def mean_classes(windows: Sequence[Classes], weight: Floats) -> Classes:
    """The weighted mean of several windows' classes, by their clients."""
    start = np.concatenate([[0], np.cumsum(np.concatenate([np.diff(each.start) for each in windows]))]).astype(np.int64)
    members = np.concatenate([each.members for each in windows])
    hashes = hash_groups(start, members)
    group, first, clash = distinct_groups(hashes, start, members)
    if clash >= 0:  # two sets with one hash: tell them apart by their clients
        group, first = _by_members(start, members)
    scale = np.repeat(weight, [len(each) for each in windows])
    demand, size = (
        np.rint(np.bincount(group, weights=scale * np.concatenate([getattr(each, name) for each in windows])))
        for name in ("demand", "bytes")
    )
    heard = np.flatnonzero(demand > 0)
    bounds, kept = take_groups(start, members, first[heard])
    return Classes(bounds, kept, demand[heard].astype(np.int64), size[heard].astype(np.int64))


def _by_members(start: Ints, members: Ints) -> tuple[Ints, Ints]:
    known: dict[bytes, int] = {}
    keys = [members[a:b].tobytes() for a, b in pairwise(start)]
    group = np.array([known.setdefault(key, len(known)) for key in keys], dtype=np.int64)
    return group, np.unique(group, return_index=True)[1]
