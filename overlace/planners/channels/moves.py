"""What it would save or cost to move combinations to another channel: all channels looked at in one go.

D = sum over channels of subscribers x messages. If the combinations X leave channel c for channel d, then c
loses the subscribers of X and the messages of the types that have nothing else in c, and d gains these
subscribers and the messages of the types of X that are not in d yet. One pass over the types that
offer something of X tells this for every d.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from overlace.arrays.jit import Ints, Pairs, kernel
from overlace.planners.channels.book import Book
from overlace.planners.channels.changes import members, shift, take_shared, turn_round
from overlace.planners.channels.partition import CHANGED, HELD, RETUNED, STAMP, Partition, draw, meet, new_channel

FEW = 3
"""How many types a move may push beyond their limit, to be relieved at once."""


class Survey(NamedTuple):
    """What combinations would take along if they left their channel."""

    source: int  # their channel
    found: int  # channels that they could go to
    messages: int  # of the types that offer them
    lost: int  # of these, the messages that their channel would lose
    subscribers: int
    tight: int  # types that stay and have no connection to spare


@kernel
def survey(book: Book, now: Partition, k: int) -> Survey:
    """Look at where the first k combinations of `moved`, all of one channel, could go.

    For each channel found, in `reached`, `common` holds the messages that are there already, `agreed` how many of the
    tight types are, and `freed` how many types without a connection to spare would need one less.
    """
    source = now.channel[now.moved[0]]
    total = lost = subscribers = tight = found = 0
    for m in range(k):
        now.moving[now.moved[m]] = 1
        subscribers += book.weight[now.moved[m]]
    now.counts[STAMP] += 1
    these = now.counts[STAMP]
    listed = 0
    for m in range(k):
        a = now.moved[m]
        for i in range(book.by_start[a], book.by_start[a + 1]):
            t = book.by_type[i]
            if now.present[t] > 0 and now.touched[t] != these:
                now.touched[t] = these
                now.listed[listed] = t
                listed += 1
    for i in range(listed):
        t = now.listed[i]
        total += now.messages[t]
        stays = False
        for j in range(book.start[t], book.start[t + 1]):
            b = book.offered[j]
            if now.channel[b] == source and now.moving[b] == 0:
                stays = True
                break
        bound = 1 if stays and now.connections[t] >= now.limit[t] else 0
        free = 1 if not stays and now.connections[t] >= now.limit[t] else 0
        tight += bound
        if not stays:
            lost += now.messages[t]
        now.counts[STAMP] += 1
        stamp = now.counts[STAMP]
        for j in range(book.start[t], book.start[t + 1]):
            d = now.channel[book.offered[j]]
            if d < 0 or d == source or now.seen[d] == stamp:
                continue
            if now.seen[d] < these:
                now.reached[found] = d
                found += 1
                now.common[d] = 0
                now.agreed[d] = 0
                now.freed[d] = 0
            now.seen[d] = stamp
            now.common[d] += now.messages[t]
            now.agreed[d] += bound
            now.freed[d] += free
    for m in range(k):
        now.moving[now.moved[m]] = 0
    return Survey(source, found, total, lost, subscribers, tight)


@kernel
def saved_by(now: Partition, seen: Survey, target: int) -> int:
    """How far D falls when what was surveyed goes to a channel (-1: a new one)."""
    here, rate = now.subscribers[seen.source], now.rate[seen.source]
    saved = here * rate - (here - seen.subscribers) * (rate - seen.lost)
    if target < 0:
        return int(saved - seen.subscribers * seen.messages)
    there, rate = now.subscribers[target], now.rate[target]
    won = seen.messages - now.common[target]
    return int(saved + there * rate - (there + seen.subscribers) * (rate + won))


@kernel
def improve(book: Book, now: Partition, a: int) -> int:
    """Move one combination to where that lowers D most, if it does and every limit holds; returns what was saved."""
    now.moved[0] = a
    seen = survey(book, now, 1)
    best, most = -2, 0
    if seen.tight == 0 and now.size[seen.source] > 1:
        most = max(0, saved_by(now, seen, -1))
        best = -1 if most > 0 else -2
    for i in range(seen.found):
        d = now.reached[i]
        if now.agreed[d] == seen.tight:
            saved = saved_by(now, seen, d)
            if saved > most or (saved == most and best >= 0 and now.born[d] < now.born[best]):
                best, most = d, saved
    if best > -2:
        now.counts[CHANGED] += 1 if best == -1 else 2
        k, target = turn_round(now, 1, new_channel(now) if best == -1 else best)
        shift(book, now, k, target, True)
    return most


@kernel
def relieve(book: Book, now: Partition, t: int, log: Pairs, n: int, ahead: bool) -> tuple[int, int]:
    """Free type t of one connection: what it has in one of its channels goes to another, or all that is there does.

    The one that adds least traffic; ahead: for each type without a connection to spare that it frees,
    since these would be next. Nobody else goes beyond their limit; merging two channels is always
    possible. Returns the end of the log and the traffic added.
    """
    met = meet(book, now, t)
    channels = now.met[:met].copy()
    source = target = -1
    whole, least, cost = False, 0.0, 0
    for i in range(met):
        c = channels[i]
        for every in range(2):
            k = members(now, c) if every else take_shared(book, now, t, c, False)
            if not every and k == now.size[c]:
                continue
            seen = survey(book, now, k)
            for j in range(met):
                d = channels[j]
                if d == c or now.agreed[d] != seen.tight:
                    continue
                added = -saved_by(now, seen, d)
                score = float(added)
                if ahead and now.freed[d] > 1:
                    score = added / now.freed[d] if added > 0 else score * now.freed[d]
                if source < 0 or score < least:
                    source, target, whole, least, cost = c, d, every == 1, score, added
    k = members(now, source) if whole else take_shared(book, now, t, source, False)
    return logged_shift(book, now, k, target, log, n), cost


@kernel
def logged_shift(book: Book, now: Partition, k: int, target: int, log: Pairs, n: int) -> int:
    """Shift the first k of `moved`, and write into the log, from row n, what takes it back; returns its end."""
    k, target = turn_round(now, k, target)
    c = now.channel[now.moved[0]]
    for m in range(k):
        log[n + m, 0], log[n + m, 1] = now.moved[m], c
        log[n + m, 2], log[n + m, 3] = now.born[c], k
    now.counts[CHANGED] += 1 if now.size[target] == 0 else 2
    shift(book, now, k, target, True)
    return n + k


@kernel
def take_back(book: Book, now: Partition, log: Pairs, n: int) -> None:
    """Undo the n logged rows, last shift first; places of channels that had ended come back by themselves."""
    while n > 0:
        k, c, born = log[n - 1, 3], log[n - 1, 1], log[n - 1, 2]
        n -= k
        for m in range(k):
            now.moved[m] = log[n + m, 0]
        if now.size[c] == 0:
            c = new_channel(now)
            now.born[c] = born
        shift(book, now, k, c, True)


@kernel
def attempt(book: Book, now: Partition, a: int, log: Pairs) -> int:
    """Move a combination where that lowers D, relieve whom it pushes beyond their limit; keep it if D still falls.

    Where to is drawn among the channels, and a new one, that would lower D and push at most FEW types too far.
    """
    now.moved[0] = a
    seen = survey(book, now, 1)
    target, gain, choices = -2, 0, 0
    if now.size[seen.source] > 1 and seen.tight <= FEW:
        gain = saved_by(now, seen, -1)
        if gain > 0:
            target, choices = -1, 1
    for i in range(seen.found):
        d = now.reached[i]
        if seen.tight - now.agreed[d] > FEW:
            continue
        saved = saved_by(now, seen, d)
        if saved > 0:
            choices += 1
            if draw(now, choices) == 0:
                target, gain = d, saved
    if target == -2:
        return 0
    changed, retuned = now.counts[CHANGED], now.counts[RETUNED]
    pushed, many = np.empty(FEW, dtype=np.int64), 0
    n = logged_shift(book, now, 1, new_channel(now) if target == -1 else target, log, 0)
    for i in range(book.by_start[a], book.by_start[a + 1]):
        t = book.by_type[i]
        if now.present[t] > 0 and now.connections[t] > now.limit[t] and many < FEW:
            pushed[many] = t
            many += 1
    for i in range(many):
        while gain > 0 and now.connections[pushed[i]] > now.limit[pushed[i]]:
            if n > 3 * now.counts[HELD]:  # the log has room for one more after that
                gain = 0
                break
            n, added = relieve(book, now, pushed[i], log, n, False)
            gain -= added
    if gain <= 0:
        take_back(book, now, log, n)
        now.counts[CHANGED], now.counts[RETUNED] = changed, retuned
        return 0
    return gain


@kernel
def received(now: Partition) -> int:
    """D."""
    return int((now.subscribers * now.rate).sum())


@kernel
def repair(book: Book, now: Partition) -> None:
    """Relieve everybody who is beyond their limit, one connection at a time, the most burdened first."""
    log = np.empty((len(book.combination) + 1, 4), dtype=np.int64)
    while True:
        worst, most = -1, 0
        for t in range(len(now.limit)):
            beyond = now.connections[t] - now.limit[t]
            if now.present[t] > 0 and beyond > most:
                worst, most = t, beyond
        if worst < 0:
            return
        relieve(book, now, worst, log, 0, True)


@kernel
def polish(book: Book, now: Partition, offered: Ints) -> None:
    """Make every single move that helps, until none does."""
    helped = True
    while helped:
        helped = False
        for i in range(len(offered)):
            if improve(book, now, offered[i]) > 0:
                helped = True
