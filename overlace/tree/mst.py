"""The minimum spanning tree of the links that could be wired.

The tree with the least total link cost (Kruskal; ties to what is wired, then to the lowest ids). It
does not look at the traffic, nor at degree limits: a baseline. Swaps bring in the cheapest new link first and take out
the costliest link of the loop that it closes, so the total link cost never grows on the way; the
traffic's cost may.

Keeps: a tree over all brokers after every step.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import ClassVar

import numpy as np

from overlace.arrays.components import components, spanning_forest
from overlace.arrays.jit import Ints, Pairs
from overlace.arrays.pairs import positions
from overlace.errors import BadObservation, NotObserved
from overlace.model import Changes, Facet, Network, Observation, Overlay, Plan, Progress, Steps, name_of
from overlace.tree import cost as tree_cost
from overlace.tree.swaps import swaps


@dataclass(frozen=True)
class Mst:
    """The cheapest links that join all brokers, whatever the traffic."""

    alpha: float = field(default=1.0, metadata={"help": "what a unit of link cost counts in (1); 0 or more"})
    beta: float = field(default=0.0, metadata={"help": "what a unit of broker cost counts in (1); 0 or more"})
    weight: tree_cost.Weight = field(
        default="messages", metadata={"help": "what a traffic class weighs: its messages or its bytes"}
    )
    facets: ClassVar[tuple[Facet, ...]] = ("tree",)
    paper: ClassVar[str] = ""
    REASONS: ClassVar[tuple[str, ...]] = (
        "builds the tree: {links} links that cost {total:g} together",
        "{left_broker}-{right_broker} costs {new:g} and joins what {from_broker}-{to_broker} joined for {old:g}",
    )

    def __post_init__(self) -> None:
        tree_cost.check_weights(self.alpha, self.beta)

    def solve(self, observation: Observation, seed: int = 0, *, progress: Progress | None = None) -> Plan:
        """Swap by swap from the observed tree to the minimum spanning tree."""
        network, before = observation.network, observation.overlay
        if len(before.tree):
            before.rooted(network.brokers)  # refuses what is not a tree, naming the links
        wanted = network.links[spanning_tree(network, before.tree)]
        if len(before.tree) == 0 or len(wanted) == 0:
            return self._build(observation, seed, wanted)
        old_cost, new_cost = network.costs_of(before.tree), network.costs_of(wanted)
        removed, added = swaps(before.tree, old_cost, wanted, new_cost)
        n = len(added)
        old, new = before.tree[removed], wanted[added]
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

    def _build(self, observation: Observation, seed: int, wanted: Ints) -> Plan:
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


def spanning_tree(network: Network, wired: Pairs) -> Ints:
    """The rows of the network's links that form a minimum spanning tree; of equal links the wired ones first."""
    if network.brokers == 0 or (network.brokers > 1 and len(network.links) == 0):
        raise NotObserved("tree.mst: no links to choose from. Ingest the tables brokers and links.")
    spare = positions(wired, network.links) < 0
    order = np.lexsort((network.links[:, 1], network.links[:, 0], spare, network.link_cost))
    chosen = np.flatnonzero(spanning_forest(network.brokers, network.links, order))
    if len(chosen) != network.brokers - 1:
        apart = np.unique(components(network.brokers, network.links))
        first = ", ".join(name_of("broker", int(b)) for b in apart[:5])
        raise BadObservation(
            f"tree.mst: the network's {len(network.links)} links leave {network.brokers} brokers in "
            f"{len(apart)} parts (at {first}). Add the links that could join them."
        )
    return chosen
