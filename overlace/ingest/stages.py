"""Events to messages to traffic: stages from DataFrame to DataFrame, lazily composed, for frames of one's own too.

    messages = messages_of(events)         # fragments of one key as one message
    traffic = traffic_of(messages, HOUR)   # summed up by bucket, client, topic, attributes and audience
    names = names_of(events)               # ids with their names, and when each first came up
    audiences = audiences_of(events)       # sets of receivers, one row each

Only what every engine has is used, so the same code runs on local Spark, on a cluster, over Spark Connect and on Sail.
Nothing here is collected: what grows with names, keys, audiences or traffic stays in DataFrames.
"""

from __future__ import annotations

from collections.abc import Sequence

from pyspark.sql import Column, DataFrame, Window
from pyspark.sql import functions as F

from overlace.ingest.events import WHOLE
from overlace.trace.ids import AUDIENCE_SALT
from overlace.trace.traffic import UNLOGGED

FRAGMENT = (
    "message source offset at client topic attributes bytes audience weight heard rows publishes most balance new extra"
).split()
"""What is known of a fragment of a message; of a message as it is kept too."""

KEPT = "source rows publishes most heard balance".split()
"""What the files of messages hold beyond the table: what a later fragment is joined by."""

LOW = 0xFFFF_FFFF


def rows_of(events: DataFrame, *kinds: str) -> DataFrame:
    """Events of some kinds."""
    return events.where(F.col("kind").isin(list(kinds)))


def fragments_of(events: DataFrame, masks: DataFrame | None = None) -> DataFrame:
    """Fragments of messages, their attributes as masks (a frame of `attributes` and `mask`)."""
    found = rows_of(events, "message")
    if masks is not None:
        found = found.join(masks, "attributes", "left").withColumn("attributes", F.col("mask"))
    found = found.withColumns({"new": F.col("publishes"), "extra": F.lit(0).cast("long")})
    return found.select(*FRAGMENT, "keyed")


def messages_of(fragments: DataFrame) -> DataFrame:
    """Fragments of one message as one row: each column has its least value, rows add up.

    `widest` differs from `audience` where fragments name different receivers (see `joined_of`). `state`: pending, where
    nobody has published it, or a row is missing or too many; cut, where its receivers are to be joined; else whole.
    """
    low, high = (F.sum(each) for each in (F.col("balance").bitwiseAND(LOW), F.shiftright("balance", 32)))
    least = [F.min(name).alias(name) for name in "source offset at client topic attributes bytes weight".split()]
    sums = [F.sum(name).alias(name) for name in ("rows", "publishes", "new")]
    most = [F.max(name).alias(name) for name in ("heard", "most", "extra")]
    joined = fragments.groupBy("message").agg(
        *least, *sums, *most, F.min("audience").alias("audience"), F.max("audience").alias("widest"),
        low.alias("low"), high.alias("high"), F.max(F.when(F.col("new") > 0, F.col("source"))).alias("last"),
    )  # fmt: skip
    carried = F.col("high") + F.shiftright("low", 32)
    balance = F.shiftleft(carried, 32).bitwiseOR(F.col("low").bitwiseAND(LOW))
    return with_state(joined.withColumn("balance", balance).drop("low", "high"))


def alone_of(fragments: DataFrame) -> DataFrame:
    """Fragments of which each is a message of its own, in the shape of `messages_of`."""
    return with_state(fragments.drop("keyed").withColumns({"widest": F.col("audience"), "last": F.col("source")}))


def with_state(messages: DataFrame) -> DataFrame:
    """Messages with their state, and how many of their new rows repeat others."""
    broken = ~F.col("balance").isin([0, WHOLE])
    pending = broken | F.col("client").isNull()
    cut = F.col("audience") != F.col("widest")
    state = F.when(pending, "pending").when(cut, "cut").otherwise("whole")
    filled = {"bytes": F.coalesce("bytes", F.lit(0)), "weight": F.coalesce("weight", F.lit(1))}
    return messages.withColumns({**filled, "state": state}).withColumn("repeats", new_repeats())


