"""What publishers offer, written down once: combinations, types of advertisement, who offers what.

PART10 §3. Publishers with equal advertisements always share all channels (R3), so a million publishers with
ten attributes are a few hundred types. Each row of the offers counts as a publisher of its own (R11).

Memory: at the peak some 60 bytes for each row of the offers, 30 for each combination of each type, and, once
the channels are kept (`partition`), 200 for each different combination. Combinations that would take more
than about 2 GB are refused, with the publisher that has the largest advertisement.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from overlace.arrays.csr import group
from overlace.arrays.jit import Ints, Pairs, kernel
from overlace.arrays.masks import MOST_BITS, bits, submasks_of
from overlace.errors import BadObservation, NotObserved
from overlace.model import Observation, Offers, Requests, name_of
from overlace.planners.channels.cost import advertisement_types

MOST_RECEIVED = 1 << 53
"""Messages that all subscribers together could receive: up to here gains are exact."""
MOST_CHANNEL = 1 << 62
"""The largest id of an observed channel: new ones are named after it."""


class Book(NamedTuple):
    """What is fixed: combinations, types (distinct advertisements) and kinds (a type with a limit)."""

    combination: Ints  # ascending: offered, requested or held by an observed channel
    weight: Ints  # subscribers of each combination
    attributes: Ints  # of each type, ascending
    start: Ints  # offered[start[t]:start[t + 1]]: places of the combinations that type t offers, ascending
    offered: Ints
    by_start: Ints  # by_type[by_start[a]:by_start[a + 1]]: the types that offer the combination at place a
    by_type: Ints
    kind_start: Ints  # kinds of each type, the least limit first
    kind_type: Ints
    kind_limit: Ints


def book_of(observation: Observation) -> tuple[Book, Ints]:
    """The book of an observation, and the kind of each row of its offers. Refuses what cannot be planned."""
    offers = observation.offers
    if len(offers.publisher) == 0:
        raise NotObserved("channels: no offers were observed. Ingest the table advertisements.")
    attributes, _ = advertisement_types(offers)  # refuses what cannot be listed
    _refuse(offers, offers.connections, 1, "connection limit", "a publisher without a channel reaches nobody")
    _refuse(offers, offers.messages, 0, "number of messages", "they are counted")
    _check_requests(observation.requests)
    _check_channels(observation.overlay.channels)
    all_offered = submasks_of(attributes)
    held, wanted = observation.overlay.channels[:, 0], observation.requests.attributes
    combination = np.unique(np.concatenate([all_offered, held, wanted]))
    if len(wanted):
        weight = np.bincount(np.searchsorted(combination, wanted), minlength=len(combination))
    else:
        weight = np.zeros(len(combination), dtype=np.int64)
        weight[np.searchsorted(combination, all_offered)] = 1
    received = offers.messages.sum(dtype=np.float64) * weight.sum()
    if received > MOST_RECEIVED:
        row = int(offers.messages.argmax())
        raise BadObservation(
            f"offers: {received:.3g} messages could be received, more than the {MOST_RECEIVED:,} up to which "
            f"traffic is counted exactly; {_name(offers, row)} publishes most, {offers.messages[row]:,}"
        )
    start, offered = offered_places(attributes, combination)
    owner = np.repeat(np.arange(len(attributes)), np.diff(start))
    by_start, order = group(offered, len(combination))
    kind_of, kind_type, kind_limit = _kinds(attributes, offers.attributes, offers.connections)
    kind_start = np.searchsorted(kind_type, np.arange(len(attributes) + 1))
    offers_of = (start, offered, by_start, owner[order])
    kinds = (kind_start.astype(np.int64), kind_type, kind_limit)
    return Book(combination, weight.astype(np.int64), attributes, *offers_of, *kinds), kind_of


def _name(offers: Offers, row: int) -> str:
    return f"{name_of('client', int(offers.publisher[row]))} (row {row})"


def _refuse(offers: Offers, values: Ints, least: int, what: str, why: str) -> None:
    """Name the first publisher whose value is too low."""
    for row in np.flatnonzero(values < least)[:1].tolist():
        raise BadObservation(
            f"offers: the {what} of {_name(offers, row)} is {values[row]}; expected {least} or more, since {why}"
        )


def _check_requests(requests: Requests) -> None:
    """Everybody who subscribes asks for at least one attribute."""
    for row in np.flatnonzero(requests.attributes <= 0)[:1].tolist():
        raise BadObservation(
            f"requests: {name_of('client', int(requests.client[row]))} (row {row}) asks for mask "
            f"{requests.attributes[row]}; expected at least one of at most {MOST_BITS} attributes"
        )


def _check_channels(channels: Pairs) -> None:
    """The observed channels hold each combination once (3.1), and there is room for ids after theirs."""
    combination, channel = channels[:, 0], channels[:, 1]
    twice = np.flatnonzero(combination[1:] == combination[:-1])
    if len(twice):
        mask = int(combination[twice[0]])
        raise BadObservation(
            f"overlay: combination {name_of('combination', mask)} is in two channels, "
            f"{channel[twice[0]]} and {channel[twice[0] + 1]}; expected one (3.1)"
        )
    wrong = np.flatnonzero((combination <= 0) | (channel < 0) | (channel > MOST_CHANNEL))
    if len(wrong):
        raise BadObservation(
            f"overlay: combination {combination[wrong[0]]} is in channel {channel[wrong[0]]}; expected a mask of at "
            f"least one attribute, and an id from 0 to {MOST_CHANNEL:,}"
        )


def _kinds(attributes: Ints, masks: Ints, limits: Ints) -> tuple[Ints, Ints, Ints]:
    """(kind of each row, type of each kind, limit of each kind), sorted by type and limit."""
    known, limit_at = np.unique(limits, return_inverse=True)
    key = np.searchsorted(attributes, masks) * len(known) + limit_at
    kinds, at = np.unique(key, return_inverse=True)
    return at.astype(np.int64), (kinds // len(known)).astype(np.int64), known[kinds % len(known)]


@kernel
def offered_places(attributes: Ints, combination: Ints) -> tuple[Ints, Ints]:
    """(start, places): where the non-empty sub-masks of each mask stand among the ascending combinations."""
    start = np.zeros(len(attributes) + 1, dtype=np.int64)
    for t in range(len(attributes)):
        start[t + 1] = start[t] + (1 << bits(attributes[t])) - 1
    places = np.empty(start[-1], dtype=np.int64)
    for t in range(len(attributes)):
        sub = attributes[t]
        for i in range(start[t + 1] - 1, start[t] - 1, -1):
            places[i] = np.searchsorted(combination, sub)
            sub = (sub - 1) & attributes[t]
    return start, places
