"""The plan: what can be planned from a task and by which planner, and one plan of it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import fields, replace
from pathlib import Path
from typing import NamedTuple

import numpy as np
import pyarrow as pa

from overlace.catalog import PLANNERS, planner_name
from overlace.errors import BadParameter, NothingBetter
from overlace.limits import Goal, Limits, PlannerLimits, Split
from overlace.model import PARTS, Names, Network, Observation, Overlay, Plan, Planner, Progress
from overlace.optimize.forecast import AS_OBSERVED, Forecast, check_is_for_traffic
from overlace.optimize.meshes import MeshChoice, choose_mesh
from overlace.optimize.newcomers import NewClientRule, describe_rule
from overlace.optimize.scope import link_rows, scope_of
from overlace.optimize.task import Task
from overlace.planners.channels.strategy4 import Strategy4
from overlace.planners.joint.joint import Joint
from overlace.replay.measure import measure
from overlace.stopping import asked
from overlace.trace.plan_file import PlanFile
from overlace.trace.plans import Provenance, describe, load_plan, parameters_of, plan_id, read_plan, save_plan
from overlace.trace.runs import read_json

TIGHTER = 6
"""Tries to keep max_cut."""
ROUTED, CHANNELS, MESH = "placement and tree", "channels", "mesh"
OF_MESHES = {"max_diameter", "survive"}
"""Options that limit nothing but meshes."""


def without_effect(name: str, given: frozenset[str]) -> list[str]:
    """Options that were given and do not limit a family of plans."""
    every = {each.name for kind in (Limits, Goal) for each in fields(kind)}
    binds = {
        ROUTED: every - OF_MESHES - {"delays"},
        CHANNELS: {"seed", "delays"},
        MESH: {"max_degree", "effort", "seed"} | OF_MESHES,
    }
    return sorted(given - Split.EITHER - binds[name])


class Chosen(NamedTuple):
    """The planner of each family that can be planned, and why others cannot."""

    joint: Joint | None = None
    channels: Strategy4 | None = None
    mesh: MeshChoice | None = None
    left_out: Sequence[tuple[str, str]] = ()
    refused: str = ""  # why no mesh keeps the limits


def choose(task: Task, progress: Progress | None = None) -> Chosen:
    """What can be planned, and by what."""
    observation, names, network, refused, mesh = task.observation, task.names, task.observation.network, "", None
    joint = channels = None
    left_out = []
    if why := _why_no_routes(task):
        left_out.append((ROUTED, why))
    else:
        joint = joint_planner(observation, names, task.scoped, task.goal, task.trace.unit, priced=task.links_priced)
    if len(observation.offers.publisher):
        channels = Strategy4()
    else:
        left_out.append((CHANNELS, "no advertisements: ingest that table"))
    if len(observation.interests) and network.brokers < 2:
        try:
            mesh = choose_mesh(observation, task.limits, task.goal, names, progress)
        except NothingBetter as error:
            refused = str(error)
            left_out.append((MESH, refused))
    else:
        left_out.append((MESH, "there are brokers" if network.brokers >= 2 else "no interests: ingest that table"))
    return Chosen(joint, channels, mesh, left_out, refused)


def _why_no_routes(task: Task) -> str:
    """Why placement and tree cannot be planned; empty where they can."""
    observation, network, goal = task.observation, task.observation.network, task.goal
    if network.brokers < 2:
        return f"{network.brokers} brokers; two or more are needed"
    if len(observation.overlay.tree) == 0:
        return "no links are wired: ingest the table links, or a topology with --topology --wired mst"
    if len(observation.overlay.placement) == 0:
        return "no client's broker is known: ingest sessions"
    if len(observation.classes) == 0:
        return "no message was received by anybody"
    homes, flows = observation.overlay.homes(observation.clients), observation.flows
    if not ((homes[flows.sender] >= 0) & (homes[flows.receiver] >= 0)).any():
        return "of no delivery are the brokers of sender and receiver both known: ingest sessions"
    if goal.objective == "latency" and not (network.latency_us > 0).any():
        return "the latencies of links are not known: ingest links with latency_us"
    if goal.objective == "latency" and (why := network.unmeasured(observation.overlay.tree, task.names)):
        return f"{why}: ingest links with latency_us"
    if goal.objective == "bytes" and not observation.classes.bytes.any():
        return "the sizes of messages are not known"
    return ""


def joint_planner(
    observation: Observation, names: Names, limits: Limits, goal: Goal, unit: str, priced: bool = True
) -> Joint:
    """The planner for placement and tree, with the user's limits as ids; where no link is priced, none is new."""
    network = observation.network
    if limits.placement == "region" and not network.regions_given(names):
        raise BadParameter("--placement region: no regions are given. Ingest brokers with a region, or leave it out.")
    stay = limits.placement == "region" or (
        limits.placement is None and network.regions_given(names) and not places_known(network)
    )
    by_bytes = goal.objective == "bytes" or (goal.objective == "cost" and unit == "gb")
    scope = scope_of(limits, network, observation.overlay.tree, observation.clients, names)
    shared = {each.name: getattr(limits, each.name) for each in fields(PlannerLimits)}
    return Joint(
        **shared,
        objective="messages" if goal.objective == "bytes" else goal.objective,
        weight="bytes" if by_bytes else "messages",
        wired_only=bool(limits.allow_link) or not priced,
        may_wire=link_rows(limits.allow_link, network, names),
        within_region=stay,
        effort=goal.effort,
        only=scope.only,
        keep=scope.clients,
        keep_brokers=scope.brokers,
        keep_links=scope.links,
    )


