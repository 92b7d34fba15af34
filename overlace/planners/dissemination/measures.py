"""What a dissemination tree is worth: bounds met, delays, degrees."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from overlace.arrays.jit import Bools, Floats, Ints
from overlace.errors import BadPlan
from overlace.planners.dissemination.problem import TINY, Problem, find_arrivals


class Measures(NamedTuple):
    """One tree in figures; the root is no subscriber, and a share is of the subscribers that have a bound."""

    met: int  # bounds
    bounds: int  # subscribers that have one
    mean_ms: float  # delay from the root, of all subscribers
    p95_ms: float
    max_degree: int  # children
    over_degree: int  # peers with more children than their limit

    @property
    def share(self) -> float:
        """Share of bounds met; 1 where nobody has one."""
        return self.met / self.bounds if self.bounds else 1.0


def measure(problem: Problem, parent: Ints) -> Measures:
    """A tree in figures."""
    arrival = find_arrivals(problem, parent)
    check_tree(problem, parent, arrival)
    others = list_subscribers(problem)
    met = is_met(problem, arrival) & has_bound(problem)
    children = count_children(parent)
    delays = arrival[others]
    return Measures(
        met=int(met.sum()),
        bounds=int(has_bound(problem).sum()),
        mean_ms=float(delays.mean()) if len(delays) else 0.0,
        p95_ms=float(np.quantile(delays, 0.95)) if len(delays) else 0.0,
        max_degree=int(children.max()),
        over_degree=int((children > problem.degree).sum()),
    )


def check_tree(problem: Problem, parent: Ints, arrival: Floats) -> None:
    """Refuse what is no tree over all peers from the root down."""
    if len(parent) != len(problem.bound) or parent[problem.root] != -1 or np.isnan(arrival).any():
        raise BadPlan("these parents are no tree: expected -1 at the root alone, and a way from it to every peer")


def list_subscribers(problem: Problem) -> Ints:
    """All peers but the root."""
    return np.flatnonzero(np.arange(len(problem.bound)) != problem.root)


def has_bound(problem: Problem) -> Bools:
    """Which peers are subscribers with a latency bound."""
    found: Bools = np.isfinite(problem.bound) & (np.arange(len(problem.bound)) != problem.root)
    return found


def is_met(problem: Problem, arrival: Floats) -> Bools:
    """Which peers get their messages in time."""
    found: Bools = arrival <= problem.bound + TINY
    return found


def count_children(parent: Ints) -> Ints:
    """How many children each peer has."""
    return np.bincount(parent[parent >= 0], minlength=len(parent))
