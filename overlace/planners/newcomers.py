"""Where to connect a client that a plan has never seen: a rule, not a list.

A newcomer goes where whom it met first is, or where most of the traffic of that one's community is, or of the region
it is in. Where the rule names no broker it stays where it connected; where a broker is full, the nearest with room
takes it. Until it has sent and received, nobody knows how much that will be: it counts as a mean client, and limits
grow with the number of clients.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from overlace.arrays.communities import communities_at
from overlace.arrays.jit import Bools, Floats, Ints, kernel
from overlace.arrays.trees import Rooted, common_ancestor, from_root, root_at
from overlace.model import Network, Observation, Overlay

CONTACT, COMMUNITY, REGION = "first-contact", "community", "region"
RULES = (CONTACT, COMMUNITY, REGION)
"""What of a newcomer can decide."""


class Room(NamedTuple):
    """What brokers bear with a plan, and may bear at most; what a mean client adds."""

    sent: Floats
    sent_cap: Floats
    handled: Floats
    handled_cap: Floats
    each_sent: float
    each_handled: float
    clients: int  # that are there already
    may: Bools  # whether a broker takes clients
    area: Ints  # brokers that clients may change between; all alike where they may go anywhere


@dataclass(frozen=True)
class NewcomerRule:
    """A rule for newcomers to an overlay."""

    name: str
    group: Ints  # of each known client, or of each region: what the rule goes by
    broker: Ints  # the broker of each group; -1: none


class NewClients(NamedTuple):
    """Newcomers in the order in which they come; -1 where something is not known."""

    contact: Ints  # the client that each met first
    home: Ints  # where the log shows it
    region: Ints
    client: Ints  # its number


def rules_of(
    observation: Observation,
    after: Overlay,
    names: Sequence[str] = RULES,
    seed: int = 0,
    communities: Ints | None = None,
) -> list[NewcomerRule]:
    """The rules that can be told from what was observed, for an overlay that a plan leads to."""
    homes, talk = after.homes(observation.clients), talk_of(observation)
    found = []
    for name in names:
        if name == CONTACT:
            found.append(NewcomerRule(name, np.arange(observation.clients), homes))
        elif name == COMMUNITY and len(observation.flows.sender):
            group = communities_of(observation, seed) if communities is None else communities
            found.append(NewcomerRule(name, group, _heaviest(group, homes, talk, observation.network.brokers)))
        elif name == REGION and (regions := regions_of(observation, homes)) is not None:
            found.append(NewcomerRule(name, regions, _heaviest(regions, homes, talk, observation.network.brokers)))
    return found


def talk_of(observation: Observation) -> Floats:
    """The messages of each client's classes."""
    classes = observation.classes
    amount = np.repeat(classes.demand, np.diff(classes.start)).astype(np.float64)
    return np.bincount(classes.members, weights=amount, minlength=observation.clients).astype(np.float64)


def communities_of(observation: Observation, seed: int = 0) -> Ints:
    """The community of each client, by whom it talks with."""
    flows = observation.flows
    return communities_at(
        flows.sender, flows.receiver, np.maximum(flows.messages, 1).astype(np.float64), observation.clients, seed
    )


def regions_of(observation: Observation, homes: Ints) -> Ints | None:
    """The region of each client, where it is or that of its home; None where that tells nobody apart."""
    network = observation.network
    if by_place(observation):
        return network.client_region
    if len(np.unique(network.region)) in (1, network.brokers):
        return None
    return regions_at(network, homes)


def by_place(observation: Observation) -> bool:
    """Whether regions are those where clients are; else they are those of their brokers."""
    return len(np.unique(observation.network.client_region)) > 1


def regions_at(network: Network, homes: Ints) -> Ints:
    """The regions of brokers that are homes; -1 of none."""
    return np.where(homes >= 0, network.region[np.maximum(homes, 0)], -1)


