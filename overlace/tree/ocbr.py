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

from dataclasses import dataclass, field, replace
from typing import ClassVar

import numpy as np

from overlace.arrays.jit import Ints, Pairs
from overlace.model import Changes, Facet, Observation, Overlay, Plan, Progress, Steps
from overlace.tree import cost as tree_cost
from overlace.tree import fields
from overlace.tree.problem import nodes_tree, problem_of
from overlace.tree.regraft import smallest_gain
from overlace.tree.rounds import Locks, Protocol, Run, run_rounds
from overlace.tree.setting import Setting, setting_of
from overlace.tree.steps import REASONS, plan_to

MOVES = len(REASONS)


@dataclass(frozen=True)
class Ocbr:
    """Brokers rearrange their neighbourhoods by tabu search, in rounds; each knows only its neighbourhood."""

    alpha: float = fields.alpha()
    beta: float = fields.beta()
    weight: tree_cost.Weight = fields.weight()
    iterations: int = field(default=20, metadata={"help": "iterations n of a master's search (F3:6); 1 or more"})
    samples: int = field(
        default=20,
        metadata={"help": "swaps N looked at in each (F3:8); should grow with the largest degree (R4); 1 or more"},
    )
    tenure: int | None = field(
        default=7, metadata={"help": "iterations for which a swapped link is tabu (R3); 0 or more"}
    )
    rounds: int | None = field(default=None, metadata={"help": "most rounds; 1 or more"})
    locks: Locks = field(
        default="paper", metadata={"help": "paper: whole neighbourhoods; relaxed: masters may share a neighbour (R6)"}
    )
    rehome: bool = field(
        default=False, metadata={"help": "a master's own clients may move to its neighbours, where caps let them (R5)"}
    )
    max_degree: int | None = fields.max_degree()
    max_swaps: int | None = fields.max_swaps()
    min_gain: float = fields.min_gain()
    keep: tuple[int, ...] = fields.keep()
    facets: ClassVar[tuple[Facet, ...]] = ("tree", "placement")
    paper: ClassVar[str] = "OCBR07 Figure 3"
    REASONS: ClassVar[tuple[str, ...]] = (*REASONS, "{moved_client} moves from {from_broker} to {to_broker}: {saved:g}")

    def __post_init__(self) -> None:
        fields.check_fields(self)
        fields.check_least(self, iterations=1, samples=1, tenure=0, rounds=1)

    def solve(self, observation: Observation, seed: int = 0, *, progress: Progress | None = None) -> Plan:
        """Swap by swap from the observed tree to where the rounds lead."""
        setting = setting_of(self, observation)
        run = self.run(setting, seed, progress, observation if self.rehome else None)
        if not self.rehome:
            return plan_to(self, observation, seed, setting, run.links, progress)
        wired, homes = parted(run.links, observation.network.brokers)
        return _with_moves(self, observation, seed, wired, homes, progress)

    def run(
        self, setting: Setting, seed: int = 0, progress: Progress | None = None, clients: Observation | None = None
    ) -> Run:
        """The rounds, with what happened in each; with an observation of clients these may move."""
        protocol = Protocol(
            True, self.iterations, self.samples, -1 if self.tenure is None else self.tenure, self.locks == "relaxed",
            10**9 if self.max_swaps is None else self.max_swaps, self.min_gain, smallest_gain(setting),
        )  # fmt: skip
        problem, links, kept = setting.problem, setting.start, setting.kept
        if clients is not None:
            problem = problem_of(
                clients, clients.overlay, alpha=self.alpha, beta=self.beta, weight=self.weight,
                max_degree=self.max_degree, clients=True,
            )  # fmt: skip
            links = nodes_tree(replace(clients.overlay, tree=links), clients.network.brokers, clients.clients)
            kept = np.concatenate([kept, np.zeros(clients.clients, dtype=np.bool_)])
        return run_rounds(problem, links, kept, protocol, self.rounds, seed, progress)

    def cost(self, observation: Observation, overlay: Overlay) -> float:
        """OCBR07 (1)."""
        return tree_cost.cost(observation, overlay, alpha=self.alpha, beta=self.beta, weight=self.weight)


def parted(links: Pairs, brokers: int) -> tuple[Pairs, Ints]:
    """(tree, homes): the links between brokers, and the broker of each client's node."""
    links = np.sort(links, axis=1)
    leaf = links[:, 1] >= brokers
    homes = np.empty(int(leaf.sum()), dtype=np.int64)
    homes[links[leaf, 1] - brokers] = links[leaf, 0]
    return np.ascontiguousarray(links[~leaf]), homes


def _with_moves(
    planner: Ocbr, observation: Observation, seed: int, wired: Pairs, homes: Ints, progress: Progress | None
) -> Plan:
    """Swaps and moves of clients; first those that lose less on the way."""
    before = observation.overlay
    placed = np.column_stack([np.arange(len(homes)), homes])
    swaps_first = plan_to(planner, observation, seed, setting_of(planner, observation), wired, progress)
    last = _moves(planner, observation, seed, swaps_first.after, placed)
    there = replace(observation, overlay=replace(before, placement=placed))
    first = _moves(planner, observation, seed, before, placed)
    swaps_last = plan_to(planner, there, seed, setting_of(planner, there), wired, progress)
    ways = [_joined(swaps_first, last), _joined(first, swaps_last)]
    worst = [np.cumsum(np.append(0.0, plan.steps.gain)).min() for plan in ways]
    return ways[0] if worst[0] >= worst[1] else ways[1]


def _moves(planner: Ocbr, observation: Observation, seed: int, before: Overlay, placed: Pairs) -> Plan:
    """One step for each client that moves, in order of their ids."""
    movers = np.flatnonzero(before.homes(len(placed)) != placed[:, 1])
    old = before.homes(len(placed))[movers]
    rows = np.column_stack([movers, old, movers, placed[movers, 1]]).reshape(-1, 2)
    n = len(movers)
    changes = Changes(np.zeros(2 * n), np.tile([-1, 1], n), rows[:, 0], rows[:, 1])
    costs = [planner.cost(observation, before)]
    overlay = before
    for i in range(n):
        overlay = overlay.apply(changes.between(2 * i, 2 * i + 2))
        costs.append(planner.cost(observation, overlay))
    gain = -np.diff(costs)
    names = "left_broker right_broker links one_client other_client more messages".split()
    args = {name: np.zeros(n, dtype=np.int64) for name in names} | {"saved": gain, "most": np.zeros(n)}
    args |= {"moved_client": movers, "from_broker": old, "to_broker": placed[movers, 1]}
    return Plan(
        planner, seed, before, overlay, changes, Steps(np.arange(0, 2 * n + 1, 2), gain, np.full(n, MOVES), args)
    )


def _joined(one: Plan, two: Plan) -> Plan:
    """One plan after the other."""

    def padded(plan: Plan) -> dict[str, np.ndarray]:
        return {"moved_client": np.zeros(len(plan.steps), dtype=np.int64), **plan.steps.args}

    a, b = padded(one), padded(two)
    args = {name: np.concatenate([a[name], b[name]]) for name in a if name in b}
    start = np.concatenate([one.steps.start, two.steps.start[1:] + one.steps.start[-1]])
    steps = Steps(
        start, np.concatenate([one.steps.gain, two.steps.gain]),
        np.concatenate([one.steps.reason, two.steps.reason]), args,
    )  # fmt: skip
    return Plan(one.planner, one.seed, one.before, two.after, Changes.joined([one.changes, two.changes]), steps)
