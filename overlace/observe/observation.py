"""From a trace to an observation: what a window of the log says, as arrays.

Exact: flows, classes and sums are those of the messages, whatever the order of the rows or the number
of files. Network, sessions and subscriptions are taken as of the end of the window. A message to oneself
counts as sent, and makes no flow and no class.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from overlace.arrays.csr import take_groups
from overlace.arrays.hashing import distinct_groups, group_rows, hash_groups, sum_by
from overlace.arrays.jit import Ints, kernel
from overlace.errors import BadObservation
from overlace.model import Classes, Flows, Network, Observation, Offers, Overlay, Requests, check_tree
from overlace.observe.reduction import NONE, receivers_of
from overlace.observe.traffic import subscribers, traffic_of
from overlace.trace import Trace

ALWAYS, STILL = np.iinfo(np.int64).min, np.iinfo(np.int64).max


def observe(trace: Trace, window: tuple[int, int] | None = None) -> Observation:
    """The observation of a window; without one, of all traffic there is."""
    span = window or trace.span()
    rows = traffic_of(trace, window)
    client = rows["client"].cast(pa.int64()).to_numpy()
    messages, size = rows["messages"].to_numpy(), rows["bytes"].to_numpy()
    start, receivers = receivers_of(rows)
    network = network_of(trace, span)
    overlay = overlay_of(trace, span, network)
    topic = rows["topic"].cast(pa.int64()).fill_null(-1).to_numpy()
    asked = _plain_topics(trace, span)
    topics = 1 + max(int(topic.max(initial=-1)), int(asked.max(initial=-1)))
    interests = interests_of(trace, span, topics)
    offers, requests = offers_of(trace, span), requests_of(trace, span)
    people = (client, receivers, overlay.placement[:, 0], overlay.mesh, interests[:, 0], offers[0], requests.client)
    listed = trace.read("clients", ["client"])["client"].to_numpy()
    clients = 1 + max(int(each.max(initial=-1)) for each in (*people, listed))
    sent, sent_bytes = np.zeros(clients, np.int64), np.zeros(clients, np.int64)
    np.add.at(sent, client, messages)
    np.add.at(sent_bytes, client, size)
    return Observation(
        window=span,
        overlay=overlay,
        network=_for_clients(network, clients),
        flows=flows_of(client, start, receivers, messages, size),
        classes=classes_of(client, start, receivers, messages, size),
        interests=interests,
        offers=_with_rates(offers, sent),
        requests=requests,
        clients=clients,
        topics=topics,
        sent=sent,
        sent_bytes=sent_bytes,
    )


def flows_of(client: Ints, start: Ints, receivers: Ints, messages: Ints, size: Ints) -> Flows:
    """Messages and bytes from each sender to each receiver, in order of both."""
    per = np.diff(start)
    pairs = np.column_stack([np.repeat(client, per), receivers])
    other = pairs[:, 0] != pairs[:, 1]
    pairs = np.ascontiguousarray(pairs[other])
    group, first = group_rows(pairs)
    found = pairs[first]
    order = np.lexsort((found[:, 1], found[:, 0]))
    sums = (sum_by(group, len(first), np.repeat(each, per)[other])[order] for each in (messages, size))
    return Flows(found[order, 0], found[order, 1], *sums)


@kernel
def with_sender(client: Ints, start: Ints, receivers: Ints) -> tuple[Ints, Ints]:
    """(start, members): the sender among its sorted receivers, each once."""
    members = np.empty(len(receivers) + len(client), dtype=np.int64)
    bounds = np.zeros(len(start), dtype=np.int64)
    n = 0
    for i in range(len(client)):
        put = False
        for k in range(start[i], start[i + 1]):
            if not put and client[i] <= receivers[k]:
                if client[i] < receivers[k]:
                    members[n] = client[i]
                    n += 1
                put = True
            members[n] = receivers[k]
            n += 1
        if not put:
            members[n] = client[i]
            n += 1
        bounds[i + 1] = n
    return bounds, members[:n].copy()


def classes_of(client: Ints, start: Ints, receivers: Ints, messages: Ints, size: Ints) -> Classes:
    """The sets of clients that messages joined, with how many did, in order of their members' hash."""
    bounds, members = with_sender(client, start, receivers)
    some = np.flatnonzero(np.diff(bounds) > 1)
    bounds, members = take_groups(bounds, members, some)
    hashes = hash_groups(bounds, members)
    group, first, clash = distinct_groups(hashes, bounds, members)
    if clash >= 0:
        raise BadObservation(f"two different traffic classes have the hash {hashes[clash]}. Observe a shorter window.")
    order = np.argsort(hashes[first], kind="stable")
    sums = (sum_by(group, len(first), each[some])[order] for each in (messages, size))
    return Classes(*take_groups(bounds, members, first[order]), *sums)


