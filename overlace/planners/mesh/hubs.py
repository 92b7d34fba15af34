"""Meshes given by the hubs of each topic: every subscriber is linked to them. With one hub a topic is a star.

Moves a hub from one subscriber to another at random and keeps what pays (simulated annealing): few links, nobody
above the cap. What a move changes is found from the topics of the two clients alone, in the order of their links;
no table of links is kept.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from overlace.arrays.csr import copy
from overlace.arrays.draws import below, share_of
from overlace.arrays.hashing import mix
from overlace.arrays.jit import Ints, Pairs, kernel
from overlace.arrays.lists import put_in, take_out
from overlace.planners.mesh.interests import Ids, Interests
from overlace.planners.mesh.stars import link_members

HOT, COLD = 2.0, 0.12  # links that a move may cost, at the beginning and at the end, with a chance of 1 in e
PRICE = 1.5  # links that a client one above the cap is worth; two above four times that


class HubLinks(NamedTuple):
    """The links of hubs, hub by hub."""

    hub: Ints  # in the order in which they come up
    topics: Ints  # how many topics each has
    start: Ints  # leaf[start[k]:start[k + 1]] are hub k's, without those that an earlier hub has
    leaf: Ids


class Hubs(NamedTuple):
    """The hubs of each topic, and of each client the list of those it is; changed in place.

    Hub k is in slot k % slots of topic k // slots.
    """

    client: Pairs  # by topic and slot; -1: none
    head: Ints  # per client the first of its hubs; -1: none
    after: Ints  # per hub the next of the same client
    before: Ints


@kernel
def hubs_of(client: Pairs, clients: int) -> Hubs:
    """The hubs of each topic, listed by client."""
    topics, slots = client.shape
    hubs = Hubs(
        client,
        np.full(clients, -1, dtype=np.int64),
        np.full(topics * slots, -1, dtype=np.int64),
        np.full(topics * slots, -1, dtype=np.int64),
    )
    for k in range(topics * slots - 1, -1, -1):
        v = client[k // slots, k % slots]
        if v >= 0:
            put_in(hubs.head, hubs.after, hubs.before, v, k)
    return hubs


@kernel
def mark_links(given: Interests, hubs: Hubs, v: int, but: int, mark: Ints, stamp: int) -> None:
    """Stamp everyone that v is linked to, one hub left out (-1: none)."""
    slots = hubs.client.shape[1]
    k = hubs.head[v]
    while k >= 0:
        if k != but:
            t = k // slots
            for m in range(given.first[t], given.first[t + 1]):
                mark[given.member[m]] = stamp
        k = hubs.after[k]
    for i in range(given.start[v], given.start[v + 1]):
        t = given.topic[i]
        for j in range(slots):
            if hubs.client[t, j] >= 0 and t * slots + j != but:
                mark[hubs.client[t, j]] = stamp
    mark[v] = stamp


@kernel
def hub_links(given: Interests, hubs: Pairs, order: Ints) -> HubLinks:
    """The links of all hubs, in the order in which these topics bring them up; no link twice."""
    clients, slots = len(given.start) - 1, hubs.shape[1]
    lists = hubs_of(hubs, clients)
    turn = np.full(clients, len(order) * slots, dtype=np.int64)  # when a hub comes up
    hub = np.empty(min(clients, len(order) * slots), dtype=np.int64)
    topics = np.zeros_like(hub)
    found = room = 0
    for t in order:
        for j in range(slots):
            v = hubs[t, j]
            if v >= 0:
                room += given.first[t + 1] - given.first[t] - 1
                if turn[v] == len(order) * slots:
                    turn[v], hub[found] = found, v
                    found += 1
    start, leaf = np.zeros(found + 1, dtype=np.int64), np.empty(room, dtype=np.int32)
    mark = np.full(clients, -1, dtype=np.int64)
    links = 0
    for n in range(found):
        v = hub[n]
        mark[v] = n
        for i in range(given.start[v], given.start[v + 1]):
            for j in range(slots):
                other = hubs[given.topic[i], j]
                if other >= 0 and turn[other] < n:
                    mark[other] = n  # that hub has the link already
        k = lists.head[v]
        while k >= 0:
            t = k // slots
            topics[n] += 1
            links = link_members(given, t, mark, n, leaf, links)
            k = lists.after[k]
        start[n + 1] = links
    return HubLinks(hub[:found], topics[:found], start, leaf[:links].copy())


def degrees(found: HubLinks, clients: int) -> Ints:
    """How many links each client has."""
    ends = np.repeat(found.hub, np.diff(found.start))
    return np.bincount(ends, minlength=clients) + np.bincount(found.leaf, minlength=clients)


@kernel
def excess(degree: int, cap: int) -> int:
    """What a client above the cap weighs."""
    return (degree - cap) ** 2 if degree > cap else 0


@kernel
def anneal(given: Interests, hubs: Pairs, degree: Ints, cap: int, steps: int, seed: int) -> tuple[Pairs, int]:
    """(hubs, over): the best hubs found, and by how much clients are over the cap with them; degree is used up."""
    clients, slots = len(degree), hubs.shape[1]
    now = hubs_of(hubs.copy(), clients)
    open_ = np.flatnonzero(np.diff(given.first) > slots)  # topics where there is a choice
    over, links = 0, int(degree.sum()) // 2
    for v in range(clients):
        over += excess(degree[v], cap)
    best, best_over, best_links = hubs.copy(), over, links
    mark_a, mark_b = np.full(clients, -1, dtype=np.int64), np.full(clients, -1, dtype=np.int64)
    state = mix(np.uint64(seed))
    heat, cooling = HOT, (COLD / HOT) ** (1 / max(steps, 1))
    for step in range(steps if len(open_) else 0):
        heat *= cooling

        # a hub of a topic may go from one subscriber to another
        state = mix(state)
        t = open_[below(state, len(open_))]
        low, high = given.first[t], given.first[t + 1]
        state = mix(state)
        drawn = np.int64(state >> np.uint64(33))
        slot = drawn % slots
        k, a, b = t * slots + slot, now.client[t, slot], given.member[low + (drawn // slots) % (high - low)]
        taken = False
        for j in range(slots):
            taken = taken or now.client[t, j] == b
        if taken:
            continue

        # the links that one loses and the other gains, and what that is worth
        mark_links(given, now, a, k, mark_a, step)
        mark_links(given, now, b, k, mark_b, step)
        lost = gained = more = 0
        for m in range(low, high):
            x = given.member[m]
            loses, gains = mark_a[x] != step, mark_b[x] != step
            lost += loses
            gained += gains
            if loses != gains and x != a and x != b:
                more += excess(degree[x] + gains - loses, cap) - excess(degree[x], cap)
        to_a, from_b = mark_b[a] != step, mark_a[b] != step
        more += excess(degree[a] - lost + to_a, cap) - excess(degree[a], cap)
        more += excess(degree[b] + gained - from_b, cap) - excess(degree[b], cap)
        rise = gained - lost + PRICE * more
        if rise > 0:
            state = mix(state)
            if share_of(state) >= np.exp(-rise / heat):
                continue

        for m in range(low, high):
            x = given.member[m]
            if x != a and x != b:
                degree[x] += (mark_b[x] != step) - np.int64(mark_a[x] != step)
        degree[a] += to_a - np.int64(lost)
        degree[b] += gained - np.int64(from_b)
        take_out(now.head, now.after, now.before, a, k)
        put_in(now.head, now.after, now.before, b, k)
        now.client[t, slot] = b
        links += gained - lost
        over += more
        if over < best_over or (over == best_over and links < best_links):
            best_over, best_links = over, links
            for t in range(len(best)):
                copy(now.client[t], best[t])
    return best, best_over
