"""What all tree planners share: fields with help and ranges, the cost, and the way from a wanted tree to steps."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import numpy as np
from numpy.typing import ArrayLike

from overlace.arrays.jit import Pairs
from overlace.errors import BadOverlay, BadPlan
from overlace.limits import check_options, option, same_option
from overlace.model import Facet, Observation, Overlay, Plan, Planner, Progress, check_tree
from overlace.planners.search.spans import Spans
from overlace.planners.tree import cost as tree_cost
from overlace.planners.tree.problem import problem_of
from overlace.planners.tree.setting import Setting, setting_of
from overlace.planners.tree.steps import REASONS, plan_to


@dataclass(frozen=True)
class TreePlanner(Planner):
    """A planner is the tree it wants: `wanted` says which, all else stands here."""

    alpha: float = option(1.0, "weight of link costs in (1)", least=0)
    beta: float = option(0.0, "weight of broker costs in (1)", least=0)
    weight: tree_cost.Weight = option("messages", "what a traffic class weighs: its messages or its bytes")
    max_degree: int | None = option(None, "most links of a broker, besides its own limit in the table brokers", least=1)
    max_swaps: int | None = same_option("max_swaps")
    min_gain: float = option(0.0, "what each replaced link must save, even where a limit asks for it", least=0)
    keep: tuple[int, ...] = option((), "wired links between these brokers stay as they are", ids="broker")
    facets: ClassVar[tuple[Facet, ...]] = ("tree",)
    paper: ClassVar[str] = ""
    REASONS: ClassVar[tuple[str, ...]] = REASONS

    def __post_init__(self) -> None:
        check_options(self)
        tree_cost.check_weights(self.alpha, self.beta)

    def problem(self, observation: Observation, overlay: Overlay, *, clients: bool = False) -> Spans:
        """The search problem with this planner's weights and limits."""
        weights = {"alpha": self.alpha, "beta": self.beta}
        return problem_of(
            observation, overlay, **weights, weight=self.weight, max_degree=self.max_degree, clients=clients
        )

    def wanted(self, observation: Observation, setting: Setting, seed: int, progress: Progress | None = None) -> Pairs:
        """The links of the tree that the plan leads to."""
        kind, method = type(self).__name__, "def wanted(self, observation, setting, seed, progress)"
        raise NotImplementedError(f"{kind} has no method wanted; expected {method}")

    def solve(self, observation: Observation, seed: int = 0, *, progress: Progress | None = None) -> Plan:
        """Swap by swap from the observed tree to the wanted one."""
        setting = setting_of(self, observation)
        wanted = check_wanted(self.wanted(observation, setting, seed, progress), observation.network.brokers)
        return plan_to(self, observation, seed, setting, wanted, progress)

    def cost(self, observation: Observation, overlay: Overlay) -> float:
        """OCBR07 (1)."""
        return tree_cost.cost(observation, overlay, alpha=self.alpha, beta=self.beta, weight=self.weight)


def check_wanted(links: ArrayLike, brokers: int) -> Pairs:
    """What `wanted` returned as links; refused, saying why, unless it is a tree."""
    found = np.asarray(links)
    if found.size == 0 and brokers == 1:
        return np.empty((0, 2), dtype=np.int64)
    what = "None" if links is None else f"shape {found.shape}" if found.ndim != 2 or found.shape[1] != 2 else ""
    if not what and found.dtype.kind not in "iu":
        what = f"{found.dtype} values"
    if what:
        raise BadPlan(f"wanted returned {what}; expected links, rows of two brokers")
    try:
        check_tree(found.astype(np.int64), brokers)
    except BadOverlay as error:
        raise BadPlan(f"wanted returned no tree: {error}") from None
    return found
