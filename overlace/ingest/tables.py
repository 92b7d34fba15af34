"""Tables of a trace from plain files and topologies: small, so no Spark is needed."""

from __future__ import annotations

import re
import shlex
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, fields
from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from overlace.errors import BadParameter, BadTrace
from overlace.ingest.events import in_one_piece
from overlace.ingest.options import Options, TableOptions, flag_of, read_share
from overlace.ingest.receivers import check_filters
from overlace.ingest.table_merging import RowCounts, changed_rows, counts_of, merge, unite_rows
from overlace.ingest.table_rows import Cell, encode_rows, place_of, read_table_file, read_texts
from overlace.ingest.topologies import read_topology
from overlace.ingest.wiring import ALL, MST, WiringRequest, among, pairs_of, wire
from overlace.matching.content.attributes import mask_filters
from overlace.matching.content.syntax import parse_filter
from overlace.matching.names import check_value, pseudonyms
from overlace.trace.address import local
from overlace.trace.store import HOUR_US, Trace
from overlace.trace.tables import CONTENT, TIME, arrow, is_content, numbers, schema_of
from overlace.trace.writer import LOGS, Writer, writing
from overlace.wording import counted

LOOKS_LIKE_CONTENT = re.compile(r"\S (?:=|!=|<|<=|>|>=|prefix|suffix|contains) \S|\S exists\b|^\s*\[.*,.*\]")
"""What no filter on topics looks like."""

LOGGED = ("sessions", "subscriptions")
"""Tables that logs fill: their rows stay with the log that they came from, which may be read on."""


HIDDEN = {**dict.fromkeys(("client", "broker", "left", "right", "dials", "group"), ""), "topic": "/.", "filter": "/."}
"""Columns of names that can be hidden, and what parts their levels."""


class TablePiece(NamedTuple):
    """Rows of a table by name, where they come from, and what new ones have where they say nothing."""

    table: str
    rows: pa.Table
    where: str
    defaults: Mapping[str, float] = {}

    def texts(self, column: str) -> list[str | None]:
        """A column of text; empty where it is not named."""
        rows = self.rows
        return rows[column].to_pylist() if column in rows.column_names else [None] * rows.num_rows


def key_of(base: Trace | None, asked: bool, out: str) -> bytes:
    """The key that names are hidden with: where that is asked for, or those of the trace are."""
    hidden = base is not None and base.notes.get("check")
    key = Options(pseudonymise=bool(asked or hidden)).key()
    if base is not None and key and base.rows("names") and hidden != check_value(key):
        wrong = (
            "hidden with another key than that in OVERLACE_KEY" if hidden else "not hidden: leave --pseudonymise out"
        )
        raise BadParameter(f"the names in the trace at {out} are {wrong}")
    return key


def hide_names(piece: TablePiece, key: bytes) -> TablePiece:
    """A piece with pseudonyms for names, as logs have them."""
    rows = piece.rows
    if key and "attributes" in rows.column_names:
        raise BadTrace(f"{piece.where}: attributes cannot be hidden. Ingest them without --pseudonymise.")
    for name in [each for each in HIDDEN if key and each in rows.column_names]:
        texts = read_texts(in_one_piece(rows[name]), Cell(piece.where, name))
        rows = rows.set_column(rows.column_names.index(name), name, pseudonyms(texts, key, HIDDEN[name]))
    return piece._replace(rows=rows)


class Merged(NamedTuple):
    """A trace that tables or a topology were merged into, rows by table, and what a user should know."""

    trace: Trace
    tables: dict[str, RowCounts]
    notes: list[str]


