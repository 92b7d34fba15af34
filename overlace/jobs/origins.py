"""Rolling origins: the same planner at earlier times, each plan judged on what came between it and the next.

One plan judged once says little of how plans like it do. Where the part that plans is six days or more, the planner is
also given only five and six sevenths of that time, and each of these plans is judged on the days that follow.
"""

from __future__ import annotations

from dataclasses import replace
from itertools import pairwise
from typing import NamedTuple

import numpy as np

from overlace.arrays.jit import Floats, Ints, Pairs
from overlace.arrays.pairs import positions
from overlace.errors import NotObserved
from overlace.jobs.interval import sums_of
from overlace.model import Observation, Planner
from overlace.observe.cut import Cut
from overlace.observe.known import Known, known_in
from overlace.observe.observation import network_of, observe
from overlace.planners.joint.joint import Joint
from overlace.trace.store import DAY_US, Trace

EARLIER = (5 / 7, 6 / 7)
"""Shares of the time that plans."""
LONG_US = 6 * DAY_US


def earlier_sums(trace: Trace, parts: Cut, known: Known, planner: Planner, seed: int, metric: str) -> list[Floats]:
    """(before, after) slices of plans from earlier origins; none where the log is short or nothing is held out.

    `known` are the numbers of the part that planned, which the planner's clients, brokers and links are given in.
    """
    begin, end = parts.train
    if not isinstance(planner, Joint) or end - begin < LONG_US or parts.held_out[0] == parts.held_out[1]:
        return []
    midnights = [int(begin + share * (end - begin)) // DAY_US * DAY_US for share in EARLIER]
    links = network_of(trace, parts.train, known).links
    found = []
    for origin, following in pairwise([*midnights, end]):
        observation, then = observe(trace, (begin, origin)), known_in(trace, (begin, origin))
        mine = by_then(planner, observation, links, Numbers.between(known, then))
        if mine is None:
            continue
        try:
            after = mine.overlay(observation, seed)
        except NotObserved:  # a part so short that it holds nothing to plan from
            continue
        window = (origin, following)
        sums = sums_of(observation, trace, window, observation.overlay, after, metric, known=then, daily=True)
        if len(sums):
            found.append(sums)
    return found


class Numbers(NamedTuple):
    """By the numbers of the part that planned, those of an earlier origin; what was not known then has higher ones."""

    client: Ints
    broker: Ints

    @classmethod
    def between(cls, known: Known, then: Known) -> Numbers:
        """From what is known to what was known then."""
        return cls(*(then.number(kind, known.ids(kind)) for kind in ("client", "broker")))


def by_then(planner: Joint, observation: Observation, links: Pairs, to: Numbers | None = None) -> Joint | None:
    """The planner without what had not been seen by then; None if of the clients that may move nobody had.

    Links are rows of the network's, here those of the part that planned; by then there may have been fewer.
    """

    def numbered(ids: tuple[int, ...], place: Ints | None, most: int) -> tuple[int, ...]:
        then = ids if place is None else place[list(ids)].tolist() if ids else ()
        return tuple(sorted(n for n in then if n < most))

    clients, at = to or (None, None)
    keep, only = (numbered(ids, clients, observation.clients) for ids in (planner.keep, planner.only))
    if planner.only and not only:
        return None
    there = links if at is None or not len(links) else np.ascontiguousarray(np.sort(at[links], axis=1))
    rows = positions(observation.network.links, there)
    wire, stay = (
        tuple(sorted(int(rows[r]) for r in ids if rows[r] >= 0)) for ids in (planner.may_wire, planner.keep_links)
    )
    method = "joint" if planner.method == "best" else planner.method  # its rivals hardly ever find more
    brokers = numbered(planner.keep_brokers, at, observation.network.brokers)
    return replace(
        planner, keep=keep, only=only, may_wire=wire, keep_links=stay, keep_brokers=brokers, effort=0, method=method
    )
