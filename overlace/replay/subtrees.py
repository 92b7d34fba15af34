"""Kernels that send rows of traffic through a broker tree and add up whom they touch.

A message takes the minimal subtree that joins the homes of its sender and its receivers. Its *top* is
the broker of that subtree nearest the root. Every other broker of the subtree has its link towards the
root in it too, so what crosses the link above a broker is what the broker handled less what it was the
top of: links need no sums of their own.

Deliveries are added up by pairs of *sites*. A site is a broker together with what the way to it costs
a client: two clients of one site are alike for every delivery. What a delivery costs is worked out once
per pair of sites, not once per delivery.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from overlace.arrays.jit import Ints, kernel
from overlace.arrays.trees import Rooted, common_ancestor
from overlace.trace.traffic import TrafficRows

OVERALL = ("messages", "bytes", "to_self", "homeless", "homeless_messages")
BROKER = ("sent", "handled", "handled_bytes", "top", "top_bytes")
CALLER = ("link_messages", "link_bytes", "crossing_messages", "crossing_bytes")


class TrafficSums(NamedTuple):
    """Sums that rows are added to in place; columns as OVERALL, BROKER and CALLER say."""

    overall: Ints
    brokers: Ints
    regions: Ints  # messages that touch the region
    clients: Ints
    topics: Ints


class PairSums(NamedTuple):
    """Deliveries and bytes by key, an open hash table; its size is a power of two.

    A pair of sites is the key lower x sites + higher; pairs of regions and latencies are keys as well.
    """

    key: Ints  # -1: free
    sums: Ints  # (deliveries, bytes)
    filled: int

    def columns(self) -> tuple[Ints, Ints, Ints]:
        """(key, deliveries, bytes) of the places that are taken."""
        taken = np.flatnonzero(self.key >= 0)
        return self.key[taken], self.sums[taken, 0], self.sums[taken, 1]


def empty_pairs(size: int = 1 << 12) -> PairSums:
    """An empty table."""
    return PairSums(np.full(size, -1), np.zeros((size, 2), dtype=np.int64), 0)


@kernel
def place_of(keys: Ints, key: int) -> int:
    """Where a key stands in the table, or the free place where it would."""
    mask = len(keys) - 1
    at = (((key ^ (key >> 32)) & 0xFFFFFFFF) * 0x5E3779B1 >> 15) & mask  # below 2 ** 63
    while keys[at] != key and keys[at] != -1:
        at = (at + 1) & mask
    return at


@kernel
def double_room(keys: Ints, sums: Ints) -> tuple[Ints, Ints]:
    """The same table with twice the room."""
    more = np.full(2 * len(keys), -1, dtype=np.int64)
    more_sums = np.zeros((2 * len(keys), 2), dtype=np.int64)
    for i in range(len(keys)):
        if keys[i] != -1:
            at = place_of(more, keys[i])
            more[at] = keys[i]
            more_sums[at, 0] = sums[i, 0]
            more_sums[at, 1] = sums[i, 1]
    return more, more_sums


@kernel(work=lambda pairs, keys, deliveries, size: 4 * len(keys))
def add_pairs(pairs: PairSums, keys: Ints, deliveries: Ints, size: Ints) -> PairSums:
    """Add deliveries and bytes to those of their keys."""
    key, sums, filled = pairs.key, pairs.sums, pairs.filled
    for i in range(len(keys)):
        place = place_of(key, keys[i])
        if key[place] == -1:
            if 2 * filled >= len(key):
                key, sums = double_room(key, sums)
                place = place_of(key, keys[i])
            key[place] = keys[i]
            filled += 1
        sums[place, 0] += deliveries[i]
        sums[place, 1] += size[i]
    return PairSums(key, sums, filled)


@kernel(work=lambda rows, tree, *_: len(rows.receivers) + len(rows.client) * (8 + tree.depth.max(initial=0)))
def route(
    rows: TrafficRows, tree: Rooted, region: Ints, site: Ints, home: Ints, loads: TrafficSums, pairs: PairSums
) -> PairSums:
    """Add rows of traffic to the loads and to the sums by pair of sites, which are returned anew.

    region[b] is broker b's, counted from 0; site[c] is client c's, -1 for a client without a home;
    home[s] is site s's broker. Clients beyond the end of site have no home either.
    """
    overall, brokers, regions = loads.overall, loads.brokers, loads.regions
    key, sums, filled = pairs.key, pairs.sums, pairs.filled
    sites = len(home)
    seen = np.full(sites, -1, dtype=np.int64)  # the last row that had a receiver at the site
    count = np.zeros(sites, dtype=np.int64)
    found = np.empty(sites + 1, dtype=np.int64)
    touched = np.full(len(region), -1, dtype=np.int64)  # the last row that touched the broker
    region_touched = np.full(len(regions), -1, dtype=np.int64)
    for row in range(len(rows.client)):
        sender, messages, size = rows.client[row], rows.messages[row], rows.bytes[row]
        overall[0] += messages
        overall[1] += size
        at = site[sender] if 0 <= sender < len(site) else -1

        # the sites of its receivers, each once, and how many receivers are there
        found[0] = at
        terminals, lost = 1, 0
        for k in range(rows.start[row], rows.start[row + 1]):
            receiver = rows.receivers[k]
            if receiver == sender:
                overall[2] += messages
                continue
            there = site[receiver] if 0 <= receiver < len(site) else -1
            if at < 0 or there < 0:
                lost += 1
                continue
            if seen[there] != row:
                seen[there] = row
                count[there] = 0
                found[terminals] = there
                terminals += 1
            count[there] += 1

        overall[3] += messages * lost
        if at < 0:
            overall[4] += messages
            continue
        brokers[home[at], 0] += messages

        # deliveries by pair of sites; the first and the last home in the tree's order span the subtree
        first = last = tree.position[home[at]]
        for i in range(1, terminals):
            there = found[i]
            pair = min(at, there) * sites + max(at, there)
            place = place_of(key, pair)
            if key[place] == -1:
                if 2 * filled >= len(key):
                    key, sums = double_room(key, sums)
                    place = place_of(key, pair)
                key[place] = pair
                filled += 1
            sums[place, 0] += messages * count[there]
            sums[place, 1] += size * count[there]
            first = min(first, tree.position[home[there]])
            last = max(last, tree.position[home[there]])

        # the top of the subtree, which has no link towards the root in it
        top = common_ancestor(tree, tree.order[first], tree.order[last])
        touched[top] = row
        region_touched[region[top]] = row
        brokers[top, 1] += messages
        brokers[top, 2] += size
        brokers[top, 3] += messages
        brokers[top, 4] += size
        regions[region[top]] += messages

        # from every home upwards until somebody was there before: each broker of the subtree once
        links = crossing = 0
        for i in range(terminals):
            v = home[found[i]]
            while touched[v] != row:
                touched[v] = row
                brokers[v, 1] += messages
                brokers[v, 2] += size
                if region_touched[region[v]] != row:
                    region_touched[region[v]] = row
                    regions[region[v]] += messages
                links += 1
                crossing += region[v] != region[tree.parent[v]]
                v = tree.parent[v]

        if links:
            add_caused(loads.clients, sender, links, crossing, messages, size)
            if rows.topic[row] >= 0:
                add_caused(loads.topics, rows.topic[row], links, crossing, messages, size)
    return PairSums(key, sums, filled)


@kernel
def add_caused(loads: Ints, caller: int, links: int, crossing: int, messages: int, size: int) -> None:
    """Add to a caller what its row brought onto links, and onto links between two regions."""
    loads[caller, 0] += messages * links
    loads[caller, 1] += size * links
    loads[caller, 2] += messages * crossing
    loads[caller, 3] += size * crossing


class Paths(NamedTuple):
    """What the paths of deliveries come to."""

    hops: Ints  # deliveries by number of links, from 0
    touching: Ints  # deliveries whose path touches each broker
    crossing: Ints  # deliveries whose path crosses each broker's link towards the root
    length: Ints  # of each path


@kernel(work=lambda tree, link_length, left, *_: 8 * (len(link_length) + len(left)))
def paths(tree: Rooted, link_length: Ints, left: Ints, right: Ints, deliveries: Ints) -> Paths:
    """Follow the path left[i] to right[i] of deliveries[i]; link_length[v] is that of v's link up.

    A path is a few numbers at its ends and its top; sums from the leaves upwards do the rest.
    """
    brokers = len(tree.parent)
    from_root = np.zeros(brokers, dtype=np.int64)
    for v in tree.order[1:]:
        from_root[v] = from_root[tree.parent[v]] + link_length[v]

    hops = np.zeros(brokers, dtype=np.int64)
    touching = np.zeros(brokers, dtype=np.int64)
    crossing = np.zeros(brokers, dtype=np.int64)
    length = np.empty(len(left), dtype=np.int64)
    for i in range(len(left)):
        a, b, amount = left[i], right[i], deliveries[i]
        top = common_ancestor(tree, a, b)
        hops[tree.depth[a] + tree.depth[b] - 2 * tree.depth[top]] += amount
        length[i] = from_root[a] + from_root[b] - 2 * from_root[top]
        touching[a] += amount
        touching[b] += amount
        touching[top] -= amount
        if tree.parent[top] >= 0:
            touching[tree.parent[top]] -= amount
        crossing[a] += amount
        crossing[b] += amount
        crossing[top] -= 2 * amount

    for i in range(brokers - 1, 0, -1):  # from the leaves upwards
        v = tree.order[i]
        touching[tree.parent[v]] += touching[v]
        crossing[tree.parent[v]] += crossing[v]
    return Paths(hops, touching, crossing, length)
