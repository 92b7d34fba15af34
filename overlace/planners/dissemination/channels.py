"""A tree for each of many channels over the same peers."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from overlace.arrays.jit import Floats, Ints
from overlace.errors import BadParameter
from overlace.planners.dissemination.arrange import arrange_problem
from overlace.planners.dissemination.joining import ABSENT
from overlace.planners.dissemination.measures import Measures, measure
from overlace.planners.dissemination.problem import find_arrivals, make_problem
from overlace.planners.dissemination.sharing import share_degrees
from overlace.planners.dissemination.upper import Ceiling, bound_met


class Channels(NamedTuple):
    """Channels as groups of peers, and what they are arranged for."""

    start: Ints  # per channel, and the end: members[start[k] : start[k + 1]]
    members: Ints  # peers, the root among them
    root: Ints  # per channel: a peer
    bound: Floats  # per member, ms; inf: none
    rate: Floats  # per channel: messages a second, or any other measure of how much it carries


class Arranged(NamedTuple):
    """Trees in the order of the members, and what each is worth."""

    parent: Ints  # per member a peer; -1 at the root; ABSENT where the channel could not be connected
    degree: Ints  # per member: its part of the peer's degree
    arrival: Floats  # per member, ms from the root; nan where absent
    measures: tuple[Measures | None, ...]  # per channel; None where it could not be connected
    ceilings: tuple[Ceiling | None, ...]  # the most bounds that could be met with these degrees

    @property
    def met(self) -> int:
        """Bounds met in all channels."""
        return sum(each.met for each in self.measures if each)

    @property
    def bounds(self) -> int:
        """Bounds there are, in channels that are connected."""
        return sum(each.bounds for each in self.measures if each)

    @property
    def most(self) -> int:
        """The most bounds that could be met in all channels with these degrees, proven."""
        return sum(each.most for each in self.ceilings if each)

    @property
    def unconnected(self) -> list[int]:
        """Channels whose members have too few places among them."""
        return [k for k, each in enumerate(self.measures) if each is None]


def arrange_channels(delay: Any, channels: Channels, degree: Any, seed: int = 0, draws: int | None = None) -> Arranged:
    """Arrange every channel, each peer's degree shared over its channels by their rates.

    `delay` is a square matrix of milliseconds over all peers, or a list of matrices, one for each channel over its
    members. `degree` is one for each peer. A channel whose members together have too few places for all of them is
    left out: its parents are ABSENT.
    """
    start, members, limits = channels.start, channels.members, np.asarray(degree, dtype=np.int64)
    if len(members) and not 0 <= int(members.min()) <= int(members.max()) < len(limits):
        raise BadParameter(f"members {members.min()} to {members.max()}: expected peers, 0 to {len(limits) - 1}")
    own = isinstance(delay, list | tuple)
    if len(delay) != (len(start) - 1 if own else len(limits)):
        raise BadParameter(
            f"delays of {len(delay)}: expected a matrix over {len(limits)} peers, or one for each of "
            f"{len(start) - 1} channels"
        )
    shares = share_degrees(limits, (start, members), channels.rate, channels.root)
    parent = np.full(len(members), ABSENT, dtype=np.int64)
    arrival = np.full(len(members), np.nan)
    measures: list[Measures | None] = []
    ceilings: list[Ceiling | None] = []
    for k in range(len(start) - 1):
        rows = slice(int(start[k]), int(start[k + 1]))
        peers = members[rows]
        if int(shares[rows].sum()) < len(peers) - 1:
            measures.append(None)
            ceilings.append(None)
            continue
        root = int(np.flatnonzero(peers == channels.root[k])[0])
        delays = delay[k] if own else np.asarray(delay)[np.ix_(peers, peers)]
        problem = make_problem(delays, channels.bound[rows], shares[rows], root)
        tree = arrange_problem(problem, seed, draws)
        parent[rows] = np.where(tree >= 0, peers[tree], -1)
        arrival[rows] = find_arrivals(problem, tree)
        measures.append(measure(problem, tree))
        ceilings.append(bound_met(problem))
    return Arranged(parent, shares, arrival, tuple(measures), tuple(ceilings))
