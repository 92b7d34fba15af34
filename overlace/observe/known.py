"""What had come up by the end of a window, and the numbers that an observation gives it.

An observation knows of nothing that comes later, not even by a gap: what was known is numbered from 0 without gaps,
in the order of its names, so that numbers depend neither on what follows nor on the order in which files were
ingested (docs/decisions/ids-are-hashes.md). All else of the trace has the numbers after those. Where no
log gave the ids, their order stays; where nothing follows, in a window that ends with the traffic, so do ids.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import NamedTuple

import numpy as np

from overlace.arrays.csr import take_groups
from overlace.arrays.jit import Ints
from overlace.arrays.masks import MOST_BITS
from overlace.model import Names
from overlace.observe.tables import Columns, Window, at_end, at_some_time, before_end, bounds, columns
from overlace.observe.traffic import IN_PROCESS, Reader
from overlace.trace.store import Trace
from overlace.trace.traffic import Traffic

KINDS = ("client", "broker", "topic", "region", "attribute")
"""What an observation numbers anew."""


class IdMap(NamedTuple):
    """The numbers of a trace's ids in an observation, by kind."""

    place: Mapping[str, Ints]  # the number of each id: what was known first, then all else
    counts: Mapping[str, int]  # how many were known

    def number(self, kind: str, ids: Ints) -> Ints:
        """The numbers of some ids; those below 0 stand for none and stay."""
        place = self.place.get(kind, np.empty(0, np.int64))
        if not len(ids) or _rising(place):
            return ids
        inside = (ids >= 0) & (ids < len(place))
        return np.where(inside, place[np.where(inside, ids, 0)], ids)

    def ids(self, kind: str) -> Ints:
        """The trace's ids of what was known, in order of their numbers."""
        return np.argsort(self.place[kind])[: self.counts[kind]]

    def masks(self, masks: Ints) -> Ints:
        """Sets of attributes with every attribute by its number; none (below 0) stays."""
        place = self.place.get("attribute", np.empty(0, np.int64))
        if _rising(place) or not len(masks):
            return masks
        found = np.zeros(len(masks), dtype=np.int64)
        for bit, number in enumerate(place.tolist()):
            found |= (masks >> bit & 1) << number
        return np.where(masks >= 0, found, masks)

    def names(self, names: Names) -> dict[str, list[str]]:
        """The names of what was known, in order of their numbers; those of other kinds as they are."""
        found = {kind: list(each) for kind, each in names.items() if kind not in KINDS}
        for kind in KINDS:
            named = names.get(kind, ())
            found[kind] = [named[i] for i in self.ids(kind).tolist() if i < len(named)]
        return found


def _rising(place: Ints) -> bool:
    """Whether every id is its own number."""
    return bool((place == np.arange(len(place))).all())


def known_as(trace: Trace, names: Names) -> IdMap:
    """The numbers under which an observation has the trace's ids, by the names that it was written with."""
    place, count = {}, {}
    for kind in KINDS:
        number = {name: i for i, name in enumerate(names.get(kind, ()))}
        listed = trace.names.get(kind, ())
        later = iter(range(len(number), len(number) + len(listed)))
        place[kind] = np.array([number[n] if n in number else next(later) for n in listed], dtype=np.int64)
        count[kind] = len(number)
    return IdMap(place, count)


def known_in(trace: Trace, window: Window, logged: Traffic | None = None, reader: Reader = IN_PROCESS) -> IdMap:
    """What had come up in a trace by the end of a window; `logged` is all traffic up to there, if it has been read."""
    first, end = trace.span()
    last = bounds(window)[1] >= end
    logged = logged or reader.traffic(trace, None if last else (min(first, window[1]), window[1]))
    by_name = bool(trace.notes.get("sources"))
    place, count = {}, {}
    for kind, seen in _seen(trace, window, logged).items():
        names = trace.names.get(kind, ())
        size = max(len(names), int(seen.max(initial=-1)) + 1)
        known = _as_in_the_trace(kind, seen, names) if last else _without_gaps(kind, seen, names, by_name)
        order = np.append(known, np.setdiff1d(np.arange(size), known))
        place[kind], count[kind] = np.argsort(order), len(known)
    return IdMap(place, count)


def _as_in_the_trace(kind: str, seen: Ints, names: Sequence[str]) -> Ints:
    """In the order of ids what was seen, of brokers just that, else all up to the highest; of regions all there are."""
    highest = max(int(seen.max(initial=-1)), len(names) - 1 if kind == "region" else -1)
    return seen if kind == "broker" else np.arange(highest + 1)


def _without_gaps(kind: str, seen: Ints, names: Sequence[str], by_name: bool) -> Ints:
    """What was seen, in the order of names, the shorter first, or of ids; what has no name comes last, by id."""
    named = seen[seen < len(names)].tolist()
    if by_name:
        named.sort(key=lambda i: (len(names[i]), names[i]))
    others = seen[seen >= len(names)]
    if kind != "broker":  # without names, all up to the highest
        others = np.arange(len(names), int(others.max(initial=len(names) - 1)) + 1)
    return np.append(np.array(named, dtype=np.int64), others)


def _seen(trace: Trace, window: Window, traffic: Traffic) -> dict[str, Ints]:
    """The ids, by kind, of what the traffic named by the end of a window, and of what the tables say that was there."""
    receivers = take_groups(traffic.start, traffic.receivers, _distinct([traffic.audience]))[1]
    sessions, asked, offered = (
        before_end(columns(trace, table, f"client {also} since until"), window)
        for table, also in (
            ("sessions", "broker"),
            ("subscriptions", "topic attributes"),
            ("advertisements", "attributes"),
        )
    )
    peers = at_end(columns(trace, "peers", "left right since until"), window)
    clients = at_some_time(columns(trace, "clients", "client region since until"), window)
    held = at_end(columns(trace, "channels", "combination since until"), window)
    links = at_end(columns(trace, "links", "left right since until"), window)
    brokers = columns(trace, "brokers", "broker region since until")
    there = at_end(brokers, window)
    shown = _distinct([links["left"], links["right"], at_some_time(sessions, window)["broker"]])
    shown = shown[~np.isin(shown, _gone(brokers, window))]
    masks = (traffic.attributes, asked["attributes"], offered["attributes"], held["combination"])
    return {
        "client": _distinct(
            [traffic.client, receivers, peers["left"], peers["right"]]
            + [each["client"] for each in (sessions, asked, offered, clients)]
        ),
        "broker": _distinct([there["broker"], shown]),
        "topic": _distinct([traffic.topic, asked["topic"]]),
        "region": _distinct([there["region"], clients["region"]]),
        "attribute": _bits(masks),
    }


def _gone(brokers: Columns, window: Window) -> Ints:
    """Brokers that had left by the end of a window, as their table says."""
    return np.setdiff1d(before_end(brokers, window)["broker"], at_end(brokers, window)["broker"])


def _distinct(parts: Iterable[Ints]) -> Ints:
    """The ids in any of the arrays, those below 0 (none) left out."""
    given = [each[each >= 0] if each.min(initial=0) < 0 else each for each in parts]
    seen = np.zeros(max((int(each.max(initial=-1)) for each in given), default=-1) + 1, dtype=np.bool_)
    for each in given:
        seen[each] = True
    return np.flatnonzero(seen)


def _bits(masks: Iterable[Ints]) -> Ints:
    """The attributes in any of the sets."""
    every = 0
    for each in masks:
        every |= int(np.bitwise_or.reduce(each[each >= 0], initial=0))
    return np.array([bit for bit in range(MOST_BITS) if every >> bit & 1], dtype=np.int64)
