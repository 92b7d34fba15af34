"""A dissemination tree for each channel, where a trace has latency bounds and delays (PART10 §3.2).

The channels are those of the plan, or today's. A message goes from its publisher to the root of the channel, which is
one of the publishers where one may send on messages, else a subscriber, and down the tree. A bound counts from the
publisher that is farthest from the root, so whoever meets it meets it for all of them. A client that is in several
channels shares its degree limit over them, by the messages that are published in each.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa
from scipy.sparse import csr_array
from scipy.sparse.csgraph import dijkstra

from overlace.arrays.jit import Floats, Ints, Pairs
from overlace.errors import BadParameter, BadTrace
from overlace.ingest.delays import read_delays
from overlace.model import Names, Observation, Progress, name_of
from overlace.observe.known import IdMap
from overlace.observe.tables import STILL, Window, at_end, at_some_time, columns, pick
from overlace.optimize.task import Task
from overlace.planners.dissemination.comparison import ARRANGED, compare
from overlace.planners.dissemination.problem import (
    TINY,
    TreeProblem,
    count_children,
    find_arrivals,
    is_met,
    make_problem,
)
from overlace.planners.dissemination.sharing import share_degrees
from overlace.trace.store import Trace
from overlace.trace.tables import RUN
from overlace.wording import counted

TREES = "trees per channel"


class Trees(NamedTuple):
    """A tree for each channel, and what it is worth."""

    rows: pa.Table  # who hangs where
    document: dict[str, Any]  # in figures, each kind of tree over all channels, ours first
    notes: list[str]


def arrange_trees(task: Task, channels: Pairs, progress: Progress | None = None) -> Trees | str:
    """A tree for each channel; or why there is none."""
    asked = bounds_of(task.trace, task.cut.train, task.known)
    if not asked.given:
        return "no subscription has a latency bound: ingest subscriptions with attributes and bound_ms"
    delays, notes = delays_of_links(task.observation), list[str]()
    if task.goal.delays is not None:
        delays, notes = read_client_delays(task.goal.delays, task.names)
    if delays is None:
        return "delays between clients are not known: ingest sessions, and links with latency_us; or give --delays FILE"
    peers, left_out = peers_of(task.observation, channels, asked, delays)
    notes += _notes(left_out)
    problems, kept = [], []
    for each, degree in zip(peers, _shared_degrees(peers, asked) if peers else (), strict=True):
        try:
            problems.append(make_problem(each.delay, each.bound, degree))
            kept.append(each)
        except BadParameter as error:
            notes.append(f"{name_of('channel', each.channel, task.names)} has no tree: {error}")
    if not problems:
        return "; ".join(notes) or "no channel has a subscriber beside its publisher"
    report_progress, compared = progress or (lambda share, what: None), []
    for i, problem in enumerate(problems):
        report_progress(i / len(problems), f"channel {i + 1:,} of {len(problems):,}")
        compared.append(compare(problem, task.goal.seed))
    trees = {label: [each.trees[label] for each in compared] for label in compared[0].trees}
    bounds = sum(int(np.isfinite(each.bound).sum()) for each in problems)
    most = sum(each.ceiling.most + root_met(p) for each, p in zip(compared, problems, strict=True))
    kinds = [_measure(label, kept, problems, made, bounds) for label, made in trees.items()]
    at_most = _share(most, bounds)  # proven: no trees within these limits meet more
    document = {
        "channels": len(kept),
        "subscribers": sum(len(each.client) - 1 for each in kept),
        "bounds": bounds,
        "share_met": kinds[0]["share_met"],
        "share_met_at_most": at_most,
        "kinds": kinds,
        "lines": dict(_lines(kinds, bounds, at_most)),
        "notes": notes,
    }
    return Trees(_rows(kept, problems, trees[ARRANGED], task.names), document, notes)


def _share(met: int, bounds: int) -> float:
    return met / bounds if bounds else 1.0


def _lines(kinds: Sequence[dict[str, Any]], bounds: int, at_most: float) -> Iterator[tuple[str, str]]:
    """Trees in a few lines."""
    ours, *rivals = kinds
    yield (
        "latency bounds met",
        f"{ours['share_met']:.1%} of {bounds:,}; no trees within the degree limits meet more than {at_most:.1%}",
    )
    yield "delay", f"mean {ours['mean_ms']:.4g} ms, 95th percentile {ours['p95_ms']:.4g} ms"
    broken = counted(ours["over_degree"], "limit", "limits")
    yield "children of a client", f"{ours['max_degree']:,} at most, {broken} broken"
    for each in rivals:
        broken = f"; breaks {counted(each['over_degree'], 'limit', 'limits')}" if each["over_degree"] else ""
        yield each["label"], f"{each['share_met']:.1%} met, mean {each['mean_ms']:.4g} ms{broken}"


def root_met(problem: TreeProblem) -> int:
    """Whether the root has a bound of its own and messages reach it in time; a problem counts only those below it."""
    return int(-TINY <= problem.bound[problem.root] < np.inf)


def _shared_degrees(peers: Sequence[ChannelPeers], asked: Bounds) -> list[Ints]:
    """The degree limit of every peer in each channel, its own shared over the channels that it is in.

    Where the root is the only one who has asked, it sends to nobody.
    """
    several = [each for each in peers if len(each.client) > 1]
    shared = iter(_split_degrees(several, asked) if several else ())
    return [next(shared) if len(each.client) > 1 else np.zeros(1, dtype=np.int64) for each in peers]


def _split_degrees(peers: Sequence[ChannelPeers], asked: Bounds) -> list[Ints]:
    """The same for channels of several."""
    size = np.array([len(each.client) for each in peers])
    start, client = np.append(0, np.cumsum(size)), np.concatenate([each.client for each in peers])
    rate, root = np.array([each.messages for each in peers]), client[start[:-1]]
    shared = share_degrees(np.minimum(asked.degree, len(client)), (start, client), rate, root)
    unlimited = asked.degree[client] >= len(client)
    return np.split(np.where(unlimited, np.repeat(size, size), shared), start[1:-1])


def _measure(
    label: str, peers: Sequence[ChannelPeers], problems: Sequence[TreeProblem], trees: Sequence[Ints], bounds: int
) -> dict[str, Any]:
    """Trees of one kind over all channels, in figures; delays are those from the publisher farthest away."""
    arrivals = [find_arrivals(problem, tree) for problem, tree in zip(problems, trees, strict=True)]
    delays = np.concatenate([each[1:] + peer.entry for each, peer in zip(arrivals, peers, strict=True)])
    children = [count_children(tree) for tree in trees]
    met = sum(int((is_met(p, at) & np.isfinite(p.bound)).sum()) for p, at in zip(problems, arrivals, strict=True))
    return {
        "label": label,
        "met": met,
        "mean_ms": float(delays.mean()) if len(delays) else 0.0,
        "p95_ms": float(np.quantile(delays, 0.95)) if len(delays) else 0.0,
        "max_degree": max(int(each.max()) for each in children),
        "over_degree": sum(int((each > p.degree).sum()) for each, p in zip(children, problems, strict=True)),
        "share_met": _share(met, bounds),
    }


def _rows(
    peers: Sequence[ChannelPeers], problems: Sequence[TreeProblem], trees: Sequence[Ints], names: Names
) -> pa.Table:
    """Who hangs where, channel by channel; the root has no parent."""
    found: dict[str, list[Any]] = {name: [] for name in RUN["trees"].names}
    for peer, problem, tree in zip(peers, problems, trees, strict=True):
        arrival = find_arrivals(problem, tree)
        bound = (peer.bound + peer.entry).tolist()
        bounded = np.isfinite(problem.bound)
        found["channel"] += [peer.channel] * len(tree)
        called = [name_of("client", each, names) for each in peer.client.tolist()]
        found["client"] += called
        found["parent"] += [None, *(called[up] for up in tree.tolist()[1:])]
        found["delay_ms"] += (arrival + peer.entry).tolist()
        found["bound_ms"] += [each if there else None for each, there in zip(bound, bounded.tolist(), strict=True)]
        met = is_met(problem, arrival).tolist()
        found["met"] += [each if there else None for each, there in zip(met, bounded.tolist(), strict=True)]
    return pa.table(found, schema=RUN["trees"])


def _notes(left_out: LeftOut) -> Sequence[str]:
    """Who has no tree, and why."""
    why = {
        "unpublished": "nobody publishes what they ask for",
        "unknown": "their delays, or those of all their publishers, are not known",
        "unserved": "nobody there may send on messages (max_degree)",
        "large": f"their channels have more than {MOST_PEERS:,}",
    }
    found = [
        f"{counted(many, 'subscriber is', 'subscribers are')} in no tree: {text}"
        for name, text in why.items()
        if (many := getattr(left_out, name))
    ]
    if left_out.publishers:
        many = counted(left_out.publishers, "publisher's delay is", "publishers' delays are")
        found.append(f"{many} not known: bounds are not judged for their messages")
    return found


# --- channels as peers with delays, bounds and degree limits ------------------------------------------------------


MOST_PEERS = 3000
"""Of one channel: their delays take 72 MB."""


class PlaceDelays(NamedTuple):
    """Milliseconds between clients: between the places where they are, and to those places."""

    place: Ints  # of each client, a row of `between`; -1: not known
    between: Floats
    access: Floats  # of each client, ms to its place

    def ways(self, senders: Ints, receivers: Ints) -> Floats:
        """Delays from each sender to each receiver; inf where no way is known."""
        here, there = self.place[senders], self.place[receivers]
        found = self.between[np.ix_(here, there)] + self.access[senders, None] + self.access[receivers]
        found[here < 0, :] = np.inf
        found[:, there < 0] = np.inf
        found[senders[:, None] == receivers] = 0.0
        return found


def delays_of_links(observation: Observation) -> PlaceDelays | None:
    """Delays over the links between clients' homes, each pair by its shortest way; None if no latency was measured."""
    network, homes = observation.network, observation.overlay.placement
    known = network.latency_us >= 0
    if network.brokers == 0 or not len(homes) or not (known.any() or network.brokers == 1):
        return None
    ends = network.links[known]
    way = network.latency_us[known] / 1000.0  # one of 0 stays a link: sparse graphs keep what is given
    graph = csr_array((way, (ends[:, 0], ends[:, 1])), shape=(network.brokers, network.brokers))
    between = dijkstra(graph, directed=False)
    place = np.full(observation.clients, -1)
    place[homes[:, 0]] = homes[:, 1]
    access = np.zeros(observation.clients)
    if network.access_latency_us.size and network.client_region.size:
        there = (place >= 0) & (network.client_region >= 0)
        access[there] = network.access_latency_us[network.client_region[there], place[there]] / 1000.0
    return PlaceDelays(place, between, access)


