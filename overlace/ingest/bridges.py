"""Messages that crossed bridges, followed from one broker's log to the next.

A bridge is a client at both its ends: `local.NAME` where it dials, `NAME` at the far broker. What one log
sends to it, the other receives from it; the k-th send of a topic and size is the k-th receive, where one
log begins or ends earlier the times decide. A message may cross several bridges: its receivers are those
at every broker it came to.

A bridge may rename topics by prefix (`topic PATTERN DIRECTION QOS LOCAL REMOTE` in mosquitto.conf). What the
dialling broker sends is logged by its new name, so both ends agree; what it receives is renamed before it is
logged, so the far end's sends are renamed here, by the same rule: the first pattern that fits.

Keeps: a receive belongs to one send at most; what cannot be matched is counted, never guessed. What a line is
matched with depends on no line that is later by more than SLACK_US.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import replace

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray
from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F

from overlace.ingest import stages
from overlace.ingest.job import id_of
from overlace.ingest.sources import Source
from overlace.ingest.topologies import Bridge
from overlace.trace.notes import Note

Ints = NDArray[np.int64]

SLACK_US = 5_000_000
"""How far the clocks of two brokers may be apart."""

PARTS = 16
"""The lines of a link come in so many parts, each with all lines of its topics and sizes."""


def shown_by(events: DataFrame) -> dict[int, set[str]]:
    """The names of the bridges that each source shows."""
    found: dict[int, set[str]] = {}
    life = stages.rows_of(events, "life").where("what in ('bridge', 'crossing') and name is not null")
    for row in life.select("source", "name").distinct().toArrow().to_pylist():
        found.setdefault(row["source"], set()).add(row["name"].removeprefix("local."))
    return found


def learned(sources: Sequence[Source], shown: Mapping[int, set[str]], noted: Mapping[str, Note]) -> tuple[Source, ...]:
    """The sources, each with the bridges that other files of its broker's log show."""
    known: dict[str, set[str]] = {}
    for note in noted.values():
        known.setdefault(note["broker"] or "", set()).update(note["bridges"])
    for source in sources:
        known.setdefault(source.options.get("broker") or "", set()).update(shown.get(id_of(source.digest), ()))
    found = []
    for source in sources:
        own = {*shown.get(id_of(source.digest), ()), *(source.options.get("bridges") or ())}
        every = sorted((own | known[source.options.get("broker") or ""]) - {""})
        more = source.form.one_broker and set(every) != own
        found.append(replace(source, options={**source.options, "bridges": every}) if more else source)
    return tuple(found)


def fragments_of(crossed: DataFrame) -> DataFrame:
    """Who got messages over bridges (message, audience, heard), as fragments of these messages."""
    known, none = ("message", "audience", "heard", "at"), ("rows", "publishes", "most", "balance", "new", "extra")
    found = crossed.withColumns({"at": F.lit(None).cast("timestamp"), "keyed": F.lit(True)})
    others = [name for name in stages.FRAGMENT if name not in known]
    found = found.withColumns({name: F.lit(0 if name in none else None).cast("long") for name in others})
    return found.select(*stages.FRAGMENT, "keyed")


def crossings_of(life: DataFrame, bridges: Sequence[Bridge] = ()) -> DataFrame:
    """Lines about bridges, of links with two ends with the log and broker at the `other` and `far` end.

    Of two logs that name one link each is at the other's far end, since `both` do; from the time at which a third one
    names it (`until`) none is. `bridges` are those that rename topics. A bridge's own notices are left out.
    """
    ours = life.where("what in ('bridge', 'crossing') and name is not null and not coalesce(filter, '') like '$%'")
    lines = ours.select(
        *("source", "log", "offset", "at", "broker", "bytes", "message", "members"),
        F.col("name").startswith("local.").alias("local"),
        F.regexp_replace("name", r"^local\.", "").alias("link"),
        _by_dialling_name(bridges).alias("topic"),
    )
    first = lines.groupBy("link", "log").agg(F.min("at").alias("at"), F.min("broker").alias("broker"))
    ends = first.groupBy("link").agg(F.sort_array(F.collect_list(F.struct("at", "log", "broker"))).alias("ends"))
    ends = ends.selectExpr(
        "link", "get(ends, 0) one", "get(ends, 1) two", "get(ends, 2).at until", "get(ends, 1).at both"
    )
    end = F.expr("if(until is null or at < until, if(log = one.log, two, if(log = two.log, one, null)), null)")
    lines = lines.join(ends, "link", "left").withColumn("end", end).drop("one", "two")
    return lines.withColumns({"other": F.col("end.log"), "far": F.col("end.broker")}).drop("end")


def dialled_links_of(crossings: DataFrame) -> DataFrame:
    """Links that bridges are, between the broker that `dials` and the one at the `far` end.

    Each since it was first shown at both ends, until its name came up in a third log.
    """
    until = F.when(F.count("until") == F.count("*"), F.max("until"))
    shown = crossings.where("local and other is not null").groupBy(F.col("broker").alias("dials"), "far")
    return shown.agg(F.min(F.greatest("at", "both")).alias("since"), until.alias("until"))


