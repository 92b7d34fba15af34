"""Rolling origins: the same planner at earlier times, each plan judged on what came between it and the next.

One plan judged once says little of how plans like it do. Where the log is ten days or more, the planner is also given
only five and six sevenths of the time it plans from, and each of these plans is judged on the days that follow.
"""

from __future__ import annotations

from dataclasses import replace
from itertools import pairwise

from overlace.arrays.jit import Floats, Pairs
from overlace.arrays.pairs import positions
from overlace.errors import NotObserved
from overlace.jobs.interval import sums_of
from overlace.joint.joint import Joint
from overlace.model import Observation, Planner
from overlace.observe.cut import Cut
from overlace.observe.observation import network_of, observe
from overlace.trace.store import DAY_US, Trace

EARLIER = (5 / 7, 6 / 7)
"""Shares of the time that plans."""
LONG_US = 10 * DAY_US


def earlier_sums(trace: Trace, parts: Cut, planner: Planner, seed: int, metric: str) -> list[Floats]:
    """(before, after) slices of plans from earlier origins; none where the log is short or nothing is held out."""
    begin, end = parts.train[0], parts.held_out[1]
    if not isinstance(planner, Joint) or end - begin < LONG_US or parts.held_out[0] == end:
        return []
    midnights = [int(begin + share * (parts.train[1] - begin)) // DAY_US * DAY_US for share in EARLIER]
    links = network_of(trace, parts.train).links
    found = []
    for origin, following in pairwise([*midnights, parts.train[1]]):
        observation = observe(trace, (begin, origin))
        mine = by_then(planner, observation, links)
        if mine is None:
            continue
        try:
            plan = mine.solve(observation, seed)
        except NotObserved:  # a part so short that it holds nothing to plan from
            continue
        sums = sums_of(observation, trace, (origin, following), observation.overlay, plan.after, metric, daily=True)
        if len(sums):
            found.append(sums)
    return found


def by_then(planner: Joint, observation: Observation, links: Pairs) -> Joint | None:
    """The planner without what had not been seen by then; None if of the clients that may move nobody had.

    Links are rows of the network's, here those of the part that planned; by then there may have been fewer.
    """
    known = [tuple(c for c in ids if c < observation.clients) for ids in (planner.keep, planner.only)]
    if planner.only and not known[1]:
        return None
    rows = positions(observation.network.links, links)
    wire, stay = (tuple(int(rows[r]) for r in ids if rows[r] >= 0) for ids in (planner.may_wire, planner.keep_links))
    brokers = tuple(b for b in planner.keep_brokers if b < observation.network.brokers)
    return replace(
        planner, keep=known[0], only=known[1], may_wire=wire, keep_links=stay, keep_brokers=brokers, effort=0
    )
