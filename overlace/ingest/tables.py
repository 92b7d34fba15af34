"""Tables of a trace from plain files and topologies: small, so no Spark is needed."""

from __future__ import annotations

import re
import shlex
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from overlace.errors import BadTrace
from overlace.ingest.receivers import check_filters
from overlace.ingest.table_merging import Counts, changed_rows, counts_of, merge, unite_rows
from overlace.ingest.table_rows import encode_rows, read_table_file
from overlace.ingest.topologies import read_topology
from overlace.ingest.wiring import MST, Wanted, wire
from overlace.trace.store import HOUR_US, Trace
from overlace.trace.tables import CONTENT, TIME, arrow, is_content, numbers, schema_of
from overlace.trace.writer import LOGS, Writer, writing
from overlace.wording import counted

LOOKS_LIKE_CONTENT = re.compile(r"\S (?:=|!=|<|<=|>|>=|prefix|suffix|contains) \S|\S exists\b|^\s*\[.*,.*\]")
"""What no filter on topics looks like."""

LOGGED = ("sessions", "subscriptions")
"""Tables that logs fill: their rows stay with the log that they came from, which may be read on."""

LOG = pa.field("source", pa.int64())
"""The column beyond those tables that says which log a row came from."""


class Piece(NamedTuple):
    """Rows of a table by name, where they come from, and what new ones have where they say nothing."""

    table: str
    rows: pa.Table
    where: str
    defaults: Mapping[str, float] = {}


def add_tables(
    paths: Sequence[str],
    table: str,
    out: str,
    options: Mapping[str, Any],
    *,
    both_ways: bool = False,
    break_lock: bool = False,
    tell: Callable[[str], object] = lambda note: None,
) -> tuple[Trace, Counts]:
    """Files of one table merged into the trace, one after the other; how many rows are new, changed, kept."""
    pieces = [Piece(table, read_table_file(path, table, options, tell), path) for path in paths]
    for piece in pieces if table == "subscriptions" else ():
        _warn_of_dialects(piece, tell)
    for piece in pieces if table == "advertisements" else ():
        _warn_of_true(piece, tell)
    with writing(out, break_lock=break_lock) as writer:
        base = writer.base
        if table == "subscriptions" and base is not None:
            _refuse_plain_values(base, pieces)
            _refuse_other_types(base, pieces)
        trace, counts = _put(writer, pieces, both_ways=both_ways)
    if table == "subscriptions" and base is not None:
        _warn_of_late_filters(base, trace, tell)
    return trace, next(iter(counts.values()))


def _refuse_plain_values(base: Trace, pieces: Sequence[Piece]) -> None:
    """Refuse content subscriptions where the names of the trace are hidden: no log could be ingested after them."""
    if not (base.notes.get("how") or {}).get("pseudonymise"):
        return
    for each in pieces:
        if "dialect" in each.rows.column_names and is_content(each.rows["dialect"]).any():
            raise BadTrace(
                f"{each.where}: filters on content hold names and values as they are, and the names in the trace at "
                f"{base.path} are hidden. Ingest them and the logs into a new trace, without --pseudonymise."
            )


def _refuse_other_types(base: Trace, pieces: Sequence[Piece]) -> None:
    """Refuse content subscriptions that ask for other types than the logs have that are there already."""
    sources = (base.notes.get("sources") or {}).values()
    logs = [(each["name"], types) for each in sources if (types := (each.get("settled") or {}).get("types"))]
    for each in pieces:
        if logs and {"client", "filter", "dialect"} <= set(each.rows.column_names):
            mine = arrow(is_content(each.rows["dialect"]), pa.bool_())
            rows = each.rows.filter(pc.and_(mine, pc.is_valid(each.rows["filter"])))
            encode_rows(each.rows, each.table, base.names, where=each.where)  # one that cannot be read has its row
            check_filters(rows.select(["client", "filter"]), logs)


