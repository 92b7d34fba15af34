"""Drift: does a plan still hold on newer traffic, and would planning again pay?

The overlay as it was and the one that stands now are replayed on the newer trace, clients and brokers joined by name.
What stands now is the plan (clients that it never saw are where the newer trace has them), or what the newer trace
itself shows: homes by its sessions, and the links that are wired there. Then the plan's own planner plans again from
there, on the first part of the newer trace, for what it planned for before, and is judged on the rest: if that saves
less than `min_gain`, nothing should be done. Where the newer trace is too short to cut, all of it plans and judges.
"""

from __future__ import annotations

from dataclasses import fields, replace
from pathlib import Path
from typing import Any, Literal, NamedTuple, get_args

import numpy as np
import pyarrow as pa

from overlace.arrays.jit import Floats, Ints, Pairs
from overlace.arrays.pairs import difference, positions
from overlace.catalog import PLANNERS
from overlace.errors import Absent, BadPlan, BadTrace, OverlaceError, Unknown
from overlace.limits import Limits
from overlace.model import Names, Network, Observation, Overlay, Plan, Planner, Progress
from overlace.observe.cut import Cut, cut
from overlace.observe.forecast import expect_traffic, read_slices
from overlace.observe.known import known_as
from overlace.observe.later import had_traffic, later
from overlace.observe.observation import observe_with_names
from overlace.observe.traffic import traffic_of
from overlace.optimize.interval import total
from overlace.optimize.plan import plan_for
from overlace.optimize.task import metric_of, objective_of
from overlace.replay.measure import measure
from overlace.trace.plan_file import PlanFile
from overlace.trace.plans import load_plan, read_plan
from overlace.trace.runs import read_json, read_observation
from overlace.trace.store import Trace

MIN_GAIN = Limits().min_gain
Overlays = Literal["planned", "applied"]
"""Which overlay stands now: as the plan has it, or as the newer trace shows it."""


class Drift(NamedTuple):
    """What newer traffic says of a plan."""

    plan: str
    overlay: Overlays  # what `after`, the loads now and planning again are about
    metric: str
    predicted: float  # share saved where the plan was judged, or where it was made
    before: float  # the overlay as it was, on the newer traffic
    after: float  # the overlay that stands now, on the newer traffic
    unseen: float  # share of the newer messages that clients sent whom the plan never saw
    loads: list[tuple[str, float, float]]  # broker, share of messages sent there then and now, most changed first
    again: float  # share that planning again on the first part of the newer traffic saves of the rest
    min_gain: float  # what the plan itself had to save
    in_place: InPlace

    @property
    def seen(self) -> float:
        """The share that is saved on the newer traffic."""
        return 1 - self.after / self.before if self.before else 0.0


def drift(
    run: Path,
    newer_trace: str | Trace,
    plan: str | None = None,
    *,
    overlay: Overlays = "planned",
    progress: Progress | None = None,
) -> Drift:
    """Replay a run's plan, or what was applied of it, on a newer trace."""
    report_progress = progress or (lambda share, what: None)
    if overlay not in get_args(Overlays):
        raise Unknown("overlay", overlay, get_args(Overlays))
    observation, names = read_observation(run)
    folder = _plan_of(run, plan)
    document = read_plan(folder)
    made = load_plan(folder, PLANNERS, observation)
    if not {"placement", "tree"} & set(made.planner.facets):
        raise BadPlan(f"{folder.name} plans {', '.join(made.planner.facets)}; drift is about placement and tree")
    report_progress(0.1, "observing")
    trace = newer_trace if isinstance(newer_trace, Trace) else Trace.open(newer_trace)
    newer, newer_names = observe_with_names(trace)
    stands = CurrentPlan(made, document, observation, names, overlay)
    joined, after = stands.join(newer, newer_names)
    before = joined.overlay(made.before)
    start = replace(joined.newer, network=joined.network, overlay=after)
    report_progress(0.4, "replaying")
    rows, judged = traffic_of(trace, None, known_as(trace, newer_names)), document.judged
    if judged and judged.metrics:
        metric = judged.metrics[0].metric
    else:  # what replay measures of its planner's objective
        network = observation.network if "placement" in made.planner.facets else Network()
        metric = metric_of(objective_of(made.planner), network, judged=False)
    cost = document.cost_before
    promised = judged.saving.share if judged and judged.saving else made.gain / cost if cost else 0.0
    costs = [_measure(start, each, rows, trace, metric) for each in (before, after)]
    report_progress(0.7, "planning again")
    try:
        again = _saved_on(stands, trace, cut(trace), metric)
    except OverlaceError:  # too short to cut, or not all of the system was there by then: all of it plans and judges
        again = _saved_on(stands, trace, Cut(trace.span(), trace.span(), 1.0), metric)
    then, now = _sent_shares(observation, made.after)[np.argsort(joined.broker)], _sent_shares(start, after)
    called, order = list(newer_names.get("broker", ())), np.argsort(-np.abs(now - then), kind="stable")
    return Drift(
        plan=folder.name,
        overlay=overlay,
        metric=metric,
        predicted=promised,
        before=costs[0],
        after=costs[1],
        unseen=joined.unseen(observation),
        loads=[(called[b], float(then[b]), float(now[b])) for b in order.tolist()],
        again=again,
        min_gain=judged.min_gain(MIN_GAIN) if judged else MIN_GAIN,
        in_place=joined.in_place(made),
    )


