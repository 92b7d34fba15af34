"""The shape of a mesh: degrees, and how each topic is connected (TDCD17 §II, Tables I to VI).

A topic's subgraph is its subscribers and the links between two of them. The mesh is topic-connected when
every such subgraph is one component. A topic's diameter is the longest of the shortest ways between two
of its subscribers inside its subgraph (R5: per topic, not of the whole mesh).

Kept true: topics with fewer than two subscribers need no link and are left out of every mean; a topic
that falls apart has no diameter and counts in `components_too_many` instead; a client without links
counts in the degrees.

Diameters are found by breadth-first searches from well-chosen clients. Each search bounds how far from
everything every other client can be, from below and from above; it ends when no client is left that could
be farther than the farthest found. On star-like meshes that takes a handful of searches, in the worst case
one per subscriber, so above `most_exact` subscribers a topic gets `sources` searches. If its bounds have
not met by then, its diameter is the farthest found: at most the true one, with `diameter_sampled` searches.

Flooding: whoever publishes sends to all its neighbours in the topic's subgraph, and everyone passes a
message on once, to all neighbours but the one it came from. With n clients and e links in one component
that is 2e - (n - 1) messages, of which n - 1 are needed. `flood_messages` is the mean over topics, each
weighing the same, and within a topic over its subscribers as publishers.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from overlace.arrays.csr import group, neighbours
from overlace.arrays.jit import Bools, Ints, kernel
from overlace.errors import BadOverlay
from overlace.metrics import Metrics
from overlace.model import Observation, Overlay, name_of
from overlace.replay.tally import Tally, share, totals


class TopicShapes(NamedTuple):
    """One entry per topic."""

    members: Ints
    edges: Ints
    components: Ints
    flooded: Ints  # messages that a publication by each subscriber in turn floods, added up
    diameter: Ints  # -1 for a topic that falls apart
    searches: Ints
    exact: Bools


def shape(observation: Observation, overlay: Overlay, most_exact: int = 2000, sources: int = 64) -> Metrics:
    """Degrees, connectedness, diameters and flooding of the overlay's mesh for the observed interests."""
    mesh, clients = overlay.mesh, observation.clients
    if len(mesh) and (mesh.min() < 0 or mesh.max() >= clients):
        who = name_of("client", int(mesh.min() if mesh.min() < 0 else mesh.max()))
        raise BadOverlay(f"mesh: a link names {who}, but there are {clients} clients")
    start, other, _ = neighbours(clients, mesh)
    first, order = group(np.ascontiguousarray(observation.interests[:, 1]), observation.topics)
    member = observation.interests[order, 0]
    topics = topic_shapes(clients, first, member, start, other, most_exact, sources)
    tally = Tally()
    _degrees(tally, clients, np.diff(start), len(mesh))
    _topics(tally, topics, len(mesh))
    return tally.metrics()


def _degrees(tally: Tally, clients: int, degree: Ints, links: int) -> None:
    tally.overall("links", links)
    tally.overall("average_degree", share(2 * links, clients))
    tally.overall("max_degree", int(degree.max(initial=0)))
    tally.add("degree", "bin", *totals(degree, np.ones(len(degree), dtype=np.int64)))


def _topics(tally: Tally, topics: TopicShapes, links: int) -> None:
    apart = np.flatnonzero(topics.components > 1)
    too_many = topics.components[apart] - 1
    tally.overall("topic_connected", float(len(apart) == 0))
    tally.overall("components_too_many", int(too_many.sum()))
    tally.add("components_too_many", "topic", apart, too_many)
    tally.overall("shared_topics", share(int(topics.edges.sum()), links))

    linked = np.flatnonzero((topics.members > 1) & (topics.components == 1))
    diameter = topics.diameter[linked]
    guessed = np.flatnonzero(~topics.exact)
    tally.overall("max_diameter", int(diameter.max(initial=0)))
    tally.overall("mean_diameter", share(int(diameter.sum()), len(linked)))
    tally.overall("diameter_sampled", len(guessed))
    tally.add("diameter", "topic", linked, diameter)
    tally.add("diameter_sampled", "topic", guessed, topics.searches[guessed])

    several = np.flatnonzero(topics.members > 1)
    flood = topics.flooded[several] / topics.members[several]
    tally.overall("flood_messages", share(float(flood.sum()), len(several)))
    tally.add("flood_messages", "topic", several, flood)