def receives_of(crossings: DataFrame) -> DataFrame:
    """Messages that came over bridges, each with the message that its send `carried`; null: its send is in no log."""
    lines = crossings.where("members is not null or message is not null and other is not null")
    lines = lines.select(
        *("link", "at", "offset", "source", "message", "members"),
        F.when(F.col("members").isNotNull(), F.col("log")).otherwise(F.col("other")).alias("to"),
        F.xxhash64("topic", "bytes").alias("content"),
        F.col("other").isNotNull().alias("linked"),
    )
    some = lines.groupBy("link", "to", F.pmod("content", F.lit(PARTS)))
    return some.applyInArrow(match_receives, "message long, carried long, members array<long>")


def match_receives(lines: pa.Table) -> pa.Table:
    """The receives of some topics and sizes over one link, each with the message that its send carried."""
    lines = lines.sort_by([(name, "ascending") for name in ("content", "at", "offset", "source")])
    at, content = lines["at"].cast(pa.int64()).to_numpy(), lines["content"].to_numpy()
    received, linked = lines["members"].is_valid().to_numpy(), lines["linked"].to_numpy()
    sends, receives = np.flatnonzero(~received), np.flatnonzero(received & linked)
    each = np.unique(content[receives])
    ends = [np.searchsorted(content[rows], each, side) for rows in (sends, receives) for side in ("left", "right")]
    send_of = np.full(len(at), -1)
    for first_send, end_send, first, end in zip(*ends, strict=True):
        out_of, into = sends[first_send:end_send], receives[first:end]
        send_of[into] = np.append(out_of, -1)[pair_up(at[out_of], at[into])]
    carried = pa.array(lines["message"].to_numpy()[send_of], mask=send_of < 0)
    return lines.append_column("carried", carried).filter(pa.array(received)).select(["message", "carried", "members"])


def pair_up(sends: Ints, receives: Ints) -> Ints:
    """For each receive the place of its send, or -1; both are times in order.

    Sends that are older than the slack are given up where as many newer ones wait as there are receives about then.
    """
    fresh = np.searchsorted(sends, receives - SLACK_US)
    ahead = np.searchsorted(sends, receives + SLACK_US, "right")
    about_then = np.searchsorted(receives, receives + SLACK_US, "right") - np.arange(len(receives))
    least = np.where(ahead - fresh >= about_then, fresh, 0)
    match, send = [], 0
    for first, end in zip(least.tolist(), ahead.tolist(), strict=True):
        send = max(send, first)  # those before were lost on the way, or sent before the other log begins
        match.append(send if send < end else -1)
        send += send < end
    return np.array(match, np.int64)


def receivers_of(receives: DataFrame, hops: int) -> DataFrame:
    """Who got a message over bridges: `members` to be added to the receivers of the `message` that was published.

    Each crossed at most so many links (`hops`): one less than there are logs suffices. What was carried over 1, 2,
    4 ... links is found by joins of the receives with themselves: they should be written or kept, not computed anew.
    """
    up = receives.where("carried is not null")
    for _ in range((hops - 1).bit_length()):
        further = up.select(F.col("message").alias("carried"), F.col("carried").alias("root"))
        up = up.join(further, "carried", "left").select(
            "message", F.coalesce("root", "carried").alias("carried"), "members"
        )
    return up.where(F.size("members") > 0).select(F.col("carried").alias("message"), "members")


def counts_of(receives: DataFrame, links: DataFrame) -> DataFrame:
    """One row: receives that were `matched` with their sends, those that are `lost`, and the `links` between logs."""
    found = receives.agg(F.count("carried").alias("matched"), F.count_if(F.col("carried").isNull()).alias("lost"))
    return found.crossJoin(links.agg(F.count("*").alias("links")))


def _by_dialling_name(bridges: Sequence[Bridge]) -> Column:
    """The topic of a line by the name that the broker that dials logs."""
    topic, name = F.coalesce("filter", F.lit("")), F.col("name")
    sent = F.expr("members is null and message is not null and name not like 'local.%'")
    found = F.when(F.lit(False), topic)  # branches beside one another: servers of Connect limit how deep they are
    for bridge in bridges:
        if bridge.remote_clientid is None:  # HOST.CONNECTION; several brokers may call a connection alike
            named = name.eqNullSafe(bridge.connection) | name.endswith("." + bridge.connection)
            mine = named & F.coalesce(F.col("broker") == F.xxhash64(F.lit(bridge.remote)), F.lit(True))
        else:
            mine = name.eqNullSafe(bridge.remote_clientid)
        for pattern in bridge.topics:
            if pattern.direction != "out":
                fits = topic.rlike(_regex(pattern.remote_prefix + pattern.pattern))
                rest = F.substr(topic, F.lit(len(pattern.remote_prefix) + 1))
                found = found.when(sent & mine & fits, F.concat(F.lit(pattern.local_prefix), rest))
    return found.otherwise(topic)


def _regex(pattern: str) -> str:
    """What an MQTT filter matches, as a regular expression."""
    levels = ["[^/]*" if level == "+" else re.escape(level) for level in pattern.split("/")]
    if levels[-1] == re.escape("#"):
        return "^" + "/".join(levels[:-1]) + r"(/|\z)" if len(levels) > 1 else ""
    return "^" + "/".join(levels) + r"\z"