def _warn_of_dialects(piece: Piece, tell: Callable[[str], object]) -> None:
    """Tell where filters without a dialect, which are MQTT's, look like filters on content."""
    if "filter" not in piece.rows.column_names:
        return
    texts = piece.rows["filter"].to_pylist()
    unsaid = [None] * len(texts)
    dialects = piece.rows["dialect"].to_pylist() if "dialect" in piece.rows.column_names else unsaid
    strange = [
        text for text, said in zip(texts, dialects, strict=True) if not said and LOOKS_LIKE_CONTENT.search(str(text))
    ]
    if strange:
        tell(
            f"{piece.where}: {counted(len(strange), 'filter looks', 'filters look')} like content (first: {strange[0]})"
            f" and will be read as MQTT's. If they are on content, add the column dialect with {CONTENT!r}."
        )


def _warn_of_true(piece: Piece, tell: Callable[[str], object]) -> None:
    """Tell of advertisements that name no attribute: no message with content is in them."""
    texts = piece.rows["filter"].to_pylist() if "filter" in piece.rows.column_names else []
    empty = sum(str(text).strip().lower() == "true" for text in texts)
    if empty:
        tell(
            f"{piece.where}: {counted(empty, 'advertisement is', 'advertisements are')} 'true', which advertises only "
            "the message without attributes. Name what messages have, such as symbol exists and close exists."
        )


def _warn_of_late_filters(base: Trace, trace: Trace, tell: Callable[[str], object]) -> None:
    """Tell that content subscriptions do not count for messages that are there already."""
    sources = (base.notes.get("sources") or {}).values()
    read = [each["name"] for each in sources if (each.get("settled") or {}).get("types")]
    more = _content_rows(trace) - _content_rows(base)
    if read and more > 0:
        unasked = (
            " Until then they ask for no attribute, and so for no channel." if base.notes.get("predicates") else ""
        )
        tell(
            f"{counted(more, 'content subscription counts', 'content subscriptions count')} for logs that are ingested "
            f"from now on: the messages of {', '.join(read[:3])}{' and others' if len(read) > 3 else ''} keep their "
            f"receivers, but for the end of a log with keys that is read again when it grows.{unasked} For all, "
            "ingest subscriptions and then the logs into a new trace."
        )


def _content_rows(trace: Trace) -> int:
    """How many subscriptions are by content."""
    return int(is_content(trace.read("subscriptions", ["dialect"])["dialect"]).sum())


def add_topology(
    paths: Sequence[str], out: str, kind: str | None = None, *, wired: Wanted | None = None, break_lock: bool = False
) -> tuple[Trace, dict[str, Counts], list[str]]:
    """The brokers and links of topology files merged into the trace, and what is wired of them.

    Returns the trace, the rows by table, and what a user should know.
    """
    topology = read_topology([Path(path) for path in paths], kind)
    noted = {"bridges": [asdict(bridge) for bridge in topology.bridges]} if topology.bridges else {}
    links = topology.links
    if not any(links["wired"].to_pylist()):  # it says nothing about wiring
        links = links.drop_columns(["wired"])
    brokers = pa.table({"broker": pa.array(topology.brokers, pa.string())})
    pieces = [Piece("brokers", brokers, paths[0]), Piece("links", links, paths[0], {"wired": False})]
    notes = list(topology.notes)

    def wire_them(links: pa.Table, given: pa.Table, brokers: Sequence[str]) -> pa.Table:
        if wired is None:
            return links
        links, more = wire(links, brokers, np.array(_pairs(given), np.int64).reshape(-1, 2), wired)
        notes.extend(more)
        return links

    with writing(out, break_lock=break_lock) as writer:
        trace, counts = _put(writer, pieces, notes=noted, wire_them=wire_them)
    if topology.links.num_rows and not any(trace.read("links", ["wired"])["wired"].to_pylist()):
        command = shlex.join(["overlace", "ingest", *paths, "--topology", "--wired", MST, "--out", out])
        notes.append(f"no link is wired, so there is no tree to start from. To wire a minimum spanning tree: {command}")
    return trace, counts, notes