class CurrentPlan(NamedTuple):
    """A plan of a run, and what is taken to stand now: the plan, or what a newer trace shows."""

    made: Plan
    document: PlanFile
    observation: Observation  # of the run
    names: Names
    overlay: Overlays

    def join(self, newer: Observation, names: Names) -> tuple[Joined, Overlay]:
        """The run and a newer observation joined by name, and the overlay that stands."""
        joined = Joined(self.observation.network, self.names, newer, names)
        planned = self.overlay == "planned"
        return joined, joined.overlay(self.made.after) if planned else joined.applied(self.made.before)


def _saved_on(stands: CurrentPlan, trace: Trace, parts: Cut, metric: str) -> float:
    """The share that planning on one part of a newer trace saves on another."""
    first, first_names = observe_with_names(trace, parts.train)
    joined, after = stands.join(first, first_names)
    if metric == "total_cost" and not joined.network.access_cost.size:
        raise BadTrace("the first part of the newer trace does not say what it costs to reach a broker")
    start, known = replace(joined.newer, network=joined.network, overlay=after), known_as(trace, first_names)
    made, forecast = stands.made, stands.document.forecast
    ahead = None
    if forecast is not None:
        slices = read_slices(trace, parts.train, known)
        ahead = expect_traffic(start, slices, forecast, made.seed)
    fresh = plan_for(joined.planner(made.planner, stands.observation.network), start, ahead, made.seed)
    rest = later(trace, parts.held_out, known, start)
    rows = rest.rows()
    if not rows.num_rows:
        return 0.0
    costs = [total(rest.stage, rest.overlay(each), rows, trace.unit, metric) for each in (after, fresh.after)]
    return 1 - costs[1] / costs[0] if costs[0] else 0.0


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


def _measure(observation: Observation, overlay: Overlay, rows: pa.Table, trace: Trace, metric: str) -> float:
    """A metric of an overlay on the newer traffic; refused if that does not say enough."""
    if rows.num_rows == 0:
        raise Absent("the newer trace holds no messages, so there is nothing to replay")
    found = measure(observation, overlay, rows, trace.unit)
    if metric not in found:
        raise BadTrace(f"the newer trace does not say what {metric} needs: ingest the same tables as for the run")
    return found.of(metric)


def _sent_shares(observation: Observation, overlay: Overlay) -> Floats:
    homes = overlay.homes(observation.clients)
    placed = homes >= 0
    sums = np.bincount(homes[placed], weights=observation.sent[placed], minlength=observation.network.brokers)
    return np.asarray(sums / max(1.0, sums.sum()), dtype=np.float64)


# --- the run and the newer trace, joined by name --------------------------------------------------------------------


class InPlace(NamedTuple):
    """How much of a plan the newer trace shows to be carried out."""

    moves: int  # clients that the plan moves
    at_planned: int  # of them at the planned broker,
    at_old: int  # still at the old one,
    elsewhere: int  # or at another; the rest has no session in the newer trace
    links: int  # links that the plan changes, as plans count them
    links_as_planned: int  # of them in place: the new one wired, and the old one not
    links_known: bool  # whether the newer trace shows wired links at all

    @property
    def seen_again(self) -> int:
        """Clients that the plan moves and whose home the newer trace shows."""
        return self.at_planned + self.at_old + self.elsewhere


