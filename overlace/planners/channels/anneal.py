"""The whole cut at once, by simulated annealing: the reference for what online strategies could reach.

Ours. All publishers are there from the start. The search starts from what merging by prices gives, or from
strategy 4's cut where that is better or there are too many combinations to merge. Then combinations drawn at
random move to channels drawn at random, always when that lowers D and else with a chance that falls
with what it adds and with time. The best cut seen is kept, and improved until no single move helps.

Keeps: (3.1); every limit, at every moment; D is never above that of strategy 4 with the same seed.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import ClassVar, NamedTuple

import numpy as np

from overlace.arrays.jit import Ints, kernel
from overlace.limits import check_options, option
from overlace.model import Facet, Observation, Overlay, Plan, Progress
from overlace.planners.channels import cost as channels_cost
from overlace.planners.channels.book import Book, book_of
from overlace.planners.channels.changes import shift
from overlace.planners.channels.merging import merge_by_prices
from overlace.planners.channels.moves import polish, received, saved_by, survey
from overlace.planners.channels.partition import Partition, draw, new_channel, partition_of
from overlace.planners.channels.steps import REASONS, plan_to
from overlace.planners.channels.strategy4 import Strategy4

PIECES = 20  # between reports of progress


class Piece(NamedTuple):
    """Moves that are drawn while it cools from `hot` to hot x cooling."""

    moves: int
    hot: float
    cooling: float


@dataclass(frozen=True)
class Anneal:
    """Searches the whole cut at once, within the limits: slow, and a reference for the online strategies."""

    sweeps: int = option(4000, "moves drawn per combination; 0: only the merging and the moves that help", least=0)
    heat: float = option(1.0, "the temperature at the start, in messages received per combination", above=0)
    facets: ClassVar[tuple[Facet, ...]] = ("channels",)
    paper: ClassVar[str] = ""
    REASONS: ClassVar[tuple[str, ...]] = REASONS

    def __post_init__(self) -> None:
        check_options(self)

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
        start, best = received(now), now.channel.copy()
        saved = np.zeros(2, dtype=np.int64)
        hot = self.heat * start / len(offered)
        moves = self.sweeps * len(offered) if hot > 0 else 0  # where nothing is received, nothing can be saved
        for piece in range(PIECES if moves else 0):
            share = moves // PIECES + (1 if piece < moves % PIECES else 0)
            cooling = Piece(share, hot * 100.0 ** (-piece / PIECES), 100.0 ** (-1 / PIECES))
            anneal(book, now, offered, cooling, best, saved)
            if progress:
                progress(0.9 * (piece + 1) / PIECES, f"{saved[1]:,} messages fewer than at the start")
        final = partition_of(observation, book, best, seed=seed)
        polish(book, final, offered)
        return plan_to(self, observation, seed, book, final.channel, progress, limited=True)

    def cost(self, observation: Observation, overlay: Overlay) -> float:
        """D, the traffic received."""
        return channels_cost.cost(observation, overlay)


@kernel
def anneal(book: Book, now: Partition, offered: Ints, piece: Piece, best: Ints, saved: Ints) -> None:
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
            best[:] = now.channel
