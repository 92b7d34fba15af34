"""Channels for content: predicates as attributes, chosen by what PART10's strategies make of them.

A row of the offers is a publisher with a mask that its messages have had, and how many; a request is the mask of a
filter (`overlace.matching.content.attributes`). Messages without any attribute match no filter, and nobody offers
them. More predicates tell filters better apart but make more combinations, which have to share channels where
connections are few: how many are best is tried out, on the messages that are given.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from overlace.arrays.jit import Ints
from overlace.matching.content.attributes import mask_filters
from overlace.matching.content.columns import Columns
from overlace.matching.content.constraints import Filter
from overlace.matching.content.matcher import Matcher
from overlace.model import UNLIMITED, Observation, Offers, Overlay, Planner, Requests
from overlace.planners.channels.cost import cost

STEPS = (1, 2, 3, 4, 6, 8, 12, 16, 24, 32, 48, 63)
"""How many predicates are tried."""


class Fitted(NamedTuple):
    """The predicates that gave least traffic, the channels for them, and how many messages subscribers receive."""

    predicates: list[Filter]
    overlay: Overlay
    received: float


def describe(
    columns: Columns,
    publisher: Ints,
    filters: Sequence[Filter],
    predicates: Sequence[Filter],
    connections: int = UNLIMITED,
) -> Observation:
    """What publishers offer and subscribers request, if predicates are the attributes; subscribers are the filters."""
    masks = mask_messages(columns, predicates)
    offered = np.flatnonzero(masks)
    pairs, first, count = np.unique(
        np.column_stack([publisher[offered], masks[offered]]), axis=0, return_index=True, return_counts=True
    )
    order = np.argsort(first, kind="stable")  # as they come up
    offers = Offers(pairs[order, 0], pairs[order, 1], np.full(len(order), connections), count[order])
    wanted = mask_filters(filters, predicates)
    clients = int(publisher.max(initial=-1)) + 1
    return Observation(
        offers=offers,
        requests=Requests(clients + np.arange(len(filters)), wanted),
        clients=clients + len(filters),
    )


def fit_predicates(
    planner: Planner,
    columns: Columns,
    publisher: Ints,
    filters: Sequence[Filter],
    ranked: Sequence[Filter],
    connections: int = UNLIMITED,
    steps: Sequence[int] = STEPS,
) -> Fitted:
    """The first so many of ranked predicates for which a planner's channels bring subscribers fewest messages."""
    best: Fitted | None = None
    for number in dict.fromkeys(min(each, len(ranked)) for each in steps):
        observation = describe(columns, publisher, filters, ranked[:number], connections)
        if (observation.requests.attributes == 0).any():
            continue  # somebody asks for none of them
        after = planner.solve(observation, 0).after
        received = cost(observation, after)
        if best is None or received < best.received:
            best = Fitted(list(ranked[:number]), after, received)
    if best is None:
        raise ValueError("no number of predicates gives everybody something to ask for")
    return best


def mask_messages(columns: Columns, predicates: Sequence[Filter]) -> Ints:
    """The attributes that each message has, as a mask: bit i is predicate i."""
    start, ids = Matcher(predicates).match(columns)
    masks = np.zeros(columns.rows, np.int64)
    np.bitwise_or.at(masks, np.repeat(np.arange(columns.rows), np.diff(start)), np.left_shift(1, ids.astype(np.int64)))
    return masks
