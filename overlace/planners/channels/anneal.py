"""The whole cut at once, by simulated annealing: the reference for what online strategies could reach.

Ours. All publishers are there from the start. The search starts from what merging by prices gives, or from
strategy 4's cut where that is better or there are too many combinations to merge. Then rounds are made of a
draft (`draft`), in which a connection beyond a limit has a price; each starts from the best cut so far, and the
cut after it is repaired and polished. Where there are too many combinations and types for a draft, combinations drawn
at random move within the limits to channels drawn at random, always when that lowers D and else with a
chance that falls with what it adds and with time; the best cut seen is kept, and improved until no single move helps.

Keeps: (3.1); every limit; D is never above that of strategy 4 with the same seed.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from overlace.arrays.csr import copy
from overlace.arrays.jit import Ints, kernel
from overlace.limits import option
from overlace.model import Observation, Plan, Progress
from overlace.planners.channels.book import Book, book_of
from overlace.planners.channels.changes import shift
from overlace.planners.channels.draft import CoolingRound, can_draft, copy_cut, empty_draft, search, within_limits
from overlace.planners.channels.merging import merge_by_prices
from overlace.planners.channels.moves import polish, received, saved_by, survey
from overlace.planners.channels.partition import Partition, draw, new_channel, partition_of
from overlace.planners.channels.steps import ChannelPlanner, plan_to
from overlace.planners.channels.strategy4 import Strategy4

PIECES = 20  # between reports of progress
DRAFTS = 10  # rounds of a draft
HOT, COLD = 0.1, 0.1  # temperature at the start of a round, in messages received per combination; of that, at the end
CHEAP, DEAR = 0.25, 0.8  # price of a connection beyond a limit, in messages received per combination


class CoolingPiece(NamedTuple):
    """Moves that are drawn while it cools from `hot` to hot x cooling."""

    moves: int
    hot: float
    cooling: float


@dataclass(frozen=True)
class Anneal(ChannelPlanner):
    """Searches the whole cut at once, within the limits: slow, and a reference for the online strategies."""

    sweeps: int = option(
        4000, "moves drawn per combination and round; 0: only the merging and the moves that help", least=0
    )
    heat: float = option(1.0, "how hot the search starts, against the default", above=0)

    def solve(self, observation: Observation, seed: int = 0, *, progress: Progress | None = None) -> Plan:
        """The best cut found."""
        book, _ = book_of(observation)
        offered = np.flatnonzero(np.diff(book.by_start) > 0)
        online = Strategy4().online(observation, seed)
        online.join(0, len(online.kinds))
        other = merge_by_prices(observation, book, offered)
        cuts = [
            partition_of(observation, book, cut, seed=seed) for cut in (other, online.now.channel) if cut is not None
        ]
        now = min(cuts, key=received)
        if self.sweeps and can_draft(book):
            found = self.best_draft(book, now, seed, progress)
            return plan_to(self, observation, seed, book, found.channel, progress, limited=True)
        start, best = received(now), now.channel.copy()
        saved = np.zeros(2, dtype=np.int64)
        hot = self.heat * start / len(offered)
        moves = self.sweeps * len(offered) if hot > 0 else 0  # where nothing is received, nothing can be saved
        for piece in range(PIECES if moves else 0):
            share = moves // PIECES + (1 if piece < moves % PIECES else 0)
            cooling = CoolingPiece(share, hot * 100.0 ** (-piece / PIECES), 100.0 ** (-1 / PIECES))
            anneal(book, now, offered, cooling, best, saved)
            if progress:
                progress(0.9 * (piece + 1) / PIECES, f"{saved[1]:,} messages fewer than at the start")
        final = partition_of(observation, book, best, seed=seed)
        polish(book, final, offered)
        return plan_to(self, observation, seed, book, final.channel, progress, limited=True)

    def best_draft(self, book: Book, now: Partition, seed: int, progress: Progress | None) -> Partition:
        """The best cut after rounds of a draft."""
        draft, offered = empty_draft(book, seed), np.flatnonzero(now.channel >= 0)
        polish(book, now, offered)
        for each in range(DRAFTS):
            unit = received(now) / len(offered)
            if unit == 0:
                break
            hot = HOT * self.heat * unit
            cooling = CoolingRound(self.sweeps * len(offered), hot, hot * COLD, CHEAP * unit, DEAR * unit)
            copy_cut(book, now, draft)
            search(book, now, draft, cooling, 0, cooling.length)
            other = within_limits(book, now, draft)
            if received(other) < received(now):
                now = other
            if progress:
                progress(0.9 * (each + 1) / DRAFTS, f"{received(now):,} messages received")
        return now


@kernel
def anneal(book: Book, now: Partition, offered: Ints, piece: CoolingPiece, best: Ints, saved: Ints) -> None:
    """Draw moves while it cools, and remember the best cut; saved is D saved so far, and by the best cut."""
    resolution = 1 << 30
    for n in range(piece.moves):
        temperature = piece.hot * piece.cooling ** (n / piece.moves)
        now.moved[0] = offered[draw(now, len(offered))]
        seen = survey(book, now, 1)
        choice = draw(now, seen.found + 1)
        target = now.reached[choice] if choice < seen.found else -1

        # a new channel is for those that leave others behind; nobody goes beyond their limit
        if target < 0 and (seen.tight > 0 or now.size[seen.source] == 1):
            continue
        if target >= 0 and now.agreed[target] < seen.tight:
            continue
        gain = saved_by(now, seen, target)
        chance = (draw(now, resolution) + 1) / resolution
        if gain < 0 and chance > math.exp(gain / temperature):
            continue

        shift(book, now, 1, new_channel(now) if target < 0 else target, True)
        saved[0] += gain
        if saved[0] > saved[1]:
            saved[1] = saved[0]
            copy(now.channel, best)