def all_repeats() -> Column:
    """Rows of a message that repeat others: beyond one a receiver, or beyond one where rows name several."""
    listed = F.col("audience").isNotNull() & (F.col("most") <= 1)
    each = F.when(listed, F.greatest("heard", F.lit(1))).otherwise(F.lit(1))
    proven = F.col("balance") == WHOLE  # as many rows as there must be
    return F.when(proven, F.lit(0)).otherwise(F.greatest(F.col("publishes") - each, F.lit(0))).cast("long")


def new_repeats() -> Column:
    """The same beyond those that were counted before."""
    return F.greatest(F.least(all_repeats() - F.col("extra"), F.col("new")), F.lit(0)).cast("long")


def joined_of(cut: DataFrame, fragments: DataFrame, audiences: DataFrame) -> DataFrame:
    """(message, audience, heard, members) of messages whose fragments name different receivers: all that they name."""
    parts = fragments.join(cut.select("message"), "message").select("message", "audience").distinct()
    return receivers_of(parts.join(audiences, "audience").select("message", "members"))


def receivers_of(lists: DataFrame) -> DataFrame:
    """(message, audience, heard, members) of lists of receivers, several of which may be of one message."""
    each = lists.select("message", F.explode("members").alias("one")).distinct()
    return each.groupBy("message").agg(
        audience_column("one").alias("audience"),
        F.count("one").alias("heard"),
        F.array_sort(F.collect_list("one")).alias("members"),
    )


def audience_column(member: str) -> Column:
    """The hash of the members of a group."""
    return F.bit_xor(F.xxhash64(member)).bitwiseXOR(F.lit(AUDIENCE_SALT))


def audiences_of(events: DataFrame, kind: str = "audience") -> DataFrame:
    """Sets of receivers (`kind` set: of attributes), one row each; two of one hash fail the job."""
    return distinct_sets(rows_of(events, kind).select("audience", "members"))


def distinct_sets(sets: DataFrame) -> DataFrame:
    """(audience, members), one row each; two sets of one hash fail the job by what they hold."""
    found = sets.groupBy("audience").agg(F.min("members").alias("members"), F.max("members").alias("other"))
    clash = F.concat(
        F.lit(f"{REFUSED}two sets of receivers have the hash "), F.col("audience").cast("string"),
        F.lit(": those with the ids "), F.col("members").cast("string"), F.lit(" and "), F.col("other").cast("string"),
    )  # fmt: skip
    return found.select("audience", same("members", "other", clash))


def names_of(events: DataFrame) -> DataFrame:
    """(kind, id, name, since): the names of ids; two names of one id fail the job."""
    listed = rows_of(events, "name")
    return distinct_names(listed.select(F.col("what").alias("kind"), F.col("other").alias("id"), "name", "at"))


def distinct_names(names: DataFrame) -> DataFrame:
    """(kind, id, name, since) of (kind, id, name, at), one row each; what has no `at` was there always."""
    each = names.groupBy("kind", "id", "name").agg(
        F.min("at").alias("since"), F.max(F.col("at").isNull().cast("int")).alias("always")
    )
    found = each.groupBy("kind", "id").agg(
        F.min("name").alias("name"), F.max("name").alias("other"), F.min("since").alias("since"),
        F.max("always").alias("always"),
    )  # fmt: skip
    clash = F.concat(
        F.lit(f"{REFUSED}two names of kind "), F.col("kind"), F.lit(" have one id: "), F.col("name"), F.lit(" and "),
        F.col("other"),
    )  # fmt: skip
    return found.select("kind", "id", same("name", "other", clash), F.expr("if(always = 1, null, since) as since"))


REFUSED = "overlace: "
"""What the message of a failed job begins with where a user can do something about it."""


def same(value: str, other: str, clash: Column) -> Column:
    """A column where it equals another; else the job fails."""
    return F.when(F.col(value) == F.col(other), F.col(value)).otherwise(F.raise_error(clash)).alias(value)


def masks_of(events: DataFrame, bits: Sequence[int]) -> DataFrame:
    """(attributes, mask) of the sets of attributes, whose ids are given in order of their bits."""
    each = audiences_of(events, "set").select("audience", F.explode_outer("members").alias("one"))
    mask = F.when(F.col("one").isNull(), F.lit(0).cast("long"))
    for place, bit in enumerate(bits):  # branches beside one another: servers of Connect limit how deep they are
        mask = mask.when(F.col("one") == F.lit(bit), F.lit(1 << place))
    return each.groupBy(F.col("audience").alias("attributes")).agg(F.bit_or(mask).alias("mask"))


