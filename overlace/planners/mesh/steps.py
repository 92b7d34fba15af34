"""From the links that a planner wants to a plan: steps that add, then steps that remove.

A mesh changes link by link in the hands of its clients, so all that is new is added first, in the groups in
which the planner chose it (a star, a topic, a link); what nobody wants any more is removed after that, client
by client. A topic that was connected before the plan, or is by the links wanted, is so after every step.

The gain of a step is clients x components joined - links added, exactly: one pass over the links with a
union of (client, topic) pairs, never the cost anew. Removals are looked at backwards, where they are additions.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import NamedTuple

import numpy as np

from overlace.arrays.jit import Ints, Pairs, kernel
from overlace.arrays.pairs import difference, order_of, positions
from overlace.errors import BadOverlay
from overlace.model import FACETS, Changes, Observation, Plan, Planner, Steps, name_of
from overlace.planners.mesh.interests import Ids

REMOVED = "{links} links of {client} go that no topic needs any more"
"""The last of a mesh planner's REASONS: what its removals say."""


class WantedLinks(NamedTuple):
    """The links a planner wants, in the groups and the order in which it chose them; no link twice."""

    left: Ids
    right: Ids  # either end may be the lower one
    start: Ints  # left[start[g]:start[g + 1]] are group g's
    args: Mapping[str, Ints]  # one value a group, for the planner's first reason
    joined: Ints | None = None  # components that each group joins if there is no mesh yet, where that is known


def mesh_plan(planner: Planner, observation: Observation, seed: int, wanted: WantedLinks) -> Plan:
    """Add what is wanted and not there, then remove what is there and not wanted."""
    before = observation.overlay
    _check_links(before.mesh, observation.clients)
    if len(before.mesh) == 0:
        return _built(planner, observation, seed, wanted)
    links = np.sort(np.column_stack([wanted.left, wanted.right]), axis=1).astype(np.int64)
    after = replace(before, mesh=links)
    fresh = np.flatnonzero(positions(before.mesh, links) < 0)
    start = np.searchsorted(fresh, wanted.start)
    gone, _ = difference(before.mesh, after.mesh)
    who, first = np.unique(gone[:, 0], return_index=True)
    ends = np.append(first, len(gone)).astype(np.int64)
    joined = links_join(observation, before.mesh, wanted.left[fresh], wanted.right[fresh], start)
    backwards = (len(gone) - ends[::-1]).astype(np.int64)
    lost = gone[::-1].astype(np.int32)
    split = links_join(observation, after.mesh, lost[:, 0].copy(), lost[:, 1].copy(), backwards)[::-1]
    kept = np.flatnonzero(np.diff(start) > 0)
    adds, removes = np.diff(start)[kept], np.diff(ends)
    changes = Changes.joined([Changes.of("mesh", 1, links[fresh]), Changes.of("mesh", -1, gone)])
    clients = float(observation.clients)
    gain = np.concatenate([clients * joined[kept] - adds, removes - clients * split])
    rest = np.zeros(len(who), dtype=np.int64)
    args = {name: np.concatenate([values[kept], rest]) for name, values in wanted.args.items()}
    args["client"] = np.concatenate([wanted.args.get("client", np.zeros(len(wanted.start) - 1, np.int64))[kept], who])
    args["links"] = np.concatenate([adds, removes])
    reason = np.concatenate([np.zeros(len(kept)), np.full(len(who), len(planner.REASONS) - 1)])
    starts = np.concatenate([start[:-1][kept], len(fresh) + ends])
    return Plan(planner, seed, before, after, changes, Steps(starts, gain, reason, args))


def _built(planner: Planner, observation: Observation, seed: int, wanted: WantedLinks) -> Plan:
    """The plan where there is no mesh yet: all links are new, none goes."""
    n = len(wanted.left)
    left, right, mesh = np.empty(n, np.int64), np.empty(n, np.int64), np.empty((n, 2), np.int64)
    in_order(wanted.left, wanted.right, observation.clients, left, right, mesh)
    facet, action = np.full(n, FACETS.index("mesh"), np.int8), np.ones(n, np.int8)
    for each in (facet, action, left, right, mesh):
        each.setflags(write=False)  # so that they need not be copied
    changes = Changes(facet, action, left, right)
    after = replace(observation.overlay, mesh=mesh)
    joined = wanted.joined
    if joined is None:
        joined = links_join(observation, observation.overlay.mesh, wanted.left, wanted.right, wanted.start)
    added = np.diff(wanted.start)
    kept = np.flatnonzero(added > 0)
    gain = (float(observation.clients) * joined - added)[kept]
    args = {name: values[kept] for name, values in wanted.args.items()}
    args |= {"links": added[kept], "client": args.get("client", np.zeros(len(kept), np.int64))}
    start = np.append(wanted.start[:-1][kept], n)
    return Plan(planner, seed, observation.overlay, after, changes, Steps(start, gain, np.zeros(len(kept)), args))


