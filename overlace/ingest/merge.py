"""New events into a trace: what is made anew of its tables, written beside what is there until the manifest counts it.

New bytes touch periods (days, or years where a log is long and thin). The messages of those periods and of the one
before are made anew, by the same stages, from what is kept of them and from the new fragments; traffic follows. A key
names one message within these periods. With --reduce-only no messages are kept, and new traffic is added.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from overlace.errors import BadTrace
from overlace.ingest import stages
from overlace.ingest.store import CUTS, EXTRA, WHOLE, Store, union, wide, without
from overlace.trace.address import place
from overlace.trace.ids import identities
from overlace.trace.store import DAY_US, Part, Trace
from overlace.trace.tables import TIME, schema_of

LONG, THIN = 31, 1000
"""Messages of more days than this, with fewer a day than that, are in folders by year."""

ATTRIBUTES = 63
"""Attributes of a trace, at most: bits of a mask."""


# --- what was read ----------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Facts:
    """What the files of events say of themselves, without reading their rows."""

    kinds: frozenset[str]
    first: int  # times of messages
    last: int
    messages: int  # fragments of them
    keyed: bool  # some may be parts of one
    alone: bool  # some are messages of their own


def facts_of(store: Store, at: str) -> Facts:
    """What the statistics of the files of events say."""
    files, root = place(store.writer.path)
    folders = store.folders(at)
    first, last, count, flags = 1 << 62, -(1 << 62), 0, set()
    for folder in folders:
        if folder.endswith(("kind=message", "kind=counts")):
            about = pq.ParquetDataset(f"{root}/{folder}", filesystem=files, partitioning=None)
            for group in (group for piece in about.fragments for group in piece.row_groups):
                count += group.num_rows
                known = group.statistics or {}
                if "at" in known:
                    ends = [int(pa.scalar(known["at"][end], TIME).value) for end in ("min", "max")]
                    first, last = min(first, ends[0]), max(last, ends[1])
                flags |= set(known["keyed"].values()) if "keyed" in known else {False, True}
    kinds = frozenset(folder.rpartition("kind=")[2] for folder in folders)
    return Facts(kinds, first, last, count, True in flags, False in flags)


def bits_of(events: DataFrame, facts: Facts, known: Sequence[str]) -> list[tuple[str, int]]:
    """The attributes of the trace and their ids, in order of their bits: those that are known, then new ones."""
    if "set" not in facts.kinds:
        return []
    new = stages.names_of(events.where("what = 'attribute'")).limit(10 * ATTRIBUTES).toArrow().to_pylist()
    new = sorted((each for each in new if each["name"] not in known), key=lambda each: (each["since"], each["name"]))
    names = [*known, *(each["name"] for each in new)]
    if len(names) > ATTRIBUTES:
        raise BadTrace(f"{len(names)} attributes; a mask holds at most {ATTRIBUTES}. Leave some out with --map.")
    return list(zip(names, identities(names).tolist(), strict=True))


# --- what is made anew ------------------------------------------------------------------------------------


@dataclass(frozen=True)
class MergeScope:
    """What of the trace is made anew, and how."""

    unit: str  # of periods: day or year
    bucket_us: int
    kept: bool  # messages are kept
    periods: frozenset[str]  # of those that the trace has
    replaced: tuple[int, ...]  # sources that are read from their beginning
    added: tuple[int, ...]  # sources whose traffic has no messages

    def of(self, parts: Iterable[Part]) -> list[str]:
        """The paths of parts that are made anew."""
        return [part.path for part in parts if _period(part) in self.periods]


def _period(part: Part) -> str:
    return part.path.rpartition("period=")[2] if "period=" in part.path else ""


def periods_of(
    store: Store, events: DataFrame, unit: str, new: Mapping[int, tuple[int, int]], spans: Sequence[tuple[int, int]]
) -> frozenset[str]:
    """The periods of the trace that new messages fall into, those before, and those of some spans of time.

    Where a source has deliveries, which do not say when their message was published, all of its `new` span counts.
    """
    there = sorted({_period(part) for table in ("messages", "traffic") for part in store.held(table)} - {""})
    if not there:
        return frozenset()
    own = stages.with_period(stages.rows_of(events, "message", "counts"), unit)
    own = own.select("period", F.expr("if(period is null, source, null)").alias("source")).distinct()
    rows = own.toArrow().to_pylist()
    ends = [[_name(at, unit) for at in new[row["source"]]] for row in rows if row["period"] is None]
    touched = {row["period"] for row in rows if row["period"]} | {first for first, _ in ends}
    touched |= {name for name in there for first, last in ends if first <= name <= last}
    before = {there[place - 1] for name in touched if (place := bisect_left(there, name)) > 0}
    known = {name for name in there for first, last in spans if _name(first, unit) <= name <= _name(last, unit)}
    return frozenset((touched | before | known) & set(there))


def _name(at: int, unit: str) -> str:
    """The first day of the period of a time."""
    day = np.datetime64(at, "us").astype("datetime64[Y]" if unit == "year" else "datetime64[D]")
    return str(day.astype("datetime64[D]"))


def unit_of(base: Trace | None, facts: Facts) -> str:
    """Day, or year where a log is long and thin; as it was where the trace has messages."""
    if base and base.notes.get("period"):
        return str(base.notes["period"])
    days = facts.last // DAY_US - facts.first // DAY_US + 1 if facts.messages else 0
    return "year" if days > LONG and facts.messages < THIN * days else "day"


def held_fragments(store: Store, scope: MergeScope) -> list[DataFrame]:
    """Fragments that the trace has: of messages that are made anew, and of those that nobody published yet."""
    whole = {name: F.col(name).cast("long") for name in ("bytes", "weight")}
    fixed = {"offset": F.lit(None).cast("long"), "keyed": F.lit(True)}
    found = []
    if paths := scope.of(store.held("messages")):
        kept = store.parts("messages", paths).withColumns({**whole, **fixed, "new": F.lit(0).cast("long")})
        found.append(kept.withColumn("extra", stages.all_repeats()))
    if store.held("fragments"):
        fresh = {"new": F.col("publishes"), "extra": F.lit(0).cast("long")}
        found.append(store.parts("fragments").withColumns({**whole, **fixed, **fresh}))
    return [without(each, scope.replaced).select(*stages.FRAGMENT, "keyed") for each in found]


def held_sets(store: Store) -> list[DataFrame]:
    """Sets of receivers that the trace has."""
    held = [store.parts(table) for table in ("audiences", "fragments") if store.held(table)]
    return [each.where("audience is not null").selectExpr("audience", "receivers as members") for each in held]


# --- what is written --------------------------------------------------------------------------------------


def write_messages(
    store: Store, fragments: DataFrame, sets: DataFrame, facts: Facts, scope: MergeScope
) -> tuple[DataFrame, list[DataFrame], DataFrame | None]:
    """(messages, sets of receivers that came about, messages that are not whole) of fragments, written.

    Those whose fragments name different receivers are joined from what was written.
    """
    frames = [stages.messages_of(fragments.where("keyed") if facts.alone else fragments)] if facts.keyed else []
    if facts.alone:
        frames.append(stages.alone_of(fragments.where("not keyed") if facts.keyed else fragments))
    made = stages.with_period(union(frames), scope.unit)
    at = store.write("messages", in_shape(made), *CUTS, counts=scope.kept)
    states = {folder.partition("state=")[2].partition("/")[0] for folder in store.folders(at)}
    joined = []
    if "cut" in states:
        cut = store.read(WRITTEN, f"{at}/state=cut")
        apart = store.write("joined", stages.joined_of(cut, fragments, sets), counts=False)
        joined = [store.read(JOINED, apart)]
        changed = cut.drop("audience", "heard").join(joined[0].drop("members"), "message")
        changed = changed.withColumns({"state": F.lit("joined"), "repeats": stages.new_repeats()})
        store.write("messages", in_shape(changed), *CUTS, mode="append", counts=scope.kept)
        store.drop(f"{at}/state=cut")
    pending = store.read(WRITTEN, f"{at}/state=pending") if "pending" in states else None
    whole = store.read(pa.schema([*WRITTEN, ("state", pa.string())]), at).where(F.col("state").isin(*WHOLE))
    return whole, [each.select("audience", "members") for each in joined], pending


WRITTEN = pa.schema(
    [
        *schema_of("messages"),
        *EXTRA,
        ("new", pa.int64()),
        ("extra", pa.int64()),
        ("last", pa.int64()),
        ("period", pa.string()),
    ]
)
JOINED = pa.schema(
    [("message", pa.int64()), ("audience", pa.int64()), ("heard", pa.int64()), ("members", pa.list_(pa.int64()))]
)


def in_shape(messages: DataFrame) -> DataFrame:
    """Messages in the columns that their files have."""
    sizes = {name: F.col(name).cast("int") for name in ("bytes", "weight")}
    names = [name for name in WRITTEN.names if name != "period"]
    return messages.withColumns(sizes).select(*names, *CUTS)


def write_traffic(
    store: Store, events: DataFrame, messages: DataFrame | None, facts: Facts, scope: MergeScope
) -> DataFrame:
    """The traffic of messages and of counts, with what the trace has of it that is not made anew; written."""
    frames = [stages.traffic_of(messages, scope.bucket_us)] if messages is not None else []
    if "counts" in facts.kinds:
        frames.append(stages.counts_of(stages.with_period(events, scope.unit), scope.bucket_us))
    if paths := scope.of(store.held("traffic")):
        schema = pa.schema([*schema_of("traffic"), ("source", pa.int64())])
        parts = [store.read(schema, path).withColumn("period", F.lit(path.rpartition("period=")[2])) for path in paths]
        held = without(union(parts), scope.replaced)
        held = held if not scope.kept else held.where(F.col("source").isin(list(scope.added)))
        frames.append(held.withColumn("repeats", F.lit(0).cast("long")))
    made = union(frames)
    made = stages.summed(made) if len(frames) > 1 else made
    names = [*schema_of("traffic").names, "source", "repeats", "period"]
    at = store.write("traffic", made.select(*names), "period")
    return store.read(wide("traffic"), at)


def write_audiences(store: Store, sets: DataFrame, traffic: DataFrame, scope: MergeScope) -> None:
    """The sets of receivers that traffic names."""
    used, anew = [traffic.select("audience")], {*scope.of(store.held("traffic"))}
    if rest := [part.path for part in store.held("traffic") if part.path not in anew]:
        used.append(store.parts("traffic", rest).select("audience"))
    found = stages.distinct_sets(sets).join(union(used).distinct(), "audience", "semi")
    store.write("audiences", found.select("audience", F.col("members").alias("receivers")))


def write_names(store: Store, events: DataFrame, bits: Sequence[str]) -> None:
    """The names of the trace with those of new events; attributes have the places of their bits as ids."""
    listed = stages.rows_of(events, "name").where("what <> 'attribute'")
    frames = [listed.select(F.col("what").alias("kind"), F.col("other").alias("id"), "name", "at")]
    if store.held("names"):
        held = store.parts("names").where("kind <> 'attribute'")
        frames.append(held.selectExpr("kind", "id", "name", "since as at"))
    if bits:
        rows = pa.table(
            {"kind": ["attribute"] * len(bits), "id": pa.array(range(len(bits)), pa.int64()), "name": list(bits)}
        )
        frames.append(store.spark.createDataFrame(rows).withColumn("at", F.lit(None).cast("timestamp")))
    store.write("names", stages.distinct_names(union(frames)).select(*schema_of("names").names))


def write_pending(store: Store, pending: DataFrame, fragments: DataFrame, sets: DataFrame) -> None:
    """What is known of messages that nobody published yet, or of which rows are missing: their rows may come."""
    own = fragments.where("rows > 0").join(pending.select("message"), "message", "semi")
    own = own.join(stages.distinct_sets(sets).withColumnRenamed("members", "receivers"), "audience", "left")
    store.write("fragments", own.select(*schema_of("fragments").names))
