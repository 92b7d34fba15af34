"""An event simulation: how long deliveries take when brokers need time and messages queue (CC12 Tables I and III).

A message enters at its sender's home and takes the minimal subtree to the homes of its receivers. A broker serves one
message at a time, first come first served; a service takes `service_us` on the mean, exponentially distributed or
always the same. Then it sends the message on, over all links of the subtree at once, and to its own receivers. A
link between brokers takes its latency (or `link_us`), a link of a client `client_us`.

Keeps: the same seed gives the same times. Without service times a delivery takes the latency of its path; with links
of 1 it takes exactly its hops, so that the histogram is the one of `routing`. Clients without a home neither send nor
receive; what that drops is counted.
"""

from __future__ import annotations

from typing import Literal, NamedTuple

import numpy as np

from overlace.arrays.draws import share_of
from overlace.arrays.hashing import mix
from overlace.arrays.heap import pop, push
from overlace.arrays.jit import Bools, Floats, Ints, kernel
from overlace.arrays.trees import Rooted, common_ancestor
from overlace.errors import BadParameter, NotObserved
from overlace.model import Observation, Overlay

Service = Literal["exponential", "constant"]

QUEUE = 64
"""Services of a broker that are remembered, to count who waits."""


class Arrivals(NamedTuple):
    """Messages in order of time; receivers[start[i]:start[i + 1]] are message i's."""

    at_us: Ints
    client: Ints
    start: Ints
    receivers: Ints


class Simulated(NamedTuple):
    """What a simulation measured."""

    latency_us: Floats  # of each delivery, in order of messages and their receivers; -1 where somebody has no home
    busy_us: Floats  # how long each broker served
    served: Ints  # how many messages each broker served
    longest_queue: Ints  # the most that waited at each broker
    homeless: int


class Delays(NamedTuple):
    """How long services and links take."""

    service_us: float = 1000.0
    service: Service = "exponential"
    link_us: int | None = None  # None: the network's latencies
    client_us: int = 0


def simulate(
    observation: Observation, overlay: Overlay, arrivals: Arrivals, delays: Delays | None = None, seed: int = 0
) -> Simulated:
    """Send messages through the overlay."""
    network, delays = observation.network, delays or Delays()
    if network.brokers == 0:
        raise NotObserved("simulate: no brokers were observed. Ingest the tables brokers and links.")
    if not delays.service_us >= 0:
        raise BadParameter(f"service_us is {delays.service_us}; expected 0 or more")
    if len(arrivals.at_us) and (np.diff(arrivals.at_us) < 0).any():
        raise BadParameter("simulate: messages must come in order of time; sort them by at_us")
    tree = overlay.rooted(network.brokers)
    per_link = np.full(len(overlay.tree), float(delays.link_us or 0))
    if delays.link_us is None:
        network.check_measured(overlay.tree)
        per_link = network.latencies_of(overlay.tree).astype(np.float64)
    up = np.zeros(network.brokers)
    below = tree.link >= 0
    up[below] = per_link[tree.link[below]]
    most = int(max(arrivals.client.max(initial=-1), arrivals.receivers.max(initial=-1))) + 1
    home = overlay.homes(max(observation.clients, most))
    times = Times(up, float(delays.service_us), delays.service == "exponential", float(delays.client_us))
    return run(tree, home, arrivals, times, seed)


class Times(NamedTuple):
    """Delays as the event loop takes them."""

    up: Floats  # of each broker's link towards the root
    service_us: float
    exponential: bool
    client_us: float


@kernel
def run(tree: Rooted, home: Ints, arrivals: Arrivals, times: Times, seed: int) -> Simulated:
    """The event loop. An event is a message that arrives at a broker from a neighbour (or from its sender)."""
    at_us, client, start, receivers = arrivals.at_us, arrivals.client, arrivals.start, arrivals.receivers
    brokers, client_us = len(times.up), times.client_us
    latency = np.full(len(receivers), -1.0)
    busy, free = np.zeros(brokers), np.zeros(brokers)
    served, longest = np.zeros(brokers, dtype=np.int64), np.zeros(brokers, dtype=np.int64)
    ends = np.zeros((brokers, QUEUE))  # when the last services of each broker end, to count who waits
    room = 1024
    when = np.empty(room)
    what = np.empty((room, 4), dtype=np.int64)  # number of the event, message, broker, where it came from
    size, events, following, homeless = 0, 0, 0, 0
    wanted = np.zeros(brokers, dtype=np.bool_)
    base = mix(np.uint64(seed) ^ np.uint64(0x51))
    while size or following < len(at_us):
        # the next event: a message that enters, or one that arrives from a neighbour, whichever is first
        if size == 0 or (following < len(at_us) and at_us[following] + client_us <= when[0]):
            m, following = following, following + 1
            b, came, now = home[client[m]], -1, at_us[m] + client_us
            if b < 0:
                for k in range(start[m], start[m + 1]):
                    homeless += receivers[k] != client[m]
                continue
        else:
            now, m, b, came = when[0], what[0, 1], what[0, 2], what[0, 3]
            size = pop(when, what, size)

        # the broker serves it after all that came before
        took = times.service_us
        if times.exponential and times.service_us > 0:
            draw = mix(mix(base ^ np.uint64(m)) ^ np.uint64(b))
            took = -times.service_us * np.log(1.0 - share_of(draw))
        waits = 0
        for i in range(QUEUE):
            waits += ends[b, i] > now
        longest[b] = max(longest[b], waits)
        done = max(now, free[b]) + took
        ends[b, served[b] % QUEUE] = done
        free[b] = done
        busy[b] += took
        served[b] += 1

        # it reaches the receivers that are at home here
        for k in range(start[m], start[m + 1]):
            to = home[receivers[k]]
            if receivers[k] == client[m]:
                continue
            if to < 0:
                homeless += came == -1
            elif to == b:
                latency[k] = done + client_us - at_us[m]

        # and goes on to every neighbour behind which there are others
        count = branches(tree, home, b, came, receivers[start[m] : start[m + 1]], client[m], wanted)
        if count == 0:
            continue
        for side in range(brokers):
            if wanted[side]:
                wanted[side] = False
                length = times.up[b] if side == tree.parent[b] else times.up[side]
                if size == room:
                    room *= 2
                    more_when = np.empty(room)
                    more_what = np.empty((room, 4), dtype=np.int64)
                    more_when[:size] = when
                    more_what[:size] = what
                    when, what = more_when, more_what
                size = push(when, what, size, done + length, (events, m, side, b))
                events += 1
    return Simulated(latency, busy, served, longest, homeless)


@kernel
def branches(tree: Rooted, home: Ints, b: int, came: int, receivers: Ints, sender: int, wanted: Bools) -> int:
    """Mark the neighbours of b, other than the one it came from, behind which a receiver is; returns how many."""
    count = 0
    for r in receivers:
        to = home[r]
        if to < 0 or to == b or r == sender:
            continue
        side = tree.parent[b]
        if common_ancestor(tree, b, to) == b:  # below b: the child on the way down
            side = to
            while tree.parent[side] != b:
                side = tree.parent[side]
        if side != came and not wanted[side]:
            wanted[side] = True
            count += 1
    return count
