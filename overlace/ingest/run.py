"""Ingest: logs to a trace, every line accounted for.

One pass over the logs writes their events; the tables of the trace are made of these by DataFrames, and nothing
counts before the manifest is written, so a killed ingest leaves the trace as it was.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from contextlib import AbstractContextManager, nullcontext
from dataclasses import replace
from functools import partial
from types import MappingProxyType
from typing import Any, NamedTuple

import pyarrow as pa
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

from overlace.errors import Absent, BadParameter, BadTrace
from overlace.ingest import bridges, frames, history, merge, stages
from overlace.ingest.accounts import Book, SourceAccount, notes_on_rows, sources_table
from overlace.ingest.fields import refuse_missing
from overlace.ingest.frames import Batch
from overlace.ingest.growth import new_sources
from overlace.ingest.job import EVENT, Job, id_of
from overlace.ingest.merge import Facts, MergeScope
from overlace.ingest.meter import metered
from overlace.ingest.notes import notes_of
from overlace.ingest.options import BUCKETS, KEPT, Options, keep_settings
from overlace.ingest.receivers import (
    NOTE,
    check_filters,
    content_notes,
    find_predicates,
    read_subscriptions,
    warn_of_kept,
)  # fmt: skip
from overlace.ingest.source import read_events
from overlace.ingest.sources import Source, identity_of, refuse_changed, settle_together
from overlace.ingest.store import Store, columns_of, settings, union
from overlace.ingest.table_merging import RowCounts
from overlace.ingest.tables import write_requests
from overlace.ingest.topologies import Bridge
from overlace.ingest.where import refuse_names
from overlace.matching.names import check_value
from overlace.model import Progress
from overlace.trace.address import absolute, is_address
from overlace.trace.notes import Note
from overlace.trace.store import DAY_US, HOUR_US, MINUTE_US, Trace
from overlace.trace.tables import TIME, schema_of
from overlace.trace.writer import LOGS, writing
from overlace.wording import counted

Start = Callable[[int], SparkSession]
"""What starts a session for so many bytes of logs."""

Watch = Callable[[SparkSession, str, float, float], AbstractContextManager[None]]
"""What reports how far the jobs of a stage are, between two shares of the whole."""


class Ingested(NamedTuple):
    """A trace and how it came about."""

    trace: Trace
    accounts: list[SourceAccount]
    known: list[str]  # sources with nothing new, and why
    folded: int  # topic names that folding saved
    notes: list[str]  # what a user should know
    tables: Mapping[str, RowCounts] = MappingProxyType({})  # rows that plain tables brought

    def __repr__(self) -> str:
        kept, lines = (sum(each) for each in zip((0, 0), *((a.kept, a.lines) for a in self.accounts), strict=True))
        said = [f"{kept:,} of {counted(lines, 'row', 'rows')}"] if self.accounts else self.known
        said += [f"{name}: {counts}" for name, counts in self.tables.items()]
        return f"<Ingested {'; '.join(said)} into {self.trace!r}>"


def ingest_sources(
    paths: Sequence[str],
    out: str,
    spark: SparkSession | Start,
    options: Options | None = None,
    progress: Progress | None = None,
    watch: Watch = lambda spark, stage, begin, end: nullcontext(),
) -> Ingested:
    """Read logs into the trace at `out`, new or existing; a session that is yet to be made is made if it is needed."""
    chosen, logs = options or Options(), [absolute(path) for path in paths]
    with writing(out, break_lock=chosen.break_lock) as writer:
        chosen, key, notes = settle(chosen, writer.base, out)
        new, known = new_sources(logs, chosen, notes.get("sources", {}), key)
        sources = settle_together(new)
        for source in sources:  # before an engine starts
            if source.format == "parquet" or (source.options.get("columns") and chosen.max_bad < 1):
                refuse_missing(source.name, source.options)
        if not sources:
            if writer.base is None:
                raise Absent(f"nothing to ingest: {'; '.join(known) or 'no file was found'}")
            return Ingested(writer.base, [], known, 0, warn_of_kept(writer.base, chosen.attributes))
        size = sum(source.size - source.begin for source in sources)
        with settings(spark(size) if callable(spark) else spark) as session:
            done = Ingest(Store(session, writer), sources, chosen, key, notes, progress, watch).run(read_events)
        return done._replace(known=known)


def ingest_frame(
    frame: Any,
    out: str,
    spark: SparkSession | Start,
    options: Options | None = None,
    progress: Progress | None = None,
    watch: Watch = lambda spark, stage, begin, end: nullcontext(),
    batch: Batch | None = None,
) -> Ingested:
    """Read the rows of a frame of Spark, pandas, Arrow or Polars, or a batch of a stream, into the trace at `out`."""
    chosen = replace(options or Options(), format="parquet")
    with writing(out, break_lock=chosen.break_lock) as writer:
        chosen, key, notes = settle(chosen, writer.base, out)
        settled = frames.settle(frame, chosen)  # before an engine starts
        refuse_missing(frames.NAME, settled)
        with settings(spark(0) if callable(spark) else spark) as session:
            rows = frames.as_spark(frame, session, settled)
            source = frames.source_of(rows, settled, key) if batch is None else frames.batch_of(batch, settled, key)
            before = notes.get("sources", {}).get(source.digest)
            if not source.size or (writer.base is not None and before and before["end"] >= source.size):
                known = f"{source.name}: {'nothing new' if source.size else 'empty'}"
                if writer.base is None:
                    raise Absent(f"nothing to ingest: {known}")
                return Ingested(writer.base, [], [known], 0, warn_of_kept(writer.base, chosen.attributes))
            if batch and before:
                source = replace(
                    source, begin=before["end"], options={**settled, "unit": before["settled"].get("unit")}
                )
            read = partial(frames.read_events, rows, number=batch.number if batch else 0)
            return Ingest(Store(session, writer), [source], chosen, key, notes, progress, watch).run(read)


def settle(options: Options, base: Trace | None, out: str) -> tuple[Options, bytes, dict[str, Any]]:
    """(options, key, notes): what holds for all logs of the trace, refused where it was otherwise."""
    if not out.isprintable():
        raise BadTrace(f"{out!r}: engines take no path with such a character. Choose another name for the trace.")
    chosen = keep_settings(options, base)
    key = chosen.key()
    check = check_value(key)
    notes = dict(base.notes) if base else {}
    if ("how" in notes or notes.get("check")) and notes.get("check") != check:
        raise BadParameter(f"the names in the trace at {out} are hidden with another key than that in OVERLACE_KEY")
    if base is not None and chosen.bucket and base.rows("traffic") and BUCKETS[chosen.bucket] != base.bucket_us:
        raise BadParameter(f"--bucket {chosen.bucket}: the trace at {out} has other buckets, and they cannot change")
    return chosen, key, {**notes, "check": check}


RECEIVES = pa.schema([("message", pa.int64()), ("carried", pa.int64()), ("members", pa.list_(pa.int64()))])
DIALLED = pa.schema([("dials", pa.int64()), ("far", pa.int64()), ("since", TIME), ("until", TIME)])


class Ingest:
    """One ingest, from sources to a trace."""

    def __init__(
        self,
        store: Store,
        sources: Sequence[Source],
        options: Options,
        key: bytes,
        notes: dict[str, Any],
        progress: Progress | None,
        watch: Watch,
    ) -> None:
        self.store, self.base, self.options, self.notes = store, store.base, options, notes
        self.watch = partial(watch, store.spark)
        self.noted: dict[str, Note] = dict(notes.get("sources", {}))
        self.report = progress or (lambda share, what: None)
        for source in sources if key else ():
            refuse_names(source.options)
        self.job = Job(tuple(sources), options.identity or identity_of(sources), options.keep_topics, key)
        self.crossed: dict[str, int] | None = None
        self.dialled = store.read(DIALLED)

    def run(self, read: Callable[[SparkSession, Job], DataFrame]) -> Ingested:
        """All of it; `read` gives the events of a job."""
        store = self.store
        self._prepare_content()
        events, book = self._read(read)
        facts = merge.facts_of(store, f"{store.writer.staging}/events")
        scope = self._scope(events, facts, book)
        known = list(self.base.names.get("attribute", ())) if self.base else []
        bits = merge.bits_of(events, facts, known or self.job.predicates)

        with self._stage("joining messages", 0.5, 0.7):
            fragments, sets, crossed = self._fragments(events, facts, scope, [each for _, each in bits])
            messages, unfinished, repeats, pending = None, None, {}, {}
            if fragments:
                whole, listed = union(fragments), union(sets)
                together = facts.keyed or len(fragments) > 1
                facts = replace(facts, keyed=together, alone=facts.alone and crossed is None)
                messages, joined, unfinished = merge.write_messages(store, whole, listed, facts, scope)
                sets += joined
                repeats = self._later_repeats(messages, whole) if together else {}

        with self._stage("summing traffic", 0.7, 0.9):
            if messages is not None or "counts" in facts.kinds:
                traffic = merge.write_traffic(store, events, messages, facts, scope)
                merge.write_audiences(store, union(sets), traffic, scope)
                if self.job.predicates:
                    self._write_advertisements(traffic)
                if facts.keyed:
                    again = traffic.where("repeats > 0").groupBy("source").agg(F.sum("repeats").alias("repeats"))
                    for row in again.toArrow().to_pylist():
                        repeats[row["source"]] = repeats.get(row["source"], 0) + row["repeats"]
            if "name" in facts.kinds:
                merge.write_names(store, events, [name for name, _ in bits] or known)
            if {"life", "seen"} & facts.kinds:
                life = "life" in facts.kinds
                history.write_history(store, events, self.job.sources, self.dialled, scope.bucket_us, life)
            if unfinished is not None:
                rows = stages.pending_of(unfinished, whole).toArrow().to_pylist()
                pending = {(row["source"], row["broken"]): row["rows"] for row in rows}
                if scope.kept:
                    merge.write_pending(store, unfinished, whole, union(sets))

        self.report(0.9, "writing")
        accounts = book.close(repeats, pending, self.shown)
        trace, warnings = self._commit(scope)
        for source, account in zip(self.job.sources, accounts, strict=True):
            warnings += notes_on_rows(source, account.lines, account.duplicates)
        return Ingested(trace, accounts, [], book.total("folded"), warnings)

    def _fragments(
        self, events: DataFrame, facts: Facts, scope: MergeScope, bits: Sequence[int]
    ) -> tuple[list[DataFrame], list[DataFrame], DataFrame | None]:
        """(fragments, sets of receivers, what crossed bridges): new ones, and those that the trace has."""
        sets = [stages.rows_of(events, "audience").select("audience", "members"), *merge.held_sets(self.store)]
        fragments, crossed = [], None
        if "message" in facts.kinds:
            masks = stages.masks_of(events, bits) if bits else None
            fragments.append(stages.fragments_of(events, masks))
        if any(self.shown.values()):
            crossed = self._follow(events)
            fragments.append(bridges.fragments_of(crossed))
            sets.append(crossed.select("audience", "members"))
        return [*fragments, *merge.held_fragments(self.store, scope)], sets, crossed

    def _follow(self, events: DataFrame) -> DataFrame:
        """(message, audience, heard, members): who got messages over bridges, by the message that was published."""
        store = self.store  # under pseudonyms topics that bridges rename no longer match
        renames = [] if self.job.key else [Bridge.of(each) for each in self.notes.get("bridges", [])]
        crossings = bridges.crossings_of(stages.rows_of(events, "life"), renames)
        at = store.write("receives", bridges.receives_of(crossings), counts=False)
        receives, self.dialled = store.read(RECEIVES, at), bridges.dialled_links_of(crossings)
        self.crossed = bridges.counts_of(receives, self.dialled).toArrow().to_pylist()[0]
        hops = len({source.log for source in self.job.sources})
        found = stages.receivers_of(bridges.receivers_of(receives, hops))
        return store.read(merge.JOINED, store.write("crossed", found, counts=False))

    # --- reading

    def _prepare_content(self) -> None:
        """Put content subscriptions where tasks find them, and choose the predicates that are attributes."""
        job, base = self.job, self.base
        self.texts: list[str] = []
        if any(source.has_content for source in job.sources):
            rows = read_subscriptions(base)
            if rows.num_rows and job.key:
                raise BadParameter(
                    "--pseudonymise: the trace's content subscriptions hold names and values as they are. Leave it "
                    "out, or ingest into a trace without them."
                )
            if rows.num_rows:
                check_filters(rows, ((source.name, source.options.get("types") or {}) for source in job.sources))
                self.texts = rows["filter"].to_pylist()
                at = self.store.put_beside("filters.arrow", rows)
                self.job = replace(job, filters=at)
        chosen = find_predicates(job.sources, self.texts, base, self.notes, self.options.attributes)
        self.job = replace(self.job, predicates=chosen)

    def _read(self, read: Callable[[SparkSession, Job], DataFrame]) -> tuple[DataFrame, Book]:
        """(events, the accounts of their lines); read again where files show more bridges of their brokers."""
        store = self.store
        while True:
            with self._metered():
                at = store.write("events", read(store.spark, self.job), "kind", counts=False)
            if not store.folders(at):
                store.writer.refuse_if_broken()
                raise BadTrace(
                    f"{store.writer.path}: the engine writes elsewhere. Choose a path of letters and digits."
                )
            events = store.read(EVENT, at)
            dialling = f"{at}/kind=life" in store.folders(at) and any(s.form.one_broker for s in self.job.sources)
            self.shown = bridges.shown_by(events) if dialling else {}
            learned = self.job.sources if self.job.key else bridges.learned(self.job.sources, self.shown, self.noted)
            if learned == self.job.sources:
                break
            self.job = replace(self.job, sources=learned)
        for source in self.job.sources:
            if source.path:
                refuse_changed(source)
        book = Book(self.job.sources, self.noted, self.options, stages.accounts_of(events).toArrow().to_pylist())
        if not self.job.meter:
            self.report(0.5, f"reading: {book.total('lines'):,} lines")
        return events, book

    def _stage(self, name: str, begin: float, end: float) -> AbstractContextManager[None]:
        """Report a stage, and where the engine says so how many of its tasks are done."""
        self.report(begin, name)
        return self.watch(name, begin, end)

    def _metered(self) -> AbstractContextManager[None]:
        """Report what is read: in lines and bytes where tasks can note them, else in tasks."""
        path, sources = self.store.writer.path, self.job.sources
        if is_address(path) or not all(source.path for source in sources):
            return self._stage("reading", 0.05, 0.5)
        self.report(0.05, "reading")
        self.job = replace(self.job, meter=f"{path}/{self.store.writer.staging}/.meter")
        known = not any(source.packed or source.format == "parquet" for source in sources)
        total = sum(source.size - source.begin for source in sources) if known else 0
        return metered(self.job.meter, total, lambda share, said: self.report(0.05 + 0.45 * share, said))

    def _scope(self, events: DataFrame, facts: Facts, book: Book) -> MergeScope:
        """What of the trace is made anew."""
        base = self.base
        replaced = [s.digest for s in self.job.sources if not s.begin and s.digest in self.noted]
        spans = [(n["first"], n["last"]) for d in replaced if "first" in (n := self.noted[d])]
        unit = merge.unit_of(base, facts)
        if base and base.rows("traffic"):
            bucket = base.bucket_us
        elif self.options.bucket:
            bucket = BUCKETS[self.options.bucket]
        else:
            bucket = HOUR_US if facts.first > facts.last or facts.last - facts.first >= DAY_US else MINUTE_US
        formats = {**{d: n["format"] for d, n in self.noted.items()}, **{s.digest: s.format for s in self.job.sources}}
        added = tuple(id_of(digest) for digest, kind in formats.items() if kind == "counts")
        periods = merge.periods_of(self.store, events, unit, book.spans, spans)
        return MergeScope(unit, bucket, not self.options.reduce_only, periods, tuple(map(id_of, replaced)), added)

    # --- what is written

    def _later_repeats(self, messages: DataFrame, fragments: DataFrame) -> dict[int, int]:
        """Rows that repeat others of another source, by source."""
        if len({source.log for source in self.job.sources}) == len(
            {*self.noted, *(s.digest for s in self.job.sources)}
        ):
            return {}
        found = stages.repeats_of(messages, fragments).toArrow().to_pylist()
        return {row["source"]: row["repeats"] for row in found}

    def _write_advertisements(self, traffic: DataFrame) -> None:
        """The sets of attributes that senders' messages have had, beside those that the trace has."""
        store, parts = self.store, self.store.held("advertisements")
        pairs = traffic.where("attributes <> 0").select("client", "attributes").distinct()
        held = store.parts("advertisements")
        new = pairs.join(held.where("filter is null"), ["client", "attributes"], "anti")
        shown = store.parts("advertisements", [part.path for part in parts if part.source == LOGS])
        made = new.select(*columns_of("advertisements", ("client", "attributes")))
        store.write("advertisements", made.unionByName(shown.select(*schema_of("advertisements").names)))

    def _commit(self, scope: MergeScope) -> tuple[Trace, list[str]]:
        """Let what was written count; what a user should know of it."""
        writer, base, notes = self.store.writer, self.base, self.notes
        made = self.store.digests()
        for table, parts in made.items():
            old = writer.parts.get(table, [])
            anew = {*scope.of(old)}
            if table in ("messages", "traffic"):
                old = [part for part in old if part.path not in anew]
            elif table in ("audiences", "names", "fragments"):
                old = []
            else:
                old = [part for part in old if part.source != LOGS]
            writer.parts[table] = [*old, *parts]
        if "fragments" not in made:
            writer.parts["fragments"] = []
        for table, rows in zip(("sources", "quarantine"), sources_table(self.noted), strict=True):
            writer.store(table, rows, replace=True)
        warnings = notes_of(self.store, self.noted, self.options.identity, self.crossed)
        warnings += warn_of_kept(base, self.options.attributes)
        warnings += content_notes(self.job.sources, self.texts, self.job.predicates, base)
        warnings += write_requests(writer, self.job.predicates) if self.job.predicates else []
        if self.job.predicates:
            notes[NOTE] = list(self.job.predicates)
        notes |= {
            "sources": self.noted,
            "period": scope.unit,
            "how": {name: getattr(self.options, name) for name in KEPT},
        }
        notes["how"]["identity"] = self.options.identity
        trace = writer.commit(bucket_us=scope.bucket_us, unit=base.unit if base else "message", notes=notes)
        self.report(1.0, "done")
        return trace, warnings
