"""Star centres under a degree cap, without search: CD-ODA-II as long as whole stars fit, then topic by topic.

First CD-ODA-II chooses, among the clients whose whole star fits under the cap; without a cap that is CD-ODA-II
itself. Every client then sets one link aside for each of its topics that has no centre yet, so a leaf does not
break the cap later: what a topic's star costs a leaf was set aside before. Topics that are left get their centres one
by one, the largest first: the subscriber with most links to the others already, among those that stay under the
cap if there are any, else the one that goes least above it. The work is in the order of links times a few.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from overlace.arrays.csr import copy
from overlace.arrays.jit import Ints, Pairs, kernel
from overlace.arrays.lists import put_in
from overlace.planners.mesh.baselines import stars_by_neighbours
from overlace.planners.mesh.hubs import Hubs, hubs_of, mark_links
from overlace.planners.mesh.interests import Interests


class LinkCounts(NamedTuple):
    """The links that each client has and sets aside, and marks; changed in place."""

    degree: Ints
    aside: Ints  # one for each hub that its topics still lack
    inside: Ints  # the last topic that was looked at for a hub and that it wants
    mark: Ints  # stamps
    stamp: Ints  # one entry: the next stamp that nobody has


@kernel
def no_loads(given: Interests, slots: int) -> LinkCounts:
    """No link yet; every topic lacks as many hubs as there are slots."""
    clients = len(given.start) - 1
    return LinkCounts(
        np.zeros(clients, dtype=np.int64),
        slots * np.diff(given.start),
        np.full(clients, -1, dtype=np.int64),
        np.full(clients, -1, dtype=np.int64),
        np.zeros(1, dtype=np.int64),
    )


@kernel
def centres_under(given: Interests, cap: int) -> tuple[Pairs, Ints]:
    """(hubs, order): the centre of each topic as one column, -1 where none is needed; topics as they were done."""
    clients, topics = len(given.start) - 1, len(given.first) - 1
    subscribers = np.diff(given.first)
    stars = stars_by_neighbours(given, True, True, cap)
    centres, first = first_centres(given, stars.centre)
    if stars.topics.sum() == np.count_nonzero(subscribers):
        return centres, first

    hubs, loads = hubs_of(np.full((topics, 1), -1, dtype=np.int64), clients), no_loads(given, 1)
    order, done = np.empty(topics, dtype=np.int64), len(first)
    copy(first, order)
    for t in first:
        put_hub(given, hubs, loads, t, 0, centres[t, 0])
    for t in np.argsort(-subscribers, kind="mergesort"):
        if hubs.client[t, 0] < 0 and subscribers[t] > 0:
            put_hub(given, hubs, loads, t, 0, choose_hub(given, hubs, loads, t, cap))
            order[done] = t
            done += 1
    return hubs.client, order[:done]


@kernel
def first_centres(given: Interests, centres: Ints) -> tuple[Pairs, Ints]:
    """(hubs, order): each topic belongs to the first of these clients who wants it."""
    topics = len(given.first) - 1
    hubs, order = np.full((topics, 1), -1, dtype=np.int64), np.empty(topics, dtype=np.int64)
    done = 0
    for v in centres:
        for i in range(given.start[v], given.start[v + 1]):
            t = given.topic[i]
            if hubs[t, 0] < 0:
                hubs[t, 0], order[done] = v, t
                done += 1
    return hubs, order[:done]


@kernel
def put_hub(given: Interests, hubs: Hubs, loads: LinkCounts, t: int, slot: int, v: int) -> None:
    """Make v a hub of t: degrees grow by its new links, and nobody sets one aside for it any more."""
    stamp = loads.stamp[0]
    mark_links(given, hubs, v, -1, loads.mark, stamp)
    loads.stamp[0] += 1
    for m in range(given.first[t], given.first[t + 1]):
        u = given.member[m]
        loads.aside[u] -= 1
        if loads.mark[u] != stamp:
            loads.degree[v] += 1
            loads.degree[u] += 1
    hubs.client[t, slot] = v
    put_in(hubs.head, hubs.after, hubs.before, v, t * hubs.client.shape[1] + slot)


@kernel
def choose_hub(given: Interests, hubs: Hubs, loads: LinkCounts, t: int, cap: int) -> int:
    """The subscriber of a topic to be its next hub.

    The least above the cap, of equals with fewest new links, then of the lowest degree (where there is no cap: with
    most topics to come, which can share its links), then of the lowest id.
    """
    first, member, topic = given.first, given.member, given.topic
    slots, inside, mark = hubs.client.shape[1], loads.inside, loads.mark
    for m in range(first[t], first[t + 1]):
        inside[member[m]] = t
    found, least_over, least_new, least_degree = -1, 0, 0, 0
    for m in range(first[t], first[t + 1]):
        v = member[m]

        # its new links: whom it is linked to is seen from the hubs of its topics and the topics that it is a hub of
        stamp = loads.stamp[0]
        loads.stamp[0] += 1
        mark[v] = stamp
        new, taken = first[t + 1] - first[t] - 1, False
        for i in range(given.start[v], given.start[v + 1]):
            for j in range(slots):
                u = hubs.client[topic[i], j]
                if u >= 0 and inside[u] == t and mark[u] != stamp:
                    mark[u] = stamp
                    new -= 1
        k = hubs.head[v]
        while k >= 0:
            own = k // slots
            taken = taken or own == t
            for n in range(first[own], first[own + 1]):
                u = member[n]
                if inside[u] == t and mark[u] != stamp:
                    mark[u] = stamp
                    new -= 1
            k = hubs.after[k]
        if taken:
            continue

        full = loads.degree[v] + new + loads.aside[v] - 1
        over = max(full - cap, 0)
        if cap >= len(loads.degree):
            full = -loads.aside[v]
        better = over < least_over or (over == least_over and new < least_new)
        if found < 0 or better or (over == least_over and new == least_new and full < least_degree):
            found, least_over, least_new, least_degree = v, over, new, full
    return found
