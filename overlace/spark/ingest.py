"""Ingest: raw logs to a trace, every line accounted for.

Two Spark jobs and little between them. The first parses byte ranges of the sources into staged events;
the driver then numbers the names. Events that share a key are grouped by Spark into one message. The
second job encodes messages with ids, writes them and reduces them; the driver merges the reductions.
Nothing counts before the manifest is written, so a killed ingest leaves the trace as it was.

Of a source that grew, only the new bytes are read where each line stands alone; where state or keys run
through the file, it is read anew and replaces what it gave before.
"""

from __future__ import annotations

import contextlib
import hashlib
import os
import re
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.fs as pafs
import pyarrow.parquet as pq
from pyspark.errors import PythonException
from pyspark.sql import SparkSession
from pyspark.sql import functions as F  # noqa: N812

from overlace.errors import BadParameter, BadTrace
from overlace.ingest.bridges import Followed, bridge_lines, follow
from overlace.ingest.formats.events import EVENT
from overlace.ingest.history import links_of, seen_before, sessions_of, subscriptions_of
from overlace.ingest.sources import FORMATS, HEAD, Source, find_files, look, opened
from overlace.ingest.topologies import Bridge
from overlace.model import Progress
from overlace.spark.tasks import ENCODED, IDS, PARSED, SPLIT, Job, encode, parse, staged
from overlace.spark.watch import watched
from overlace.trace.store import DAY_US, HOUR_US, MINUTE_US, Part, Trace, Writer, absolute, place
from overlace.trace.tables import TIME, schema_of
from overlace.trace.traffic import Reduction, merge

KEY_VARIABLE = "OVERLACE_KEY"
FEW = 3  # messages up to which a client counts as short-lived
BRIDGES = "bridges"
"""The source of links that the logs themselves show."""

KEPT = ("message", "counts", "connect", "disconnect", "subscribe", "unsubscribe", "advertise", "bridge", "follows")


@dataclass(frozen=True)
class Options:
    """How to read a log."""

    format: str | None = None
    map: Mapping[str, str] = field(default_factory=dict)
    group: tuple[str, ...] = ()
    delimiter: str | None = None
    header: bool | None = None
    broker: str | None = None
    bridges: tuple[str, ...] = ()
    identity: str | None = None  # client, broker/client, user, or a pattern; default: what the format needs
    keep_topics: bool = False
    pseudonymise: bool = False
    strict: bool = False
    max_bad: float = 1.0  # the share of bad lines above which nothing is ingested

    def of_format(self) -> dict[str, Any]:
        """What a format's reader gets."""
        given: dict[str, Any] = {"map": dict(self.map), "group": self.group, "bridges": list(self.bridges)}
        given |= {"delimiter": self.delimiter, "header": self.header}
        return {**given, **({"broker": self.broker} if self.broker else {})}


class Account(NamedTuple):
    """What became of the lines of one source."""

    source: str
    digest: str
    format: str
    lines: int
    kept: int
    ignored: Mapping[str, int]
    quarantined: Mapping[str, tuple[int, str]]  # by reason: how many, and a sample
    duplicates: int

    def adds_up(self) -> bool:
        """lines = kept + ignored + quarantined + duplicates."""
        bad = sum(count for count, _ in self.quarantined.values())
        return self.lines == self.kept + sum(self.ignored.values()) + bad + self.duplicates


class Ingested(NamedTuple):
    """A trace and how it came about."""

    trace: Trace
    accounts: list[Account]
    known: list[str]  # sources that were ingested before and have not changed
    folded: int  # topic names that collapsing saved
    notes: list[str]  # what a user should know