class Joined:
    """Two observations of one system, brokers and clients joined by name."""

    def __init__(self, network: Network, names: Names, newer: Observation, newer_names: Names) -> None:
        old, new = list(names.get("broker", ()))[: network.brokers], list(newer_names.get("broker", ()))
        if not new:
            raise Absent("the newer trace names no brokers yet")
        if set(old) != set(new):
            only = sorted(set(old) ^ set(new))
            raise BadTrace(
                f"the newer trace has other brokers than the run ({', '.join(only[:5])}): plan again from it"
            )
        place = {name: i for i, name in enumerate(new)}
        self.broker = np.array([place[name] for name in old], dtype=np.int64)
        self.network = _renumbered(network, self.broker, newer)
        clients = {name: i for i, name in enumerate(names.get("client", ()))}
        called = list(newer_names.get("client", ()))[: newer.clients]
        self.client: Ints = np.full(newer.clients, -1)  # who has no name there was never seen here
        self.client[: len(called)] = [clients.get(name, -1) for name in called]
        self.newer = newer

    def unseen(self, observation: Observation) -> float:
        """The share of the newer messages whose senders had no traffic in an observation of the run."""
        known = np.append(had_traffic(observation), False)  # the last stands for those that have no id there
        there = np.where((self.client >= 0) & (self.client < observation.clients), self.client, -1)
        sent = self.newer.sent
        return float(sent[~known[there]].sum() / sent.sum()) if sent.sum() else 0.0

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
        """An overlay of the run by the ids of the newer trace, which also says where all other clients are."""
        known = overlay.homes(int(self.client.max(initial=-1)) + 1)
        homes = self.newer.overlay.homes(self.newer.clients)
        seen = np.flatnonzero(self.client >= 0)
        there = known[self.client[seen]]
        homes[seen[there >= 0]] = self.broker[there[there >= 0]]
        return _placed(homes, self.broker[overlay.tree])

    def applied(self, before: Overlay) -> Overlay:
        """The overlay that the newer trace shows; clients without a session there are where the run had them."""
        shown = self.newer.overlay
        lacking = [what for what, rows in (("sessions", shown.placement), ("wired links", shown.tree)) if not len(rows)]
        if lacking:
            raise BadTrace(
                f"the newer trace shows no {' and no '.join(lacking)}, so the overlay as applied is not known. Ingest "
                "sessions and links with it, or ask about the overlay as planned."
            )
        homes, now = (each.homes(self.newer.clients) for each in (self.overlay(before), shown))
        return _placed(np.where(now >= 0, now, homes), shown.tree)

    def in_place(self, made: Plan) -> InPlace:
        """How much of a plan of the run the newer trace shows."""
        clients = 1 + max(int(each.placement[:, 0].max(initial=-1)) for each in (made.before, made.after))
        old, planned = (self._at(overlay.homes(clients)) for overlay in (made.before, made.after))
        seen = (self.client >= 0) & (self.client < clients)
        now = np.full(clients, -1)
        now[self.client[seen]] = self.newer.overlay.homes(self.newer.clients)[seen]
        moved = old != planned
        again = moved & (now >= 0)
        wired = self.newer.overlay.tree
        removed, added = (self._links(links) for links in difference(made.before.tree, made.after.tree))
        there, gone = int((positions(wired, added) >= 0).sum()), int((positions(wired, removed) < 0).sum())
        done = min(there, gone) if len(added) and len(removed) else there + gone
        return InPlace(
            moves=int(moved.sum()),
            at_planned=int((again & (now == planned)).sum()),
            at_old=int((again & (now == old)).sum()),
            elsewhere=int((again & (now != planned) & (now != old)).sum()),
            links=max(len(removed), len(added)),
            links_as_planned=int(done) if len(wired) else 0,
            links_known=len(wired) > 0,
        )

    def _at(self, homes: Ints) -> Ints:
        """Homes by the ids of the newer trace, -1 for none."""
        return np.append(self.broker, -1)[homes]

    def _links(self, links: Pairs) -> Pairs:
        """Links by the ids of the newer trace."""
        return np.ascontiguousarray(np.sort(self.broker[links], axis=1))


def _placed(homes: Ints, tree: Pairs) -> Overlay:
    """The overlay of homes (-1: none) and links."""
    placed = np.flatnonzero(homes >= 0)
    return Overlay(placement=np.column_stack([placed, homes[placed]]), tree=tree)


def _renumbered(network: Network, broker: Ints, newer: Observation) -> Network:
    """The run's network by the ids of the newer trace, with the newer trace's clients and what is newly wired there."""
    order = np.argsort(broker)
    per: dict[str, Any] = {
        name: getattr(network, name)[order] for name in ("region", "broker_cost", "capacity", "max_degree")
    }
    links, wired = np.sort(broker[network.links], axis=1), newer.overlay.tree
    named = {tuple(link) for link in links.tolist()}
    fresh = np.array([len(named) > 0 and tuple(link) not in named for link in wired.tolist()], dtype=np.bool_)
    rows = newer.network.link_rows(wired[fresh])
    return Network(
        **per, links=np.concatenate([links, wired[fresh]]),
        link_cost=np.append(network.link_cost, newer.network.link_cost[rows]),
        latency_us=np.append(network.latency_us, newer.network.latency_us[rows]),
        client_region=newer.network.client_region, access_cost=newer.network.access_cost,
        access_latency_us=newer.network.access_latency_us,
    )  # fmt: skip