@kernel
def topic_shapes(
    clients: int, first: Ints, member: Ints, start: Ints, other: Ints, most_exact: int, sources: int
) -> TopicShapes:
    """Look at each topic's subgraph; member[first[t]:first[t + 1]] are topic t's subscribers."""
    topics = len(first) - 1
    members = np.diff(first)
    edges, components, flooded = np.zeros(topics, np.int64), np.zeros(topics, np.int64), np.zeros(topics, np.int64)
    diameter, searches = np.zeros(topics, np.int64), np.zeros(topics, np.int64)
    exact = np.ones(topics, dtype=np.bool_)
    place = np.full(clients, -1, dtype=np.int64)
    for t in range(topics):
        size = members[t]
        if size == 0:
            continue
        own = member[first[t] : first[t + 1]]
        at, near = induced(own, start, other, place)
        edges[t] = len(near) // 2
        components[t], flooded[t] = flood(at, near)
        if components[t] > 1:
            diameter[t] = -1
        else:
            most = size if size <= most_exact else sources
            diameter[t], searches[t], exact[t] = longest_way(at, near, most)
    return TopicShapes(members, edges, components, flooded, diameter, searches, exact)


@kernel
def induced(own: Ints, start: Ints, other: Ints, place: Ints) -> tuple[Ints, Ints]:
    """(start, neighbour) of the subgraph of some clients, these renumbered; place is -1 before and after."""
    for i in range(len(own)):
        place[own[i]] = i
    at = np.zeros(len(own) + 1, dtype=np.int64)
    for i in range(len(own)):
        at[i + 1] = at[i]
        for k in range(start[own[i]], start[own[i] + 1]):
            at[i + 1] += place[other[k]] >= 0
    near = np.empty(at[-1], dtype=np.int64)
    filled = 0
    for i in range(len(own)):
        for k in range(start[own[i]], start[own[i] + 1]):
            if place[other[k]] >= 0:
                near[filled] = place[other[k]]
                filled += 1
    for i in range(len(own)):
        place[own[i]] = -1
    return at, near


@kernel
def search(at: Ints, near: Ints, source: int, distance: Ints, queue: Ints) -> int:
    """Breadth-first over clients whose distance is -1; they go into the queue. Returns how many."""
    distance[source] = 0
    queue[0] = source
    reached, i = 1, 0
    while i < reached:
        v = queue[i]
        i += 1
        for k in range(at[v], at[v + 1]):
            if distance[near[k]] < 0:
                distance[near[k]] = distance[v] + 1
                queue[reached] = near[k]
                reached += 1
    return reached


@kernel
def flood(at: Ints, near: Ints) -> tuple[int, int]:
    """(components, messages flooded when each client publishes once)."""
    n = len(at) - 1
    distance = np.full(n, -1, dtype=np.int64)
    queue = np.empty(n, dtype=np.int64)
    components = messages = 0
    for source in range(n):
        if distance[source] >= 0:
            continue
        reached = search(at, near, source, distance, queue)
        ends = 0
        for i in range(reached):
            ends += at[queue[i] + 1] - at[queue[i]]
        components += 1
        messages += reached * (ends - (reached - 1))
    return components, messages


@kernel
def longest_way(at: Ints, near: Ints, most: int) -> tuple[int, int, bool]:
    """(diameter, searches, exact) of a connected graph, with at most so many searches.

    Takes and Kosters' bounds (Algorithms 6(1), 2013): a client at distance d from a source whose farthest
    client is f away has its own farthest between max(f - d, d) and f + d. The sources are in turn the
    client with the highest upper and the one with the lowest lower bound, of these the best linked.
    """
    n = len(at) - 1
    lower = np.zeros(n, dtype=np.int64)
    upper = np.full(n, n, dtype=np.int64)
    open_ = np.ones(n, dtype=np.bool_)
    distance = np.empty(n, dtype=np.int64)
    queue = np.empty(n, dtype=np.int64)
    longest = searches = 0
    left = n
    while left and searches < most:
        # in turn the highest upper and the lowest lower bound, then the best linked
        source = -1
        for v in range(n):
            if not open_[v]:
                continue
            if source < 0:
                source = v
                continue
            gain = upper[v] - upper[source] if searches % 2 else lower[source] - lower[v]
            if gain > 0 or (gain == 0 and at[v + 1] - at[v] > at[source + 1] - at[source]):
                source = v

        distance[:] = -1
        search(at, near, source, distance, queue)
        searches += 1
        farthest = distance[queue[n - 1]]
        longest = max(longest, farthest)
        open_[source] = False
        left -= 1

        # what its distances say of all others; whoever cannot be farther than the farthest is done
        for v in range(n):
            if open_[v]:
                lower[v] = max(lower[v], farthest - distance[v], distance[v])
                upper[v] = min(upper[v], farthest + distance[v])
        for v in range(n):
            if open_[v] and (upper[v] <= longest or lower[v] == upper[v]):
                longest = max(longest, lower[v])
                open_[v] = False
                left -= 1
    return longest, searches, left == 0
