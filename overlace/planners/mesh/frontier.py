"""The frontier of star meshes: for each maximum degree the least average degree that was found."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from overlace.arrays.jit import Pairs
from overlace.errors import NothingBetter
from overlace.model import Observation, Plan, Progress
from overlace.planners.mesh.interests import interests_of
from overlace.planners.mesh.star_cap import StarCap, star_bound


class Point(NamedTuple):
    """A mesh that no other of the sweep beats in both degrees."""

    average: float
    maximum: int
    plan: Plan


def frontier(
    observation: Observation,
    effort: int = 100_000,
    seed: int = 0,
    *,
    caps: Sequence[int] | None = None,
    progress: Progress | None = None,
) -> list[Point]:
    """Non-dominated (average, maximum) points with their plans, the lowest maximum first.

    Sweeps the cap: those given, or a dozen from the star bound to what stars without a cap reach.
    """
    free = StarCap(effort=effort).solve(observation, seed)
    swept = caps if caps is not None else sweep(observation, degrees_of(observation, free.after.mesh)[1])
    found = [Point(*degrees_of(observation, free.after.mesh), free)]
    for i, cap in enumerate(swept):
        try:
            plan = StarCap(cap=cap, effort=effort).solve(observation, seed)
        except NothingBetter:
            continue
        found.append(Point(*degrees_of(observation, plan.after.mesh), plan))
        if progress:
            progress((i + 1) / len(swept), f"cap {cap}")
    best: list[Point] = []
    for point in sorted(found, key=lambda p: (p.maximum, p.average)):
        if not best or point.average < best[-1].average:
            best.append(point)
    return best


def sweep(observation: Observation, most: int, points: int = 12) -> list[int]:
    """Caps from the star bound to most, close together at first."""
    least = max(star_bound(interests_of(observation, "mesh.star-cap")), 1)
    near = [least + i for i in range(4)]
    far = np.geomspace(least + 4, max(most, least + 5), max(points - 4, 2))
    return sorted({cap for cap in [*near, *map(int, far)] if cap <= max(most, least)})


def degrees_of(observation: Observation, mesh: Pairs) -> tuple[float, int]:
    """Average and maximum degree over all clients."""
    degree = np.bincount(mesh.reshape(-1), minlength=1)
    return 2 * len(mesh) / max(observation.clients, 1), int(degree.max())
