"""Star centres under a degree cap, without search: CD-ODA-II as long as whole stars fit, then topic by topic.

First CD-ODA-II chooses, among the clients whose whole star fits under the cap; without a cap that is CD-ODA-II
itself. Every client then sets one link aside for each of its topics that has no centre yet, so a leaf does not
break the cap later: what a topic's star costs a leaf was set aside before. Topics that are left get their centres one
by one, the largest first: the subscriber with most links to the others already, among those that stay under the
cap if there are any, else the one that goes least above it. The work is in the order of links times a few.
"""

from __future__ import annotations

import numpy as np

from overlace.arrays.jit import Ints, Pairs, kernel
from overlace.planners.mesh.cd_oda import stars_by_neighbours
from overlace.planners.mesh.hubs import mark_links
from overlace.planners.mesh.interests import Interests


@kernel
def centres_under(given: Interests, cap: int) -> tuple[Pairs, Ints]:
    """(hubs, order): the centre of each topic as one column, -1 where none is needed; topics as they were done."""
    clients, topics = len(given.start) - 1, len(given.first) - 1
    subscribers = np.diff(given.first)
    stars = stars_by_neighbours(given, True, True, cap)
    hubs, first = first_centres(given, stars.centre)
    if stars.topics.sum() == np.count_nonzero(subscribers):
        return hubs, first
    order, done = np.empty(topics, dtype=np.int64), len(first)
    order[:done] = first
    degree, aside = np.zeros(clients, dtype=np.int64), np.diff(given.start)
    head, after = np.full(clients, -1, dtype=np.int64), np.full(topics, -1, dtype=np.int64)
    inside, mark = np.full(clients, -1, dtype=np.int64), np.full(clients, -1, dtype=np.int64)
    for t in order[:done]:
        v, hubs[t, 0] = hubs[t, 0], -1
        put_hub(given, hubs, t, 0, v, head, after, mark, t, degree, aside)
    stamp = topics
    for t in np.argsort(-subscribers, kind="mergesort"):
        if hubs[t, 0] < 0 and subscribers[t] > 0:
            v, stamp = linked_most(given, hubs, t, head, after, inside, mark, stamp, degree, aside, cap)
            put_hub(given, hubs, t, 0, v, head, after, mark, stamp, degree, aside)
            order[done] = t
            done += 1
            stamp += 1
    return hubs, order[:done]


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
def put_hub(
    given: Interests, hubs: Pairs, t: int, slot: int, v: int, head: Ints, after: Ints, mark: Ints, stamp: int,
    degree: Ints, aside: Ints,
) -> None:  # fmt: skip
    """Make v a hub of t: degrees grow by its new links, and nobody sets one aside for it any more."""
    mark_links(given, hubs, head, after, v, -1, 0, mark, stamp)
    for m in range(given.first[t], given.first[t + 1]):
        u = given.member[m]
        aside[u] -= 1
        if mark[u] != stamp:
            degree[v] += 1
            degree[u] += 1
    hubs[t, slot] = v
    k = t * hubs.shape[1] + slot
    after[k], head[v] = head[v], k


@kernel
def linked_most(
    given: Interests, hubs: Pairs, t: int, head: Ints, after: Ints, inside: Ints, mark: Ints, stamp: int, degree: Ints,
    aside: Ints, cap: int,
) -> tuple[int, int]:  # fmt: skip
    """(client, stamp): the subscriber of a topic to be its next hub, and the next stamp that is free.

    The least above the cap, of equals with fewest new links, then of the lowest degree (where there is no cap: with
    most topics to come, which can share its links), then of the lowest id.
    Whom a client is linked to is seen from the hubs of its topics and the topics that it is a hub of.
    """
    first, member, topic = given.first, given.member, given.topic
    slots = hubs.shape[1]
    for m in range(first[t], first[t + 1]):
        inside[member[m]] = t
    size = first[t + 1] - first[t]
    found, least_over, least_new, least_degree = -1, 0, 0, 0
    for m in range(first[t], first[t + 1]):
        v = member[m]
        mark[v] = stamp
        new, taken = size - 1, False
        for i in range(given.start[v], given.start[v + 1]):
            for j in range(slots):
                u = hubs[topic[i], j]
                if u >= 0 and inside[u] == t and mark[u] != stamp:
                    mark[u] = stamp
                    new -= 1
        k = head[v]
        while k >= 0:
            own = k // slots
            taken = taken or own == t
            for n in range(first[own], first[own + 1]):
                u = member[n]
                if inside[u] == t and mark[u] != stamp:
                    mark[u] = stamp
                    new -= 1
            k = after[k]
        stamp += 1
        if taken:
            continue
        full = degree[v] + new + aside[v] - 1
        over = max(full - cap, 0)
        if cap >= len(degree):
            full = -aside[v]
        better = over < least_over or (over == least_over and new < least_new)
        if found < 0 or better or (over == least_over and new == least_new and full < least_degree):
            found, least_over, least_new, least_degree = v, over, new, full
    return found, stamp
