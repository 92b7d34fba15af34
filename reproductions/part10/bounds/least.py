"""A lower bound on D, and so on the false-positive rate, that no cut into channels within the limits can beat.

The higher of two: one by linear programming over all channels (`bound_channels`), where combinations and types are
few enough for it, and one that charges each combination for one other in its channel (`bound_pairs`). Both
put prices on the limits (Lagrange) and are proven at the prices found, however those were found.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from overlace.arrays.jit import Floats
from overlace.model import UNLIMITED, Observation
from overlace.planners.channels.book import book_of
from reproductions.part10.bounds.channels import Limits, bound_by_channels
from reproductions.part10.bounds.pairs import bound_by_pairs


class Bound(NamedTuple):
    """What no cut within the limits can beat."""

    received: float  # D at least
    true_positives: int  # the same for every cut
    rate: float  # false positives / received at least
    prices: Floats  # of a connection, for each type


def bound(observation: Observation) -> Bound:
    """A proven lower bound on the traffic received and on the false-positive rate, for the offers' limits."""
    book, _ = book_of(observation)
    offers = observation.offers
    t = np.searchsorted(book.attributes, offers.attributes)
    messages = np.zeros(len(book.attributes), dtype=np.int64)
    np.add.at(messages, t, offers.messages)
    limit = np.full(len(book.attributes), UNLIMITED)
    np.minimum.at(limit, t, offers.connections)
    owner = np.repeat(np.arange(len(book.attributes)), np.diff(book.start))
    matched = np.bincount(book.offered, weights=messages[owner], minlength=len(book.combination)).astype(np.int64)
    wanted = int((book.weight * matched).sum())
    limits = Limits(messages, limit)
    more, prices = bound_by_pairs(book, limits, matched)
    received, by_channels = bound_by_channels(book, limits)
    least = np.ceil(max(wanted + more, received) * (1 - 1e-9))  # messages are whole; rounding must not lift it
    if received > wanted + more:
        prices = by_channels
    return Bound(float(least), wanted, 1 - wanted / least if least else 0.0, prices)
