"""Every line is read on its own, and as a plain reader reads it."""

import io
import json
import random
from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from overlace.ingest.formats import csv, jsonl
from overlace.ingest.lines import blocks
from overlace.ingest.options import Options
from tests.ingest import oracles
from tests.ingest.logs import (
    START,
    TEXTS,
    TIMES,
    WHOLE,
    files,
    is_json_number,
    objects,
    often,
    rows_of,
    with_text_names,
)
from tests.ingest.oracles import Bad, Ignored, Kept

sizes = st.sampled_from([1, 7, 64, 1 << 20])
DEEP_OR_NONE = {"not one JSON object", "nested deeper than 64 levels"}


def settled(form, sample, **options):
    return form.settle(sample, Options(**{"unit": "s", **options}).for_format(form))


def read(form, log, options, size=1 << 20):
    """Offset -> what the reader makes of the line; keys are as they are hashed."""
    found = {}
    for batch in form.read(blocks(io.BytesIO(log), size=size), options):
        batch.validate(full=True)
        for row in with_text_names([batch]).to_pylist():
            assert row["offset"] not in found
            found[row["offset"]] = outcome(row)
    return found


def outcome(row):
    if row["kind"] == "ignored":
        return Ignored(row["reason"])
    if row["kind"] == "bad":
        return Bad(frozenset([row["reason"]]))
    lists = (None if row[each] is None else frozenset(row[each]) for each in ("receivers", "attributes"))
    at = (row["at"] - oracles.EPOCH) // oracles.MICRO
    return Kept(at, row["client"], row["broker"], row["topic"], row["message"], row["bytes"], row["weight"], *lists)


def check(form, oracle, log, options, size):
    """The reader finds what the oracle finds: every line, and of each the same."""
    found, expected = read(form, log, options, size), dict(oracles.rows(log, oracle, options, options.get("head")))
    assert found.keys() == expected.keys()
    for offset, row in expected.items():
        if isinstance(row, Bad):
            reasons = row.reasons | DEEP_OR_NONE if row.reasons & DEEP_OR_NONE else row.reasons
            assert isinstance(found[offset], Bad), (row, found[offset])
            assert found[offset].reasons <= reasons
        elif isinstance(row, Kept):
            assert found[offset] == row._replace(key=found[offset].key)
        else:
            assert found[offset] == row
    kept = [(row.key, found[offset].key) for offset, row in expected.items() if isinstance(row, Kept)]
    assert len({key for key, _ in kept}) == len({hashed for _, hashed in kept}) == len(set(kept))
    assert not any((key is None) != (hashed is None) for key, hashed in kept)


FIRST = f'{{"at": {START}, "client": "a", "topic": "t", "receivers": ["b"], "bytes": 4}}'
WITH_ID = FIRST[:-1] + ', "id": 1}'


@often(400)
@given(files(objects()), sizes, st.sampled_from([FIRST, WITH_ID, "{}"]), st.sampled_from([None, ",", "none", "; "]))
def test_json_lines_are_read_as_a_plain_reader_reads_them(log, size, first, separator):
    options = settled(jsonl.FORMAT, first.encode(), list_separator=separator)
    check(jsonl.FORMAT, oracles.jsonl, log, options, size)


@often(100)
@given(files(objects()), sizes, st.sampled_from(["ms", "us", "ns"]))
def test_members_can_be_mapped_and_times_have_units(log, size, unit):
    asked = {"client": ("to", "client"), "topic": "x", "key": "topic", "at": "at"}
    options = settled(jsonl.FORMAT, WITH_ID.encode(), map=asked, unit=unit)
    check(jsonl.FORMAT, oracles.jsonl, log, options, size)


HEADERS = [
    "at,client,topic,receiver,bytes", "client;at;receivers;attributes", "id,Time,time,SRC,from,to,weight,broker",
    "at,client,client,topic,Topic,subject", " at | client | key ", "ts\tsender\tto\tx",
]  # fmt: skip


@st.composite
def tables(draw):
    head = draw(st.sampled_from(HEADERS))
    delimiter = next(each for each in ",;|\t" if each in head)
    return head, delimiter, draw(files(rows_of(head.split(delimiter), delimiter), head.encode()))


@often(400)
@given(tables(), sizes, st.sampled_from([None, ",", "none", " "]))
def test_rows_of_cells_are_read_as_a_plain_reader_reads_them(table, size, separator):
    head, delimiter, log = table
    options = settled(csv.FORMAT, head.encode(), list_separator=separator, header=True, delimiter=delimiter)
    check(csv.FORMAT, oracles.csv, log, options, size)


@often(100)
@given(files(rows_of("0123", " ")), sizes)
def test_tables_without_a_header_have_numbers_for_names(log, size):
    options = settled(
        csv.FORMAT, b"a b 1 2", header=False, delimiter=" ", map={"client": "0", "receiver": "1", "at": "2"}
    )
    check(csv.FORMAT, oracles.csv, log, options, size)


@often(150)
@given(st.sampled_from(["hour,client,topic,messages,bytes", "hour,broker,messages,bytes,topic"]), st.data(), sizes)
def test_counts_are_read_as_a_plain_reader_reads_them(head, data, size):
    log = data.draw(files(rows_of(head.split(","), ","), head.encode()))
    check(csv.COUNTS, oracles.counts, log, settled(csv.COUNTS, head.encode()), size)


