"""The demo: a generated system, planned, with every step explained.

Sites of a company joined one after the other and each dialled some site that was there before; most
traffic is local. The demo observes that, plans a cheaper tree and shows both.
"""

from __future__ import annotations

from pathlib import Path
from typing import NamedTuple

from overlace.catalog import PLANNERS
from overlace.jobs.solve import Solved, solve
from overlace.model import Names, Observation, Progress
from overlace.planfile import load_plan
from overlace.report.figures import save, tree_picture
from overlace.run import write_observation
from overlace.tree.mst import Mst
from overlace.workloads.square import square

SITES = (
    "aachen basel como dijon essen fulda gent hagen imola jena kassel liege milan nancy olten parma "
    "reims sion trier ulm vaduz worms xanten zug"
).split()


class Demo(NamedTuple):
    """What the demo made, and where."""

    observation: Observation
    solved: Solved
    picture: Path


def demo(out: Path, *, seed: int = 0, force: bool = False, progress: Progress | None = None) -> Demo:
    """Make the observation, solve, and write observation, plan and picture into OUT."""
    observation = square(len(SITES), 96, 200, seed=seed)
    homes = observation.overlay.homes(observation.clients)
    names: Names = {"broker": SITES, "client": [f"{SITES[b]}-{c}" for c, b in enumerate(homes)]}
    write_observation(out, observation, names, force=force)
    solved = solve(Mst(), observation, out, names, seed=seed, force=force, progress=progress)
    plan, document = load_plan(solved.folder, PLANNERS), solved.document
    panels = {
        f"before: cost {document.cost_before:,.0f}": plan.before,
        f"after {len(plan.steps)} swaps: cost {document.cost_after:,.0f}": plan.after,
    }
    picture = out / "overlay.svg"
    save(tree_picture(observation, panels, names), picture)
    return Demo(observation, solved, picture)
