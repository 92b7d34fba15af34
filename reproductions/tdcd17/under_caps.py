"""Beyond TDCD17: at diameter 2 and no more links than TD-CD-ODA, how low can the maximum degree go?"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from overlace.errors import NothingBetter
from overlace.model import Observation, Plan, Progress
from overlace.planners.mesh.baselines import CdOda2
from overlace.planners.mesh.cost import degrees_of
from overlace.planners.mesh.interests import interests_of
from overlace.planners.mesh.star_cap import StarCap, star_bound
from overlace.planners.mesh.td_cd_oda import TdCdOda
from overlace.report.charts import Chart, Row
from reproductions.result import Measured, Spread, item
from reproductions.tdcd17.runs import SEEDS, Axes, Setting, axes, instance, solved

TITLE = "Star meshes under a degree cap against TD-CD-ODA and CD-ODA-II"
EFFORT = 400_000
AIMS: dict[Setting, int | None] = {
    Setting(200, 100, 10): None,  # the largest topic and two more
    Setting(200, 200, 10): 22,
    Setting(200, 400, 10): 18,
    Setting(400, 100, 10): 80,
}
BEYOND = (0, 1, 2, 3, 4, 6, 8, 12, 16, 24, 32, 48, 64, 96)
"""Caps of the picture, above the star bound."""


def _figures(measured: Measured, seeds: int) -> dict[str, object]:
    reached = sum(row["reached"] for row in measured.rows)
    return {"reached": reached, "aims": len(measured.rows), "effort": EFFORT}


@item("tdcd17/comparison", TITLE, seeds=SEEDS, figures=_figures)
def comparison(seeds: int, progress: Progress) -> Measured:
    """mesh.star-cap within TD-CD-ODA's average degree, instance by instance; and the whole frontier."""
    rows: list[Row] = []
    drawn: list[Row] = []
    for i, (setting, aim) in enumerate(AIMS.items()):
        theirs = [solved(TdCdOda(), setting, seed) for seed in range(seeds)]
        ours = [_within(setting, seed, theirs[seed].average) for seed in range(seeds)]
        largest = [int(np.bincount(instance(setting, seed).interests[:, 1]).max()) for seed in range(seeds)]
        rows.append(_row(setting, aim, theirs, ours, largest))
        drawn += _points(setting, seeds, theirs, largest)
        progress((i + 1) / len(AIMS), str(setting))
    chart = Chart(TITLE, drawn, "maximum degree", "average degree", series="mesh", panel="setting")
    return Measured(rows, [chart])


def _within(setting: Setting, seed: int, average: float) -> Axes:
    observation = instance(setting, seed)
    return axes(observation, StarCap(budget=average, effort=EFFORT).solve(observation, seed).after)


def _row(setting: Setting, aim: int | None, theirs: list[Axes], ours: list[Axes], largest: list[int]) -> Row:
    theirs_max, ours_max = Spread.of([a.maximum for a in theirs]), Spread.of([a.maximum for a in ours])
    wanted = Spread.of(largest).mean + 2 if aim is None else float(aim)
    return {
        "setting": str(setting),
        "TD-CD-ODA average": Spread.of([a.average for a in theirs]).mean,
        "TD-CD-ODA maximum": theirs_max.mean,
        "star-cap average": Spread.of([a.average for a in ours]).mean,
        "star-cap maximum": ours_max.mean,
        "deviation": ours_max.deviation,
        "aim for the maximum": wanted,
        "reached": ours_max.mean <= wanted and all(o.average <= t.average for o, t in zip(ours, theirs, strict=True)),
        "star bound": Spread.of(largest).mean - 1,
        "diameter": max(a.diameter for a in ours),
        "lower by": 1 - ours_max.mean / theirs_max.mean,
    }


def _points(setting: Setting, seeds: int, theirs: list[Axes], largest: list[int]) -> list[Row]:
    """TD-CD-ODA, CD-ODA-II, the frontier and the star bound as means over the seeds."""
    dense = [solved(CdOda2(), setting, seed) for seed in range(seeds)]
    found: dict[int, list[tuple[float, int]]] = {}
    for seed in range(seeds):
        caps = {beyond: largest[seed] - 1 + beyond for beyond in BEYOND}
        points = frontier(instance(setting, seed), EFFORT // 4, seed, caps=[*caps.values()])
        for beyond, cap in [*caps.items(), (setting.clients, setting.clients)]:
            under = [(p.average, p.maximum) for p in points if p.maximum <= cap]
            if under:
                found.setdefault(beyond, []).append(min(under))
    line = [
        _point(setting, "star-cap: frontier", [m for _, m in points], [a for a, _ in points])
        for points in found.values()
        if len(points) == seeds
    ]
    others = [
        _point(setting, name, [a.maximum for a in each], [a.average for a in each])
        for name, each in (("TD-CD-ODA", theirs), ("CD-ODA-II", dense))
    ]
    heights = [float(row["average degree"]) for row in (*line, *others)]
    less_one = [Spread.of(largest).mean - 1]
    bound = [
        _point(setting, "star bound: largest topic less one", less_one, [height])
        for height in (min(heights), max(heights))
    ]
    return [*line, *others, *bound]


def _point(setting: Setting, mesh: str, maximum: Sequence[float], average: Sequence[float]) -> Row:
    return {
        "setting": str(setting),
        "mesh": mesh,
        "maximum degree": float(np.mean(maximum)),
        "average degree": float(np.mean(average)),
    }


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
