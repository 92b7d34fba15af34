"""What it takes to route by content on a tree of brokers: routing tables and control messages (PART10 §2.1).

A broker's table has a row for every subscription of its own clients, and for every filter that a neighbour has sent
it: messages that match go there. How far filters are sent is the scheme:

- plain: every subscription over every link, away from its home.
- covering: over a link only what no other subscription from the same side covers; of equal ones that of the lowest
  number. A row that a wider filter from the same side has made needless is dropped.
- advertised: publishers' advertisements go over every link first, and a subscription crosses a link only if beyond it
  somebody advertises what intersects it. With covering, or without.
- flooding: no table and no control message; every message crosses every link.

Kept true: whatever the scheme, a message reaches exactly those who asked for it, and but for flooding it crosses the
links of the minimal subtree that joins them (`link_messages`): a filter that stands in for others is itself asked for
beyond the link. With advertisements that is so for what its publisher advertises; nothing else is counted. Rows do not
depend on the order of arrival. Control messages do: subscriptions come one after the other in order of their numbers,
and one crosses a link unless an earlier one from the same side covers it. One that leaves is taken back over the links
that it has rows beyond, and brings back those that only it covered there.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import NamedTuple

import numpy as np

from overlace.arrays.csr import group, take_groups
from overlace.arrays.jit import Bools, Ints
from overlace.arrays.trees import Rooted, root_at
from overlace.matching.content.covering import CoverIndex
from overlace.matching.content.filters import Filter, attributes_of, intersects
from overlace.metrics import Metrics
from overlace.model import Observation, Overlay
from overlace.replay.tally import Tally, share


@dataclass(frozen=True, eq=False)
class ContentRequests:
    """Who asked for which content, in order of arrival, and who advertises which. What covers what is found once."""

    client: Ints
    filters: Sequence[Filter]
    publisher: Ints = field(default_factory=lambda: np.empty(0, np.int64))
    advertised: Sequence[Filter] = ()

    @cached_property
    def covering(self) -> Covering:
        """Which subscriptions stand in for which."""
        return cover_pairs(self.filters)

    @cached_property
    def met(self) -> Bools:
        """(advertisement, subscription): which intersect."""
        return meets(self.advertised, self.filters)


class Covering(NamedTuple):
    """Pairs of subscriptions: which stands in for which."""

    wide: Ints  # instead of narrow, whatever the order of arrival: it covers it, and of equals it has the lower number
    narrow: Ints
    early: Ints  # when narrow arrives, this is there and covers it
    late: Ints


class Sides(NamedTuple):
    """The directed links of a tree, and what lies behind each."""

    to: Ints  # the broker that each leads to
    behind: Bools  # (links, brokers): which brokers lie on the side that it comes from


def forwarding(observation: Observation, overlay: Overlay, requests: ContentRequests, messages: int = 0) -> Metrics:
    """Rows of routing tables and control messages under each scheme; `messages` are those of senders with a home."""
    brokers, homes = observation.network.brokers, overlay.homes(observation.clients)
    sides = directed_links(root_at(brokers, overlay.tree, 0))
    home, source = (_homes(homes, each) for each in (requests.client, requests.publisher))
    tally = Tally()
    tally.overall("content_subscriptions", int((home >= 0).sum()))
    _add(tally, "", sides, home, requests.covering, np.ones((len(sides.to), len(home)), np.bool_))
    if (source >= 0).any():
        beyond = ~sides.behind[:, source] & (source >= 0)  # (links, advertisements)
        wanted = np.array([requests.met[each].any(axis=0) for each in beyond], np.bool_)
        _add(tally, "advertised_", sides, home, requests.covering, wanted.reshape(len(sides.to), len(home)))
        tally.overall("advertisement_messages", int((source >= 0).sum()) * (brokers - 1))
        tally.overall("advertisement_rows", int((source >= 0).sum()) * brokers)
    tally.overall("flooded_messages", messages * (brokers - 1))
    return tally.metrics()


def _homes(homes: Ints, client: Ints) -> Ints:
    """The homes of clients; -1 for none."""
    padded = np.append(homes, -1)
    return padded[np.where((client >= 0) & (client < len(homes)), client, len(homes))]


def _add(tally: Tally, scheme: str, sides: Sides, home: Ints, covering: Covering, wanted: Bools) -> None:
    """Measure forwarding without and with covering; `wanted` (links, subscriptions): what may cross at all."""
    rows = np.bincount(home[home >= 0], minlength=sides.behind.shape[1])
    covered_rows = rows.copy()
    sent = covered_sent = covered_left = 0
    for to, behind, may in zip(sides.to.tolist(), sides.behind, wanted, strict=True):
        there = behind[home] & may & (home >= 0)
        rows[to] += int(there.sum())
        sent += int(there.sum())
        first = there.copy()
        first[covering.late[there[covering.early]]] = False
        covered_sent += int(first.sum())
        above = np.bincount(covering.narrow[there[covering.wide]], minlength=len(home))
        roots = there & (above == 0)
        covered_rows[to] += int(roots.sum())
        alone = there[covering.wide] & there[covering.narrow] & (above[covering.narrow] == 1)
        covered_left += int(roots.sum()) + int(alone.sum())  # whoever only one covers comes back when that one leaves
    for name, held, control, leaving in (
        (scheme, rows, sent, sent),
        (f"{scheme}covering_", covered_rows, covered_sent, covered_left),
    ):
        tally.overall(f"{name}table_rows", int(held.sum()))
        tally.add(f"{name}table_rows", "broker", np.arange(len(held)), held)
        tally.overall(f"{name}subscription_messages", control)
        tally.overall(f"{name}unsubscription_messages", share(leaving, int((home >= 0).sum())))


def directed_links(tree: Rooted) -> Sides:
    """Each link of a rooted tree twice: up to the parent, with what hangs below behind it, and down again."""
    brokers = len(tree.parent)
    below = np.eye(brokers, dtype=np.bool_)  # below[v]: the brokers of the subtree of v
    for v in tree.order[::-1].tolist():
        if tree.parent[v] >= 0:
            below[tree.parent[v]] |= below[v]
    children = np.flatnonzero(tree.parent >= 0)
    to = np.concatenate([tree.parent[children], children])
    return Sides(to, np.concatenate([below[children], ~below[children]]).reshape(len(to), brokers))


def cover_pairs(filters: Sequence[Filter]) -> Covering:
    """Which subscriptions stand in for which."""
    place: dict[Filter, int] = {}
    kind = np.array([place.setdefault(each, len(place)) for each in filters], np.int64)
    wide, narrow = covering_pairs(list(place))
    both = set(zip(wide.tolist(), narrow.tolist(), strict=True))
    alike = np.array([(n, w) in both for w, n in zip(wide.tolist(), narrow.tolist(), strict=True)], np.bool_)

    # from filters, each once, to the subscriptions that have them
    start, order = group(kind, len(place))
    left_start, left = take_groups(start, order, wide)
    size = np.diff(start)[narrow]
    pair = np.repeat(np.repeat(np.arange(len(wide)), np.diff(left_start)), np.repeat(size, np.diff(left_start)))
    _, right = take_groups(start, order, np.repeat(narrow, np.diff(left_start)))
    left = np.repeat(left, np.repeat(size, np.diff(left_start)))
    other = left != right
    left, right, alike = left[other], right[other], alike[pair[other]]
    instead, before = ~alike | (left < right), left < right
    return Covering(left[instead], right[instead], left[before], right[before])


def covering_pairs(filters: Sequence[Filter]) -> tuple[Ints, Ints]:
    """(wide, narrow): all pairs of filters of which one covers the other; a filter with itself too."""
    index = CoverIndex(filters)
    above = [index.covers_of(each) for each in filters]
    sizes = np.array([len(each) for each in above], np.int64)
    return np.concatenate([np.empty(0, np.int64), *above]), np.repeat(np.arange(len(filters)), sizes)


def meets(advertised: Sequence[Filter], filters: Sequence[Filter]) -> Bools:
    """(advertisement, filter): whether some message is advertised by one and matched by the other.

    They are looked at attribute by attribute, so that what many have in common is looked at once.
    """
    offered = [_parts(each) for each in advertised]
    known: dict[tuple[str, Filter], Bools] = {}
    found = np.ones((len(advertised), len(filters)), dtype=np.bool_)
    for f, filter in enumerate(filters):
        for name, wanted in _parts(filter).items():
            if (name, wanted) not in known:
                each: dict[Filter, bool] = {}
                for own in {part.get(name, ()) for part in offered}:
                    each[own] = intersects(own, wanted)
                known[name, wanted] = np.array([each[part.get(name, ())] for part in offered], np.bool_)
            found[:, f] &= known[name, wanted]
    return found


def _parts(filter: Filter) -> dict[str, Filter]:
    """The constraints of a filter by their attribute."""
    return {name: tuple(each for each in filter if each.attribute == name) for name in attributes_of(filter)}