def read_client_delays(path: str, names: Names) -> tuple[PlaceDelays, list[str]]:
    """(delays, notes): those of a file, for the clients that it names."""
    read = read_delays(path)
    row = {name: i for i, name in enumerate(read.clients)}
    place = np.array([row.get(name, -1) for name in names.get("client", ())], dtype=np.int64)
    if not (place >= 0).any():
        raise BadTrace(
            f"{path}: names no client of the trace, but {', '.join(read.clients[:3])}. Expected names as "
            f"{', '.join(names.get('client', ())[:3])}."
        )
    return PlaceDelays(place, read.delay, np.zeros(len(place))), [f"{path}: {note}" for note in read.notes]


class ChannelPeers(NamedTuple):
    """A channel as a problem: the root first, then its subscribers."""

    channel: int
    client: Ints
    delay: Floats  # ms, from row to column
    bound: Floats  # ms from the root; inf: none. The root's own is what is left when messages reach it
    entry: float  # ms to the root, from the publisher farthest away
    messages: float  # that are published in it


class LeftOut(NamedTuple):
    """Subscribers without a tree, by why."""

    unpublished: int = 0  # nobody publishes what they ask for
    unknown: int = 0  # their delays are not known, or those of all publishers
    unserved: int = 0  # nobody is left who could be a root
    large: int = 0  # in channels of more than MOST_PEERS
    publishers: int = 0  # no subscribers: publishers whose delay to a root is not known, counted in each channel


