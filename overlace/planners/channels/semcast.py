"""SemCast: channels from containment hierarchies, merged by the overlap that was observed.

PART10 §2.3. A combination contains another if it lacks some of its attributes and has no other: whatever
matches the other matches it. So combinations hang below one another, each below the one that fewest messages
match of those that contain it. Which messages match which combinations is counted over a sliding window.

Two costs are weighed: a message is sent once into every channel that it matches, which costs `sending`, and
subscribers receive what they did not ask for. From the leaves up, a combination shares the channel of the one
it hangs below where that is cheaper than a channel of its own. Then two hierarchies are merged, again and
again the two whose merge saves most: `sending` for each message that matched both, less the waste it adds.

The whole is done again from time to time (R16), and who has built channels does not like to build them anew: the
present channels are kept unless the others are cheaper by a share of the cost (`hysteresis`).

Keeps: (3.1); with limits kept, every limit that held before. No draws; ties go to the lowest combination.
Reads: R15, R16. Departs: all is known in one place, as in the paper's coordinator.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar, Literal

import numpy as np

from overlace.arrays.jit import Floats, Ints, kernel
from overlace.limits import option
from overlace.model import Observation, Offers, Plan, Progress
from overlace.planners.channels.book import Book, book_of
from overlace.planners.channels.cells import Cells, CellTable, relieved, spread, table_of
from overlace.planners.channels.merging import merge_while_it_saves
from overlace.planners.channels.steps import ChannelPlanner, plan_to


@dataclass(frozen=True)
class SemCast(ChannelPlanner):
    """Merges hierarchies of combinations by observed overlap where one channel is cheaper than two."""

    sending: float = option(
        2.0, "cost of sending a message into a channel, in messages received that nobody asked for", least=0, most=1e9
    )
    window: int = option(0, "messages of the latest publishers that overlap is counted on (0: all)", least=0)
    hysteresis: float = option(
        0.05, "share of the cost that other channels must save, at least, to replace present ones (1: never)", least=0
    )
    connections: Literal["keep", "ignore"] = option(
        "keep",
        "limits on connections: keep (relieve publishers beyond theirs after the merging) or ignore",
        formerly="limits",
    )
    paper: ClassVar[str] = "PART10 §2.3"

    def solve(self, observation: Observation, seed: int = 0, *, progress: Progress | None = None) -> Plan:
        """The channels after the merging, or the present ones if that saves too little."""
        book, _ = book_of(observation)
        cells = Cells(observation, book, np.flatnonzero(np.diff(book.by_start) > 0))
        table = table_of(cells, matched_in_window(book, observation.offers, self.window))
        groups = join_hierarchies(book.combination[cells.offered], table, self.sending)
        channel = spread(cells, merge_groups(table, groups, self.sending))
        if self.connections == "keep":
            channel = relieved(cells, channel)
        present = observed_channels(cells)
        if present is not None:
            before, after = (self.weigh(table, cut) for cut in (present, channel[cells.offered]))
            if before - after <= self.hysteresis * before:
                channel = np.full(len(book.combination), -1, dtype=np.int64)
                pairs = observation.overlay.channels
                channel[np.searchsorted(book.combination, pairs[:, 0])] = pairs[:, 1]
        if progress:
            progress(0.9, f"{len(np.unique(channel[channel >= 0])):,} channels")
        return plan_to(self, observation, seed, book, channel, progress, limited=self.connections == "keep")

    def weigh(self, table: CellTable, channel: Ints) -> float:
        """What a cut costs in the window: messages sent into channels, and traffic received."""
        _, at = np.unique(channel, return_inverse=True)
        groups = collapse(table, at.astype(np.int64))
        rate = groups.meets @ groups.messages
        return float((rate * (self.sending + groups.subscribers)).sum())


def observed_channels(cells: Cells) -> Ints | None:
    """The present channel of each offered combination (-1: in none); None: there are no channels."""
    pairs = cells.observation.overlay.channels
    if len(pairs) == 0:
        return None
    channel = np.full(len(cells.book.combination), -1, dtype=np.int64)
    channel[np.searchsorted(cells.book.combination, pairs[:, 0])] = pairs[:, 1]
    return channel[cells.offered]


def matched_in_window(book: Book, offers: Offers, window: int) -> Ints:
    """Messages of each type in the window: the latest publishers are the last rows of the offers (0: all)."""
    counted = offers.messages.copy()
    if window:
        later = np.cumsum(counted[::-1])[::-1] - counted  # messages of the rows after each
        counted = np.clip(window - later, 0, counted)
    messages = np.zeros(len(book.attributes), dtype=np.int64)
    np.add.at(messages, np.searchsorted(book.attributes, offers.attributes), counted)
    return messages


def collapse(table: CellTable, group: Ints) -> CellTable:
    """The table of groups of rows, numbered from 0."""
    count = int(group.max()) + 1
    meets = np.zeros((count, table.meets.shape[1]), dtype=np.bool_)
    np.logical_or.at(meets, group, table.meets)
    subscribers = np.zeros(count)
    np.add.at(subscribers, group, table.subscribers)
    return CellTable(meets, subscribers, table.messages)


def merge_groups(table: CellTable, group: Ints, sending: float) -> Ints:
    """The group of each row after merges of groups that save more sending than they add waste."""
    _, at = np.unique(group, return_inverse=True)
    groups = collapse(table, at.astype(np.int64))
    into, _ = merge_while_it_saves(groups.meets, groups.subscribers, groups.messages, sending * groups.messages)
    return np.asarray(into[at], dtype=np.int64)


def join_hierarchies(combination: Ints, table: CellTable, sending: float) -> Ints:
    """The group of each of the ascending combinations: that of the one it hangs below, where one channel is cheaper."""
    matched = table.meets @ table.messages
    sizes = np.array([int(mask).bit_count() for mask in combination.tolist()])
    from_leaves = np.lexsort((combination, -sizes))
    return join_upwards(hang(combination, matched), from_leaves, table.subscribers, sending * matched, matched)


@kernel
def hang(combination: Ints, matched: Floats) -> Ints:
    """What each combination hangs below: of those that contain it, the one that fewest messages match; -1: a root."""
    parent = np.full(len(combination), -1, dtype=np.int64)
    for b in range(len(combination)):
        mask = combination[b]
        sub = (mask - 1) & mask
        while sub:
            a = np.searchsorted(combination, sub)
            if a < len(combination) and combination[a] == sub:
                p = parent[b]
                if p < 0 or matched[a] < matched[p] or (matched[a] == matched[p] and a < p):
                    parent[b] = a
            sub = (sub - 1) & mask
    return parent


@kernel
def join_upwards(parent: Ints, order: Ints, subscribers: Floats, saved: Floats, matched: Floats) -> Ints:
    """Each combination's group: from the leaves up, those below one share its channel where that is cheaper.

    What hangs below a combination is matched by none but its messages: one channel for both saves sending what the
    lower one's channel sends, and its subscribers receive whatever else matches the upper one.
    """
    group, below = np.arange(len(parent)), subscribers.copy()
    for i in range(len(order)):
        b = order[i]
        a = parent[b]
        if a >= 0 and below[b] * (matched[a] - matched[b]) < saved[b]:
            group[b] = a
            below[a] += below[b]
    for i in range(len(order) - 1, -1, -1):  # from the roots down
        group[order[i]] = group[group[order[i]]]
    return group
