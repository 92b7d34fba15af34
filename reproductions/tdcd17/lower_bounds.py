"""Beyond TDCD17: how far from the least possible average degree are the meshes?"""

from __future__ import annotations

from overlace.model import Progress
from overlace.planners.mesh.baselines import CdOda2
from overlace.planners.mesh.greedy_merge import GreedyMerge
from overlace.planners.mesh.interests import interests_of
from overlace.planners.mesh.star_cap import StarCap, stars_under
from reproductions.result import Measured, Spread, item
from reproductions.tdcd17.least_links import least_links, least_star_links
from reproductions.tdcd17.runs import Setting, instance, solved

SEEDS = {Setting(200, 400, 10): 3, Setting(200, 200, 10): 3, Setting(200, 100, 10): 1}
"""Programmes of the last take most of a minute."""
EFFORT = 1_000_000


@item("tdcd17/bounds", "Lower bounds for the average degree")
def bounds(seeds: int, progress: Progress) -> Measured:
    """Lower bounds by linear programmes against GM (any mesh) and the best stars."""
    rows = []
    for i, (setting, published) in enumerate(SEEDS.items()):
        count = seeds or published
        any_mesh, stars = [], []
        for seed in range(count):
            observation = instance(setting, seed)
            any_mesh.append(2 * least_links(observation) / setting.clients)
            stars.append(2 * least_star_links(observation) / setting.clients)
            progress((i + (seed + 1) / count) / len(SEEDS), str(setting))
        merged = Spread.of([solved(GreedyMerge(), setting, seed).average for seed in range(count)]).mean
        dense = Spread.of([solved(CdOda2(), setting, seed).average for seed in range(count)]).mean
        free = Spread.of([_whole_stars(setting, seed) for seed in range(count)]).mean
        pruned = Spread.of([solved(StarCap(effort=EFFORT), setting, seed).average for seed in range(count)]).mean
        least, least_star = Spread.of(any_mesh).mean, Spread.of(stars).mean
        rows.append(
            {
                "setting": str(setting),
                "seeds": count,
                "any mesh: bound": least,
                "GM": merged,
                "gap": merged / least - 1,
                "stars: bound": least_star,
                "CD-ODA-II": dense,
                "star-cap, whole stars": free,
                "gap of star-cap": free / least_star - 1,
                "star-cap, pruned": pruned,
            }
        )
    return Measured(rows)


def _whole_stars(setting: Setting, seed: int) -> float:
    """The average degree of the annealed stars, all their links counted."""
    given = interests_of(instance(setting, seed), "mesh.star-cap")
    return 2 * len(stars_under(given, None, EFFORT, seed).links.leaf) / setting.clients
