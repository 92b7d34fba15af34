"""Drift: does a plan still hold on newer traffic, and would planning again pay?

The overlay as it was and as the plan has it are replayed on the newer trace, clients and brokers joined by name;
clients that the plan never saw are where the newer trace has them. Then the plan's own planner plans again from
there: if that saves less than `min_gain`, nothing should be done.
"""

from __future__ import annotations

from dataclasses import fields, replace
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from overlace.arrays.jit import Floats, Ints
from overlace.catalog import PLANNERS
from overlace.errors import BadPlan, BadTrace
from overlace.model import Names, Network, Observation, Overlay, Plan, Planner, Progress
from overlace.observe.observation import observe
from overlace.observe.traffic import traffic_of
from overlace.planfile import load_plan, read_plan
from overlace.replay.measure import measure
from overlace.run import read_json, read_observation
from overlace.trace import Trace

METRIC = {"hops": "mean_hops", "latency": "mean_latency_us", "messages": "link_messages", "cost": "cost"}


MIN_GAIN = 0.01


class Drift(NamedTuple):
    """What newer traffic says of a plan."""

    plan: str
    metric: str
    predicted: float  # share saved where the plan was judged, or where it was made
    before: float  # the overlay as it was, on the newer traffic
    after: float  # the overlay as planned, on the newer traffic
    unseen: float  # share of the newer messages that clients sent whom the plan never saw
    loads: list[tuple[str, float, float]]  # broker, share of messages sent there then and now, most changed first
    again: float  # share that planning again would save
    min_gain: float  # what the plan itself had to save

    @property
    def seen(self) -> float:
        """The share that the plan saves on the newer traffic."""
        return 1 - self.after / self.before if self.before else 0.0


def drift(run: Path, path: str, plan: str | None = None, *, progress: Progress | None = None) -> Drift:
    """Replay a run's plan on a newer trace."""
    tell = progress or (lambda share, what: None)
    observation, names = read_observation(run)
    folder = _plan_of(run, plan)
    made = load_plan(folder, PLANNERS)
    if not {"placement", "tree"} & set(made.planner.facets):
        raise BadPlan(f"{folder.name} plans {', '.join(made.planner.facets)}; drift is about placement and tree")
    tell(0.1, "observing")
    trace = Trace.open(path)
    newer = observe(trace)
    joined = Joined(observation.network, names, newer, trace.names)
    newer = replace(newer, network=joined.network)
    tell(0.4, "replaying")
    rows = traffic_of(trace)
    judged = read_plan(folder).judged
    metric = judged.metrics[0].metric if judged else METRIC.get(getattr(made.planner, "objective", "cost"), "cost")
    overlays = [joined.overlay(each) for each in (made.before, made.after)]
    before, after = (measure(newer, overlay, rows, trace.unit).of(metric) for overlay in overlays)
    tell(0.7, "planning again")
    start = replace(newer, overlay=overlays[1])
    planner = joined.planner(made.planner, observation.network)
    fresh = planner.solve(start, made.seed)
    now = planner.cost(start, overlays[1])
    again = fresh.gain / now if now else 0.0
    then = _shares(observation, made.after)
    loads = _changed(then[np.argsort(joined.broker)], _shares(newer, overlays[1]), trace.names)
    promised = _predicted(folder, made, observation)
    least = float(judged.limits.get("min_gain", MIN_GAIN)) if judged else MIN_GAIN
    return Drift(folder.name, metric, promised, before, after, joined.unseen, loads, again, least)


def _plan_of(run: Path, plan: str | None) -> Path:
    folders = sorted(each.parent for each in (run / "plans").glob("*/plan.json"))
    if plan:
        folders = [each for each in folders if each.name == plan]
    elif (run / "answer.json").exists():
        named = {part["plan"] for part in read_json(run / "answer.json")["parts"]}
        folders = [each for each in folders if each.name in named] or folders
    if len(folders) != 1:
        listed = ", ".join(each.name for each in folders) or "none"
        raise BadPlan(f"{run} holds {len(folders)} plans that could be meant ({listed}). Say which with --plan.")
    return folders[0]


