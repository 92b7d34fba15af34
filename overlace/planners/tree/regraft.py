"""Prune and regraft over the whole tree, iterated with kicks: the search with links alone.

Starts from the observed tree. Each swap takes out a link and joins the two parts at the best pair of brokers
(`search/links.py`); with `max_swaps` at a price that falls until they are used. When no swap pays, a few random swaps
kick the tree out of its dent, and what follows is kept if it ends lower. In networks of up to 128 brokers the search is
also made from the minimum spanning tree and from the best star, and the best of the three is taken. `max_swaps` and
`min_gain` bind the search itself: the number of links that differ from the observed tree is bounded, and each counts
`min_gain` more.

Keeps: a tree over candidate links; degree limits, which it also restores where the observed tree breaks them;
links that must stay.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from overlace.arrays.jit import Pairs
from overlace.limits import option
from overlace.model import Observation, Progress
from overlace.planners.search.find import find_links
from overlace.planners.search.walk import Budget, Search, State
from overlace.planners.tree.limits import relieve_brokers
from overlace.planners.tree.planner import TreePlanner
from overlace.planners.tree.setting import Setting, search_problem


@dataclass(frozen=True)
class Regraft(TreePlanner):
    """Takes links out and joins the parts where it is cheapest; knows the whole tree and all classes."""

    kicks: int = option(300, "how often to kick the tree and search again", least=0)
    paper: ClassVar[str] = "beyond OCBR07"

    def wanted(self, observation: Observation, setting: Setting, seed: int, progress: Progress | None = None) -> Pairs:
        """The best tree found."""
        return regraft_tree(self, observation, setting, self.kicks, seed, progress)


def regraft_tree(
    planner: TreePlanner,
    observation: Observation,
    setting: Setting,
    kicks: int,
    seed: int,
    progress: Progress | None = None,
    start: Pairs | None = None,
) -> Pairs:
    """The links of the best tree found, from the observed tree or from another one."""
    if len(setting.start) == 0:
        return setting.start
    search = Search(search_problem(planner, observation, setting))
    budget = Budget() if planner.max_swaps is None or not setting.built else Budget(swaps=planner.max_swaps)
    begin = setting.start if start is None else np.sort(start, axis=1)
    search.goto(State(search.home, begin))
    begin = relieve_brokers(setting, begin, search.rules(min(budget.swaps, len(begin)), search.problem.least))
    search.goto(State(search.home, begin))
    return find_links(search, budget, kicks, seed, progress).links


def smallest_gain(setting: Setting) -> float:
    """What counts as a gain and not as rounding."""
    p = setting.problem
    price = p.wires.price if len(p.wires.price) else p.wires.each
    top = price[np.isfinite(price)].max(initial=0.0)
    return 1e-11 * float(p.weight.sum() * (top + p.toll.max(initial=0.0)) * max(1, len(p.toll)) ** 0.5) + 1e-300
