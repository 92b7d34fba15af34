"""A trace, a run and a plan of exactly these homes and links, for what carries plans out."""

from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path
from typing import ClassVar, NamedTuple

import numpy as np
import pyarrow as pa

from overlace.limits import Split
from overlace.model import Changes, Overlay, Plan, Steps
from overlace.optimize.task import observe
from overlace.trace.plans import Provenance
from tests.traces import trace_of, write_plan


@dataclass(frozen=True)
class Wanted:
    """A planner that somebody else has done the work of."""

    facets: ClassVar = ("placement", "tree")
    REASONS: ClassVar = ("it was asked for",)

    def cost(self, observation, overlay):
        return 0.0


class Situation(NamedTuple):
    """Who is where, what is linked and who subscribed to what: filters, or (filter, group)."""

    brokers: list
    links: list  # pairs of positions
    homes: dict  # client -> position of its broker
    subscriptions: dict  # client -> filters
    topics: tuple = ("t",)
    messages: tuple = ()  # (client, topic, receivers), by name
    dialect: str = "mqtt"


def make_run(folder: Path, now: Situation):
    """(trace, run folder): what was observed."""
    clients = list(now.homes)
    place = {name: i for i, name in enumerate(clients)}
    rows = [
        (place[client], *(each if isinstance(each, tuple) else (each, None)))
        for client, some in now.subscriptions.items()
        for each in some
    ]
    zeros = pa.array([0] * len(now.brokers), pa.int32())
    said = now.messages or [(clients[0], now.topics[0], clients[-1:])]
    messages = [
        (i * 1000, place[client], now.topics.index(topic), 10, [place[each] for each in receivers])
        for i, (client, topic, receivers) in enumerate(said)
    ]
    trace = trace_of(
        folder / "trace",
        messages,
        {"client": clients, "broker": now.brokers, "topic": now.topics},
        sessions={
            "client": pa.array(range(len(clients)), pa.int32()),
            "broker": pa.array(now.homes.values(), pa.int32()),
        },
        subscriptions={
            "client": pa.array([row[0] for row in rows], pa.int32()),
            "filter": pa.array([row[1] for row in rows], pa.string()),
            "group": pa.array([row[2] for row in rows], pa.string()),
            "dialect": pa.array([now.dialect] * len(rows), pa.string()),
        },
        brokers={
            "broker": pa.array(range(len(now.brokers)), pa.int32()),
            "region": zeros,
            "cost": zeros.cast(pa.float64()),
        },
        links={
            "left": pa.array([min(each) for each in now.links], pa.int32()),
            "right": pa.array([max(each) for each in now.links], pa.int32()),
            "cost": pa.array([1.0] * len(now.links)),
            "wired": pa.array([True] * len(now.links)),
        },
    )  # fmt: skip
    run = folder / "run"
    observe(str(folder / "trace"), run, Split(train=1.0))
    return trace, run


def make_plan(run: Path, links=None, homes=None, *, name="wanted", planner=None, newcomers=None, via=None) -> Path:
    """A plan in a run: these links and homes, by name; None: as they are. With other links between, in two steps."""
    from overlace.trace.runs import read_observation

    observation, names = read_observation(run)
    client, broker = ({each: i for i, each in enumerate(names.get(kind, ()))} for kind in ("client", "broker"))
    before = observation.overlay
    tree = before.tree if links is None else [(broker[a], broker[b]) for a, b in links]
    placement = before.placement if homes is None else [(client[c], broker[b]) for c, b in homes.items()]
    after = Overlay(placement=placement, tree=tree)
    stages = [before, after]
    if via is not None:
        stages.insert(1, Overlay(placement=before.placement, tree=[(broker[a], broker[b]) for a, b in via]))
    parts = [one.changes_to(other) for one, other in pairwise(stages)]
    changes = Changes.joined(parts)
    starts, count = np.cumsum([0, *map(len, parts)]), len(parts)
    steps = Steps(starts, np.zeros(count), np.zeros(count, np.int64), {})
    plan = Plan(planner or Wanted(), 0, before, after, changes, steps)
    folder = run / "plans" / name
    write_plan(plan, folder, "test.wanted", observation, names, Provenance(newcomers=newcomers), force=True)
    return folder