def network_of(trace: Trace, window: tuple[int, int]) -> Network:
    """Brokers, the links that could be wired by the end of the window, and what it costs to reach them."""
    brokers, links = trace.read("brokers").sort_by("broker"), trace.read("links")
    live = links.filter(pa.array(_open(links, window)))
    homes = homes_of(trace, window)
    named = (brokers["broker"], live["left"], live["right"])
    n = 1 + max(int(homes[:, 1].max(initial=-1)), *(int(each.to_numpy().max(initial=-1)) for each in named))
    if n == 0:
        return Network()
    at = brokers["broker"].to_numpy()

    def column(name: str, default: Any, dtype: type) -> Any:
        values: Any = np.full(n, default, dtype=dtype)
        if brokers.num_rows:
            values[at] = pc.fill_null(brokers[name], pa.scalar(default, brokers[name].type)).to_numpy()
        return values

    region = np.arange(n)
    if brokers.num_rows:  # a broker that is not listed is a region of its own
        region += int(brokers["region"].to_numpy().max()) + 1
        region[at] = brokers["region"].to_numpy()
    pairs = np.column_stack([live["left"].to_numpy(), live["right"].to_numpy()]).astype(np.int64)
    clients, access = trace.read("clients"), trace.read("access")
    known = np.full(trace.count("client"), -1, dtype=np.int64)
    known[clients["client"].to_numpy()] = clients["region"].cast(pa.int64()).fill_null(-1).to_numpy()
    regions = max(trace.count("region"), int(known.max(initial=-1)) + 1)
    cost, latency = np.zeros((regions, n)), np.zeros((regions, n), dtype=np.int64)
    if access.num_rows:
        where = (access["region"].to_numpy(), access["broker"].to_numpy())
        cost[where], latency[where] = access["cost"].to_numpy(), access["latency_us"].to_numpy()
    return Network(
        region=region,
        broker_cost=column("cost", 1.0, np.float64),
        capacity=column("capacity", np.inf, np.float64),
        max_degree=np.where(column("max_degree", -1, np.int64) < 0, STILL, column("max_degree", -1, np.int64)),
        links=pairs,
        link_cost=live["cost"].to_numpy(),
        latency_us=live["latency_us"].cast(pa.int64()).fill_null(0).to_numpy(),
        client_region=known if clients.num_rows else (),
        access_cost=cost if access.num_rows else np.empty((0, 0)),
        access_latency_us=latency if access.num_rows else np.empty((0, 0)),
    )


def overlay_of(trace: Trace, window: tuple[int, int], network: Network) -> Overlay:
    """The overlay as it was at the end of the window; refused, naming the links, if the tree is none."""
    links = trace.read("links")
    wired = links.filter(pa.array(_open(links, window) & links["wired"].to_numpy()))
    tree = Overlay(tree=np.column_stack([wired["left"].to_numpy(), wired["right"].to_numpy()])).tree
    if len(tree):
        check_tree(tree, network.brokers, trace.names)
    peers, channels = trace.read("peers"), trace.read("channels")
    linked = peers.filter(pa.array(_open(peers, window)))
    held = channels.filter(pa.array(_open(channels, window)))
    return Overlay(
        placement=homes_of(trace, window),
        tree=tree,
        channels=np.column_stack([held["combination"].to_numpy(), held["channel"].to_numpy()]),
        mesh=np.column_stack([linked["left"].to_numpy(), linked["right"].to_numpy()]).astype(np.int64),
    )


