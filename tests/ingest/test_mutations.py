"""Thousands of mutated rows: none changes what another row gives, each gives one event, and nothing raises."""

import io
import json
import random
from itertools import chain

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from overlace.ingest.formats import csv, jsonl, mosquitto, parquet
from overlace.ingest.lines import blocks
from overlace.ingest.options import Options
from tests.ingest.logs import PLAIN, START, TEXTS, TIMES, WHOLE, with_text_names

MUTATED = 200 if PLAIN else 3000
PIECES = [
    b"", b'"', b",", b"{", b"}", b"[", b"]", b":", b"\\", b"\r", b"\0", b"\xff", b"\xc3", b"\xed\xa0\x80", b"\x01",
    b"\xef\xbb\xbf", b" ", b"\t", b"7", b"e", b"-0", b"null", b"[" * 70, b'""', b"\\ud83d", b"1e400", b"'",
]  # fmt: skip
FIELDS = ("kind", "reason", "at", "client", "topic", "bytes", "receivers", "message", "weight")


def mutate(rng, line):
    """A line with a few of its bytes dropped, doubled or put in."""
    line = bytearray(line)
    for _ in range(rng.choice([1, 1, 2, 5])):
        at = rng.randrange(len(line) + 1)
        line[at : at + rng.choice([0, 0, 1, 2, 8, len(line)])] = rng.choice(PIECES)
    return bytes(line).replace(b"\n", b" ")


def row(rng, i):
    return {
        "at": f"2026-01-05T08:{i // 60 % 60:02}:{i % 60:02}.{rng.randrange(1000):03}Z",
        "client": f"c{rng.randrange(20)}", "topic": f"fab/{rng.randrange(5)}/temp", "bytes": rng.randrange(2000),
        "receiver": f"c{rng.randrange(20)}", "id": rng.choice([i, f"m{i}"]),
    }  # fmt: skip


def json_lines(rng, n):
    return [json.dumps(row(rng, i)).encode() for i in range(n)]


def cells(rng, n):
    rows = [row(rng, i) for i in range(n)]
    for each in rows[::10]:
        each["topic"] = f'"{each["topic"]}"'
    return [",".join(rows[0]).encode(), *(",".join(map(str, each.values())).encode() for each in rows)]


def events_of(form, log, options, size):
    """Offset -> what the reader makes of the line."""
    batches = list(form.read(blocks(io.BytesIO(log), size=size), options))
    for batch in batches:
        batch.validate(full=True)
    rows = chain.from_iterable(with_text_names([batch]).to_pylist() for batch in batches)
    found = {}
    for each in rows:
        assert each["offset"] not in found
        found[each["offset"]] = {name: each[name] for name in FIELDS}
    return found


@pytest.mark.parametrize(("form", "make"), [(jsonl.FORMAT, json_lines), (csv.FORMAT, cells)])
@pytest.mark.parametrize("end", [b"\n", b"\r\n"])
@pytest.mark.parametrize("size", [700, 1 << 20])
def test_no_mutated_line_changes_another(form, make, end, size):
    rng = random.Random(size)
    lines = make(rng, 2 * MUTATED)
    options = form.settle(b"\n".join(lines[:50]), Options().for_format(form))
    plain = list(events_of(form, b"\n".join(lines), options, 1 << 20).items())
    assert len(plain) == len(lines)
    expected = [each for _, each in sorted(plain, key=lambda item: item[0])]
    chosen = set(rng.sample(range(1, len(lines)), MUTATED))
    broken = [mutate(rng, line) if i in chosen else line for i, line in enumerate(lines)]
    found = events_of(form, end.join(broken) + end, options, size)
    assert len(found) == len(lines)
    got = [found[offset] for offset in sorted(found)]
    assert [i for i in range(len(lines)) if i not in chosen and got[i] != expected[i]] == []
    kinds = {each["kind"] for each in got}
    assert {"message", "bad", "ignored"} >= kinds >= {"message", "bad"}


def test_no_mutated_row_of_a_table_changes_another(tmp_path):
    rng = random.Random(1)
    columns = {
        "at": [*map(str, range(START, START + 2 * MUTATED))], "client": [f"c{i % 20}" for i in range(2 * MUTATED)],
        "topic": ["t"] * (2 * MUTATED), "bytes": ["4"] * (2 * MUTATED), "receivers": [["a", "b"]] * (2 * MUTATED),
    }  # fmt: skip
    before = table_events(tmp_path, columns)
    chosen = rng.sample(range(2 * MUTATED), MUTATED)
    odd = {"at": TIMES, "client": TEXTS, "topic": TEXTS, "bytes": WHOLE, "receivers": [[], None, ["", None, "x"]]}
    for i in chosen:
        name = rng.choice([*odd])
        columns[name] = [*columns[name][:i], rng.choice([*odd[name], None]), *columns[name][i + 1 :]]
    after = table_events(tmp_path, columns)
    assert len(after) == len(before) == 2 * MUTATED
    assert all(before[i] == after[i] for i in before if i not in set(chosen))


def table_events(folder, columns):
    path = str(folder / "t.parquet")
    pq.write_table(pa.table(columns), path, row_group_size=500)
    form = parquet.FORMAT
    options = parquet.settle(path, Options(unit="s").for_format(form))
    splits = parquet.splits(path, 700)
    batches = chain.from_iterable(parquet.read_groups(path, first, last, options) for first, last in splits)
    rows = [each for batch in batches for each in with_text_names([batch]).to_pylist()]
    return {each["offset"]: {name: each[name] for name in FIELDS} for each in rows}


def test_every_mutated_line_of_a_broker_gives_one_event():
    rng = random.Random(2)
    lines = []
    for i in range(MUTATED // 3):
        size, topic = rng.randrange(100), f"fab/{rng.randrange(5)}"
        what = f"(d0, q0, r0, m0, '{topic}', ... ({size} bytes))"
        lines += [f"{START + i}: Received PUBLISH from c{i % 9} {what}"]
        lines += [f"{START + i}: Sending PUBLISH to c{k} {what}" for k in range(rng.randrange(3))]
    raw = [line.encode() for line in lines]
    form = mosquitto.FORMAT
    options = form.settle(b"\n".join(raw[:50]), Options(broker="b").for_format(form))
    for _ in range(20):
        broken = [mutate(rng, line) if rng.random() < 0.2 else line for line in raw]
        found = events_of(form, b"\n".join(broken), options, 1 << 20)
        assert len(found) == len(broken)
