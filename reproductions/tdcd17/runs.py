"""What all items share: an instance, a planner, and the three axes of its mesh."""

from __future__ import annotations

from functools import lru_cache
from typing import NamedTuple

from overlace.model import Observation, Overlay
from overlace.planners.mesh.baselines import CdOda2, TwoDOda
from overlace.planners.mesh.greedy_merge import GreedyMerge
from overlace.planners.mesh.td_cd_oda import TdCdOda
from overlace.replay.shape import shape
from reproductions.result import FrozenPlanner
from reproductions.workloads.uniform_interests import uniform_interests

SEEDS = 10
PRINTED: dict[str, FrozenPlanner] = {
    "GM": GreedyMerge(),
    "CD-ODA-II": CdOda2(),
    "2D-ODA": TwoDOda(),
    "TD-CD-ODA": TdCdOda(),
}
"""The algorithms of the tables, by the name they have there."""


class Setting(NamedTuple):
    """How many clients, topics, and topics of each client."""

    clients: int
    topics: int
    each: int

    def __str__(self) -> str:
        return f"{self.clients} clients, {self.topics} topics, {self.each} each"


class Axes(NamedTuple):
    """Average degree, maximum degree, the longest diameter of a topic by breadth-first search; links."""

    average: float
    maximum: float
    diameter: float
    links: float
    flood: float  # messages per publication when a topic's subgraph is flooded


@lru_cache(maxsize=64)
def instance(setting: Setting, seed: int) -> Observation:
    """The instance of a seed."""
    return uniform_interests(setting.clients, setting.topics, setting.each, seed=seed)


def axes(observation: Observation, overlay: Overlay) -> Axes:
    """All three axes of a mesh; refused if a topic falls apart."""
    found = shape(observation, overlay)
    if not found.of("topic_connected"):
        raise AssertionError("a topic falls apart")
    names = ("average_degree", "max_degree", "max_diameter", "links", "flood_messages")
    return Axes(*(found.of(name) for name in names))


@lru_cache(maxsize=4096)
def solved(planner: FrozenPlanner, setting: Setting, seed: int) -> Axes:
    """The axes of what a planner makes of an instance."""
    observation = instance(setting, seed)
    return axes(observation, planner.solve(observation, seed).after)