def ingest(
    paths: Sequence[str],
    out: str,
    spark: SparkSession,
    options: Options | None = None,
    progress: Progress | None = None,
) -> Ingested:
    """Read logs into the trace at `out`, new or existing."""
    chosen = options or Options()
    paths, out = [absolute(path) for path in paths], absolute(out)
    tell = progress or (lambda share, what: None)
    base = Trace.open(out) if Trace.exists(out) else None
    notes = dict(base.notes) if base else {}
    sources, known = _new_sources(paths, chosen, notes.get("sources", {}))
    sources = _numbered(sources, notes.get("sources", {}))
    if not sources:
        if base is None:
            raise BadTrace("nothing to ingest: no source was named")
        return Ingested(base, [], known, 0, [])
    writer = Writer(out, base)
    if chosen.identity == "user" and any(s.format != "mosquitto" for s in sources):
        raise BadParameter("only Mosquitto's log tells users apart; else map their column: --map client=COLUMN")
    identity = chosen.identity or ("broker/client" if any(s.format == "mosquitto" for s in sources) else "client")
    job = Job(
        trace=out, staging=f".staging-{writer.id}", sources=tuple(sources), identity=identity, id=writer.id,
        keep_topics=chosen.keep_topics, key=_key(chosen),
    )  # fmt: skip
    _clear_stale(out)
    try:
        with watched(spark, tell, "reading lines", 0.05, 0.45):
            said = _parse(job, spark)
        tell(0.45, f"reading lines: {_lines(said):,} lines")
        bucket_us = base.bucket_us if base and base.rows("traffic") else _bucket(said)
        job = replace(job, bucket_us=bucket_us)
        tell(0.45, "numbering names")
        _number_names(job, writer, base)
        tell(0.5, "grouping messages")
        files, doubles = _messages(job, spark, said)
        accounts = [_account(job, i, said, doubles) for i in range(len(sources))]
        _judge(accounts, chosen)
        crossed = _follow_bridges(job, said, notes.get("bridges", []))
        job = replace(job, bridged=crossed is not None and crossed.receivers.num_rows > 0)
        with watched(spark, tell, "encoding and reducing", 0.6, 0.9):
            _encode(job, spark, files, writer)
        messages, rows = (sum(part.rows for part in writer.parts.get(t, ())) for t in ("messages", "traffic"))
        tell(0.9, f"encoding and reducing: {messages:,} messages to {rows:,} rows of traffic")
        tell(0.9, "writing")
        _tables(job, writer, accounts, crossed)
        for i in range(len(sources)):
            _doubles(job, i, writer)
        notes["sources"] = {**notes.get("sources", {}), **_noted(sources, doubles, accounts, notes.get("sources", {}))}
        trace = writer.commit(bucket_us=bucket_us, unit=base.unit if base else "message", notes=notes)
    except PythonException as error:
        raise _from_task(error) from None
    finally:
        _clear(job)
    tell(1.0, "done")
    per_split = {(r["source"], r["number"]): r["folded"] for r in said.to_pylist()}
    return Ingested(trace, accounts, known, sum(per_split.values()), [*_bridge_notes(crossed), *_short_lived(trace)])


def _from_task(error: PythonException) -> BadTrace:
    """What a task said, without Spark's words around it."""
    lines = [line.strip() for line in str(error).splitlines() if line.strip()]
    said = [line.partition(": ")[2] for line in lines if line.startswith("overlace.errors.")]
    return BadTrace(said[-1] if said else f"a task failed: {lines[-1] if lines else error}")


def _key(options: Options) -> bytes:
    """The key for pseudonyms, from the environment; it enters no file."""
    if not options.pseudonymise:
        return b""
    key = os.environ.get(KEY_VARIABLE, "")
    if not key:
        raise BadParameter(f"pseudonyms need a key in the environment: set {KEY_VARIABLE}, and keep it")
    return key.encode()


