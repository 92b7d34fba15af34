"""The nouns: Overlay, Network, Observation, Plan, Metrics. Frozen, numpy only, arrays read-only.

An overlay is four relations, each a sorted array of integer pairs. A planner turns an observation into
a plan: an overlay before, an overlay after and the ordered steps between. Every field has a default,
so that an observation for one facet is one line:

    Observation(interests=[[0, 0], [0, 1], [1, 1]])
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, fields
from functools import cached_property
from types import MappingProxyType
from typing import Any, ClassVar, Literal, Protocol, cast, get_args, runtime_checkable

import numpy as np
from numpy.typing import ArrayLike, NDArray

from overlace.arrays.components import components, spanning_forest
from overlace.arrays.csr import sort_groups
from overlace.arrays.jit import Floats, Ints, Pairs
from overlace.arrays.masks import MOST_BITS
from overlace.arrays.pairs import difference, order_of, patch, positions, sort_pairs, undirected
from overlace.arrays.records import FloatColumn, IntColumn, Record, TextColumn, column, frozen
from overlace.arrays.trees import Rooted, root_at
from overlace.errors import BadObservation, BadOverlay, BadPlan

Facet = Literal["placement", "tree", "channels", "mesh"]
FACETS: tuple[Facet, ...] = get_args(Facet)

ENDS: Mapping[Facet, tuple[str, str]] = {
    "placement": ("client", "broker"),
    "tree": ("broker", "broker"),
    "channels": ("combination", "channel"),
    "mesh": ("client", "client"),
}
"""What the left and the right of each relation's pairs are."""

Names = Mapping[str, Sequence[str]]
"""Names by kind (client, broker, topic, attribute, region, channel), at the place of their id."""

Progress = Callable[[float, str], None]
"""Told the share that is done (0 to 1) and what is being done."""

UNLIMITED = np.iinfo(np.int64).max


def name_of(kind: str, number: int, names: Names | None = None) -> str:
    """The name of a thing, or its letter and id (c17, b5) where no name is known."""
    if kind == "combination":
        held = [bit for bit in range(MOST_BITS) if number >> bit & 1]
        return "+".join(name_of("attribute", bit, names) for bit in held)
    known = (names or {}).get(kind, ())
    if 0 <= number < len(known):
        return known[number]
    return f"{'ch' if kind == 'channel' else kind[0]}{number}"


# --- overlays and their differences ------------------------------------------------------------------


@dataclass(frozen=True, eq=False, repr=False)
class Changes(Record):
    """Rows of the difference of two overlays, in the order in which they are carried out."""

    facet: IntColumn = column(np.int8)  # index into FACETS
    action: IntColumn = column(np.int8)  # +1 add, -1 remove
    left: IntColumn = column(np.int64)
    right: IntColumn = column(np.int64)

    fault = BadPlan

    def __post_init__(self) -> None:
        super().__post_init__()
        self._lengths("facet", "action", "left", "right")
        known = (self.facet >= 0) & (self.facet < len(FACETS)) & (np.abs(self.action) == 1)
        if not known.all():
            raise BadPlan("Changes: an action is +1 or -1, a facet 0 to 3 (an index into FACETS)")
        turned = self.left > self.right
        if turned.any():  # links are kept with the lower end left
            turned &= (self.facet == FACETS.index("tree")) | (self.facet == FACETS.index("mesh"))
            left, right = np.where(turned, self.right, self.left), np.where(turned, self.left, self.right)
            self._put("left", left, np.int64)
            self._put("right", right, np.int64)

    def __len__(self) -> int:
        return len(self.left)

    @classmethod
    def of(cls, facet: Facet, action: int, pairs: ArrayLike) -> Changes:
        """The addition (+1) or removal (-1) of some pairs of one facet."""
        rows = np.asarray(pairs, dtype=np.int64).reshape(-1, 2)
        n = len(rows)
        return cls(np.full(n, FACETS.index(facet)), np.full(n, action), rows[:, 0], rows[:, 1])

    @classmethod
    def joined(cls, parts: Sequence[Changes]) -> Changes:
        """Several changes, one after the other."""
        if not parts:
            return cls()
        return cls(*(np.concatenate([getattr(p, f.name) for p in parts]) for f in fields(cls)))

    def pairs(self, facet: Facet, action: int) -> Pairs:
        """The pairs of one facet that are added (+1) or removed (-1), in order of the changes."""
        mine = (self.facet == FACETS.index(facet)) & (self.action == action)
        return np.column_stack([self.left[mine], self.right[mine]])

    def between(self, start: int, stop: int) -> Changes:
        """Rows start to stop."""
        return Changes(*(value[start:stop] for _, value in self._values()))

    def inverse(self) -> Changes:
        """What takes these changes back, last one first."""
        return Changes(self.facet[::-1], -self.action[::-1], self.left[::-1], self.right[::-1])

    def sorted(self) -> Changes:
        """The same rows by facet, removals first, then left and right."""
        order = np.lexsort((self.right, self.left, self.action, self.facet))
        return Changes(*(value[order] for _, value in self._values()))


