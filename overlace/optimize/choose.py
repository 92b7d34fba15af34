"""What can be planned from an observation, by which planner, and what is left out and why."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from overlace.errors import BadParameter, NothingBetter
from overlace.model import Names, Observation, Planner, Progress
from overlace.observe.tables import columns
from overlace.optimize.bounds import places_known
from overlace.optimize.meshes import MeshChoice, choose_mesh
from overlace.optimize.wishes import Wishes, kept_by, link_rows
from overlace.planners.channels.strategy4 import Strategy4
from overlace.planners.joint.joint import Joint
from overlace.trace.store import Trace

ROUTED, CHANNELS, MESH = "placement and tree", "channels", "mesh"
BINDS: dict[str, set[str]] = {
    ROUTED: {
        "objective", "placement", "could_wire", "budget", "max_moves", "max_swaps", "min_gain", "min_step", "max_cut",
        "sent_cap", "handled_cap", "head_room", "max_degree", "keep", "only", "forecast", "effort", "seed",
    },
    CHANNELS: {"seed"},
    MESH: {"max_degree", "max_diameter", "survive", "effort", "seed"},
}  # fmt: skip
"""Which wishes bind which family; what is set and binds nothing is said."""


def not_bound(name: str, wishes: Wishes) -> list[str]:
    """What was asked for and does not bind a family."""
    asked = wishes.model_fields_set - {"train", "train_until"}
    return sorted(asked - BINDS[name])


class Chosen(NamedTuple):
    """The planner of each family that can be planned, and why others cannot."""

    planners: dict[str, Planner]
    left_out: list[tuple[str, str]]
    mesh: MeshChoice | None = None
    refused: str = ""  # why no mesh keeps the limits


def choose(
    observation: Observation, names: Names, wishes: Wishes, unit: str, *, priced: bool = True,
    progress: Progress | None = None,
) -> Chosen:  # fmt: skip
    """What can be planned from an observation, and by what; unit is what link costs are per, if priced."""
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
    elif wishes.objective == "latency" and not network.latency_us.any():
        left_out.append((ROUTED, "the latencies of links are not known: ingest links with latency_us"))
    elif wishes.objective == "bytes" and not observation.classes.bytes.any():
        left_out.append((ROUTED, "the sizes of messages are not known"))
    else:
        planners[ROUTED] = joint_planner(observation, names, wishes, unit, priced)
    if len(observation.offers.publisher):
        planners[CHANNELS] = Strategy4()
    else:
        left_out.append((CHANNELS, "no advertisements: ingest that table"))
    if len(observation.interests) and network.brokers < 2:
        try:
            mesh = choose_mesh(observation, wishes, names, progress)
        except NothingBetter as error:
            return Chosen(planners, [*left_out, (MESH, str(error))], None, str(error))
        return Chosen({**planners, MESH: mesh.planner}, left_out, mesh)
    why = "there are brokers" if network.brokers >= 2 else "no interests: ingest that table"
    return Chosen(planners, [*left_out, (MESH, why)])


def joint_planner(observation: Observation, names: Names, wishes: Wishes, unit: str, priced: bool = True) -> Joint:
    """The planner for placement and tree, with the user's limits as ids; where no link is priced, none is new."""
    network = observation.network
    if wishes.placement == "region" and not network.regions_given(names):
        raise BadParameter("--placement region: no regions are given. Ingest brokers with a region, or leave it out.")
    stay = wishes.placement == "region" or (
        wishes.placement is None and network.regions_given(names) and not places_known(network)
    )
    by_bytes = wishes.objective == "bytes" or (wishes.objective == "cost" and unit == "gb")
    objective: Any = "messages" if wishes.objective == "bytes" else wishes.objective
    stays = kept_by(wishes, network, observation.overlay.tree, observation.clients, names)
    return Joint(
        budget=wishes.budget, max_moves=wishes.max_moves, max_swaps=wishes.max_swaps, objective=objective,
        weight="bytes" if by_bytes else "messages", min_gain=wishes.min_step, sent_cap=wishes.sent_cap or None,
        handled_cap=wishes.handled_cap or None, head_room=wishes.head_room,
        max_degree=wishes.max_degree, max_cut=wishes.max_cut,
        wired_only=bool(wishes.could_wire) or not priced,
        may_wire=link_rows(wishes.could_wire, network, names), within_region=stay, effort=wishes.effort,
        only=stays.only, keep=stays.clients,
        keep_brokers=stays.brokers, keep_links=stays.links,
    )  # fmt: skip


def link_costs_known(trace: Trace) -> bool:
    """Whether any link of a trace has a cost: one that is not wired could then be."""
    return not np.isnan(columns(trace, "links", "cost")["cost"]).all()
