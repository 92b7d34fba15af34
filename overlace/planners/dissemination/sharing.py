"""A peer in several channels shares its degree over them, by the channels' rates.

A child in a channel costs bandwidth in proportion to that channel's messages, and what a peer can send on is one budget
for all of them. So its degree is split in proportion to the rates, by largest remainders, with at least one child where
it is the root. Where a channel is then short of places for all its members, a member takes one back from
a channel that has more than it needs.

Channels are groups (start, members) of peers: those of channel k are members[start[k] : start[k + 1]], its root
among them. Peers number from 0.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from overlace.arrays.jit import Floats, Ints
from overlace.errors import BadParameter


def share_degrees(degree: Any, memberships: tuple[Any, Any], rates: Any, roots: Any) -> Ints:
    """The degree of each member in its channel, in the order of the members; of a peer's channels together its degree.

    `degree` is per peer, `memberships` are the groups (start, members), `rates` and `roots` are per channel.
    """
    start, members = (np.asarray(each, dtype=np.int64) for each in memberships)
    limits, heads = np.asarray(degree, dtype=np.int64), np.asarray(roots, dtype=np.int64)
    channel = np.repeat(np.arange(len(start) - 1), np.diff(start))
    weight = check_rates(rates, len(start) - 1)[channel]
    is_root = members == heads[channel]
    check_roots(limits, members, heads, is_root, channel)
    shares = np.zeros(len(members), dtype=np.int64)
    order = np.argsort(members, kind="stable")
    for rows in np.split(order, np.flatnonzero(np.diff(members[order])) + 1):
        if len(rows):
            shares[rows] = split_degree(int(limits[members[rows[0]]]), weight[rows], is_root[rows])
    lend_places(shares, start, members, is_root)
    return shares


def check_rates(rates: Any, channels: int) -> Floats:
    """Rates per channel, none negative."""
    given = np.asarray(rates, dtype=np.float64)
    if given.shape != (channels,) or not (np.isfinite(given) & (given >= 0)).all():
        raise BadParameter(f"rates {given.tolist()}: expected one number, 0 or more, for each of {channels} channels")
    return given


def check_roots(limits: Ints, members: Ints, heads: Ints, is_root: Any, channel: Ints) -> None:
    """Refuse a root that is no member, or that is the root of more channels than it may have children."""
    missing = np.setdiff1d(np.arange(len(heads)), channel[is_root])
    if len(missing):
        raise BadParameter(f"channel {missing[0]}: its root, peer {heads[missing[0]]}, is not among its members")
    leads = np.bincount(members[is_root], minlength=len(limits))
    if (leads > limits).any():
        at = int(np.argmax(leads > limits))
        raise BadParameter(
            f"peer {at} is the root of {leads[at]} channels and may have {limits[at]} children: raise its degree, "
            "or choose other roots"
        )


def split_degree(degree: int, weight: Floats, is_root: Any) -> Ints:
    """A degree split in proportion to weights by largest remainders, at least 1 where it is the root; ties to the
    first."""
    total = float(weight.sum())
    exact = degree * (weight / total if total > 0 else np.full(len(weight), 1 / len(weight)))
    shares = np.floor(exact + 1e-12).astype(np.int64)
    late = np.argsort(-(exact - shares), kind="stable")[: degree - int(shares.sum())]
    shares[late] += 1
    for k in np.flatnonzero(is_root & (shares == 0)):
        spare = np.where(shares > is_root, shares - exact, -np.inf)  # whoever has most beyond its part gives
        shares[int(np.argmax(spare))] -= 1
        shares[k] += 1
    return shares


def lend_places(shares: Ints, start: Ints, members: Ints, is_root: Any) -> None:
    """Where a channel has too few places for all its members, let members move one there from another channel of
    theirs that has more than it needs, the one with most to spare first; changes the shares."""
    channel = np.repeat(np.arange(len(start) - 1), np.diff(start))
    spare = np.bincount(channel, weights=shares, minlength=len(start) - 1).astype(np.int64) - (np.diff(start) - 1)
    for short in np.flatnonzero(spare < 0):
        mine = np.arange(start[short], start[short + 1])
        while spare[short] < 0:
            rows = np.flatnonzero(np.isin(members, members[mine]) & (shares > is_root) & (spare[channel] > 0))
            if not len(rows):
                break
            giver = rows[np.argmax(spare[channel[rows]])]
            taker = mine[members[mine] == members[giver]][0]
            shares[giver] -= 1
            shares[taker] += 1
            spare[channel[giver]] -= 1
            spare[short] += 1
