"""Sessions, subscriptions, second sends and links from events that are no messages.

`life` are the events of kind life, `seen` the sightings: a client at a broker at some time. Each source stands alone,
but for links. Events of a source happened in order of time, those of one time in order of their offsets.
"""

from __future__ import annotations

from collections.abc import Sequence

from pyspark.sql import DataFrame, Window
from pyspark.sql import functions as F

from overlace.ingest import stages
from overlace.ingest.job import id_of
from overlace.ingest.sources import Source
from overlace.ingest.store import Store, columns_of, without
from overlace.trace.store import HOUR_US
from overlace.trace.tables import schema_of
from overlace.trace.writer import LOGS

CLIENT = ("source", "client")
CONNECTION = ("source", "other", "alone")
"""What opens and closes sessions and subscribes: the connection where several make one client, else the client."""

ALONE = "if(other is null, client, null) as alone"

ORDER = ("at", "offset")


def sessions_of(life: DataFrame, seen: DataFrame) -> DataFrame:
    """A connection's session runs from its connect to its next connect or disconnect.

    Before a client's first connect or disconnect, and always if it has neither, it was at each broker from when it was
    seen there until it was seen at another. A client of which nothing is known before its disconnect has a session of
    no length then: no line says how long it had been there. Sessions from an earlier part of a log are given as
    sightings at their beginnings.
    """
    events = life.where("what in ('connect', 'disconnect')").selectExpr(
        *CLIENT, "broker", *ORDER, "what", "other", ALONE
    )
    until = F.lead("at").over(Window.partitionBy(*CONNECTION).orderBy(*ORDER))
    opened = events.withColumn("until", until).where("what = 'connect'")
    hour = stages.begin_of("at", HOUR_US).alias("hour")  # in one the first counts, however a log is cut
    sightings = seen.groupBy(*CLIENT, "broker", hour).agg(F.min("at").alias("at"))
    known = events.unionByName(sightings.drop("hour"), allowMissingColumns=True)
    events_first = Window.partitionBy(*CLIENT).orderBy(F.col("what").isNull(), *ORDER)
    event_at = F.when(F.col("what").isNotNull(), F.col("at"))
    known = known.withColumns(
        {"row": F.row_number().over(events_first), "first": F.first(event_at).over(events_first)}
    ).where("if(what is null, first is null or at is null or at < first, row = 1)")
    in_order = Window.partitionBy(*CLIENT).orderBy(F.asc_nulls_first("at"), "broker")
    known = known.withColumn("before", F.lag("broker").over(in_order))
    turns = known.where("what is not null or before is null or before <> broker")
    turns = turns.withColumn("until", F.lead("at").over(in_order))
    there = turns.where("what is null or what = 'disconnect' and before is null")
    there = there.withColumn("until", F.expr("if(what is null, until, at)"))
    columns = (*CLIENT, "broker", F.col("at").alias("since"), "until")
    return opened.select(*columns).unionByName(there.select(*columns))


def subscriptions_of(life: DataFrame) -> DataFrame:
    """A subscription runs from its subscribe until it is taken back, or until the session that asked for it ends.

    It is taken back by an unsubscribe of the same connection from the same filter, or from all. Sessions end where
    the events say so (`ends`): a session that is kept over a disconnect keeps its subscriptions. Asking again is no
    new subscription.
    """
    subscribed = F.when(F.col("filter").isNotNull(), F.xxhash64("filter")).otherwise(F.col("topic"))
    over = F.coalesce("ends", F.lit(False)) | ((F.col("what") == "unsubscribe") & F.col("subscribed").isNull())
    in_order = Window.partitionBy(*CONNECTION).orderBy(*ORDER)
    before = in_order.rowsBetween(Window.unboundedPreceding, -1)
    events = (
        life.selectExpr("*", ALONE)
        .withColumn("subscribed", subscribed)
        .withColumn("over", over)
        .where("over or what in ('subscribe', 'unsubscribe')")
        .withColumn("span", F.coalesce(F.sum(F.col("over").cast("int")).over(before), F.lit(0)))
        .withColumn("closed", F.max(F.expr("if(over, at, null)")).over(Window.partitionBy(*CONNECTION, "span")))
        .where("not over")
    )
    same = Window.partitionBy(*CONNECTION, "span", F.coalesce("group", F.lit("")), "subscribed").orderBy(*ORDER)
    return (
        events.withColumn("before", F.lag("what").over(same))
        .where("what = 'unsubscribe' or before is null or before = 'unsubscribe'")
        .withColumn("until", F.coalesce(F.lead("at").over(same), "closed"))
        .where("what = 'subscribe'")
        .withColumn("topic", F.expr("if(filter is null, topic, null)"))
        .select(*CLIENT, "topic", "filter", "dialect", "group", F.col("at").alias("since"), "until")
    )


