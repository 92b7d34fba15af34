"""The minimum spanning tree of the links that could be wired.

The tree with the least total link cost (Kruskal; ties to what is wired, then to the lowest ids). It
does not look at the traffic: a baseline. Swaps bring in the cheapest new link first and take out the
costliest link of the loop that it closes; the traffic's cost may grow on the way.

Keeps: a tree over all brokers after every step. With degree limits or links that must stay, the tree is changed
until it keeps them; then, and with more than 128 brokers, the swaps come in the order of `order.py`, whose gains
are found by difference.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from overlace.arrays.jit import Pairs
from overlace.model import Changes, Facet, Observation, Overlay, Plan, Progress, Steps
from overlace.tree import cost as tree_cost
from overlace.tree import fields
from overlace.tree.limits import within_limits
from overlace.tree.setting import all_links, setting_of, spanning_tree
from overlace.tree.steps import REASONS, plan_to
from overlace.tree.swaps import swaps

SMALL = 128
"""Brokers up to which each step's cost is worked out anew."""


@dataclass(frozen=True)
class Mst:
    """The cheapest links that join all brokers, whatever the traffic."""

    alpha: float = fields.alpha()
    beta: float = fields.beta()
    weight: tree_cost.Weight = fields.weight()
    max_degree: int | None = fields.max_degree()
    max_swaps: int | None = fields.max_swaps()
    min_gain: float = fields.min_gain()
    keep: tuple[int, ...] = fields.keep()
    facets: ClassVar[tuple[Facet, ...]] = ("tree",)
    paper: ClassVar[str] = ""
    REASONS: ClassVar[tuple[str, ...]] = (
        "builds the tree: {links} links that cost {total:g} together",
        "{left_broker}-{right_broker} costs {new:g} and joins what {from_broker}-{to_broker} joined for {old:g}",
        *REASONS,
    )

    def __post_init__(self) -> None:
        fields.check_fields(self)

    def solve(self, observation: Observation, seed: int = 0, *, progress: Progress | None = None) -> Plan:
        """Swap by swap from the observed tree to the minimum spanning tree."""
        setting = setting_of(self, observation)
        network, before = observation.network, observation.overlay
        cheapest = all_links(network)[spanning_tree(network, before.tree)]
        wanted = within_limits(setting, cheapest)
        limited = self.min_gain > 0 or bool((setting.problem.cap < network.brokers).any()) or len(self.keep) > 0
        if limited or network.brokers > SMALL:
            return plan_to(self, observation, seed, setting, wanted, progress, first_reason=2)
        if len(before.tree) == 0 or len(cheapest) == 0:
            return self._build(observation, seed, cheapest)
        old_cost, new_cost = network.costs_of(before.tree), network.costs_of(cheapest)
        removed, added = swaps(before.tree, old_cost, cheapest, new_cost)
        n = len(added) if self.max_swaps is None else min(len(added), self.max_swaps)
        removed, added = removed[:n], added[:n]
        old, new = before.tree[removed], cheapest[added]
        rows = np.stack([old, new], axis=1).reshape(-1, 2)
        changes = Changes(
            np.ones(2 * n), np.tile([-1, 1], n), rows[:, 0], rows[:, 1]
        )  # brokers must never see a loop, so the old link goes first
        args = {
            "left_broker": new[:, 0], "right_broker": new[:, 1], "new": new_cost[added],
            "from_broker": old[:, 0], "to_broker": old[:, 1], "old": old_cost[removed],
            "links": np.zeros(n, dtype=np.int64), "total": np.zeros(n),
        }  # fmt: skip
        gain = np.empty(n)
        here = self.cost(observation, before)
        overlay = before
        for i in range(n):
            overlay = overlay.apply(changes.between(2 * i, 2 * i + 2))
            there = self.cost(observation, overlay)
            gain[i], here = here - there, there
            if progress:
                progress((i + 1) / n, "swaps")
        steps = Steps(np.arange(0, 2 * n + 1, 2), gain, np.ones(n), args)
        return Plan(self, seed, before, overlay, changes, steps)

    def _build(self, observation: Observation, seed: int, wanted: Pairs) -> Plan:
        """All links in one step, where there is no tree yet."""
        before = observation.overlay
        changes = Changes.of("tree", 1, wanted)
        after = before.apply(changes)
        if len(wanted) == 0:
            return Plan(self, seed, before, after, changes, Steps())
        total = observation.network.costs_of(wanted).sum()
        none = [0]
        args = {
            "links": [len(wanted)], "total": [total], "new": [0.0], "old": [0.0],
            "left_broker": none, "right_broker": none, "from_broker": none, "to_broker": none,
        }  # fmt: skip
        gain = self.cost(observation, before) - self.cost(observation, after)
        steps = Steps([0, len(wanted)], [gain], [0], {k: np.asarray(v) for k, v in args.items()})
        return Plan(self, seed, before, after, changes, steps)

    def cost(self, observation: Observation, overlay: Overlay) -> float:
        """OCBR07 (1)."""
        return tree_cost.cost(observation, overlay, alpha=self.alpha, beta=self.beta, weight=self.weight)
