"""Prune and regraft over the whole tree, iterated with kicks.

Starts from the observed tree. Each swap takes out a link and joins the two parts at the best pair of brokers
(`descent.py`); when no swap pays, a few random swaps kick the tree out of its dent, and what follows is kept
if it ends lower. In networks of up to 128 brokers the search is also made from the minimum spanning tree and
from the best star, and the best of the three is taken. With `max_swaps` or `min_gain` the search itself minds
them: the number of links that differ from the observed tree is bounded, and each counts `min_gain` more.

Keeps: a tree over candidate links; degree limits, which it also restores where the observed tree breaks them;
links that must stay.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import ClassVar

import numpy as np

from overlace.arrays.components import spanning_forest
from overlace.arrays.jit import Ints, Pairs
from overlace.arrays.pairs import as_pairs, positions
from overlace.arrays.trees import root_at, subtree_costs
from overlace.errors import NothingBetter
from overlace.model import Facet, Observation, Overlay, Plan, Progress
from overlace.planners.tree import cost as tree_cost
from overlace.planners.tree import fields
from overlace.planners.tree.descent import Rules, descend, search_over, steepest
from overlace.planners.tree.kicks import keep_trying
from overlace.planners.tree.limits import relieved, within_limits
from overlace.planners.tree.problem import SPARSE, Problem, prices_of
from overlace.planners.tree.setting import Setting, setting_of
from overlace.planners.tree.star import star_costs
from overlace.planners.tree.steps import REASONS, plan_to
from overlace.planners.tree.wiring import links_of

SMALL = 128
"""Brokers up to which the best swap of all is taken; above, the best one of each link in turn."""


@dataclass(frozen=True)
class Regraft:
    """Takes links out and joins the parts where it is cheapest; knows the whole tree and all classes."""

    alpha: float = fields.alpha()
    beta: float = fields.beta()
    weight: tree_cost.Weight = fields.weight()
    kicks: int = field(default=300, metadata={"help": "how often to kick the tree and search again; 0 or more"})
    max_degree: int | None = fields.max_degree()
    max_swaps: int | None = fields.max_swaps()
    min_gain: float = fields.min_gain()
    keep: tuple[int, ...] = fields.keep()
    facets: ClassVar[tuple[Facet, ...]] = ("tree",)
    paper: ClassVar[str] = "beyond OCBR07"
    REASONS: ClassVar[tuple[str, ...]] = REASONS

    def __post_init__(self) -> None:
        fields.check_fields(self)
        fields.check_least(self, kicks=0)

    def solve(self, observation: Observation, seed: int = 0, *, progress: Progress | None = None) -> Plan:
        """Swap by swap from the observed tree to the best one found."""
        setting = setting_of(self, observation)
        wanted = regrafted(self, setting, self.kicks, seed, progress)
        return plan_to(self, observation, seed, setting, wanted, progress)

    def cost(self, observation: Observation, overlay: Overlay) -> float:
        """OCBR07 (1)."""
        return tree_cost.cost(observation, overlay, alpha=self.alpha, beta=self.beta, weight=self.weight)


def rules_of(planner: fields.TreePlanner, setting: Setting) -> Rules:
    """What a search from the observed tree must keep to."""
    p = setting.problem
    parent = root_at(p.brokers, setting.start, 0).parent
    bounded = planner.max_swaps is not None and setting.built
    most = planner.max_swaps if bounded and planner.max_swaps is not None else len(p.toll)
    return Rules(setting.kept, p.cap, parent, most, planner.min_gain if setting.built else 0.0)


def regrafted(
    planner: fields.TreePlanner, setting: Setting, kicks: int, seed: int, progress: Progress | None = None,
    start: Pairs | None = None,
) -> Pairs:  # fmt: skip
    """The links of the best tree found, from the observed tree or from another one with the same slots that stay."""
    p = setting.problem
    if len(setting.start) == 0:
        return setting.start
    rules = rules_of(planner, setting)
    least = smallest_gain(setting)
    random: Ints = np.random.default_rng(seed).integers(0, 2**62, 1)
    chains = [setting.start] if start is None else [in_slots(setting, start)]
    small = p.brokers <= SMALL
    if small and start is None and kicks and rules.most >= p.brokers:
        chains += other_starts(setting)
    best, found = np.inf, chains[0]
    for i, links in enumerate(chains):
        search = search_over(p, links, rules)
        relieved(setting, search, rules)
        if start is None and (small or rules.most < p.brokers):
            steepest(p, search, rules, least)
        descend(p, search, rules, least, True)
        reached: Pairs = links_of(search.wiring)
        for k in range(0, kicks, 50):
            if progress:
                progress(0.9 * (i + k / kicks) / len(chains), "kicks")
            reached, _ = keep_trying(p, reached, rules, least, min(50, kicks - k), random)
        total = total_cost(p, reached) + rules.fee * int((positions(setting.start, as_pairs(reached)) < 0).sum())
        if total < best - least:
            best, found = total, reached
    return found


def total_cost(p: Problem, links: Pairs) -> float:
    """(1) of a tree, what is the same in all trees left out."""
    tree = root_at(p.brokers, links, 0)
    rise = np.zeros(p.brokers)
    below = tree.link >= 0
    rise[below] = prices_of(p, links)[tree.link[below]]
    return float(p.weight @ subtree_costs(tree, rise, p.toll, p.start, p.terminal))


def other_starts(setting: Setting) -> list[Pairs]:
    """The minimum spanning tree and the best star, within the limits, where they can be."""
    p = setting.problem
    left, right = np.triu_indices(p.brokers, 1)
    pairs = np.column_stack([left, right])
    price = prices_of(p, pairs)
    order = np.argsort(price, kind="stable")
    trees = [pairs[spanning_forest(p.brokers, pairs, order[np.isfinite(price[order])])]]
    if p.kind != SPARSE:
        hub = int(np.argmin(star_costs(p)))
        trees.append(pairs[(pairs == hub).any(axis=1)])
    found = []
    for tree in trees:
        try:
            found.append(in_slots(setting, within_limits(setting, tree)))
        except NothingBetter:
            continue
    return found


def in_slots(setting: Setting, links: Pairs) -> Pairs:
    """Another tree's links, those that must stay in the slots they have in the first tree."""
    links = as_pairs(np.sort(links, axis=1))
    stays = positions(setting.start[setting.kept], links) >= 0
    placed = np.empty_like(setting.start)
    placed[setting.kept] = links[stays]
    placed[~setting.kept] = links[~stays]
    return placed


def smallest_gain(setting: Setting) -> float:
    """What counts as a gain and not as rounding."""
    p = setting.problem
    top = p.link_price.max(initial=0.0) if len(p.price) == 0 else p.price[np.isfinite(p.price)].max(initial=0.0)
    return 1e-11 * float(p.weight.sum() * (top + p.toll.max(initial=0.0)) * max(1, len(p.toll)) ** 0.5) + 1e-300
