"""What limits a plan: every limit in force and what lifting it would bring, limits that stay broken, and defaults."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa

from overlace.arrays.jit import Floats, Ints
from overlace.arrays.pairs import positions
from overlace.errors import NothingBetter
from overlace.limits import Limits, as_flag
from overlace.metrics import Metrics
from overlace.model import Network, Observation, Overlay, Progress, name_of
from overlace.optimize.case import Case
from overlace.optimize.scope import by_kind, ids_matching
from overlace.planners.joint.joint import Joint
from overlace.planners.joint.problem import capacity_of
from overlace.planners.search.problem import Problem
from overlace.planners.search.system import root_tree, traffic_cost
from overlace.replay.measure import measure
from overlace.stopping import asked
from overlace.wording import counted

TIGHTER = 6  # tries to keep max_cut
LEAST = 0.0005
"""The share below which more is nothing to speak of."""


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


def assumptions(case: Case, planner: Joint) -> list[str]:
    """What the plan takes for granted because nobody said otherwise, a line each."""
    limits, network = case.limits, case.observation.network
    lines = []
    if limits.placement is None and not planner.within_region and not places_known(network):
        lines.append("any broker is taken to serve any client equally well; access costs or --only limit that")
    if note := case.grouped.note():
        lines.append(note)
    unwired = positions(case.observation.overlay.tree, network.links) < 0
    if case.goal.objective == "latency":
        if unknown := int((unwired & ~network.measured).sum()):
            were = counted(unknown, "link is no candidate", "links are no candidates")
            lines.append(f"{were}: the latency was not measured")
        unwired &= network.measured
    new = int((unwired[list(planner.may_wire)] if planner.wired_only else unwired).sum())
    listed = "listed with a cost" + (" and a measured latency" if case.goal.objective == "latency" else "")
    which = "that --allow-link names" if limits.allow_link else f"that are {listed} and not wired"
    if 0 in (planner.budget, planner.max_swaps):
        lines.append("no link may change")
    else:
        could = counted(new, "link could", "links could")
        lines.append(f"{could} be new, those {which}" if new else f"no link could be new: none is {listed}")
    if case.goal.objective == "cost" and not case.links_priced:
        lines.append("no link has a cost: each counts 1")
    defaults = {
        "handled_cap": "times what today's busiest broker handles",
    }
    if np.isfinite(network.capacity).any():
        defaults["head_room"] = "share of a capacity that stays free"
    values = {name: getattr(limits, name) or 0 for name in defaults if name not in case.given}
    taken = [f"{as_flag(name)} {value:g} ({defaults[name] if value else 'none'})" for name, value in values.items()]
    return [*lines, f"limits by default: {', '.join(taken)}"] if taken else lines


def places_known(network: Network) -> bool:
    """Whether it is known where clients are and what it takes to reach a broker from there."""
    return len(network.client_region) > 0 and bool(network.access_cost.size or network.access_latency_us.size)


class Measured(NamedTuple):
    """What an overlay comes to in the training window."""

    cost: float
    cut_share: float  # of deliveries that the worst failure of a broker cuts off


def limits_in_force(
    case: Case,
    planner: Joint,
    ahead: Observation | None,
    after: Overlay,
    measured: Callable[[Overlay], Measured],
    progress: Progress | None = None,
) -> list[str]:
    """Every limit in force with its price: what the plan would save without it, and what that would put at risk.

    Descent goes on from the plan, in a small part of the search's time: what is found is the least there is.
    """
    observation, lines = case.observation, []
    traffic, plain = (observation, None) if ahead is None else (ahead, observation)
    today, now = measured(observation.overlay), measured(after)

    def saved(found: Measured) -> float:
        return 1 - found.cost / today.cost if today.cost > 0 else 0.0

    lifts = _lifts(case, planner)
    for i, (text, lifted) in enumerate(lifts.items()):
        if not lifted:
            lines.append(text)
            continue
        if asked():
            lines.append(f"{text}; what lifting it would bring was not asked")
            continue
        if progress:
            progress(i / len(lifts), text.partition(" (")[0])
        found = measured(replace(planner, method="joint", **lifted).go_on(traffic, after, plain))
        if saved(found) - saved(now) > LEAST:
            price = f"{saved(found):.1%} less instead of {saved(now):.1%} in the training window"
            lines.append(f"{text}; without it: {price}{_risk(found, now)}")
        else:
            lines.append(f"{text}; without it: nothing more was found")
    return lines


def _risk(found: Measured, now: Measured) -> str:
    """What the worst failure would cut off, where that is another share."""
    shares = f"{found.cut_share:.0%}", f"{now.cut_share:.0%}"
    return f"; the worst failure would cut off {shares[0]} of deliveries instead of {shares[1]}" * (
        shares[0] != shares[1]
    )


def _lifts(case: Case, planner: Joint) -> dict[str, dict[str, Any]]:
    """By what a limit says, the planner's fields without it; none where nobody can tell what that would bring."""
    observation, limits = case.observation, case.limits
    found: dict[str, dict[str, Any]] = {}

    def flags(*names: str) -> str:
        values = {name: getattr(planner, name) for name in names}
        return ", ".join(f"{as_flag(name)} {value:g}" for name, value in values.items() if value)

    if planner.within_region:
        found["nobody leaves its region (--placement anywhere lifts it)"] = {"within_region": False}
    links, wired = observation.network.links, positions(observation.overlay.tree, observation.network.links) >= 0
    wired[list(planner.may_wire)] = True
    if planner.wired_only and not wired.all():
        why = "only these links may be new" if limits.allow_link else "existing links only: no other has a cost"
        found[f"{why} (--allow-link 'LEFT*:RIGHT*' allows others)"] = {"wired_only": False, "may_wire": ()}
    elif len(links) <= len(observation.overlay.tree):
        found["existing links only; the trace names no others, so what they would bring is not known"] = {}
    changes = {name: None for name in ("budget", "max_moves", "max_swaps") if getattr(planner, name) is not None}
    if changes:
        shown = ", ".join(f"{as_flag(name)} {getattr(planner, name)}" for name in changes)
        found[f"changes ({shown})"] = changes
    for name, what in (("sent_cap", "what clients of a broker send"), ("handled_cap", "what a broker handles")):
        if getattr(planner, name):
            found[f"{what} ({flags(name)}; 0: unlimited)"] = {name: None}
    if np.isfinite(observation.network.capacity).any():
        found[f"capacity of brokers (--head-room {planner.head_room:g} of it stays free)"] = {"head_room": 0.0}
    if planner.max_degree is not None:
        found[f"links of a broker ({flags('max_degree')})"] = {"max_degree": None}
    if limits.max_cut is not None:
        found[f"worst single failure (--max-cut {limits.max_cut:g})"] = {"max_cut": None}
    if planner.min_step:
        found[f"what every change must save ({flags('min_step')})"] = {"min_step": 0.0}
    if limits.keep or limits.only:
        shown = " and ".join(f"--{name}" for name in ("keep", "only") if getattr(limits, name))
        still = ids_matching(by_kind(case.grouped.keep)["client"], "client", observation.clients, case.names)
        found[f"what stays ({shown})"] = {"keep": still, "only": (), "keep_brokers": (), "keep_links": ()}
    return found