def _new_sources(paths: Sequence[str], options: Options, noted: Mapping[str, Any]) -> tuple[list[Source], list[str]]:
    """What has to be read, and the names of what has not changed."""
    found: dict[str, Source] = {}
    known = []
    for path in find_files(paths):
        if place(path)[0].get_file_info(place(path)[1]).size == 0:
            known.append(f"{path} (empty)")
            continue
        source = look(path, options.format, options.of_format())
        digest, before = _recognised(source, noted, found)
        if before is None:
            found[digest] = replace(source, digest=digest)
        elif before["packed"] != source.packed:
            raise BadTrace(
                f"{path} begins like {before['name']}, which was ingested before. Ingest it packed or plain, not both."
            )
        elif before["end"] == source.size:
            known.append(source.name)
        else:
            alone = FORMATS[source.format].scope == "line" and before["whole"] and not before["keyed"]
            begin = before["end"] if alone and not source.packed else 0
            found[digest] = replace(source, begin=begin, digest=digest, head=before["head"])
    brokers = [s.options["broker"] for s in found.values() if s.format == "mosquitto"]
    if len(set(brokers)) < len(brokers):
        raise BadTrace(
            f"two logs are of one broker by their file names ({', '.join(sorted(brokers))}). "
            "Ingest them one by one with --broker."
        )
    return list(found.values()), known


def _recognised(source: Source, noted: Mapping[str, Any], found: Mapping[str, Source]) -> tuple[str, Any]:
    """(identity, what is noted): the hash of the first bytes, told apart where the rest differs."""
    files, at = place(source.path)
    for digest, before in noted.items():
        grown = digest.partition("-")[0] == _head_digest(source.path, before["head"])
        if not grown or (before["head"] < HEAD and before["name"] != source.name):
            continue
        if before["packed"] != source.packed:
            return digest, before
        if before["end"] <= source.size and before["tail"] == _tail(files, at, before["end"]):
            return digest, before
        if before["name"] == source.name and before["end"] > source.size:
            raise BadTrace(
                f"{source.path} is {source.size:,} bytes long, but {before['end']:,} bytes of it were ingested before. "
                "Was it cut? Ingest it into a new trace."
            )
    again = sum(digest.partition("-")[0] == source.digest for digest in (*noted, *found))
    return (f"{source.digest}-{again}" if again else source.digest), None


def _head_digest(path: str, size: int) -> str:
    with opened(path) as stream:
        return hashlib.blake2b(stream.read(size), digest_size=8).hexdigest()


def _tail(files: pafs.FileSystem, at: str, end: int) -> str:
    """The hash of the last bytes before `end`, as they lie on disk."""
    with files.open_input_file(at) as raw:
        raw.seek(max(0, end - HEAD))
        return hashlib.blake2b(raw.read(min(HEAD, end)), digest_size=8).hexdigest()


def _numbered(sources: Sequence[Source], noted: Mapping[str, Any]) -> list[Source]:
    """Each source with its own number: the one it has, or the next."""
    free = len(noted)
    numbered = []
    for source in sources:
        if source.digest in noted:
            numbered.append(replace(source, number=noted[source.digest]["number"]))
        else:
            numbered.append(replace(source, number=free))
            free += 1
    return numbered


def _noted(
    sources: Sequence[Source], keyed: Mapping[int, int], accounts: Sequence[Account], before: Mapping[str, Any]
) -> dict[str, Any]:
    """What the next ingest must know of each source, and its ignored lines by kind."""
    noted = {}
    for i, (s, account) in enumerate(zip(sources, accounts, strict=True)):
        ignored = Counter(account.ignored)
        if s.begin:
            ignored.update(before[s.digest].get("ignored", {}))
        noted[s.digest] = {
            "name": s.name, "end": s.size, "head": s.head, "whole": s.whole, "keyed": i in keyed, "number": s.number,
            "packed": s.packed, "tail": _tail(*place(s.path), s.size), "ignored": dict(sorted(ignored.items())),
        }  # fmt: skip
    return noted


def _parse(job: Job, spark: SparkSession) -> pa.Table:
    """Run the first job: a row a split and kind of event."""
    splits = [(i, n, *ends) for i, source in enumerate(job.sources) for n, ends in enumerate(source.splits())]
    frame = spark.createDataFrame(splits, SPLIT).repartition(len(splits), "source", "number")
    return frame.mapInArrow(parse(job), PARSED).toArrow()


