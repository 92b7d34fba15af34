"""What limits a plan: every limit in force and what lifting it would bring, limits that stay broken, and defaults."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import NamedTuple

import numpy as np

from overlace.arrays.jit import Floats, Ints
from overlace.arrays.pairs import positions
from overlace.limits import Limits, as_flag
from overlace.metrics import Metrics
from overlace.model import Observation, Overlay, Progress, name_of
from overlace.optimize.plan import places_known
from overlace.optimize.scope import by_kind, ids_matching
from overlace.optimize.task import Task
from overlace.optimize.words import FREE, RISK
from overlace.planners.joint.joint import Joint
from overlace.planners.search.limits import capacity_of
from overlace.planners.search.problem import SearchProblem
from overlace.planners.search.system import root_tree, traffic_cost
from overlace.stopping import asked
from overlace.wording import counted

LEAST = 0.0005
"""The share below which more is nothing to speak of."""


def assumptions(task: Task, planner: Joint) -> list[str]:
    """What the plan takes for granted because nobody said otherwise, a line each."""
    limits, network = task.limits, task.observation.network
    lines = []
    if limits.placement is None and not planner.within_region and not places_known(network):
        lines.append(
            "clients may move to any broker: where they are is not known; --only or a table access limits that"
        )
    if note := task.grouped.note():
        lines.append(note)
    unwired = positions(task.observation.overlay.tree, network.links) < 0
    if task.goal.objective == "latency":
        if unknown := int((unwired & ~network.measured).sum()):
            were = counted(unknown, "link is no candidate", "links are no candidates")
            lines.append(f"{were}: the latency was not measured")
        unwired &= network.measured
    new = int((unwired[list(planner.may_wire)] if planner.wired_only else unwired).sum())
    listed = "listed with a cost" + (" and a measured latency" if task.goal.objective == "latency" else "")
    which = "that --allow-link names" if limits.allow_link else f"that are {listed} and not wired"
    if new and 0 not in (planner.budget, planner.max_swaps):
        lines.append(f"{counted(new, 'link could', 'links could')} be new, those {which}")
    if task.goal.objective == "cost" and not task.links_priced:
        lines.append("no link has a cost: each is taken to cost 1")
    return lines


class Measured(NamedTuple):
    """What an overlay comes to in the training window."""

    cost: float
    cut_share: float  # of deliveries that the worst failure of a broker cuts off


def limits_in_force(
    task: Task,
    planner: Joint,
    ahead: Observation | None,
    after: Overlay,
    measured: Callable[[Overlay], Measured],
    progress: Progress | None = None,
) -> list[str]:
    """Every limit in force with its price, the highest first: what the plan would save without it, and what it risks.

    Descent goes on from the plan, in a small part of the search's time: what is found is the least there is.
    """
    observation, lines = task.observation, []
    traffic, plain = (observation, None) if ahead is None else (ahead, observation)
    today, now = measured(observation.overlay), measured(after)

    def saved(found: Measured) -> float:
        return 1 - found.cost / today.cost if today.cost > 0 else 0.0

    limits, gains = limits_of(task, planner), dict[str, float]()  # what lifting one brings, by its line
    for i, (limit, text) in enumerate(limits.items()):
        if limit not in planner.limits:  # what lifting it would bring is not known
            lines.append(text)
            continue
        if asked():
            lines.append(f"{text}; what lifting it would bring was not asked")
            continue
        if progress:
            progress(i / len(limits), text.partition(" (")[0])
        free = planner.relax(limit)
        if limit == "keep":
            still = ids_matching(by_kind(task.grouped.keep)["client"], "client", observation.clients, task.names)
            free = replace(free, keep=still)
        found = measured(replace(free, method="joint").go_on(traffic, after, plain))
        if saved(found) - saved(now) > LEAST:
            price = f"{saved(found):.1%} less instead of {saved(now):.1%} in the training window"
            shares = f"{found.cut_share:.0%}", f"{now.cut_share:.0%}"
            risk = f"{RISK}{shares[0]} of deliveries instead of {shares[1]}"
            lines.append(f"{text}; without it: {price}{risk if shares[0] != shares[1] else ''}")
            gains[lines[-1]] = saved(found)
        else:
            lines.append(f"{text}; without it: {FREE}")
    return sorted(lines, key=lambda line: -gains.get(line, 0.0))


def limits_of(task: Task, planner: Joint) -> dict[str, str]:
    """The limits that bind a plan, each in words, by their names; some are of the trace and not of the planner."""
    network, tree, asked_for = task.observation.network, task.observation.overlay.tree, task.limits

    def flag(name: str) -> str:
        return f"{as_flag(name)} {getattr(planner, name):g}{'' if name in task.given else ', the default'}"

    changes = [name for name in ("budget", "max_moves", "max_swaps") if getattr(planner, name) is not None]
    wired = positions(tree, network.links) >= 0
    wired[list(planner.may_wire)] = True
    only = "only these links may be new" if asked_for.allow_link else "existing links only: no other has a cost"
    words = {
        "within_region": "clients stay in their region (--placement anywhere lifts it)",
        "wired_only": f"{only} (--allow-link 'LEFT*:RIGHT*' allows others)",
        "trace": "existing links only; the trace names no others, so what they would bring is not known",
        "budget": f"changes ({', '.join(f'{as_flag(name)} {getattr(planner, name)}' for name in changes)})",
        "sent_cap": f"what a broker's clients send ({flag('sent_cap')})" if planner.sent_cap else "",
        "handled_cap": f"what a broker handles ({flag('handled_cap')})" if planner.handled_cap else "",
        "head_room": f"free capacity of brokers ({flag('head_room')})",
        "max_degree": f"links of a broker ({flag('max_degree')})" if planner.max_degree else "",
        "max_cut": f"worst failure of a broker (--max-cut {asked_for.max_cut or 0:g})",
        "min_step": f"what every change must save ({flag('min_step')})",
        "keep": f"what stays ({' and '.join(f'--{name}' for name in ('keep', 'only') if getattr(asked_for, name))})",
    }
    binding = {*planner.limits, "head_room"}
    if wired.all():
        binding.discard("wired_only")
    if "wired_only" not in binding and len(network.links) <= len(tree):
        binding.add("trace")
    if not np.isfinite(network.capacity).any():
        binding.discard("head_room")
    binding.discard("keep")
    if asked_for.keep or asked_for.only:
        binding.add("keep")
    return {name: text for name, text in words.items() if name in binding}


def broken_limits(task: Task, planner: Joint, after: Overlay, cut_shares: Sequence[Floats]) -> dict[str, str]:
    """Limits that the plan does not keep, since today's overlay does not, either: by option, a line each.

    `cut_shares` are the shares of deliveries that fail with each broker, in the training window, today and after.
    """
    observation, limits = task.observation, task.limits
    problem = planner.problem(observation)
    sent = observation.sent[observation.overlay.homes(observation.clients) >= 0]  # of those that planning counts
    mean = float(sent.sum()) / max(1, int((observation.network.region >= 0).sum()))
    sent_by, handled_by, degrees = zip(
        *(loads_of(problem, overlay, observation) for overlay in (observation.overlay, after)), strict=True
    )
    measured: dict[str, tuple[Sequence[Floats | Ints], Floats | float]] = {
        "sent_cap": (sent_by, max((limits.sent_cap or 0) * mean, float(sent.max(initial=0)))),
        "handled_cap": (handled_by, (limits.handled_cap or 0) * handled_by[0].max()),
        "head_room": (handled_by, capacity_of(observation) * (1 - limits.head_room)),
        "max_degree": (degrees, limits.max_degree or 0),
        "max_cut": (cut_shares, limits.max_cut or 0),
    }
    found = {}
    for name, ((today, load), limit) in measured.items():
        most = np.broadcast_to(limit, load.shape)
        over = int((load > most * (1 + 1e-9)).sum())
        if not over or (not getattr(limits, name) and name != "head_room"):
            continue
        worst = int((load / np.maximum(most, 1e-12)).argmax())
        who = name_of("broker", worst, task.names)
        reached, wanted = (f"{x:.1%}" if name == "max_cut" else f"{x:,.0f}" for x in (load[worst], most[worst]))
        source = "was asked for" if name in task.given else "is the default"
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


def loads_of(problem: SearchProblem, overlay: Overlay, observation: Observation) -> tuple[Floats, Floats, Ints]:
    """(sent, handled, degree) of each broker with an overlay, as the planner measures them."""
    brokers = observation.network.brokers
    home = overlay.homes(observation.clients)
    tree, area = root_tree(overlay.tree, problem.wires), problem.limits.area
    _, handled = traffic_cost(problem.load, np.maximum(home, 0), tree, problem.node, area, len(problem.node))
    placed = home >= 0
    sent = np.bincount(home[placed], weights=observation.sent[placed], minlength=brokers).astype(np.float64)
    return sent, handled, np.bincount(overlay.tree.ravel(), minlength=brokers)


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
