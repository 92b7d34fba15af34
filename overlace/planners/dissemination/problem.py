"""What a dissemination tree is arranged for: delays between peers, a latency bound and a degree limit for each.

PART10 §3.2 leaves the algorithm to a paper that is not at hand, so ours is a reconstruction. A degree limit is the
peer's bandwidth: how many copies of a message it can send on, that is, the most children it may have; the link to its
own parent, over which it receives, does not count. The root's own limit is its own entry.

What a dissemination tree is worth: bounds met, delays, degrees.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from overlace.arrays.jit import Bools, Floats, Ints, kernel
from overlace.errors import BadParameter, BadPlan

TINY = 1e-9
"""Milliseconds by which sums of the same delays may differ: a message that is so late is in time."""


class TreeProblem(NamedTuple):
    """Peers 0 to n - 1, one of which is the root: where messages of the channel come from."""

    delay: Floats  # (n, n) ms, from row to column; may differ by direction
    bound: Floats  # ms from the root; inf: none. The root's is never looked at
    degree: Ints  # the most children
    root: int


def make_problem(delay: Any, bound: Any, degree: Any, root: int = 0) -> TreeProblem:
    """A problem from plain arrays, one number standing for all peers; refused unless some tree keeps all limits."""
    delays = np.ascontiguousarray(delay, dtype=np.float64)
    if delays.ndim != 2 or delays.shape[0] != delays.shape[1]:
        raise BadParameter(f"delays of shape {delays.shape}: expected a square matrix, a row and a column a peer")
    peers = len(delays)
    if not 0 <= root < peers:
        raise BadParameter(f"root {root}: expected a peer, 0 to {peers - 1}")
    apart = ~np.eye(peers, dtype=np.bool_)
    refuse_delay(delays, np.isnan(delays) & apart, "is missing")
    refuse_delay(delays, np.isinf(delays) & apart, "is infinite")
    refuse_delay(delays, (delays < 0) & apart, "is negative")
    bounds, degrees = per_peer("bounds", bound, peers), per_peer("degrees", degree, peers)
    if np.isnan(bounds).any():
        at = int(np.argmax(np.isnan(bounds)))
        raise BadParameter(f"the bound of peer {at} is missing: expected milliseconds, or inf for none")
    if not (np.isfinite(degrees) & (degrees >= 0) & (degrees == np.floor(degrees))).all():
        at = int(np.argmin(np.isfinite(degrees) & (degrees >= 0) & (degrees == np.floor(degrees))))
        raise BadParameter(f"the degree of peer {at} is {degrees[at]:g}: expected a whole number, 0 or more")
    limits = np.minimum(degrees, peers).astype(np.int64)
    if peers > 1 and limits[root] < 1:
        raise BadParameter(
            f"the root, peer {root}, has degree 0: nobody else could be reached. Allow it at least one child."
        )
    if int(limits.sum()) < peers - 1:
        raise BadParameter(
            f"all degrees together are {limits.sum()}, and {peers - 1} peers need a parent: no tree keeps these "
            "limits. Raise some of them."
        )
    return TreeProblem(np.where(apart, delays, 0.0), bounds, limits, int(root))


def per_peer(what: str, given: Any, peers: int) -> Floats:
    """One number a peer, from one for all or from as many."""
    values = np.asarray(given, dtype=np.float64)
    if values.ndim == 0:
        return np.full(peers, float(values))
    if values.shape != (peers,):
        raise BadParameter(f"{what} of shape {values.shape}: expected one number, or one for each of {peers} peers")
    return np.ascontiguousarray(values)


def refuse_delay(delays: Floats, wrong: Bools, how: str) -> None:
    """Name the first of the delays that are wrong."""
    if wrong.any():
        i, j = (int(each[0]) for each in np.nonzero(wrong))
        raise BadParameter(
            f"the delay from peer {i} to peer {j} {how} ({delays[i, j]:g}): expected milliseconds, 0 or more"
        )


@kernel
def find_shortest(delay: Floats, root: int) -> Floats:
    """The shortest delay from the root to each peer through any others, whatever their degrees."""
    n = len(delay)
    reach = np.full(n, np.inf)
    reach[root] = 0.0
    open_ = np.ones(n, dtype=np.bool_)
    for _ in range(n):
        at, least = -1, np.inf
        for v in range(n):
            if open_[v] and reach[v] < least:
                at, least = v, reach[v]
        if at < 0:
            break
        open_[at] = False
        for v in range(n):
            if open_[v] and least + delay[at, v] < reach[v]:
                reach[v] = least + delay[at, v]
    return reach


def find_arrivals(problem: TreeProblem, parent: Ints) -> Floats:
    """Milliseconds from the root to each peer along a tree."""
    return arrivals(problem.delay, np.asarray(parent, dtype=np.int64))


@kernel
def arrivals(delay: Floats, parent: Ints) -> Floats:
    """Milliseconds from the root, whose parent is -1, to each peer; nan where no way leads to the root."""
    n = len(parent)
    found = np.full(n, np.nan)
    stack = np.empty(n, dtype=np.int64)
    for v in range(n):
        high, x = 0, v
        while x >= 0 and np.isnan(found[x]) and high < n:
            stack[high] = x
            high += 1
            x = parent[x]
        if x >= 0 and np.isnan(found[x]):
            continue  # a ring
        while high > 0:
            high -= 1
            x = stack[high]
            up = parent[x]
            found[x] = 0.0 if up < 0 else found[up] + delay[up, x]
    return found


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


def measure(problem: TreeProblem, parent: Ints) -> Measures:
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


def check_tree(problem: TreeProblem, parent: Ints, arrival: Floats) -> None:
    """Refuse what is no tree over all peers from the root down."""
    if len(parent) != len(problem.bound) or parent[problem.root] != -1 or np.isnan(arrival).any():
        raise BadPlan("these parents are no tree: expected -1 at the root alone, and a way from it to every peer")


def list_subscribers(problem: TreeProblem) -> Ints:
    """All peers but the root."""
    return np.flatnonzero(np.arange(len(problem.bound)) != problem.root)


def has_bound(problem: TreeProblem) -> Bools:
    """Which peers are subscribers with a latency bound."""
    found: Bools = np.isfinite(problem.bound) & (np.arange(len(problem.bound)) != problem.root)
    return found


def is_met(problem: TreeProblem, arrival: Floats) -> Bools:
    """Which peers get their messages in time."""
    found: Bools = arrival <= problem.bound + TINY
    return found


def count_children(parent: Ints) -> Ints:
    """How many children each peer has."""
    return np.bincount(parent[parent >= 0], minlength=len(parent))
