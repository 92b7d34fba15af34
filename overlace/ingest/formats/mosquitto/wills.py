"""Wills: messages that enter without a line of their own."""

from __future__ import annotations

import numpy as np

from overlace.arrays.jit import Bools, Ints, kernel
from overlace.ingest.formats.mosquitto.turns import OPEN, Entries, Sends


def give_to_late_wills(sends: Sends, entries: Entries, topics: int, carried: Ints) -> Ints:
    """The message of each send, where those that nothing else explains carry the last will on their topic.

    A will may be sent with delay.
    """
    lost = np.flatnonzero((sends.label == OPEN) & (carried < 0))
    wills = np.flatnonzero(entries.line < 0)
    return late_wills(sends, lost, entries, wills, topics, carried) if len(lost) and len(wills) else carried


@kernel(work=lambda sends, lost, entries, wills, *_: 2 * (len(lost) + len(wills)))
def late_wills(sends: Sends, lost: Ints, entries: Entries, wills: Ints, topics: int, carried: Ints) -> Ints:
    """The message of each send, that of a lost one being the last will that entered before it on its topic."""
    found = carried.copy()
    latest = np.full(topics, -1, np.int64)
    each = 0
    for j in lost:
        while each < len(wills) and entries.enter[wills[each]] < sends.line[j]:
            latest[entries.topic[wills[each]]] = wills[each]
            each += 1
        will = latest[sends.topic[j]]
        if will >= 0 and entries.size[will] == sends.size[j]:
            found[j] = will
    return found


def named_by_sends(line: Ints, sent: Ints, carried: Ints, bridge: Bools) -> Ints:
    """The lines of all messages: a will's is its first send, to a client if there is one."""
    named = line.copy()
    theirs = np.flatnonzero((carried >= 0) & (np.append(line, 0)[carried] < 0))[::-1]
    for which in (
        bridge[theirs],
        ~bridge[theirs],
    ):  # of several that are written to one place the last, so the first, stays
        named[carried[theirs[which]]] = sent[theirs[which]]
    return named
