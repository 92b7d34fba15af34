"""Random mesh: what gossip does, links to random others of each topic. A baseline for pictures.

After libp2p's gossipsub: every subscriber of a topic, in a random order, dials random others of the topic until
it has `degree` links in it. Topics draw for themselves; a link that two of them draw is one link. Gossip can
leave a topic in parts; here the parts are then joined by links between random members, so that no plan takes a
topic apart.

Keeps: every topic connected. Diameters are small by chance, not by rule.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from overlace.arrays.components import find, join
from overlace.arrays.draws import below
from overlace.arrays.hashing import mix
from overlace.arrays.jit import Ints, kernel
from overlace.arrays.lists import add_link, are_linked, link_ends, no_links
from overlace.limits import option
from overlace.model import Observation, Plan, Progress
from overlace.planners.mesh.interests import Ids, Interests, interests_of
from overlace.planners.mesh.planner import MeshPlanner
from overlace.planners.mesh.steps import REMOVED, Wanted, mesh_plan, ordered


@dataclass(frozen=True)
class RandomMesh(MeshPlanner):
    """Random links for each topic, as gossip draws them: a baseline."""

    degree: int = option(6, "links that a client dials for in each topic", least=1)
    REASONS: ClassVar[tuple[str, ...]] = ("{links} random links of {topic}", REMOVED)

    def solve(self, observation: Observation, seed: int = 0, *, progress: Progress | None = None) -> Plan:
        """Topic by topic; then what the old mesh had beyond that goes."""
        given = interests_of(observation, "mesh.random-mesh")
        if progress:
            progress(0.0, "links")
        one, other, start = ordered(*random_links(given, self.degree, seed))
        if progress:
            progress(0.7, "steps")
        return mesh_plan(self, observation, seed, Wanted(one, other, start, {"topic": np.arange(observation.topics)}))


@kernel
def random_links(given: Interests, degree: int, seed: int) -> tuple[Ids, Ids, Ints]:
    """(one end, the other, start): links topic by topic; a pair may come up in several topics."""
    topics = len(given.first) - 1
    room = 0
    for t in range(topics):
        size = given.first[t + 1] - given.first[t]
        room += size * min(degree, size) + size
    one, other = np.empty(room, dtype=np.int32), np.empty(room, dtype=np.int32)
    start = np.zeros(topics + 1, dtype=np.int64)
    state = mix(np.uint64(seed))
    for t in range(topics):
        own = given.member[given.first[t] : given.first[t + 1]].copy()
        n = len(own)
        for i in range(n - 1, 0, -1):  # in a random order
            state = mix(state)
            k = below(state, i + 1)
            own[i], own[k] = own[k], own[i]

        links, leader = no_links(n, n * min(degree, n) + n), np.arange(n)
        for i in range(n):
            tries = 0
            while links.degree[i] < min(degree, n - 1) and tries < 8 * degree:
                state = mix(state)
                tries += 1
                j = below(state, n)
                if j != i and not are_linked(links, i, j):
                    add_link(links, i, j)
                    join(leader, i, j)

        for i in range(1, n):  # parts that are left are joined to the first
            if find(leader, i) != find(leader, 0):
                state = mix(state)
                j = below(state, i)
                while find(leader, j) == find(leader, i):
                    j = (j + 1) % n
                add_link(links, i, j)
                join(leader, i, j)

        left, right = link_ends(links)
        start[t + 1] = start[t] + len(left)
        one[start[t] : start[t + 1]], other[start[t] : start[t + 1]] = own[left], own[right]
    return one[: start[-1]], other[: start[-1]], start