def _lines(said: pa.Table) -> int:
    """How many lines were read."""
    return sum({(row["source"], row["number"]): row["lines"] for row in said.to_pylist()}.values())


def _bucket(said: pa.Table) -> int:
    """An hour; a minute when the log spans less than a day."""
    first, last = pc.min(said["first"]).as_py(), pc.max(said["last"]).as_py()
    return HOUR_US if first is None or last - first >= DAY_US else MINUTE_US


def _follow_bridges(job: Job, said: pa.Table, known: Sequence[Mapping[str, Any]]) -> Followed | None:
    """Join the logs of several brokers at their bridges; what was found is staged for the next job."""
    if not any(row["kind"] == "bridge" or row["reason"] == "bridge" for row in said.to_pylist()):
        return None
    files, at = place(f"{job.trace}/{job.staging}/events")
    paths = sorted(info.path for info in files.get_file_info(pafs.FileSelector(at)))
    wanted = (pc.field("kind") == "bridge") | (pc.field("reason") == "bridge")
    tables = [pq.read_table(path, filesystem=files, filters=wanted, partitioning=None) for path in paths]
    renaming = [] if job.key else [Bridge.of(each) for each in known]  # under pseudonyms topics no longer match
    crossed = follow(bridge_lines(pa.concat_tables(tables)), renaming)
    files, at = place(f"{job.trace}/{job.staging}/bridged.parquet")
    pq.write_table(crossed.receivers, at, filesystem=files)
    return crossed


def _bridge_notes(crossed: Followed | None) -> list[str]:
    """What became of messages that crossed bridges."""
    if crossed is None:
        return []
    notes = [f"{crossed.matched:,} receives over {len(crossed.links)} bridges were followed back to their publishers"]
    if crossed.lost:
        notes.append(
            f"{crossed.lost:,} receives over bridges have no send in any of these logs: ingest all brokers' logs "
            "together, or flows between brokers are missing"
        )
    if not crossed.links:
        notes.append("no bridge has both its ends in these logs: ingest all brokers' logs together, or use --topology")
    return notes


def _short_lived(trace: Trace) -> list[str]:
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


def _number_names(job: Job, writer: Writer, base: Trace | None) -> None:
    """Ids for new names: after those that are there, in order of when they first came up, then by name."""
    files, at = place(f"{job.trace}/{job.staging}/names")
    used = pa.concat_tables(
        [
            pq.read_table(info.path, filesystem=files, partitioning=None)
            for info in files.get_file_info(pafs.FileSelector(at))
        ]
    )
    tables = []
    for kind in IDS:
        have = pa.array(base.names.get(kind, []) if base else [], pa.string())
        own = used.filter(pc.equal(used["kind"], kind)).group_by("name").aggregate([("at_min", "min")])
        own = own.filter(pc.invert(pc.is_in(own["name"], value_set=have))) if len(have) else own
        new = own.sort_by([("at_min_min", "ascending"), ("name", "ascending")])["name"].combine_chunks()
        if kind == "attribute" and len(have) + len(new) > 63:
            raise BadTrace(f"{len(have) + len(new)} attributes; a mask holds at most 63. Leave some out with --map.")
        both = pa.concat_arrays([have, new])
        tables.append(
            pa.table(
                {
                    "kind": pa.array([kind] * len(both), pa.string()),
                    "id": np.arange(len(both), dtype=np.int32),
                    "name": both,
                }
            )
        )
    others = [
        (k, i, n) for k, names in (base.names if base else {}).items() if k not in IDS for i, n in enumerate(names)
    ]
    every = pa.concat_tables(tables)
    if others:
        kinds, ids, names = zip(*others, strict=True)
        extra = {
            "kind": pa.array(kinds, pa.string()),
            "id": pa.array(ids, pa.int32()),
            "name": pa.array(names, pa.string()),
        }
        every = pa.concat_tables([every, pa.table(extra)])
    writer.write("names", every, replace=True)
    files, at = place(f"{job.trace}/{job.staging}/ids.parquet")
    pq.write_table(every, at, filesystem=files)