def broken_limits(case: Case, planner: Joint, after: Overlay, cut_shares: Sequence[Floats]) -> dict[str, str]:
    """Limits that the plan does not keep, since today's overlay does not, either: by option, a line each.

    `cut_shares` are the shares of deliveries that fail with each broker, in the training window, today and after.
    """
    observation, limits = case.observation, case.limits
    problem = planner.problem(observation)
    sent = observation.sent[observation.overlay.homes(observation.clients) >= 0]  # of those that planning counts
    mean = float(sent.sum()) / max(1, int((observation.network.region >= 0).sum()))
    loads = [loads_of(problem, overlay, observation) for overlay in (observation.overlay, after)]
    measured: dict[str, tuple[Sequence[Floats | Ints], Floats | float]] = {
        "sent_cap": ([load.sent for load in loads], max((limits.sent_cap or 0) * mean, float(sent.max(initial=0)))),
        "handled_cap": ([load.handled for load in loads], (limits.handled_cap or 0) * loads[0].handled.max()),
        "head_room": ([load.handled for load in loads], capacity_of(observation) * (1 - limits.head_room)),
        "max_degree": ([load.degree for load in loads], limits.max_degree or 0),
        "max_cut": (cut_shares, limits.max_cut or 0),
    }
    found = {}
    for name, ((today, load), limit) in measured.items():
        most = np.broadcast_to(limit, load.shape)
        over = int((load > most * (1 + 1e-9)).sum())
        if not over or (not getattr(limits, name) and name != "head_room"):
            continue
        worst = int((load / np.maximum(most, 1e-12)).argmax())
        who = name_of("broker", worst, case.names)
        reached, wanted = (f"{x:.1%}" if name == "max_cut" else f"{x:,.0f}" for x in (load[worst], most[worst]))
        source = "was asked for" if name in case.given else "is the default"
        as_today = ", as today" if (today > most * (1 + 1e-9)).sum() >= over else ""
        flag = f"{as_flag(name)} {getattr(limits, name):g}"
        stay = counted(over, "broker stays", "brokers stay")
        found[name] = f"{stay} above {flag}{as_today}: {who} has {reached} where {wanted} {source}"
    return found


