"""Files of messages: by day, or by year where days hold few; a row group a source."""

from __future__ import annotations

import uuid
from collections.abc import Iterator

import numpy as np
import pyarrow as pa

from overlace.arrays.hashing import hash_groups
from overlace.arrays.jit import Ints
from overlace.ingest.messages import Messages, masks_of, take
from overlace.ingest.staging import Finished, Job, answer, label
from overlace.trace.store import DAY_US
from overlace.trace.tables import TIME, conform
from overlace.trace.traffic import NONE, UNLOGGED
from overlace.trace.writer import write_groups

LONG, THIN = 31, 1000
"""Messages of more days than this, with fewer a day than that, are in files by year."""


class MessageFiles:
    """Messages that a task writes: files by day or year, a row group a source."""

    def __init__(self, job: Job) -> None:
        self.job, self.rows = job, 0
        self.folders: dict[str, list[tuple[str, pa.Table]]] = {}

    def add(self, source: int, tail: bool, messages: Messages) -> None:
        """Take messages of a source, under ids."""
        messages = take(messages, np.flatnonzero(~messages.counts)) if messages.counts.any() else messages
        if len(messages.at) == 0:
            return
        identity = (self.job.sources[source].number << 40) | messages.offset
        if (np.diff(identity) < 0).any():
            order = np.argsort(identity, kind="stable")
            identity, messages = identity[order], take(messages, order)
        hashes = np.append(hash_groups(messages.start, messages.members), UNLOGGED)
        masks = np.append(masks_of(messages.sets_start, np.arange(len(messages.sets)), messages.sets), NONE)
        day = messages.at // DAY_US
        table = message_table(identity, messages, hashes[messages.audience], masks[messages.attributes])
        unit, places = "day", day
        if len(identity) < THIN * np.ptp(day) and len(np.unique(day)) > LONG:
            unit, places = "year", day.astype("datetime64[D]").astype("datetime64[Y]").astype(np.int64)
        for each in np.unique(places).tolist():
            own = table if (places == each).all() else table.filter(pa.array(places == each))
            folder = f"{unit}={np.datetime64(each, 'D' if unit == 'day' else 'Y')}"
            self.folders.setdefault(folder, []).append((label(self.job.sources[source].digest, tail), own))
        self.rows += len(identity)

    def flush(self) -> Iterator[pa.RecordBatch]:
        """Write what is there: an answer that names the files."""
        parts = []
        for folder, tables in sorted(self.folders.items()):
            name = f"{folder}/{self.job.id}-{uuid.uuid4().hex[:8]}"
            made = write_groups(self.job.trace, "messages", tables, name)
            parts += [(part.path, part.rows, str(part.hash), part.source, part.group) for part in made]
        self.folders, self.rows = {}, 0
        if parts:
            yield answer(Finished(parts=parts)._asdict(), {})


def message_table(identity: Ints, messages: Messages, audience: Ints, masks: Ints) -> pa.Table:
    """Rows of the table `messages`."""
    topic = messages.topic
    return conform(
        pa.table(
            {
                "message": identity,
                "at": pa.array(messages.at).cast(TIME),
                "client": messages.client,
                "topic": pa.array(topic, mask=topic < 0),
                "attributes": pa.array(masks, mask=masks == NONE),
                "bytes": messages.bytes,
                "audience": pa.array(audience, mask=messages.audience < 0),
                "weight": messages.weight,
            }
        ),
        "messages",
    )
