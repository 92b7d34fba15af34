"""Beyond TDCD17: what a longer way or a spare hub costs, all planners on the first setting of Table I."""

from __future__ import annotations

from typing import Any

from overlace.model import Progress
from overlace.planners.mesh.cd_oda import CdOda
from overlace.planners.mesh.cd_oda_1 import CdOda1
from overlace.planners.mesh.greedy_merge import GreedyMerge
from overlace.planners.mesh.hub_tree import HubTree
from overlace.planners.mesh.mm_oda import MmOda
from overlace.planners.mesh.random_mesh import RandomMesh
from overlace.planners.mesh.star_cap import StarCap
from overlace.planners.mesh.two_hub import TwoHub
from overlace.report.charts import Chart
from reproductions.result import Result, Spread
from reproductions.tdcd17.runs import PRINTED, SEEDS, Setting, solved

SETTING = Setting(200, 100, 10)
PLANNERS: dict[str, Any] = {
    **PRINTED,
    "CD-ODA": CdOda(),
    "CD-ODA-I": CdOda1(),
    "GM, random ties": GreedyMerge(ties="random"),
    "MinMax-ODA": MmOda(),
    "star-cap 40": StarCap(cap=40, effort=200_000),
    "star-cap 60": StarCap(cap=60, effort=200_000),
    "hub-tree 3": HubTree(diameter=3),
    "hub-tree 4": HubTree(diameter=4),
    "hub-tree 6": HubTree(diameter=6),
    "two-hub 60": TwoHub(cap=60, effort=200_000),
    "random mesh, degree 3": RandomMesh(degree=3),
}


def diameters(*, seeds: int | None = None, progress: Progress | None = None) -> Result:
    """Average, maximum, diameter of every planner."""
    count = seeds or SEEDS
    rows: list[dict[str, Any]] = []
    for i, (name, planner) in enumerate(PLANNERS.items()):
        runs = [solved(planner, SETTING, seed) for seed in range(count)]
        average, maximum = Spread.of([r.average for r in runs]), Spread.of([r.maximum for r in runs])
        rows.append(
            {
                "mesh": name,
                "average degree": average.mean,
                "deviation": average.deviation,
                "maximum degree": maximum.mean,
                "deviation of it": maximum.deviation,
                "diameter": Spread.of([r.diameter for r in runs]).mean,
                "links": Spread.of([r.links for r in runs]).mean,
                "messages per publication": Spread.of([r.flood for r in runs]).mean,
            }
        )
        if progress:
            progress((i + 1) / len(PLANNERS), name)
    title = f"All three axes: {SETTING}"
    notes = [
        f"Mean of seeds 0 to {count - 1}. Diameter: the longest of any topic. Messages per publication: flooding the "
        "topic's subgraph, about 20 subscribers.",
        "GM and MinMax-ODA win both degrees and lose the diameter; hub-tree trades between them and the stars; two-hub "
        "survives the loss of any client. MinMax-ODA is built from its description.",
    ]
    drawn = [
        {"mesh": row["mesh"], "axis": axis, "value": row[axis]}
        for axis in ("average degree", "maximum degree", "diameter")
        for row in rows
    ]
    chart = Chart(title, drawn, "mesh", "value", panel="axis", mark="bar", x_title=" ", y_title=" ")
    return Result(title, rows, notes, [chart])
