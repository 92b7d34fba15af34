"""The whole cut at once, by simulated annealing: the reference for what online strategies could reach.

Ours. All publishers are there from the start. The search starts from what merging by prices gives, or from
strategy 4's cut where that is better or there are too many combinations to merge. Then combinations drawn at
random move to channels drawn at random, always when that lowers D and else with a chance that falls
with what it adds and with time. The best cut seen is kept, and improved until no single move helps.

Keeps: (3.1); every limit, at every moment; D is never above that of strategy 4 with the same seed.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from typing import ClassVar

import numpy as np

from overlace.arrays.jit import Ints, kernel
from overlace.errors import BadParameter
from overlace.model import Facet, Observation, Overlay, Plan, Progress
from overlace.planners.channels import cost as channels_cost
from overlace.planners.channels.book import Book, book_of
from overlace.planners.channels.changes import shift
from overlace.planners.channels.merging import merged
from overlace.planners.channels.moves import polish, received, saved_by, survey
from overlace.planners.channels.partition import Partition, draw, fresh
from overlace.planners.channels.steps import REASONS, everybody, plan_to
from overlace.planners.channels.strategy4 import Strategy4

PIECES = 20  # between reports of progress


@dataclass(frozen=True)
class Anneal:
    """Searches the whole cut at once, within the limits: slow, and a reference for the online strategies."""

    sweeps: int = field(
        default=4000, metadata={"help": "moves drawn per combination; 0: only the merging and the moves that help"}
    )
    heat: float = field(
        default=1.0,
        metadata={"help": "the temperature at the start, in messages received per combination; above 0"},
    )
    facets: ClassVar[tuple[Facet, ...]] = ("channels",)
    paper: ClassVar[str] = ""
    REASONS: ClassVar[tuple[str, ...]] = REASONS

    def __post_init__(self) -> None:
        if self.sweeps < 0:
            raise BadParameter(f"sweeps is {self.sweeps}: expected 0 or more")
        if not (math.isfinite(self.heat) and self.heat > 0):
            raise BadParameter(f"heat is {self.heat}: expected a number above 0")

    def solve(self, observation: Observation, seed: int = 0, *, progress: Progress | None = None) -> Plan:
        """The best cut found."""
        book, _ = book_of(observation)
        offered = np.flatnonzero(np.diff(book.by_start) > 0)
        online = Strategy4().online(observation, seed)
        online.join(0, len(online.kinds))
        other = merged(observation, book, offered)
        cuts = [everybody(observation, book, cut, seed=seed) for cut in (other, online.now.channel) if cut is not None]
        now = min(cuts, key=received)
        start, best = received(now), now.channel.copy()
        state = np.zeros(2, dtype=np.int64)  # D saved so far, and by the best cut
        hot = self.heat * start / len(offered)
        moves = self.sweeps * len(offered) if hot > 0 else 0  # where nothing is received, nothing can be saved
        for piece in range(PIECES if moves else 0):
            share = moves // PIECES + (1 if piece < moves % PIECES else 0)
            with np.errstate(over="ignore"):  # hashes wrap around; only uncompiled kernels tell
                anneal(book, now, offered, share, hot * 100.0 ** (-piece / PIECES), 100.0 ** (-1 / PIECES), best, state)
            if progress:
                progress(0.9 * (piece + 1) / PIECES, f"{state[1]:,} messages fewer than at the start")
        final = everybody(observation, book, best, seed=seed)
        polish(book, final, offered)
        return plan_to(self, observation, seed, book, final.channel, progress, limited=True)

    def cost(self, observation: Observation, overlay: Overlay) -> float:
        """D, the traffic received."""
        return channels_cost.cost(observation, overlay)


@kernel
def anneal(
    book: Book, now: Partition, offered: Ints, moves: int, hot: float, cooling: float, best: Ints, state: Ints
) -> None:
    """Draw moves while it cools from `hot` to hot x cooling; remember the best cut."""
    resolution = 1 << 30
    for n in range(moves):
        temperature = hot * cooling ** (n / moves)
        a = offered[draw(now, len(offered))]
        source = now.channel[a]
        now.moved[0] = a
        found, total, lost, subscribers, tight = survey(book, now, 1)
        choice = draw(now, found + 1)
        target = now.reached[choice] if choice < found else -1
        if target < 0:
            if tight > 0 or now.size[source] == 1:
                continue
            saved = saved_by(now, source, -1, total, lost, subscribers)
        else:
            if now.agreed[target] < tight:
                continue
            saved = saved_by(now, source, target, total - now.common[target], lost, subscribers)
        chance = (draw(now, resolution) + 1) / resolution
        if saved < 0 and chance > math.exp(saved / temperature):
            continue
        shift(book, now, 1, fresh(now) if target < 0 else target, True)
        state[0] += saved
        if state[0] > state[1]:
            state[1] = state[0]
            best[:] = now.channel
