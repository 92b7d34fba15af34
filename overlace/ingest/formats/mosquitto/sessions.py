"""Which lines end a client's session, and with it its subscriptions.

A connect line says `c1`: the client wants no session from before and, before MQTT 5, leaves none behind. What the
broker answers when the client returns (CONNACK, "session present") says how it was; it counts for more. In MQTT 5
how long a session outlives its connection is not logged: until a return shows otherwise, `c1` is taken to mean not
at all, which is what clients do unless they ask for more.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from overlace.arrays.jit import Bools, Ints
from overlace.ingest.formats.mosquitto.lines import is_any
from overlace.ingest.formats.mosquitto.log import Log
from overlace.ingest.formats.mosquitto.shapes import CONNACK, CONNECT, EXPIRED, GONE, LEFT


class Ends(NamedTuple):
    """Of lines that open or close a connection: whether the session from before is over there."""

    line: Ints
    over: Bools


def ends_of(log: Log) -> Ends:
    """What becomes of the session of each client at each of its connects and disconnects."""
    lines = np.flatnonzero(is_any(log.code, CONNECT, CONNACK, GONE, LEFT, EXPIRED) & (log.client >= 0))
    lines = lines[(log.code[lines] != CONNACK) | (log.size[lines] == 0)]  # those that were accepted
    lines = lines[np.argsort(log.client[lines], kind="stable")]
    code, client = log.code[lines], log.client[lines]
    opens, closes = code == CONNECT, is_any(code, GONE, LEFT)
    before, after = _last(opens, client), _next(opens | (code == EXPIRED), client)
    answer = _next((code == CONNACK) | opens, client)
    answered = opens & (answer >= 0) & (code[answer] == CONNACK) & (log.version[lines] != 1)  # 3.1 does not say
    absent = answered & (log.present[lines[answer]] == 0)
    fresh = log.clean[lines] == 1
    came_back = (after >= 0) & answered[after] & ~fresh[after]
    kept_on = (after >= 0) & (code[after] == EXPIRED)
    left = np.where(came_back, absent[after], (before >= 0) & fresh[before] & ~kept_on)
    over = np.where(closes, left, fresh | absent)
    either = opens | closes
    return Ends(lines[either], over[either])


def _last(marked: Bools, client: Ints) -> Ints:
    """For each row the last marked one before it of the same client, or -1; rows are by client."""
    place = np.maximum.accumulate(np.where(marked, np.arange(len(marked)), -1))
    place = np.append(-1, place)[: len(marked)]
    return np.where((place >= 0) & (client[place] == client), place, -1)


def _next(marked: Bools, client: Ints) -> Ints:
    """For each row the next marked one after it of the same client, or -1."""
    place = _last(marked[::-1], client[::-1])[::-1]
    return np.where(place >= 0, len(marked) - 1 - place, -1)
