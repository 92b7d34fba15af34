"""The experiments behind CC12's tables and figures: a client network on an overlay, placed in four ways, measured.

Network sizes are the paper's where it prints them (about 200 services, 45 brokers besides the backbone, 8 regions of 3
to 8 or 9 of 5). What it leaves open (k, m, p, subscriptions of a random client) is set once so that the modularity is
the printed one; nothing is set by the results. 20,000 messages.

Latencies come from the event simulation. The paper prints neither rates nor service times: ours are one setting for
all networks (20 ms service, exponential; 5 ms a link; messages as often as loads the busiest broker at the start to
80 %).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import lru_cache
from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa

from overlace.arrays.csr import take_groups
from overlace.arrays.jit import Floats
from overlace.metrics import Metrics
from overlace.model import Observation, Overlay
from overlace.planners.placement.baselines import Interest
from overlace.planners.placement.community import Community
from overlace.replay.routing import routing
from overlace.report.charts import Row
from overlace.trace.traffic import TRAFFIC
from overlace.workloads.composition import Composition
from overlace.workloads.random_clients import RandomClients
from overlace.workloads.services import Services
from overlace.workloads.small_world import SmallWorld
from reproductions.cc12.simulate import Arrivals, Delays, simulate
from reproductions.result import FrozenPlanner, Spread

NETWORKS: Mapping[str, type[Services]] = {"scale-free": Composition, "random": RandomClients, "small-world": SmallWorld}
EQUAL: Mapping[str, Any] = {"regions": 9, "least": 5, "most": 5}
SERVICE_US, LINK_US, BUSY = 20_000.0, 5_000, 0.8
SEEDS = 8


class Placed(NamedTuple):
    """One placement of one instance."""

    hops: Floats  # share of deliveries by hops, from 0
    mean_hops: float
    moves: int  # across regions
    backbone: float  # messages handled by a broker of the backbone, on the mean
    latency: Floats  # seconds, of each delivery
    overlay: Overlay


@lru_cache(maxsize=64)
def instance(network: str, seed: int, equal: bool = False) -> Services:
    """A client network on the random overlay, or on equal regions."""
    return NETWORKS[network](seed=seed, **(EQUAL if equal else {}))


@lru_cache(maxsize=64)
def observed(network: str, seed: int, equal: bool = False) -> Observation:
    """What its log says."""
    return instance(network, seed, equal).observation()


def measured(network: str, seed: int, planner: FrozenPlanner | None, equal: bool = False) -> Placed:
    """The instance as a planner places it; None is the start. Measured once."""
    return _measured(network, seed, planner, equal)


@lru_cache(maxsize=256)
def _measured(network: str, seed: int, planner: FrozenPlanner | None, equal: bool) -> Placed:
    observation = observed(network, seed, equal)
    overlay = planner.solve(observation, seed).after if planner else observation.overlay
    return measure(instance(network, seed, equal), observation, overlay)


PLACEMENTS: Mapping[str, FrozenPlanner | None] = {"start": None, "interest": Interest(), "community": Community()}
"""The placements that the paper compares."""


def measure(workload: Services, observation: Observation, overlay: Overlay) -> Placed:
    """Hops, moves, loads and latencies of a placement."""
    route = routing(observation, overlay)
    metrics = route.finish(route.partial([traffic(workload)]))
    hops = bins(metrics, "hops")
    region = observation.network.region
    old, new = (each.homes(observation.clients) for each in (observation.overlay, overlay))
    spine = int((region < 0).sum())
    arrivals = messages(workload, observation)
    done = simulate(observation, overlay, arrivals, Delays(SERVICE_US, link_us=LINK_US), seed=workload.seed)
    return Placed(
        hops / hops.sum(),
        metrics.of("mean_hops"),
        int((region[old] != region[new]).sum()),
        metrics.of("backbone_load") / spine,
        done.latency_us / 1e6,
        overlay,
    )


def traffic(workload: Services) -> pa.RecordBatch:
    """All messages as rows of traffic: one for each (sender, topic)."""
    part = workload.part(0, workload.messages)
    key = part["client"] * workload.world.topics + part["topic"]
    _, first, count = np.unique(key, return_index=True, return_counts=True)
    start, receivers = take_groups(part["start"], part["receivers"], first)
    columns = {
        "bucket": np.zeros(len(first), dtype=np.int64),
        "client": part["client"][first],
        "topic": part["topic"][first],
        "attributes": pa.nulls(len(first)),
        "audience": np.arange(len(first)),
        "messages": count,
        "rows": count,
        "bytes": count * part["bytes"][first],
        "receivers": pa.ListArray.from_arrays(start.astype(np.int32), receivers.astype(np.int32)),
    }
    return pa.record_batch([pa.array(columns[f.name]).cast(f.type) for f in TRAFFIC], schema=TRAFFIC)


def bins(metrics: Metrics, name: str) -> Floats:
    """A histogram, from bin 0."""
    mine = (metrics.metric == name) & (metrics.scope == "bin")
    counts = np.zeros(int(metrics.key[mine].max()) + 1)
    counts[metrics.key[mine]] = metrics.value[mine]
    return counts


def messages(workload: Services, observation: Observation) -> Arrivals:
    """The messages at random times, as often as keeps the busiest broker at the start busy for BUSY of the time."""
    part = workload.part(0, workload.messages)
    route = routing(observation, observation.overlay)
    busiest = route.finish(route.partial([traffic(workload)])).of("max_broker_load")
    gap = SERVICE_US * busiest / workload.messages / BUSY
    rng = np.random.default_rng([workload.seed, 41])
    at = np.cumsum(rng.exponential(gap, workload.messages)).astype(np.int64)
    return Arrivals(at, part["client"], part["start"], part["receivers"])


def comes_out(spread: Spread, paper: float | None) -> bool | None:
    """Whether a printed figure lies within our seeds; None where none is printed."""
    return None if paper is None else spread.low <= paper <= spread.high


def verdicts(rows: Sequence[Row]) -> str:
    """Which printed figures come out and which do not: those that do wherever they are printed, then by network."""
    printed = [row for row in rows if row["comes out"] is not None]
    off = {row["figure"] for row in printed if not row["comes out"]}
    always = dict.fromkeys(f"`{row['figure']}`" for row in printed if row["figure"] not in off)
    parts = [f"Wherever printed: {', '.join(always) or 'none'}."]
    for network in dict.fromkeys(str(row["network"]) for row in printed):
        rest = [row for row in printed if row["network"] == network and row["figure"] in off]
        judged = [
            f"`{row['figure']}`"
            if row["comes out"]
            else f"not `{row['figure']}` ({row['low']:.0f} to {row['high']:.0f}, printed {_plain(row['paper'])})"
            for row in rest
        ]
        parts.append(f"{network.capitalize()}: {', '.join(judged) or 'all'}.")
    return " ".join(parts)


def _plain(value: object) -> str:
    return f"{value:g}" if isinstance(value, float) else str(value)


def within(hops: Floats, low: int, high: int) -> float:
    """Percent of deliveries with low to high hops."""
    return 100 * float(hops[low : high + 1].sum())


def between(latency: Floats, low: float, high: float) -> float:
    """Percent of deliveries that take low to below high seconds."""
    taken = latency[latency >= 0]
    return 100 * float(((taken >= low) & (taken < high)).mean())
