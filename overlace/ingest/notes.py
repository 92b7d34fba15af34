"""What a trace keeps of each source, so that its next bytes are read alike, and what a user should know of it."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import TypedDict, cast

import numpy as np
import pyarrow as pa

from overlace.ingest.accounts import Account, Counts, add_counts, subtract_tail
from overlace.ingest.events import Settled
from overlace.ingest.sources import Source
from overlace.ingest.staging import Job, Parsed, by_source
from overlace.trace.store import Trace

LATER = np.iinfo(np.int64).max
FEW = 3
"""Messages up to which a client counts as short-lived."""

SETTLED = (
    "map mapping unused unit zoneless group delimiter header columns comments head list_separator content types"
).split()
"""What is kept of a source's options."""


class Note(TypedDict, total=False):
    """What a trace keeps of a source; older traces have less."""

    name: str
    number: int  # message ids are made of it
    format: str
    settled: Settled
    broker: str | None
    log: str  # which log it is a part of
    path: str  # where it lay, if messages of it may go on in any other file
    head: int  # bytes of which the source's digest is the hash
    start: tuple[int, str]  # its first bytes when it was read last, and their hash
    marks: dict[str, str]  # hashes of its first 256, 512, ... bytes
    end: int  # how far it was read
    tail: str  # the hash of the last bytes that were read
    disk: tuple[int, str]  # its bytes on disk, and the hash of the last of them
    open: bool  # its last line had no end, but could be read
    packed: bool
    keyed: bool  # rows of one key are one message
    cut: int  # messages from here on may go on
    hidden: bool  # names are pseudonyms
    bridges: list[str]
    first: int  # times
    last: int
    lines: int
    kept: int
    ignored: dict[str, int]  # by kind of line
    body: Counts  # the account of what is above the cut


def note_sources(
    job: Job,
    parsed: Sequence[Parsed],
    accounts: Sequence[Account],
    tails: Sequence[Account],
    before: Mapping[str, Note],
) -> dict[str, Note]:
    """What the next ingest must know of each source, and its ignored lines by kind."""
    splits = by_source(parsed, len(job.sources))
    listed = zip(job.sources, splits, accounts, tails, strict=True)
    return {s.digest: _note(job, s, own, (account, tail), before) for s, own, account, tail in listed}


def _note(
    job: Job, source: Source, splits: Sequence[Parsed], accounts: tuple[Account, Account], before: Mapping[str, Note]
) -> Note:
    account, tail = accounts
    known = before[source.digest] if source.begin else Note()
    above = cast(Counts, known.get("body", known))
    ignored = Counter(account.ignored)
    ignored.update(above.get("ignored", {}))
    times = [(known["first"], known["last"])] if "first" in known else []
    times += [each.read.span for each in splits]
    first, latest = min((each[0] for each in times), default=LATER), max((each[1] for each in times), default=-LATER)
    end, last_bytes, is_open = source.size, source.tail, source.open
    if source.packed and splits:
        last = max(splits, key=lambda each: each.read.number).read
        end, last_bytes, is_open = source.begin + last.size, last.last_bytes, not last.ended
    note: Note = {
        "name": source.name,
        "end": end,
        "head": source.head,
        "tail": last_bytes,
        "open": is_open,
        "log": source.log,
        "keyed": any(each.read.keyed for each in splits) or source.keyed,
        "cut": 0 if job.key else source.cut,
        "number": source.number,
        "packed": source.packed,
        "start": source.start,
        "disk": source.disk,
        "broker": None if job.key else source.options.get("broker"),
        "format": source.format,
        "settled": cast(Settled, {name: value for name, value in source.options.items() if name in SETTLED}),
        "kept": account.kept + above.get("kept", 0),
        "hidden": bool(job.key),
        "lines": account.lines + above.get("lines", 0),
        "marks": dict(source.marks),
        "bridges": bridges_of(job, splits),
    }
    if first <= latest:
        note |= {"first": first, "last": latest}
    if source.form.one_log and not job.key:
        note["path"] = source.path
    note["ignored"] = dict(sorted(ignored.items()))
    if source.cut:
        note["body"] = add_counts(subtract_tail(account, tail), known.get("body", {}))
    return note


def bridges_of(job: Job, splits: Sequence[Parsed]) -> list[str]:
    """The bridges that some splits show, without a name where names are hidden."""
    found = sorted({name for each in splits for name in each.read.bridges})
    return found if not job.key else [""] * bool(found)


def rows_from(trace: Trace, table: str, source: str) -> pa.Table:
    """What a trace has of a table from one source."""
    parts = [part for part in trace.parts.get(table, ()) if part.source == source]
    return replace(trace, parts={table: parts}).read(table)


def warn_of_bridges(trace: Trace) -> list[str]:
    """A warning where a bridge counts as a client: files that were read before did not show it as one."""
    notes: Mapping[str, Note] = trace.notes["sources"]
    shown = {
        (each["broker"], bridge)
        for each in notes.values()
        for bridge in each.get("bridges") or ()
        if each["broker"] and bridge
    }
    clients = set(trace.names["client"]) if shown else set()
    counted = sorted(
        bridge for broker, bridge in shown if clients & {f"{broker}/{bridge}", f"{broker}/local.{bridge}", bridge}
    )
    return [
        f"{each} is a bridge, and counts as a client in logs that were read before that was known. For true flows, "
        "ingest all logs into a new trace."
        for each in counted
    ]


def warn_of_namesakes(trace: Trace) -> list[str]:
    """A warning when clients that are known by their name alone were seen at several brokers."""
    notes: Mapping[str, Note] = trace.notes["sources"]
    if trace.notes["how"]["identity"] not in (None, "client") or not any(s["format"] == "nats" for s in notes.values()):
        return []
    seen: dict[int, set[int]] = {}
    for row in trace.read("sessions", ["client", "broker"]).to_pylist():
        seen.setdefault(row["client"], set()).add(row["broker"])
    several = sorted(client for client, brokers in seen.items() if len(brokers) > 1)
    if not several:
        return []
    first = several[0]
    brokers = [trace.names["broker"][each] for each in sorted(seen[first])]
    others = f", and {len(several) - 1:,} more clients," if len(several) > 1 else ""
    return [
        f"{trace.names['client'][first]}{others} came up at several brokers ({', '.join(brokers[:3])}). "
        "If several clients have one name, tell them apart with --identity broker/client."
    ]


def warn_of_short_lived(trace: Trace) -> list[str]:
    """A warning when many clients sent next to nothing: ids that are made up for each connection look like that."""
    rows = trace.read("traffic", ["client", "messages"])
    sent = np.bincount(rows["client"].to_numpy(), weights=rows["messages"].to_numpy()) if rows.num_rows else np.zeros(0)
    few = int(((sent > 0) & (sent <= FEW)).sum())
    if few < 20 or few < 0.2 * (sent > 0).sum():
        return []
    return [
        f"{few:,} of {int((sent > 0).sum()):,} senders sent {FEW} messages or fewer in all. If their ids are made up "
        "for each connection, say who is one client with --identity PATTERN."
    ]
