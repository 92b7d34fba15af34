"""From the tree that is wanted to a plan: swaps in order, their gains, limits and reasons.

All tree planners end here. The changes are the difference between the observed tree and the wanted one, in
the order of `order.py`; `max_swaps` cuts them, and `min_gain` keeps the part of them that is worth most when
every replaced link costs that much.
"""

from __future__ import annotations

import numpy as np

from overlace.arrays.jit import Floats, Ints, Pairs
from overlace.arrays.pairs import as_pairs, positions
from overlace.errors import NothingBetter
from overlace.model import Changes, Observation, Plan, Progress, Steps
from overlace.planners.tree.fields import TreePlanner
from overlace.planners.tree.order import order_swaps
from overlace.planners.tree.problem import prices_of
from overlace.planners.tree.setting import Setting

REASONS: tuple[str, ...] = (
    "builds the tree: {links} links that cost {saved:g} together",
    "{left_broker}-{right_broker} instead of {from_broker}-{to_broker} saves {saved:g}; most for {one_client}, "
    "{other_client} and {more} more, with {messages} messages: {most:g}",
    "{left_broker}-{right_broker} instead of {from_broker}-{to_broker} saves nothing by itself ({saved:g})",
    "{links} links at once, {left_broker}-{right_broker} instead of {from_broker}-{to_broker} among them, save "
    "{saved:g}: no single swap keeps the limits",
)
"""Why a step is taken; shared by all tree planners."""

BUILDS, SAVES, COSTS, TOGETHER = range(4)


def plan_to(
    planner: TreePlanner, observation: Observation, seed: int, setting: Setting, wanted: Pairs,
    progress: Progress | None = None, *, first_reason: int = 0,
) -> Plan:  # fmt: skip
    """The plan that leads from the observed tree to the wanted one, or as far as the limits let it.

    first_reason is where the shared reasons begin among the planner's own.
    """
    before = observation.overlay
    wanted = as_pairs(np.sort(wanted, axis=1)) if len(wanted) else wanted
    if not setting.built:
        return _built(planner, observation, seed, wanted, first_reason)
    goes = np.flatnonzero(positions(wanted, setting.start) < 0)
    added = np.ascontiguousarray(wanted[positions(setting.start, wanted) < 0])
    if progress:
        progress(0.9, "the order of the swaps")
    most = len(goes) if planner.max_swaps is None else planner.max_swaps
    p = setting.problem
    row, new, gain, who, most_saved, closed = order_swaps(
        p, setting.start, prices_of(p, setting.start), goes, added, p.cap, most
    )
    ends = np.flatnonzero(closed) + 1
    ends = ends[: _worth(gain, ends, planner.min_gain)]
    if planner.min_gain > 0 and len(ends) == 0:
        found = float(gain.max(initial=0.0))
        raise NothingBetter(
            f"no replaced link saves {planner.min_gain:g} or more: the best swap found saves {found:g}. "
            "Lower min_gain, or leave the tree as it is."
        )
    old, fresh = setting.start[row], added[new]
    changes = _changes(old, fresh, ends)
    args = _args(observation, setting, old, fresh, gain, who, most_saved, ends)
    starts = np.append(0, ends)
    gains = args["saved"]
    reason = first_reason + np.where(np.diff(starts) > 1, TOGETHER, np.where(gains > 0, SAVES, COSTS))
    if progress:
        progress(1.0, "the order of the swaps")
    return Plan(planner, seed, before, before.apply(changes), changes, Steps(2 * starts, gains, reason, args))


def _worth(gain: Floats, ends: Ints, least: float) -> int:
    """How many steps to take so that the gain, less so much for every swap, is greatest; all if least is 0."""
    if least <= 0 or len(ends) == 0:
        return len(ends)
    worth = np.cumsum(gain - least)[ends - 1]
    best = int(np.argmax(worth))
    return best + 1 if worth[best] >= 0 else 0


def _changes(old: Pairs, fresh: Pairs, ends: Ints) -> Changes:
    """Swap by swap, the old link first: brokers must never see a loop."""
    n = int(ends[-1]) if len(ends) else 0
    rows = np.stack([old[:n], fresh[:n]], axis=1).reshape(-1, 2)
    return Changes(np.ones(2 * n), np.tile([-1, 1], n), rows[:, 0], rows[:, 1])


def _args(
    observation: Observation, setting: Setting, old: Pairs, fresh: Pairs, gain: Floats, who: Ints, most: Floats,
    ends: Ints,
) -> dict[str, Ints | Floats]:  # fmt: skip
    """What the reasons name; of a step of several swaps the one that saves most."""
    begins = np.append(0, ends[:-1])[: len(ends)]
    top = np.array([b + int(np.argmax(gain[b:e])) for b, e in zip(begins, ends, strict=True)], dtype=np.int64)
    classes = observation.classes
    shown = np.where(who[top] >= 0, setting.problem.example[who[top]], -1) if len(setting.problem.example) else top
    known = (shown >= 0) & (len(setting.problem.example) > 0)
    at = np.where(known, shown, 0)
    size = np.where(known, np.diff(classes.start)[at], 2) if known.any() else np.full(len(top), 2)
    members = classes.members if len(classes.members) else np.zeros(2, dtype=np.int64)
    first = classes.start[at]
    saved = np.array([gain[b:e].sum() for b, e in zip(begins, ends, strict=True)], dtype=np.float64)
    return {
        "left_broker": fresh[top, 0], "right_broker": fresh[top, 1], "from_broker": old[top, 0],
        "to_broker": old[top, 1], "saved": saved, "links": ends - begins,
        "one_client": members[first], "other_client": members[np.minimum(first + 1, len(members) - 1)],
        "more": size - 2, "messages": classes.demand[at] if known.any() else np.zeros(len(top), dtype=np.int64),
        "most": most[top],
    }  # fmt: skip


def _built(planner: TreePlanner, observation: Observation, seed: int, wanted: Pairs, first_reason: int) -> Plan:
    """All links in one step, where there is no tree yet."""
    before = observation.overlay
    changes = Changes.of("tree", 1, wanted)
    after = before.apply(changes)
    gain = planner.cost(observation, before) - planner.cost(observation, after)
    total = float(observation.network.costs_of(after.tree).sum())
    names = "left_broker right_broker from_broker to_broker one_client other_client more messages".split()
    args: dict[str, Ints | Floats] = {name: np.zeros(1, dtype=np.int64) for name in names}
    args |= {"links": np.array([len(wanted)]), "saved": np.array([total]), "most": np.zeros(1)}
    return Plan(planner, seed, before, after, changes, Steps([0, len(wanted)], [gain], [first_reason + BUILDS], args))
