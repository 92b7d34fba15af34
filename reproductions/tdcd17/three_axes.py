"""Beyond TDCD17: what a longer way or a spare hub costs, all planners on the first setting of Table I."""

from __future__ import annotations

from overlace.model import Progress
from overlace.planners.mesh.baselines import CdOda, CdOda1, MmOda, RandomMesh
from overlace.planners.mesh.greedy_merge import GreedyMerge
from overlace.planners.mesh.hub_tree import HubTree
from overlace.planners.mesh.star_cap import StarCap
from overlace.planners.mesh.two_hub import TwoHub
from overlace.report.charts import Chart, Row
from reproductions.result import FrozenPlanner, Measured, Spread, item
from reproductions.tdcd17.runs import PRINTED, SEEDS, Setting, solved

SETTING = Setting(200, 100, 10)
PLANNERS: dict[str, FrozenPlanner] = {
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


def _figures(measured: Measured, seeds: int) -> dict[str, object]:
    def first(axis: str, sign: int) -> str:
        return str(min(measured.rows, key=lambda row: sign * row[axis])["mesh"])

    return {
        "members": SETTING.clients * SETTING.each // SETTING.topics,
        "average": first("average degree", 1),
        "maximum": first("maximum degree", 1),
        "diameter": first("diameter", -1),
    }


@item("tdcd17/diameters", f"All three axes: {SETTING}", seeds=SEEDS, figures=_figures)
def diameters(seeds: int, progress: Progress) -> Measured:
    """Average, maximum, diameter of every planner."""
    rows: list[Row] = []
    for i, (name, planner) in enumerate(PLANNERS.items()):
        runs = [solved(planner, SETTING, seed) for seed in range(seeds)]
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
        progress((i + 1) / len(PLANNERS), name)
    title = f"All three axes: {SETTING}"
    drawn = [
        {"mesh": row["mesh"], "axis": axis, "value": row[axis]}
        for axis in ("average degree", "maximum degree", "diameter")
        for row in rows
    ]
    chart = Chart(title, drawn, "mesh", "value", panel="axis", mark="bar", x_title=" ", y_title=" ")
    return Measured(rows, [chart])
