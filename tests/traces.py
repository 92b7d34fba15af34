"""Small traces without Spark: the same tables, written by hand."""

from pathlib import Path

import numpy as np
import pyarrow as pa

from overlace.arrays.csr import sort_groups
from overlace.model import Names, Observation, Plan
from overlace.observe.known import known_in
from overlace.observe.observation import observe_with_names
from overlace.observe.tables import Window
from overlace.observe.traffic import IN_PROCESS, Reader
from overlace.trace.ids import identities
from overlace.trace.plan_file import PlanFile
from overlace.trace.plans import Provenance, describe, save_plan
from overlace.trace.store import HOUR_US, Trace
from overlace.trace.tables import TIME, hashed_columns
from overlace.trace.traffic import NONE, Messages, audience_hashes, reduce
from overlace.trace.writer import Writer


def columns(messages):
    """Messages given as (at, client, topic, bytes, receivers or None)."""
    at, client, topic, size, receivers = (list(each) for each in zip(*messages, strict=True)) if messages else [[]] * 5
    n = len(at)
    start = np.cumsum([0, *(len(r or ()) for r in receivers)])
    members = np.array([m for r in receivers for m in (r or ())], dtype=np.int64)
    start, members = sort_groups(start.astype(np.int64), members)
    topics = np.array([NONE if t is None else t for t in topic], dtype=np.int64)
    return Messages(
        at=np.array(at, np.int64), client=np.array(client, np.int64), topic=topics, attributes=np.full(n, NONE),
        bytes=np.array(size, np.int64), weight=np.ones(n, np.int64),
        logged=np.array([r is not None for r in receivers], np.int64), start=start, receivers=members,
    )  # fmt: skip


FROM_LOGS = {
    "sources": {
        "0" * 16: {
            "name": "a.jsonl", "format": "jsonl", "settled": {}, "broker": "", "log": "", "start": (0, ""), "marks": {},
            "end": 0, "tail": "", "disk": (0, ""), "open": False, "bridges": [], "pending": (0, 0),
            "account": {"lines": 0, "kept": 0, "duplicates": 0, "ignored": {}, "quarantined": {}},
        }
    },
    "how": {"identity": None, "keep_topics": False, "pseudonymise": False, "reduce_only": False},
    "period": "day",
}  # fmt: skip
"""Notes of a trace that an ingest of a log has made."""


def trace_of(path, messages, names=None, bucket_us=HOUR_US, notes=None, **tables):
    """A trace of such messages and further tables."""
    writer = Writer(str(path))
    made = columns(messages)
    tables = {name: each if isinstance(each, pa.Table) else pa.table(each) for name, each in tables.items()}
    known = names_for(made, tables, names or {})
    writer.name(known, {kind: np.arange(len(each)) for kind, each in known.items()})
    ids = identities(known["client"])
    reduced = reduce(made, bucket_us, ids)
    writer.write("traffic", reduced.traffic)
    writer.write("audiences", reduced.audiences)
    rows = {
        "message": np.arange(len(made.at)),
        "at": pa.array(made.at).cast(TIME),
        "client": made.client,
        "topic": pa.array(made.topic, mask=made.topic == NONE),
        "bytes": made.bytes,
        "audience": pa.array(audience_hashes(made, ids), mask=made.logged == 0),
        "weight": made.weight,
    }
    writer.write("messages", pa.table(rows))
    for name, table in tables.items():
        writer.write(name, table)
    return writer.commit(bucket_us=bucket_us, unit="message", notes=notes or {})


def names_for(made, tables, names):
    """Names for all numbers: those given, then c17, b5, t0 for the rest."""
    most = {"client": [*made.client, *made.receivers], "topic": [9, *made.topic], "broker": []}
    for table, rows in tables.items():
        for column, kind in hashed_columns(table).items():
            if column in rows.column_names:
                most[kind] += [each for each in rows[column].to_pylist() if each is not None]
    return {
        **names,
        **{
            kind: [
                *names.get(kind, ()),
                *(f"{kind[0]}{i}" for i in range(len(names.get(kind, ())), max(used, default=-1) + 1)),
            ]
            for kind, used in most.items()
        },
    }


def write_plan(
    plan: Plan,
    folder: Path,
    name: str,
    observation: Observation,
    names: Names | None = None,
    provenance: Provenance | None = None,
    *,
    force: bool = False,
) -> PlanFile:
    """Write a plan that the planner of that name made from this observation."""
    document = describe(plan, name, observation, names, provenance)
    save_plan(plan, document, folder, force=force)
    return document


def observe(trace: Trace, window: Window | None = None, reader: Reader = IN_PROCESS) -> Observation:
    """The observation of a window; without one, of all traffic there is."""
    return observe_with_names(trace, window, reader)[0]


def names_in(trace: Trace, window: Window | None = None) -> Names:
    """The names of what the observation of a window numbers."""
    return known_in(trace, window or trace.span()).names(trace.names)
