"""From a trace to an observation: what a window of the log says, as arrays.

Exact: flows, classes and sums are those of the messages, whatever the order of the rows or the number
of files. Network, sessions and subscriptions are taken as of the end of the window. A message to oneself
counts as sent, and makes no flow and no class.

Keeps: what comes after the window changes nothing in it. Clients, brokers, topics, regions and attributes have
numbers of their own, of what was known by then (known.py); `names_in` gives their names.
"""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np

from overlace.arrays.jit import Floats, Ints, Pairs
from overlace.arrays.pairs import as_pairs
from overlace.errors import BadTrace
from overlace.model import Network, Observation, Offers, Overlay, Requests, check_tree, name_of
from overlace.observe.known import IdMap, known_in
from overlace.observe.subscribers import read_subscribers
from overlace.observe.sums import Sums, sums_of
from overlace.observe.tables import NO_REGION, NULL, STILL, Columns, Window, at_end, at_some_time, bounds, columns, pick
from overlace.observe.traffic import IN_PROCESS, Reader, traffic_of
from overlace.trace.store import Trace
from overlace.trace.tables import Numbers
from overlace.trace.traffic import Traffic, add_up


def observe_with_names(
    trace: Trace, window: Window | None = None, reader: Reader = IN_PROCESS
) -> tuple[Observation, dict[str, list[str]]]:
    """The observation of a window, and the names of what it numbers."""
    first = trace.span()
    span = window or first
    logged = reader.traffic(trace, window)
    known = known_in(trace, span, logged if span[0] <= first[0] else None, reader)
    observation = _observed(trace, span, known, sums_in(trace, window, known, logged), logged)
    return observation, known.names(trace.names)


def _observed(trace: Trace, span: Window, known: IdMap, sums: Sums, logged: Traffic) -> Observation:
    """The observation of a window whose traffic, as it was logged, adds up to some sums."""
    flows, classes = sums.objects()
    clients, topics = known.counts["client"], known.counts["topic"]
    sent, sent_bytes = np.zeros(clients, np.int64), np.zeros(clients, np.int64)
    sent[sums.sent[0]], sent_bytes[sums.sent[0]] = sums.sent[1:]
    network = network_of(trace, span, known)
    return Observation(
        window=span,
        overlay=overlay_of(trace, span, known),
        network=network,
        flows=flows,
        classes=classes,
        interests=interests_of(trace, span, known),
        offers=_with_rates(offers_of(trace, span, known), sent, _by_attributes(logged, known)),
        requests=requests_of(trace, span, known),
        clients=clients,
        topics=topics,
        sent=sent,
        sent_bytes=sent_bytes,
    )


def sums_in(trace: Trace, window: Window | None, known: IdMap, logged: Traffic | None = None) -> Sums:
    """What the traffic of a window adds up to, by the numbers that an observation knows its clients by."""
    return sums_of(traffic_of(trace, window, known, logged).combine_chunks().to_batches())


def network_of(trace: Trace, window: Window, known: IdMap) -> Network:
    """Brokers, the links that could be wired by the end of the window, and what it costs to reach them."""
    n, regions = known.counts["broker"], known.counts["region"]
    if n == 0:
        return Network()
    brokers = at_end(columns(trace, "brokers", "broker region since until cost capacity max_degree"), window)
    links = _candidates(trace, links_at_end(trace, window, known), known)
    at = known.number("broker", brokers["broker"])

    def column(name: str, default: float) -> Numbers:
        values = np.full(n, default)
        values[at] = brokers[name]
        return values

    degree = column("max_degree", -1)
    cost, latency = _access(trace, known)
    return Network(
        region=_regions(at, known.number("region", brokers["region"]), n, regions),
        broker_cost=column("cost", 1.0),
        capacity=column("capacity", np.inf),
        max_degree=np.where(degree < 0, STILL, degree),
        links=np.column_stack([links["left"], links["right"]]),
        link_cost=links["cost"],
        latency_us=links["latency_us"],
        client_region=_client_regions(trace, window, known),
        access_cost=cost,
        access_latency_us=latency,
    )


def _client_regions(trace: Trace, window: Window, known: IdMap) -> Ints:
    """The region of each client, -1 where it is not known; empty where nobody's is."""
    rows = at_some_time(columns(trace, "clients", "client region since until"), window)
    if not len(rows["client"]):
        return np.empty(0, dtype=np.int64)
    rows = pick(rows, np.argsort(rows["since"], kind="stable"))  # the last is where it is
    region = np.full(known.counts["client"], -1)
    region[known.number("client", rows["client"])] = np.maximum(known.number("region", rows["region"]), -1)
    return region


def _access(trace: Trace, known: IdMap) -> tuple[Floats, Ints]:
    """(cost, latency) between each region and each broker; both empty where nothing is known."""
    brokers, regions = known.counts["broker"], known.counts["region"]
    rows = columns(trace, "access", "region broker latency_us cost")
    region, broker = known.number("region", rows["region"]), known.number("broker", rows["broker"])
    given = (region >= 0) & (region < regions) & (broker < brokers)
    if not given.any():
        return np.empty((0, 0)), np.empty((0, 0), dtype=np.int64)
    cost, latency = np.zeros((regions, brokers)), np.zeros((regions, brokers), dtype=np.int64)
    cost[region[given], broker[given]] = rows["cost"][given]
    latency[region[given], broker[given]] = rows["latency_us"][given]
    return cost, latency


def links_at_end(trace: Trace, window: Window, known: IdMap) -> Columns:
    """The links between brokers that are there at the end of the window."""
    rows = at_end(columns(trace, "links", "left right cost latency_us wired since until"), window)
    rows |= {end: known.number("broker", rows[end]) for end in ("left", "right")}
    return pick(rows, np.maximum(rows["left"], rows["right"]) < known.counts["broker"])


