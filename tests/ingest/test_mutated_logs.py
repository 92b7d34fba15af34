"""Whole ingests of many small logs, a row of each mutated: every line is accounted for, and no other row changes."""

import json
import random
from collections import Counter
from datetime import UTC, datetime, timedelta

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from overlace.ingest.options import Options
from tests.engine import ingest_sources
from tests.ingest.logs import START, TEXTS, TIMES, WHOLE
from tests.ingest.test_mutations import mutate

ROWS, COPIES = 25, 40
FIELDS = ("at", "client", "topic", "bytes", "receiver")
ODD = {"at": TIMES, "client": TEXTS, "topic": TEXTS, "bytes": WHOLE, "receivers": [[], ["", None, "x"], ["a\x00"]]}


def messages_of(rng, name):
    """(at, client, topic, bytes, receivers): each with a time and a topic of its own, as no other log has them."""
    first = datetime.fromtimestamp(START, UTC) + timedelta(seconds=rng.randrange(10**6))
    return [
        (first + timedelta(seconds=i), f"{name}-c{rng.randrange(5)}", f"{name}/t{i}", rng.randrange(2000),
         (f"{name}-r{rng.randrange(5)}",))
        for i in range(ROWS)
    ]  # fmt: skip


def json_lines(path, rng, messages, spoiled):
    rows = [(at.isoformat(), client, topic, size, list(who)) for at, client, topic, size, who in messages]
    lines = [json.dumps(dict(zip((*FIELDS[:4], "receivers"), row, strict=True))).encode() for row in rows]
    return write_lines(path, rng, lines, spoiled)


def cells(path, rng, messages, spoiled):
    rows = [f"{at.isoformat()},{client},{topic},{size},{who[0]}".encode() for at, client, topic, size, who in messages]
    return write_lines(path, rng, [",".join(FIELDS).encode(), *rows], spoiled + 1)


def brokers_log(path, rng, messages, spoiled):
    """A message is a line that it was received by and one that it was sent by: either is mutated."""
    names = sorted({name for _, client, _, _, who in messages for name in (client, *who)})
    lines = [
        f"{START}: New client connected from 127.0.0.1:{i} as {name} (p2, c1, k60)." for i, name in enumerate(names)
    ]
    for at, client, topic, size, who in messages:
        what = f"(d0, q0, r0, m0, '{topic}', ... ({size} bytes))"
        both = f"Received PUBLISH from {client}", f"Sending PUBLISH to {who[0]}"
        lines += [f"{at.timestamp():.0f}: {line} {what}" for line in both]
    which = len(names) + 2 * spoiled + rng.randrange(2)
    return write_lines(path, rng, [line.encode() for line in lines], which)


def write_lines(path, rng, lines, which):
    lines = [mutate(rng, line) if i == which else line for i, line in enumerate(lines)]
    path.write_bytes(b"\n".join(lines) + b"\n")
    return len(lines)


def table(path, rng, messages, spoiled):
    columns = {name: [str(row[i]) for row in messages] for i, name in enumerate(FIELDS[:4])}
    columns["at"] = [row[0].isoformat() for row in messages]
    columns["receivers"] = [list(row[4]) for row in messages]
    name = rng.choice([*ODD])
    columns[name][spoiled] = rng.choice([*ODD[name], None])
    pq.write_table(pa.table(columns), path, row_group_size=10)
    return len(messages)


FORMATS = {"jsonl": json_lines, "csv": cells, "parquet": table, "log": brokers_log}


def counted(trace):
    """How often each message is in the trace, by names."""
    names = {row["id"]: row["name"] for row in trace.stored("names").to_pylist()}
    sets = {row["audience"]: row["receivers"] for row in trace.stored("audiences").to_pylist()}
    return Counter(
        (row["at"], names[row["client"]], names.get(row["topic"]), row["bytes"],
         tuple(sorted(names[each] for each in sets.get(row["audience"], ()))))
        for row in trace.stored("messages").to_pylist()
    )  # fmt: skip


@pytest.mark.parametrize("seed", range(3))
def test_a_mutated_row_changes_no_other_message_and_every_line_is_accounted_for(tmp_path, seed):
    rng = random.Random(seed)
    lines, others = {}, Counter()
    (tmp_path / "logs").mkdir()
    for kind, write in FORMATS.items():
        for copy in range(COPIES):
            name = f"{kind}{copy}x"
            messages, spoiled = messages_of(rng, name), rng.randrange(1, ROWS)
            lines[f"{name}.{kind}"] = write(tmp_path / f"logs/{name}.{kind}", rng, messages, spoiled)
            at_broker = f"{name}/" if kind == "log" else ""  # clients of brokers' logs are known by their broker too
            others.update(
                (at, at_broker + client, topic, size, tuple(at_broker + each for each in who))
                for i, (at, client, topic, size, who) in enumerate(messages)
                if i != spoiled
            )
    done = ingest_sources([str(tmp_path / "logs")], str(tmp_path / "trace"), options=Options(bucket="hour"))
    assert {account.source: account.lines for account in done.accounts} == lines
    assert all(account.adds_up() for account in done.accounts)
    found = counted(done.trace)
    assert others - found == Counter()
    assert (found - others).total() <= len(lines)
    assert int(done.trace.read("traffic")["messages"].to_numpy().sum()) >= found.total()
    bad = sum(account.bad for account in done.accounts)
    assert len(lines) / 10 < bad < len(lines)