def _put(
    writer: Writer,
    pieces: Sequence[Piece],
    *,
    both_ways: bool = False,
    notes: Mapping[str, object] | None = None,
    wire_them: Callable[[pa.Table, pa.Table, Sequence[str]], pa.Table] | None = None,
) -> tuple[Trace, dict[str, Counts]]:
    """Merge the pieces into the trace; nothing is written unless all of them can be.

    `wire_them` is given all links, those of the piece and the names of brokers, and says which links are wired.
    """
    base = writer.base
    names = base.names if base else {}
    old: dict[str, pa.Table] = {}
    merged: dict[str, pa.Table] = {}
    for piece in pieces:
        table, rows, names = encode_rows(piece.rows, piece.table, names, where=piece.where, both_ways=both_ways)
        if table not in old:
            old[table] = merged[table] = _held(base, table)
        if table == "links" and base:
            merged[table] = _without_shown_times(merged[table], rows, base)
        merged[table] = merge(merged[table], rows, table, where=piece.where, defaults=piece.defaults)
        if table == "links" and wire_them:
            merged[table] = wire_them(merged[table], rows, names["broker"])
    writer.name(names)
    for table, rows in merged.items():
        write_changed(writer, table, old[table], rows)
    trace = writer.commit(
        bucket_us=base.bucket_us if base else HOUR_US,
        unit=base.unit if base else "message",
        notes={**(base.notes if base else {}), **(notes or {})},
    )
    return trace, {table: counts_of(old[table], rows) for table, rows in merged.items()}


def _without_shown_times(held: pa.Table, given: pa.Table, base: Trace) -> pa.Table:
    """Links without the times at which logs have shown them, where a table names them: its own word counts."""
    both = {*_pairs(base.read("links", source=LOGS))} & {*_pairs(given)}
    named = np.array([pair in both for pair in _pairs(held)], dtype=bool)
    for name in ("since", "until"):
        values = arrow(numbers(held[name], 0), TIME, named | numbers(held[name].is_null()))
        held = held.set_column(held.column_names.index(name), name, values)
    return held


def _pairs(links: pa.Table) -> list[tuple[int, int]]:
    """The pairs of brokers that links join."""
    return list(zip(*(numbers(links[end]).tolist() for end in ("left", "right")), strict=True))


def _held(base: Trace | None, table: str) -> pa.Table:
    """What the trace holds of a table, each key once unless it is the logs'."""
    rows = base.read(table) if base else schema_of(table).empty_table()
    return rows if table in LOGGED else unite_rows(rows, table)


def write_changed(writer: Writer, table: str, old: pa.Table, merged: pa.Table) -> None:
    """Write what a merge has changed: rows of a log stay with it, all others are one file."""
    own = f"table:{table}"
    if table not in LOGGED:
        writer.write(table, merged, source=own, name=f"-{table}", replace=True)
        return
    parts, fresh = writer.parts.get(table, []), merged.num_rows - old.num_rows
    sources = list(dict.fromkeys([*(part.source for part in parts), own]))
    of_part = [sources.index(part.source) for part in parts]
    source = np.repeat([*of_part, sources.index(own)], [*(part.rows for part in parts), fresh])
    touched = np.append(changed_rows(old, merged), np.ones(fresh, dtype=bool))
    for i in np.unique(source[touched]).tolist():
        rows = merged.take(arrow(np.flatnonzero(source == i), pa.int64()))
        logs = writer.base.stored(table, [], extra=[LOG], source=LOGS) if writer.base and sources[i] == LOGS else None
        writer.drop(table, sources[i])
        writer.write(table, rows, source=sources[i], name=f"-{table}-{i}", beside=logs)
