"""What binds a plan: the share of deliveries that may fail with a broker, limits that stay broken, and what lifting the
bounds on regions and links would bring."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa

from overlace.arrays.jit import Floats, Ints
from overlace.errors import NothingBetter
from overlace.jobs.replay import Replayed
from overlace.jobs.wishes import Wishes
from overlace.model import Metrics, Names, Observation, Overlay, name_of
from overlace.planners.joint.joint import Joint
from overlace.planners.joint.problem import capacity_of
from overlace.planners.search.problem import Problem
from overlace.planners.search.system import bill, rooted
from overlace.replay.measure import measure
from overlace.trace.plans import PlanFile, read_columns, read_plan

TIGHTER = 6  # tries to keep max_cut


def within_cut(
    planner: Joint, observation: Observation, ahead: Observation | None, rows: pa.Table, unit: str, wishes: Wishes
) -> Joint:
    """The planner with its limit so tight that no broker is on the way of more deliveries than the user allows.

    The planner counts messages that pass a broker, `max_cut` is about deliveries that fail with it: where the plan
    goes beyond it, and beyond what is there today, the planner's limit is lowered and it plans again.
    """

    def cut_share(overlay: Overlay) -> float:
        return measure(observation, overlay, rows, unit).of("cut_share_max")

    allowed = max(wishes.max_cut or 1.0, cut_share(observation.overlay))
    for _ in range(TIGHTER):
        reached = cut_share(planner.solve(observation, wishes.seed, ahead=ahead).after)
        if reached <= allowed + 1e-12:
            return planner
        planner = replace(planner, max_cut=0.98 * (planner.max_cut or 1.0) * allowed / reached)
    raise NothingBetter(
        f"no plan was found in which every broker carries at most {allowed:.1%} of the deliveries (the nearest has one "
        f"with {reached:.1%}). Raise max_cut, or allow other links with --could-wire."
    )


def bounds_of(
    observation: Observation, ahead: Observation | None, planner: Joint, document: PlanFile, after: Overlay
) -> list[str]:
    """What bound the plan, and what lifting it would bring on the traffic that it was made for."""
    said, plain = [], observation if ahead is not None else None
    for_traffic = ahead if ahead is not None else observation
    today, now = (planner.cost(for_traffic, each) for each in (observation.overlay, after))
    lifts = {
        "nobody leaves its region (--placement anywhere lifts it)": {"within_region": False},
        "only wired links are used (--could-wire 'LEFT*:RIGHT*' allows others)": {"wired_only": False},
    }
    for text, lifted in lifts.items():
        if all(getattr(planner, key) == value for key, value in lifted.items()):
            continue
        if "wired_only" in lifted and len(observation.network.links) <= len(observation.overlay.tree):
            said.append(f"{text}; the trace names no other links, so what they would bring is not known")
            continue
        other = replace(planner, effort=0, method="joint", **lifted)  # type: ignore[arg-type]
        reached = other.cost(for_traffic, other.overlay(for_traffic, document.seed, after, plain))
        if today > 0 and reached < now - 1e-9 * today:
            more, what = (now - reached) / today, "on the part that planned" if ahead is None else "as forecast"
            said.append(f"{text}; lifted, the plan would save {more:.1%} more of today's cost {what}")
    return said


def broken_by(
    observation: Observation, names: Names, wishes: Wishes, planner: Joint, folder: Path, done: Sequence[Replayed]
) -> dict[str, str]:
    """Limits of the user that the plan does not keep, by the wish, a line each: today's overlay does not, either."""
    after, _ = read_columns(folder, read_plan(folder))
    problem, brokers = planner.problem(observation), observation.network.brokers
    sent = observation.sent[observation.overlay.homes(observation.clients) >= 0]  # of those that planning counts
    mean = float(sent.sum()) / max(1, int((observation.network.region >= 0).sum()))
    loads = [loads_of(problem, overlay, observation) for overlay in (observation.overlay, after)]
    cuts = [
        by_broker(next(e.metrics for e in done if (e.plan, e.part) == (which, "train")), "cut_share", brokers)
        for which in ("", folder.name)
    ]
    asked: dict[str, tuple[list[Any], Any]] = {
        "sent_cap": ([load.sent for load in loads], max((wishes.sent_cap or 0) * mean, float(sent.max(initial=0)))),
        "handled_cap": ([load.handled for load in loads], (wishes.handled_cap or 0) * loads[0].handled.max()),
        "head_room": ([load.handled for load in loads], capacity_of(observation) * (1 - wishes.head_room)),
        "max_degree": ([load.degree for load in loads], wishes.max_degree or 0),
        "max_cut": (cuts, wishes.max_cut or 0),
    }
    said = {}
    for name, ((today, load), limit) in asked.items():
        most = np.broadcast_to(limit, load.shape)
        over = int((load > most * (1 + 1e-9)).sum())
        if not over or (not getattr(wishes, name) and name != "head_room"):
            continue
        worst = int((load / np.maximum(most, 1e-12)).argmax())
        who = name_of("broker", worst, names)
        reached, wanted = (f"{x:.1%}" if name == "max_cut" else f"{x:,.0f}" for x in (load[worst], most[worst]))
        source = "was asked for" if name in wishes.model_fields_set else "is the default"
        as_today = ", as today" if (today > most * (1 + 1e-9)).sum() >= over else ""
        plural = "broker stays" if over == 1 else "brokers stay"
        said[name] = (
            f"{over} {plural} above {name.replace('_', '-')} {getattr(wishes, name):g}{as_today}: {who} has {reached} "
            f"where {wanted} {source}"
        )
    return said


class Borne(NamedTuple):
    """What each broker bears, in what the planner counts."""

    sent: Floats
    handled: Floats
    degree: Ints


def loads_of(problem: Problem, overlay: Overlay, observation: Observation) -> Borne:
    """What each broker bears with an overlay."""
    brokers = observation.network.brokers
    home = overlay.homes(observation.clients)
    tree, area = rooted(overlay.tree, problem.wires), problem.limits.area
    _, handled = bill(problem.load, np.maximum(home, 0), tree, problem.node, area, len(problem.node))
    placed = home >= 0
    sent = np.bincount(home[placed], weights=observation.sent[placed], minlength=brokers).astype(np.float64)
    return Borne(sent, handled, np.bincount(overlay.tree.ravel(), minlength=brokers))


def by_broker(metrics: Metrics, metric: str, brokers: int) -> Floats:
    """A metric of each broker, 0 where it was not measured."""
    mine = (metrics.metric == metric) & (metrics.scope == "broker")
    found = np.zeros(brokers)
    found[metrics.key[mine]] = metrics.value[mine]
    return found


def limits_of(observation: Observation, planner: Joint) -> dict[str, list[float | None]]:
    """What each broker may send and handle at most, as a share of the messages that planned; None is unlimited."""
    total = float(observation.sent.sum())
    if not total:
        return {}
    limits = planner.problem(observation).limits
    return {
        name: [float(cap) / total if np.isfinite(cap) else None for cap in caps]
        for name, caps in (("sent", limits.sent_cap), ("handled", limits.handled_cap))
    }
