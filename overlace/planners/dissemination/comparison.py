"""A tree beside its rivals under the same limits, and what no tree can exceed."""

from __future__ import annotations

from typing import NamedTuple

from overlace.arrays.jit import Ints
from overlace.planners.dissemination.arrange import arrange_problem
from overlace.planners.dissemination.exact import MOST, find_optimum
from overlace.planners.dissemination.greedy import (
    grow_by_bound,
    grow_shortest,
    grow_spanning,
    make_star,
)
from overlace.planners.dissemination.measures import Measures, measure
from overlace.planners.dissemination.problem import Problem
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


def compare(problem: Problem, seed: int = 0) -> Compared:
    """Arrange a tree, and grow the others."""
    return compare_with(problem, arrange_problem(problem, seed))


def add_optimum(problem: Problem, found: Compared) -> Compared:
    """The same with the exact optimum, where there are few enough peers to look at every tree."""
    if len(problem.bound) > MOST:
        return found
    best = find_optimum(problem)
    return found._replace(
        trees=found.trees | {OPTIMUM: best}, measures=found.measures | {OPTIMUM: measure(problem, best)}
    )


def compare_with(problem: Problem, parent: Ints) -> Compared:
    """A tree that is there, and the others."""
    trees = {ARRANGED: parent} | {name: grow(problem) for name, grow in RIVALS.items()}
    measures = {name: measure(problem, each) for name, each in trees.items()}
    return Compared(trees, measures, bound_met(problem))
