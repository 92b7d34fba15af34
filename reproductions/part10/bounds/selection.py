"""Things that each bring a gain and each need resources, paid once however many need them: which are worth taking.

The most that a choice can bring is a minimum cut (project selection): the gains flow through the things to the
resources they need, each of which takes in as much as it costs. What does not get through is the profit.
Any flow proves that no choice brings more than what it leaves, so the profit returned is an upper bound even where
rounding stops the flow early.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from overlace.arrays.jit import Bools, Floats, Ints, kernel

TINY = 1e-12  # of the largest gain: what is left then is rounding


class Needs(NamedTuple):
    """Which resources each thing needs, and which things need each resource."""

    start: Ints  # resource[start[i]:start[i + 1]] of thing i
    resource: Ints
    by_start: Ints  # thing[by_start[r]:by_start[r + 1]] of resource r
    thing: Ints
    at: Ints  # where each of these stands in `resource`


class Flow(NamedTuple):
    """What has flowed, and how far everything is from a thing with gain to spare; changed in place."""

    through: Floats  # of each need
    gain: Floats  # of each thing, what has not flowed yet
    room: Floats  # of each resource
    depth: Ints  # of each thing, then of each resource; -1: not reached
    next: Ints  # of each of them, the first need that may still lead on
    path: Ints  # things and resources by turns
    needs: Ints  # between them


@kernel
def needs_of(start: Ints, resource: Ints, resources: int) -> Needs:
    """Needs both ways."""
    by_start = np.zeros(resources + 1, dtype=np.int64)
    for e in range(len(resource)):
        by_start[resource[e] + 1] += 1
    for r in range(resources):
        by_start[r + 1] += by_start[r]
    thing, at = np.empty(len(resource), dtype=np.int64), np.empty(len(resource), dtype=np.int64)
    place = by_start[:resources].copy()
    for i in range(len(start) - 1):
        for e in range(start[i], start[i + 1]):
            thing[place[resource[e]]] = i
            at[place[resource[e]]] = e
            place[resource[e]] += 1
    return Needs(start, resource, by_start, thing, at)


@kernel
def select(gain: Floats, cost: Floats, needs: Needs) -> tuple[float, Bools]:
    """(profit, taken): the most that any choice brings, and a choice that brings it; gains and costs are 0 or more."""
    n, resources = len(gain), len(cost)
    zeros = np.zeros(len(needs.resource))
    flow = Flow(
        zeros,
        gain.copy(),
        cost.copy(),
        np.empty(n + resources, dtype=np.int64),
        np.empty(n + resources, dtype=np.int64),
        np.empty(n + resources + 1, dtype=np.int64),
        np.empty(n + resources + 1, dtype=np.int64),
    )
    tiny = TINY * (gain.max() if n else 0.0)
    while measure(needs, flow, tiny):
        flow.next[:n] = needs.start[:n]
        flow.next[n:] = needs.by_start[:resources]
        for i in range(n):
            while flow.depth[i] == 0 and flow.gain[i] > tiny and advance(needs, flow, i, tiny):
                pass
    return float(flow.gain.sum()), flow.depth[:n] >= 0


@kernel
def measure(needs: Needs, flow: Flow, tiny: float) -> bool:
    """Find the depth of everything that spare gain can reach; whether that is a resource with room."""
    n = len(flow.gain)
    flow.depth[:] = -1
    queue, last, found = np.empty(len(flow.depth), dtype=np.int64), 0, False
    for i in range(n):
        if flow.gain[i] > tiny:
            flow.depth[i] = 0
            queue[last] = i
            last += 1
    first = 0
    while first < last:
        x = queue[first]
        first += 1
        if x < n:
            for e in range(needs.start[x], needs.start[x + 1]):
                r = n + needs.resource[e]
                if flow.depth[r] < 0:
                    flow.depth[r] = flow.depth[x] + 1
                    queue[last] = r
                    last += 1
                    found = found or flow.room[r - n] > tiny
        else:
            for k in range(needs.by_start[x - n], needs.by_start[x - n + 1]):
                i = needs.thing[k]
                if flow.depth[i] < 0 and flow.through[needs.at[k]] > tiny:
                    flow.depth[i] = flow.depth[x] + 1
                    queue[last] = i
                    last += 1
    return found


@kernel
def advance(needs: Needs, flow: Flow, i: int, tiny: float) -> bool:
    """Send gain of thing i to a resource with room along one way, each need one deeper; false: there is none left."""
    n, length = len(flow.gain), 0
    flow.path[0] = i
    while True:
        x = flow.path[length]
        if x >= n and flow.room[x - n] > tiny:
            break
        stepped = False
        end = needs.start[x + 1] if x < n else needs.by_start[x - n + 1]
        while flow.next[x] < end and not stepped:
            k = flow.next[x]
            e = k if x < n else needs.at[k]
            y = n + needs.resource[e] if x < n else needs.thing[k]
            if flow.depth[y] == flow.depth[x] + 1 and (x < n or flow.through[e] > tiny):
                flow.needs[length] = e
                length += 1
                flow.path[length] = y
                stepped = True
            else:
                flow.next[x] += 1
        if not stepped:
            if length == 0:
                return False
            length -= 1
            flow.next[flow.path[length]] += 1
    amount = min(flow.gain[i], flow.room[flow.path[length] - n])
    for k in range(1, length, 2):
        amount = min(amount, flow.through[flow.needs[k]])
    flow.gain[i] -= amount
    flow.room[flow.path[length] - n] -= amount
    for k in range(length):
        flow.through[flow.needs[k]] += amount if k % 2 == 0 else -amount
    return True
