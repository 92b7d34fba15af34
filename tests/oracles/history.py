"""Sessions, subscriptions and links of one log by numpy: the functions that the stages replaced, ids as numbers."""

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

EVER = np.iinfo(np.int64).min
HOUR_US = 3_600_000_000


def sessions_of(life, seen):
    """{(client, broker, since, until)} of events and sightings of one source."""
    life = in_order(life.filter(pc.is_in(life["what"], pa.array(["connect", "disconnect"]))))
    client, broker, at = (numbers(life[name]) for name in ("client", "broker", "at"))
    opens = is_kind(life, "connect")
    until = np.where(same_as_next(connections(life)), np.roll(at, -1), EVER)
    order = np.lexsort((life["offset"].to_numpy(), at, client))
    first = order[turns(client[order])]
    who, where, since, ends = runs(seen, client[first], at[first])
    left = first[~opens[first] & ~np.isin(client[first], who)]
    rows = [
        (client[opens], broker[opens], at[opens], until[opens]),
        (client[left], broker[left], at[left], at[left]),
        (who, where, since, ends),
    ]
    return rows_of(*(np.concatenate(each) for each in zip(*rows, strict=True)))


def runs(seen, known, from_then):
    first = {}
    for client, broker, at in zip(*(numbers(seen[name]).tolist() for name in ("client", "broker", "at")), strict=True):
        place = client, broker, at // HOUR_US
        first[place] = min(at, first.get(place, at))
    rows = sorted((client, at, broker) for (client, broker, _), at in first.items())
    who, since, where = np.array(rows, np.int64).reshape(-1, 3).T
    place = np.searchsorted(known, who)
    known_before = np.append(known, -1)[place] == who
    ends = np.where(known_before, np.append(from_then, EVER)[place], EVER)
    early = ~known_before | (since < ends)
    who, where, since, ends = (each[early] for each in (who, where, since, ends))
    turn = turns(who) | turns(where)
    who, where, since, ends = (each[turn] for each in (who, where, since, ends))
    return who, where, since, np.where(same_as_next(who), np.roll(since, -1), ends)


def subscriptions_of(life):
    """{(client, topic, filter, dialect, group, since, until)} of events of one source."""
    life, closed = spans(life)
    hashed = pc.index_in(life["filter"], value_set=life["filter"].combine_chunks().unique())
    asked = np.where(life["filter"].is_valid(), -2 - numbers(hashed), numbers(life["topic"]))
    group = codes(pc.fill_null(life["group"], ""))
    whose = np.column_stack([connections(life), life["span"].to_numpy(), group, asked])
    order = np.lexsort((np.arange(len(whose)), *whose.T[::-1]))
    life, whose, closed = life.take(pa.array(order)), whose[order], closed[order]
    at, opens = numbers(life["at"]), is_kind(life, "subscribe")
    same = same_as_next(whose)
    fresh = opens & ~np.roll(same & opens, 1)
    until = next_of(~opens, same, at, closed)
    picked = life.filter(pa.array(fresh))
    topic = np.where(picked["filter"].is_valid(), EVER, numbers(picked["topic"], EVER))
    text = [picked[name].to_pylist() for name in ("filter", "dialect", "group")]
    return rows_of(numbers(picked["client"]), topic, *text, at[fresh], until[fresh])


def spans(events):
    every = pc.and_(
        pc.equal(events["what"], "unsubscribe"), pc.and_(events["filter"].is_null(), events["topic"].is_null())
    )
    ends = pc.or_(pc.fill_null(events["ends"], False), every)
    about = pc.or_(ends, pc.is_in(events["what"], pa.array(["subscribe", "unsubscribe"])))
    life = in_order(events.append_column("over", ends).filter(about))
    over, at, whose = life["over"].to_numpy(), numbers(life["at"]), connections(life)
    closed = next_of(over, same_as_next(whose), at, np.full(len(at), EVER))
    life = life.append_column("span", pa.array(np.cumsum(over) - over, pa.int64()))
    return life.filter(pa.array(~over)), closed[~over]


def links_of(dialled, undirected, over):
    """{(left, right, dials, since, until)} of pairs of brokers with the time of each."""
    first = {}
    for pair, at in dialled:
        first[pair] = min(at, first.get(pair, at))
    bare = {}
    for pair, at in undirected:
        pair = min(pair), max(pair)
        if pair[0] != pair[1]:
            bare[pair] = min(at, bare.get(pair, at))
    both = {(min(pair), max(pair)) for pair in first}
    rows = {
        (min(pair), max(pair), pair[0], min(at, bare.get((min(pair), max(pair)), at)), over.get(pair))
        for pair, at in first.items()
    }
    return rows | {(*pair, None, at, None) for pair, at in bare.items() if pair not in both}


def next_of(marked, same, at, otherwise):
    here = np.arange(len(at))
    place = np.minimum.accumulate(np.where(marked, here, len(at))[::-1])[::-1]
    group = np.cumsum(~np.roll(same, 1)) if len(at) else here
    found = (place < len(at)) & (np.append(group, -1)[place] == group)
    return np.where(found, np.append(at, EVER)[place], otherwise)


def in_order(events):
    whose = pa.array(connections(events))
    return events.append_column("whose", whose).sort_by([(each, "ascending") for each in ("whose", "at", "offset")])


def connections(events):
    client, connection = codes(events["client"]), codes(events["other"])
    return np.where(connection >= 0, connection + client.max(initial=-1) + 1, client)


def codes(values):
    return numbers(values.combine_chunks().dictionary_encode().indices)


def numbers(values, missing=-1):
    if pa.types.is_timestamp(values.type):
        values = values.cast(pa.int64())
    return values.fill_null(missing).to_numpy(zero_copy_only=False).astype(np.int64)


def same_as_next(rows):
    same = rows[1:] == rows[:-1]
    return np.append(same.all(axis=1) if same.ndim > 1 else same, False)[: len(rows)]


def turns(values):
    return np.append(True, values[1:] != values[:-1])[: len(values)]


def is_kind(events, kind):
    return pc.equal(events["what"], kind).to_numpy(zero_copy_only=False) if events.num_rows else np.empty(0, bool)


def rows_of(*columns):
    """Rows as sorted tuples, EVER being none."""
    lists = [each.tolist() if isinstance(each, np.ndarray) else each for each in columns]
    rows = [tuple(None if value == EVER else value for value in row) for row in zip(*lists, strict=True)]
    return sorted(rows, key=repr)