def _messages(job: Job, spark: SparkSession, said: pa.Table) -> tuple[list[str], dict[int, int]]:
    """(files, duplicates by source): staged files with messages, those with keys grouped by Spark first."""
    files, at = place(f"{job.trace}/{job.staging}/events")
    direct = sorted(f"events/{info.base_name}" for info in files.get_file_info(pafs.FileSelector(at)))
    keyed_by = said.group_by("source").aggregate([("keyed", "sum")]).to_pylist()
    keyed_sources = {row["source"] for row in keyed_by if row["keyed_sum"]}
    if not keyed_sources:
        return direct, {}
    events = spark.read.parquet(_for_spark(f"{job.trace}/{job.staging}/events"))
    keyed = events.where((F.col("kind") == "message") & F.col("key").isNotNull())
    first = F.struct("at", "offset", "client", "topic", "bytes", "weight", "broker", "attributes")
    grouped = keyed.groupBy("source", "key").agg(
        F.min(first).alias("first"),
        F.count("*").alias("lines"),
        F.max(F.size("receivers")).alias("most"),
        F.count("receivers").alias("logged"),
        F.sort_array(F.array_distinct(F.flatten(F.collect_list("receivers")))).alias("receivers"),
    )
    receivers = F.when(F.col("logged") > 0, F.col("receivers")).alias("receivers")
    single = (F.col("logged") > 0) & (F.col("most") <= 1)
    extra = F.when(single, F.col("lines") - F.greatest(F.size("receivers"), F.lit(1))).otherwise(F.col("lines") - 1)
    rows = grouped.select("source", "first.*", receivers, extra.alias("extra"))
    target = f"{job.trace}/{job.staging}/grouped"
    local = target if "://" in job.trace else f"file://{place(target)[1]}"
    rows.sortWithinPartitions("source", "offset").write.parquet(local)
    doubles = {
        r["source"]: int(r["extra"])
        for r in spark.read.parquet(_for_spark(target)).groupBy("source").agg(F.sum("extra").alias("extra")).collect()
    }
    files, at = place(target)
    made = [
        f"grouped/{info.base_name}"
        for info in files.get_file_info(pafs.FileSelector(at))
        if info.extension == "parquet"
    ]
    return [*direct, *sorted(made)], doubles


def _for_spark(path: str) -> str:
    """A path that Spark reads as it is written, brackets and stars included."""
    return path if "://" in path else "file://" + re.sub(r"([\\\[\]{}*?])", r"\\\1", place(path)[1])


def _account(job: Job, i: int, said: pa.Table, doubles: Mapping[int, int]) -> Account:
    rows = [row for row in said.to_pylist() if row["source"] == i]
    source = job.sources[i]
    lines = sum({row["number"]: row["lines"] for row in rows}.values())
    kept = sum(row["events"] for row in rows if row["kind"] in KEPT) - doubles.get(i, 0)
    ignored: dict[str, int] = {}
    bad: dict[str, tuple[int, str]] = {}
    for row in rows:
        reason = row["reason"] or "other"
        if row["kind"] == "ignored":
            ignored[reason] = ignored.get(reason, 0) + row["events"]
        elif row["kind"] == "bad":
            count, sample = bad.get(reason, (0, row["sample"] or ""))
            bad[reason] = (count + row["events"], min(sample, row["sample"] or sample))
    return Account(source.name, source.digest, source.format, lines, kept, ignored, bad, doubles.get(i, 0))


def _judge(accounts: Sequence[Account], options: Options) -> None:
    """Refuse a log with too many bad lines, before anything counts."""
    for account in accounts:
        if not account.adds_up():
            raise BadTrace(f"{account.source}: the lines do not add up: {account}. Please report this.")
        bad = sum(count for count, _ in account.quarantined.values())
        if bad and (options.strict or bad > options.max_bad * account.lines):
            reason, (count, sample) = max(account.quarantined.items(), key=lambda item: item[1][0])
            limit = "none is allowed with --strict" if options.strict else f"--max-bad allows {options.max_bad:.1%}"
            raise BadTrace(
                f"{account.source}: {bad:,} of {account.lines:,} lines cannot be read and {limit}. "
                f"Most often ({count:,}): {reason}; for example {sample!r}. Nothing was ingested."
            )


