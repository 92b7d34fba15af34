"""What a user should know of a trace beyond the accounts of its logs: counted by the engine, a row comes back."""

from __future__ import annotations

from collections.abc import Mapping

from pyspark.sql import functions as F

from overlace.ingest.store import Store
from overlace.trace.notes import Note

FEW = 3
"""Messages up to which a client counts as short-lived."""


def notes_of(
    store: Store, noted: Mapping[str, Note], identity: str | None, crossed: Mapping[str, int] | None
) -> list[str]:
    """Notes on a trace whose parts are all written; `crossed` counts what crossed bridges in this ingest."""
    notes = [*note_crossed(crossed), *warn_of_bridges(store, noted), *warn_of_short_lived(store)]
    namesakes = identity in (None, "client") and any(note["format"] == "nats" for note in noted.values())
    return [*notes, *(warn_of_namesakes(store) if namesakes else ())]


def note_crossed(crossed: Mapping[str, int] | None) -> list[str]:
    """What became of messages that crossed bridges."""
    if crossed is None:
        return []
    links = crossed["links"]
    notes = [f"{crossed['matched']:,} receives over {links} bridges were followed back to their publishers"]
    if crossed["lost"]:
        notes.append(
            f"{crossed['lost']:,} receives over bridges have no send in any of these logs: ingest all brokers' logs "
            "together, or flows between brokers are missing"
        )
    if not links:
        notes.append("no bridge has both its ends in these logs: ingest all brokers' logs together, or use --topology")
    return notes


def warn_of_bridges(store: Store, noted: Mapping[str, Note]) -> list[str]:
    """A warning where a bridge counts as a client: files that were read before did not show it as one."""
    clients = {
        client: bridge
        for note in noted.values()
        for bridge in note["bridges"]
        if bridge and (broker := note["broker"])
        for client in (f"{broker}/{bridge}", f"{broker}/local.{bridge}", bridge)
    }
    if not clients:
        return []
    found = store.now("names").where((F.col("kind") == "client") & F.col("name").isin(list(clients)))
    return [
        f"{each} is a bridge, and is taken for a client in logs that were read before that was known. For true flows, "
        "ingest all logs into a new trace."
        for each in sorted({clients[name] for name in found.select("name").toArrow()["name"].to_pylist()})
    ]


def warn_of_namesakes(store: Store) -> list[str]:
    """A warning when clients that are known by their name alone were seen at several brokers."""
    pairs = store.now("sessions").select("client", "broker").distinct()
    several = pairs.groupBy("client").count().where("count > 1").select("client")
    clients = store.now("names").where("kind = 'client'").select(F.col("id").alias("client"), "name")
    found = several.join(clients, "client").agg(
        F.count("*").alias("count"), F.min("name").alias("name"), F.min_by("client", "name").alias("client")
    )
    (first,) = found.toArrow().to_pylist()
    if not first["count"]:
        return []
    ids = pairs.where(F.col("client") == first["client"]).select(F.col("broker").alias("id"))
    brokers = store.now("names").where("kind = 'broker'").join(ids, "id").select("name").orderBy("name").limit(3)
    others = f", and {first['count'] - 1:,} more clients," if first["count"] > 1 else ""
    return [
        f"{first['name']}{others} came up at several brokers ({', '.join(brokers.toArrow()['name'].to_pylist())}). "
        "If several clients have one name, tell them apart with --identity broker/client."
    ]


def warn_of_short_lived(store: Store) -> list[str]:
    """A warning when many clients sent next to nothing: ids that are made up for each connection look like that."""
    sent = store.now("traffic").groupBy("client").agg(F.sum("messages").alias("sent")).where("sent > 0")
    few = F.coalesce(F.sum((F.col("sent") <= FEW).cast("long")), F.lit(0))
    (row,) = sent.agg(F.count("*").alias("senders"), few.alias("few")).toArrow().to_pylist()
    if row["few"] < 20 or row["few"] < 0.2 * row["senders"]:
        return []
    return [
        f"{row['few']:,} of {row['senders']:,} senders sent {FEW} messages or fewer in all. If their ids are made up "
        "for each connection, say who is one client with --identity PATTERN."
    ]
