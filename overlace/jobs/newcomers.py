"""Newcomers under a plan: where its rule sends them, and what that comes to."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from overlace.arrays.jit import Ints
from overlace.jobs.interval import total
from overlace.model import Names, Observation, Overlay, name_of
from overlace.observe.later import Later, had_traffic
from overlace.planners.joint.joint import Joint
from overlace.planners.newcomers import COMMUNITY, REGION, Room, Rule, rules_of, settle, talk_of
from overlace.planners.search.problem import loads_at
from overlace.trace.plans import Newcomers


def room_of(planner: Joint, observation: Observation, after: Overlay) -> Room:
    """What brokers bear with an overlay, and what they may, in what the planner counts."""
    problem, network = planner.problem(observation), observation.network
    limits, brokers = problem.limits, network.brokers
    home = np.maximum(after.homes(observation.clients), 0)
    links = np.sort(after.tree, axis=1).reshape(-1, 2)
    sent, handled = (each[:brokers] for each in loads_at(limits, problem.load, home, links, problem.wires))
    clients = max(1, int(had_traffic(observation).sum()))
    borne = float((problem.load.demand * np.diff(problem.load.start)).sum())
    may = network.region >= 0
    may[list(planner.keep_brokers)] = False
    area = network.region if planner.within_region else np.zeros(brokers, dtype=np.int64)
    return Room(
        sent, limits.sent_cap[:brokers], handled, limits.handled_cap[:brokers], float(limits.sent.sum()) / clients,
        borne / clients, clients, may, area,
    )  # fmt: skip


def placed(planner: Joint, later: Later, after: Overlay, rule: Rule | None) -> Overlay:
    """An overlay with the newcomers of later traffic where a rule sends them, or where the log shows them."""
    return later.overlay(after, homes_by(planner, later, after, rule) if rule else None)


def homes_by(planner: Joint, later: Later, after: Overlay, rule: Rule) -> Ints:
    """The home of each newcomer by a rule."""
    observation, new = later.observation, later.arrivals
    network = observation.network
    region = new.region
    if not len(network.client_region):
        region = np.where(new.home >= 0, network.region[np.maximum(new.home, 0)], -1)
    cost = network.costs_of(after.tree)
    return settle(rule, room_of(planner, observation, after), after, cost, new.contact, new.home, region, new.client)


def rule_named(name: str, observation: Observation, after: Overlay, seed: int) -> Rule | None:
    """The rule of that name for an overlay; None where there is none."""
    found = rules_of(observation, after, [name], seed) if name else []
    return found[0] if found else None


def described(rule: Rule | None, observation: Observation, names: Names) -> Newcomers | None:
    """A rule as plan.json has it, by names."""
    if rule is None:
        return None
    called = {}
    if rule.name == COMMUNITY:
        talk, size = talk_of(observation), np.bincount(rule.group)
        order = np.lexsort((-np.arange(len(talk)), talk))  # the last is who talks most
        leader = np.full(len(size), -1)
        leader[rule.group[order]] = order
        for g in np.flatnonzero((size > 1) & (rule.broker >= 0)).tolist():
            who = name_of("client", int(leader[g]), names)
            called[f"community of {who}"] = name_of("broker", int(rule.broker[g]), names)
    elif rule.name == REGION:
        for g in np.flatnonzero(rule.broker >= 0).tolist():
            called[name_of("region", g, names)] = name_of("broker", int(rule.broker[g]), names)
    return Newcomers(rule=rule.name, brokers=called)


class Apart(NamedTuple):
    """What messages cost before and after a plan: those of known clients only, and those with a newcomer."""

    known: tuple[float, float]
    new: tuple[float, float]


def apart(later: Later, before: Overlay, after: Overlay, unit: str, metric: str) -> Apart:
    """Both, by a metric; the overlays are those of the stage."""
    sums = []
    for mine in (~later.fresh, later.fresh):
        rows = later.rows(np.flatnonzero(mine))
        both = [total(later.stage, each, rows, unit, metric) if rows.num_rows else 0.0 for each in (before, after)]
        sums.append((both[0], both[1]))
    return Apart(*sums)
