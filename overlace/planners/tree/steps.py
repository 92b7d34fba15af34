"""From the tree that is wanted to a plan: swaps in order, their gains, limits and reasons.

All tree planners end here. The changes are the difference between the observed tree and the wanted one, in
the order of `ordering.py`; `max_swaps` cuts them, and `min_gain` keeps the part of them that is worth most when
every replaced link costs that much.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from overlace.arrays.jit import Floats, Ints, Pairs
from overlace.arrays.pairs import as_pairs
from overlace.errors import NothingBetter
from overlace.model import Changes, Observation, Plan, Progress, Steps
from overlace.planners.ordering import Ordering, Path, changes_in
from overlace.planners.search.walk import NO_LIMIT, State
from overlace.planners.tree.setting import Setting, search_problem
from overlace.wording import amount

REASONS: tuple[str, ...] = (
    "builds the tree: {links} links that cost {saved:amount} together",
    "{left_broker}-{right_broker} instead of {from_broker}-{to_broker} saves {saved:amount} of the traffic cost; most "
    "({most:amount}) for the {messages:,} messages among {one_client}, {other_client}{more:more}",
    "{left_broker}-{right_broker} instead of {from_broker}-{to_broker} saves nothing by itself ({saved:amount} of the "
    "traffic cost)",
    "{links} links at once, {left_broker}-{right_broker} instead of {from_broker}-{to_broker} among them, save "
    "{saved:amount} of the traffic cost: no single swap keeps the limits",
)
"""Why a step is taken; shared by all tree planners."""

MOVED = "{moved_client} moves from {from_broker} to {to_broker}, which saves {saved:amount} of the traffic cost"
"""Why a client moves; stands after the reasons that all tree planners share."""

BUILDS, SAVES, COSTS, TOGETHER = range(4)

if TYPE_CHECKING:
    from overlace.planners.tree.planner import TreePlanner


def plan_to(
    planner: TreePlanner,
    observation: Observation,
    seed: int,
    setting: Setting,
    wanted: Pairs,
    progress: Progress | None = None,
    home: Ints | None = None,
) -> Plan:
    """The plan that leads from the observed tree to the wanted one, or as far as the limits let it.

    With homes, clients move too (R5).
    """
    before = observation.overlay
    wanted = as_pairs(np.sort(wanted, axis=1)) if len(wanted) else wanted
    built = None if setting.built else _built(planner, observation, seed, wanted)
    if built is not None:
        if home is None:
            return built
        setting = setting._replace(start=wanted)
    goal = State(np.maximum(before.homes(observation.clients), 0) if home is None else home, wanted)
    most = NO_LIMIT if planner.max_swaps is None else planner.max_swaps
    tell = progress and (lambda part, what: progress(0.9 + part / 10, what))
    path = Ordering(search_problem(planner, observation, setting), goal, most).path(tell)
    ends = path.start[1:]
    ends = ends[: _worth(path.saves, ends, planner.min_gain)]
    if planner.min_gain > 0 and len(ends) == 0:
        each = np.cumsum(path.gain) / np.maximum(path.start[1:], 1)
        found = max(0.0, float(each.max(initial=0.0)))
        raise NothingBetter(
            f"no replaced link saves {amount(planner.min_gain)} or more: the best steps found save {amount(found)} a "
            "link. Lower min_gain, or leave the tree as it is."
        )
    starts = np.append(0, ends)
    changes = changes_in(path, int(starts[-1]))
    args = _args(observation, path, ends)
    if home is None:
        del args["moved_client"]
    gains, several = args["saved"], np.diff(starts) > 1
    reason = np.where(several, TOGETHER, np.where(gains > 0, SAVES, COSTS))
    reason[(path.client[ends - 1] >= 0) & ~several] = len(REASONS)
    steps = Steps(2 * starts, gains, reason, args)
    if built is not None:
        return _joined(built, Plan(planner, seed, built.after, built.after.apply(changes), changes, steps))
    return Plan(planner, seed, before, before.apply(changes), changes, steps)


def _worth(gain: Floats, ends: Ints, least: float) -> int:
    """How many steps to take so that the gain, less so much for every swap, is greatest; all if least is 0."""
    if least <= 0 or len(ends) == 0:
        return len(ends)
    worth = np.cumsum(gain - least)[ends - 1]
    best = int(np.argmax(worth))
    return best + 1 if worth[best] >= 0 else 0


def _args(observation: Observation, path: Path, ends: Ints) -> dict[str, Ints | Floats]:
    """What the reasons name; of a step of several swaps the one that saves most."""
    begins = np.append(0, ends[:-1])[: len(ends)]
    both = list(zip(begins.tolist(), ends.tolist(), strict=True))
    swaps = np.where(path.client < 0, path.saves, -np.inf)
    top = np.array([b + int(np.argmax(swaps[b:e])) for b, e in both], dtype=np.int64)
    saved = np.array([path.saves[b:e].sum() for b, e in both], dtype=np.float64)
    classes, known = observation.classes, path.who[top] >= 0
    at = np.where(known, path.who[top], 0)
    size = np.where(known, np.diff(classes.start)[at], 2) if known.any() else np.full(len(top), 2)
    members = classes.members if len(classes.members) else np.zeros(2, dtype=np.int64)
    first = classes.start[at]
    mover = path.client[top]
    links = np.array([int((path.client[b:e] < 0).sum()) for b, e in both], dtype=np.int64)
    return {
        "left_broker": np.where(mover >= 0, 0, path.new[top, 0]),
        "right_broker": path.new[top, 1],
        "from_broker": np.where(mover >= 0, path.old[top, 1], path.old[top, 0]),
        "to_broker": np.where(mover >= 0, path.new[top, 1], path.old[top, 1]),
        "saved": saved,
        "links": links,
        "moved_client": np.maximum(mover, 0),
        "one_client": members[first],
        "other_client": members[np.minimum(first + 1, len(members) - 1)],
        "more": size - 2,
        "messages": classes.demand[at] if known.any() else np.zeros(len(top), dtype=np.int64),
        "most": np.where(known, path.most[top], 0.0),  # a swap that no class crosses saves nothing for anybody
    }


def _built(planner: TreePlanner, observation: Observation, seed: int, wanted: Pairs) -> Plan:
    """All links in one step, where there is no tree yet."""
    before = observation.overlay
    changes = Changes.of("tree", 1, wanted)
    after = before.apply(changes)
    gain = planner.cost(observation, before) - planner.cost(observation, after)
    total = float(observation.network.costs_of(after.tree).sum())
    names = "left_broker right_broker from_broker to_broker one_client other_client more messages".split()
    args: dict[str, Ints | Floats] = {name: np.zeros(1, dtype=np.int64) for name in names}
    args |= {"links": np.array([len(wanted)]), "saved": np.array([total]), "most": np.zeros(1)}
    return Plan(planner, seed, before, after, changes, Steps([0, len(wanted)], [gain], [BUILDS], args))


def _joined(one: Plan, two: Plan) -> Plan:
    """One plan after the other."""
    none = {"moved_client": np.zeros(len(one.steps), dtype=np.int64)}
    args = {name: np.concatenate([(none | dict(one.steps.args))[name], each]) for name, each in two.steps.args.items()}
    steps = Steps(
        np.concatenate([one.steps.start, two.steps.start[1:] + one.steps.start[-1]]),
        np.concatenate([one.steps.gain, two.steps.gain]),
        np.concatenate([one.steps.reason, two.steps.reason]),
        args,
    )
    return Plan(one.planner, one.seed, one.before, two.after, Changes.joined([one.changes, two.changes]), steps)
