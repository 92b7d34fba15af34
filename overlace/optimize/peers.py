"""The channels of a trace as peers with delays, latency bounds and degree limits: what trees are arranged for.

A message goes from its publisher to the root of the channel, which is one of the publishers where one may send on
messages, else a subscriber, and down the tree. A bound
counts from the publisher that is farthest from the root, so whoever meets it meets it for all of them.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

import numpy as np
from scipy.sparse import csr_array
from scipy.sparse.csgraph import dijkstra

from overlace.arrays.jit import Floats, Ints, Pairs
from overlace.errors import BadTrace
from overlace.ingest.delays import read_delays
from overlace.model import Names, Observation
from overlace.observe.bounds import Bounds

MOST_PEERS = 3000
"""Of one channel: their delays take 72 MB."""


class Delays(NamedTuple):
    """Milliseconds between clients: between the places where they are, and to those places."""

    place: Ints  # of each client, a row of `between`; -1: not known
    between: Floats
    access: Floats  # of each client, ms to its place

    def ways(self, senders: Ints, receivers: Ints) -> Floats:
        """Delays from each sender to each receiver; inf where no way is known."""
        here, there = self.place[senders], self.place[receivers]
        found = self.between[np.ix_(here, there)] + self.access[senders, None] + self.access[receivers]
        found[here < 0, :] = np.inf
        found[:, there < 0] = np.inf
        found[senders[:, None] == receivers] = 0.0
        return found


def delays_of_links(observation: Observation) -> Delays | None:
    """Delays over the links between clients' homes, each pair by its shortest way; None if no latency was measured."""
    network, homes = observation.network, observation.overlay.placement
    known = network.latency_us >= 0
    if network.brokers == 0 or not len(homes) or not (known.any() or network.brokers == 1):
        return None
    ends = network.links[known]
    way = network.latency_us[known] / 1000.0  # one of 0 stays a link: sparse graphs keep what is given
    graph = csr_array((way, (ends[:, 0], ends[:, 1])), shape=(network.brokers, network.brokers))
    between = dijkstra(graph, directed=False)
    place = np.full(observation.clients, -1)
    place[homes[:, 0]] = homes[:, 1]
    access = np.zeros(observation.clients)
    if network.access_latency_us.size and network.client_region.size:
        there = (place >= 0) & (network.client_region >= 0)
        access[there] = network.access_latency_us[network.client_region[there], place[there]] / 1000.0
    return Delays(place, between, access)


def read_client_delays(path: str, names: Names) -> tuple[Delays, list[str]]:
    """(delays, notes): those of a file, for the clients that it names."""
    read = read_delays(path)
    row = {name: i for i, name in enumerate(read.clients)}
    place = np.array([row.get(name, -1) for name in names.get("client", ())], dtype=np.int64)
    if not (place >= 0).any():
        raise BadTrace(
            f"{path}: names no client of the trace, but {', '.join(read.clients[:3])}. Expected names as "
            f"{', '.join(names.get('client', ())[:3])}."
        )
    return Delays(place, read.delay, np.zeros(len(place))), [f"{path}: {note}" for note in read.notes]


class ChannelPeers(NamedTuple):
    """A channel as a problem: the root first, then its subscribers."""

    channel: int
    client: Ints
    delay: Floats  # ms, from row to column
    bound: Floats  # ms from the root; inf: none. The root's own is what is left when messages reach it
    entry: float  # ms to the root, from the publisher farthest away
    messages: float  # that are published in it


class LeftOut(NamedTuple):
    """Subscribers without a tree, by why."""

    unpublished: int = 0  # nobody publishes what they ask for
    unknown: int = 0  # their delays are not known, or those of all publishers
    unserved: int = 0  # nobody is left who could be a root
    large: int = 0  # in channels of more than MOST_PEERS
    publishers: int = 0  # no subscribers: publishers whose delay to a root is not known, counted in each channel