def _predicted(folder: Path, made: Plan, observation: Observation) -> float:
    """What was promised: on the held-out part where optimize judged it, else on the part it was made from."""
    judged = read_plan(folder).judged
    if judged and judged.saving:
        return judged.saving.share
    before = made.planner.cost(observation, made.before)
    return made.gain / before if before else 0.0


class Joined:
    """Two observations of one system, brokers and clients joined by name."""

    def __init__(self, network: Network, names: Names, newer: Observation, newer_names: Names) -> None:
        old, new = list(names.get("broker", ())), list(newer_names.get("broker", ()))
        if set(old) != set(new):
            only = sorted(set(old) ^ set(new))
            raise BadTrace(
                f"the newer trace has other brokers than the run ({', '.join(only[:5])}): plan again from it"
            )
        place = {name: i for i, name in enumerate(new)}
        self.broker = np.array([place[name] for name in old], dtype=np.int64)
        self.network = _renumbered(network, self.broker, newer)
        clients = {name: i for i, name in enumerate(names.get("client", ()))}
        self.client: Ints = np.array([clients.get(name, -1) for name in newer_names.get("client", ())], dtype=np.int64)
        self.newer = newer
        sent = newer.sent
        self.unseen = float(sent[self.client[: len(sent)] < 0].sum() / sent.sum()) if sent.sum() else 0.0

    def planner(self, planner: Planner, old: Network) -> Planner:
        """The planner with clients, brokers and links by the ids of the newer trace; clients that are gone drop out."""
        now = {int(then): i for i, then in enumerate(self.client) if then >= 0}
        row = {tuple(link): i for i, link in enumerate(self.network.links.tolist())}
        changed: dict[str, Any] = {}
        for each in fields(planner):  # type: ignore[arg-type]
            given = getattr(planner, each.name)
            if each.metadata.get("ids") == "client":
                changed[each.name] = tuple(sorted(now[c] for c in given if c in now))
            elif each.metadata.get("ids") == "broker":
                changed[each.name] = tuple(sorted(int(self.broker[b]) for b in given))
            elif each.name in ("may_wire", "keep_links"):
                ends = np.sort(self.broker[old.links[list(given)]], axis=1).tolist() if given else []
                changed[each.name] = tuple(sorted(row[tuple(link)] for link in ends))
        if getattr(planner, "only", ()) and not changed.get("only"):
            changed["keep"] = tuple(range(self.newer.clients))  # those who may move are gone: nobody moves
        return replace(planner, **changed)  # type: ignore[type-var]

    def overlay(self, overlay: Overlay) -> Overlay:
        """An overlay of the run by the ids of the newer trace."""
        known = overlay.homes(int(self.client.max(initial=-1)) + 1)
        homes = self.newer.overlay.homes(self.newer.clients)
        seen = np.flatnonzero(self.client[: len(homes)] >= 0)
        there = known[self.client[seen]]
        homes[seen[there >= 0]] = self.broker[there[there >= 0]]
        placed = np.flatnonzero(homes >= 0)
        return Overlay(placement=np.column_stack([placed, homes[placed]]), tree=self.broker[overlay.tree])


def _renumbered(network: Network, broker: Ints, newer: Observation) -> Network:
    """The run's network by the ids of the newer trace, with the newer trace's clients."""
    order = np.argsort(broker)
    per: dict[str, Any] = {
        name: getattr(network, name)[order] for name in ("region", "broker_cost", "capacity", "max_degree")
    }
    return Network(
        **per, links=broker[network.links], link_cost=network.link_cost, latency_us=network.latency_us,
        client_region=newer.network.client_region, access_cost=newer.network.access_cost,
        access_latency_us=newer.network.access_latency_us,
    )  # fmt: skip


def _changed(then: Floats, now: Floats, names: Names) -> list[tuple[str, float, float]]:
    """(broker, share then, share now) of the messages that are sent there, the most changed first."""
    called = list(names.get("broker", ()))
    order = np.argsort(-np.abs(now - then), kind="stable")
    return [(called[b], float(then[b]), float(now[b])) for b in order.tolist()]


def _shares(observation: Observation, overlay: Overlay) -> Floats:
    homes = overlay.homes(observation.clients)
    placed = homes >= 0
    sums = np.bincount(homes[placed], weights=observation.sent[placed], minlength=observation.network.brokers)
    return np.asarray(sums / max(1.0, sums.sum()), dtype=np.float64)
