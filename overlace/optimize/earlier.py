"""Rolling origins: the planner at earlier times of the training window, each plan judged on what came after it.

One plan judged once says little of how plans like it do. So the planner is also given only five and six sevenths of
that time, whole days of it where there are six or more, and what it makes of them is judged on the rest.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from typing import NamedTuple

import numpy as np

from overlace.arrays.jit import Ints, Pairs
from overlace.arrays.pairs import positions
from overlace.errors import OverlaceError
from overlace.model import Observation
from overlace.observe.known import Known, known_as
from overlace.observe.later import Later, later
from overlace.observe.observation import network_of, observe_with_names
from overlace.optimize.case import METRIC, Training
from overlace.planners.joint.joint import Joint
from overlace.trace.store import DAY_US

EARLIER = (5 / 7, 6 / 7)
"""Shares of the training window."""
LONG_US = 6 * DAY_US


class Origin(NamedTuple):
    """An earlier time: what was known then, the planner as it would have been, and what came after."""

    observation: Observation
    known: Known
    planner: Joint
    later: Later
    until: int  # the end of that


def origins_of(training: Training, planner: Joint, metric: str) -> Iterator[Origin]:
    """The earlier times at which the planner could have planned, and what counts could have been measured.

    The planner's clients, brokers and links are given in the numbers of the whole window.
    """
    trace, window, known, _ = training
    begin, end = window
    unit = DAY_US if end - begin >= LONG_US and DAY_US % trace.bucket_us == 0 else trace.bucket_us
    links = network_of(trace, window, known).links
    for origin in sorted({int(begin + share * (end - begin)) // unit * unit for share in EARLIER}):
        if not begin < origin < end:
            continue
        try:
            observation, names = observe_with_names(trace, (begin, origin))
        except OverlaceError:  # the system as it was then could not be planned for, whatever it is now
            continue
        then = known_as(trace, names)
        mine = by_then(planner, observation, links, Numbers.between(known, then))
        measured = metric != "total_cost" or observation.network.access_cost.size
        if metric == METRIC["latency"]:
            measured = not observation.network.unmeasured(observation.overlay.tree)
        if mine is None or not measured or not len(observation.classes) or not len(observation.overlay.tree):
            continue
        follows = later(trace, (origin, end), then, observation)
        if len(follows.traffic.client):
            yield Origin(observation, then, mine, follows, end)


class Numbers(NamedTuple):
    """By the numbers of the training window, those of an earlier origin; what was not known then has higher ones."""

    client: Ints
    broker: Ints

    @classmethod
    def between(cls, known: Known, then: Known) -> Numbers:
        """From what is known to what was known then."""
        return cls(*(then.number(kind, known.ids(kind)) for kind in ("client", "broker")))


def by_then(planner: Joint, observation: Observation, links: Pairs, to: Numbers | None = None) -> Joint | None:
    """The planner without what had not been seen by then; None if of the clients that may move nobody had.

    Links are rows of the network's, here those of the training window; by then there may have been fewer.
    """

    def numbers_then(ids: tuple[int, ...], place: Ints | None, most: int) -> tuple[int, ...]:
        then = ids if place is None else place[list(ids)].tolist() if ids else ()
        return tuple(sorted(n for n in then if n < most))

    clients, at = to or (None, None)
    keep, only = (numbers_then(ids, clients, observation.clients) for ids in (planner.keep, planner.only))
    if planner.only and not only:
        return None
    there = links if at is None or not len(links) else np.ascontiguousarray(np.sort(at[links], axis=1))
    rows = positions(observation.network.links, there)
    wire, stay = (
        tuple(sorted(int(rows[r]) for r in ids if rows[r] >= 0)) for ids in (planner.may_wire, planner.keep_links)
    )
    method = "joint" if planner.method == "best" else planner.method  # its rivals hardly ever find more
    brokers = numbers_then(planner.keep_brokers, at, observation.network.brokers)
    return replace(
        planner, keep=keep, only=only, may_wire=wire, keep_links=stay, keep_brokers=brokers, effort=0, method=method
    )