@kernel
def in_order(one: Ids, other: Ids, clients: int, left: Ints, right: Ints, mesh: Pairs) -> None:
    """Write the lower and the higher ends of links, and the links sorted: counted by the higher end, then by the
    lower."""
    low_at, high_at = np.zeros(clients + 1, dtype=np.int64), np.zeros(clients + 1, dtype=np.int64)
    for k in range(len(one)):
        low, high = min(one[k], other[k]), max(one[k], other[k])
        left[k], right[k] = low, high
        low_at[low + 1] += 1
        high_at[high + 1] += 1
    for v in range(clients):
        low_at[v + 1] += low_at[v]
        high_at[v + 1] += high_at[v]
    by_high = np.empty(len(one), dtype=np.int32)
    for k in range(len(one)):
        by_high[high_at[right[k]]] = left[k]
        high_at[right[k]] += 1  # from where a client's links begin to where they end
    k = 0
    for high in range(clients):
        while k < high_at[high]:
            low = by_high[k]
            at = low_at[low]
            mesh[at, 0], mesh[at, 1] = low, high
            low_at[low] = at + 1
            k += 1


def _check_links(mesh: Pairs, clients: int) -> None:
    if len(mesh) and mesh.max() >= clients:
        who = name_of("client", int(mesh.max()))
        raise BadOverlay(f"mesh: a link names {who}, but there are {clients} clients")


def links_join(observation: Observation, mesh: Pairs, one: Ids, other: Ids, start: Ints) -> Ints:
    """How many components of topics each group of links joins, group after group, beginning with this mesh."""
    pairs = observation.interests
    at = np.searchsorted(pairs[:, 0], np.arange(observation.clients + 1))
    leader, place = np.arange(len(pairs)), np.full(observation.topics, -1)
    topic = pairs[:, 1].astype(np.int32)
    if len(mesh):
        left, right = mesh[:, 0].astype(np.int32), mesh[:, 1].astype(np.int32)
        joins_per_group(at, topic, leader, place, left, right, np.array([0, len(mesh)]))
    joined: Ints = joins_per_group(at, topic, leader, place, one, other, start)
    return joined


@kernel
def joins_per_group(at: Ints, topic: Ids, leader: Ints, place: Ints, one: Ids, other: Ids, start: Ints) -> Ints:
    """The components of topics that each group of links joins; client v has the topics topic[at[v]:at[v + 1]].

    leader is the union of (client, topic) pairs so far and goes on. place is -1 for each topic, before and after:
    where the topic stands among those of the first end, which is mostly the same for many links in a row.
    """
    joined = np.zeros(len(start) - 1, dtype=np.int64)
    here = -1
    for g in range(len(start) - 1):
        for k in range(start[g], start[g + 1]):
            if one[k] != here:
                if here >= 0:
                    for i in range(at[here], at[here + 1]):
                        place[topic[i]] = -1
                here = one[k]
                for i in range(at[here], at[here + 1]):
                    place[topic[i]] = i
            for j in range(at[other[k]], at[other[k] + 1]):
                a = place[topic[j]]
                if a < 0:
                    continue
                b = j  # `arrays.components.join`, written out: to call it costs more than it does
                while leader[a] != a:
                    leader[a] = leader[leader[a]]
                    a = leader[a]
                while leader[b] != b:
                    leader[b] = leader[leader[b]]
                    b = leader[b]
                if a != b:
                    leader[max(a, b)] = min(a, b)
                    joined[g] += 1
    if here >= 0:
        for i in range(at[here], at[here + 1]):
            place[topic[i]] = -1
    return joined


def ordered(left: Ids, right: Ids, start: Ints) -> tuple[Ids, Ids, Ints]:
    """(left, right, start) without links that an earlier one repeats, in either direction."""
    links = np.sort(np.column_stack([left, right]), axis=1).astype(np.int64)
    order = order_of(links)
    same = (links[order[1:]] == links[order[:-1]]).all(axis=1)
    kept = np.ones(len(links), dtype=np.bool_)
    kept[order[1:][same]] = False
    before = np.concatenate([[0], np.cumsum(kept)])
    return left[kept], right[kept], before[start]
