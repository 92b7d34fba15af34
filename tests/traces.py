"""Small traces without Spark: the same tables, written by hand."""

import numpy as np
import pyarrow as pa

from overlace.arrays.csr import sort_groups
from overlace.trace.store import HOUR_US
from overlace.trace.tables import TIME
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


def trace_of(path, messages, names=None, bucket_us=HOUR_US, notes=None, **tables):
    """A trace of such messages and further tables."""
    writer = Writer(str(path))
    made = columns(messages)
    reduced = reduce(made, bucket_us)
    writer.write("traffic", reduced.traffic)
    writer.write("audiences", reduced.audiences)
    rows = {
        "message": np.arange(len(made.at)),
        "at": pa.array(made.at).cast(TIME),
        "client": made.client,
        "topic": pa.array(made.topic, mask=made.topic == NONE),
        "bytes": made.bytes,
        "audience": pa.array(audience_hashes(made), mask=made.logged == 0),
        "weight": made.weight,
    }
    writer.write("messages", pa.table(rows))
    most = max([0, *made.client.tolist(), *made.receivers.tolist()]) + 1
    known = {"client": [f"c{i}" for i in range(most)], "topic": [f"t{i}" for i in range(10)], **(names or {})}
    listed = [(kind, i, name) for kind, each in known.items() for i, name in enumerate(each)]
    kinds, ids, called = zip(*listed, strict=True)
    writer.write("names", pa.table({"kind": kinds, "id": pa.array(ids, pa.int32()), "name": called}))
    for name, table in tables.items():
        writer.write(name, table if isinstance(table, pa.Table) else pa.table(table))
    return writer.commit(bucket_us=bucket_us, unit="message", notes=notes or {})