@dataclass(frozen=True, eq=False, repr=False)
class Overlay(Record):
    """Who connects where, how brokers are wired, what goes in which channel, which peers are linked.

    Rows may be given in any order and links in either direction; they are kept sorted. An empty
    relation means that it is not there yet.
    """

    placement: IntColumn = column(np.int64, pairs=True)  # (client, broker)
    tree: IntColumn = column(np.int64, pairs=True)  # (broker, broker)
    channels: IntColumn = column(np.int64, pairs=True)  # (combination, channel)
    mesh: IntColumn = column(np.int64, pairs=True)  # (client, client)
    fault = BadOverlay

    def __post_init__(self) -> None:
        super().__post_init__()
        for facet in ("tree", "mesh"):
            links = undirected(getattr(self, facet))
            loops = links[links[:, 0] == links[:, 1]]
            if len(loops):
                end = name_of(ENDS[facet][0], int(loops[0, 0]))
                raise BadOverlay(f"{facet}: a link joins {end} with itself; a link needs two different ends")
            self._put(facet, links, np.int64, 2)

    def relation(self, facet: Facet) -> Pairs:
        """The pairs of one facet."""
        return cast(Pairs, getattr(self, facet))

    def changes_to(self, other: Overlay) -> Changes:
        """What must be removed and added to get from here to there."""
        parts = []
        for facet in FACETS:
            removed, added = difference(self.relation(facet), other.relation(facet))
            parts += [Changes.of(facet, -1, removed), Changes.of(facet, +1, added)]
        return Changes.joined(parts)

    def apply(self, changes: Changes) -> Overlay:
        """This overlay after the changes. Refused unless they fit: removed pairs there, added ones not."""
        after = {}
        for facet in FACETS:
            base = self.relation(facet)
            removed, added = (changes.pairs(facet, action) for action in (-1, +1))
            if len(removed) == 0 and len(added) == 0:
                after[facet] = base
                continue
            gone, new = sort_pairs(removed), sort_pairs(added)
            rows, missing, present = patch(base, gone, new)
            twice = len(removed) + len(added) - len(gone) - len(new)
            if missing or present or twice:
                raise BadPlan(
                    f"{facet}: the changes do not fit this overlay: {missing} removed pairs are not there, "
                    f"{present} added ones are there already, {twice} rows stand twice. "
                    "Was the plan made for another network, or has this one been changed since?"
                )
            after[facet] = rows
        return Overlay(**after)

    def homes(self, clients: int) -> Ints:
        """The broker of each client, -1 for a client that has none."""
        homes = np.full(clients, -1, dtype=np.int64)
        known = self.placement[(self.placement[:, 0] >= 0) & (self.placement[:, 0] < clients)]
        homes[known[:, 0]] = known[:, 1]
        return homes

    def rooted(self, brokers: int) -> Rooted:
        """The tree, rooted at broker 0. Refused, naming the links, unless it is one."""
        if brokers == 0:
            raise BadOverlay("tree: there are no brokers")
        check_tree(self.tree, brokers)
        return root_at(brokers, self.tree, 0)


