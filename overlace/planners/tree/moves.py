"""Plans that move clients as well as links: OCBR07 R5.

Swaps and moves are carried out one kind after the other, in the order that loses less on the way. What a move saves
is found by difference, over the classes of its client only.
"""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from overlace.arrays.csr import group, take_groups
from overlace.arrays.jit import Floats, Ints, Pairs
from overlace.arrays.trees import subtree_costs
from overlace.model import Changes, Observation, Overlay, Plan, Progress, Steps
from overlace.planners.tree.cost import class_homes, priced
from overlace.planners.tree.fields import TreePlanner
from overlace.planners.tree.setting import setting_of
from overlace.planners.tree.steps import REASONS, plan_to

MOVED = "{moved_client} moves from {from_broker} to {to_broker}: {saved:g}"
"""Why a client moves; stands after the reasons that all tree planners share."""


def parted(links: Pairs, brokers: int) -> tuple[Pairs, Ints]:
    """(tree, homes): the links between brokers, and the broker of each client's node."""
    links = np.sort(links, axis=1)
    leaf = links[:, 1] >= brokers
    homes = np.empty(int(leaf.sum()), dtype=np.int64)
    homes[links[leaf, 1] - brokers] = links[leaf, 0]
    return np.ascontiguousarray(links[~leaf]), homes


def plan_with_moves(
    planner: TreePlanner, observation: Observation, seed: int, wired: Pairs, homes: Ints, progress: Progress | None
) -> Plan:
    """Swaps to the wired links and moves to the homes; first those that lose less on the way."""
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


def _moves(planner: TreePlanner, observation: Observation, seed: int, before: Overlay, placed: Pairs) -> Plan:
    """One step for each client that moves, in order of their ids."""
    homes = before.homes(len(placed))
    movers = np.flatnonzero(homes != placed[:, 1])
    old, new = homes[movers], placed[movers, 1]
    rows = np.column_stack([movers, old, movers, new]).reshape(-1, 2)
    n = len(movers)
    changes = Changes(np.zeros(2 * n), np.tile([-1, 1], n), rows[:, 0], rows[:, 1])
    gain = move_gains(planner, observation, before, movers, new)
    names = "left_broker right_broker links one_client other_client more messages".split()
    args = {name: np.zeros(n, dtype=np.int64) for name in names} | {"saved": gain, "most": np.zeros(n)}
    args |= {"moved_client": movers, "from_broker": old, "to_broker": new}
    steps = Steps(np.arange(0, 2 * n + 1, 2), gain, np.full(n, len(REASONS)), args)
    return Plan(planner, seed, before, before.apply(changes), changes, steps)


def move_gains(planner: TreePlanner, observation: Observation, overlay: Overlay, movers: Ints, to: Ints) -> Floats:
    """What each of some clients saves by its move, one after the other."""
    gain, classes = np.zeros(len(movers)), observation.classes
    if len(overlay.tree) == 0 and observation.network.brokers > 1:  # no tree yet, so nothing costs anything
        return gain
    tree, rise, toll = priced(observation, overlay, alpha=planner.alpha, beta=planner.beta)
    size = np.diff(classes.start)
    weight = np.where(size > 1, classes.demand if planner.weight == "messages" else classes.bytes, 0)  # R8
    homes = class_homes(observation, overlay)
    of_class = np.repeat(np.arange(len(classes)), size)
    begin, order = group(classes.members, observation.clients)
    for i, client in enumerate(movers):
        rows = order[begin[client] : begin[client + 1]]
        some = of_class[rows]
        before = subtree_costs(tree, rise, toll, *take_groups(classes.start, homes, some))
        homes[rows] = to[i]
        after = subtree_costs(tree, rise, toll, *take_groups(classes.start, homes, some))
        gain[i] = weight[some] @ (before - after)
    return gain


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