def peers_of(
    observation: Observation, channels: Pairs, asked: Bounds, delays: Delays
) -> tuple[list[ChannelPeers], LeftOut]:
    """(channels with subscribers, whom they leave out)."""
    found, lost = [], dict.fromkeys(LeftOut._fields, 0)
    leads = asked.degree.copy()  # a root has a child at least, in every channel that it leads
    for channel, held, members, bound in sorted(_subscribers(channels, asked), key=lambda each: -len(each[2])):
        every, messages = _publishers(observation, held)
        publisher, reached = every[delays.place[every] >= 0], members[delays.place[members] >= 0]
        could = publisher[leads[publisher] > 0]
        could = could if len(could) else reached[leads[reached] > 0] if len(reached) > 1 else reached
        near = could[np.isfinite(delays.ways(publisher, could)).any(axis=0)]  # some publisher reaches them
        why = _why_no_tree(every, reached, (could, near), members)
        if why:
            lost[why] += len(members)
            continue
        asks = bound[delays.place[members] >= 0]
        entries = delays.ways(publisher, near)
        root, entry = _best_root(near, entries, asks, delays.ways(near, reached))
        client = np.append(root, reached[reached != root])
        delay = delays.ways(client, client)
        there = np.isfinite(delay[0])
        lost["unknown"] += len(members) - int(np.isin(members, client[there]).sum())
        client, delay = client[there], delay[np.ix_(there, there)]
        limit = np.append(bound[members == root], np.inf)[:1]
        limit = np.append(limit, bound[np.searchsorted(members, client[1:])]) - entry
        if len(client) > 1 or root in members:
            leads[root] -= len(client) > 1
            lost["publishers"] += len(every) - int(np.isfinite(entries[:, near == root]).sum())
            found.append(ChannelPeers(channel, client, delay, limit, entry, messages))
    return sorted(found, key=lambda each: each.channel), LeftOut(**lost)


def _why_no_tree(publishers: Ints, reached: Ints, roots: tuple[Ints, Ints], members: Ints) -> str:
    """Why a channel has none, as a field of LeftOut; empty where it has one. Roots: who may be one, who is reached."""
    could, near = roots
    if not len(publishers):
        return "unpublished"
    if not len(reached) or (len(could) and not len(near)):
        return "unknown"
    if not len(could):
        return "unserved"
    return "large" if len(members) > MOST_PEERS else ""


def _subscribers(channels: Pairs, asked: Bounds) -> Iterator[tuple[int, Ints, Ints, Floats]]:
    """(channel, its combinations, subscribers, the tightest bound of each); what is in no channel shares one, -1."""
    at = np.searchsorted(channels[:, 0], asked.attributes)
    held = at < len(channels)
    held[held] = channels[at[held], 0] == asked.attributes[held]
    channel = np.full(len(asked.client), -1)
    channel[held] = channels[at[held], 1]
    for each in np.unique(channel).tolist():
        mine = channel == each
        members, at = np.unique(asked.client[mine], return_inverse=True)
        bound = np.full(len(members), np.inf)
        np.minimum.at(bound, at, asked.bound_ms[mine])
        combinations = channels[channels[:, 1] == each, 0] if each >= 0 else np.unique(asked.attributes[mine])
        yield each, combinations, members, bound


def _publishers(observation: Observation, combinations: Ints) -> tuple[Ints, float]:
    """(publishers that offer one of the combinations, messages that they publish)."""
    offers = observation.offers
    offered = np.zeros(len(offers.publisher), dtype=np.bool_)
    for each in combinations.tolist():
        offered |= (offers.attributes & each) == each
    return np.unique(offers.publisher[offered]), float(offers.messages[offered].sum())


def _best_root(could: Ints, entries: Floats, bound: Floats, direct: Floats) -> tuple[int, float]:
    """(the client from which most bounds could be met, ms to it from the farthest publisher that reaches it)."""
    entry = entries.max(axis=0, where=np.isfinite(entries), initial=0.0)
    arrival = direct + entry[:, None]
    late = (arrival > bound).sum(axis=1)
    total = np.where(np.isfinite(arrival), arrival, 0.0).sum(axis=1)
    best = int(np.lexsort((could, total, late))[0])
    return int(could[best]), float(entry[best])