def peers_of(
    observation: Observation, channels: Pairs, asked: Bounds, delays: PlaceDelays
) -> tuple[list[ChannelPeers], LeftOut]:
    """(channels with subscribers, whom they leave out)."""
    found, lost = [], dict.fromkeys(LeftOut._fields, 0)
    leads = asked.degree.copy()  # a root has a child at least, in every channel that it leads
    for channel, held, members, bound in sorted(_subscribers(channels, asked), key=lambda each: -len(each[2])):
        every, messages = _publishers(observation, held)
        publisher, reached = every[delays.place[every] >= 0], members[delays.place[members] >= 0]
        could = publisher[leads[publisher] > 0]
        could = could if len(could) else reached[leads[reached] > 0] if len(reached) > 1 else reached
        near = could[np.isfinite(delays.ways(publisher, could)).any(axis=0)]  # some publisher reaches them
        why = _why_no_tree(every, reached, (could, near), members)
        if why:
            lost[why] += len(members)
            continue
        asks = bound[delays.place[members] >= 0]
        entries = delays.ways(publisher, near)
        root, entry = _best_root(near, entries, asks, delays.ways(near, reached))
        client = np.append(root, reached[reached != root])
        delay = delays.ways(client, client)
        there = np.isfinite(delay[0])
        lost["unknown"] += len(members) - int(np.isin(members, client[there]).sum())
        client, delay = client[there], delay[np.ix_(there, there)]
        limit = np.append(bound[members == root], np.inf)[:1]
        limit = np.append(limit, bound[np.searchsorted(members, client[1:])]) - entry
        if len(client) > 1 or root in members:
            leads[root] -= len(client) > 1
            lost["publishers"] += len(every) - int(np.isfinite(entries[:, near == root]).sum())
            found.append(ChannelPeers(channel, client, delay, limit, entry, messages))
    return sorted(found, key=lambda each: each.channel), LeftOut(**lost)


