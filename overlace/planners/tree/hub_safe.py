"""OCBR's protocol with a local step that leaves no hub as it was.

Masters lock and rearrange their neighbourhoods in rounds as in OCBR07 §3.1 (`rounds.py`), but each finds the
cheapest tree over a neighbourhood of up to nine nodes, and takes swaps until none pays in a larger one
(`local.py`); OCBR's tabu search looks at a few random swaps and hardly changes a large star (R4). The step is
not random, so a master that found nothing asks again only when its neighbours have changed.

Keeps: a tree over candidate links; no broker further above its limit than it was; links that must stay.
Knows, at each master, a neighbourhood and the classes that pass it.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import ClassVar

from overlace.model import Facet, Observation, Overlay, Plan, Progress
from overlace.planners.tree import cost as tree_cost
from overlace.planners.tree import fields
from overlace.planners.tree.limits import begun
from overlace.planners.tree.regraft import regrafted, smallest_gain
from overlace.planners.tree.rounds import Locks, Protocol, Run, run_rounds
from overlace.planners.tree.setting import Setting, setting_of
from overlace.planners.tree.steps import REASONS, plan_to


@dataclass(frozen=True)
class HubSafe:
    """OCBR's rounds with an exact or regrafting local step; each master knows only its neighbourhood."""

    alpha: float = fields.alpha()
    beta: float = fields.beta()
    weight: tree_cost.Weight = fields.weight()
    rounds: int | None = field(default=None, metadata={"help": "most rounds; 1 or more"})
    locks: Locks = field(
        default="relaxed", metadata={"help": "paper: whole neighbourhoods; relaxed: masters may share a neighbour"}
    )
    finish: bool = field(
        default=False, metadata={"help": "regraft over the whole tree when the rounds are over (knows the whole tree)"}
    )
    max_degree: int | None = fields.max_degree()
    max_swaps: int | None = fields.max_swaps()
    min_gain: float = fields.min_gain()
    keep: tuple[int, ...] = fields.keep()
    facets: ClassVar[tuple[Facet, ...]] = ("tree",)
    paper: ClassVar[str] = "OCBR07 §3.1"
    REASONS: ClassVar[tuple[str, ...]] = REASONS

    def __post_init__(self) -> None:
        fields.check_fields(self)
        fields.check_least(self, rounds=1)

    def solve(self, observation: Observation, seed: int = 0, *, progress: Progress | None = None) -> Plan:
        """Swap by swap from the observed tree to where the rounds lead."""
        setting = begun(setting_of(self, observation))
        links = self.run(setting, seed, progress).links
        if self.finish:
            links = regrafted(self, observation, setting, 0, seed, progress, links)
        return plan_to(self, observation, seed, setting, links, progress)

    def run(self, setting: Setting, seed: int = 0, progress: Progress | None = None) -> Run:
        """The rounds, with what happened in each."""
        most = len(setting.start) if self.max_swaps is None else self.max_swaps
        protocol = Protocol(False, 0, 0, -1, self.locks == "relaxed", most, self.min_gain, smallest_gain(setting))
        return run_rounds(setting.problem, setting.start, setting.kept, protocol, self.rounds, seed, progress)

    def cost(self, observation: Observation, overlay: Overlay) -> float:
        """OCBR07 (1)."""
        return tree_cost.cost(observation, overlay, alpha=self.alpha, beta=self.beta, weight=self.weight)
