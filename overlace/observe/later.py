"""The traffic that follows an observed window, and who first comes up in it.

A newcomer is a client that had no traffic before: it neither sent nor received, whether or not it was connected. Where
it should connect cannot be known before it says something: in its first message it is where the log shows it, and so it
is in its whole first bucket where the trace keeps no messages, or where receivers follow from subscriptions. Only what
comes after that can be said elsewhere; so here a newcomer in its first message has a number of its own.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import NamedTuple

import numpy as np
import pyarrow as pa

from overlace.arrays.csr import take_groups
from overlace.arrays.jit import Bools, Ints
from overlace.model import Observation, Overlay
from overlace.observe.known import IdMap
from overlace.observe.sums import sums_of
from overlace.observe.tables import NO_REGION, STILL, Window, at_some_time, columns
from overlace.observe.traffic import IN_PROCESS, Reader, complete_traffic, table_of
from overlace.trace.store import Trace
from overlace.trace.traffic import Traffic, add_up

LOOKED_AT = 64
"""Receivers of a message that are looked at for whom a newcomer met first."""
DIRECT = 1 << 20
"""How much more than a receiver beside it the sender of its first message counts, or a receiver of that."""


class Arrivals(NamedTuple):
    """Newcomers in the order in which they come up, those of one moment by number."""

    client: Ints
    at: Ints  # when: the time of the first message, or of the first bucket
    contact: Ints  # whom it met first, of those that were there before; -1: nobody
    home: Ints  # the broker that the log shows it at then; -1: none
    region: Ints  # where it is; -1: not known


@dataclass(frozen=True, eq=False)
class Later:
    """The traffic of a window after the observed one, by the numbers of the observation; all else has higher ones."""

    observation: Observation
    traffic: Traffic
    fresh: Bools  # whether a newcomer takes part in a row of it
    arrivals: Arrivals
    called: Sequence[str]  # the names of newcomers
    clients: int  # of the trace; the i-th newcomer in its first message has the number clients + i

    def rows(self, which: Ints | Bools | None = None) -> pa.Table:
        """Rows of TRAFFIC, all or some of them."""
        return table_of(self.traffic if which is None else self.traffic.pick(which))

    @cached_property
    def stage(self) -> Observation:
        """The observation with room for everybody in the traffic."""
        seen, new, most = self.observation, self.arrivals, self.clients + len(self.arrivals.client)
        more = (0, most - seen.clients)
        network = seen.network
        if len(network.client_region):
            region = np.pad(network.client_region, more, constant_values=-1)
            region[new.client] = np.where(region[new.client] >= 0, region[new.client], new.region)
            region[self.clients :] = region[new.client]
            network = replace(network, client_region=region)
        sent, size = np.pad(seen.sent, more), np.pad(seen.sent_bytes, more)
        return replace(seen, clients=most, network=network, sent=sent, sent_bytes=size)

    def overlay(self, overlay: Overlay, homes: Ints | None = None) -> Overlay:
        """An overlay with the newcomers: where the log shows them, or from their second message on at these homes."""
        new = self.arrivals
        home = np.pad(
            overlay.homes(self.observation.clients),
            (0, self.stage.clients - self.observation.clients),
            constant_values=-1,
        )
        home[self.clients :] = new.home
        home[new.client] = np.where(new.home >= 0, new.home if homes is None else homes, -1)
        placed = np.flatnonzero(home >= 0)
        return replace(overlay, placement=np.column_stack([placed, home[placed]]))


class Meetings(NamedTuple):
    """Newcomers in rows of traffic, as senders and as receivers; one may be both."""

    row: Ints
    client: Ints
    sends: Bools

    def pick(self, which: Bools) -> Meetings:
        """Some of them."""
        return Meetings(self.row[which], self.client[which], self.sends[which])


def later(
    trace: Trace,
    window: Window,
    known: IdMap,
    observation: Observation,
    pretend: Ints | None = None,
    reader: Reader = IN_PROCESS,
) -> Later:
    """The traffic of a window after an observation whose numbers are `known`; some clients may pretend to be new."""
    logged = reader.traffic(trace, None if window == (0, 0) else window, observation.window)
    traffic = _within(trace, window, known, logged)
    named = [int(ids.max(initial=-1)) for each in (logged, traffic) for ids in (each.client, each.receivers)]
    most = max(observation.clients, len(known.place["client"]), max(named) + 1)
    is_new = np.ones(most, dtype=np.bool_)
    is_new[: observation.clients] = ~had_traffic(observation)
    if pretend is not None:
        is_new[pretend] = True

    met = _meetings(traffic, is_new)
    exact = bool(len(met.row) and trace.rows("messages") and (logged.audience >= 0).all())
    if exact:  # the message in which each comes up is known, not only the bucket
        new_ids = is_new[known.number("client", np.arange(most))]
        messages = reader.messages(trace, window, observation.window)
        traffic = _within(trace, window, known, _by_message(trace, logged, messages, new_ids))
        met = _meetings(traffic, is_new)

    first = np.full(most, STILL)
    np.minimum.at(first, met.client, traffic.bucket[met.row])
    new, called = _in_order(trace, known, np.flatnonzero(first < STILL), first)
    fresh = np.zeros(len(traffic.client), dtype=np.bool_)
    fresh[met.row] = True
    begins = met.pick(traffic.bucket[met.row] == first[met.client])
    rank, number = np.arange(most), np.full(most, -1)
    rank[new] = number[new] = most + np.arange(len(new))

    contact = _contacts(traffic, begins, first, rank)[new]
    until = first[new] + (1 if exact else trace.bucket_us)
    home = _homes(trace, window, known, observation, new, until)
    arrivals = Arrivals(new, first[new], contact, home, _regions(trace, window, known, new))
    return Later(observation, _renumber(traffic, begins, number), fresh, arrivals, called, most)


def _within(trace: Trace, window: Window, known: IdMap, logged: Traffic) -> Traffic:
    """The traffic at times within the window: a bucket that it cuts begins with it."""
    traffic = complete_traffic(trace, window, known, logged)
    return traffic if window == (0, 0) else traffic._replace(bucket=np.maximum(traffic.bucket, window[0]))


def _in_order(trace: Trace, known: IdMap, new: Ints, first: Ints) -> tuple[Ints, list[str]]:
    """(newcomers, names) in the order in which they come up, those of one moment by name, the shorter first."""
    names, back = trace.names.get("client", ()), np.argsort(known.place["client"])
    ids = np.where(new < len(back), back[np.minimum(new, max(len(back) - 1, 0))] if len(back) else new, new)
    called = [names[i] if i < len(names) else f"client {i}" for i in ids.tolist()]
    order = sorted(range(len(new)), key=lambda k: (first[new[k]], len(called[k]), called[k], new[k]))
    return new[order], [called[k] for k in order]


def strangers(traffic: Later) -> float:
    """The share of the deliveries between clients that had traffic before which are between two that had not talked."""
    flows, clients = traffic.observation.flows, traffic.observation.clients
    talked = np.minimum(flows.sender, flows.receiver) * clients + np.maximum(flows.sender, flows.receiver)
    sums = sums_of(traffic.rows(np.flatnonzero(~traffic.fresh)).combine_chunks().to_batches())
    sender, receiver, messages, _ = sums.flows
    met = np.isin(np.minimum(sender, receiver) * clients + np.maximum(sender, receiver), talked)
    return float(messages[~met].sum() / messages.sum()) if messages.sum() else 0.0


def had_traffic(observation: Observation) -> Bools:
    """Whether each client has sent or received anything."""
    had = np.asarray(observation.sent > 0)
    for ids in (observation.classes.members, observation.flows.receiver, observation.flows.sender):
        had[ids] = True
    return had


def _meetings(traffic: Traffic, is_new: Bools) -> Meetings:
    """The newcomers in each row."""
    at = np.flatnonzero(is_new[traffic.receivers])
    count = np.bincount(np.searchsorted(traffic.start, at, side="right") - 1, minlength=len(traffic.start) - 1)
    row = np.flatnonzero(count[traffic.audience])
    _, got = take_groups(np.append(0, np.cumsum(count)), traffic.receivers[at], traffic.audience[row])
    sent = np.flatnonzero(is_new[traffic.client])
    rows = np.append(sent, np.repeat(row, count[traffic.audience[row]]))
    return Meetings(rows, np.append(traffic.client[sent], got), np.arange(len(rows)) < len(sent))


def _by_message(trace: Trace, traffic: Traffic, messages: Traffic, is_new: Bools) -> Traffic:
    """The traffic, in place of rows with newcomers the messages themselves in buckets of which all are there."""
    met = [np.unique(_meetings(rows, is_new).row) for rows in (traffic, messages)]
    buckets, places = np.unique(
        np.concatenate([r.bucket[row] // trace.bucket_us for r, row in zip((traffic, messages), met, strict=True)]),
        return_inverse=True,
    )
    mine, each = places[: len(met[0])], places[len(met[0]) :]
    amounts = [
        np.bincount(place, weights=rows.messages[row], minlength=len(buckets))
        for rows, row, place in ((traffic, met[0], mine), (messages, met[1], each))
    ]
    whole = amounts[0] == amounts[1]
    kept = np.ones(len(traffic.client), dtype=np.bool_)
    kept[met[0][whole[mine]]] = False
    rest, own = traffic.pick(kept), messages.pick(met[1][whole[each]])
    return rest.append(own) if own.start is rest.start else rest.join(own)


def _contacts(traffic: Traffic, met: Meetings, first: Ints, rank: Ints) -> Ints:
    """By client, whom it met first: of those that were there before, the one with most of its first messages.

    That is who sent to it or received from it; only where nobody did, who received the same.
    """
    found = np.full(len(first), -1)
    audience, messages = traffic.audience[met.row], traffic.messages[met.row]
    size = np.minimum(np.diff(traffic.start)[audience], LOOKED_AT)
    which = np.repeat(np.arange(len(met.row)), size)
    offset = np.arange(int(size.sum())) - np.repeat(np.cumsum(size) - size, size)
    got = traffic.receivers[traffic.start[audience][which] + offset]
    one, other = np.append(met.client, met.client[which]), np.append(traffic.client[met.row], got)
    direct = np.append(~met.sends, met.sends[which])
    amount = np.append(messages, messages[which]) * np.where(direct, DIRECT, 1)
    there = (first[other] < first[one]) | (first[other] == STILL)
    known = there & (one != other)
    (who, whom), (weight,) = add_up([one[known], other[known]], [amount[known]])
    order = np.lexsort((-rank[whom], weight, who))
    found[who[order]] = whom[order]  # the last one of each stays: most, then the lowest number
    return found


def _homes(trace: Trace, window: Window, known: IdMap, observation: Observation, new: Ints, until: Ints) -> Ints:
    """Where the log shows newcomers: in the session they came up in, else in their next one; -1 for nowhere.

    They came up before `until`. Who has no session then is where it was at the end of what was observed.
    """
    home = np.full(len(new), -1)
    seen = np.flatnonzero(new < observation.clients)
    home[seen] = observation.overlay.homes(observation.clients)[new[seen]]
    rows = at_some_time(columns(trace, "sessions", "client broker since until"), window)
    place, broker = _place_among(new, known.number("client", rows["client"])), known.number("broker", rows["broker"])
    mine = (place >= 0) & (broker < observation.network.brokers)
    who, broker, since = place[mine], broker[mine], rows["since"][mine]
    open_then = since < until[who]
    order = np.lexsort((-broker, np.where(open_then, since, -since), open_then, who))
    home[who[order]] = broker[order]  # the last one of each stays
    return home


def _regions(trace: Trace, window: Window, known: IdMap, new: Ints) -> Ints:
    """The regions of newcomers, -1 where none is known."""
    rows = at_some_time(columns(trace, "clients", "client region since until"), window)
    place = _place_among(new, known.number("client", rows["client"]))
    listed = (place >= 0) & (rows["region"] != NO_REGION)
    there = known.number("region", rows["region"][listed])
    order = np.argsort(rows["since"][listed], kind="stable")  # the last is where it is
    region = np.full(len(new), -1)
    region[place[listed][order]] = np.where(there < known.counts["region"], there, -1)[order]
    return region


def _place_among(new: Ints, clients: Ints) -> Ints:
    """The place of each client among the newcomers; -1 for one that is none."""
    place = np.full(max(int(clients.max(initial=-1)), int(new.max(initial=-1))) + 1, -1)
    place[new] = np.arange(len(new))
    return place[clients]


def _renumber(traffic: Traffic, met: Meetings, number: Ints) -> Traffic:
    """The traffic with newcomers in their first messages under numbers of their own."""
    sender = traffic.client.copy()
    sender[met.row[met.sends]] = number[met.client[met.sends]]

    received = met.pick(~met.sends)
    rows = np.unique(received.row)
    start, receivers = take_groups(traffic.start, traffic.receivers, traffic.audience[rows])
    owner = np.repeat(rows, np.diff(start))
    begins = np.isin(owner * len(number) + receivers, received.row * len(number) + received.client)
    receivers = np.where(begins, number[receivers], receivers)

    audience = traffic.audience.copy()
    audience[rows] = len(traffic.start) - 1 + np.arange(len(rows))
    start = np.append(traffic.start, traffic.start[-1] + start[1:])
    return traffic._replace(
        client=sender, audience=audience, start=start, receivers=np.append(traffic.receivers, receivers)
    )
