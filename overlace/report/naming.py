"""What things and figures are called on the page, with their units."""

from __future__ import annotations

from dataclasses import dataclass, field
from functools import cached_property

import numpy as np

from overlace.model import Names, Network, name_of
from overlace.optimize.words import COSTS, LABELS, PER_MESSAGE, Units, label_of
from overlace.replay.definitions import METRICS

BACKBONE = -1


@dataclass(frozen=True)
class Naming:
    """Names of brokers, links, regions and metrics."""

    names: Names = field(default_factory=dict)
    network: Network = field(default_factory=Network)
    units: Units = PER_MESSAGE

    @property
    def cost_unit(self) -> str:
        """What traffic costs are counted in."""
        return self.units.cost

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
