"""Newcomers under a plan: where its rule sends them, and what that comes to."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import Literal, NamedTuple

import numpy as np

from overlace.arrays.jit import Ints
from overlace.model import Names, Observation, Overlay, name_of
from overlace.observe.later import Later, had_traffic
from overlace.optimize.interval import total
from overlace.optimize.scope import matches
from overlace.planners.joint.joint import Joint
from overlace.planners.newcomers import (
    COMMUNITY,
    REGION,
    NewClients,
    NewcomerRule,
    Room,
    by_place,
    communities_of,
    regions_at,
    rules_of,
    settle,
    talk_of,
)
from overlace.planners.search.problem import SearchProblem, loads_at
from overlace.trace.judgement import GroupCost
from overlace.trace.plan_file import Newcomers


class PinnedClients(NamedTuple):
    """Clients that stay where they connect, also newcomers, by name or pattern."""

    keep: tuple[str, ...] = ()
    only: tuple[str, ...] = ()  # where there are any, all others stay

    def holds(self, name: str) -> bool:
        """Whether the client of this name stays."""
        kept = any(matches(name, pattern) for pattern in self.keep)
        return kept or (len(self.only) > 0 and not any(matches(name, pattern) for pattern in self.only))


NONE_PINNED = PinnedClients()


@dataclass(frozen=True, eq=False)
class NewClientRule:
    """How a plan places new clients: by a rule, under its planner's limits; pinned ones stay where they connect."""

    planner: Joint
    observation: Observation
    rule: str = ""  # none: they stay where they connect
    seed: int = 0
    pinned: PinnedClients = NONE_PINNED

    def overlay(self, follows: Later, after: Overlay) -> Overlay:
        """An overlay with the newcomers of later traffic where the rule sends them, or where the log shows them."""
        rule = self.rule_for(after)
        return follows.overlay(after, self.homes(follows, after, rule) if rule else None)

    def rule_for(self, after: Overlay) -> NewcomerRule | None:
        """The rule for an overlay; None where there is none."""
        if not self.rule:
            return None
        communities = self.communities if self.rule == COMMUNITY and len(self.observation.flows.sender) else None
        found = rules_of(self.observation, after, [self.rule], self.seed, communities)
        return found[0] if found else None

    def homes(self, follows: Later, after: Overlay, rule: NewcomerRule) -> Ints:
        """The home of each newcomer by a rule."""
        new, network = follows.arrivals, self.observation.network
        region = new.region if by_place(self.observation) else regions_at(network, new.home)
        contact = new.contact
        if any(self.pinned):
            stays = np.array([self.pinned.holds(name) for name in follows.called], dtype=np.bool_)
            contact, region = np.where(stays, -1, contact), np.where(stays, -1, region)
        arrivals = NewClients(contact, new.home, region, new.client)
        return settle(rule, self.room(after), after, network.costs_of(after.tree), arrivals)

    @cached_property
    def communities(self) -> Ints:
        """The community of each known client."""
        return communities_of(self.observation, self.seed)

    @cached_property
    def problem(self) -> SearchProblem:
        """What the planner counts, and its limits."""
        return self.planner.problem(self.observation)

    def room(self, after: Overlay) -> Room:
        """What brokers bear with an overlay, and what they may, in what the planner counts."""
        problem, network, planner = self.problem, self.observation.network, self.planner
        limits, brokers = problem.limits, network.brokers
        home = np.maximum(after.homes(self.observation.clients), 0)
        links = np.sort(after.tree, axis=1).reshape(-1, 2)
        sent, handled = (each[:brokers] for each in loads_at(limits, problem.load, home, links, problem.wires))
        clients = max(1, int(had_traffic(self.observation).sum()))
        borne = float((problem.load.demand * np.diff(problem.load.start)).sum())
        may = network.region >= 0
        may[list(planner.keep_brokers)] = False
        area = network.region if planner.within_region else np.zeros(brokers, dtype=np.int64)
        caps = limits.sent_cap[:brokers], limits.handled_cap[:brokers]
        each = float(limits.sent.sum()) / clients, borne / clients
        return Room(sent, caps[0], handled, caps[1], *each, clients, may, area)


def describe_rule(placing: NewClientRule, after: Overlay, names: Names) -> Newcomers | None:
    """The rule of an overlay as plan.json has it, by names."""
    rule, observation = placing.rule_for(after), placing.observation
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
    return Newcomers(rule=rule.name, brokers=called, keep=list(placing.pinned.keep), only=list(placing.pinned.only))


def split_clients(later: Later, before: Overlay, after: Overlay, unit: str, metric: str) -> list[GroupCost]:
    """What messages of known clients cost before and after, and those with a newcomer; overlays are the stage's."""
    found = []
    clients: tuple[Literal["known", "newcomers"], ...] = ("known", "newcomers")
    for who, mine in zip(clients, (~later.fresh, later.fresh), strict=True):
        rows = later.rows(np.flatnonzero(mine))
        paid = [total(later.stage, each, rows, unit, metric) if rows.num_rows else 0.0 for each in (before, after)]
        found.append(GroupCost(clients=who, before=paid[0], after=paid[1]))
    return found