def ingest_tables(files: Sequence[str | pa.Table], out: str, options: Options, tables: TableOptions) -> Merged:
    """Plain tables, or the topology where no table is named, merged into a trace."""
    _refuse_options_of_logs(options)
    columns = {name: each if isinstance(each, str) else each[-1] for name, each in options.map.items()}
    how = {"map": columns, "delimiter": options.delimiter, "header": options.header}
    unit, hidden, lock = tables.cost_unit, options.pseudonymise, options.break_lock
    if tables.table:
        notes: list[str] = []
        trace, counts = add_tables(
            files, tables.table, out, how, both_ways=tables.both_ways,
            cost_unit=unit, pseudonymise=hidden, break_lock=lock, tell=notes.append,
        )  # fmt: skip
        return Merged(trace, {tables.table: counts}, notes)
    paths = [each for each in files if isinstance(each, str)]
    if len(paths) < len(files):
        raise BadParameter("a topology comes from files. Give a frame of links as the table links.")
    if tables.wired in (None, MST, ALL) and any(value not in (None, {}) for value in how.values()):
        raise BadParameter("--map, --delimiter and --header work on tables, not on topologies. Leave them out.")
    wanted = WiringRequest(tables.wired, how) if tables.wired else None
    return Merged(*add_topology(paths, out, wired=wanted, cost_unit=unit, pseudonymise=hidden, break_lock=lock))


def _refuse_options_of_logs(options: Options) -> None:
    for each in fields(options):
        of_tables = each.name in ("map", "delimiter", "header", "pseudonymise", "break_lock")
        unset = (each.default, read_share(each.metadata["typed"])) if "typed" in each.metadata else (each.default,)
        if not of_tables and getattr(options, each.name) not in unset:
            raise BadParameter(f"{flag_of(each.name)} works on logs, not on tables and topologies. Leave it out.")


def add_tables(
    files: Sequence[str | pa.Table],
    table: str,
    out: str,
    options: Mapping[str, Any],
    *,
    both_ways: bool = False,
    cost_unit: str | None = None,
    pseudonymise: bool = False,
    break_lock: bool = False,
    tell: Callable[[str], object] = lambda note: None,
) -> tuple[Trace, RowCounts]:
    """Files of one table merged into the trace, one after the other; how many rows are new, changed, kept."""
    pieces = [TablePiece(table, read_table_file(each, table, options, tell), place_of(each)) for each in files]
    for piece in pieces:
        if note := _doubtful_filters(piece):
            tell(note)
    with writing(out, break_lock=break_lock) as writer:
        base = writer.base
        key = key_of(base, pseudonymise, out)
        if table == "subscriptions" and (base is not None or key):
            for piece in pieces:
                _refuse_content(base, piece, key, out)
        trace, counts, _ = _put(writer, pieces, key, both_ways=both_ways, cost_unit=cost_unit)
    if table == "subscriptions" and base is not None and (note := _late_filters(base, trace)):
        tell(note)
    return trace, next(iter(counts.values()))


def _doubtful_filters(piece: TablePiece) -> str:
    """A note on topic filters that look like content, or on advertisements that no message with content meets."""
    filters = [str(text) for text, said in zip(piece.texts("filter"), piece.texts("dialect"), strict=True) if not said]
    strange = [text for text in filters if LOOKS_LIKE_CONTENT.search(text)]
    empty = sum(text.strip().lower() == "true" for text in filters)
    if piece.table == "subscriptions" and strange:
        return (
            f"{piece.where}: {counted(len(strange), 'filter looks', 'filters look')} like content (first: {strange[0]})"
            f" and will be read as MQTT's. If they are on content, add the column dialect with {CONTENT!r}."
        )
    if piece.table == "advertisements" and empty:
        return (
            f"{piece.where}: {counted(empty, 'advertisement is', 'advertisements are')} 'true', which advertises only "
            "the message without attributes. Name what messages have, such as symbol exists and close exists."
        )
    return ""


def _typed_logs(base: Trace) -> list[tuple[str, Mapping[str, str]]]:
    """(name, types of attributes) of the logs with content that a trace was made of."""
    sources = (base.notes.get("sources") or {}).values()
    return [(each["name"], types) for each in sources if (types := (each.get("settled") or {}).get("types"))]