def broken_later(
    observation: Observation, limits: Limits, before: Metrics, after: Metrics, window: tuple[int, int] = (0, 0)
) -> list[str]:
    """Limits that hold where the plan was made and not on held-out traffic, a line each."""
    lines: list[str] = []
    if "max_broker_load" not in after:
        return lines
    cap, (was, now) = limits.handled_cap, (each.of("max_broker_load") for each in (before, after))
    if cap and now > cap * was * (1 + 1e-9):
        lines.append(f"the busiest broker handles {now:,.0f} messages, above --handled-cap {cap:g} ({was:,.0f} today)")
    cut, (was, now) = limits.max_cut, (each.of("cut_share_max") for each in (before, after))
    if cut and now > cut * (1 + 1e-9):
        lines.append(f"{now:.1%} of the deliveries fail with one broker, above --max-cut {cut:g} ({was:.1%} today)")
    network, cap = observation.network, limits.sent_cap
    if cap:
        then, sent = (by_broker(each, "sent", network.brokers) for each in (before, after))
        mean = float(sent.sum()) / max(1, int((network.region >= 0).sum()))
        over = int((sent > cap * mean * (1 + 1e-9)).sum())
        if over and mean:
            who = f"clients of {counted(over, 'broker', 'brokers')}"
            was, now = (float(each.max() / mean) for each in (then, sent))
            lines.append(f"{who} send more than --sent-cap {cap:g} times the mean ({now:.2f} at most, {was:.2f} today)")
    known = np.isfinite(network.capacity)
    room = network.capacity[known] * (window[1] - window[0]) / 1e6 * (1 - limits.head_room)
    handled = by_broker(after, "handled", network.brokers)[known]
    if window[1] > window[0] and (full := int((handled > room * (1 + 1e-9)).sum())):
        who = counted(full, "broker leaves", "brokers leave")
        lines.append(f"{who} less than --head-room {limits.head_room:g} of the capacity free")
    return [f"on held-out traffic, {line}" for line in lines]


class Loads(NamedTuple):
    """What each broker bears, in what the planner counts."""

    sent: Floats
    handled: Floats
    degree: Ints


def loads_of(problem: Problem, overlay: Overlay, observation: Observation) -> Loads:
    """What each broker bears with an overlay."""
    brokers = observation.network.brokers
    home = overlay.homes(observation.clients)
    tree, area = root_tree(overlay.tree, problem.wires), problem.limits.area
    _, handled = traffic_cost(problem.load, np.maximum(home, 0), tree, problem.node, area, len(problem.node))
    placed = home >= 0
    sent = np.bincount(home[placed], weights=observation.sent[placed], minlength=brokers).astype(np.float64)
    return Loads(sent, handled, np.bincount(overlay.tree.ravel(), minlength=brokers))


def by_broker(metrics: Metrics, metric: str, brokers: int) -> Floats:
    """A metric of each broker, 0 where it was not measured."""
    mine = (metrics.metric == metric) & (metrics.scope == "broker")
    found = np.zeros(brokers)
    found[metrics.key[mine]] = metrics.value[mine]
    return found


def load_limits(observation: Observation, planner: Joint) -> dict[str, list[float | None]]:
    """What each broker may send and handle at most, as a share of all messages observed; None is unlimited."""
    total = float(observation.sent.sum())
    if not total:
        return {}
    limits = planner.problem(observation).limits
    return {
        name: [float(cap) / total if np.isfinite(cap) else None for cap in caps]
        for name, caps in (("sent", limits.sent_cap), ("handled", limits.handled_cap))
    }
