"""Star-cap: a star for each topic, nobody above a degree cap, as few links as can be found.

Beyond TDCD17, whose star algorithms give some client a link to most of the others. Centres are chosen under the
cap (`capped.py`; without a cap that is CD-ODA-II), with `effort` they are then annealed (`hubs.py`), and links
that no topic needs for its diameter of 2 are taken out (`prune.py`). Sweeping the cap gives the frontier between
average and maximum degree (`frontier.py`).

No mesh of whole stars goes below the star bound, the subscribers of the largest topic less one; a pruned one may.
`budget` without a cap looks for the least cap whose average degree stays within the budget; where CD-ODA-II's
stars are beyond it, from TD-CD-ODA's.

Keeps: every topic has a diameter of at most 2; the cap, or NothingBetter that says what was found.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar, NamedTuple

import numpy as np

from overlace.arrays.jit import Bools, Ints, Pairs
from overlace.errors import NothingBetter
from overlace.limits import option
from overlace.model import Observation, Plan, Progress
from overlace.planners.mesh.capped import centres_under, first_centres
from overlace.planners.mesh.caps import CapTooLow, least_solved, too_low
from overlace.planners.mesh.hubs import HubLinks, anneal, degrees, hub_links
from overlace.planners.mesh.interests import Interests, interests_of
from overlace.planners.mesh.planner import MeshPlanner
from overlace.planners.mesh.prune import needed_links
from overlace.planners.mesh.stars import StarPlanner
from overlace.planners.mesh.steps import WantedLinks, mesh_plan
from overlace.planners.mesh.td_cd_oda import TdCdOda


@dataclass(frozen=True)
class StarCap(MeshPlanner):
    """A star for each topic under a degree cap: diameter 2, the maximum degree you choose, few links."""

    cap: int | None = option(None, "most links a client may have; unlimited with effort 0 is CD-ODA-II", least=1)
    effort: int = option(0, "annealing steps, each moves a centre; 0: none, and no pruning", least=0)
    budget: float | None = option(
        None, "most average degree; without a cap, the least cap within it is looked for", above=0
    )
    REASONS: ClassVar[tuple[str, ...]] = StarPlanner.REASONS

    def solve(self, observation: Observation, seed: int = 0, *, progress: Progress | None = None) -> Plan:
        """Centre by centre; then what the old mesh had beyond that goes."""
        given = interests_of(observation, "mesh.star-cap")
        if progress:
            progress(0.0, "centres")
        if self.cap is not None:
            found = stars_under(given, self.cap, self.effort, seed)
            if found.highest > self.cap:
                raise self._too_low(given, self.cap, found, seed)
        elif self.budget is not None:
            found = self._least_cap(given, seed, progress)
        else:
            found = stars_under(given, None, self.effort, seed)
        if self.budget is not None and found.average > self.budget:
            raise NothingBetter(
                f"mesh.star-cap: an average degree of {found.average:.2f} is the least found"
                f"{f' under a cap of {self.cap}' if self.cap else ''}; the budget is {self.budget:g}. "
                "Raise the budget, the cap or the effort."
            )
        if progress:
            progress(0.9, "steps")
        return star_mesh_plan(self, observation, seed, found)

    def _least_cap(self, given: Interests, seed: int, progress: Progress | None) -> StarLinks:
        """The stars under the least cap whose average is within the budget, by halving; the freest if none is."""
        best = stars_under(given, None, self.effort, seed)
        if self.budget is not None and best.average > self.budget:
            others = stars_under(given, None, self.effort, seed, start=few_subscribers(given))
            best = others if others.average < best.average else best
        if self.budget is None or best.average > self.budget:
            return best
        low, high = star_bound(given), best.highest  # what is found at high is within the budget
        tries = max((high - low).bit_length(), 1)
        for i in range(tries):
            if low >= high:
                break
            cap = (low + high) // 2
            found = stars_under(given, cap, self.effort, seed)
            if found.highest <= cap and found.average <= self.budget:
                best, high = found, found.highest
            else:
                low = cap + 1
            if progress:
                progress(0.9 * (i + 1) / tries, f"cap {cap}")
        return best

    def _too_low(self, given: Interests, cap: int, found: StarLinks, seed: int) -> CapTooLow:
        def least() -> int:
            return least_solved(lambda cap: stars_under(given, cap, self.effort, seed).highest, cap + 1, found.highest)

        return too_low("mesh.star-cap", given, cap, 2, int(np.argmax(np.diff(given.first))), least)


class StarLinks(NamedTuple):
    """Stars, and which of their links stay."""

    links: HubLinks
    kept: Bools | None  # None: all
    average: float
    highest: int


def star_bound(given: Interests) -> int:
    """The least maximum degree of any mesh of stars: the largest topic's centre."""
    return max(int(np.diff(given.first).max(initial=0)) - 1, 0)


def few_subscribers(given: Interests) -> tuple[Pairs, Ints]:
    """(hubs, order) of TD-CD-ODA's stars."""
    return first_centres(given, TdCdOda().choose(given).centre)


def stars_under(
    given: Interests, cap: int | None, effort: int, seed: int, start: tuple[Pairs, Ints] | None = None
) -> StarLinks:
    """Stars under a cap, or as near to it as was found; pruned where there is effort."""
    clients = len(given.start) - 1
    most = clients if cap is None else cap
    hubs, order = start or centres_under(given, most)
    found = hub_links(given, hubs, order)
    if effort:
        hubs, _ = anneal(given, hubs, degrees(found, clients), most, effort, seed)
        found = hub_links(given, hubs, order)
    kept, degree = None, degrees(found, clients)
    if effort:
        ends = link_ends(found)
        kept = needed_links(given, ends)
        degree = np.bincount(ends[kept].reshape(-1), minlength=clients)
    return StarLinks(found, kept, float(degree.mean()) if clients else 0.0, int(degree.max(initial=0)))


def link_ends(found: HubLinks) -> Pairs:
    """(hub, leaf) of every link."""
    return np.column_stack([np.repeat(found.hub, np.diff(found.start)), found.leaf]).astype(np.int64)


def star_mesh_plan(planner: StarCap, observation: Observation, seed: int, found: StarLinks) -> Plan:
    """The plan with a step for each centre."""
    links = found.links
    left, right, start = np.repeat(links.hub.astype(np.int32), np.diff(links.start)), links.leaf, links.start
    if found.kept is not None:
        left, right, start = left[found.kept], right[found.kept], np.append(0, np.cumsum(found.kept))[start]
    args = {"client": links.hub, "topics": links.topics}
    return mesh_plan(planner, observation, seed, WantedLinks(left, right, start, args))