def _encode(job: Job, spark: SparkSession, files: Sequence[str], writer: Writer) -> None:
    """Run the second job and merge what it reduced, source by source."""
    frame = spark.createDataFrame([(path, n) for n, path in enumerate(files)], "path string, number int")
    rows = frame.repartition(len(files), "number").mapInArrow(encode(job), ENCODED).toArrow().to_pylist()
    for i, source in enumerate(job.sources):
        if source.begin == 0:
            for table in ("messages", "traffic", "audiences", "sessions", "subscriptions"):
                writer.drop(table, source.digest)
        mine = [row for row in rows if row["source"] == i]
        writer.add("messages", [Part(r["path"], r["rows"], int(r["hash"]), source.digest) for r in mine])
        before = [part for part in writer.parts.get("traffic", []) if part.source == source.digest]
        parts = [Reduction(*(_staged_all(job, table, i) for table in ("traffic", "audiences")))]
        if before and writer.base:
            own = replace(
                writer.base,
                parts={
                    t: [p for p in writer.base.parts.get(t, []) if p.source == source.digest]
                    for t in ("traffic", "audiences")
                },
            )
            parts.append(Reduction(own.read("traffic"), own.read("audiences")))
            for table in ("traffic", "audiences"):
                writer.drop(table, source.digest)
        merged = merge([*parts, Reduction(*(each.slice(0, 0) for each in parts[0]))])
        writer.write("traffic", merged.traffic, source=source.digest, name=f"-{i}")
        writer.write("audiences", merged.audiences, source=source.digest, name=f"-{i}")


def _staged_all(job: Job, folder: str, source: int) -> pa.Table:
    """What the tasks staged for one source."""
    files, at = place(f"{job.trace}/{job.staging}/{folder}")
    found = files.get_file_info(pafs.FileSelector(at, allow_not_found=True))
    own = sorted(info.base_name for info in found if info.base_name.startswith(f"{source}-"))
    empty = schema_of(folder).empty_table() if folder in ("traffic", "audiences") else None
    tables = [staged(job, f"{folder}/{name}") for name in own]
    if empty is not None:
        tables = [table.cast(empty.schema) for table in tables]
    return pa.concat_tables(tables) if tables else empty


def _tables(job: Job, writer: Writer, accounts: Sequence[Account], crossed: Followed | None) -> None:
    """Sessions, subscriptions, links and the accounting: few rows, made on the driver."""
    names = staged(job, "ids.parquet")
    ids = {kind: names.filter(pc.equal(names["kind"], kind)).sort_by("id")["name"].combine_chunks() for kind in IDS}
    for i, source in enumerate(job.sources):
        events = _life_events(job, i)
        own = [part for part in writer.parts.get("sessions", ()) if part.source == source.digest]
        before = (
            replace(writer.base, parts={"sessions": own} if source.begin else {}).read("sessions")
            if writer.base
            else None
        )
        seen = seen_before(before, _staged_all(job, "seen", i))
        writer.drop("sessions", source.digest)
        writer.write("sessions", sessions_of(events, seen, ids), source=source.digest, name=f"-{i}")
        writer.write("subscriptions", subscriptions_of(events, ids), source=source.digest, name=f"-{i}")
    kept = {row["digest"]: row for row in (writer.base.read("sources").to_pylist() if writer.base else [])}
    for account, source in zip(accounts, job.sources, strict=True):
        bad = sum(count for count, _ in account.quarantined.values())
        row = {"digest": account.digest, "name": account.source, "format": account.format, "lines": account.lines,
               "kept": account.kept, "ignored": sum(account.ignored.values()), "quarantined": bad,
               "duplicates": account.duplicates}  # fmt: skip
        if source.begin and account.digest in kept:
            row = {k: (v + kept[account.digest][k] if isinstance(v, int) else v) for k, v in row.items()}
        kept[account.digest] = row
    writer.write("sources", pa.Table.from_pylist(list(kept.values()), schema_of("sources")), replace=True)
    for account, source in zip(accounts, job.sources, strict=True):
        if not source.begin:
            writer.drop("quarantine", source.digest)
        rows = [
            {"source": account.source, "reason": reason, "count": count, "sample": sample}
            for reason, (count, sample) in account.quarantined.items()
        ]
        table = pa.Table.from_pylist(rows, schema_of("quarantine"))
        writer.write("quarantine", table, source=source.digest, name=f"-{source.number}-{source.begin}")
    if crossed and crossed.links:
        place_of = {name: i for i, name in enumerate(ids["broker"].to_pylist())}
        name = [place_of[source.options["broker"]] if not job.key else -1 for source in job.sources]
        pairs = {(name[a], name[b]) for a, b in crossed.links if name[a] >= 0 and name[b] >= 0}
        known = [part for part in writer.parts.get("links", ()) if part.source != BRIDGES]
        if pairs and not known:
            writer.drop("links", BRIDGES)
            writer.write("links", links_of(pairs), source=BRIDGES, name="-bridges")