def check_tree(links: Pairs, brokers: int, names: Names | None = None) -> None:
    """Refuse links that are not a tree over all brokers, naming what is wrong."""
    if len(links) and (links.min() < 0 or links.max() >= brokers):
        bad = links[(links < 0).any(axis=1) | (links >= brokers).any(axis=1)]
        raise BadOverlay(f"tree: {_listed(bad, names)} name brokers that do not exist; there are {brokers}")
    kept = spanning_forest(brokers, links, np.arange(len(links)))
    if not kept.all():
        raise BadOverlay(f"tree: {_listed(links[~kept], names)} close a cycle; a tree has none. Take them out.")
    apart = np.unique(components(brokers, links))
    if len(apart) > 1:
        parts = ", ".join(name_of("broker", int(b), names) for b in apart[:5])
        raise BadOverlay(
            f"tree: {len(links)} links leave {brokers} brokers in {len(apart)} parts (at {parts}"
            f"{', ...' if len(apart) > 5 else ''}); a tree joins them all. Add links between the parts."
        )


def _listed(links: Pairs, names: Names | None) -> str:
    shown = [f"{name_of('broker', int(a), names)}-{name_of('broker', int(b), names)}" for a, b in links[:5]]
    return f"links {', '.join(shown)}{', ...' if len(links) > 5 else ''}"


# --- what was observed -------------------------------------------------------------------------------


@dataclass(frozen=True, eq=False, repr=False)
class Network(Record):
    """Brokers and the links that could be wired, with their costs and limits."""

    region: IntColumn = column(np.int64)  # per broker; default: each its own; -1 is the backbone
    broker_cost: FloatColumn = column(np.float64)  # per broker and message; default 1
    capacity: FloatColumn = column(np.float64)  # messages handled per second; default unlimited
    max_degree: IntColumn = column(np.int64)  # links per broker; default unlimited
    links: IntColumn = column(np.int64, matrix=True)  # what could be wired; kept sorted, left < right
    link_cost: FloatColumn = column(np.float64)  # per link, in the trace's unit; default 1
    latency_us: IntColumn = column(np.int64)  # per link; default 0
    client_region: IntColumn = column(np.int64)  # per client, -1 unknown; empty: nobody's is known
    access_cost: FloatColumn = column(np.float64, matrix=True)  # (regions, brokers); empty: unknown
    access_latency_us: IntColumn = column(np.int64, matrix=True)  # (regions, brokers); empty: unknown

    def __post_init__(self) -> None:
        super().__post_init__()
        self._sort_links()
        per_broker: tuple[tuple[str, Any], ...] = (
            ("region", None), ("broker_cost", 1.0), ("capacity", np.inf), ("max_degree", UNLIMITED),
        )  # fmt: skip
        brokers = max(len(getattr(self, name)) for name, _ in per_broker)
        if brokers == 0 and len(self.links):
            brokers = int(self.links.max()) + 1
        for name, default in per_broker:
            self._fill(name, brokers, np.arange(brokers) if default is None else default)
        self._fill("link_cost", len(self.links), 1.0)
        self._fill("latency_us", len(self.links), 0)
        self._lengths("region", "broker_cost", "capacity", "max_degree")
        if len(self.links) and (self.links.min() < 0 or self.links.max() >= brokers):
            wrong = int(self.links.min() if self.links.min() < 0 else self.links.max())
            raise BadObservation(f"Network.links: a link names broker {wrong}; there are {brokers}")
        for name in ("broker_cost", "link_cost", "access_cost", "latency_us", "access_latency_us"):
            costs = getattr(self, name)
            fine = np.isfinite(costs) & (costs >= 0)
            if not fine.all():
                row = int(np.argwhere(~fine)[0, 0])
                raise BadObservation(f"Network.{name}: row {row} is {costs[row]}; costs are finite and 0 or more")
        for name in ("access_cost", "access_latency_us"):
            table = getattr(self, name)
            highest = self.client_region.max(initial=-1)
            if table.size and (table.shape[1] != brokers or highest >= len(table)):
                raise BadObservation(
                    f"Network.{name}: {table.shape[0]} regions x {table.shape[1]} brokers, but clients are in regions "
                    f"up to {highest} and there are {brokers} brokers"
                )
            if not table.size:
                self._put(name, np.empty((0, 0)), table.dtype.type, 2)

    def _fill(self, name: str, size: int, default: Any) -> None:
        if size and len(getattr(self, name)) == 0:
            dtype = getattr(self, name).dtype
            self._put(name, np.broadcast_to(np.asarray(default, dtype), (size,)), dtype.type)

    def _sort_links(self) -> None:
        """Links in order, left < right, their costs and latencies with them."""
        if self.links.size and self.links.shape[1] != 2:
            raise BadObservation(f"Network.links: expected rows of two brokers, found shape {self.links.shape}")
        links = np.sort(self.links.reshape(-1, 2), axis=1)
        for name in ("link_cost", "latency_us"):
            if len(getattr(self, name)) not in (0, len(links)):
                raise BadObservation(f"Network: {len(links)} links but {len(getattr(self, name))} {name}")
        order = order_of(links)
        self._put("links", links[order], np.int64, 2)
        for name in ("link_cost", "latency_us"):
            values = getattr(self, name)
            if len(values):
                self._put(name, values[order], values.dtype.type)
        again = np.flatnonzero((self.links[1:] == self.links[:-1]).all(axis=1))
        loops = np.flatnonzero(self.links[:, 0] == self.links[:, 1])
        if len(again) or len(loops):
            left, right = self.links[int(again[0] if len(again) else loops[0])]
            what = "stands twice" if len(again) else "joins a broker with itself"
            raise BadObservation(f"Network.links: link b{left}-b{right} {what}")

    @property
    def brokers(self) -> int:
        """How many brokers there are."""
        return len(self.region)

    def link_rows(self, links: Pairs) -> Ints:
        """The row of each link among those that could be wired; refused if one is not."""
        rows = positions(self.links, links)
        if (rows < 0).any():
            left, right = links[int(np.flatnonzero(rows < 0)[0])]
            raise BadOverlay(
                f"link b{left}-b{right} is not among the network's {len(self.links)} links, so its cost is "
                "unknown. Add it to the links table, or wire only links that stand there."
            )
        return rows

    def costs_of(self, links: Pairs) -> Floats:
        """The cost of each link; 1 each where the network names no links at all."""
        return self.link_cost[self.link_rows(links)] if len(self.links) else np.ones(len(links))