def _candidates(trace: Trace, links: Columns, known: IdMap) -> Columns:
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
            f"{_listed(ends[wired], trace, known)}: wired, but without a cost, where {int((~unknown).sum()):,} other "
            f"links have one. Give it: `overlace ingest FILE --table links --out {trace.path}` with left, right and "
            "cost."
        )
    return pick(links, ~unknown)


def _listed(links: Pairs, trace: Trace, known: IdMap, most: int = 3) -> str:
    """The names of links, the first few of many."""
    names = known.names(trace.names)
    shown = ["-".join(name_of("broker", b, names) for b in link) for link in links[:most].tolist()]
    more = f" and {len(links) - most:,} more" if len(links) > most else ""
    return f"{trace.path}: {'links' if len(links) > 1 else 'link'} {', '.join(shown)}{more}"


def _regions(broker: Ints, region: Ints, brokers: int, named: int) -> Ints:
    """The region of each broker; one for which none is given is a region of its own, above all others."""
    given = region != NO_REGION
    found: Ints = np.arange(brokers) + max(named, 1 + int(region[given].max(initial=-1)))
    found[broker[given]] = region[given]
    return found


def overlay_of(trace: Trace, window: Window, known: IdMap) -> Overlay:
    """The overlay as it was at the end of the window; refused, naming the links, if the tree is none."""
    links = links_at_end(trace, window, known)
    tree = Overlay(tree=np.column_stack([links["left"], links["right"]])[links["wired"]]).tree
    if len(tree):
        check_tree(tree, known.counts["broker"], known.names(trace.names))
    peers = at_end(columns(trace, "peers", "left right since until"), window)
    held = at_end(columns(trace, "channels", "combination channel since until"), window)
    return Overlay(
        placement=homes_of(trace, window, known),
        tree=tree,
        channels=np.column_stack([known.masks(held["combination"]), held["channel"]]),
        mesh=np.column_stack([known.number("client", peers[end]) for end in ("left", "right")]),
    )


def homes_of(trace: Trace, window: Window, known: IdMap) -> Pairs:
    """(client, broker): the last session of each client that was open in the window, at a broker that is there."""
    rows = at_some_time(columns(trace, "sessions", "client broker since until"), window)
    client, broker = known.number("client", rows["client"]), known.number("broker", rows["broker"])
    order = np.lexsort((broker, rows["since"], client))
    order = order[broker[order] < known.counts["broker"]]
    client, broker = client[order], broker[order]
    last = np.append(client[1:] != client[:-1], True)[: len(client)]
    return np.column_stack([client[last], broker[last]])


def interests_of(trace: Trace, window: Window, known: IdMap) -> Pairs:
    """(client, topic): subscriptions that were open at the end of the window, to topics known by then."""
    asked = read_subscribers(trace)
    _, end = bounds(window)
    topic = known.number("topic", asked.topic)
    live = (asked.since < end) & (asked.until >= end) & (topic < known.counts["topic"])
    return as_pairs(np.column_stack([known.number("client", asked.client)[live], topic[live]]))


def offers_of(trace: Trace, window: Window, known: IdMap) -> tuple[Ints, Ints, Ints]:
    """(publisher, attributes, connections) of advertisements, in order of arrival."""
    rows = at_end(columns(trace, "advertisements", "client attributes connections since until"), window)
    rows = pick(rows, rows["attributes"] != NULL["attributes"])  # others are filters on content
    client, attributes = known.number("client", rows["client"]), known.masks(rows["attributes"])
    order = np.lexsort((attributes, client, rows["since"]))
    return client[order], attributes[order], rows["connections"][order]


def _by_attributes(logged: Traffic, known: IdMap) -> dict[tuple[int, int], int]:
    """Messages by their sender and their attributes, where they have some."""
    described = logged.attributes > 0
    client, masks = known.number("client", logged.client[described]), known.masks(logged.attributes[described])
    keys, (messages,) = add_up([client, masks], [logged.messages[described]])
    return dict(zip(zip(*(each.tolist() for each in keys), strict=True), messages.tolist(), strict=True))


def _with_rates(
    offers: tuple[Ints, Ints, Ints], sent: Ints, described: Mapping[tuple[int, int], int] | None = None
) -> Offers:
    """Offers with what their clients sent: messages with just these attributes, and an equal share of all others."""
    client, attributes, connections = offers
    own = np.array(
        [(described or {}).get(pair, 0) for pair in zip(client.tolist(), attributes.tolist(), strict=True)], np.int64
    )
    again = np.zeros(len(client), bool)  # advertised twice: the first has the messages
    if len(client):
        _, first = np.unique(np.column_stack([client, attributes]), axis=0, return_index=True)
        again[np.setdiff1d(np.arange(len(client)), first)] = True
    own[again] = 0
    each = np.bincount(client, minlength=len(sent))
    others = sent - np.bincount(client, weights=own, minlength=len(sent)).astype(np.int64)
    shared = others[client] // np.maximum(each[client], 1)
    return Offers(client, attributes, connections, own + shared if sent.any() else np.ones(len(client), np.int64))


def requests_of(trace: Trace, window: Window, known: IdMap) -> Requests:
    """Subscriptions to combinations."""
    rows = at_end(columns(trace, "subscriptions", "client attributes since until"), window)
    pairs = np.column_stack([known.number("client", rows["client"]), known.masks(rows["attributes"])])
    pairs = pairs[rows["attributes"] != NULL["attributes"]]
    pairs = pairs[np.lexsort((pairs[:, 1], pairs[:, 0]))]
    return Requests(pairs[:, 0], pairs[:, 1])
