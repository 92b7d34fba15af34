"""Communities to regions: Algorithm 1 (CC12 §III.B), with equations (3) to (5).

Regions queue. Each takes the communities that have clients in it, by client-proportion (3), until it is overloaded; a
community that has a place already moves if its proportion here is larger, and the region it leaves queues again.

Keeps: with S regions and I communities at most S + I (S - 1) regions leave the queue (R7).
Reads: R1 (proportion of the community's clients), R2 (load is messages sent, regions start empty), R3 (overload is
tested before each placement), R4 (what has no place at the end goes where most room is left).
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from overlace.arrays.csr import copy
from overlace.arrays.jit import Bools, Floats, Ints, kernel


class Placed(NamedTuple):
    """Where Algorithm 1 put each community."""

    region: Ints
    dequeues: int
    spilled: int  # communities placed by R4


def fair_shares(total: float, brokers: Ints, of: int | None = None) -> Floats:
    """V(s), (5): all messages, by the region's share of the brokers that hold clients (R10), or of so many."""
    share: Floats = total * brokers / (brokers.sum() if of is None else of)
    return share


@kernel
def proportions(count: Ints, of_region: bool) -> Floats:
    """Pr(i, s), (3): count[i, s] clients of community i are in region s; of the community (R1) or of the region."""
    part = np.zeros(count.shape, dtype=np.float64)
    community, region = count.sum(axis=1), count.sum(axis=0)
    for i in range(count.shape[0]):
        for s in range(count.shape[1]):
            if count[i, s]:
                part[i, s] = count[i, s] / (region[s] if of_region else community[i])
    return part


@kernel
def place_communities(part: Floats, load: Floats, limit: Floats, test_each: bool, spill: bool) -> Placed:
    """Algorithm 1. part[i, s] is Pr(i, s), load[i] what community i sends, limit[s] what overloads region s."""
    communities, regions = part.shape
    place = np.full(communities, -1, dtype=np.int64)
    held = np.zeros(regions, dtype=np.float64)
    queue = np.empty(regions + communities * regions, dtype=np.int64)  # A1:1
    copy(np.arange(regions), queue)  # A1:2
    first, last = 0, regions
    while first < last:  # A1:3
        s = queue[first]  # A1:4
        first += 1
        if held[s] > limit[s]:  # A1:5
            continue
        for i in np.argsort(-part[:, s], kind="mergesort"):  # A1:6, A1:7
            if part[i, s] == 0.0:
                break  # not located in s
            if test_each and held[s] > limit[s]:
                break  # R3
            if place[i] >= 0:  # A1:8
                left = place[i]  # A1:9
                if part[i, s] > part[i, left]:  # A1:10
                    place[i] = s  # A1:11
                    held[left] -= load[i]
                    held[s] += load[i]
                    if held[left] <= limit[left]:  # A1:12
                        queue[last] = left  # A1:13
                        last += 1
            else:
                place[i] = s  # A1:17
                held[s] += load[i]
    lost = np.flatnonzero(place < 0)
    for i in lost[np.argsort(-load[lost], kind="mergesort")]:
        s = np.argmax(limit - held) if spill else np.argmax(part[i])  # R4, else the majority-place (4)
        place[i] = s
        held[s] += load[i]
    return Placed(place, first, len(lost))


@kernel
def balance(home: Ints, wanted: Ints, region: Ints, may: Bools, load: Floats) -> Ints:
    """Phase 3: whoever comes from another region goes to its new region's broker with the lowest load.

    home[c] is client c's broker, wanted[c] the region it shall be in (-1: stays), load[c] what it sends.
    """
    after = home.copy()
    held = np.zeros(len(region), dtype=np.float64)
    for c in range(len(home)):
        if home[c] >= 0 and (wanted[c] < 0 or region[home[c]] == wanted[c]):
            held[home[c]] += load[c]
    for c in range(len(home)):
        if home[c] >= 0 and wanted[c] >= 0 and region[home[c]] != wanted[c]:
            best = -1
            for b in range(len(region)):
                if may[b] and region[b] == wanted[c] and (best < 0 or held[b] < held[best]):
                    best = b
            after[c] = best
            held[best] += load[c]
    return after
