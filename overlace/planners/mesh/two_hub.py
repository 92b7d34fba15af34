"""Two-hub: every topic survives the loss of any client.

Each topic has k hubs and every subscriber is linked to all of them, the hubs to one another. Take any k - 1 clients
away, and of every topic a hub is left that joins the others. With k = 2 that is the loss of any one client; the
diameter of a topic is at most 2, before and after. A topic with no more than k subscribers is linked throughout.

Hubs are chosen topic by topic, the largest first: the subscribers with most links to the others already, of
these the least linked. With `effort` they are annealed (`hubs.py`), under the cap if there is one.

Keeps: no client whose loss takes a topic apart; the cap, or NothingBetter that says what was found.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from overlace.arrays.jit import Ints, Pairs, kernel
from overlace.limits import option
from overlace.model import Observation, Plan, Progress
from overlace.planners.mesh.capped import choose_hub, no_loads, put_hub
from overlace.planners.mesh.caps import least_solved, too_low
from overlace.planners.mesh.hubs import HubLinks, anneal, degrees, hub_links, hubs_of
from overlace.planners.mesh.interests import Interests, interests_of
from overlace.planners.mesh.planner import MeshPlanner
from overlace.planners.mesh.steps import REMOVED, WantedLinks, mesh_plan


@dataclass(frozen=True)
class TwoHub(MeshPlanner):
    """Several hubs for each topic, so that no client's loss takes a topic apart: diameter 2, twice the links."""

    hubs: int = option(2, "hubs of each topic; it survives the loss of one fewer", least=1)
    cap: int | None = option(None, "most links a client may have", least=1)
    effort: int = option(100_000, "annealing steps, each moves a hub; 0: none", least=0)
    REASONS: ClassVar[tuple[str, ...]] = ("{client} becomes a hub of {topics} topics: {links} new links", REMOVED)

    def solve(self, observation: Observation, seed: int = 0, *, progress: Progress | None = None) -> Plan:
        """Hub by hub; then what the old mesh had beyond that goes."""
        given = interests_of(observation, "mesh.two-hub")
        most = observation.clients if self.cap is None else self.cap
        if progress:
            progress(0.0, "hubs")
        found, highest = self._hubs_under(given, most, seed)
        if highest > most:

            def least() -> int:
                return least_solved(lambda cap: self._hubs_under(given, cap, seed)[1], most + 1, highest)

            raise too_low("mesh.two-hub", given, most, 2, int(np.argmax(np.diff(given.first))), least)
        if progress:
            progress(0.9, "steps")
        left = np.repeat(found.hub.astype(np.int32), np.diff(found.start))
        args = {"client": found.hub, "topics": found.topics}
        return mesh_plan(self, observation, seed, WantedLinks(left, found.leaf, found.start, args))

    def _hubs_under(self, given: Interests, cap: int, seed: int) -> tuple[HubLinks, int]:
        """(links, maximum degree) of the hubs found under a cap."""
        clients = len(given.start) - 1
        hubs, order = hubs_by_size(given, self.hubs, cap)
        found = hub_links(given, hubs, order)
        if self.effort:
            hubs, _ = anneal(given, hubs, degrees(found, clients), cap, self.effort, seed)
            found = hub_links(given, hubs, order)
        return found, int(degrees(found, clients).max(initial=0))


@kernel
def hubs_by_size(given: Interests, slots: int, cap: int) -> tuple[Pairs, Ints]:
    """(hubs, order): the hubs of each topic, -1 where it has too few subscribers; topics, the largest first."""
    clients, topics = len(given.start) - 1, len(given.first) - 1
    subscribers = np.diff(given.first)
    hubs, loads = hubs_of(np.full((topics, slots), -1, dtype=np.int64), clients), no_loads(given, slots)
    order = np.argsort(-subscribers, kind="mergesort")
    for t in order:
        for j in range(min(slots, subscribers[t])):
            put_hub(given, hubs, loads, t, j, choose_hub(given, hubs, loads, t, cap))
    return hubs.client, order
