"""What can be planned from an observation, by which planner, and what is left out and why."""

from __future__ import annotations

from dataclasses import fields
from typing import NamedTuple

from overlace.errors import BadParameter, NothingBetter
from overlace.limits import Goal, Limits, PlannerLimits, Split
from overlace.model import Names, Observation, Planner, Progress
from overlace.optimize.bounds import places_known
from overlace.optimize.case import Case
from overlace.optimize.meshes import MeshChoice, choose_mesh
from overlace.optimize.scope import link_rows, scope_of
from overlace.planners.channels.strategy4 import Strategy4
from overlace.planners.joint.joint import Joint

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

    planners: dict[str, Planner]
    left_out: list[tuple[str, str]]
    mesh: MeshChoice | None = None
    refused: str = ""  # why no mesh keeps the limits


def choose(case: Case, progress: Progress | None = None) -> Chosen:
    """What can be planned, and by what."""
    observation, names, limits, goal = case.observation, case.names, case.limits, case.goal
    planners: dict[str, Planner] = {}
    left_out = []
    network = observation.network
    if network.brokers < 2:
        left_out.append((ROUTED, f"{network.brokers} brokers; two or more are needed"))
    elif len(observation.overlay.tree) == 0:
        left_out.append(
            (ROUTED, "no links are wired: ingest the table links, or a topology with --topology --wired mst")
        )
    elif len(observation.overlay.placement) == 0:
        left_out.append((ROUTED, "no client has a home: ingest sessions"))
    elif len(observation.classes) == 0:
        left_out.append((ROUTED, "no message was received by anybody"))
    elif goal.objective == "latency" and not (network.latency_us > 0).any():
        left_out.append((ROUTED, "the latencies of links are not known: ingest links with latency_us"))
    elif goal.objective == "latency" and (why := network.unmeasured(observation.overlay.tree, names)):
        left_out.append((ROUTED, f"{why}: ingest links with latency_us"))
    elif goal.objective == "bytes" and not observation.classes.bytes.any():
        left_out.append((ROUTED, "the sizes of messages are not known"))
    else:
        planners[ROUTED] = joint_planner(
            observation, names, case.scoped, goal, case.trace.unit, priced=case.links_priced
        )
    if len(observation.offers.publisher):
        planners[CHANNELS] = Strategy4()
    else:
        left_out.append((CHANNELS, "no advertisements: ingest that table"))
    if len(observation.interests) and network.brokers < 2:
        try:
            mesh = choose_mesh(observation, limits, goal, names, progress)
        except NothingBetter as error:
            return Chosen(planners, [*left_out, (MESH, str(error))], None, str(error))
        return Chosen({**planners, MESH: mesh.planner}, left_out, mesh)
    why = "there are brokers" if network.brokers >= 2 else "no interests: ingest that table"
    return Chosen(planners, [*left_out, (MESH, why)])


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
