"""Traffic that drifts and comes back by the day, window by window.

Brokers, links, clients and the first tree are those of the unit square (`square.py`). A day has `period` windows. Each
class has an hour at which it is loudest: in a window its demand is that of its rank times 1 + swing x cos of how far
the window is from that hour, never below 0, and then drawn from a Poisson distribution, so that no two days are alike.
After each window a share `turnover` of the classes is replaced by new ones with the same rank and another hour: what
was learnt of them is worth nothing.
"""

from __future__ import annotations

from dataclasses import dataclass
from itertools import pairwise

import numpy as np

from overlace.arrays.jit import Floats, Ints
from overlace.limits import check_options, option
from overlace.model import Classes, Observation
from overlace.workloads.square import Talk, square


@dataclass(frozen=True)
class Days:
    """A workload of so many windows, the same for the same fields."""

    brokers: int = option(60, "how many brokers", least=1)
    clients: int = option(240, "how many clients", least=2)
    classes: int = option(240, "how many classes", least=1)
    windows: int = option(48, "how many windows", least=1)
    period: int = option(8, "windows of a day", least=1)
    swing: float = option(1.0, "how much louder a class is at its hour", least=0)
    turnover: float = option(0.02, "share of classes replaced after each window", least=0, most=1)
    top: int = option(2_000, "messages of the first class in an average window", least=1)
    seed: int = option(0, "same seed, same traffic", least=0)

    def __post_init__(self) -> None:
        check_options(self)

    def observation(self) -> Observation:
        """The network, the clients and the first tree; its classes are those of an average window."""
        return square(self.brokers, self.clients, self.classes, talk=Talk(top=self.top, zipf=0.8), seed=self.seed)

    def traffic(self) -> list[Classes]:
        """The classes of every window."""
        rng = np.random.default_rng([self.seed, 2])
        live, pool = self._groups(self.seed), self._groups(self.seed + 10_007)
        rank = np.arange(1, self.classes + 1)
        rate = self.top / rank**0.8
        hour = rng.random(self.classes) * self.period
        made = []
        for window in range(self.windows):
            demand = rng.poisson(rate * self._loudness(hour, window))
            made.append(_classes(live, demand))
            for k in np.flatnonzero(rng.random(self.classes) < self.turnover):
                live[k] = pool[int(rng.integers(len(pool)))]
                hour[k] = rng.random() * self.period
        return made

    def _loudness(self, hour: Floats, window: int) -> Floats:
        return np.maximum(0.0, 1 + self.swing * np.cos(2 * np.pi * (window - hour) / self.period))

    def _groups(self, seed: int) -> list[Ints]:
        """Sets of clients of this network, drawn anew for each seed."""
        base = self.observation()
        if seed == self.seed:
            classes = base.classes
            return [classes.members[a:b] for a, b in pairwise(classes.start)]
        return square_groups(base, self.classes, seed)


def square_groups(observation: Observation, classes: int, seed: int) -> list[Ints]:
    """New classes after the recipe of the unit square: clients whose brokers are cheap to link, mostly."""
    rng = np.random.default_rng(seed)
    n, homes = observation.network.brokers, observation.overlay.homes(observation.clients)
    cost = np.zeros((n, n))
    left, right = observation.network.links.T
    cost[left, right] = cost[right, left] = observation.network.link_cost
    groups = []
    for _ in range(classes):
        size = min(int(rng.integers(2, 7)), observation.clients)
        first = int(rng.integers(observation.clients))
        near = np.argsort(cost[homes[first], homes], kind="stable")[: max(8, size)]
        chosen = {first}
        while len(chosen) < size:
            pool = near if rng.random() < 0.9 else np.arange(observation.clients)
            chosen.add(int(rng.choice(pool)))
        groups.append(np.array(sorted(chosen), dtype=np.int64))
    return groups


def _classes(groups: list[Ints], demand: Ints) -> Classes:
    active = np.flatnonzero(demand > 0)
    start = np.cumsum([0, *(len(groups[k]) for k in active)])
    members = np.concatenate([*(groups[k] for k in active), np.empty(0, dtype=np.int64)])
    return Classes(start, members, demand[active], 1000 * demand[active])
