"""What traffic costs on a broker tree: hops, loads, crossings, latency, what breaks.

A message goes from its sender's home over the minimal subtree that joins it with the homes of its
receivers (OCBR07 (1)), so a link carries it once however many receivers lie behind. A delivery is one
message at one receiver; its path is the one between the two homes, and its hops are the links of the
path plus the two client links (CC12 R8).

Kept true:

- `partial` yields integers that add up: rows may be split, permuted and dealt out at will. Floats are
  made in `finish` alone, from sorted sums.
- Nothing is lost silently: deliveries + homeless + to_self = messages x receivers, over all rows.
- A message to oneself is counted (`to_self`); it makes no delivery and crosses no link.
- A client without a home, or one the overlay has never heard of, neither sends nor receives: what that
  drops is `homeless` (deliveries) and `homeless_messages`.
- Where there is nothing to divide by, a share or a mean is 0.
- Where the latency of a wired link was not measured, there are no metrics of latency. Ways between clients and homes
  that are not known count 0.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from functools import cached_property
from operator import mul
from typing import Literal, get_args

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from overlace.arrays.jit import Ints
from overlace.arrays.records import FloatColumn, IntColumn, Record, column
from overlace.arrays.trees import Rooted, root_at
from overlace.errors import BadOverlay, NotObserved, Unknown
from overlace.metrics import Metrics
from overlace.model import NOT_MEASURED, Network, Observation, Overlay, name_of
from overlace.replay.partials import Partials, Sums, add_up
from overlace.replay.subtrees import (
    BROKER,
    CALLER,
    OVERALL,
    PairSums,
    TrafficSums,
    add_pairs,
    empty_pairs,
    paths,
    route,
)
from overlace.replay.tally import N, Tally, share, shares, totals
from overlace.trace.traffic import rows_of

Unit = Literal["message", "gb", "ms"]
"""What a link's cost is per: a message, 10 ** 9 bytes, or (as a delay) a message again."""

BACKBONE = -1

MOST_PAIRS = 1 << 20
"""Pairs of sites that a task holds before it works out what they come to."""