@dataclass(frozen=True, eq=False, repr=False)
class Flows(Record):
    """Who sent how much to whom (CC12's w_nk); directed."""

    sender: IntColumn = column(np.int64)
    receiver: IntColumn = column(np.int64)
    messages: IntColumn = column(np.int64)
    bytes: IntColumn = column(np.int64)

    def __post_init__(self) -> None:
        super().__post_init__()
        if len(self.bytes) == 0:
            self._put("bytes", np.zeros(len(self.sender)), np.int64)
        self._lengths("sender", "receiver", "messages", "bytes")
        _not_negative(self, "messages", "bytes")


@dataclass(frozen=True, eq=False, repr=False)
class Classes(Record):
    """Traffic classes (OCBR07's T and d): the clients a message joins, publisher included, and how often.

    Members are kept sorted, each once.
    """

    start: IntColumn = column(np.int64)  # members[start[k]:start[k + 1]] are class k's clients
    members: IntColumn = column(np.int64)
    demand: IntColumn = column(np.int64)
    bytes: IntColumn = column(np.int64)

    def __post_init__(self) -> None:
        super().__post_init__()
        if len(self.start) == 0:
            self._put("start", np.zeros(1), np.int64)
        if len(self.bytes) == 0:
            self._put("bytes", np.zeros(len(self.demand)), np.int64)
        self._lengths("demand", "bytes")
        if len(self.start) != len(self.demand) + 1:
            raise BadObservation(f"Classes: {len(self.start)} starts for {len(self.demand)} classes; expected one more")
        self._starts("start", len(self.members))
        _not_negative(self, "demand", "bytes")
        start, members = sort_groups(self.start, self.members)
        self._put("start", start, np.int64)
        self._put("members", members, np.int64)

    def __len__(self) -> int:
        return len(self.demand)

    @classmethod
    def of(cls, groups: Sequence[Sequence[int]], demand: ArrayLike | None = None) -> Classes:
        """Classes from lists of clients; demand 1 each by default."""
        start = np.cumsum([0, *(len(g) for g in groups)])
        members = np.asarray([c for g in groups for c in g], dtype=np.int64)
        return cls(start, members, np.ones(len(groups)) if demand is None else demand)