def first_seen_only(subscriptions: DataFrame) -> DataFrame:
    """Subscriptions that are known by what was delivered, of all parts of a log: each since its first delivery."""
    known = subscriptions.groupBy(*CLIENT, "topic", "filter", "dialect", "group")
    return known.agg(F.min("since").alias("since"), F.max("until").alias("until"))


def doubles_of(life: DataFrame, bucket_us: int) -> DataFrame:
    """Sends of a message to a client that had it already: no flow, but a load on the client's home."""
    twice = life.where("what = 'double'").groupBy("source", stages.begin_of("at", bucket_us).alias("bucket"), "client")
    return twice.agg(F.count("*").alias("messages"), F.sum(F.coalesce("bytes", F.lit(0))).alias("bytes"))


def links_of(life: DataFrame, dialled: DataFrame, earlier: DataFrame | None = None) -> DataFrame:
    """Links that logs show: of bridges those that are `dialled`, of others only the ends are known.

    Each is wired since it was first shown, in these logs or in those of an `earlier` ingest.
    """
    left, right = F.least("broker", "other").alias("left"), F.greatest("broker", "other").alias("right")
    shown = life.where("what = 'link' and broker <> other").select(left, right, F.col("at").alias("since"))
    left, right = F.least("dials", "far").alias("left"), F.greatest("dials", "far").alias("right")
    links = dialled.select(left, right, "dials", "since", "until").unionByName(shown, allowMissingColumns=True)
    if earlier is not None:
        links = links.unionByName(earlier.select("left", "right", "dials", "since", "until"))
    links = links.groupBy("left", "right", "dials").agg(F.min("since").alias("since"), F.min("until").alias("until"))
    pair = Window.partitionBy("left", "right")
    links = links.withColumns(
        {
            "any_dials": F.max("dials").over(pair),
            "shown": F.min(F.expr("if(dials is null, since, null)")).over(pair),
        }
    ).where("dials is not null or any_dials is null")
    return links.select(
        "left", "right", "dials", F.lit(True).alias("wired"), F.least("since", "shown").alias("since"), "until"
    )


ASKED = ("client", "topic", "filter", "dialect", "group")
HAVE = {
    "sessions": ("client", "broker", "since", "until"),
    "subscriptions": (*ASKED, "since", "until"),
    "doubles": ("bucket", "client", "messages", "bytes"),
    "links": ("left", "right", "dials", "wired", "since", "until"),
}
"""Columns that logs show of a table."""


def write_history(
    store: Store, events: DataFrame, sources: Sequence[Source], dialled: DataFrame, bucket_us: int, shown: bool
) -> None:
    """Sessions, subscriptions, second sends and links of some sources, those of other sources as they were.

    `shown` says whether there are events of kind life: without any, only clients were seen at brokers.
    """
    life, seen = (stages.rows_of(events, kind) for kind in ("life", "seen"))
    mine = [id_of(source.digest) for source in sources]
    grown = F.col("source").isin([id_of(source.digest) for source in sources if source.begin])
    logged = {table: [part.path for part in store.held(table) if part.source == LOGS] for table in HAVE}
    held = {table: store.parts(table, paths) if paths else None for table, paths in logged.items()}
    if (before := held["sessions"]) is not None:
        known = before.where(grown).withColumnRenamed("since", "at")
        seen = seen.unionByName(known.select("source", "client", "broker", "at"), allowMissingColumns=True)
    asked = subscriptions_of(life)
    if any(source.form.one_log for source in sources):
        if (before := held["subscriptions"]) is not None:
            asked = asked.unionByName(before.where(grown).select("source", *ASKED, "since", "until"))
        asked = first_seen_only(asked)
    made = {"sessions": sessions_of(life, seen), "subscriptions": asked, "doubles": doubles_of(life, bucket_us)}
    for table, frame in made.items():
        if not (shown or table == "sessions" or held[table] is not None):
            continue
        own = frame.select(*columns_of(table, HAVE[table]), "source")
        if (other := held[table]) is not None:
            own = own.unionByName(without(other, mine).select(*schema_of(table).names, "source"))
        store.write(table, own)
    if shown and all(part.source == LOGS for part in store.held("links")):
        links = links_of(life, dialled, held["links"])
        store.write("links", links.select(*columns_of("links", HAVE["links"])))
