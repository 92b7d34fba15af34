"""OCBR's protocol with a local step that leaves no hub as it was.

Masters lock and rearrange their neighbourhoods in rounds as in OCBR07 §3.1 (`rounds.py`), but each finds the
cheapest tree over a neighbourhood of up to nine nodes, and takes swaps until none pays in a larger one
(`local.py`); OCBR's tabu search looks at a few random swaps and hardly changes a large star (R4). The step is
not random, so a master that found nothing asks again only when its neighbours have changed.

Keeps: a tree over candidate links; no broker further above its limit than it was; links that must stay.
Knows, at each master, a neighbourhood and the classes that pass it.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from overlace.arrays.jit import Pairs
from overlace.limits import option
from overlace.model import Observation, Progress
from overlace.planners.tree.limits import start_within_limits
from overlace.planners.tree.planner import TreePlanner
from overlace.planners.tree.regraft import regraft_tree, smallest_gain
from overlace.planners.tree.rounds import Locks, Protocol, ProtocolRun, run_rounds
from overlace.planners.tree.setting import Setting
from overlace.planners.tree.tabu import TabuEffort


@dataclass(frozen=True)
class HubSafe(TreePlanner):
    """OCBR's rounds with an exact or regrafting local step; each master knows only its neighbourhood."""

    rounds: int | None = option(None, "most rounds", least=1)
    locks: Locks = option("relaxed", "paper: whole neighbourhoods; relaxed: masters may share a neighbour")
    finish: bool = option(False, "regraft over the whole tree when the rounds are over (knows the whole tree)")
    paper: ClassVar[str] = "OCBR07 §3.1"

    def wanted(self, observation: Observation, setting: Setting, seed: int, progress: Progress | None = None) -> Pairs:
        """Where the rounds lead."""
        setting = start_within_limits(setting)
        links = self.run(setting, seed, progress).links
        if self.finish:
            links = regraft_tree(self, observation, setting, 0, seed, progress, links)
        return links

    def run(self, setting: Setting, seed: int = 0, progress: Progress | None = None) -> ProtocolRun:
        """The rounds, with what happened in each."""
        protocol = Protocol(
            tabu=False,
            effort=TabuEffort(iterations=0, samples=0, tenure=-1, least=smallest_gain(setting)),
            relaxed=self.locks == "relaxed",
            most=len(setting.start) if self.max_swaps is None or not setting.built else self.max_swaps,
            fee=self.min_gain if setting.built else 0.0,
        )
        return run_rounds(setting.problem, setting.start, setting.kept, protocol, self.rounds, seed, progress)
