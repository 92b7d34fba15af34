"""JSON lines: one object a line, its members mapped to fields.

    {"at": "2026-01-05T08:00:00Z", "client": "plc2", "topic": "fab/4/temp", "bytes": 4, "receivers": ["hmi7"]}

A line is a message. With an `id` lines of one id are one message; without, each is its own.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping

import numpy as np
import pyarrow as pa

from overlace.arrays.json import DEPTH, NO_OBJECT, NOT_UNICODE, TOO_DEEP, TWICE, Wanted, hash_name, scan_objects
from overlace.errors import Unknown
from overlace.ingest.cells import Spans, read_spans
from overlace.ingest.content import Reader, asked_types, settle_content, with_content
from overlace.ingest.content import Spans as Values
from overlace.ingest.events import Blocks, Format, Settled
from overlace.ingest.fields import COMMON, FIELDS, OPTIONS, PLACE, in_lower_case, match_columns, settle_mapping
from overlace.ingest.lines import TextLines, bad, read_lines

LOOKED_AT = 2000
"""Lines that are looked at to settle what holds for all."""

REASONS = {
    NO_OBJECT: "not one JSON object",
    TOO_DEEP: f"nested deeper than {DEPTH} levels",
    NOT_UNICODE: "not Unicode: half of a surrogate pair",
    **{TWICE + i: f"two values for {name}" for i, name in enumerate(FIELDS)},
}


def wanted_members(asked: Mapping[str, tuple[str, ...]]) -> Wanted:
    """The members to look for: those that were asked for as they are written, common names in any case."""
    names = [(name, True, field, rank) for field, listed in asked.items() for rank, name in enumerate(listed)]
    for field, listed in COMMON.items():
        if field not in asked:
            names += [(name, False, field, rank) for rank, name in enumerate(listed)]
    return Wanted(
        np.array([_hash(name) for name, *_ in names], np.int64),
        np.array([exact for _, exact, *_ in names], np.int8),
        np.array([PLACE[field] for *_, field, _ in names], np.int64),
        np.array([rank for *_, rank in names], np.int64),
        len(FIELDS),
    )


def _hash(name: str) -> int:
    data = np.frombuffer(name.encode(), dtype=np.uint8)
    with np.errstate(over="ignore"):
        return int(hash_name.plain(data, 0, len(data), False))  # type: ignore[attr-defined]


def read(blocks: Blocks, options: Settled) -> Iterator[pa.RecordBatch]:
    """Events of JSON objects, a line each; options as `settle` gives them."""
    members = wanted_members(options["map"])

    wanted = asked_types(options.get("content") or ())
    own = Wanted(
        np.array([_hash(name) for name in wanted], np.int64),
        np.ones(len(wanted), np.int8),
        np.arange(len(wanted)),
        np.zeros(len(wanted), np.int64),
        len(wanted),
    )
    names = list(wanted)
    wrong = {NOT_UNICODE: REASONS[NOT_UNICODE], **{TWICE + i: f"two values for {each}" for i, each in enumerate(names)}}

    def content(lines: TextLines) -> Iterator[pa.RecordBatch]:
        block, data = lines.data.tobytes(), lines.data.copy()
        state, begin, end, kinds = scan_objects(data, lines.first, lines.last, own)
        yield from bad(block, lines, {code: state == code for code in wrong}, wrong)
        reader = Reader(data, len(state))
        for place, name in enumerate(names):
            reader.add(name, Values(begin[place], end[place], kinds[place]), wanted[name])
        reader.wrong[state != 0] = 0  # told by the reader of fields
        yield from reader.bad(block, lines)
        fine = (state < NOT_UNICODE) & (reader.wrong == 0)
        if fine.any():
            yield from with_content(rows(lines.at(fine)), lines.offsets, reader.columns)

    def rows(lines: TextLines) -> Iterator[pa.RecordBatch]:
        block = lines.data.tobytes()  # escapes are decoded in place
        state, begin, end, kinds = scan_objects(lines.data, lines.first, lines.last, members)
        yield from bad(block, lines, {int(c): state == c for c in np.unique(state) if c}, REASONS)
        fine = state == 0
        if fine.any():
            yield from read_spans(block, lines.at(fine), Spans(begin, end, kinds).at(fine), options)

    yield from read_lines(blocks, content if wanted else rows)


def is_finished(line: bytes) -> bool:
    """Whether a line is a whole JSON value, if not one of ours."""
    try:
        json.loads(line)
    except ValueError:
        return False
    except RecursionError:
        return line.rstrip().endswith((b"}", b"]"))
    return True


def settle(sample: bytes, options: Settled) -> Settled:
    """Which members the first lines have, and the unit of their times."""
    members: dict[str, None] = {}
    objects = []
    for line in sample.split(b"\n")[:LOOKED_AT]:
        try:
            found = json.loads(line)
        except (ValueError, RecursionError):
            continue
        if isinstance(found, dict):
            members.update(dict.fromkeys(name.encode("utf-8", "backslashreplace").decode() for name in found))
            objects.append(found)
    asked = options["map"]
    for field in ("at", "client"):
        if objects and field in asked and not set(asked[field]) & set(members):
            raise Unknown("member of the first lines", asked[field][0], members)
    named = [name for names in asked.values() for name in names]
    times = asked.get("at", COMMON["at"])
    folded = ({name.lower(): value for name, value in each.items()} | each for each in objects)
    samples = [next((each[name] for name in times if each.get(name) is not None), None) for each in folded]
    later = [name for name in named if name not in members]
    columns = [*members, *later]
    settled = settle_mapping(options, columns, samples, match_columns(columns, asked, in_lower_case))
    values = {name: [each.get(name) for each in objects] for name in columns}
    if not objects:  # nothing to go by
        values |= {name: [] for name in asked_types(options.get("content") or ())}
    settle_content(settled, values, typed=True)
    return settled


def sniff(head: bytes) -> float:
    """How much it looks like JSON objects, a line each, with members that logs have."""
    line = head.lstrip().partition(b"\n")[0].strip()
    if not line.startswith(b"{"):
        return 0.0
    known = sum(f'"{name}"'.encode() in line.lower() for names in COMMON.values() for name in names)
    return 0.95 if known >= 2 and line.endswith(b"}") else 0.5


FORMAT = Format(
    name="jsonl", scope="line", sniff=sniff, read=read, finished=is_finished, settle=settle, options=OPTIONS
)
