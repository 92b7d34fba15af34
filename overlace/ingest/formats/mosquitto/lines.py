"""Lines of a block as columns: what each is, its numbers, and its names as codes."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Any, cast

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from overlace.arrays.jit import Bools, Ints
from overlace.ingest.formats.mosquitto.shapes import BAD, CUT_SHORT, GONE, LEFT, NO_TIME, OTHER, REASON, SHAPES, TAB
from overlace.ingest.lines import BLANK, REASONS, SAMPLE, text_lines

Numbers = NDArray[Any]  # of whatever width

LINE = r"^(?P<at>\d{1,11}|\d{4}-\d\d-\d\d[T ]\d\d:\d\d:\d\d(?:Z|[+-]\d\d:?\d\d)?): (?P<rest>.*)$"
NEVER = np.iinfo(np.int64).min
"""The time of a line that has none."""


@dataclass
class Part:
    """The lines of one block: numbers, and names as codes into `clients`, `topics` and `users` (-1: none)."""

    numbers: dict[str, Numbers]
    clients: pa.Array
    topics: pa.Array
    users: pa.Array
    samples: pa.Array  # of BAD and TAB lines, in order
    addresses: pa.Array  # of CONNECT, LINK and LINK_IN lines, in order


_NUMBERS = {
    **dict.fromkeys("dup qos retain present version clean step".split(), np.int8),
    **dict.fromkeys("mid size".split(), np.int32),
}


def parse_lines(offset: int, block: bytes, timezone: str) -> Part:
    """The lines of a block that begins at an offset."""
    text, offsets, state = text_lines(offset, block)
    head = pc.extract_regex(text, LINE)
    at = _times(pc.struct_field(head, "at"), timezone)
    rest = pc.fill_null(pc.if_else(pa.array(at != NEVER), pc.struct_field(head, "rest"), ""), "")
    numbers: dict[str, Numbers] = {name: np.zeros(len(offsets), kind) for name, kind in _NUMBERS.items()}
    numbers |= {"offset": offsets, "at": at}
    code, reason = np.zeros(len(offsets), np.int8), np.zeros(len(offsets), np.int16)
    none = (np.empty(0, np.int64), pa.array([], pa.string()))
    found: dict[str, list[tuple[Ints, pa.Array]]] = {name: [none] for name in ("client", "topic", "user", "address")}
    for shape in SHAPES:
        where = np.flatnonzero(mask(pc.starts_with(rest, shape.begins)))
        if shape.unless and len(where):
            where = where[~mask(pc.ends_with(rest.take(pa.array(where)), shape.unless))]
        if not len(where):
            continue
        if shape.fields:
            fields = pc.extract_regex(rest.take(pa.array(where)), "^" + re.escape(shape.begins) + shape.fields + "$")
            whole = mask(pc.is_valid(fields)) & _fits(fields, numbers)
            if not shape.optional:
                code[where[~whole]], reason[where[~whole]] = BAD, REASON[CUT_SHORT]
            where, fields = where[whole], fields.filter(pa.array(whole))
            for field in fields.type:
                values = fields.field(field.name)
                if field.name in numbers:
                    numbers[field.name][where] = _whole(values)
                else:
                    named = mask(pc.not_equal(values, ""))
                    found[field.name].append((where[named], values.filter(pa.array(named))))
        code[where], reason[where] = shape.code, REASON[shape.reason]
    code[mask(pc.ends_with(rest, " disconnected.")) & (code == GONE)] = LEFT
    code[at == NEVER], reason[at == NEVER] = BAD, REASON[NO_TIME]
    blank = state == BLANK
    code[blank], reason[blank] = OTHER, REASON["blank"]
    for wrong, why in REASONS.items():
        code[state == wrong], reason[state == wrong] = BAD, REASON[why]
    # A line that no shape knows may be the echo of a filter above it: only then its text is kept.
    echo = np.flatnonzero((reason == REASON["notice"]) & np.append(True, code[:-1] == TAB))
    found["topic"].append((echo, rest.take(pa.array(echo))))
    numbers["client"], clients = _encode_names(found["client"], len(offsets))
    numbers["topic"], topics = _encode_names(found["topic"], len(offsets))
    numbers["user"], users = _encode_names(found["user"], len(offsets))
    bad = np.flatnonzero(is_any(code, BAD, TAB))
    samples = pc.utf8_slice_codeunits(text.take(pa.array(bad)), 0, SAMPLE)
    broken = np.isin(state[bad], list(REASONS))
    if broken.any():
        shown = [block[first:][: 4 * SAMPLE].partition(b"\n")[0] for first in (offsets[bad[broken]] - offset).tolist()]
        samples = pc.replace_with_mask(
            samples,
            pa.array(broken),
            pa.array([each.decode(errors="replace")[:SAMPLE] for each in shown], samples.type),
        )
    order = np.argsort(np.concatenate([where for where, _ in found["address"]]))
    addresses = pa.concat_arrays([values for _, values in found["address"]]).take(pa.array(order))
    numbers |= {"code": code, "reason": reason}
    return Part(numbers, clients, topics, users, samples, addresses)


def mask(values: pa.Array) -> Bools:
    """Truth values as an array, null being false."""
    return cast(Bools, pc.fill_null(values, False).to_numpy(zero_copy_only=False))


def is_any(code: Numbers, *codes: int) -> Bools:
    """Where a code is one of several."""
    return np.isin(code, codes)


def _times(text: pa.Array, timezone: str) -> Ints:
    """Microseconds since 1970 of epoch seconds and ISO times; `NEVER` where there is none."""
    coded = text.dictionary_encode()  # a second holds many lines
    distinct = coded.dictionary
    plain = pc.match_substring_regex(distinct, r"^\d+$")
    epoch = pc.multiply(pc.if_else(plain, distinct, None).cast(pa.int64()), 1_000_000)
    day = pc.replace_substring(pc.utf8_slice_codeunits(distinct, 0, 19), " ", "T")
    local = pc.strptime(day, format="%Y-%m-%dT%H:%M:%S", unit="us", error_is_null=True)
    zone = pc.replace_substring(pc.utf8_slice_codeunits(distinct, 19), ":", "")
    there = pc.assume_timezone(local, timezone, ambiguous="earliest", nonexistent="earliest").cast(pa.int64())
    iso = pc.if_else(pc.equal(zone, ""), there, pc.subtract(local.cast(pa.int64()), _east(zone)))
    times = pc.fill_null(pc.coalesce(epoch, iso), NEVER).to_numpy(zero_copy_only=False)
    codes = pc.fill_null(coded.indices, len(times)).to_numpy(zero_copy_only=False)
    return cast(Ints, np.append(times, NEVER)[codes])


def _east(zone: pa.Array) -> pa.Array:
    """Microseconds east of Greenwich of +0100 and the like; of anything else 0."""
    parts = pc.extract_regex(zone, r"^(?P<sign>[+-])(?P<hours>\d\d)(?P<minutes>\d\d)$")
    hours, minutes = (pc.struct_field(parts, each).cast(pa.int64()) for each in ("hours", "minutes"))
    size = pc.multiply(pc.add(pc.multiply(hours, 60), minutes), 60_000_000)
    west = pc.equal(pc.struct_field(parts, "sign"), "-")
    return pc.fill_null(pc.if_else(west, pc.negate(size), size), 0)


def _encode_names(found: list[tuple[Ints, pa.Array]], lines: int) -> tuple[Numbers, pa.Array]:
    """(codes, names): each line's name as its place in the distinct names, -1 where it has none."""
    codes = np.full(lines, -1, np.int32)
    coded = pa.concat_arrays([values for _, values in found]).dictionary_encode()
    codes[np.concatenate([where for where, _ in found])] = coded.indices.to_numpy()
    return codes, coded.dictionary


def _fits(fields: pa.StructArray, numbers: dict[str, Numbers]) -> Bools:
    """Whether the numbers of each line are no larger than any that a broker writes."""
    fine = np.ones(len(fields), bool)
    for field in fields.type:
        if field.name in numbers:
            fine &= mask(pc.less(pc.utf8_length(pc.fill_null(fields.field(field.name), "")), 10))
    return fine


def _whole(values: pa.Array) -> pa.Array:
    return pc.if_else(pc.equal(values, ""), "0", values).cast(pa.int32())