def homes_of(trace: Trace, window: tuple[int, int]) -> Any:
    """(client, broker): the last session of each client that was open in the window."""
    sessions = trace.read("sessions")
    since = sessions["since"].cast(pa.int64()).fill_null(ALWAYS).to_numpy()
    until = sessions["until"].cast(pa.int64()).fill_null(STILL).to_numpy()
    client, broker = sessions["client"].to_numpy(), sessions["broker"].to_numpy()
    begin, end = window if window != (0, 0) else (ALWAYS, STILL)
    live = (since < end) & (until > begin)
    order = np.lexsort((broker[live], since[live], client[live]))
    rows = np.column_stack([client[live], broker[live]])[order]
    last = np.append(rows[1:, 0] != rows[:-1, 0], True) if len(rows) else np.empty(0, bool)
    return rows[last].astype(np.int64)


def _plain_topics(trace: Trace, window: tuple[int, int]) -> Any:
    """Topics that subscriptions open at the end of the window name without wildcards."""
    rows = trace.read("subscriptions")
    return rows.filter(pa.array(_open(rows, window)))["topic"].drop_null().to_numpy()


def _for_clients(network: Network, clients: int) -> Network:
    """The network with the regions of just these clients."""
    if len(network.client_region) == 0:
        return network
    known = np.full(clients, -1, dtype=np.int64)
    some = network.client_region[:clients]
    known[: len(some)] = some
    return replace(network, client_region=known)


def interests_of(trace: Trace, window: tuple[int, int], topics: int) -> Any:
    """(client, topic): subscriptions that were open at the end of the window, to topics known by then."""
    known = subscribers(trace)
    end = window[1] if window != (0, 0) else STILL
    live = (known["since"] < end) & (known["until"] >= end) & (known["topic"] < topics)
    return np.unique(np.column_stack([known["client"][live], known["topic"][live]]), axis=0)


def offers_of(trace: Trace, window: tuple[int, int]) -> tuple[Ints, Ints, Ints]:
    """(publisher, attributes, connections) of advertisements, in order of arrival."""
    rows = trace.read("advertisements")
    rows = rows.filter(pa.array(_open(rows, window)))
    since = rows["since"].cast(pa.int64()).fill_null(ALWAYS).to_numpy()
    client = rows["client"].cast(pa.int64()).to_numpy()
    order = np.lexsort((rows["attributes"].to_numpy(), client, since))
    limit = rows["connections"].cast(pa.int64()).fill_null(STILL).to_numpy()
    return client[order], rows["attributes"].to_numpy()[order], limit[order]


def _with_rates(offers: tuple[Ints, Ints, Ints], sent: Ints) -> Offers:
    """Offers with what their clients sent, shared out over their advertisements."""
    client = offers[0]
    each = np.bincount(client, minlength=len(sent))
    rate = sent[client] // np.maximum(each[client], 1) if sent.any() else np.ones(len(client), np.int64)
    return Offers(*offers, rate)


def requests_of(trace: Trace, window: tuple[int, int]) -> Requests:
    """Subscriptions to combinations."""
    rows = trace.read("subscriptions")
    rows = rows.filter(pc.and_(pa.array(_open(rows, window)), rows["attributes"].is_valid()))
    pairs = np.column_stack([rows["client"].cast(pa.int64()).to_numpy(), rows["attributes"].to_numpy()])
    pairs = pairs[np.lexsort((pairs[:, 1], pairs[:, 0]))]
    return Requests(pairs[:, 0], pairs[:, 1])


def _open(rows: pa.Table, window: tuple[int, int]) -> Any:
    """Which rows hold at the end of the window."""
    since = rows["since"].cast(pa.int64()).fill_null(ALWAYS).to_numpy()
    until = rows["until"].cast(pa.int64()).fill_null(STILL).to_numpy()
    end = window[1] if window != (0, 0) else STILL
    return (since < end) & (until >= end)


__all__ = ["NONE", "observe"]