def _doubles(job: Job, i: int, writer: Writer) -> None:
    """Sends of a message to a client that it was sent already: no flow, but a load on the client's home."""
    source = job.sources[i]
    writer.drop("doubles", source.digest)
    wanted = (pc.field("kind") == "follows") & (pc.field("reason") == "double")
    rows = _staged_events(job, i, wanted, ["client", "at", "bytes"])
    if rows.num_rows == 0:
        return
    names = staged(job, "ids.parquet")
    clients = names.filter(pc.equal(names["kind"], "client")).sort_by("id")["name"].combine_chunks()
    at = rows["at"].cast(pa.int64()).to_numpy()
    table = pa.table(
        {
            "bucket": pa.array(at // job.bucket_us * job.bucket_us).cast(TIME),
            "client": pc.index_in(rows["client"], value_set=clients),
            "messages": np.ones(len(at), dtype=np.int64),
            "bytes": pc.fill_null(rows["bytes"].cast(pa.int64()), 0),
        }
    )
    sums = table.group_by(["bucket", "client"]).aggregate([("messages", "sum"), ("bytes", "sum")])
    sums = sums.rename_columns({"messages_sum": "messages", "bytes_sum": "bytes"}).sort_by("bucket")
    writer.write("doubles", sums, source=source.digest, name=f"-{i}")


def _life_events(job: Job, source: int) -> pa.Table:
    """Staged events of sessions, subscriptions and bridges of one source."""
    wanted = pc.field("kind").isin(["connect", "disconnect", "subscribe", "unsubscribe", "bridge", "advertise"])
    return _staged_events(job, source, wanted)


def _staged_events(job: Job, source: int, wanted: pc.Expression, columns: list[str] | None = None) -> pa.Table:
    """Some of the events that the tasks staged for one source."""
    files, at = place(f"{job.trace}/{job.staging}/events")
    own = [info.path for info in files.get_file_info(pafs.FileSelector(at)) if info.base_name.startswith(f"{source}-")]
    read = {"filesystem": files, "filters": wanted, "partitioning": None, "columns": columns}
    tables = [pq.read_table(path, **read) for path in sorted(own)]
    return pa.concat_tables(tables) if tables else EVENT.empty_table()


def _clear_stale(out: str) -> None:
    """Remove what killed ingests have staged."""
    files, at = place(out)
    for info in files.get_file_info(pafs.FileSelector(at, allow_not_found=True)):
        if info.base_name.startswith(".staging-") and info.type == pafs.FileType.Directory:
            files.delete_dir(info.path)


def _clear(job: Job) -> None:
    files, at = place(f"{job.trace}/{job.staging}")
    with contextlib.suppress(OSError):
        files.delete_dir(at)