@pytest.mark.parametrize("unit", ["s", "ms", "us", "ns"])
def test_every_way_to_write_a_time_or_a_number(unit):
    """As text or a number, in JSON or in a cell."""
    lines = []
    for field, written in [("at", TIMES), ("bytes", WHOLE), ("weight", WHOLE), ("receivers", TEXTS), ("topic", TIMES)]:
        for each in written:
            row = {"at": START, "client": "a", field: each}
            lines.append(json.dumps(row, ensure_ascii=False))
            if each and is_json_number(each):
                lines.append(json.dumps({**row, field: "?"}).replace('"?"', each))
    options = settled(jsonl.FORMAT, FIRST.encode(), unit=unit)
    check(jsonl.FORMAT, oracles.jsonl, "\n".join(lines).encode(), options, 1 << 20)
    columns = [("at", TIMES), ("bytes", WHOLE), ("topic", TEXTS), ("receivers", TEXTS), ("receiver", TEXTS)]
    for field, written in columns:
        cells = ['"' + each.replace('"', '""') + '"' for each in written]
        first = "" if field == "at" else f"{START},"
        log = f"{'' if field == 'at' else 'at,'}client,{field}\n" + "".join(f"{first}a,{cell}\n" for cell in cells)
        options = settled(csv.FORMAT, log.encode(), unit=unit, header=True)
        check(csv.FORMAT, oracles.csv, log.encode(), options, 1 << 20)


# --- what was seen before, one by one ------------------------------------------------------------------


def of_line(line, **options):
    line = line.encode() if isinstance(line, str) else line
    (row,) = read(jsonl.FORMAT, line, settled(jsonl.FORMAT, FIRST.encode(), **options)).values()
    return row


GOOD = Kept(START * 10**6, "a", None, "t", None, 4, None, frozenset("b"), None)


@pytest.mark.parametrize(
    "line",
    [
        FIRST[:-1] + ', "to": "c"}',
        '{"at": 1, "client": 1.5, "Topic": "x", "x": 12345678901234567890, "y": 1e400}',
        '{"at": "2026-01-05T08:00:00", "subject": "t", "sender": 12345678901234567}',
        '{"at": 1e300, "client": "a"}',
        '{"client": ["a", "b"], "at": 1, "topic": {"a": 1}}',
        '{"x": ' + "[" * 100_000,
        '{"x": ' + "[" * 100_000 + "]" * 100_000 + "}",
        "\r" * 50_000,
        "{" + ",".join(f'"x{i}": {i}' for i in range(5000)) + "}",
    ],
)
def test_no_line_changes_what_another_gives(line):
    log = "\n".join([FIRST, line, FIRST]).encode()
    options = settled(jsonl.FORMAT, FIRST.encode())
    first, _, last = (row for _, row in sorted(read(jsonl.FORMAT, log, options).items()))
    assert first == last == GOOD
    check(jsonl.FORMAT, oracles.jsonl, log, options, 1 << 20)


def test_a_17_digit_client_keeps_all_its_digits():
    log = f'{{"at": {START}, "client": 12345678901234567}}\n{{"at": {START}, "client": 1.5}}'.encode()
    found = read(jsonl.FORMAT, log, settled(jsonl.FORMAT, log))
    assert [row.client for row in found.values()] == ["12345678901234567", "1.5"]


@pytest.mark.parametrize(("unit", "zeros"), [("s", 0), ("ms", 3), ("us", 6), ("ns", 9)])
def test_the_unit_of_times_is_found_and_each_is_read(unit, zeros):
    log = f'{{"at": {START}{"0" * zeros}, "client": "a"}}'.encode()
    options = jsonl.FORMAT.settle(log, Options().for_format(jsonl.FORMAT))
    assert options["unit"] == unit
    assert read(jsonl.FORMAT, log, options)[0].at == START * 10**6


@pytest.mark.parametrize("value", [str(10**400), "1e999", "NaN", "true", "[1]", '"inf"', "{}"])
def test_times_that_are_none_do_not_settle_the_unit(value):
    log = f'{{"at": {value}, "client": "a"}}\n{{"at": {START}000, "client": "a"}}\n'.encode() * 3
    options = jsonl.FORMAT.settle(log, Options().for_format(jsonl.FORMAT))
    assert options["unit"] == "ms"


def test_the_order_of_members_does_not_matter():
    """The better name counts, of two values for one name the last."""
    members = ['"sender": "x"', '"sender": "y"', '"client": "a"', f'"at": {START}', '"topic": ""', '"subject": "t"']
    rng = random.Random(0)
    for _ in range(20):
        rng.shuffle(members)
        row = of_line("{" + ", ".join(members) + "}")
        assert (row.client, row.topic) == ("a", "t")
    members.remove('"client": "a"')
    for _ in range(20):
        rng.shuffle(members)
        last = max(members.index('"sender": "x"'), members.index('"sender": "y"'))
        assert of_line("{" + ", ".join(members) + "}").client == members[last][-2]


def test_a_mark_before_nothing_is_nothing():
    for log in (b"\xef\xbb\xbf", b"\xef\xbb\xbf \t\r\n", b"\xef\xbb\xbf\n"):
        found = read(jsonl.FORMAT, log, settled(jsonl.FORMAT, FIRST.encode()))
        assert set(found.values()) == {Ignored("blank")}


class Counting(io.BytesIO):
    taken = 0

    def read(self, size=-1):
        found = super().read(size)
        self.taken += len(found)
        return found

    def readline(self, size=-1):
        found = super().readline(size)
        self.taken += len(found)
        return found


def test_a_line_longer_than_many_parts_is_read_once():
    file = Counting(b"x" * 10_000 + b"\n" + b"y\n" * 50)
    ends = [*range(0, len(file.getvalue()), 100), len(file.getvalue())]
    parts = [part for begin, end in pairwise(ends) for part in blocks(_at_start(file), begin, end, 32)]
    assert b"".join(block for _, block in parts) == file.getvalue()
    assert file.taken < 2.5 * len(file.getvalue())


def _at_start(file):
    file.seek(0)
    return file
