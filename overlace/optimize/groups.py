"""Shared subscriptions of MQTT: who shares them, and why they stay where they are unless the user says otherwise.

A Mosquitto deals the messages of a group among the members that it has itself, and a bridge carries them to the next
broker, which deals them again: a group whose members are at two brokers gets every message twice. So a plan that moves
one of them would double messages; the members of a group at one broker stay together there, and of a group that is
split already nobody moves, either. NATS deals a group over the whole network: there they are free.
"""

from __future__ import annotations

import glob
from collections.abc import Mapping
from typing import NamedTuple

import pyarrow as pa
import pyarrow.compute as pc

from overlace.limits import Limits
from overlace.matching.topics import shared
from overlace.model import name_of
from overlace.optimize.scope import by_kind, matches
from overlace.trace.store import Trace
from overlace.trace.tables import arrow, is_content
from overlace.wording import counted


class Grouped(NamedTuple):
    """Clients that stay since they share subscriptions, as patterns of `keep`, and in how many groups."""

    keep: tuple[str, ...] = ()
    groups: int = 0

    def note(self) -> str:
        """What is said of them; nothing where there are none."""
        if not self.keep:
            return ""
        who = counted(len(self.keep), "client stays where it is", "clients stay where they are")
        shares = counted(self.groups, "shared subscription", "shared subscriptions")
        return f"{who}, members of {shares}: every Mosquitto deals a group on its own; --only '*' lets them move"


def grouped_in(trace: Trace, limits: Limits) -> Grouped:
    """The members of MQTT's groups of two or more, but for those whom `only` names."""
    may = by_kind(limits.only)["client"]
    together = [members for members in members_of(trace).values() if len(members) > 1]
    stay = [{name for name in members if not any(matches(name, each) for each in may)} for members in together]
    names = sorted(set().union(*stay))
    return Grouped(tuple(f"client:{glob.escape(name)}" for name in names), sum(map(bool, stay)))


def members_of(trace: Trace) -> Mapping[tuple[str, str], set[str]]:
    """The clients of every shared subscription of MQTT, by group and filter."""
    rows = trace.read("subscriptions", ["client", "topic", "filter", "dialect", "group"])
    rows = rows.filter(arrow(~is_content(rows["dialect"]), pa.bool_()))
    spoken = set(pc.unique(rows["dialect"]).to_pylist()) - {None}
    logs = {each.get("format") for each in (trace.notes.get("sources") or {}).values()}
    assumed = "mqtt" if spoken == {"mqtt"} or (not spoken and logs == {"mosquitto"}) else None
    inner, plain = shared(rows["filter"])
    rows = rows.set_column(4, "group", pc.coalesce(rows["group"], inner.cast(pa.string())))
    rows = rows.set_column(2, "filter", plain.cast(pa.string()))
    found: dict[tuple[str, str], set[str]] = {}
    for row in rows.filter(rows["group"].is_valid()).to_pylist():
        if (row["dialect"] or assumed) == "mqtt":
            text = row["filter"] if row["filter"] is not None else name_of("topic", row["topic"], trace.names)
            found.setdefault((row["group"], text), set()).add(name_of("client", row["client"], trace.names))
    return found