def _refuse_content(base: Trace | None, piece: TablePiece, key: bytes, out: str) -> None:
    """Refuse content subscriptions where names are hidden, or of other types than the logs that are there have.

    No log could be ingested after filters that show names and values as they are.
    """
    columns = piece.rows.column_names
    content = is_content(piece.rows["dialect"]) if "dialect" in columns else np.zeros(0, bool)
    if content.any() and key:
        raise BadTrace(
            f"{piece.where}: filters on content hold names and values as they are, and the names in the trace at {out} "
            "are hidden. Ingest them and the logs into a new trace, without --pseudonymise."
        )
    if base is None:
        return
    logs = _typed_logs(base)
    if content.any() and logs and {"client", "filter"} <= set(columns):
        encode_rows(piece.rows, piece.table, base.names, where=piece.where)  # one that cannot be read has its row
        own = pc.and_(arrow(content, pa.bool_()), pc.is_valid(piece.rows["filter"]))
        check_filters(piece.rows.filter(own).select(["client", "filter"]), logs)


def _late_filters(base: Trace, trace: Trace) -> str:
    """A note where content subscriptions do not count for messages that are there already."""
    read = [name for name, _ in _typed_logs(base)]
    if not read:
        return ""
    dialects = (each.read("subscriptions", ["dialect"])["dialect"] for each in (trace, base))
    after, before = (int(is_content(each).sum()) for each in dialects)
    more = after - before
    if more <= 0:
        return ""
    others = " and others" if len(read) > 3 else ""
    unasked = " Until then they ask for no attribute, and so for no channel." if base.notes.get("predicates") else ""
    return (
        f"{counted(more, 'content subscription applies', 'content subscriptions apply')} for logs that are ingested "
        f"from now on: the messages of {', '.join(read[:3])}{others} keep their receivers, but for the end of a log "
        f"with keys that is read again when it grows.{unasked} For all, ingest subscriptions and then the logs into a "
        "new trace."
    )


def add_topology(
    paths: Sequence[str],
    out: str,
    *,
    wired: WiringRequest | None = None,
    cost_unit: str | None = None,
    pseudonymise: bool = False,
    break_lock: bool = False,
) -> tuple[Trace, dict[str, RowCounts], list[str]]:
    """The brokers and links of topology files merged into the trace, and what is wired of them.

    Returns the trace, the rows by table, and what a user should know.
    """
    topology = read_topology([local(path) for path in paths])
    links = topology.links
    if not any(links["wired"].to_pylist()):  # it says nothing about wiring
        links = links.drop_columns(["wired"])
    brokers = pa.table({"broker": pa.array(topology.brokers, pa.string())})
    pieces = [TablePiece("brokers", brokers, paths[0]), TablePiece("links", links, paths[0], {"wired": False})]
    with writing(out, break_lock=break_lock) as writer:
        key = key_of(writer.base, pseudonymise, out)
        if key and wired and wired.how not in (MST, ALL):
            raise BadParameter(f"--wired {wired.how}: the trace's names are hidden. Use mst or all, or --table links.")
        bridges = [] if key else [asdict(bridge) for bridge in topology.bridges]
        said = {"bridges": bridges} if bridges else {}
        trace, counts, wiring = _put(writer, pieces, key, notes=said, wanted=wired, cost_unit=cost_unit)
    notes = [*topology.notes, *wiring]
    if links.num_rows and not any(trace.read("links", ["wired"])["wired"].to_pylist()):
        command = shlex.join(["overlace", "ingest", *paths, "--topology", "--wired", MST, "--out", out])
        notes.append(f"no link is wired, so there is no tree to start from. To wire a minimum spanning tree: {command}")
    return trace, counts, notes


