"""What a cut into channels brings to subscribers: traffic received, and how much of it nobody asked for.

PART10 §3.1, §5.1. A publisher publishes each message, with all attributes of its advertisement, in every
channel that holds a combination it offers (a non-empty sub-mask). A subscriber listens to the one channel
that holds its combination, receives everything there, and wants a message exactly when the message has
all attributes of the combination. What is received and not wanted is a false positive.

Kept true: D, the traffic received, is the sum over channels of subscribers x messages; the true positives
are the same for every cut; the rate is false positives / received (R6: §5.1 has it upside down); where
nothing is received it is 0. Combinations that no channel holds share one channel, -1 here. Where no
requests are known there is one subscriber per offered combination.

`delivery` counts exactly; §5.1's simulation is in `reproductions`, and the two agree within its standard error.
"""

from __future__ import annotations

from operator import mul
from typing import NamedTuple

import numpy as np

from overlace.arrays.csr import group
from overlace.arrays.jit import Ints, kernel
from overlace.arrays.masks import bits, bits_of, submasks_of
from overlace.errors import BadObservation, BadOverlay
from overlace.metrics import Metrics
from overlace.model import Observation, Overlay, name_of
from overlace.replay.tally import Tally, share

REST = -1
"""The channel of the combinations that no channel holds."""

MOST_LISTED = 26
"""Attributes of an advertisement whose combinations can still be listed: half a gigabyte of them."""


class ChannelCut(NamedTuple):
    """A cut into channels as arrays: where each combination stands."""

    combination: Ints  # ascending
    place: Ints  # of each combination, its channel's place among the channels
    channel: Ints  # ids, ascending, REST last


def delivery(observation: Observation, overlay: Overlay) -> Metrics:
    """Connections, loads and false positives of the overlay's channels, counted exactly."""
    cut, offers = cut_of(overlay), observation.offers
    subscriber = wanted_of(observation)
    masks, kind = np.unique(offers.attributes, return_inverse=True)
    messages = np.zeros(len(masks), dtype=np.int64)
    np.add.at(messages, kind, offers.messages)
    start, met = channels_met(masks, cut)
    published = np.zeros(len(cut.channel), dtype=np.int64)
    np.add.at(published, met, np.repeat(messages, np.diff(start)))

    wanted, count = np.unique(subscriber, return_counts=True)
    listens = places(wanted, cut)
    subscribers = np.zeros(len(cut.channel), dtype=np.int64)
    np.add.at(subscribers, listens, count)
    matches, match = inside(masks, wanted)
    hits = np.zeros(len(cut.channel), dtype=np.int64)
    np.add.at(hits, listens[match], np.repeat(messages, np.diff(matches)) * count[match])

    tally = Tally()
    _connections(tally, observation, kind, start, met)
    _channels(tally, cut, published, subscribers, hits)
    return tally.metrics()


def _connections(tally: Tally, observation: Observation, kind: Ints, start: Ints, met: Ints) -> None:
    """How many channels each publisher is connected to: R3, derived from all it advertises."""
    offers = observation.offers
    publisher, at = np.unique(offers.publisher, return_inverse=True)
    first, order = group(at, len(publisher))
    connections = distinct_met(first, kind[order], start, met, int(met.max(initial=0)) + 1)
    tally.overall("publishers", len(publisher))
    tally.overall("mean_connections", share(int(connections.sum()), len(publisher)))
    tally.overall("max_connections", int(connections.max(initial=0)))
    tally.overall("over_limit", int((np.diff(start)[kind] > offers.connections).sum()))
    tally.add("connections", "client", publisher, connections)


def _channels(tally: Tally, cut: ChannelCut, published: Ints, subscribers: Ints, hits: Ints) -> None:
    """What each channel and all of them bring; the rest counts as a channel where it is used."""
    used = np.ones(len(cut.channel), dtype=np.bool_)
    used[-1] = published[-1] > 0 or subscribers[-1] > 0
    key = cut.channel[used]
    received = sum(map(mul, subscribers.tolist(), published.tolist()))
    wanted = int(hits.sum())
    tally.overall("channels", len(key))
    tally.overall("subscribers", int(subscribers.sum()))
    tally.overall("received", received)
    tally.overall("true_positives", wanted)
    tally.overall("false_positives", received - wanted)
    tally.overall("false_positive_rate", share(received - wanted, received))
    per_channel = subscribers.astype(np.float64) * published
    rate = np.divide(per_channel - hits, per_channel, out=np.zeros(len(hits)), where=per_channel > 0)
    tally.add("subscribers", "channel", key, subscribers[used])
    tally.add("messages", "channel", key, published[used])
    tally.add("received", "channel", key, per_channel[used])
    tally.add("false_positive_rate", "channel", key, rate[used])
    tally.add("combinations", "channel", cut.channel[:-1], np.bincount(cut.place, minlength=len(cut.channel))[:-1])