@dataclass(frozen=True, eq=False, repr=False)
class Routing(Record):
    """A broker tree with its clients, as plain arrays: what a task needs to route traffic. See `routing`."""

    links: IntColumn = column(np.int64, pairs=True)  # the tree
    link_cost: FloatColumn = column(np.float64)  # row for row with links
    latency_us: IntColumn = column(np.int64)  # NOT_MEASURED: not known
    region: IntColumn = column(np.int64)  # per broker
    site: IntColumn = column(np.int64)  # per client; -1: no home
    home: IntColumn = column(np.int64)  # per site, its broker
    access_us: IntColumn = column(np.int64)  # per site, the latency between its clients and its broker
    unit: Unit = "message"
    top: int | None = 1000  # how many clients and topics are reported, those that cause most; None: all

    @cached_property
    def tree(self) -> Rooted:
        """The tree, rooted at broker 0."""
        return root_at(len(self.region), self.links, 0)

    @cached_property
    def regions(self) -> tuple[Ints, Ints]:
        """(the regions, ascending; the place of each broker's region among them)."""
        distinct, at = np.unique(self.region, return_inverse=True)
        return distinct, at

    def partial(self, batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        """The batch function: traffic with receivers in, one batch of partial rows out."""
        distinct, region = self.regions
        loads = TrafficSums(
            np.zeros(len(OVERALL), dtype=np.int64),
            np.zeros((len(self.region), len(BROKER)), dtype=np.int64),
            np.zeros(len(distinct), dtype=np.int64),
            np.zeros((len(self.site), len(CALLER)), dtype=np.int64),
            np.zeros((0, len(CALLER)), dtype=np.int64),
        )
        rows, pairs = Partials(), empty_pairs()
        for batch in batches:
            traffic = rows_of(batch)
            topics = int(traffic.topic.max(initial=-1)) + 1
            if topics > len(loads.topics):
                more = np.zeros((topics - len(loads.topics), len(CALLER)), dtype=np.int64)
                loads = loads._replace(topics=np.concatenate([loads.topics, more]))
            pairs = route(traffic, self.tree, region, self.site, self.home, loads, pairs)
            if pairs.filled > MOST_PAIRS:
                self._add_deliveries(rows, pairs)
                pairs = empty_pairs()
        self._add_deliveries(rows, pairs)
        self._add_loads(rows, loads)
        yield rows.batch()

    def _add_loads(self, rows: Partials, loads: TrafficSums) -> None:
        for i, metric in enumerate(OVERALL):
            rows.add(metric, "overall", loads.overall[i : i + 1])
        for i, metric in enumerate(BROKER):
            rows.add(metric, "broker", loads.brokers[:, i])
        rows.add("handled", "region", loads.regions)
        for i, metric in enumerate(CALLER):
            rows.add(metric, "client", loads.clients[:, i])
            rows.add(metric, "topic", loads.topics[:, i])

    def _add_deliveries(self, rows: Partials, pairs: PairSums) -> None:
        """What the deliveries between each two sites come to, all in whole numbers."""
        key, deliveries, size = pairs.columns()
        left, right = np.divmod(key, len(self.home))
        a, b = self.home[left], self.home[right]
        way = paths(self.tree, self._latency_up, a, b, deliveries)
        rows.add("broker_hops", "bin", way.hops)
        rows.add("touching", "broker", way.touching)
        rows.add("crossing", "broker", way.crossing)
        latency = way.length + self.access_us[left] + self.access_us[right]
        key, count, _ = add_pairs(empty_pairs(), latency, deliveries, size).columns()
        rows.add("latency_us", "bin", count, key)
        _, region = self.regions
        low, high = np.minimum(region[a], region[b]), np.maximum(region[a], region[b])
        key, *sums = add_pairs(empty_pairs(), low * len(region) + high, deliveries, size).columns()
        for metric, amount in zip(("deliveries", "delivered_bytes"), sums, strict=True):
            rows.add(metric, "region pair", amount, *np.divmod(key, len(region)))

    def finish(self, partials: Iterable[pa.RecordBatch]) -> Metrics:
        """The metrics that partial rows of any partition of the traffic add up to."""
        sums, tally = add_up(partials), Tally()
        for metric in OVERALL:
            tally.overall(metric, sums.overall(metric))
        self._deliveries(sums, tally)
        self._loads(sums, tally)
        self._callers(sums, tally)
        return tally.metrics()

    def _deliveries(self, sums: Sums, tally: Tally) -> None:
        """What follows from deliveries: hops, latency, regions, what breaks."""
        distinct, _ = self.regions
        bins, _, counts = sums.of("broker_hops", "bin")
        total = int(counts.sum())
        mean = share(_product(bins, counts), total)
        tally.add("broker_hops", "bin", bins, counts)
        tally.add("hops", "bin", bins + 2, counts)
        tally.overall("mean_broker_hops", mean)
        tally.overall("mean_hops", mean + 2 if total else 0.0)
        tally.overall("local_share", share(int(counts[bins == 0].sum()), total))

        if NOT_MEASURED not in self.latency_us:
            bins, _, counts = sums.of("latency_us", "bin")
            tally.add("latency_us", "bin", bins, counts)
            tally.overall("mean_latency_us", share(_product(bins, counts), total))
            for percent in (50, 95, 99):
                tally.overall(f"p{percent}_latency_us", _quantile(bins, counts, percent))

        for metric in ("deliveries", "delivered_bytes"):
            low, high, amount = sums.of(metric, "region pair")
            tally.overall(metric, int(amount.sum()))
            tally.add(metric, "region pair", distinct[low], amount, distinct[high])
            if metric == "deliveries":
                tally.overall("region_local_share", share(int(amount[low == high].sum()), total))

        cut = shares(sums.dense("touching", "broker", len(self.region)), total)
        link_cut = shares(sums.dense("crossing", "broker", len(self.region))[self._lower], total)
        tally.add("cut_share", "broker", np.arange(len(cut)), cut)
        tally.add("cut_share", "link", self.links[:, 0], link_cut, self.links[:, 1])
        tally.overall("cut_share_max", float(cut.max(initial=0.0)))

    def _loads(self, sums: Sums, tally: Tally) -> None:
        """What brokers handle and links carry."""
        routed = sums.overall("messages") - sums.overall("homeless_messages")
        brokers, keys = len(self.region), np.arange(len(self.region))
        distinct, region = self.regions
        load = {metric: sums.dense(metric, "broker", brokers) for metric in BROKER}
        clients = np.bincount(self.home[self.site[self.site >= 0]], minlength=brokers)
        for metric, values in (*((m, load[m]) for m in ("sent", "handled", "handled_bytes")), ("clients", clients)):
            tally.add(metric, "broker", keys, values)
        touched = sums.dense("handled", "region", len(distinct))
        tally.add("handled", "region", distinct, touched)
        for metric, values in (("sent", load["sent"]), ("clients", clients)):
            tally.add(metric, "region", distinct, totals(region, values)[1])

        messages = (load["handled"] - load["top"])[self._lower]
        size = (load["handled_bytes"] - load["top_bytes"])[self._lower]
        cost = self.link_cost * (size / 1e9 if self.unit == "gb" else messages)
        left, right = self.links[:, 0], self.links[:, 1]
        for metric, per_link in (("messages", messages), ("bytes", size), ("cost", cost)):
            tally.add(metric, "link", left, per_link, right)
        self._region_pairs(tally, "crossing_messages", region[left], region[right], messages)
        self._region_pairs(tally, "crossing_bytes", region[left], region[right], size)
        self._region_pairs(tally, "cost", region[left], region[right], cost)

        tally.overall("link_messages", int(messages.sum()))
        tally.overall("link_bytes", int(size.sum()))
        across = region[left] != region[right]
        tally.overall("crossing_messages", int(messages[across].sum()))
        tally.overall("crossing_bytes", int(size[across].sum()))
        tally.overall("crossings", share(int(messages.sum()), routed))
        tally.overall("cost", math.fsum(cost))
        tally.overall("max_broker_load", int(load["handled"].max(initial=0)))
        tally.overall("max_link_load", int(messages.max(initial=0)))
        tally.overall("backbone_load", int(load["handled"][self.region == BACKBONE].sum()))
        tally.overall("backbone_share", share(int(touched[distinct == BACKBONE].sum()), routed))

    def _callers(self, sums: Sums, tally: Tally) -> None:
        """The clients and topics that bring most onto links."""
        for scope in ("client", "topic"):
            key, _, amount = sums.of("link_messages", scope)
            kept = np.sort(key[np.lexsort((key, -amount))[: self.top]])
            for metric in CALLER:
                key, _, amount = sums.of(metric, scope)
                found = np.isin(kept, key)
                values = np.zeros(len(kept), dtype=np.int64)
                values[found] = amount[np.searchsorted(key, kept[found])]
                tally.add(metric, scope, kept, values)

    def _region_pairs(self, tally: Tally, metric: str, left: Ints, right: Ints, amount: NDArray[N]) -> None:
        """Add up by the two regions (places among the regions), the lower first."""
        distinct, _ = self.regions
        pair, total = totals(np.minimum(left, right) * len(distinct) + np.maximum(left, right), amount)
        low, high = np.divmod(pair, len(distinct))
        tally.add(metric, "region pair", distinct[low], total, distinct[high])

    @cached_property
    def _lower(self) -> Ints:
        """The lower end of each link: the broker whose link towards the root it is."""
        below = np.flatnonzero(self.tree.link >= 0)
        lower = np.empty(len(self.links), dtype=np.int64)
        lower[self.tree.link[below]] = below
        return lower

    @cached_property
    def _latency_up(self) -> Ints:
        """The latency of each broker's link towards the root; 0 at the root, and where it was not measured."""
        up = np.zeros(len(self.region), dtype=np.int64)
        up[self._lower] = np.maximum(self.latency_us, 0)
        return up


def routing(observation: Observation, overlay: Overlay, *, unit: Unit = "message", top: int | None = 1000) -> Routing:
    """The overlay, ready to route traffic over the observation's network.

    `unit` is what the network's link costs are per. Refused unless the tree is one (`Overlay.rooted`),
    its links are among the network's, and every client has at most one home, a broker that exists.
    """
    network = observation.network
    if unit not in get_args(Unit):
        raise Unknown("unit of link costs", unit, get_args(Unit))
    if network.brokers == 0:
        raise NotObserved("replay: no brokers were observed. Ingest the tables brokers and links.")
    overlay.rooted(network.brokers)
    home = _homes(observation, overlay)
    site, broker_of_site, access_us = _sites(home, _access_us(network, home), network.brokers)
    return Routing(
        overlay.tree,
        network.costs_of(overlay.tree),
        network.latencies_of(overlay.tree),
        network.region,
        site,
        broker_of_site,
        access_us,
        unit,
        top,
    )


def _homes(observation: Observation, overlay: Overlay) -> Ints:
    """The broker of each client, -1 for none; refused where the placement is none."""
    client, broker = overlay.placement[:, 0], overlay.placement[:, 1]
    twice = np.flatnonzero(client[1:] == client[:-1])
    if len(twice):
        raise BadOverlay(f"placement: {name_of('client', int(client[twice[0]]))} is at two brokers; one is the rule")
    bad = np.flatnonzero((broker < 0) | (broker >= observation.network.brokers))
    if len(bad):
        who, where = int(client[bad[0]]), int(broker[bad[0]])
        raise BadOverlay(
            f"placement: {name_of('client', who)} is at {name_of('broker', where)}, "
            f"but there are {observation.network.brokers} brokers"
        )
    return overlay.homes(max(observation.clients, int(client.max(initial=-1)) + 1))


def _access_us(network: Network, home: Ints) -> Ints:
    """The latency between each client and its home; 0 where it is not known."""
    access = np.zeros(len(home), dtype=np.int64)
    region = network.client_region[: len(home)]
    if network.access_latency_us.size:
        known = np.flatnonzero((region >= 0) & (home[: len(region)] >= 0))
        access[known] = np.maximum(network.access_latency_us[region[known], home[known]], 0)
    return access


def _sites(home: Ints, access_us: Ints, brokers: int) -> tuple[Ints, Ints, Ints]:
    """(site of each client, broker of each site, access latency of each site); a site a broker where all are 0."""
    longest = int(access_us.max(initial=0)) + 1
    if longest == 1:
        return home, np.arange(brokers), np.zeros(brokers, dtype=np.int64)
    placed = home >= 0
    site = np.full(len(home), -1)
    distinct, site[placed] = np.unique(home[placed] * longest + access_us[placed], return_inverse=True)
    return site, *np.divmod(distinct, longest)


def _product(bins: Ints, counts: Ints) -> int:
    """The sum of bin x count, exact at any size."""
    return sum(map(mul, bins.tolist(), counts.tolist()))


def _quantile(bins: Ints, counts: Ints, percent: int) -> int:
    """The least bin such that at least this share of the counts is at or below it."""
    if len(bins) == 0:
        return 0
    below = np.cumsum(counts)
    wanted = -(-int(below[-1]) * percent // 100)
    return int(bins[np.searchsorted(below, wanted)])