def _put(
    writer: Writer,
    pieces: Sequence[TablePiece],
    key: bytes = b"",
    *,
    both_ways: bool = False,
    notes: Mapping[str, object] | None = None,
    wanted: WiringRequest | None = None,
    cost_unit: str | None = None,
) -> tuple[Trace, dict[str, RowCounts], list[str]]:
    """Merge the pieces into the trace, and wire links; nothing is written unless all of them can be.

    Returns the trace, the rows by table, and what a user should know of the wiring.
    """
    base = writer.base
    names = base.names if base else {}
    old: dict[str, pa.Table] = {}
    merged: dict[str, pa.Table] = {}
    wiring: list[str] = []
    for piece in (hide_names(each, key) for each in pieces):
        table, rows, names = encode_rows(piece.rows, piece.table, names, where=piece.where, both_ways=both_ways)
        if table not in old:
            held = base.read(table) if base else schema_of(table).empty_table()
            old[table] = merged[table] = held if table in LOGGED else unite_rows(held, table)
        if table == "links" and base:
            merged[table] = _without_shown_times(merged[table], rows, base)
        merged[table] = merge(merged[table], rows, table, where=piece.where, defaults=piece.defaults)
        if table == "links" and wanted:
            merged[table], wiring = wire(merged[table], names["broker"], pairs_of(rows), wanted)
    unit = cost_unit or (base.unit if base else "message")
    asked = cost_unit or (base.notes.get("cost_unit") if base else None)
    if "links" in merged and not asked and unit != "gb":
        unit = "ms" if _are_milliseconds(merged["links"]) else "message"
    writer.name(names)
    for table, rows in merged.items():
        write_changed(writer, table, old[table], rows)
    trace = writer.commit(
        bucket_us=base.bucket_us if base else HOUR_US,
        unit=unit,
        notes={**(base.notes if base else {}), **(notes or {}), **({"check": check_value(key)} if key else {})}
        | ({"cost_unit": cost_unit} if cost_unit else {}),
    )
    return trace, {table: counts_of(old[table], rows) for table, rows in merged.items()}, wiring


def _are_milliseconds(links: pa.Table) -> bool:
    """Whether every cost is the latency of its link, as where a topology has coordinates and no costs."""
    priced = links.filter(links["cost"].is_valid())
    cost, latency = (numbers(priced[name].fill_null(-1)) for name in ("cost", "latency_us"))
    return len(cost) > 0 and bool((np.abs(1000 * cost - latency) < 1).all())


def _without_shown_times(held: pa.Table, given: pa.Table, base: Trace) -> pa.Table:
    """Links without the times at which logs have shown them, where a table names them: its own word counts."""
    pairs = pairs_of(held)
    named = among(pairs, pairs_of(base.read("links", source=LOGS))) & among(pairs, pairs_of(given))
    for name in ("since", "until"):
        values = arrow(numbers(held[name], 0), TIME, named | numbers(held[name].is_null()))
        held = held.set_column(held.column_names.index(name), name, values)
    return held


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
    log = pa.field("source", pa.int64())  # which log a row came from
    for i in np.unique(source[touched]).tolist():
        rows = merged.take(arrow(np.flatnonzero(source == i), pa.int64()))
        logs = writer.base.stored(table, [], extra=[log], source=LOGS) if writer.base and sources[i] == LOGS else None
        writer.drop(table, sources[i])
        writer.write(table, rows, source=sources[i], name=f"-{table}-{i}", beside=logs)


def write_requests(writer: Writer, predicates: Sequence[str]) -> list[str]:
    """Write what content subscriptions ask for, and tell whose filters imply no predicate: they ask for nothing."""
    base = writer.base
    rows = base.read("subscriptions") if base else schema_of("subscriptions").empty_table()
    own = np.flatnonzero(is_content(rows["dialect"]))
    if base is None or len(own) == 0:
        return []
    texts = rows["filter"].take(arrow(own, pa.int64())).to_pylist()
    asked = mask_filters([parse_filter(text) for text in texts], [parse_filter(text) for text in predicates])
    masks = numbers(rows["attributes"], 0).copy()
    masks[own] = asked
    column = rows.schema.get_field_index("attributes")
    merged = rows.set_column(column, rows.schema.field(column), arrow(masks, pa.int64(), masks == 0))
    write_changed(writer, "subscriptions", rows, merged)
    clients = numbers(rows["client"])[own[asked == 0]]  # of subscriptions that are in no channel
    if len(clients) == 0:
        return []
    few = list(dict.fromkeys(clients.tolist()))
    called = ", ".join(base.names["client"][each] for each in few[:3]) + (", ..." if few[3:] else "")
    return [
        f"{len(clients):,} of {counted(len(own), 'content subscription', 'content subscriptions')} "
        f"{'asks' if len(clients) == 1 else 'ask'} for no attribute, and so for no channel ({called}): none of the "
        "trace's attributes holds for all that the filter matches. A new trace chooses attributes anew."
    ]