@dataclass(frozen=True, eq=False, repr=False)
class Offers(Record):
    """Advertisements (PART10's Psi_p) in order of arrival; a mask's non-empty sub-masks are offered."""

    publisher: IntColumn = column(np.int64)
    attributes: IntColumn = column(np.int64)
    connections: IntColumn = column(np.int64)  # how many channels it may join; default unlimited
    messages: IntColumn = column(np.int64)  # how often it publishes; default 1

    def __post_init__(self) -> None:
        super().__post_init__()
        n = len(self.publisher)
        for name, default in (("connections", UNLIMITED), ("messages", 1)):
            if len(getattr(self, name)) == 0:
                self._put(name, np.full(n, default), np.int64)
        self._lengths("publisher", "attributes", "connections", "messages")


@dataclass(frozen=True, eq=False, repr=False)
class Requests(Record):
    """Who subscribes to which combination. None known: one subscriber per offered combination."""

    client: IntColumn = column(np.int64)
    attributes: IntColumn = column(np.int64)

    def __post_init__(self) -> None:
        super().__post_init__()
        self._lengths("client", "attributes")


def regions_given(network: Network, names: Names) -> bool:
    """Whether somebody said in which regions brokers are: some region has a name, or more than one broker."""
    region = network.region
    return len(np.unique(region)) < len(region) or bool((region < len(names.get("region", ()))).any())


PARTS = 1_000
"""Amounts are whole numbers; those of an estimate of traffic to come are in such parts of a message."""


@dataclass(frozen=True, eq=False, repr=False)
class Observation(Record):
    """What a window of the log says: the overlay as it was, the network, and the traffic.

    clients, topics, sent and sent_bytes follow from the other fields unless they are given. `replace`
    gives them: with other flows, also pass clients=0 and sent=() to have them follow anew.
    """

    window: tuple[int, int] = (0, 0)  # UTC microseconds, half-open; (0, 0): no times
    overlay: Overlay = field(default_factory=Overlay)
    network: Network = field(default_factory=Network)
    flows: Flows = field(default_factory=Flows)
    classes: Classes = field(default_factory=Classes)
    interests: IntColumn = column(np.int64, pairs=True)  # (client, topic)
    offers: Offers = field(default_factory=Offers)
    requests: Requests = field(default_factory=Requests)
    clients: int = 0  # default: one more than the highest id named anywhere
    topics: int = 0
    sent: IntColumn = column(np.int64)  # messages per client; default: from flows, else from offers
    sent_bytes: IntColumn = column(np.int64)

    def __post_init__(self) -> None:
        super().__post_init__()
        self._put("window", (int(self.window[0]), int(self.window[1])))
        named = {
            "overlay.placement": self.overlay.placement[:, 0],
            "overlay.mesh": self.overlay.mesh,
            "flows.sender": self.flows.sender,
            "flows.receiver": self.flows.receiver,
            "classes.members": self.classes.members,
            "interests": self.interests[:, 0],
            "offers.publisher": self.offers.publisher,
            "requests.client": self.requests.client,
        }
        self._put("clients", self._count(self.clients, "clients", named))
        self._put("topics", self._count(self.topics, "topics", {"interests": self.interests[:, 1]}))
        source = self.flows if len(self.flows.sender) or not len(self.offers.publisher) else self.offers
        sender = source.sender if isinstance(source, Flows) else source.publisher
        weights = {"sent": source.messages, "sent_bytes": self.flows.bytes if source is self.flows else None}
        for name, weight in weights.items():
            if len(getattr(self, name)) == 0:
                sums = np.zeros(self.clients, dtype=np.int64)
                if weight is not None:
                    np.add.at(sums, sender, weight)
                self._put(name, sums, np.int64)
            elif len(getattr(self, name)) != self.clients:
                raise BadObservation(
                    f"Observation.{name}: {len(getattr(self, name))} values for {self.clients} clients"
                )

        if len(self.network.client_region) not in (0, self.clients):
            known = len(self.network.client_region)
            raise BadObservation(f"Network.client_region: {known} values for {self.clients} clients")

    def _count(self, given: int, kind: str, named: Mapping[str, Ints]) -> int:
        """The number of clients or topics: as given, if no id goes beyond it."""
        most = 0
        for where, ids in named.items():
            if ids.size:
                if ids.min() < 0:
                    raise BadObservation(f"Observation.{where}: id {ids.min()}; ids are 0 or more")
                if given and ids.max() >= given:
                    raise BadObservation(f"Observation.{where}: id {ids.max()}, but there are {given} {kind}")
                most = max(most, int(ids.max()) + 1)
        return int(given or most)


