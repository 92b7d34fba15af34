"""From the channels as they are to the channels that are wanted: which combinations move, in which order.

Where no channels are there yet, one step builds them all. Every combination moves once, straight to where it ends up,
in the order that `order` finds.

Keeps: (3.1) after every step; for planners that respect limits, no limit that held before is broken on
the way. Gains are exact, since traffic is whole messages.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from overlace.arrays.jit import Ints, Pairs, kernel
from overlace.limits import check_options
from overlace.model import Changes, Facet, Observation, Overlay, Plan, Planner, Progress, Steps
from overlace.planners.channels import cost as channels_cost
from overlace.planners.channels.book import Book
from overlace.planners.channels.order import order_moves

REASONS: tuple[str, ...] = (
    "builds {channels} channels for {combinations} combinations: {saved:,} messages fewer are received",
    "{combination} goes to {to_channel}: {saved:,} messages fewer are received; {burdened} publishers need a "
    "connection more",
    "{combination} goes to {to_channel}: {saved:,} messages fewer are received, and {relieved} publishers, "
    "{first_client} among them, need a connection less ({burdened} one more)",
    "{combination} goes to {to_channel}: relieves {relieved} publishers, {first_client} among them, of a connection "
    "({burdened} need one more) for {added:,} messages more",
    "{combination} goes to {to_channel}, where it is wanted for later steps: {added:,} messages more are received",
    "{combinations} combinations, {combination} among them, change channels at once, so that no limit is broken on the "
    "way: {relieved} publishers need fewer connections, {burdened} more; {saved:,} messages fewer, {added:,} more",
    "nobody offers {combination} any more: {saved:,} messages fewer are received",
)
BUILD, SAVE, SAVE_AND_RELIEVE, RELIEVE, ADD, TOGETHER, GONE = range(7)


@dataclass(frozen=True)
class ChannelPlanner(Planner):
    """What all planners of channels share: the facet, its cost and the reasons of steps."""

    facets: ClassVar[tuple[Facet, ...]] = ("channels",)
    paper: ClassVar[str] = ""
    REASONS: ClassVar[tuple[str, ...]] = REASONS

    def __post_init__(self) -> None:
        check_options(self)

    def cost(self, observation: Observation, overlay: Overlay) -> float:
        """D, the traffic received."""
        return channels_cost.cost(observation, overlay)


def plan_to(
    planner: Planner,
    observation: Observation,
    seed: int,
    book: Book,
    channel: Ints,
    progress: Progress | None = None,
    *,
    limited: bool,
) -> Plan:
    """The plan that leads to the given channel of each combination of the book (-1: none)."""
    before = observation.overlay
    old = np.full(len(book.combination), -1, dtype=np.int64)
    old[np.searchsorted(book.combination, before.channels[:, 0])] = before.channels[:, 1]
    new = kept_ids(channel, old)
    if len(before.channels) == 0:
        return _build(planner, observation, seed, book, new)
    moving = np.flatnonzero(old != new)
    if len(moving) == 0:
        return Plan(planner, seed, before, before, Changes(), Steps())
    moves = order_moves(observation, book, old, new, moving, limited=limited)
    start, gain, relieved = moves.start, moves.gain, moves.relieved
    if progress:
        progress(1.0, f"{len(start) - 1:,} steps")
    rows = _rows(book, old, new, moves.order)
    kept = rows[:, 2] >= 0
    facet = np.full(int(kept.sum()), 2)
    changes = Changes(facet, rows[kept, 0], rows[kept, 1], rows[kept, 2])
    bounds = np.concatenate([[0], np.cumsum(kept)])[2 * start]
    first, several = moves.order[start[:-1]], np.diff(start)
    reason = np.where(gain >= 0, np.where(relieved > 0, SAVE_AND_RELIEVE, SAVE), np.where(relieved > 0, RELIEVE, ADD))
    reason[new[first] < 0] = GONE
    reason[several > 1] = TOGETHER
    _, at = np.unique(observation.offers.attributes, return_index=True)  # the first publisher of each type
    args = {
        "channels": np.zeros(len(gain), dtype=np.int64),
        "combinations": several,
        "combination": book.combination[first],
        "to_channel": new[first],
        "saved": np.maximum(gain, 0).astype(np.int64),
        "added": np.maximum(-gain, 0).astype(np.int64),
        "relieved": relieved,
        "burdened": moves.burdened,
        "first_client": observation.offers.publisher[at[np.maximum(moves.eased, 0)]],
    }
    return Plan(planner, seed, before, before.apply(changes), changes, Steps(bounds, gain, reason, args))


def _rows(book: Book, old: Ints, new: Ints, order: Ints) -> Pairs:
    """(action, combination, channel): each combination's removal, then its addition."""
    rows = np.empty((2 * len(order), 3), dtype=np.int64)
    rows[0::2, 0], rows[1::2, 0] = -1, 1
    rows[:, 1] = np.repeat(book.combination[order], 2)
    rows[0::2, 2], rows[1::2, 2] = old[order], new[order]
    return rows


def _build(planner: Planner, observation: Observation, seed: int, book: Book, new: Ints) -> Plan:
    """All channels in one step, where there are none yet."""
    before, held = observation.overlay, np.flatnonzero(new >= 0)
    changes = Changes.of("channels", 1, np.column_stack([book.combination[held], new[held]]))
    after = before.apply(changes)
    gain = planner.cost(observation, before) - planner.cost(observation, after)
    args = {
        "channels": len(np.unique(new[held])),
        "combinations": len(held),
        "combination": book.combination[held[0]],
        "to_channel": new[held[0]],
        "saved": max(0, int(gain)),
        "added": max(0, int(-gain)),
        **dict.fromkeys(("relieved", "burdened", "first_client"), 0),
    }
    columns = {name: np.array([value]) for name, value in args.items()}
    return Plan(planner, seed, before, after, changes, Steps([0, len(held)], [gain], [BUILD], columns))


def kept_ids(channel: Ints, old: Ints) -> Ints:
    """Channels under the ids they had: each id goes to the channel that holds most of its combinations.

    Ties go to the part with the least combination. Other channels get the ids after those in use, in
    order of their least combination.
    """
    held = np.flatnonzero(channel >= 0)
    label, at = np.unique(channel[held], return_inverse=True)
    least = np.full(len(label), len(channel))
    np.minimum.at(least, at, held)
    both = old[held] >= 0
    ids, place = np.unique(old[held][both], return_inverse=True)
    pairs, first, common = np.unique(at[both] * len(ids) + place, return_index=True, return_counts=True)
    found = held[both][first]  # the least combination that the two have in common
    order = np.lexsort((found, -common))
    names = assign(pairs[order] // max(len(ids), 1), pairs[order] % max(len(ids), 1), ids, len(label))
    others = np.flatnonzero(names < 0)
    others = others[np.argsort(least[others], kind="stable")]
    names[others] = int(old.max(initial=-1)) + 1 + np.arange(len(others))
    new = np.full(len(channel), -1, dtype=np.int64)
    new[held] = names[at]
    return new


@kernel
def assign(part: Ints, place: Ints, ids: Ints, parts: int) -> Ints:
    """Give ids to parts in the order of the rows, each id once and one id per part; -1 for parts without."""
    names = np.full(parts, -1, dtype=np.int64)
    used = np.zeros(len(ids), dtype=np.bool_)
    for i in range(len(part)):
        if names[part[i]] < 0 and not used[place[i]]:
            names[part[i]] = ids[place[i]]
            used[place[i]] = True
    return names
