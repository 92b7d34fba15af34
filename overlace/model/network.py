"""Network: brokers and the links that could be wired, with their costs and limits."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike

from overlace.arrays.jit import Bools, Floats, Ints, Pairs
from overlace.arrays.pairs import order_of, positions
from overlace.arrays.records import FloatColumn, IntColumn, Record, column
from overlace.errors import BadObservation, BadOverlay, NotObserved
from overlace.model.names import Names, name_of

UNLIMITED = np.iinfo(np.int64).max
NOT_MEASURED = -1
"""The latency of a link whose latency is not known: neither 0 nor any other."""


@dataclass(frozen=True, eq=False, repr=False)
class Network(Record):
    """Brokers and the links that could be wired, with their costs and limits."""

    region: IntColumn = column(np.int64)  # per broker; default: each its own; -1 is the backbone
    broker_cost: FloatColumn = column(np.float64)  # per broker and message; default 1
    capacity: FloatColumn = column(np.float64)  # messages handled per second; default unlimited
    max_degree: IntColumn = column(np.int64)  # links per broker; default unlimited
    links: IntColumn = column(np.int64, matrix=True)  # what could be wired; kept sorted, left < right
    link_cost: FloatColumn = column(np.float64)  # per link, in the trace's unit; default 1
    latency_us: IntColumn = column(np.int64)  # per link; -1: not measured; default 0
    client_region: IntColumn = column(np.int64)  # per client, -1 unknown; empty: nobody's is known
    access_cost: FloatColumn = column(np.float64, matrix=True)  # (regions, brokers); empty: unknown
    access_latency_us: IntColumn = column(np.int64, matrix=True)  # (regions, brokers); empty: unknown

    def __post_init__(self) -> None:
        super().__post_init__()
        self._sort_links()
        per_broker = ("region", "broker_cost", "capacity", "max_degree")
        brokers = max(len(getattr(self, name)) for name in per_broker)
        if brokers == 0 and len(self.links):
            brokers = int(self.links.max()) + 1
        self._fill("region", np.arange(brokers))
        self._fill("broker_cost", np.ones(brokers))
        self._fill("capacity", np.full(brokers, np.inf))
        self._fill("max_degree", np.full(brokers, UNLIMITED))
        self._fill("link_cost", np.ones(len(self.links)))
        self._fill("latency_us", np.zeros(len(self.links)))
        self._lengths(*per_broker)
        self._check(brokers)

    def _check(self, brokers: int) -> None:
        """Refuse links and costs that cannot be, and tables of access of another size."""
        if len(self.links) and (self.links.min() < 0 or self.links.max() >= brokers):
            wrong = int(self.links.min() if self.links.min() < 0 else self.links.max())
            raise BadObservation(f"Network.links: a link names broker {wrong}; there are {brokers}")
        for name in ("broker_cost", "link_cost", "access_cost", "latency_us", "access_latency_us"):
            costs = getattr(self, name)
            fine = np.isfinite(costs) & (costs >= (NOT_MEASURED if name == "latency_us" else 0))
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

    def _fill(self, name: str, default: ArrayLike) -> None:
        if len(getattr(self, name)) == 0:
            self._put(name, default, getattr(self, name).dtype.type)

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

    @property
    def measured(self) -> Bools:
        """Whether the latency of each link is known."""
        return np.asarray(self.latency_us != NOT_MEASURED, dtype=np.bool_)

    def latencies_of(self, links: Pairs) -> Ints:
        """The latency of each link, NOT_MEASURED where it is not known; 0 each where the network names no links."""
        return self.latency_us[self.link_rows(links)] if len(self.links) else np.zeros(len(links), dtype=np.int64)

    def unmeasured(self, wired: Pairs, names: Names | None = None) -> str:
        """Which of the wired links have no latency, as words; nothing where all have one."""
        unknown = wired[self.latencies_of(wired) == NOT_MEASURED]
        if not len(unknown):
            return ""
        first = "-".join(name_of("broker", b, names) for b in unknown[0].tolist())
        return f"the latency of {len(unknown):,} of {len(wired):,} wired links was not measured (first: {first})"

    def check_measured(self, wired: Pairs) -> None:
        """Refuse wired links whose latency is not known."""
        if why := self.unmeasured(wired):
            raise NotObserved(f"{why}. Ingest the table links with latency_us, or let something else count.")

    def regions_given(self, names: Names) -> bool:
        """Whether somebody said in which regions brokers are: some region has a name, or more than one broker."""
        named = self.region < len(names.get("region", ()))
        return len(np.unique(self.region)) < self.brokers or bool(named.any())
