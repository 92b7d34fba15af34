"""Who receives by content: messages against the trace's content subscriptions, split by split inside tasks.

The driver stages the subscriptions once; a worker makes a matcher of them once, whatever the number of splits that it
reads. A message whose receivers the log names keeps them. Any other with content goes to those whose filter it matches
and whose subscription is valid at its time (`since` <= time < `until`), to nobody if there is none.

The type is a part of what an attribute is (PART10 §2.1), so filters are matched on attributes that are called
TYPE.NAME; `exists`, which holds for any type, on one more that says whether the attribute is there.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import replace
from functools import lru_cache
from typing import Any, NamedTuple, cast

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from overlace.arrays.csr import group, sort_groups, take_groups
from overlace.arrays.jit import Bools, Ints
from overlace.errors import BadFilter, BadParameter, OverlaceError
from overlace.ingest.columns import Coded, Events, rename
from overlace.ingest.content import TYPES, attribute_of, column_name, content_of, is_message
from overlace.ingest.sources import Source
from overlace.ingest.values import mask_of
from overlace.matching.content.attributes import choose_attributes
from overlace.matching.content.columns import Columns
from overlace.matching.content.constraints import Type
from overlace.matching.content.filters import Constraint, Filter, attributes_of, check_types, parse_filter
from overlace.matching.content.matcher import Matcher
from overlace.matching.content.syntax import format_filter
from overlace.trace.address import place
from overlace.trace.store import Trace
from overlace.trace.tables import TIME, arrow, is_content
from overlace.wording import counted

AT_ONCE = 1 << 14
"""Messages that are matched at once."""

FIRST, LAST = np.iinfo(np.int64).min, np.iinfo(np.int64).max
ANY: Type = "any"


# --- on the driver ----------------------------------------------------------------------------------------


def read_subscriptions(trace: Trace | None) -> pa.Table:
    """Content subscriptions with the names of their clients: client, filter, since, until."""
    if trace is None:
        return pa.table({"client": [], "filter": [], "since": [], "until": []})
    rows = trace.read("subscriptions", ["client", "filter", "dialect", "since", "until"])
    rows = rows.filter(arrow(is_content(rows["dialect"]), pa.bool_())).drop_columns(["dialect"])
    names = pa.array(trace.names.get("client", ()), pa.string())
    return rows.set_column(0, "client", names.take(rows["client"].combine_chunks()))


def check_filters(rows: pa.Table, logs: Iterable[tuple[str, Mapping[str, str]]]) -> None:
    """Refuse a filter of another type than the values of a log have: rows of client and filter; names and types."""
    kinds: dict[tuple[tuple[str, str], ...], str] = {}
    for name, types in logs:
        kinds.setdefault(tuple(sorted(types.items())), name)
    parsed = {text: parse_filter(text) for text in pc.unique(rows["filter"]).to_pylist()}
    for listed, name in kinds.items():
        logged = {each: cast(Type, kind) if kind in TYPES else ANY for each, kind in listed}
        for text, own in parsed.items():
            known: dict[str, Type] = {**dict.fromkeys(attributes_of(own), ANY), **logged}
            try:
                check_types(own, known)
            except OverlaceError as error:
                client = rows["client"][pc.index(rows["filter"], text).as_py()]
                hint = "Or say what the log holds: --content NAME:TYPE."
                raise BadFilter(f"{name} and the subscription of {client}: {error} {hint}") from None


def content_notes(
    logs: Sequence[Source], texts: Sequence[str], predicates: Sequence[str], base: Trace | None
) -> list[str]:
    """What a user should know of content and who asked for it; `texts` are the filters of content subscriptions."""
    sources = [source for source in logs if source.has_content]
    if not sources:
        return []
    if not texts:
        return [
            f"{counted(len(sources), 'log has', 'logs have')} content, and the trace has no content subscriptions: "
            "receivers follow from what else it has. Ingest subscriptions first (--table subscriptions), then logs."
        ]
    others = base.rows("subscriptions") - len(texts) if base else 0
    notes = []
    if predicates and not (base and base.notes.get("predicates")):
        made = counted(len(predicates), "attribute is", "attributes are")
        notes.append(f"{made} made of content: {', '.join(predicates[:4])}{', ...' if predicates[4:] else ''}")
    if others:
        notes.append(
            "messages with content went to content subscribers only; the trace's "
            f"{counted(others, 'other subscription', 'other subscriptions')} did not apply to them"
        )
    named = {name for source in sources for name in source.options.get("types") or ()}
    strange = sorted({name for text in set(texts) for name in attributes_of(parse_filter(text))} - named)
    if strange:
        notes.append(
            f"filters name {', '.join(strange[:5])}{', ...' if len(strange) > 5 else ''}, which the first lines of no "
            "log have"
        )
    return notes


# --- predicates: what content subscriptions share, as attributes for channels (PART10) --------------------
#
# They are chosen once, from the first lines of the logs that are ingested then, and kept in the notes of the trace: an
# attribute is called as its predicate is written. From then on every message with content has those that it satisfies,
# its sender advertises each set of them that one of its messages had, and a content subscription asks for those that
# its filter implies. See `overlace.matching.content.attributes` for how they are chosen.

NOTE = "predicates"
"""Under which the notes of a trace keep them."""

LOOKED_AT, MOST_MESSAGES = 1 << 18, 20_000
"""Bytes and messages of each log from which predicates are chosen."""


def find_predicates(
    logs: Sequence[Source], texts: Sequence[str], base: Trace | None, notes: Mapping[str, Any], asked: int | None
) -> tuple[str, ...]:
    """The predicates of the trace, or new ones if so many were asked for; none else. `texts` are the filters."""
    if notes.get(NOTE):
        return tuple(notes[NOTE])
    if asked is None:
        return ()
    sources = [source for source in logs if source.has_content]
    if not sources or not texts:
        missing = "no log has content (--content)" if not sources else "the trace has no content subscriptions"
        raise BadParameter(f"--attributes: {missing}. Attributes are made of what filters on content have in common.")
    described = [source.name for source in sources if "attributes" in source.options.get("mapping", ())]
    if described or (base is not None and base.names.get("attribute")):
        where = described[0] if described else "the trace"
        raise BadParameter(f"--attributes: {where} has attributes of its own. Leave it out, or use a new trace.")
    filters, names = parse_typed(texts)
    chosen = choose_attributes(filters, _sample(sources, names), asked)
    plain = (tuple(replace(each, attribute=each.attribute.partition(".")[2]) for each in filter) for filter in chosen)
    return tuple(map(format_filter, plain))


def warn_of_kept(base: Trace | None, asked: int | None) -> list[str]:
    """A note that a trace keeps its predicates where others were asked for."""
    kept = len(base.notes.get(NOTE) or ()) if base else 0
    if asked is None or kept == 0:
        return []
    return [
        f"--attributes {asked}: the trace keeps the {counted(kept, 'attribute', 'attributes')} that it has. Ingest "
        "subscriptions and logs into a new trace to choose anew."
    ]


def _sample(sources: Sequence[Source], names: Sequence[str]) -> Columns:
    """The content of the first messages of each log."""
    tables = [pa.table(dict.fromkeys(names, pa.nulls(0)))]
    for source in sources:
        left = MOST_MESSAGES
        for batch in source.read(*source.splits(LOOKED_AT)[0])[0]:
            if is_message(batch):
                tables.append(content_table(batch.slice(0, left), names))
                left -= batch.num_rows
            if left <= 0:
                break
    return Columns.from_batch(pa.concat_tables(tables, promote_options="permissive"))


# --- in tasks ---------------------------------------------------------------------------------------------


class Subscriptions(NamedTuple):
    """Content subscriptions as a worker has them: filters, each once, and who asked for each."""

    matcher: Matcher
    attributes: list[str]  # as the matcher calls them: TYPE.NAME
    start: Ints  # the subscriptions of filter f are the places start[f]:start[f + 1] of what follows
    client: Ints  # codes into names
    since: Ints
    until: Ints
    names: pa.Array


@lru_cache(maxsize=1)
def subscriptions_at(path: str) -> Subscriptions:
    """Content subscriptions that lie in a file, made ready once a process."""
    files, at = place(path)
    with files.open_input_stream(at) as stream:
        return prepare(pa.ipc.open_stream(stream).read_all())


def prepare(rows: pa.Table) -> Subscriptions:
    """Subscriptions (client, filter, since, until) with a matcher over their filters."""
    coded = rows["filter"].combine_chunks().dictionary_encode()
    filters, attributes = parse_typed(coded.dictionary.to_pylist())
    start, order = group(coded.indices.to_numpy(zero_copy_only=False).astype(np.int64), len(filters))
    client = rows["client"].combine_chunks().dictionary_encode()
    since, until = (
        rows[name].cast(TIME).cast(pa.int64()).fill_null(empty).to_numpy().astype(np.int64)[order]
        for name, empty in (("since", FIRST), ("until", LAST))
    )
    codes = client.indices.to_numpy(zero_copy_only=False).astype(np.int64)[order]
    return Subscriptions(Matcher(filters), attributes, start, codes, since, until, client.dictionary)


def parse_typed(texts: Iterable[str]) -> tuple[list[Filter], list[str]]:
    """(filters, attributes): filters on attributes that are called TYPE.NAME, and all these attributes."""
    filters = [
        tuple(Constraint(f"{each.type}.{each.attribute}", each.operator, each.value) for each in parse_filter(text))
        for text in texts
    ]
    return filters, sorted({each.attribute for own in filters for each in own})


def content_table(batch: pa.RecordBatch, attributes: Sequence[str]) -> pa.Table:
    """The content of events, a column for each attribute that filters name; null where it is absent."""
    have = content_of(batch)
    found: dict[str, pa.Array] = {}
    for each in attributes:
        kind, _, name = each.partition(".")
        if kind != ANY:
            column = column_name(kind, name)
            found[each] = batch[column] if column in have else pa.nulls(batch.num_rows)
        else:
            there = np.zeros(batch.num_rows, bool)
            for own in have:
                if attribute_of(own)[1] == name:
                    there |= mask_of(batch[own].is_valid())
            found[each] = pa.array(there, mask=~there)
    return pa.table(found)


def _match(batch: pa.RecordBatch, matcher: Matcher, attributes: Sequence[str]) -> tuple[Ints, Ints]:
    """(start, filters): the filters that each event of a batch with content matches."""
    content = content_table(batch, attributes)
    found, matched = matcher.match(Columns.from_batch(content) if attributes else Columns(batch.num_rows, {}))
    return np.asarray(found, np.int64), np.asarray(matched, np.int64)


def match_events(batch: pa.RecordBatch, asked: Subscriptions) -> tuple[Ints, Ints]:
    """(start, clients): those who receive each event of a batch with content, sorted, each once."""
    found, matched = _match(batch, asked.matcher, asked.attributes)
    bounds, places = take_groups(asked.start, np.arange(len(asked.client)), matched)
    row = np.repeat(np.arange(batch.num_rows), np.diff(bounds[found]))
    at = batch["at"].cast(pa.int64()).to_numpy()[row]
    valid = (asked.since[places] <= at) & (at < asked.until[places])
    start = np.append(0, np.cumsum(np.bincount(row[valid], minlength=batch.num_rows)))
    return sort_groups(start, asked.client[places[valid]])


def _of_messages(events: Events, match: Callable[[pa.RecordBatch], tuple[Ints, Ints]]) -> tuple[Ints, Ints, Bools]:
    """(row, found, matched): what is found for which event, and which events were matched at all."""
    matched, first = np.zeros(events.rows, bool), 0
    rows, codes = [np.empty(0, np.int64)], [np.empty(0, np.int64)]
    for batch in events.batches:
        for begin in range(first, first + batch.num_rows, AT_ONCE) if is_message(batch) else ():
            part = batch.slice(begin - first, AT_ONCE)
            start, found = match(part)
            rows.append(np.repeat(np.arange(begin, begin + part.num_rows), np.diff(start)))
            codes.append(found)
            matched[begin : begin + part.num_rows] = True
        first += batch.num_rows
    return np.concatenate(rows), np.concatenate(codes), matched


def add_receivers(events: Events, asked: Subscriptions) -> None:
    """Give messages of a source with content, where their receivers were not logged, those who asked for it."""
    row, client, matched = _of_messages(events, lambda batch: match_events(batch, asked))
    row, client = row[~events.logged[row]], client[~events.logged[row]]
    matched &= ~events.logged
    old = np.repeat(np.arange(events.rows), np.diff(events.start))
    kept = np.flatnonzero(~matched[old])
    start, order = group(np.concatenate([old[kept], row]), events.rows)
    codes = np.concatenate([events.receivers.codes[kept].astype(np.int64), client + len(events.client.names)])[order]
    names = pa.concat_arrays([events.client.names, asked.names.cast(pa.string())])
    events.clients = rename(Coded(np.concatenate([events.client.codes, codes]).astype(np.int32), names))
    events.start, events.logged = start, events.logged | matched


@lru_cache(maxsize=1)
def _matcher(predicates: tuple[str, ...]) -> tuple[Matcher, list[str]]:
    filters, attributes = parse_typed(predicates)
    return Matcher(filters), attributes


def describe_messages(events: Events, predicates: tuple[str, ...]) -> None:
    """Give messages of a source with content the predicates that they satisfy as attributes."""
    row, codes, events.described = _of_messages(events, lambda batch: _match(batch, *_matcher(predicates)))
    events.sets_start, order = group(row, events.rows)
    events.attribute = Coded(codes[order].astype(np.int32), pa.array(predicates, pa.string()))
