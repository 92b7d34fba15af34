"""OCBR: masters that rearrange their neighbourhoods by tabu search, in rounds with locks.

OCBR07 §3. Each master sees only its own neighbourhood and the classes that pass it (`view.py`), searches it
by Figure 3 (`tabu.py`) and acts if that lowers (1); its gain is the whole network's. Rounds follow one
another as if the same traffic came again, until a round in which every broker was asked and none found
anything better (`rounds.py`).

Keeps: a tree over candidate links; (1) falls with every rearrangement; no broker further above its limit than
it was; links that must stay; clients are leaves.
Reads: R1 to R9 (docs/papers/OCBR07.md). With `rehome` a master's own clients may go to its neighbours (R5).
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import ClassVar

import numpy as np

from overlace.errors import NothingBetter
from overlace.limits import option
from overlace.model import Facet, Observation, Plan, Progress
from overlace.planners.tree.limits import start_within_limits
from overlace.planners.tree.planner import TreePlanner
from overlace.planners.tree.problem import nodes_tree, split_nodes
from overlace.planners.tree.regraft import smallest_gain
from overlace.planners.tree.rounds import Locks, Protocol, ProtocolRun, run_rounds
from overlace.planners.tree.setting import Setting, setting_of
from overlace.planners.tree.steps import MOVED, REASONS, plan_to
from overlace.planners.tree.tabu import TabuEffort
from overlace.wording import amount


@dataclass(frozen=True)
class Ocbr(TreePlanner):
    """Brokers rearrange their neighbourhoods by tabu search, in rounds; each knows only its neighbourhood."""

    iterations: int = option(20, "iterations n of a master's search (F3:6)", least=1)
    samples: int = option(20, "swaps N looked at in each (F3:8); should grow with the largest degree (R4)", least=1)
    tenure: int | None = option(7, "iterations for which a swapped link is tabu (R3)", least=0)
    rounds: int | None = option(None, "most rounds", least=1)
    locks: Locks = option("paper", "paper: whole neighbourhoods; relaxed: masters may share a neighbour (R6)")
    rehome: bool = option(False, "a master's own clients may move to its neighbours, where caps let them (R5)")
    facets: ClassVar[tuple[Facet, ...]] = ("tree", "placement")
    paper: ClassVar[str] = "OCBR07 Figure 3"
    REASONS: ClassVar[tuple[str, ...]] = (*REASONS, MOVED)

    def solve(self, observation: Observation, seed: int = 0, *, progress: Progress | None = None) -> Plan:
        """Swap by swap from the observed tree to where the rounds lead."""
        setting = start_within_limits(setting_of(self, observation))
        run = self.run(setting, seed, progress, observation if self.rehome else None)
        if not self.rehome:
            return plan_to(self, observation, seed, setting, run.links, progress)
        wired, home = split_nodes(run.links, observation.network.brokers)
        bare = replace(self, max_swaps=None, min_gain=0.0)  # the rounds have minded them, links and clients together
        plan = plan_to(bare, observation, seed, setting, wired, progress, home=home)
        if self.min_gain > 0 and len(plan.steps) == 0:
            raise NothingBetter(
                f"no link or client that changes saves {amount(self.min_gain)} or more. Lower min_gain, or "
                "leave it all."
            )
        return replace(plan, planner=self)

    def run(
        self, setting: Setting, seed: int = 0, progress: Progress | None = None, clients: Observation | None = None
    ) -> ProtocolRun:
        """The rounds, with what happened in each; with an observation of clients these may move."""
        tenure = -1 if self.tenure is None else self.tenure
        protocol = Protocol(
            tabu=True,
            effort=TabuEffort(self.iterations, self.samples, tenure, least=smallest_gain(setting)),
            relaxed=self.locks == "relaxed",
            most=10**9 if self.max_swaps is None or not setting.built else self.max_swaps,
            fee=self.min_gain if setting.built else 0.0,
        )
        problem, links, kept = setting.problem, setting.start, setting.kept
        if clients is not None:
            problem = self.problem(clients, clients.overlay, clients=True)
            links = nodes_tree(replace(clients.overlay, tree=links), clients.network.brokers, clients.clients)
            kept = np.concatenate([kept, np.zeros(clients.clients, dtype=np.bool_)])
        return run_rounds(problem, links, kept, protocol, self.rounds, seed, progress)
