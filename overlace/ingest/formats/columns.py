"""Columns of any log to the columns of events: which is which, and what their text means.

Fields are mapped by name (`--map client=src`) or by the names that logs commonly use. A row whose time
or numbers cannot be read is bad, with the field named; nothing is guessed in its place.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from overlace.errors import Unknown
from overlace.ingest.formats.events import EVENT, TIME, events

COMMON: Mapping[str, tuple[str, ...]] = {
    "key": ("id", "key", "message", "message_id", "mid", "uuid"),
    "at": ("at", "time", "timestamp", "ts", "t", "hour", "date", "epoch"),
    "client": ("client", "sender", "publisher", "from", "src", "source", "client_id", "clientid"),
    "receiver": ("receiver", "subscriber", "to", "dst", "target", "recipient"),
    "receivers": ("receivers", "subscribers", "recipients", "audience"),
    "topic": ("topic", "subject", "channel", "routing_key"),
    "bytes": ("bytes", "size", "length", "payload_bytes"),
    "broker": ("broker", "server", "node", "host"),
    "weight": ("weight", "messages", "count"),
    "attributes": ("attributes",),
    "group": ("group", "queue"),
    "filter": ("filter", "pattern"),
}
"""The fields of a log and what people call them, the best name first."""


LARGEST = 2**31 - 1
"""The largest size or weight of a message."""


def mapping(columns: Sequence[str], asked: Mapping[str, str]) -> dict[str, str]:
    """Field -> column: as asked, else by its common names."""
    for name, column in asked.items():
        if name not in COMMON:
            raise Unknown("field", name, COMMON)
        if column not in columns:
            raise Unknown("column", column, columns)
    found = dict(asked)
    folded = {column.strip().lower(): column for column in columns}
    for name, common in COMMON.items():
        known = next((folded[each] for each in common if each in folded and folded[each] not in found.values()), None)
        if name not in found and known is not None:
            found[name] = known
    return found


def as_events(
    rows: pa.Table, lines: pa.Array, offsets: Any, fields: Mapping[str, str], group: Sequence[str] = ()
) -> pa.RecordBatch:
    """One event a row: a message, or bad with the field that could not be read and the line as sample."""
    n = rows.num_rows
    columns: dict[str, Any] = {"offset": offsets}
    wrong = np.full(n, "", dtype=object)
    for name in ("client", "broker", "topic", "key", "filter", "group"):
        if name in fields:
            columns[name] = _named(_text(rows[fields[name]]))
    if "at" in fields:
        columns["at"], ok = times(_text(rows[fields["at"]]))
        wrong[~ok] = f"{fields['at']}: not a time"
    else:
        wrong[:] = "no time"
    for name in ("bytes", "weight"):
        if name in fields:
            columns[name], ok = whole_numbers(_text(rows[fields[name]]))
            wrong[~ok] = f"{fields[name]}: not a whole number of 0 or more"
            large = pc.fill_null(pc.greater(columns[name], LARGEST), False).to_numpy(zero_copy_only=False)
            wrong[large] = f"{fields[name]}: above {LARGEST:,}"
    for name in ("receivers", "attributes"):
        if name in fields:
            columns[name] = _lists(rows[fields[name]])
    if "receiver" in fields:
        columns["receivers"] = _single(_named(_text(rows[fields["receiver"]])))
    if "client" in columns:
        empty = pc.fill_null(pc.equal(pc.utf8_length(columns["client"]), 0), True).to_numpy(zero_copy_only=False)
        wrong[empty & (wrong == "")] = f"{fields['client']}: empty"
    else:
        wrong[:] = "no client"
    if group:
        parts = (pc.fill_null(_text(rows[fields[name]]), "") for name in group)
        columns["key"] = pc.binary_join_element_wise(*parts, "\x1f")
    bad = wrong != ""
    columns["kind"] = np.where(bad, "bad", "message").tolist()
    if bad.any():
        columns["reason"] = [text or None for text in wrong]
        columns["sample"] = pc.if_else(pa.array(bad), pc.utf8_slice_codeunits(lines, 0, 200), None)
    return events(**columns)


def bad_events(offsets: Any, reasons: Sequence[str], samples: Sequence[str]) -> pa.RecordBatch:
    """Lines that could not be read at all."""
    kinds = ["bad"] * len(reasons)
    return events(offset=offsets, kind=kinds, reason=list(reasons), sample=[text[:200] for text in samples])


def ignored_events(offsets: Any, reason: str) -> pa.RecordBatch:
    """Lines that say nothing of use, by kind."""
    return events(offset=offsets, kind=["ignored"] * len(offsets), reason=[reason] * len(offsets))


def times(text: pa.Array) -> tuple[pa.Array, Any]:
    """(times, readable): ISO 8601, or a number of seconds, milli-, micro- or nanoseconds since 1970 by its size."""
    trimmed = pc.utf8_trim_whitespace(text)
    number = pc.fill_null(pc.match_substring_regex(trimmed, r"^-?[0-8]?\d{1,18}(\.\d+)?$"), False)
    seconds = pc.if_else(number, trimmed, None).cast(pa.float64()).to_numpy(zero_copy_only=False)
    whole = pc.if_else(number, pc.replace_substring_regex(trimmed, r"\..*$", ""), None).cast(pa.int64())
    exact = whole.fill_null(0).to_numpy(zero_copy_only=False)
    size = np.abs(np.nan_to_num(seconds))
    micro = np.select(
        [size < 1e11, size < 1e14, size < 1e17],
        [
            exact * 1_000_000 + np.rint((np.nan_to_num(seconds) - exact) * 1e6).astype(np.int64),
            exact * 1000,
            exact,
        ],
        exact // 1000,
    )
    iso = pc.fill_null(
        pc.match_substring_regex(
            trimmed, r"^\d{4}-[01]\d-[0-3]\d([T ][0-2]\d:[0-5]\d(:[0-5]\d([.,]\d{1,9})?)?(Z|[+-]\d\d:?\d\d)?)?$"
        ),
        False,
    )
    is_iso, is_number = (each.to_numpy(zero_copy_only=False) for each in (iso, number))
    if is_iso.any():
        parsed, fine = _iso(trimmed, is_iso)
        micro = np.where(is_iso, parsed, micro)
        is_iso &= fine
    ok = is_iso | is_number
    return pa.array(micro, mask=~ok).cast(TIME), ok


def _iso(text: pa.Array, chosen: Any) -> tuple[Any, Any]:
    """Microseconds of ISO 8601 times; a time without a zone is UTC."""
    plain = pc.replace_substring(pc.replace_substring(text, " ", "T", max_replacements=1), ",", ".")
    plain = pc.replace_substring_regex(plain, r"(\.\d{6})\d+", r"\1")
    zoned = pc.fill_null(pc.match_substring_regex(plain, r"T.*(Z|[+-]\d\d:?\d\d)$"), False)
    plain = pc.if_else(zoned, plain, pc.binary_join_element_wise(plain, pa.scalar("Z"), ""))
    plain = pc.if_else(
        pc.fill_null(pc.match_substring(plain, "T"), False), plain, pc.replace_substring(plain, "Z", "T00:00Z")
    )
    wanted = pc.if_else(pa.array(chosen), plain, None)
    try:
        return wanted.cast(TIME).cast(pa.int64()).fill_null(0).to_numpy(zero_copy_only=False), np.ones(len(text), bool)
    except pa.ArrowInvalid:  # a date like 2024-02-31: look for it one by one
        micro, fine = np.zeros(len(text), np.int64), np.ones(len(text), bool)
        for i in np.flatnonzero(chosen):
            try:
                micro[i] = wanted.slice(i, 1).cast(TIME).cast(pa.int64())[0].as_py()
            except pa.ArrowInvalid:
                fine[i] = False
        return micro, fine


def whole_numbers(text: pa.Array) -> tuple[pa.Array, Any]:
    """(numbers, readable): whole numbers of 0 or more; what is empty is not there and no fault."""
    trimmed = pc.utf8_trim_whitespace(text)
    there = pc.fill_null(pc.greater(pc.utf8_length(trimmed), 0), False)
    fits = pc.fill_null(pc.match_substring_regex(trimmed, r"^\d{1,18}(\.0+)?$"), False)
    plain = pc.if_else(fits, pc.replace_substring_regex(trimmed, r"\.0+$", ""), None)
    return plain.cast(pa.int64()), (pc.or_(fits, pc.invert(there))).to_numpy(zero_copy_only=False)


def _named(text: pa.Array) -> pa.Array:
    """What is empty has no name."""
    return pc.if_else(pc.fill_null(pc.equal(pc.utf8_length(text), 0), False), None, text)


def _text(values: pa.ChunkedArray) -> pa.Array:
    flat = values.combine_chunks() if isinstance(values, pa.ChunkedArray) else values
    if isinstance(flat, pa.ChunkedArray):
        flat = pa.concat_arrays(flat.chunks) if flat.num_chunks else pa.array([], flat.type)
    if pa.types.is_null(flat.type):
        return pa.nulls(len(flat), pa.string())
    if pa.types.is_floating(flat.type):  # 7.0 is 7
        whole = pc.equal(flat, pc.round(flat))
        if pc.all(whole).as_py():
            return flat.cast(pa.int64()).cast(pa.string())
    return flat.cast(pa.string())


def _lists(values: pa.ChunkedArray) -> pa.Array:
    flat = values.combine_chunks()
    if isinstance(flat, pa.ChunkedArray):
        flat = pa.concat_arrays(flat.chunks) if flat.num_chunks else pa.array([], flat.type)
    kind = EVENT.field("receivers").type
    if pa.types.is_null(flat.type):
        return pa.nulls(len(flat), kind)
    if pa.types.is_list(flat.type) or pa.types.is_large_list(flat.type):
        lists = flat.cast(kind)
    else:
        lists = pc.split_pattern_regex(pc.utf8_trim_whitespace(_text(flat)), r"[;|\s]+").cast(kind)
    inner = lists.flatten()
    holes = inner.null_count or pc.any(pc.equal(pc.utf8_length(inner), 0)).as_py()
    if holes:  # an empty name is nobody
        lists = pa.array([None if each is None else [x for x in each if x] for each in lists.to_pylist()], kind)
    return lists


def _single(text: pa.Array) -> pa.Array:
    """One receiver a row as a list of one."""
    there = text.is_valid().to_numpy(zero_copy_only=False)
    offsets = np.append(0, np.cumsum(there)).astype(np.int32)
    lists = pa.ListArray.from_arrays(pa.array(offsets), text.drop_null())
    return lists if there.all() else pc.if_else(pa.array(there), lists, None)
