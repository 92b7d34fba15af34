"""Slow, literal versions of what the placement facet does fast."""

from itertools import product

import numpy as np

from overlace.model import Overlay
from overlace.planners.placement.cost import cost


def algorithm_1(part, load, limit):
    """CC12's Algorithm 1 with R3 and R4, with lists and a real queue; (place of each community, dequeues)."""
    queue, place, held, dequeues = list(range(len(limit))), {}, [0.0] * len(limit), 0
    while queue:
        s = queue.pop(0)
        dequeues += 1
        if held[s] > limit[s]:
            continue
        located = sorted((i for i in range(len(load)) if part[i][s] > 0), key=lambda i: (-part[i][s], i))
        for i in located:
            if held[s] > limit[s]:
                break
            if i in place:
                left = place[i]
                if part[i][s] > part[i][left]:
                    place[i] = s
                    held[left] -= load[i]
                    held[s] += load[i]
                    if held[left] <= limit[left]:
                        queue.append(left)
            else:
                place[i] = s
                held[s] += load[i]
    for i in sorted(set(range(len(load))) - set(place), key=lambda i: (-load[i], i)):
        room = [limit[s] - held[s] for s in range(len(limit))]
        place[i] = room.index(max(room))
        held[place[i]] += load[i]
    return [place[i] for i in range(len(load))], dequeues


def placed(observation, homes):
    """The observed overlay with other homes."""
    return Overlay(placement=list(enumerate(homes)), tree=observation.overlay.tree)


def best_cost(observation, planner, may):
    """The least cost over all placements that `may` accepts, one by one."""
    brokers = np.flatnonzero(observation.network.region >= 0).tolist()
    found = [
        planner.cost(observation, placed(observation, homes))
        for homes in product(brokers, repeat=observation.clients)
        if may(homes)
    ]
    return min(found) if found else None


def sent_loads(observation, homes):
    """(by broker, by region): what is sent there."""
    by_broker = np.bincount(homes, weights=observation.sent, minlength=observation.network.brokers)
    regions = {r: by_broker[observation.network.region == r].sum() for r in set(observation.network.region.tolist())}
    return by_broker, regions


def handled_loads(observation, homes):
    """What each broker handles: the messages whose minimal subtree touches it, by taking off leaves one by one."""
    handled = np.zeros(observation.network.brokers)
    classes = observation.classes
    for k in range(len(classes)):
        ends = {int(homes[c]) for c in classes.members[classes.start[k] : classes.start[k + 1]]}
        links = {tuple(link) for link in observation.overlay.tree.tolist()}
        alive = set(range(observation.network.brokers))
        while True:
            leaves = {b for b in alive if b not in ends and sum(b in link for link in links) <= 1}
            if not leaves or not alive - leaves:
                break
            alive -= leaves
            links = {link for link in links if not set(link) & leaves}
        handled[list(alive)] += classes.demand[k]
    return handled


__all__ = ["algorithm_1", "best_cost", "cost", "handled_loads", "placed", "sent_loads"]