def _why_no_tree(publishers: Ints, reached: Ints, roots: tuple[Ints, Ints], members: Ints) -> str:
    """Why a channel has none, as a field of LeftOut; empty where it has one. Roots: who may be one, who is reached."""
    could, near = roots
    if not len(publishers):
        return "unpublished"
    if not len(reached) or (len(could) and not len(near)):
        return "unknown"
    if not len(could):
        return "unserved"
    return "large" if len(members) > MOST_PEERS else ""


def _subscribers(channels: Pairs, asked: Bounds) -> Iterator[tuple[int, Ints, Ints, Floats]]:
    """(channel, its combinations, subscribers, the tightest bound of each); what is in no channel shares one, -1."""
    at = np.searchsorted(channels[:, 0], asked.attributes)
    held = at < len(channels)
    held[held] = channels[at[held], 0] == asked.attributes[held]
    channel = np.full(len(asked.client), -1)
    channel[held] = channels[at[held], 1]
    for each in np.unique(channel).tolist():
        mine = channel == each
        members, at = np.unique(asked.client[mine], return_inverse=True)
        bound = np.full(len(members), np.inf)
        np.minimum.at(bound, at, asked.bound_ms[mine])
        combinations = channels[channels[:, 1] == each, 0] if each >= 0 else np.unique(asked.attributes[mine])
        yield each, combinations, members, bound


def _publishers(observation: Observation, combinations: Ints) -> tuple[Ints, float]:
    """(publishers that offer one of the combinations, messages that they publish)."""
    offers = observation.offers
    offered = np.zeros(len(offers.publisher), dtype=np.bool_)
    for each in combinations.tolist():
        offered |= (offers.attributes & each) == each
    return np.unique(offers.publisher[offered]), float(offers.messages[offered].sum())


def _best_root(could: Ints, entries: Floats, bound: Floats, direct: Floats) -> tuple[int, float]:
    """(the client from which most bounds could be met, ms to it from the farthest publisher that reaches it)."""
    entry = entries.max(axis=0, where=np.isfinite(entries), initial=0.0)
    arrival = direct + entry[:, None]
    late = (arrival > bound).sum(axis=1)
    total = np.where(np.isfinite(arrival), arrival, 0.0).sum(axis=1)
    best = int(np.lexsort((could, total, late))[0])
    return int(could[best]), float(entry[best])


class Bounds(NamedTuple):
    """Who asks for which combination within what time, and how many others each client can serve."""

    client: Ints  # one row a subscription with a combination
    attributes: Ints
    bound_ms: Floats  # inf: none
    degree: Ints  # per client: the most links on which it sends; a very high number where nothing is said

    @property
    def given(self) -> bool:
        """Whether some subscription has a bound."""
        return bool(np.isfinite(self.bound_ms).any())


def bounds_of(trace: Trace, window: Window, known: IdMap) -> Bounds:
    """The bounds that hold at the end of a window; a client that the log has not shown by then is left out."""
    rows = at_end(columns(trace, "subscriptions", "client attributes bound_ms since until"), window)
    client, attributes = known.number("client", rows["client"]), known.masks(rows["attributes"])
    asked = (attributes > 0) & (client < known.counts["client"])
    found = np.column_stack([client[asked], attributes[asked]])
    order = np.lexsort((found[:, 1], found[:, 0]))
    return Bounds(found[order, 0], found[order, 1], rows["bound_ms"][asked][order], _degrees(trace, window, known))


def _degrees(trace: Trace, window: Window, known: IdMap) -> Ints:
    rows = at_some_time(columns(trace, "clients", "client max_degree since until"), window)
    rows = pick(rows, np.argsort(rows["since"], kind="stable"))  # the last is what holds
    degree = np.full(known.counts["client"], STILL)
    client = known.number("client", rows["client"])
    said = (rows["max_degree"] >= 0) & (client < len(degree))
    degree[client[said]] = rows["max_degree"][said]
    return degree