def _not_negative(record: Record, *names: str) -> None:
    for name in names:
        values = getattr(record, name)
        if values.size and values.min() < 0:
            raise BadObservation(f"{type(record).__name__}.{name}: {values.min()}; expected 0 or more")


# --- plans -------------------------------------------------------------------------------------------


@runtime_checkable
class Planner(Protocol):
    """A frozen dataclass whose fields are its parameters; see docs/adding-a-planner.md."""

    facets: ClassVar[tuple[Facet, ...]]
    REASONS: ClassVar[tuple[str, ...]]

    def solve(self, observation: Observation, seed: int = 0, *, progress: Progress | None = None) -> Plan:
        """A better overlay, with the steps that lead there."""

    def cost(self, observation: Observation, overlay: Overlay) -> float:
        """What the planner lowers: the facet's own cost unless it says otherwise."""


@dataclass(frozen=True, eq=False, repr=False)
class Steps(Record):
    """Ordered units of a plan, as columns: no Python object per change."""

    start: IntColumn = column(np.int64)  # changes[start[i]:start[i + 1]] are step i's
    gain: FloatColumn = column(np.float64)  # how much of the planner's cost the step saves
    reason: IntColumn = column(np.int64)  # index into the planner's REASONS; ~index for a step taken back
    args: Mapping[str, NDArray[Any]] = field(default_factory=dict)  # what the reasons' templates name

    def __post_init__(self) -> None:
        super().__post_init__()
        if len(self.start) == 0:
            self._put("start", np.zeros(1), np.int64)
        columns = {}
        for name, values in self.args.items():
            whole = np.issubdtype(np.asarray(values).dtype, np.integer)
            try:
                columns[name] = frozen(values, np.int64 if whole else np.float64)
            except ValueError as error:
                raise BadPlan(f"Steps.args[{name!r}]: {error}; names are shown for ids, not kept") from None
        self._put("args", MappingProxyType(columns))
        sizes = {len(self.start) - 1, len(self.gain), len(self.reason), *map(len, columns.values())}
        if len(sizes) > 1:
            raise BadPlan(f"Steps: columns of unequal length: {sorted(sizes)} steps")
        self._starts("start", int(self.start[-1]))

    fault = BadPlan

    def __len__(self) -> int:
        return len(self.gain)


@dataclass(frozen=True)
class Step:
    """One step of a plan, taken out of its columns."""

    gain: float
    changes: Changes
    reason: int
    args: Mapping[str, Any]


