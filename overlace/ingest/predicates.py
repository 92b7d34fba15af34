"""Attributes of a trace from content: predicates that content subscriptions share, for channels (PART10).

They are chosen once, from the first lines of the logs that are ingested then, and kept in the notes of the trace: an
attribute is called as its predicate is written. From then on every message with content has those that it satisfies,
its sender advertises each set of them that one of its messages had, and a content subscription asks for those that its
filter implies. See `overlace.matching.content.attributes` for how they are chosen.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

import numpy as np
import pyarrow as pa

from overlace.errors import BadParameter
from overlace.ingest.content import is_message
from overlace.ingest.receivers import content_table, parse_typed
from overlace.ingest.sources import Source
from overlace.ingest.tables import write_changed
from overlace.matching.content.attributes import choose_attributes, mask_filters
from overlace.matching.content.columns import Columns
from overlace.matching.content.syntax import format_filter, parse_filter
from overlace.trace.store import Trace
from overlace.trace.tables import arrow, is_content, numbers, schema_of
from overlace.trace.writer import Writer
from overlace.wording import counted

NOTE = "predicates"
"""Under which the notes of a trace keep them."""

LOOKED_AT = 1 << 18
"""Bytes of each log from which predicates are chosen."""

MOST_MESSAGES = 20_000
"""Messages of each log from which they are chosen."""


# --- the choice -------------------------------------------------------------------------------------------


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


# --- what is written --------------------------------------------------------------------------------------


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
