"""TDCD17's algorithms word by word, with sets and fractions: slow, and nothing like the kernels.

Interests are a dict of client to set of topics. Each returns the links in the order in which they are added,
as (centre, leaf) pairs or (low, high) pairs, star by star where there are stars.
"""

from fractions import Fraction
from itertools import combinations


def subscribers(interests):
    found = {}
    for client, topics in interests.items():
        for topic in topics:
            found.setdefault(topic, set()).add(client)
    return found


def neighbours(v, interests, left):
    return {u for u in interests if u != v and interests[u] & interests[v] & left}


def whole_stars(interests, key):
    """Stars around the client with the greatest key(client, topics left), until no topic is left."""
    left = set().union(*interests.values())
    stars = []
    while left:
        able = [v for v in interests if interests[v] & left]
        v = max(able, key=lambda u: (key(u, left), -u))
        stars.append((v, neighbours(v, interests, left)))
        left -= interests[v]
    return stars


def td_cd_oda(interests, size="start"):
    n = {t: len(members) for t, members in subscribers(interests).items()}

    def key(v, left):
        divisor = len(interests[v]) if size == "start" else len(interests[v] & left)
        return -Fraction(sum(n[t] for t in interests[v] & left), divisor)

    return whole_stars(interests, key)


def cd_oda(interests):
    return whole_stars(interests, lambda v, left: len(neighbours(v, interests, left)))


def cd_oda_1(interests):
    n = {t: len(members) for t, members in subscribers(interests).items()}
    return whole_stars(interests, lambda v, left: sum(n[t] for t in interests[v] & left))


def cd_oda_2(interests, itself=True):
    n = {t: len(members) for t, members in subscribers(interests).items()}

    def key(v, left):
        near = len(neighbours(v, interests, left))
        if not itself and near == 0:
            return 0
        return Fraction(sum(n[t] for t in interests[v] & left), near + itself)

    return whole_stars(interests, key)


def two_d_oda(interests, weight="left"):
    """[(centre, topic, leaves)]."""
    members = subscribers(interests)
    left, links, stars = set(members), set(), []
    while left:
        best = None
        for v in interests:
            counted = interests[v] & left if weight == "left" else interests[v]
            w = sum(len(members[t]) for t in counted)
            for t in interests[v] & left:
                apart = [u for u in members[t] if frozenset((u, v)) not in links]
                choice = (Fraction(w, len(apart)), -v, -t)
                if best is None or choice > best[0]:
                    best = (choice, v, t, [u for u in apart if u != v])
        _, v, t, leaves = best
        links |= {frozenset((v, u)) for u in leaves}
        stars.append((v, t, set(leaves)))
        left.discard(t)
    return stars


def topic_parts(interests, links):
    """Per topic the components of its subscribers, as a map of client to component."""
    parts = {}
    for topic, members in subscribers(interests).items():
        part = {v: v for v in members}
        for u, v in links:
            if u in part and v in part and part[u] != part[v]:
                old, new = part[v], part[u]
                part = {w: new if p == old else p for w, p in part.items()}
        parts[topic] = part
    return parts


def contribution(u, v, parts):
    return sum(u in part and v in part and part[u] != part[v] for part in parts.values())


def greedy_merge(interests):
    links = []
    while True:
        parts = topic_parts(interests, links)
        best = max(
            combinations(sorted(interests), 2), key=lambda p: (contribution(*p, parts), -p[0], -p[1]), default=()
        )
        if not best or contribution(*best, parts) == 0:
            return links
        links.append(best)


def mm_oda(interests):
    links = []
    degree = dict.fromkeys(interests, 0)
    while True:
        parts = topic_parts(interests, links)
        able = [p for p in combinations(sorted(interests), 2) if contribution(*p, parts)]
        if not able:
            return links
        most = max(degree.values())

        def choice(pair, most=most, parts=parts):
            raised = max(most, degree[pair[0]] + 1, degree[pair[1]] + 1)
            return (-raised, contribution(*pair, parts), -pair[0], -pair[1])

        best = max(able, key=choice)
        links.append(best)
        for v in best:
            degree[v] += 1
