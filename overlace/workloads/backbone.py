"""Regions around a backbone: the overlays of CC12's experiments (§IV, Figures 4 and 8; reading R8).

A region is a star of brokers around its head, which is one of them. Each head hangs on a broker of the backbone;
those form a row (region -1) and hold no client. The paper draws 45 brokers besides the backbone: 8 regions of 3 to 8
(Figure 4) or 9 of 5 (Figure 8). Every link counts one hop and costs 1.
"""

from __future__ import annotations

from typing import Literal, NamedTuple

import numpy as np

from overlace.arrays.jit import Ints, Pairs
from overlace.errors import BadParameter
from overlace.model import Network

Start = Literal["balanced", "concentrated"]


class BackboneLayout(NamedTuple):
    """Brokers by region, the backbone last, and the links between them."""

    region: Ints  # per broker; -1 is the backbone
    tree: Pairs

    def network(self, latency_us: int = 0) -> Network:
        """The network that could be wired: just the tree."""
        links = self.tree
        return Network(region=self.region, links=links, latency_us=np.full(len(links), latency_us))


def layout(sizes: Ints) -> BackboneLayout:
    """Stars of the given sizes on a backbone with one broker a region."""
    regions = len(sizes)
    region = np.repeat(np.arange(regions), sizes)
    head = np.cumsum(sizes) - sizes
    spine = len(region) + np.arange(regions)
    leaf = np.setdiff1d(np.arange(len(region)), head)
    star = np.column_stack([head[region[leaf]], leaf])
    up = np.column_stack([head, spine])
    row = np.column_stack([spine[:-1], spine[1:]])
    return BackboneLayout(np.append(region, np.full(regions, -1)), np.concatenate([star, up, row]))


def sizes(regions: int, brokers: int, least: int, most: int, rng: np.random.Generator) -> Ints:
    """How many brokers each region has: uniform between least and most, then evened out to the total."""
    if not regions * least <= brokers <= regions * most:
        raise BadParameter(
            f"brokers is {brokers}; {regions} regions of {least} to {most} hold {regions * least} to {regions * most}"
        )
    drawn = rng.integers(least, most + 1, regions)
    while (short := brokers - int(drawn.sum())) != 0:
        step = 1 if short > 0 else -1
        can = np.flatnonzero(drawn < most if step > 0 else drawn > least)
        drawn[rng.permutation(can)[: abs(short)]] += step
    return drawn


def start_homes(region: Ints, clients: int, start: Start, share: float, rng: np.random.Generator) -> Ints:
    """The broker of each client: any at random, or (concentrated) any of the first regions, that share of them."""
    regions = int(region.max()) + 1
    held = regions if start == "balanced" else max(1, round(share * regions))
    may = np.flatnonzero((region >= 0) & (region < held))
    return may[rng.integers(0, len(may), clients)]
