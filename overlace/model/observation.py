"""Observation: what a window of the log says, and the traffic it holds: Flows, Classes, Offers, Requests."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

import numpy as np
from numpy.typing import ArrayLike

from overlace.arrays.csr import sort_groups
from overlace.arrays.jit import Ints
from overlace.arrays.records import IntColumn, Record, column
from overlace.errors import BadObservation
from overlace.model.network import UNLIMITED, Network
from overlace.model.overlay import Overlay

PARTS = 1_000
"""Amounts are whole numbers; those of an estimate of traffic to come are in such parts of a message."""


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
