"""From a trace to an observation: what a window of the log says, as arrays.

Exact: flows, classes and sums are those of the messages, whatever the order of the rows or the number
of files. Network, sessions and subscriptions are taken as of the end of the window. A message to oneself
counts as sent, and makes no flow and no class.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np

from overlace.arrays.jit import Ints, Pairs
from overlace.arrays.pairs import as_pairs
from overlace.errors import BadTrace
from overlace.model import Network, Observation, Offers, Overlay, Requests, check_tree, name_of
from overlace.observe.sums import finish, partial
from overlace.observe.traffic import ALWAYS, STILL, subscribers, traffic_of
from overlace.trace.store import Runner, Trace, here
from overlace.trace.tables import numbers

NULL: dict[str, float] = {
    "since": ALWAYS, "until": STILL, "connections": STILL, "capacity": np.inf, "latency_us": 0,
    "max_degree": -1, "region": ALWAYS, "topic": -1, "attributes": -1, "cost": np.nan,
}  # fmt: skip
"""What stands for null in the arrays of a column."""


def observe(trace: Trace, window: tuple[int, int] | None = None, run: Runner = here) -> Observation:
    """The observation of a window; without one, of all traffic there is."""
    span = window or trace.span()
    rows = traffic_of(trace, window)
    sums = finish(run(partial, rows.combine_chunks().to_batches()))
    flows, classes = sums.objects()
    network = network_of(trace, span)
    overlay = overlay_of(trace, span, network)
    asked = columns(trace, "subscriptions", "topic since until", span)["topic"]
    topics = 1 + max(int(each.max(initial=-1)) for each in (numbers(rows["topic"], -1), asked))
    interests = interests_of(trace, span, topics)
    offers, requests = offers_of(trace, span), requests_of(trace, span)
    listed = _there(columns(trace, "clients", "client since until"), span)["client"]
    people = (overlay.placement[:, 0], overlay.mesh, interests[:, 0], offers[0], requests.client, listed)
    clients = max(sums.clients, *(1 + int(each.max(initial=-1)) for each in people))
    sent, sent_bytes = np.zeros(clients, np.int64), np.zeros(clients, np.int64)
    sent[sums.sent[0]], sent_bytes[sums.sent[0]] = sums.sent[1:]
    return Observation(
        window=span,
        overlay=overlay,
        network=_for_clients(network, clients),
        flows=flows,
        classes=classes,
        interests=interests,
        offers=_with_rates(offers, sent),
        requests=requests,
        clients=clients,
        topics=topics,
        sent=sent,
        sent_bytes=sent_bytes,
    )


def columns(trace: Trace, table: str, names: str, window: tuple[int, int] | None = None) -> dict[str, Any]:
    """Columns of a table as arrays; with a window, of the rows that hold at its end."""
    read = trace.read(table, names.split())
    found = {name: numbers(read[name], NULL.get(name)) for name in read.column_names}
    found = {name: each.astype(np.int64) if each.dtype.kind == "i" else each for name, each in found.items()}
    if window is None:
        return found
    end = window[1] if window != (0, 0) else STILL
    live = (found["since"] < end) & (found["until"] >= end)
    return {name: each[live] for name, each in found.items()}


def network_of(trace: Trace, window: tuple[int, int]) -> Network:
    """Brokers, the links that could be wired by the end of the window, and what it costs to reach them."""
    brokers = _there(columns(trace, "brokers", "broker region since until cost capacity max_degree"), window)
    links = _candidates(trace, columns(trace, "links", "left right cost latency_us wired since until", window))
    at = brokers["broker"]
    named = (at, links["left"], links["right"], homes_of(trace, window)[:, 1])
    n = 1 + max(int(each.max(initial=-1)) for each in named)
    if n == 0:
        return Network()

    def column(name: str, default: Any) -> Any:
        values = np.full(n, default)
        values[at] = brokers[name]
        return values

    degree = column("max_degree", -1)
    clients = _there(columns(trace, "clients", "client region since until"), window)
    access = columns(trace, "access", "region broker latency_us cost")
    known = np.full(trace.count("client"), -1)
    known[clients["client"]] = np.maximum(clients["region"], -1)
    regions = max(trace.count("region"), int(known.max(initial=-1)) + 1)
    cost, latency = np.zeros((regions, n)), np.zeros((regions, n), dtype=np.int64)
    where = (access["region"], access["broker"])
    cost[where], latency[where] = access["cost"], access["latency_us"]
    return Network(
        region=_regions(at, brokers["region"], n, trace.count("region")),
        broker_cost=column("cost", 1.0),
        capacity=column("capacity", np.inf),
        max_degree=np.where(degree < 0, STILL, degree),
        links=np.column_stack([links["left"], links["right"]]),
        link_cost=links["cost"],
        latency_us=links["latency_us"],
        client_region=known if len(clients["client"]) else (),
        access_cost=cost if len(where[0]) else np.empty((0, 0)),
        access_latency_us=latency if len(where[0]) else np.empty((0, 0)),
    )


def _there(rows: dict[str, Any], window: tuple[int, int]) -> dict[str, Any]:
    """The rows of brokers or clients that were there at some time of the window."""
    begin, end = window if window != (0, 0) else (ALWAYS, STILL)
    live = (rows["since"] < end) & (rows["until"] > begin)
    return {name: each[live] for name, each in rows.items()}


def _candidates(trace: Trace, links: dict[str, Any]) -> dict[str, Any]:
    """The links that are wired or could be, with what each costs: 1 where no link has a cost.

    Where some have one, a link without is no candidate; one that is wired is refused, since nothing tells what
    its messages cost (docs/decisions/unknown-costs.md).
    """
    unknown = np.isnan(links["cost"])
    if unknown.all():
        return {**links, "cost": np.ones(len(unknown))}
    wired = unknown & links["wired"]
    if wired.any():
        ends = np.column_stack([links["left"], links["right"]])
        raise BadTrace(
            f"{_listed(ends[wired], trace)}: wired, but without a cost, where {int((~unknown).sum()):,} other links "
            f"have one. Give it: `overlace ingest FILE --table links --out {trace.path}` with left, right and cost."
        )
    return {name: each[~unknown] for name, each in links.items()}


def _listed(links: Pairs, trace: Trace, most: int = 3) -> str:
    """The names of links, the first few of many."""
    shown = ["-".join(name_of("broker", b, trace.names) for b in link) for link in links[:most].tolist()]
    more = f" and {len(links) - most:,} more" if len(links) > most else ""
    return f"{trace.path}: {'links' if len(links) > 1 else 'link'} {', '.join(shown)}{more}"


def _regions(broker: Ints, region: Ints, brokers: int, named: int) -> Ints:
    """The region of each broker; one for which none is given is a region of its own, above all others."""
    given = region != NULL["region"]
    found: Ints = np.arange(brokers) + max(named, 1 + int(region[given].max(initial=-1)))
    found[broker[given]] = region[given]
    return found


def overlay_of(trace: Trace, window: tuple[int, int], network: Network) -> Overlay:
    """The overlay as it was at the end of the window; refused, naming the links, if the tree is none."""
    links = columns(trace, "links", "left right wired since until", window)
    tree = Overlay(tree=np.column_stack([links["left"], links["right"]])[links["wired"]]).tree
    if len(tree):
        check_tree(tree, network.brokers, trace.names)
    peers = columns(trace, "peers", "left right since until", window)
    held = columns(trace, "channels", "combination channel since until", window)
    return Overlay(
        placement=homes_of(trace, window),
        tree=tree,
        channels=np.column_stack([held["combination"], held["channel"]]),
        mesh=np.column_stack([peers["left"], peers["right"]]),
    )


def homes_of(trace: Trace, window: tuple[int, int]) -> Any:
    """(client, broker): the last session of each client that was open in the window."""
    client, broker, since, until = columns(trace, "sessions", "client broker since until").values()
    begin, end = window if window != (0, 0) else (ALWAYS, STILL)
    live = (since < end) & (until > begin)
    order = np.lexsort((broker[live], since[live], client[live]))
    rows = np.column_stack([client[live], broker[live]])[order]
    last = np.append(rows[1:, 0] != rows[:-1, 0], True) if len(rows) else np.empty(0, bool)
    return rows[last]


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
    live = (known.since < end) & (known.until >= end) & (known.topic < topics)
    return as_pairs(np.column_stack([known.client[live], known.topic[live]]))


def offers_of(trace: Trace, window: tuple[int, int]) -> tuple[Ints, Ints, Ints]:
    """(publisher, attributes, connections) of advertisements, in order of arrival."""
    rows = columns(trace, "advertisements", "client attributes connections since until", window)
    order = np.lexsort((rows["attributes"], rows["client"], rows["since"]))
    return rows["client"][order], rows["attributes"][order], rows["connections"][order]


def _with_rates(offers: tuple[Ints, Ints, Ints], sent: Ints) -> Offers:
    """Offers with what their clients sent, shared out over their advertisements."""
    client = offers[0]
    each = np.bincount(client, minlength=len(sent))
    rate = sent[client] // np.maximum(each[client], 1) if sent.any() else np.ones(len(client), np.int64)
    return Offers(*offers, rate)


def requests_of(trace: Trace, window: tuple[int, int]) -> Requests:
    """Subscriptions to combinations."""
    rows = columns(trace, "subscriptions", "client attributes since until", window)
    pairs = np.column_stack([rows["client"], rows["attributes"]])[rows["attributes"] != NULL["attributes"]]
    pairs = pairs[np.lexsort((pairs[:, 1], pairs[:, 0]))]
    return Requests(pairs[:, 0], pairs[:, 1])
