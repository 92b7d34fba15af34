"""What things and figures are called on the page, with their units."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property

import numpy as np

from overlace.model import Names, Network, name_of
from overlace.replay.definitions import METRICS

BACKBONE = -1

PARTS = {"train": "in the training window", "held-out": "on held-out traffic"}
"""Where something was measured."""
COST_UNITS = {"message": "messages × cost of links", "gb": "GB × price of links", "ms": "messages × ms of links"}
"""What a traffic cost is, by what link costs are per."""
NO_COSTS = "links; no link has a cost: each counts 1"
"""What traffic is multiplied by where no link has a cost."""
COSTS = {"cost": "traffic cost", "access_cost": "cost of access", "total_cost": "traffic cost with access"}
LABELS: Mapping[str, str] = {
    **COSTS,
    "to_self": "messages to their own sender",
    "homeless": "deliveries without a home",
    "homeless_messages": "messages without a home",
    "crossings": "links crossed per message",
    "link_messages": "messages over links",
    "link_bytes": "bytes over links",
    "mean_hops": "links per delivery",
    "mean_broker_hops": "links between brokers per delivery",
    "mean_latency_us": "mean latency",
    "p50_latency_us": "latency, 50 %",
    "p95_latency_us": "latency, 95 %",
    "p99_latency_us": "latency, 99 %",
    "local_share": "deliveries at one broker",
    "region_local_share": "deliveries in one region",
    "crossing_messages": "messages over links between regions",
    "crossing_bytes": "bytes over links between regions",
    "cut_share_max": "worst failure of a broker",
    "max_broker_load": "busiest broker handles",
    "max_link_load": "busiest link carries",
    "received": "messages received",
    "false_positive_rate": "share of false positives",
    "mean_connections": "connections per publisher",
    "over_limit": "advertisements over their limit",
    "average_degree": "links per client",
    "max_degree": "most links of one client",
    "topic_connected": "all topics connected (1 or 0)",
    "components_too_many": "parts of topics too many",
    "flood_messages": "messages to flood a topic",
    "shared_topics": "topics shared per link",
}
"""Metrics in the words of the page; the others are called by their name."""
DISTANCES = {"cost": "cost of links", "messages": "links", "hops": "hops", "latency": "µs"}
"""What planners of placement and tree multiply their traffic by, by their objective."""


def label_of(metric: str) -> str:
    """A metric without its unit."""
    return LABELS.get(metric, metric.replace("_", " "))


def own_cost_unit(facets: Sequence[str], parameters: Mapping[str, object], priced: bool = True) -> str:
    """What a planner's own cost counts; `priced`: some link has a cost."""
    if "channels" in facets:
        return "messages received"
    if "mesh" in facets:
        return "links + clients × parts of topics too many"
    distance = parameters.get("objective") or parameters.get("distance") or ("cost" if "tree" in facets else "hops")
    counts = NO_COSTS if distance == "cost" and not priced else DISTANCES.get(str(distance), distance)
    return f"{parameters.get('weight', 'messages')} × {counts}"


@dataclass(frozen=True)
class Naming:
    """Names of brokers, links, regions and metrics."""

    names: Names = field(default_factory=dict)
    network: Network = field(default_factory=Network)
    unit: str = "message"  # what link costs are per
    priced: bool = True  # some link has a cost

    @property
    def cost_unit(self) -> str:
        """What traffic costs are counted in."""
        unit = COST_UNITS.get(self.unit, self.unit)
        return unit if self.priced else f"{unit.partition(' × ')[0]} × {NO_COSTS}"

    def metric(self, metric: str) -> str:
        """A metric; costs with their unit, other figures carry their own."""
        return f"{LABELS[metric]} ({self.cost_unit})" if metric in COSTS else label_of(metric)

    def definition(self, metric: str) -> str:
        """What a metric is, without regions where there are none."""
        clauses = METRICS[metric].definition.removesuffix(".").split("; ")
        return "; ".join(each for each in clauses if self.regions_given or "region" not in each) + "."

    def broker(self, broker: int) -> str:
        """A broker's name."""
        return name_of("broker", broker, self.names)

    def link(self, link: tuple[int, int]) -> tuple[str, ...]:
        """The names of both ends."""
        return self.broker(link[0]), self.broker(link[1])

    @cached_property
    def regions_given(self) -> bool:
        """Whether somebody said in which regions brokers are."""
        return self.network.regions_given(self.names)

    def region(self, region: int) -> str:
        """A region's name; that of its broker where each broker is its own."""
        if region == BACKBONE:
            return "backbone"
        named = self.names.get("region", ())
        if region < len(named) or (self.regions_given and not named):
            return name_of("region", region, self.names)
        alone = np.flatnonzero(self.network.region == region)
        return self.broker(int(alone[0])) if len(alone) else name_of("region", region)