def _heaviest(group: Ints, homes: Ints, talk: Floats, brokers: int) -> Ints:
    """The broker with most of each group's traffic, the lowest of equals; -1 where nobody of it has a home."""
    groups = int(group.max(initial=-1)) + 1
    placed = (homes >= 0) & (group >= 0)
    weight = np.zeros((groups, brokers))
    np.add.at(weight, (group[placed], homes[placed]), talk[placed] + 1e-9)
    return np.where(weight.any(axis=1), weight.argmax(axis=1), -1) if groups else np.empty(0, dtype=np.int64)


class Brokers(NamedTuple):
    """How far brokers are from one another, and their loads while newcomers are placed."""

    tree: Rooted
    far: Floats  # what the way to the root costs
    sent: Floats
    handled: Floats


class Lookup(NamedTuple):
    """A rule as it is looked up; it learns of each newcomer that is placed."""

    group: Ints  # per client
    broker: Ints  # per group, or per region
    by_region: bool
    by_contact: bool


def settle(rule: NewcomerRule, room: Room, overlay: Overlay, cost: Floats, new: NewClients) -> Ints:
    """The home of each newcomer by a rule; -1 for those without one in the log. cost[i] is that of overlay.tree[i]."""
    tree = root_at(len(room.sent), overlay.tree, 0)
    up = np.where(tree.link >= 0, np.append(cost, 0.0)[tree.link], 0.0)
    brokers = Brokers(tree, from_root(tree, up), room.sent.copy(), room.handled.copy())
    most = max(len(rule.group), int(new.client.max(initial=-1)) + 1, int(new.contact.max(initial=-1)) + 1)
    group, broker = np.full(most, -1), rule.broker.copy()
    if rule.name == COMMUNITY:
        group[: len(rule.group)] = rule.group
    elif rule.name == CONTACT:  # a newcomer may be the first contact of a later one
        group, broker = np.arange(most), np.append(broker, np.full(most - len(broker), -1))
    lookup = Lookup(group, broker, by_region=rule.name == REGION, by_contact=rule.name == CONTACT)
    return _settle(brokers, room, lookup, new)


@kernel
def _has_room(brokers: Brokers, room: Room, grown: float, b: int) -> bool:
    """Whether a broker takes one client more, where limits have grown so much."""
    sends = brokers.sent[b] + room.each_sent <= grown * room.sent_cap[b]
    handles = brokers.handled[b] + room.each_handled <= grown * room.handled_cap[b]
    return bool(room.may[b] and sends and handles)


@kernel(work=lambda brokers, room, lookup, new: 20 * len(new.client))
def _settle(brokers: Brokers, room: Room, lookup: Lookup, new: NewClients) -> Ints:
    """One by one to the broker that the rule names, else to the nearest with room."""
    group, broker, far = lookup.group, lookup.broker, brokers.far
    clients = float(max(room.clients, 1))
    found = np.full(len(new.client), -1)
    for i in range(len(new.client)):
        here, contact = new.home[i], new.contact[i]
        if here < 0:
            continue
        which = new.region[i] if lookup.by_region else group[contact] if contact >= 0 else -1
        goal = broker[which] if 0 <= which < len(broker) else -1
        if goal < 0 or not room.may[here]:
            goal = here

        grown = (clients + i + 1) / clients
        best = goal
        if goal != here and not (room.area[goal] == room.area[here] and _has_room(brokers, room, grown, goal)):
            best, least = here, np.inf
            for b in range(len(room.may)):
                if b != here and not (room.area[b] == room.area[here] and _has_room(brokers, room, grown, b)):
                    continue
                apart = far[goal] + far[b] - 2 * far[common_ancestor(brokers.tree, goal, b)]
                if apart < least:
                    best, least = b, apart

        found[i] = best
        brokers.sent[best] += room.each_sent
        brokers.handled[best] += room.each_handled
        if lookup.by_contact:
            broker[new.client[i]] = best
        elif not lookup.by_region and contact >= 0:
            group[new.client[i]] = group[contact]
    return found
