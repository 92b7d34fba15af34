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
from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa

from overlace.arrays.csr import take_groups
from overlace.arrays.jit import Bools, Ints
from overlace.model import Observation, Overlay
from overlace.observe.known import Known
from overlace.observe.sums import finish, partial
from overlace.observe.tables import NULL, STILL, Window, at_some_time, columns
from overlace.observe.traffic import Heard, Logged, Rows, heard_in, messages_in, read_traffic, table_of
from overlace.trace.store import Trace
from overlace.trace.traffic import UNLOGGED, add_up

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
    heard: Heard
    start: Ints  # receivers[start[i]:start[i + 1]] are audience i
    receivers: Ints
    fresh: Bools  # whether a newcomer takes part in what was heard
    arrivals: Arrivals
    called: Sequence[str]  # the names of newcomers
    clients: int  # of the trace; the i-th newcomer in its first message has the number clients + i

    def rows(self, which: Any = None) -> pa.Table:
        """Rows of traffic, all or some of what was heard."""
        return table_of(
            Heard(*(each if which is None else each[which] for each in self.heard)), self.start, self.receivers
        )

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


def later(trace: Trace, window: Window, known: Known, observation: Observation, pretend: Ints | None = None) -> Later:
    """What was heard in a window after an observation whose numbers are `known`; some clients may pretend to be new."""
    logged = read_traffic(trace, None if window == (0, 0) else window)
    ids = int(max((each.max(initial=-1) for each in (logged.rows.client, logged.receivers)), default=-1)) + 1
    most = max(observation.clients, len(known.place["client"]), ids)
    exact, is_new = False, np.ones(most, dtype=np.bool_)
    is_new[: observation.clients] = ~had_traffic(observation)
    if pretend is not None:
        is_new[pretend] = True
    heard, start, receivers = _heard(trace, window, known, logged)
    most = max(most, int(max(heard.client.max(initial=-1), receivers.max(initial=-1))) + 1)
    is_new = np.pad(is_new, (0, most - len(is_new)), constant_values=True)
    row, client, sends = _meetings(heard, start, receivers, is_new)
    if len(row) and trace.rows("messages") and (logged.rows.audience != UNLOGGED).all():
        exact = True
        logged = _by_message(trace, window, logged, np.unique(heard.bucket[row] // trace.bucket_us * trace.bucket_us))
        heard, start, receivers = _heard(trace, window, known, logged)
        row, client, sends = _meetings(heard, start, receivers, is_new)
    first = np.full(most, STILL)
    np.minimum.at(first, client, heard.bucket[row])
    begins = heard.bucket[row] == first[client]
    new, called = _in_order(trace, known, np.flatnonzero(first < STILL), first)
    rank = np.arange(most)
    rank[new] = most + np.arange(len(new))
    fresh = np.zeros(len(heard.client), dtype=np.bool_)
    fresh[row] = True
    row, client, sends = row[begins], client[begins], sends[begins]
    contact = _contacts(heard, start, receivers, row, client, sends, first, rank)[new]
    until = first[new] + (1 if exact else trace.bucket_us)
    home, region = _where(trace, window, known, observation, new, until)
    arrivals = Arrivals(new, first[new], contact, home, region)
    number = np.full(most, -1)
    number[new] = most + np.arange(len(new))
    heard, start, receivers = _renamed(heard, start, receivers, row, client, sends, number)
    return Later(observation, heard, start, receivers, fresh, arrivals, called, most)


def _heard(trace: Trace, window: Window, known: Known, logged: Logged) -> tuple[Heard, Ints, Ints]:
    """What was heard, at times within the window: a bucket that it cuts begins with it."""
    heard, start, receivers, _ = heard_in(trace, window, known, logged)
    if window != (0, 0):
        heard = heard._replace(bucket=np.maximum(heard.bucket, window[0]))
    return heard, start, receivers


def _in_order(trace: Trace, known: Known, new: Ints, first: Ints) -> tuple[Ints, list[str]]:
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
    sums = finish(partial(traffic.rows(np.flatnonzero(~traffic.fresh)).combine_chunks().to_batches()))
    sender, receiver, messages, _ = sums.flows
    met = np.isin(np.minimum(sender, receiver) * clients + np.maximum(sender, receiver), talked)
    return float(messages[~met].sum() / messages.sum()) if messages.sum() else 0.0


def had_traffic(observation: Observation) -> Bools:
    """Whether each client has sent or received anything."""
    had = np.asarray(observation.sent > 0)
    for ids in (observation.classes.members, observation.flows.receiver, observation.flows.sender):
        had[ids] = True
    return had


def _meetings(heard: Heard, start: Ints, receivers: Ints, is_new: Bools) -> tuple[Ints, Ints, Bools]:
    """(row, client, whether it sends): the newcomers in each row, as senders and as receivers; one may be both."""
    at = np.flatnonzero(is_new[receivers])
    count = np.bincount(np.searchsorted(start, at, side="right") - 1, minlength=len(start) - 1)
    bounds = np.append(0, np.cumsum(count))
    row = np.flatnonzero(count[heard.place])
    _, got = take_groups(bounds, receivers[at], heard.place[row])
    sent = np.flatnonzero(is_new[heard.client])
    rows = np.append(sent, np.repeat(row, count[heard.place[row]]))
    return rows, np.append(heard.client[sent], got), np.arange(len(rows)) < len(sent)


def _by_message(trace: Trace, window: Window, logged: Logged, buckets: Ints) -> Logged:
    """The traffic with the messages themselves in some buckets, where the trace keeps all of them."""
    messages, rows, width = messages_in(trace, window), logged.rows, trace.bucket_us
    place, mine = (np.searchsorted(buckets, each) for each in (messages.bucket // width * width, rows.bucket))
    there, listed = (
        (i < len(buckets)) & (buckets[np.minimum(i, len(buckets) - 1)] == b)
        for i, b in ((place, messages.bucket // width * width), (mine, rows.bucket))
    )
    kept, told = (
        np.bincount(i[which], weights=amount[which], minlength=len(buckets))
        for i, which, amount in ((place, there, messages.messages), (mine, listed, rows.messages))
    )
    whole = np.append(kept == told, False)
    there, listed = there & whole[np.minimum(place, len(buckets))], listed & whole[np.minimum(mine, len(buckets))]
    joined = (np.concatenate([a[~listed], b[there]]) for a, b in zip(rows, messages, strict=True))
    return logged._replace(rows=Rows(*joined))


def _contacts(
    heard: Heard, start: Ints, receivers: Ints, row: Ints, client: Ints, sends: Bools, first: Ints, rank: Ints
) -> Ints:
    """By client, whom it met first: of those that were there before, the one with most of its first messages.

    That is who sent to it or received from it; only where nobody did, who received the same.
    """
    found = np.full(len(first), -1)
    size = np.minimum(np.diff(start)[heard.place[row]], LOOKED_AT)
    which = np.repeat(np.arange(len(row)), size)
    offset = np.arange(int(size.sum())) - np.repeat(np.cumsum(size) - size, size)
    got = receivers[start[heard.place[row]][which] + offset]
    pairs = np.append(client, client[which]), np.append(heard.client[row], got)
    direct = np.append(~sends, sends[which])
    amount = np.append(heard.messages[row], heard.messages[row][which]) * np.where(direct, DIRECT, 1)
    there = (first[pairs[1]] < first[pairs[0]]) | (first[pairs[1]] == STILL)
    met = there & (pairs[0] != pairs[1])
    (who, whom), (weight,) = add_up([pairs[0][met], pairs[1][met]], [amount[met]])
    order = np.lexsort((-rank[whom], weight, who))
    found[who[order]] = whom[order]  # the last one of each stays: most, then the lowest number
    return found


def _where(
    trace: Trace, window: Window, known: Known, observation: Observation, new: Ints, until: Ints
) -> tuple[Ints, Ints]:
    """(home, region) of newcomers as the log shows them: in the session they came up in, else in their next one.

    They came up before `until`. Who has no session then is where it was at the end of what was observed.
    """
    home = np.full(len(new), -1)
    seen = np.flatnonzero(new < observation.clients)
    home[seen] = observation.overlay.homes(observation.clients)[new[seen]]
    rows = at_some_time(columns(trace, "sessions", "client broker since until"), window)
    client, broker = known.number("client", rows["client"]), known.number("broker", rows["broker"])
    place = np.full(max(int(client.max(initial=-1)), int(new.max(initial=-1))) + 1, -1)
    place[new] = np.arange(len(new))
    mine = (place[client] >= 0) & (broker < observation.network.brokers)
    who, broker, since = place[client[mine]], broker[mine], rows["since"][mine]
    begun = since < until[who]
    order = np.lexsort((-broker, np.where(begun, since, -since), begun, who))
    shown = np.full(len(new), -1)
    shown[who[order]] = broker[order]
    clients = at_some_time(columns(trace, "clients", "client region since until"), window)
    region = np.full(len(new), -1)
    number = known.number("client", clients["client"])
    listed = (
        (number < len(place)) & (place[np.minimum(number, len(place) - 1)] >= 0) & (clients["region"] != NULL["region"])
    )
    there = known.number("region", clients["region"][listed])
    order = np.argsort(clients["since"][listed], kind="stable")  # the last is where it is
    region[place[number[listed]][order]] = np.where(there < known.counts["region"], there, -1)[order]
    return np.where(shown >= 0, shown, home), region


def _renamed(
    heard: Heard, start: Ints, receivers: Ints, row: Ints, client: Ints, sends: Bools, number: Ints
) -> tuple[Heard, Ints, Ints]:
    """What was heard, with newcomers in their first messages under numbers of their own."""
    sender = heard.client.copy()
    sender[row[sends]] = number[client[sends]]
    rows = np.unique(row[~sends])
    bounds, taken = take_groups(start, receivers, heard.place[rows])
    owner = np.repeat(rows, np.diff(bounds))
    key, most = row[~sends] * len(number) + client[~sends], len(number)
    renamed = np.isin(owner * most + taken, key)
    taken = np.where(renamed, number[taken], taken)
    place = heard.place.copy()
    place[rows] = len(start) - 1 + np.arange(len(rows))
    return (
        heard._replace(client=sender, place=place),
        np.append(start, start[-1] + bounds[1:]),
        np.append(receivers, taken),
    )
