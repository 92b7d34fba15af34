"""A tree beside its rivals under the same limits, and what no tree can exceed.

Delays drift: a tree is planned on one set of measurements and judged on another.

A search prefers links that looked fast when they were measured, some by luck; later they are as slow as others. So what
a plan promises is reported beside what it keeps, and the star, which chooses nothing, is the control: what it loses,
it loses to the drift alone. (Planning for tighter bounds was tried and dropped: with margins of 5 to 30 % it kept more
about as often as it kept less. What misleads a search is not a lack of slack but links that looked better than they
are; measuring them more often would help.)
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from overlace.arrays.jit import Floats, Ints
from overlace.errors import BadParameter
from overlace.planners.dissemination.arrange import arrange_problem
from overlace.planners.dissemination.baselines import (
    grow_by_bound,
    grow_shortest,
    grow_spanning,
    make_star,
)
from overlace.planners.dissemination.exact import MOST, find_optimum
from overlace.planners.dissemination.problem import Measures, TreeProblem, find_arrivals, has_bound, is_met, measure
from overlace.planners.dissemination.upper import Ceiling, bound_met

ARRANGED, STAR, OPTIMUM = "arranged", "star (control)", "exact optimum"
RIVALS = {
    "greedy by bound": grow_by_bound,
    "shortest-path tree": grow_shortest,
    "minimum spanning tree": grow_spanning,
    STAR: make_star,
}


class Compared(NamedTuple):
    """Trees by name, ours first, each with its figures; and the most bounds that any could meet."""

    trees: dict[str, Ints]
    measures: dict[str, Measures]
    ceiling: Ceiling

    @property
    def upper(self) -> float:
        """The share of bounds that no tree within the limits exceeds."""
        bounds = self.measures[ARRANGED].bounds
        return self.ceiling.most / bounds if bounds else 1.0


def compare(problem: TreeProblem, seed: int = 0) -> Compared:
    """Arrange a tree, and grow the others."""
    return compare_with(problem, arrange_problem(problem, seed))


def add_optimum(problem: TreeProblem, found: Compared) -> Compared:
    """The same with the exact optimum, where there are few enough peers to look at every tree."""
    if len(problem.bound) > MOST:
        return found
    best = find_optimum(problem)
    return found._replace(
        trees=found.trees | {OPTIMUM: best}, measures=found.measures | {OPTIMUM: measure(problem, best)}
    )


def compare_with(problem: TreeProblem, parent: Ints) -> Compared:
    """A tree that is there, and the others."""
    trees = {ARRANGED: parent} | {name: grow(problem) for name, grow in RIVALS.items()}
    measures = {name: measure(problem, each) for name, each in trees.items()}
    return Compared(trees, measures, bound_met(problem))


def measure_again(delay: Floats, sigma: float, seed: int) -> Floats:
    """Delays as another measurement finds them: each times its own lognormal factor of median 1."""
    if not (np.isfinite(sigma) and sigma >= 0):
        raise BadParameter(f"sigma is {sigma:g}: expected 0 or more")
    noise: Floats = np.asarray(delay) * np.random.default_rng(seed).lognormal(0.0, sigma, np.shape(delay))
    return noise


class BoundShares(NamedTuple):
    """What a tree promised on the delays it was planned on, and what holds on later ones; shares of all bounds."""

    promised: float
    kept: float  # in time later, whether promised or not
    held: float  # share of the promises that hold


def judge_later(problem: TreeProblem, parent: Ints, later: Floats) -> BoundShares:
    """A tree on the delays of its problem and on later ones."""
    after = problem._replace(delay=np.ascontiguousarray(later))
    promise = is_met(problem, find_arrivals(problem, parent)) & has_bound(problem)
    holds = is_met(after, find_arrivals(after, parent)) & has_bound(problem)
    promises = int(promise.sum())
    held = float((promise & holds).sum() / promises) if promises else 1.0
    return BoundShares(measure(problem, parent).share, measure(after, parent).share, held)


def judge_drift(problem: TreeProblem, sigma: float, seed: int) -> tuple[BoundShares, BoundShares]:
    """(plan, star): measure the delays of a problem twice, make both on the first and judge them on the second."""
    first, later = (measure_again(problem.delay, sigma, 2 * seed + i) for i in range(2))
    known = problem._replace(delay=first)
    arranged, star = arrange_problem(known, seed), make_star(known)
    return judge_later(known, arranged, later), judge_later(known, star, later)
