"""Files of messages: by day, a row group a source."""

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


class MessageFiles:
    """Messages that a task writes: files by day, a row group a source."""

    def __init__(self, job: Job) -> None:
        self.job, self.rows = job, 0
        self.days: dict[int, list[tuple[str, pa.Table]]] = {}

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
        for each in np.unique(day):
            own = table if day[0] == day[-1] == each and (day == each).all() else table.filter(pa.array(day == each))
            self.days.setdefault(int(each), []).append((label(self.job.sources[source].digest, tail), own))
        self.rows += len(identity)

    def flush(self) -> Iterator[pa.RecordBatch]:
        """Write what is there: an answer that names the files."""
        parts = []
        for day, tables in sorted(self.days.items()):
            date = str(np.datetime64(day, "D"))
            name = f"day={date}/{self.job.id}-{uuid.uuid4().hex[:8]}"
            made = write_groups(self.job.trace, "messages", tables, name)
            parts += [(part.path, part.rows, str(part.hash), part.source, part.group) for part in made]
        self.days, self.rows = {}, 0
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
