"""Messages that crossed bridges, by numpy and one line after the other: what the stages replaced."""

import numpy as np

LATER = np.iinfo(np.int64).max


def follow(lines, slack_us):
    """(carried by receive, links): of each receive the message that its send carries, or None; links with their times.

    Lines are of one link each (`name`), and have log, source, offset, at, topic, bytes, message and members.
    """
    lines = sorted(lines, key=lambda line: (line["at"], line["offset"], line["source"]))
    names = sorted({line["name"].removeprefix("local.") for line in lines})
    link = np.array([names.index(line["name"].removeprefix("local.")) for line in lines], np.int64)
    log, at = (np.array([line[name] for line in lines], np.int64) for name in ("log", "at"))
    local = np.array([line["name"].startswith("local.") for line in lines], bool)
    other, links = far_ends(link, log, at, local, len(names))
    received = np.array([line["members"] is not None for line in lines], bool)
    sent = np.array([line["message"] is not None for line in lines], bool) & ~received
    to = np.where(received, log, other).tolist()
    places = [(link[i], to[i], line["topic"], line["bytes"]) for i, line in enumerate(lines)]
    numbered = {place: i for i, place in enumerate(dict.fromkeys(places))}
    group = np.array([numbered[place] for place in places], np.int64)
    order = np.lexsort((at, group))
    usable = (received | sent) & (other >= 0)
    match = pair_up(group[order], at[order], received[order], usable[order], slack_us)
    sends = {order[i]: order[send] for i, send in enumerate(match) if send >= 0}
    carried = {
        line["message"]: lines[sends[i]]["message"] if i in sends else None
        for i, line in enumerate(lines)
        if received[i]
    }
    return carried, links


def root_of(message, carried):
    """The message that was published, of one that was carried over as many links as it took."""
    while carried.get(message) is not None:
        message = carried[message]
    return message


def far_ends(link, log, at, local, count):
    """(log at the other end or -1 of each line, {(dials, far end): (since, until)})."""
    logs = int(log.max(initial=0)) + 1
    pairs, row = np.unique(link * logs + log, return_inverse=True)
    first = np.full(len(pairs), LATER)
    np.minimum.at(first, row, at)
    order = np.lexsort((pairs, first, pairs // logs))
    owner, named, when = pairs[order] // logs, pairs[order] % logs, first[order]
    begin = np.searchsorted(owner, np.arange(count + 1))
    several = np.diff(begin)
    padded, times = np.append(named, [-1, -1, -1]), np.append(when, [LATER, LATER, LATER])
    one, two = (np.where(several > 1, padded[begin[:-1] + i], -1) for i in range(2))
    since = np.where(several > 1, times[begin[:-1] + 1], LATER)
    until = np.where(several > 2, times[begin[:-1] + 2], LATER)
    other = np.where(log == one[link], two[link], np.where(log == two[link], one[link], -1))
    other = np.where(at < until[link], other, -1)
    links = {}
    for i in np.flatnonzero(local & (other >= 0)):
        shown, over = links.get(pair := (int(log[i]), int(other[i])), (LATER, -LATER))
        links[pair] = min(shown, max(int(at[i]), int(since[link[i]]))), max(over, int(until[link[i]]))
    return other, {pair: (shown, None if over == LATER else over) for pair, (shown, over) in links.items()}


def pair_up(group, at, received, usable, slack):
    """For each receive the row of its send, or -1; rows are sorted by group, then time."""
    match = np.full(len(group), -1, dtype=np.int64)
    sends = np.zeros(len(group) + 1, dtype=np.int64)
    receives = np.zeros(len(group) + 1, dtype=np.int64)
    for i in range(len(group)):
        sends[i + 1] = sends[i] + (usable[i] and not received[i])
        receives[i + 1] = receives[i] + (usable[i] and received[i])
    first = 0
    while first < len(group):
        last = first
        while last < len(group) and group[last] == group[first]:
            last += 1
        s = fresh = ahead = first
        for i in range(first, last):
            if not (usable[i] and received[i]):
                continue
            while fresh < last and at[fresh] < at[i] - slack:
                fresh += 1
            while ahead < last and at[ahead] <= at[i] + slack:
                ahead += 1
            while s < last and (not usable[s] or received[s]):
                s += 1
            if s < fresh and sends[ahead] - sends[fresh] >= receives[ahead] - receives[i]:
                s = fresh  # lost on the way, or sent before the other log begins
                while s < last and (not usable[s] or received[s]):
                    s += 1
            if s < last and at[s] <= at[i] + slack:
                match[i] = s
                s += 1
        first = last
    return match
