"""What binds a plan: the share of deliveries that may fail with a broker, limits that stay broken, and what lifting the
bounds on regions and links would bring."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

import numpy as np
import pyarrow as pa

from overlace.arrays.jit import Floats
from overlace.errors import NothingBetter
from overlace.jobs.replay import Replayed
from overlace.jobs.wishes import Wishes
from overlace.joint.joint import Joint
from overlace.model import Metrics, Names, Observation, Overlay, name_of
from overlace.planfile import PlanFile, read_columns, read_plan
from overlace.replay.measure import measure

TIGHTER = 6  # tries to keep max_cut


def within_cut(planner: Joint, observation: Observation, rows: pa.Table, unit: str, wishes: Wishes) -> Joint:
    """The planner with its limit so tight that no broker is on the way of more deliveries than the user allows.

    The planner counts messages that pass a broker, `max_cut` is about deliveries that fail with it: where the plan
    goes beyond it, and beyond what is there today, the planner's limit is lowered and it plans again.
    """

    def cut_share(overlay: Overlay) -> float:
        return measure(observation, overlay, rows, unit).of("cut_share_max")

    allowed = max(wishes.max_cut or 1.0, cut_share(observation.overlay))
    for _ in range(TIGHTER):
        reached = cut_share(planner.solve(observation, wishes.seed).after)
        if reached <= allowed + 1e-12:
            return planner
        planner = replace(planner, max_cut=0.98 * (planner.max_cut or 1.0) * allowed / reached)
    raise NothingBetter(
        f"no plan was found in which every broker carries at most {allowed:.1%} of the deliveries (the nearest has one "
        f"with {reached:.1%}). Raise max_cut, or allow other links with --could-wire."
    )


def bounds_of(observation: Observation, planner: Joint, document: PlanFile) -> list[str]:
    """What bound the plan, and what lifting it would bring on the part that planned."""
    said, now = [], document.cost_after
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
        other = replace(planner, effort=0, **lifted)  # type: ignore[arg-type]
        reached = other.cost(observation, other.solve(observation, document.seed).after)
        if document.cost_before > 0 and reached < now - 1e-9 * document.cost_before:
            more = (now - reached) / document.cost_before
            said.append(f"{text}; lifted, the plan would save {more:.1%} more of today's cost on the part that planned")
    return said


def broken_by(
    observation: Observation, names: Names, wishes: Wishes, folder: Path, done: Sequence[Replayed]
) -> dict[str, str]:
    """Limits of the user that the plan does not keep, since today's overlay does not: by the wish, a line each."""
    before, after = (
        next(each.metrics for each in done if (each.plan, each.part) == (which, "train")) for which in ("", folder.name)
    )
    overlay, _ = read_columns(folder, read_plan(folder))
    network, total = observation.network, float(observation.sent.sum())
    mean = total / max(1, int((network.region >= 0).sum()))
    degree = np.bincount(overlay.tree.ravel(), minlength=network.brokers)
    asked = {
        "sent_cap": (
            by_broker(after, "sent", network.brokers),
            max((wishes.sent_cap or 0) * mean, observation.sent.max()),
        ),
        "handled_cap": (
            by_broker(after, "handled", network.brokers),
            (wishes.handled_cap or 0) * by_broker(before, "handled", network.brokers).max(),
        ),
        "max_degree": (degree, wishes.max_degree or 0),
    }
    said = {}
    for name, (load, most) in asked.items():
        if getattr(wishes, name) is not None and load.max() > most * (1 + 1e-9):
            who, over = name_of("broker", int(load.argmax()), names), int((load > most * (1 + 1e-9)).sum())
            asked_for = name in wishes.model_fields_set
            said[name] = (
                f"{over} brokers stay above {name.replace('_', '-')} {getattr(wishes, name):g}, as they are today: "
                f"{who} has {load.max():,.0f} where {most:,.0f} {'was asked for' if asked_for else 'is the default'}"
            )
    return said


def by_broker(metrics: Metrics, metric: str, brokers: int) -> Floats:
    """A metric of each broker, 0 where it was not measured."""
    mine = (metrics.metric == metric) & (metrics.scope == "broker")
    found = np.zeros(brokers)
    found[metrics.key[mine]] = metrics.value[mine]
    return found


def limits_of(observation: Observation, planner: Joint) -> dict[str, list[float | None]]:
    """What each broker may send and handle at most, as a share of the messages that planned; None is unlimited."""
    total = float(observation.sent.sum())
    if not total or planner.weight == "bytes" or planner.objective == "hops":
        return {}
    limits = planner.problem(observation).limits
    return {
        name: [float(cap) / total if np.isfinite(cap) else None for cap in caps]
        for name, caps in (("sent", limits.sent_cap), ("handled", limits.handled_cap))
    }
