"""At which broker messages were published, from what crossed each link.

Of every filter that lies behind a link, servers count the messages that crossed it. What a broker's clients published
to a filter is what went out less what came in: to its own subscriptions, or over a link that all of it takes.

Keeps: a message that several filters match is counted at one of them, so filters that overlap are a family and looked
at together, where one of them covers all the others; filters with plain subscriptions and a queue group are not.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Sequence
from itertools import combinations

import numpy as np
from scipy.sparse import csr_matrix
from scipy.sparse.csgraph import connected_components

from overlace.arrays.jit import Floats
from overlace.live.ledger import Counted, Ledger, covers, first_there
from overlace.matching.topics import match

WILD = ("*", ">")


def published_at(ledger: Ledger) -> dict[tuple[str, ...], dict[str, Floats]]:
    """By family of filters and broker, what was published there in each tick; of families of which that is known."""
    if ledger.strange or not is_joined(ledger):
        return {}
    asked: dict[str, list[tuple[str, Counted]]] = defaultdict(list)
    for (key, _), counted in ledger.got.items():
        asked[counted.filter].append((key[0], counted))
    every = sorted({*asked, *(wanted for crossed in ledger.crossed.values() for wanted, _ in crossed)})
    found = {}
    for family in families(every):
        widest = [each for each in family if all(covers(each, other) for other in family)]
        groups = {counted.group for each in family for _, counted in asked[each]}
        if widest and len(groups) == 1 and (len(family) == 1 or groups == {None}):
            found[family] = _by_broker(family, widest[0], groups.pop(), asked[widest[0]], ledger)
    return found


def is_joined(ledger: Ledger) -> bool:
    """Whether all brokers are joined by links whose counters were seen at both ends."""
    place = {broker: i for i, broker in enumerate(ledger.brokers)}
    ends = [(place[a], place[b]) for a, b in ledger.crossed if (b, a) in ledger.crossed and {a, b} <= place.keys()]
    rows, columns = zip(*ends, strict=True) if ends else ((), ())
    graph = csr_matrix((np.ones(len(ends)), (rows, columns)), shape=(len(place), len(place)))
    return bool(connected_components(graph, directed=False, return_labels=False) <= 1)


def _by_broker(
    family: Sequence[str],
    widest: str,
    group: str | None,
    held: Sequence[tuple[str, Counted]],
    ledger: Ledger,
) -> dict[str, Floats]:
    """What was published to one family at each broker, by what the widest filter received, and what crossed links."""
    nothing = np.zeros(ledger.ticks)
    crossed = {
        ends: sum((amounts.get((each, group), nothing) for each in family), nothing)
        for ends, amounts in ledger.crossed.items()
        if (widest, group) in amounts
    }
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


def families(filters: Sequence[str]) -> list[tuple[str, ...]]:
    """The filters by what they share subjects with, directly or by others."""
    place = {each: i for i, each in enumerate(filters)}
    pairs = [(one, other) for one, other in match(filters, "nats", filters).tolist() if one != other]
    wild = [each for each in filters if set(each.split(".")) & set(WILD)]
    pairs += [(place[one], place[other]) for one, other in _candidates(wild) if overlap(one, other)]
    rows, columns = zip(*pairs, strict=True) if pairs else ((), ())
    graph = csr_matrix((np.ones(len(pairs)), (rows, columns)), shape=(len(filters), len(filters)))
    members: dict[int, list[str]] = defaultdict(list)
    for each, label in zip(filters, connected_components(graph, directed=False)[1].tolist(), strict=True):
        members[label].append(each)
    return [tuple(each) for each in members.values()]


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
