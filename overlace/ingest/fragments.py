"""EVENT: what a split of a log gives to the engine, one schema for all kinds of rows; names are 64-bit hashes.

What shrinks rows early is done here, in the reader: names are hashed once per dictionary and listed once a split, rows
of one key that stand near one another are one fragment of a message, and its receivers are the hash of a set that is
listed once a split. So about 70 bytes a message cross into the engine, not a row a delivery.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from overlace.arrays.csr import sort_groups, take_groups
from overlace.arrays.hashing import hash_groups
from overlace.arrays.jit import Bools, Ints
from overlace.ingest.columns import (
    Coded,
    Events,
    Once,
    first_of,
    hide_names,
    identify,
    keys_of,
    rename,
    runs_of,
)  # fmt: skip
from overlace.ingest.events import TIME
from overlace.ingest.job import ABSENT, EVENT, Job, id_of, message_ids, nullable, place_ids, rows
from overlace.ingest.receivers import add_receivers, describe_messages, subscriptions_at
from overlace.ingest.sources import Source
from overlace.ingest.values import list_column
from overlace.matching.names import collapse, pseudonyms
from overlace.trace.ids import audience_of, hashed, identities
from overlace.trace.store import HOUR_US

MESSAGES = ("message", "counts", "delivery")
LIFE = ("connect", "disconnect", "subscribe", "unsubscribe", "bridge", "link")
SESSIONS = ("connect", "disconnect", "subscribe", "unsubscribe")
FOLLOWS = {"bridge": "crossing", "double": "double"}
"""Lines that belong to another one and say more, by their reason."""

MANY, CONTENT, WHOLE = 1 << 17, 1 << 14, 1 << 60
"""Rows that are encoded at once: with content fewer, as those who receive it may be many; all where state runs on."""


class Ids(NamedTuple):
    """The ids of the names of some events; the last place is for none."""

    client: Ints
    broker: Ints
    topic: Ints
    attribute: Ints


def pieces(batches: Iterable[pa.RecordBatch], most: int) -> Iterator[list[pa.RecordBatch]]:
    """Batches held together until there are many rows."""
    held: list[pa.RecordBatch] = []
    count = 0
    for batch in batches:
        if batch.num_rows:
            held.append(batch)
            count += batch.num_rows
        if count >= most:
            yield held
            held, count = [], 0
    if held:
        yield held


class Split:
    """Turns what a format reads of a split into events."""

    def __init__(self, job: Job, source: Source) -> None:
        self.job, self.source = job, source
        self.about = {"source": id_of(source.digest), "log": id_of(source.log)}
        self.names = {kind: Once() for kind in ("client", "topic", "broker", "attribute")}
        self.audiences, self.sets = Once(), Once()
        self.counts: Counter[tuple[str, str]] = Counter()
        self.samples: dict[str, tuple[int, str]] = {}
        self.first, self.last = ABSENT, -ABSENT  # times

    def events(self, batches: Iterable[pa.RecordBatch], lines: Callable[[], int]) -> Iterator[pa.RecordBatch]:
        """The events of all batches, and in the end the account of the lines, of which there were so many."""
        whole = self.source.form.scope == "file" or self.job.identity == "user"
        for held in pieces(batches, WHOLE if whole else CONTENT if self.source.has_content else MANY):
            yield from self._encode(Events(held))
        self.counts["lines", ""] = lines()
        kinds, reasons = zip(*self.counts, strict=True)
        found = [self.samples.get(reason) if kind == "bad" else None for kind, reason in self.counts]
        samples = [(each[0], "(hidden)" if self.job.key else each[1]) if each else (0, None) for each in found]
        yield rows(
            "account",
            len(kinds),
            what=pa.array(kinds, pa.string()),
            reason=pa.array(reasons, pa.string()),
            rows=pa.array(list(self.counts.values()), pa.int64()),
            offset=pa.array([at for at, _ in samples], pa.int64()),
            name=pa.array([text for _, text in samples], pa.string()),
            **self.about,
        )
        if self.first <= self.last:
            ends = pa.array([self.first, self.last]).cast(TIME)
            yield rows("account", 2, what="span", reason="", rows=0, at=ends, **self.about)

    def _encode(self, events: Events) -> Iterator[pa.RecordBatch]:
        job, source = self.job, self.source
        self._count(events.batches)
        if (known := events.at[events.at != 0]).size:
            self.first, self.last = min(self.first, int(known.min())), max(self.last, int(known.max()))
        broker = source.options.get("broker")
        if broker and not source.form.one_broker:
            filled = np.where(events.broker.codes < 0, len(events.broker.names), events.broker.codes)
            names = pa.concat_arrays([events.broker.names, pa.array([broker], pa.string())])
            events.broker = rename(Coded(filled.astype(np.int32), names))

        # keys are made of names as they are logged
        grouping = source.options.get("group") or ()
        words, keyed = keys_of(events, grouping) if grouping else events.keys()
        message = place_ids(events.offset, self.about["source"])
        message[keyed] = message_ids(words[keyed], self.about["log"], job.key)
        crossing = events.crossing()

        # names: who is one client, which topics are folded, pseudonyms
        connection = identify(events, job.identity, crossing)
        if not job.keep_topics:
            topics = len(events.topic.names)
            events.topic = rename(events.topic, collapse)
            self.counts["folded", ""] += topics - len(events.topic.names)
        if job.key:
            hide_names(events, job.key, crossing)
        if job.filters and source.has_content:
            add_receivers(events, subscriptions_at(job.filters))
        if job.predicates and source.has_content:
            describe_messages(events, job.predicates)

        columns = events.client, events.broker, events.topic, events.attribute
        ids = Ids(*(np.append(identities(each.names.to_pylist()), ABSENT) for each in columns))
        of_messages = events.is_kind(*MESSAGES)
        yield from self._messages(events, np.flatnonzero(of_messages), message, keyed, ids)
        yield from self._life(events, message, crossing, connection, ids)
        yield from self._names(events, crossing, ids)
        yield from self._seen(events, of_messages, crossing, ids)

    def _count(self, batches: Sequence[pa.RecordBatch]) -> None:
        """Add up rows by kind and reason, and keep the first sample of each reason of bad rows."""
        for batch in batches:
            kind, reason, lines = batch["kind"], batch["reason"], pc.fill_null(batch["rows"], 1)
            if len(kind.dictionary) == 1 and reason.null_count == len(reason) and kind.dictionary[0].as_py() != "bad":
                self.counts["kept", ""] += pc.sum(lines).as_py() or 0
                continue
            table = pa.table({"kind": kind.cast(pa.string()), "reason": reason, "rows": lines})
            for row in table.group_by(["kind", "reason"]).aggregate([("rows", "sum")]).to_pylist():
                only_link = row["kind"] == "link" and row["reason"]  # all that the line is good for
                what = "ignored" if only_link else row["kind"] if row["kind"] in ("ignored", "bad") else "kept"
                self.counts[what, "" if what == "kept" else row["reason"] or "other"] += row["rows_sum"]
            shown = pa.table({"reason": reason, "sample": batch["sample"], "offset": batch["offset"]})
            for row in shown.filter(shown["sample"].is_valid()).to_pylist():
                if row["offset"] < self.samples.get(row["reason"], (ABSENT, ""))[0]:
                    self.samples[row["reason"]] = (row["offset"], row["sample"])

    def _messages(
        self, events: Events, chosen: Ints, message: Ints, keyed: Bools, ids: Ids
    ) -> Iterator[pa.RecordBatch]:
        """Fragments of messages: of the rows of one key each column has its least value, and all receivers."""
        if len(chosen) == 0:
            return
        message, keyed = message[chosen], keyed[chosen]
        mere = events.is_kind("delivery")[chosen]
        least = {
            "at": events.at[chosen],
            "client": ids.client[events.client.codes[chosen]],
            "topic": ids.topic[events.topic.codes[chosen]],
            "bytes": events.integers("bytes", ABSENT)[chosen],
            "weight": events.weight[chosen],
        }
        for name, values in least.items() if mere.any() else ():
            least[name] = np.where(mere, ABSENT, values)
        start, members = events.receivers_of(chosen)
        sizes, lines = np.diff(start), events.lines[chosen]
        least["attributes"] = yield from self._sets(events, chosen, ids)
        least["offset"] = events.offset[chosen]
        sums = {"rows": lines, "publishes": np.where(mere, 0, lines), "balance": events.balance[chosen]}
        most = {
            "most": np.where(mere, 0, np.where(lines > 1, np.minimum(sizes, 1), sizes)),
            "logged": events.logged[chosen],
            "counts": events.is_kind("counts")[chosen],
            "keyed": keyed,
        }
        head = runs_of(message)
        if len(head) < len(message) and len(np.unique(message[head])) < len(head):  # rows of one key stand apart
            order = np.argsort(message, kind="stable")
            start, members = take_groups(start, members, order)
            message = message[order]
            least, sums, most = ({name: each[order] for name, each in some.items()} for some in (least, sums, most))
            head = runs_of(message)
        if len(head) < len(message):
            least = {name: np.minimum.reduceat(each, head) for name, each in least.items()}
            sums = {name: np.add.reduceat(each, head) for name, each in sums.items()}
            most = {name: np.maximum.reduceat(each, head) for name, each in most.items()}
            message, start = message[head], start[np.append(head, len(start) - 1)]

        start, members = sort_groups(start, ids.client[members])
        audience = audience_of(start, members)
        logged, counts = most.pop("logged"), most.pop("counts")
        yield from self._listed("audience", self.audiences, audience, start, members, logged)
        at = nullable(least.pop("at")).cast(TIME)
        made = rows(
            "message",
            len(message),
            at=at,
            message=pa.array(message),
            audience=pa.array(audience, mask=~logged),
            heard=pa.array(np.diff(start)),
            **{name: nullable(each) for name, each in least.items()},
            **{name: pa.array(each) for name, each in {**sums, **most}.items()},
            **self.about,
        )
        if counts.any():
            made = made.set_column(0, EVENT.field("kind"), pc.if_else(pa.array(counts), "counts", "message"))
        yield made

    def _sets(self, events: Events, chosen: Ints, ids: Ids) -> Any:
        """The sets of attributes of some rows, by their hashes; each set is listed once."""
        described = events.described[chosen]
        if not described.any():
            return np.full(len(chosen), ABSENT)
        start, members = take_groups(events.sets_start, events.attribute.codes.astype(np.int64), chosen)
        start, members = sort_groups(start, ids.attribute[members])
        hashes = audience_of(start, members)
        yield from self._listed("set", self.sets, hashes, start, members, described)
        return np.where(described, hashes, ABSENT)

    def _listed(
        self, kind: str, listed: Once, hashes: Ints, start: Ints, members: Ints, there: Bools
    ) -> Iterator[pa.RecordBatch]:
        """The sets that were not listed yet."""
        places = np.flatnonzero(there)
        own, first = np.unique(hash_groups(start, members)[places], return_index=True)
        new = places[first[listed.fresh(own, np.zeros(len(own), np.int64))]]
        if len(new):
            audience, (bounds, chosen) = pa.array(hashes[new]), take_groups(start, members, new)
            yield rows(kind, len(new), audience=audience, members=list_column(bounds, pa.array(chosen)), **self.about)

    def _life(
        self, events: Events, message: Ints, crossing: Bools, connection: Coded | None, ids: Ids
    ) -> Iterator[pa.RecordBatch]:
        """Events of sessions, subscriptions, links and bridges."""
        kind = events.kind.text()
        reason = pa.concat_arrays([batch["reason"] for batch in events.batches])
        follows = pc.and_(pc.equal(kind, "follows"), pc.is_in(reason, pa.array(list(FOLLOWS))))
        wanted = pc.or_(pc.is_in(kind, pa.array(LIFE)), pc.fill_null(follows, False))
        chosen = np.flatnonzero(wanted.to_numpy(zero_copy_only=False))
        if len(chosen) == 0:
            return
        table = events.table(chosen)
        kind, reason = kind.take(pa.array(chosen)), table["reason"]
        what = pc.if_else(pc.equal(kind, "follows"), pc.if_else(pc.equal(reason, "double"), "double", "crossing"), kind)
        crossed = crossing[chosen]
        text, filters, groups = table["key"], table["filter"], table["group"]
        if not self.job.keep_topics:
            filters = collapse(filters)
        far = pc.if_else(pc.equal(kind, "link"), text, None)
        sessions = pc.is_in(kind, pa.array(SESSIONS))
        if connection is not None:
            text = connection.at(chosen).text()
        own = pc.if_else(sessions, text, None)
        if self.job.key:
            far, own, groups = (pseudonyms(each, self.job.key) for each in (far, own, groups))
            filters = pseudonyms(filters, self.job.key, "/.")
        carried = pc.if_else(pa.array(crossed), table["key"], None).cast(pa.int64())
        carries, sent = place_ids(carried.fill_null(0).to_numpy(), self.about["source"]), carried.is_valid()
        logged = events.logged[chosen]
        bounds, members = events.receivers_of(chosen)
        bounds, members = sort_groups(bounds, ids.client[members])
        topic, client = events.topic.at(chosen), events.client.at(chosen)
        plain = np.where(crossed, ABSENT, ids.client[client.codes])
        sizes = events.integers("bytes", ABSENT)[chosen]
        yield rows(
            "life",
            len(chosen),
            what=what,
            offset=pa.array(events.offset[chosen]),
            at=table["at"],
            client=nullable(plain),
            broker=nullable(ids.broker[events.broker.codes[chosen]]),
            topic=nullable(ids.topic[topic.codes]),
            bytes=nullable(sizes),
            message=pc.if_else(pa.array(logged), pa.array(message[chosen]), pc.if_else(sent, pa.array(carries), None)),
            members=list_column(bounds, pa.array(members), pa.array(~logged)),
            other=ids_of(pc.coalesce(far, own)),
            name=pc.if_else(pa.array(crossed), client.text(), None),
            filter=pc.if_else(pa.array(crossed), topic.text(), filters),
            dialect=table["dialect"],
            group=groups,
            ends=table["ends"],
            **self.about,
        )
        links = pc.is_valid(far).to_numpy(zero_copy_only=False)
        if links.any():
            names = far.filter(pa.array(links)).dictionary_encode()
            first = first_of(names.indices.to_numpy(), events.at[chosen][links], len(names.dictionary))
            yield from self._named("broker", names.dictionary, identities(names.dictionary.to_pylist()), first)

    def _names(self, events: Events, crossing: Bools, ids: Ids) -> Iterator[pa.RecordBatch]:
        """Names that events use, with when they first came up."""
        used = ~(events.is_kind("bad", "ignored") | (events.is_kind("follows") & ~crossing))
        plain = used & ~events.is_kind("bridge", "follows")
        at = np.where(used, events.at, ABSENT)
        seen = np.where(plain, events.at, ABSENT)
        heard, described = (np.repeat(at, np.diff(start)) for start in (events.start, events.sets_start))
        people = len(events.client.names)
        client = np.minimum(
            first_of(events.client.codes, seen, people), first_of(events.receivers.codes, heard, people)
        )
        yield from self._named("client", events.client.names, ids.client[:-1], client)
        for kind, column, when in (
            ("topic", events.topic, seen),
            ("broker", events.broker, at),
            ("attribute", events.attribute, described),
        ):
            first = first_of(column.codes, when, len(column.names))
            yield from self._named(kind, column.names, getattr(ids, kind)[:-1], first)

    def _named(self, kind: str, names: pa.Array, ids: Ints, first: Ints) -> Iterator[pa.RecordBatch]:
        """The names that were not listed yet, or only with a later time."""
        used = np.flatnonzero(first < ABSENT)
        own = hashed(names.take(pa.array(used)).to_pylist(), 0).view(np.int64)
        new = used[self.names[kind].fresh(own, first[used])]
        if len(new):
            at = pa.array(first[new]).cast(TIME)
            yield rows(
                "name",
                len(new),
                what=kind,
                at=at,
                other=pa.array(ids[new]),
                name=names.take(pa.array(new)),
                **self.about,
            )

    def _seen(self, events: Events, of_messages: Bools, crossing: Bools, ids: Ids) -> Iterator[pa.RecordBatch]:
        """Clients at brokers, each at most once an hour."""
        if len(events.broker.names) == 0:
            return
        senders = np.flatnonzero(of_messages & ~events.is_kind("delivery"))
        who, at = events.client.codes[senders].astype(np.int64), senders
        if self.source.at_home:
            arrived = crossing & events.is_kind("follows") & events.logged
            heard = np.flatnonzero(arrived | (of_messages & ~events.is_kind("counts")))
            start, codes = events.receivers_of(heard)
            who, at = np.append(who, codes), np.append(at, np.repeat(heard, np.diff(start)))
        where = events.broker.codes[at].astype(np.int64)
        known = (where >= 0) & (who >= 0)
        who, where, when = who[known], where[known], events.at[at[known]]
        if len(who) == 0:
            return
        order = np.lexsort((when, when // HOUR_US, where, who))
        who, where, when = who[order], where[order], when[order]
        head = runs_of(who, where, when // HOUR_US)
        yield rows(
            "seen",
            len(head),
            client=pa.array(ids.client[who[head]]),
            broker=pa.array(ids.broker[where[head]]),
            at=pa.array(when[head]).cast(TIME),
            **self.about,
        )


def ids_of(text: pa.Array) -> pa.Array:
    """The ids of a column of names."""
    coded = text.dictionary_encode()
    return pa.array(identities(coded.dictionary.to_pylist()), pa.int64()).take(coded.indices)