@dataclass(frozen=True, eq=False, repr=False)
class Plan(Record):
    """An overlay before, an overlay after, and the ordered steps between."""

    planner: Planner
    seed: int
    before: Overlay
    after: Overlay
    changes: Changes
    steps: Steps
    beside: Mapping[str, float] = field(default_factory=dict)  # cost that other ways reach within the same limits

    def __post_init__(self) -> None:
        if self.steps.start[-1] != len(self.changes):
            raise BadPlan(f"the steps end at change {self.steps.start[-1]} of {len(self.changes)}")

    def step(self, i: int) -> Step:
        """Step i, counted from 0."""
        if not 0 <= i < len(self.steps):
            raise BadPlan(f"no step {i}: the plan has {len(self.steps)}, counted from 0")
        changes = self.changes.between(int(self.steps.start[i]), int(self.steps.start[i + 1]))
        args = {name: values[i] for name, values in self.steps.args.items()}
        return Step(float(self.steps.gain[i]), changes, int(self.steps.reason[i]), args)

    def why(self, i: int, names: Names | None = None) -> str:
        """The reason for step i as a sentence, with names where they are known.

        An argument whose name ends in a kind (client, from_broker) is shown by the name of that id.
        """
        step = self.step(i)
        shown = {}
        for key, value in step.args.items():
            kind = key.rsplit("_", 1)[-1]
            named = kind in ("client", "broker", "topic", "region", "channel", "combination", "attribute")
            shown[key] = name_of(kind, int(value), names) if named else value
        if step.reason < 0:
            return "undo: " + self.planner.REASONS[~step.reason].format(**shown)
        return self.planner.REASONS[step.reason].format(**shown)

    @cached_property
    def gain(self) -> float:
        """What all steps save together."""
        return float(self.steps.gain.sum())

    def first(self, k: int) -> Plan:
        """The plan that stops after k steps."""
        if not 0 <= k <= len(self.steps):
            raise BadPlan(f"cannot keep {k} steps: the plan has {len(self.steps)}")
        changes = self.changes.between(0, int(self.steps.start[k]))
        args = {name: values[:k] for name, values in self.steps.args.items()}
        steps = Steps(self.steps.start[: k + 1], self.steps.gain[:k], self.steps.reason[:k], args)
        beside = self.beside if k == len(self.steps) else {}  # those had as many changes as the whole plan
        return Plan(self.planner, self.seed, self.before, self.before.apply(changes), changes, steps, beside)

    def inverse(self) -> Plan:
        """The plan that takes this one back, last step first."""
        args = {name: values[::-1] for name, values in self.steps.args.items()}
        start = len(self.changes) - self.steps.start[::-1]
        steps = Steps(start, -self.steps.gain[::-1], ~self.steps.reason[::-1], args)
        return Plan(self.planner, self.seed, self.after, self.before, self.changes.inverse(), steps, self.beside)


# --- metrics -----------------------------------------------------------------------------------------


@dataclass(frozen=True, eq=False, repr=False)
class Metrics(Record):
    """What a replay measured; every table and figure is a filter and a pivot of these columns."""

    metric: TextColumn = column(np.str_)
    scope: TextColumn = column(np.str_)  # overall, broker, link, region, ... , bin
    key: IntColumn = column(np.int64)
    other: IntColumn = column(np.int64)  # the second key of a pair; -1: none
    value: FloatColumn = column(np.float64)

    def __post_init__(self) -> None:
        super().__post_init__()
        if len(self.other) == 0:
            self._put("other", np.full(len(self.key), -1), np.int64)
        self._lengths("metric", "scope", "key", "other", "value")

    def of(self, metric: str, scope: str = "overall", key: int = 0, other: int = -1) -> float:
        """One value; KeyError if it was not measured."""
        mine = (self.metric == metric) & (self.scope == scope) & (self.key == key) & (self.other == other)
        rows = np.flatnonzero(mine)
        if len(rows) == 0:
            raise KeyError(f"{metric} ({scope} {key}) was not measured")
        return float(self.value[rows[0]])

    def get(self, metric: str, default: float = 0.0) -> float:
        """One value over all, or a default where it was not measured."""
        return self.of(metric) if metric in self else default

    def __contains__(self, metric: object) -> bool:
        return bool(((self.metric == metric) & (self.scope == "overall")).any())
