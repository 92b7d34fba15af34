"""Meshes by other methods: those that TDCD17 compares with (§III), MinMax-ODA and gossip.

CD-ODA: the next centre is the client with most neighbours.

TDCD17 §III, (1), after Onus and Richa. A neighbour is another client with whom a topic that is left is shared.
The centre is linked to all of them and its topics are done.

Keeps: every topic has a star, so its diameter is at most 2; a client is the centre at most once.
Reads: R3, ties to the lowest id, or random.
Departs: neighbours are counted anew only for who might be next, by bounds that follow each topic that is done.

CD-ODA-I: the next centre is the client of the greatest weight.

TDCD17 §III, (2), after Onus and Richa. The weight of a client is the number of subscribers, itself among them,
of its topics that are left, added up. The centre is linked to everyone it shares such a topic with.

Keeps: every topic has a star, so its diameter is at most 2; a client is the centre at most once.
Reads: R3, ties to the lowest id, or random.
Departs: a topic that is done is taken out of its subscribers' weights, nothing is added up anew; so the work is
in the order of the interests and the links.

CD-ODA-II: the next centre is the client with the greatest weight for each neighbour.

TDCD17 §III, (3), after Onus and Richa: connection density, the weight (2) over the neighbours. A dense client
does many subscriptions with each link. The centre is linked to all neighbours and its topics are done.

Keeps: every topic has a star, so its diameter is at most 2; a client is the centre at most once.
Reads: R3, ties to the lowest id, or random. R8, (3) as printed counts the client itself among the neighbours;
`itself=False` leaves it out, as the note below (3) has it.

2D-ODA: topic by topic, the client and topic of the greatest topic density.

TDCD17 §III, (4), after Onus and Richa. The density of a client for one of its topics is its weight, the
subscribers of its topics that are left added up, over the subscribers of that topic to whom it has no link
yet, itself among them. The client is linked to these and only that topic is done.

Keeps: every topic has a star, so its diameter is at most 2. A client may be the centre of several topics.
Reads: R3, ties to the lowest client, or random, then to the lowest topic. R6, the weight runs over what is left
(`weight="all"`: over all topics of the client, always).
Departs: who is not linked yet is kept for every (client, topic) and lowered link by link.

MinMax-ODA: among the links that raise the maximum degree least, the one that joins most components of topics.

Onus and Richa, INFOCOM 2009; TDCD17 [6] is its journal version. Built from its description, not from its text
or code: the low-degree rival beside GM. While the maximum degree is d, links between two clients with fewer than
d links come first, by their contribution as in GM; when none of them joins anything, the best of all links is
added, which makes the maximum d + 1.

Keeps: every link joins at least one component.
Reads: ties to the lowest pair of ids (TDCD17 R3), or random among the clients.
Departs: as GM, level by level and without a queue of pairs; each new maximum degree begins at the top again.

Random mesh: what gossip does, links to random others of each topic. A baseline for pictures.

After libp2p's gossipsub: every subscriber of a topic, in a random order, dials random others of the topic until
it has `degree` links in it. Topics draw for themselves; a link that two of them draw is one link. Gossip can
leave a topic in parts; here the parts are then joined by links between random members, so that no plan takes a
topic apart.

Keeps: every topic connected. Diameters are small by chance, not by rule.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar, Literal

import numpy as np

from overlace.arrays.components import find, join
from overlace.arrays.csr import copy
from overlace.arrays.draws import below
from overlace.arrays.hashing import mix
from overlace.arrays.jit import Bools, Ints, kernel
from overlace.arrays.lists import add_link, are_linked, link_ends, no_links
from overlace.limits import option
from overlace.model import Observation, Plan, Progress
from overlace.planners.mesh.greedy_merge import (
    LINK_REASONS,
    Merging,
    contribution,
    contributions,
    link_plan,
    merge,
    merging,
    open_topics,
)
from overlace.planners.mesh.interests import Ids, Interests, Ties, interests_by_ties, interests_of, next_shared
from overlace.planners.mesh.planner import MeshPlanner
from overlace.planners.mesh.stars import (
    StarPlanner,
    Stars,
    empty_stars,
    first_of,
    first_stars,
    link_star,
    rank,
    rank_all,
    room_for_links,
)
from overlace.planners.mesh.steps import REMOVED, WantedLinks, mesh_plan, ordered


@dataclass(frozen=True)
class CdOda(StarPlanner):
    """Stars around the clients with most neighbours: diameter 2, few links, a high maximum degree."""

    name: ClassVar[str] = "mesh.cd-oda"
    paper: ClassVar[str] = "TDCD17 (1)"

    def choose(self, given: Interests) -> Stars:
        """By the most neighbours (1)."""
        return stars_by_neighbours(given, False, False, len(given.start))


@kernel
def stars_by_neighbours(given: Interests, weighted: bool, itself: bool, cap: int) -> Stars:
    """Stars by the most neighbours (1), or by the most weight (2) for each neighbour (3), itself counted or not.

    Only whole stars that leave their centre at most cap links; topics that none of these does are left over.
    A topic that is done takes at least nobody and at most all its subscribers from their neighbours. That bounds
    the keys from above, and who comes to the top by a bound is counted then and put back in its place.
    """
    clients = len(given.start) - 1
    subscribers = np.diff(given.first)
    left = subscribers > 0
    seen = np.full(clients, -1, dtype=np.int64)
    weight, waiting = np.zeros(clients, dtype=np.int64), np.diff(given.start)  # of the topics left
    least, most = np.ones(clients, dtype=np.int64), np.zeros(clients, dtype=np.int64)  # neighbours and itself
    known, degree = np.zeros(clients, dtype=np.bool_), np.zeros(clients, dtype=np.int64)
    key = np.full(clients, -np.inf)
    for v in range(clients):
        for i in range(given.start[v], given.start[v + 1]):
            weight[v] += subscribers[given.topic[i]]
            least[v] = max(least[v], subscribers[given.topic[i]])
        most[v] = min(weight[v] - waiting[v] + 1, clients)
        if weight[v] > 0 and least[v] - 1 <= cap:
            key[v] = density(weight[v], least[v], most[v], weighted, itself)
    best, who, top = rank_all(key)
    found = empty_stars(given)
    centre, done, joined, start, leaf = found
    stamp, stars = clients, 0
    while True:
        v = first_of(best, who, top)
        if v < 0:
            break
        if not known[v]:
            least[v] = count_neighbours(given, v, left, seen, stamp, cap - degree[v] + 1)
            stamp += 1
            fits = known[v] = least[v] - 1 <= cap - degree[v]
            most[v] = least[v] if fits else most[v]
            rank(key, best, who, top, v, density(weight[v], least[v], most[v], weighted, itself) if fits else -np.inf)
            continue
        start[stars + 1] = link_star(given, v, left, seen, stamp, leaf, start[stars])
        stamp += 1
        for k in range(start[stars], start[stars + 1]):
            degree[leaf[k]] += 1
        degree[v] += start[stars + 1] - start[stars]
        for i in range(given.start[v], given.start[v + 1]):
            t = given.topic[i]
            if not left[t]:
                continue
            left[t] = False
            done[stars] += 1
            joined[stars] += subscribers[t] - 1
            for k in range(given.first[t], given.first[t + 1]):
                u = given.member[k]
                weight[u] -= subscribers[t]
                waiting[u] -= 1
                least[u] = max(least[u] - subscribers[t] + 1, 1)
                most[u] = min(most[u], weight[u] - waiting[u] + 1)
                known[u] = waiting[u] == 1
                if known[u]:
                    least[u] = most[u]
                fits = weight[u] > 0 and least[u] - 1 <= cap - degree[u]
                new = density(weight[u], least[u], most[u], weighted, itself) if fits else -np.inf
                rank(key, best, who, top, u, new)
        centre[stars] = v
        stars += 1
    return first_stars(found, stars)


@kernel
def density(weight: int, least: int, most: int, weighted: bool, itself: bool) -> float:
    """The key of a client, or the most it can be; neighbours are counted with the client itself."""
    if not weighted:
        return float(most - 1)
    if itself:
        return weight / least
    if most == 1:
        return 0.0  # nobody to link: chosen last, changes nothing
    return weight / max(least - 1, 1)


@kernel
def count_neighbours(given: Interests, v: int, left: Bools, seen: Ints, stamp: int, most: int) -> int:
    """How many share a topic that is left with v, itself counted, or some number above most if there are more.

    seen holds stamps of earlier calls.
    """
    first, member, topic = given.first, given.member, given.topic
    found = 0
    for i in range(given.start[v], given.start[v + 1]):
        t = topic[i]
        if left[t]:
            for k in range(first[t], first[t + 1]):
                u = member[k]
                if seen[u] != stamp:
                    seen[u] = stamp
                    found += 1
            if found > most:
                break
    return found


@dataclass(frozen=True)
class CdOda1(StarPlanner):
    """Stars around the clients whose topics have most subscribers: diameter 2, a high maximum degree."""

    name: ClassVar[str] = "mesh.cd-oda-1"
    paper: ClassVar[str] = "TDCD17 (2)"

    def choose(self, given: Interests) -> Stars:
        """By the greatest weight (2)."""
        return stars_by_weight(given)


@kernel
def stars_by_weight(given: Interests) -> Stars:
    """Stars by the greatest weight (2)."""
    clients = len(given.start) - 1
    subscribers = np.diff(given.first)
    left = subscribers > 0
    key, seen = np.zeros(clients), np.full(clients, -1, dtype=np.int64)
    for v in range(clients):
        for i in range(given.start[v], given.start[v + 1]):
            key[v] += subscribers[given.topic[i]]
        if key[v] == 0:
            key[v] = -np.inf
    best, who, top = rank_all(key)
    found = empty_stars(given)
    centre, done, joined, start, leaf = found
    stars = 0
    while True:
        v = first_of(best, who, top)
        if v < 0:
            break
        start[stars + 1] = link_star(given, v, left, seen, v, leaf, start[stars])
        for i in range(given.start[v], given.start[v + 1]):
            t = given.topic[i]
            if not left[t]:
                continue
            left[t] = False
            done[stars] += 1
            joined[stars] += subscribers[t] - 1
            for k in range(given.first[t], given.first[t + 1]):
                u = given.member[k]
                weight = key[u] - subscribers[t]
                rank(key, best, who, top, u, weight if weight > 0 else -np.inf)
        centre[stars] = v
        stars += 1
    return first_stars(found, stars)


@dataclass(frozen=True)
class CdOda2(StarPlanner):
    """Stars around the densest clients: diameter 2 with few links, a high maximum degree."""

    itself: bool = option(True, "count a client among its own neighbours, as (3) does (R8)")
    name: ClassVar[str] = "mesh.cd-oda-2"
    paper: ClassVar[str] = "TDCD17 (3)"

    def choose(self, given: Interests) -> Stars:
        """By the greatest weight for each neighbour (3)."""
        return stars_by_neighbours(given, True, self.itself, len(given.start))


@dataclass(frozen=True)
class TwoDOda(MeshPlanner):
    """A star for each topic around the client of the greatest topic density: diameter 2."""

    ties: Ties = option("lowest", "who is chosen among equals: the lowest id, or a random one")
    weight: Literal["left", "all"] = option(
        "left", "which topics of a client its weight adds up: those left, or all (R6)"
    )
    paper: ClassVar[str] = "TDCD17 (4)"
    REASONS: ClassVar[tuple[str, ...]] = ("{client} becomes the centre of {topic}: {links} links join it", REMOVED)

    def solve(self, observation: Observation, seed: int = 0, *, progress: Progress | None = None) -> Plan:
        """Topic by topic; then what the old mesh had beyond that goes."""
        given, who = interests_by_ties(observation, "mesh.2d-oda", self.ties, seed)
        if progress:
            progress(0.0, "stars")
        centre, topic, start, leaf = stars_by_topic(given, self.weight == "left")
        if progress:
            progress(0.6, "steps")
        centre = who[centre]
        left = np.repeat(centre.astype(np.int32), np.diff(start))
        args = {"client": centre, "topic": topic}
        return mesh_plan(self, observation, seed, WantedLinks(left, who[leaf].astype(np.int32), start, args))


@kernel
def stars_by_topic(given: Interests, only_left: bool) -> tuple[Ints, Ints, Ints, Ids]:
    """(centre, topic, start, leaf): who is the centre of which topic, in order, and its new links."""
    clients, topics = len(given.start) - 1, len(given.first) - 1
    subscribers = np.diff(given.first)
    left = subscribers > 0
    apart = np.empty(len(given.topic), dtype=np.int64)  # per interest: subscribers without a link to the client
    weight = np.zeros(clients, dtype=np.int64)
    for v in range(clients):
        for i in range(given.start[v], given.start[v + 1]):
            apart[i] = subscribers[given.topic[i]]
            weight[v] += apart[i]
    key = np.empty(clients)
    for v in range(clients):
        i = nearest(given, v, left, apart)
        key[v] = weight[v] / apart[i] if i >= 0 else -np.inf
    best, who, top = rank_all(key)
    centre, topic = np.empty(topics, dtype=np.int64), np.empty(topics, dtype=np.int64)
    start = np.zeros(topics + 1, dtype=np.int64)
    links, seen = no_links(clients, room_for_links(given)), np.full(clients, -1, dtype=np.int64)
    stars = 0
    while True:
        v = first_of(best, who, top)
        if v < 0:
            break
        t = given.topic[nearest(given, v, left, apart)]
        seen[v] = stars
        half = links.head[v]
        while half >= 0:
            seen[links.to[half]] = stars
            half = links.after[half]
        for m in range(given.first[t], given.first[t + 1]):
            u = given.member[m]
            if seen[u] != stars:
                add_link(links, v, u)
                link_topics(given, apart, v, u)
        left[t] = False
        for m in range(given.first[t], given.first[t + 1]):
            u = given.member[m]
            if only_left:
                weight[u] -= subscribers[t]
            i = nearest(given, u, left, apart)
            rank(key, best, who, top, u, weight[u] / apart[i] if i >= 0 else -np.inf)
        centre[stars], topic[stars], start[stars + 1] = v, t, links.many[0]
        stars += 1
    return centre[:stars], topic[:stars], start[: stars + 1], link_ends(links)[1]


@kernel
def nearest(given: Interests, v: int, left: Bools, apart: Ints) -> int:
    """Which interest of v in a topic that is left has the fewest subscribers without a link to v; -1: none."""
    found = -1
    for i in range(given.start[v], given.start[v + 1]):
        if left[given.topic[i]] and (found < 0 or apart[i] < apart[found]):
            found = i
    return found


@kernel
def link_topics(given: Interests, apart: Ints, v: int, u: int) -> None:
    """A new link: in every topic that they share, v and u have one fewer to go."""
    i, j = next_shared(given, v, u, given.start[v], given.start[u])
    while i < given.start[v + 1]:
        apart[i] -= 1
        apart[j] -= 1
        i, j = next_shared(given, v, u, i + 1, j + 1)


@dataclass(frozen=True)
class MmOda(MeshPlanner):
    """GM that keeps the maximum degree as low as it can at every link."""

    ties: Ties = option("lowest", "who is chosen among equals: the lowest ids, or random ones")
    paper: ClassVar[str] = "Onus, Richa 2009"
    REASONS: ClassVar[tuple[str, ...]] = LINK_REASONS

    def solve(self, observation: Observation, seed: int = 0, *, progress: Progress | None = None) -> Plan:
        """Maximum degree by maximum degree, a step for each link; then what the old mesh had beyond that goes."""
        given, who = interests_by_ties(observation, "mesh.mm-oda", self.ties, seed)
        state = merging(given)
        degree = np.zeros(observation.clients, dtype=np.int64)
        links, most, total = 0, 0, max(int(len(given.member) - (np.diff(given.first) > 0).sum()), 1)
        while True:
            u, v, adds = best_pair(state)
            if adds == 0:
                break
            links = merge(state, u, v, adds, links)
            degree[[u, v]] += 1
            most += 1
            links = merge_below(state, degree, most, links)
            if progress:
                progress(min(state.joined[:links].sum() / total, 1.0), f"links under a maximum degree of {most}")
        left, right = who[state.left[:links]].astype(np.int32), who[state.right[:links]].astype(np.int32)
        return link_plan(self, observation, seed, state._replace(left=left, right=right), links)


@kernel
def best_pair(state: Merging) -> tuple[int, int, int]:
    """(client, client, contribution) of the link that contributes most, the lowest ids of equals."""
    touched = np.empty(len(state.bound), dtype=np.int64)
    best_u, best_v, best = -1, -1, 0
    for u in range(len(state.bound)):
        if state.bound[u] <= best:
            continue
        n = contributions(state, u, touched, open_topics(state, u))
        reached = 0
        for k in range(n):
            v, adds = touched[k], state.counted[touched[k]]
            reached = max(reached, adds)
            if adds > best or (adds == best and u == best_u and v < best_v):
                best_u, best_v, best = u, v, adds
            state.counted[v] = 0
        state.bound[u] = reached
    return best_u, best_v, best


@kernel
def merge_below(state: Merging, degree: Ints, most: int, links: int) -> int:
    """Add links between clients of fewer than most links, the greatest contribution first, until none is left."""
    clients = len(degree)
    bound = state.bound.copy()  # of links to clients that are still free
    touched = np.empty(clients, dtype=np.int64)
    level = bound.max()
    while level > 0:
        below = 0  # the next level that is worth a pass
        for u in range(clients):
            if degree[u] >= most:
                continue
            if bound[u] >= level:
                links, bound[u] = merge_client(state, degree, most, level, u, touched, links)
            below = max(below, bound[u])
        level = below
    return links


@kernel
def merge_client(
    state: Merging, degree: Ints, most: int, level: int, u: int, touched: Ints, links: int
) -> tuple[int, int]:
    """(links, bound): add the links of a client that contribute the level; what its others can still do."""
    n = contributions(state, u, touched, open_topics(state, u))
    reached, found = 0, 0
    for k in range(n):
        v = touched[k]
        if degree[v] < most:
            if state.counted[v] >= level:
                touched[found] = v
                found += 1
            else:
                reached = max(reached, state.counted[v])
        state.counted[v] = 0
    for v in np.sort(touched[:found]):
        adds = contribution(state, u, v)
        if adds == level and degree[u] < most:
            links = merge(state, u, v, adds, links)
            degree[u] += 1
            degree[v] += 1
        else:
            reached = max(reached, min(adds, level - 1))
    return links, reached


@dataclass(frozen=True)
class RandomMesh(MeshPlanner):
    """Random links for each topic, as gossip draws them: a baseline."""

    degree: int = option(6, "links that a client dials for in each topic", least=1)
    REASONS: ClassVar[tuple[str, ...]] = ("{links} random links of {topic}", REMOVED)

    def solve(self, observation: Observation, seed: int = 0, *, progress: Progress | None = None) -> Plan:
        """Topic by topic; then what the old mesh had beyond that goes."""
        given = interests_of(observation, "mesh.random-mesh")
        if progress:
            progress(0.0, "links")
        one, other, start = ordered(*random_links(given, self.degree, seed))
        if progress:
            progress(0.7, "steps")
        return mesh_plan(
            self, observation, seed, WantedLinks(one, other, start, {"topic": np.arange(observation.topics)})
        )


@kernel
def random_links(given: Interests, degree: int, seed: int) -> tuple[Ids, Ids, Ints]:
    """(one end, the other, start): links topic by topic; a pair may come up in several topics."""
    topics = len(given.first) - 1
    room = 0
    for t in range(topics):
        size = given.first[t + 1] - given.first[t]
        room += size * min(degree, size) + size
    one, other = np.empty(room, dtype=np.int32), np.empty(room, dtype=np.int32)
    start = np.zeros(topics + 1, dtype=np.int64)
    state = mix(np.uint64(seed))
    for t in range(topics):
        own = given.member[given.first[t] : given.first[t + 1]].copy()
        n = len(own)
        for i in range(n - 1, 0, -1):  # in a random order
            state = mix(state)
            k = below(state, i + 1)
            own[i], own[k] = own[k], own[i]

        links, leader = no_links(n, n * min(degree, n) + n), np.arange(n)
        for i in range(n):
            tries = 0
            while links.degree[i] < min(degree, n - 1) and tries < 8 * degree:
                state = mix(state)
                tries += 1
                j = below(state, n)
                if j != i and not are_linked(links, i, j):
                    add_link(links, i, j)
                    join(leader, i, j)

        for i in range(1, n):  # parts that are left are joined to the first
            if find(leader, i) != find(leader, 0):
                state = mix(state)
                j = below(state, i)
                while find(leader, j) == find(leader, i):
                    j = (j + 1) % n
                add_link(links, i, j)
                join(leader, i, j)

        left, right = link_ends(links)
        start[t + 1] = start[t] + len(left)
        copy(own[left], one[start[t] :])
        copy(own[right], other[start[t] :])
    return one[: start[-1]], other[: start[-1]], start