def cut_of(overlay: Overlay) -> ChannelCut:
    """An overlay's channels, in which each combination is once."""
    combination, channel = overlay.channels[:, 0], overlay.channels[:, 1]
    twice = np.flatnonzero(combination[1:] == combination[:-1])
    if len(twice):
        which = name_of("combination", int(combination[twice[0]]))
        raise BadOverlay(f"channels: {which} is in two channels; PART10 (3.1) allows one")
    if len(combination) and (combination[0] <= 0 or channel.min() < 0):
        raise BadOverlay("channels: combinations are masks above 0, and channels have ids from 0")
    ids, place = np.unique(channel, return_inverse=True)
    return ChannelCut(np.ascontiguousarray(combination), place, np.append(ids, REST))


def wanted_of(observation: Observation) -> Ints:
    """One combination per subscriber."""
    masks = observation.offers.attributes
    if (masks <= 0).any():
        row = int(np.flatnonzero(masks <= 0)[0])
        who = name_of("client", int(observation.offers.publisher[row]))
        raise BadObservation(f"offers: {who} (row {row}) advertises mask {masks[row]}; expected at least one attribute")
    if len(observation.requests.attributes):
        return observation.requests.attributes
    most = int(bits_of(masks).max(initial=0))
    if most > MOST_LISTED:
        raise BadObservation(
            f"offers: an advertisement holds {most} attributes, too many to list all their combinations as "
            f"subscribers (at most {MOST_LISTED}). Give the requests: ingest the table subscriptions."
        )
    return submasks_of(np.unique(masks))


def places(wanted: Ints, cut: ChannelCut) -> Ints:
    """The place of the channel that each combination is found in; the last place for those in none."""
    at = np.searchsorted(cut.combination, wanted)
    held = at < len(cut.combination)
    held[held] = cut.combination[at[held]] == wanted[held]
    found = np.full(len(wanted), len(cut.channel) - 1)
    found[held] = cut.place[at[held]]
    return found


@kernel
def inside(masks: Ints, combination: Ints) -> tuple[Ints, Ints]:
    """(start, at): the ascending combinations that lie within each mask, by their place.

    Looks either at all combinations or at all sub-masks of the mask, whichever are fewer.
    """
    start = np.zeros(len(masks) + 1, dtype=np.int64)
    at = np.empty(0, dtype=np.int64)
    for fill in range(2):  # first count, then write
        filled = 0
        for i in range(len(masks)):
            size = bits(masks[i])
            if size < 62 and 1 << size < len(combination):
                sub = masks[i]
                while sub:
                    k = np.searchsorted(combination, sub)
                    if k < len(combination) and combination[k] == sub:
                        if fill:
                            at[filled] = k
                        filled += 1
                    sub = (sub - 1) & masks[i]
            else:
                for k in range(len(combination)):
                    if combination[k] & ~masks[i] == 0:
                        if fill:
                            at[filled] = k
                        filled += 1
            start[i + 1] = filled
        if not fill:
            at = np.empty(filled, dtype=np.int64)
    return start, at


@kernel
def channels_met(masks: Ints, cut: ChannelCut) -> tuple[Ints, Ints]:
    """(start, place): the channels that hold a combination which each advertisement offers (§3.2.1).

    An advertisement reaches into the rest, the last place, exactly when it offers more combinations
    than all channels together hold of it.
    """
    held, at = inside(masks, cut.combination)
    rest = len(cut.channel) - 1
    start = np.zeros(len(masks) + 1, dtype=np.int64)
    met = np.empty(len(at) + len(masks), dtype=np.int64)
    seen = np.full(len(cut.channel), -1, dtype=np.int64)
    filled = 0
    for i in range(len(masks)):
        for k in range(held[i], held[i + 1]):
            c = cut.place[at[k]]
            if seen[c] != i:
                seen[c] = i
                met[filled] = c
                filled += 1
        if held[i + 1] - held[i] < (1 << bits(masks[i])) - 1:
            met[filled] = rest
            filled += 1
        start[i + 1] = filled
    return start, met[:filled].copy()


@kernel
def distinct_met(first: Ints, kind: Ints, start: Ints, met: Ints, channels: int) -> Ints:
    """How many different channels the kinds kind[first[p]:first[p + 1]] of each publisher meet."""
    count = np.zeros(len(first) - 1, dtype=np.int64)
    seen = np.full(channels, -1, dtype=np.int64)
    for p in range(len(count)):
        for i in range(first[p], first[p + 1]):
            for k in range(start[kind[i]], start[kind[i] + 1]):
                if seen[met[k]] != p:
                    seen[met[k]] = p
                    count[p] += 1
    return count
