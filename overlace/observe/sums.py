"""Who sent how much, to whom, and together with whom: sums over rows of traffic.

Rows may come in any order and in any batches: the sums are the same.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import NamedTuple

import numpy as np
import pyarrow as pa

from overlace.arrays.csr import group, take_groups
from overlace.arrays.hashing import distinct_groups, hash_groups
from overlace.arrays.jit import Ints, kernel
from overlace.errors import BadObservation
from overlace.model import Classes, Flows
from overlace.trace.traffic import add_up, rows_of


class Sums(NamedTuple):
    """What traffic adds up to, each kind in its order: of ids, or of the hashes of the members."""

    sent: tuple[Ints, Ints, Ints]  # client, messages, bytes
    flows: tuple[Ints, Ints, Ints, Ints]  # sender, receiver, messages, bytes
    classes: tuple[Ints, Ints, Ints, Ints]  # start, members, messages, bytes

    @property
    def clients(self) -> int:
        """One more than the highest id that is named."""
        return 1 + max(int(each.max(initial=-1)) for each in (self.sent[0], self.flows[1]))

    def objects(self) -> tuple[Flows, Classes]:
        """Flows and classes as an observation has them."""
        return Flows(*self.flows), Classes(*self.classes)


def sums_of(batches: Iterable[pa.RecordBatch]) -> Sums:
    """What rows of traffic with receivers add up to."""
    parts = [rows_of(batch) for batch in batches]
    client = _joined([part.client for part in parts]).astype(np.int64)
    messages, size = _joined([part.messages for part in parts]), _joined([part.bytes for part in parts])
    start, receivers = _chained([(part.start, part.receivers) for part in parts])
    (who,), sent = add_up([client], [messages, size])
    first, order = group(client, 1 + max(int(client.max(initial=-1)), int(receivers.max(initial=-1))))
    flows = flow_sums(first, order, start, receivers, messages, size)
    kept, bounds, members = with_sender(client, start, receivers)
    return Sums((who, sent[0], sent[1]), flows, _classes(bounds, members, messages[kept], size[kept]))


def _joined(parts: list[Ints]) -> Ints:
    return parts[0] if len(parts) == 1 else np.concatenate([np.empty(0, np.int64), *parts])


def _chained(parts: list[tuple[Ints, ...]]) -> tuple[Ints, Ints]:
    """Groups, one after the other."""
    if len(parts) == 1:
        return parts[0][0], parts[0][1]
    sizes = _joined([np.diff(start) for start, _ in parts])
    return np.append(0, np.cumsum(sizes)), _joined([members for _, members in parts])


def _classes(start: Ints, members: Ints, messages: Ints, size: Ints) -> tuple[Ints, Ints, Ints, Ints]:
    """Equal groups added up, in order of their members' hash."""
    hashes = hash_groups(start, members)
    number, first, clash = distinct_groups(hashes, start, members)
    if clash >= 0:
        raise BadObservation(f"two different traffic classes have the hash {hashes[clash]}. Observe a shorter window.")
    order = np.argsort(hashes[first])
    sums = []
    for each in (messages, size):
        total = np.zeros(len(first), dtype=np.int64)
        np.add.at(total, number, each)
        sums.append(total[order])
    return *take_groups(start, members, first[order]), sums[0], sums[1]


@kernel(work=lambda client, start, receivers: 2 * len(client) + len(receivers))
def with_sender(client: Ints, start: Ints, receivers: Ints) -> tuple[Ints, Ints, Ints]:
    """(row, start, members): the sender among its sorted receivers, each once, of rows that join two at least."""
    row = np.empty(len(client), dtype=np.int64)
    members = np.empty(len(receivers) + len(client), dtype=np.int64)
    bounds = np.zeros(len(client) + 1, dtype=np.int64)
    rows = n = 0
    for i in range(len(client)):
        put = False
        for k in range(start[i], start[i + 1]):
            if not put and client[i] <= receivers[k]:
                if client[i] < receivers[k]:
                    members[n] = client[i]
                    n += 1
                put = True
            members[n] = receivers[k]
            n += 1
        if not put:
            members[n] = client[i]
            n += 1
        if n - bounds[rows] > 1:
            row[rows] = i
            rows += 1
            bounds[rows] = n
        else:
            n = bounds[rows]
    return row[:rows].copy(), bounds[: rows + 1].copy(), members[:n].copy()


@kernel(work=lambda first, order, start, receivers, messages, size: len(first) + len(order) + 3 * len(receivers))
def flow_sums(
    first: Ints, order: Ints, start: Ints, receivers: Ints, messages: Ints, size: Ints
) -> tuple[Ints, Ints, Ints, Ints]:
    """(sender, receiver, messages, bytes), in order of both; rows order[first[c]:first[c + 1]] are client c's."""
    people = len(first) - 1
    place = np.full(people, -1, dtype=np.int64)  # of a receiver among the flows of the sender at hand
    found = np.empty(people, dtype=np.int64)
    sender = np.empty(0, dtype=np.int64)
    receiver = np.empty(0, dtype=np.int64)
    sums = np.zeros((0, 2), dtype=np.int64)
    flows = 0
    for fill in range(2):  # first count, then write
        flows = 0
        for c in range(people):
            # the receivers of this sender, each once
            met = 0
            for r in range(first[c], first[c + 1]):
                for k in range(start[order[r]], start[order[r] + 1]):
                    if receivers[k] != c and place[receivers[k]] < 0:
                        place[receivers[k]] = 0
                        found[met] = receivers[k]
                        met += 1

            # their flows, in order of the receivers, and what each adds up to
            if fill:
                found[:met].sort()
                for k in range(met):
                    place[found[k]] = flows + k
                    sender[flows + k] = c
                    receiver[flows + k] = found[k]
                for r in range(first[c], first[c + 1]):
                    i = order[r]
                    for k in range(start[i], start[i + 1]):
                        if receivers[k] != c:
                            sums[place[receivers[k]], 0] += messages[i]
                            sums[place[receivers[k]], 1] += size[i]

            for k in range(met):
                place[found[k]] = -1
            flows += met
        if not fill:
            sender = np.empty(flows, dtype=np.int64)
            receiver = np.empty(flows, dtype=np.int64)
            sums = np.zeros((flows, 2), dtype=np.int64)
    return sender, receiver, sums[:, 0].copy(), sums[:, 1].copy()
