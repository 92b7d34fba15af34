"""At which broker messages were published, from what crossed each link.

Of every filter that lies behind a link, servers count the messages that crossed it. What a broker's clients published
to a filter is what went out less what came in: to its own subscriptions, or over a link that all of it takes.

Keeps: only filters that no other overlaps are looked at, since a message that several match is counted at one of them;
so are filters with either plain subscriptions or one queue group, not both.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from itertools import combinations

import numpy as np
from scipy.sparse import csr_matrix
from scipy.sparse.csgraph import connected_components

from overlace.arrays.jit import Floats
from overlace.live.ledger import Counted, Ledger, first_there
from overlace.matching.topics import match

WILD = ("*", ">")


def published_at(ledger: Ledger) -> dict[str, dict[str, Floats]]:
    """By filter and broker, what was published there in each tick; filters of which that is not known are left out."""
    if ledger.strange or not is_joined(ledger):
        return {}
    asked: dict[str, list[tuple[str, Counted]]] = defaultdict(list)
    for (key, _), counted in ledger.got.items():
        asked[counted.filter].append((key[0], counted))
    mixed = overlapping(sorted({*asked, *(wanted for crossed in ledger.crossed.values() for wanted, _ in crossed)}))
    found = {}
    for wanted, held in asked.items():
        groups = {counted.group for _, counted in held}
        if wanted not in mixed and len(groups) == 1:
            found[wanted] = _by_broker(wanted, groups.pop(), held, ledger)
    return found


def is_joined(ledger: Ledger) -> bool:
    """Whether all brokers are joined by links whose counters were seen at both ends."""
    place = {broker: i for i, broker in enumerate(ledger.brokers)}
    ends = [(place[a], place[b]) for a, b in ledger.crossed if (b, a) in ledger.crossed and {a, b} <= place.keys()]
    rows, columns = zip(*ends, strict=True) if ends else ((), ())
    graph = csr_matrix((np.ones(len(ends)), (rows, columns)), shape=(len(place), len(place)))
    return bool(connected_components(graph, directed=False, return_labels=False) <= 1)


def _by_broker(
    wanted: str, group: str | None, held: Sequence[tuple[str, Counted]], ledger: Ledger
) -> dict[str, Floats]:
    """What was published to one filter at each broker."""
    nothing = np.zeros(ledger.ticks)
    crossed = {ends: amounts[wanted, group] for ends, amounts in ledger.crossed.items() if (wanted, group) in amounts}
    found = {}
    for broker in ledger.brokers:
        here = [counted for at, counted in held if at == broker]
        out = {far: amount for (near, far), amount in crossed.items() if near == broker}
        came = {near: amount for (near, far), amount in crossed.items() if far == broker}
        if group is not None:
            amount = sum((each.amount for each in here), nothing) + sum(out.values(), nothing)
            found[broker] = amount - sum(came.values(), nothing)
        elif here:
            plain = sorted(here, key=lambda each: -each.amount.sum())
            found[broker] = first_there(plain, ledger.ticks) - sum(came.values(), nothing)
        elif out:
            far = max(sorted(out), key=lambda each: float(out[each].sum()))
            found[broker] = out[far] - sum((each for near, each in came.items() if near != far), nothing)
    return found


def overlapping(filters: Sequence[str]) -> set[str]:
    """The filters that share a subject with another."""
    found: set[str] = set()
    for one, other in match(filters, "nats", filters).tolist():
        if one != other:
            found |= {filters[one], filters[other]}
    wild = [each for each in filters if set(each.split(".")) & set(WILD)]
    for one_filter, other_filter in _candidates(wild):
        if overlap(one_filter, other_filter):
            found |= {one_filter, other_filter}
    return found


def _candidates(wild: Iterable[str]) -> Iterable[tuple[str, str]]:
    """Pairs of filters that begin alike, as far as their first two words tell."""
    groups: dict[tuple[str, ...], list[str]] = defaultdict(list)
    open_ended = []
    for each in wild:
        begin = tuple(each.split(".")[:2])
        if set(begin) & set(WILD):
            open_ended.append(each)
        else:
            groups[begin].append(each)
    for members in groups.values():
        yield from combinations(members, 2)
        for each in open_ended:
            yield from ((each, member) for member in members)
    yield from combinations(open_ended, 2)


def overlap(one: str, other: str) -> bool:
    """Whether some subject matches both filters."""
    ours, theirs = one.split("."), other.split(".")
    for a, b in zip(ours, theirs, strict=False):
        if ">" in (a, b):
            return True
        if a != b and "*" not in (a, b):
            return False
    return len(ours) == len(theirs)


def as_topics(found: Mapping[str, Mapping[str, Floats]], topics: Mapping[str, str]) -> dict[str, Mapping[str, Floats]]:
    """The same by topic, of filters that are alone in theirs."""
    count: dict[str, int] = defaultdict(int)
    for topic in topics.values():
        count[topic] += 1
    return {topics[wanted]: each for wanted, each in found.items() if count[topics[wanted]] == 1}