def traffic_of(messages: DataFrame, bucket_us: int) -> DataFrame:
    """Messages summed up by bucket, client, topic, attributes and audience, for each source and period.

    `repeats` are the rows that only repeated others, which no table keeps.
    """
    size = F.col("bytes") * F.col("weight")
    own = F.when(F.col("last").isNull() | (F.col("last") == F.col("source")), F.col("repeats"))
    return messages.groupBy(*traffic_keys(bucket_us)).agg(
        F.sum("weight").alias("messages"), F.count("*").alias("rows"), F.sum(size).alias("bytes"),
        F.coalesce(F.sum(own), F.lit(0)).alias("repeats"),
    )  # fmt: skip


def counts_of(events: DataFrame, bucket_us: int) -> DataFrame:
    """The traffic of logs that have summed up messages and bytes already."""
    return rows_of(events, "counts").groupBy(*traffic_keys(bucket_us)).agg(
        F.sum(F.coalesce("weight", F.lit(1))).alias("messages"), F.count("*").alias("rows"),
        F.sum(F.coalesce("bytes", F.lit(0))).alias("bytes"), F.lit(0).cast("long").alias("repeats"),
    )  # fmt: skip


def traffic_keys(bucket_us: int) -> list[Column | str]:
    """What a row of traffic is the sum over: no two files of a trace have rows of one source and period."""
    audience = F.coalesce("audience", F.lit(UNLOGGED)).alias("audience")
    return ["period", "source", begin_of("at", bucket_us).alias("bucket"), "client", "topic", "attributes", audience]


def begin_of(time: str, width_us: int) -> Column:
    """The beginning of the bucket of this width that a time falls into."""
    micros = F.unix_micros(time)
    return F.timestamp_micros(micros - F.pmod(micros, F.lit(width_us)))


def summed(traffic: DataFrame) -> DataFrame:
    """Traffic with rows of equal keys added up."""
    keys = ["period", "source", "bucket", "client", "topic", "attributes", "audience"]
    return traffic.groupBy(*keys).agg(*(F.sum(name).alias(name) for name in ("messages", "rows", "bytes", "repeats")))


def with_period(frame: DataFrame, unit: str) -> DataFrame:
    """Rows with the period that their time is in, as the text of its first day: of a day or a year."""
    return frame.withColumn("period", F.date_format(F.date_trunc(unit, F.col("at")), "yyyy-MM-dd"))


def pending_of(pending: DataFrame, fragments: DataFrame) -> DataFrame:
    """(source, broken, rows) of messages that nobody published, or of which rows are missing or too many."""
    which = pending.select("message", (~F.col("balance").isin([0, WHOLE])).alias("broken"))
    return (
        fragments.where("rows > 0").join(which, "message").groupBy("source", "broken").agg(F.sum("rows").alias("rows"))
    )


def accounts_of(events: DataFrame) -> DataFrame:
    """(source, what, reason, rows, sample, first, last): what became of the lines of each source, by reason."""
    first = F.when(F.col("name").isNotNull(), F.col("offset"))
    return rows_of(events, "account").groupBy("source", "what", "reason").agg(
        F.sum("rows").alias("rows"), F.min_by("name", first).alias("sample"),
        F.min(F.unix_micros("at")).alias("first"), F.max(F.unix_micros("at")).alias("last"),
    )  # fmt: skip


def repeats_of(messages: DataFrame, fragments: DataFrame) -> DataFrame:
    """(source, repeats) of messages whose new rows are of several sources: the later ones repeat the earlier."""
    shared = messages.where((F.col("repeats") > 0) & (F.col("last") != F.col("source"))).select("message", "repeats")
    own = fragments.where("new > 0").groupBy("message", "source").agg(F.sum("new").alias("own")).join(shared, "message")
    later = Window.partitionBy("message").orderBy(F.desc("source")).rowsBetween(Window.unboundedPreceding, -1)
    left = F.col("repeats") - F.coalesce(F.sum("own").over(later), F.lit(0))
    part = F.greatest(F.least(left, F.col("own")), F.lit(0))
    return own.select("source", part.alias("part")).groupBy("source").agg(F.sum("part").alias("repeats"))