def places_known(network: Network) -> bool:
    """Whether it is known where clients are and what it takes to reach a broker from there."""
    return len(network.client_region) > 0 and bool(network.access_cost.size or network.access_latency_us.size)


def within_cut(
    planner: Joint, observation: Observation, ahead: Observation | None, rows: pa.Table, unit: str, seed: int = 0
) -> Joint:
    """The planner with its limit so tight that no broker is on the way of more deliveries than the user allows.

    The planner counts messages that pass a broker, `max_cut` is about deliveries that fail with it: where the plan
    goes beyond it, and beyond what is there today, the planner's limit is lowered and it plans again.
    """

    def cut_share(overlay: Overlay) -> float:
        return measure(observation, overlay, rows, unit).of("cut_share_max")

    asked_for, today = planner.max_cut or 1.0, cut_share(observation.overlay)
    for allowed in sorted({asked_for, max(asked_for, today)}):  # where today is above, first what was asked for
        tried = planner
        for _ in range(TIGHTER):
            reached = cut_share(tried.solve(observation, seed, ahead=ahead).after)
            if reached <= allowed + 1e-12:
                return tried
            tried = replace(tried, max_cut=0.98 * (tried.max_cut or 1.0) * allowed / reached)
    raise NothingBetter(
        f"no plan was found in which every broker carries at most {allowed:.1%} of the deliveries (the nearest has one "
        f"with {reached:.1%}). Raise max_cut, or allow other links with --allow-link."
    )


AMOUNTS = ("messages", "saved")
"""What reasons say of amounts of traffic."""


class Solved(NamedTuple):
    """A plan file, where it lies, and whether it was there before."""

    document: PlanFile
    folder: Path
    again: bool
    plan: Plan


def solve(
    planner: Planner,
    observation: Observation,
    run: Path,
    names: Names | None = None,
    *,
    seed: int = 0,
    forecast: Forecast = AS_OBSERVED,
    progress: Progress | None = None,
) -> Solved:
    """The plan of this planner, parameters and seed, into a run; read instead of solved if it is there."""
    folder = folder_of(planner, observation, run, seed, forecast)
    if folder.exists():
        document = read_plan(folder)
        if not document.stopped:
            return Solved(document, folder, again=True, plan=load_plan(folder, PLANNERS, observation))
    plan = plan_for(planner, observation, forecast.ahead, seed, progress)
    return keep_plan(plan, observation, run, names, forecast)


def keep_plan(
    plan: Plan, observation: Observation, run: Path, names: Names | None = None, forecast: Forecast = AS_OBSERVED
) -> Solved:
    """A plan in hand, written into a run."""
    solved = describe_plan(plan, observation, run, names, forecast)
    save_plan(plan, solved.document, solved.folder, force=True)
    return solved


def describe_plan(
    plan: Plan, observation: Observation, run: Path, names: Names | None = None, forecast: Forecast = AS_OBSERVED
) -> Solved:
    """A plan in hand as its file will have it."""
    planner, rule = plan.planner, None
    if forecast.rule:
        placing = NewClientRule(planner.router, observation, forecast.rule, plan.seed, forecast.pinned)
        rule = describe_rule(placing, plan.after, names or {})
    about = run / "run.json"
    trace = str(read_json(about).get("trace_digest", "")) if about.exists() else ""
    provenance = Provenance(trace, forecast.applied, rule, stopped=asked())
    document = describe(plan, planner_name(planner), observation, names, provenance)
    return Solved(document, folder_of(planner, observation, run, plan.seed, forecast), again=False, plan=plan)


def folder_of(planner: Planner, observation: Observation, run: Path, seed: int, forecast: Forecast) -> Path:
    """Where the plan lies: its name says all that it was made of."""
    rule = [forecast.rule, *forecast.pinned.keep, "|", *forecast.pinned.only] if forecast.rule else []
    made_of = (parameters_of(planner), seed, observation.digest(), forecast.applied, rule)
    return run / "plans" / plan_id(planner_name(planner), *made_of)


def plan_for(
    planner: Planner, observation: Observation, ahead: Observation | None, seed: int, progress: Progress | None = None
) -> Plan:
    """A planner's plan for the traffic ahead, each step with what it would have saved of what was observed."""
    if ahead is None:
        return planner.solve(observation, seed, progress=progress)
    if router := planner.router:
        planned: Plan = router.solve(observation, seed, progress=progress, ahead=ahead)
        return planned
    check_is_for_traffic(planner)
    ahead = replace(ahead, sent=PARTS * observation.sent, sent_bytes=PARTS * observation.sent_bytes)  # limits are plain
    there = planner
    if "tree" in planner.facets and hasattr(planner, "min_gain"):  # in units of the cost
        there = replace(planner, **{"min_gain": PARTS * planner.min_gain})  # type: ignore[type-var]
    found = there.solve(ahead, seed, progress=progress)
    overlay, costs = observation.overlay, [planner.cost(observation, observation.overlay)]
    for i in range(len(found.steps)):
        overlay = overlay.apply(found.changes.between(int(found.steps.start[i]), int(found.steps.start[i + 1])))
        costs.append(planner.cost(observation, overlay))
    args = {key: each / PARTS if key in AMOUNTS else each for key, each in found.steps.args.items()}
    steps = replace(found.steps, gain=-np.diff(costs), args=args)
    return replace(found, planner=planner, steps=steps, beside={})
