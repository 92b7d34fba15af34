"""What may change: the clients, brokers and links that names and patterns hold in place, and shared subscriptions.

A Mosquitto deals the messages of a group of MQTT among the members that it has itself, and a bridge carries them to the
next broker, which deals them again: a group whose members are at two brokers gets every message twice. So a plan that
moves one of them would double messages; the members of a group at one broker stay together there, and of a group that
is split already nobody moves, either. NATS deals a group over the whole network: there they are free.
"""

from __future__ import annotations

import glob
from collections.abc import Iterable, Mapping, Sequence
from fnmatch import fnmatchcase
from typing import NamedTuple

import pyarrow as pa
import pyarrow.compute as pc

from overlace.arrays.jit import Pairs
from overlace.arrays.pairs import positions
from overlace.errors import BadParameter, Unknown
from overlace.limits import Limits
from overlace.matching.topics import shared
from overlace.model import Names, Network, name_of
from overlace.trace.store import Trace
from overlace.trace.tables import arrow, is_content
from overlace.wording import counted


def check_names(limits: Limits, names: Names) -> None:
    """Refuse a pattern of clients or brokers that matches nothing that the trace names; links need the network."""
    kinds = by_kind((*limits.keep, *limits.only))
    for kind in ("client", "broker"):
        called = [name_of(kind, i, names) for i in range(len(names.get(kind, ())))]
        for pattern in kinds[kind]:
            if not any(matches(name, pattern) for name in called):
                raise Unknown(kind, pattern, called)


def ids_matching(patterns: Sequence[str], kind: str, count: int, names: Names) -> tuple[int, ...]:
    """The ids whose names match."""
    called = [name_of(kind, i, names) for i in range(count)]
    return tuple(i for i, name in enumerate(called) if any(matches(name, pattern) for pattern in patterns))


def matches(name: str, pattern: str) -> bool:
    """Whether a name is the pattern, or matches it."""
    return name == pattern or fnmatchcase(name, pattern)


class Scope(NamedTuple):
    """What stays as it is, by id; `only` are the clients that may move."""

    clients: tuple[int, ...]
    brokers: tuple[int, ...]  # with their clients and links
    links: tuple[int, ...]  # rows of the network's links
    only: tuple[int, ...] = ()  # clients that may move; none: all that do not stay


def scope_of(limits: Limits, network: Network, tree: Pairs, clients: int, names: Names) -> Scope:
    """What `keep` and `only` hold in place: of a kind that `only` names, all that it does not name stays too."""
    stays, may = (named_by(patterns, network, clients, names) for patterns in (limits.keep, limits.only))
    named = by_kind(limits.only)
    if named["client"]:
        stays = stays._replace(only=may.clients)
        if not may.clients:  # those who may move had not been seen: nobody moves
            stays = stays._replace(clients=tuple(range(clients)))
    if named["broker"]:
        _check_open(may.brokers, network, names)
        stays = stays._replace(brokers=_with_others(stays.brokers, range(network.brokers), may.brokers))
    if named["link"]:
        wired = _wired_rows(named["link"], network, tree, names)
        stays = stays._replace(links=_with_others(stays.links, wired, may.links))
    return stays


def _with_others(stays: Iterable[int], there: Iterable[int], may: Iterable[int]) -> tuple[int, ...]:
    """What stays anyway, and of what is there all that may not change."""
    return tuple(sorted({*stays} | ({*there} - {*may})))


def _check_open(may: Sequence[int], network: Network, names: Names) -> None:
    """Refuse fewer than two brokers: nobody comes or goes between one broker and others that stay as they are."""
    if len(may) < 2:
        listed = ", ".join(name_of("broker", b, names) for b in may) or "none"
        raise BadParameter(
            f"only: of {network.brokers} brokers just {listed} may change, and all others keep their clients and "
            "links, so nothing can. Name two brokers or more."
        )


def _wired_rows(patterns: Sequence[str], network: Network, tree: Pairs, names: Names) -> tuple[int, ...]:
    """Rows of the network's links that are wired; refused if a pattern matches none of them."""
    rows = positions(network.links, tree)
    wired = tuple(rows[rows >= 0].tolist())
    for pattern in patterns:
        if set(link_rows([pattern], network, names)).isdisjoint(wired):
            called = [[name_of("broker", b, names) for b in network.links[row].tolist()] for row in wired]
            raise Unknown("wired link", pattern, [":".join(ends) for ends in called])
    return wired


def named_by(patterns: Sequence[str], network: Network, clients: int, names: Names) -> Scope:
    """What the patterns name: CLIENT, broker:NAME, link:LEFT:RIGHT."""
    kinds = by_kind(patterns)
    return Scope(
        ids_matching(kinds["client"], "client", clients, names),
        ids_matching(kinds["broker"], "broker", network.brokers, names),
        link_rows(kinds["link"], network, names),
    )


def by_kind(patterns: Sequence[str]) -> dict[str, list[str]]:
    """Patterns by what they are about."""
    found: dict[str, list[str]] = {"broker": [], "link": [], "client": []}
    for pattern in patterns:
        kind, colon, rest = pattern.partition(":")
        if colon and kind in found:
            found[kind].append(rest)
        else:
            found["client"].append(pattern)
    return found


def link_rows(patterns: Sequence[str], network: Network, names: Names) -> tuple[int, ...]:
    """Rows of the network's links whose ends match LEFT:RIGHT either way round; no match is refused.

    Names may hold colons themselves: every colon of a pattern is tried as the one in the middle.
    """
    called = [name_of("broker", b, names) for b in range(network.brokers)]
    ends = [(called[a], called[b]) for a, b in network.links.tolist()]
    found: set[int] = set()
    for pattern in patterns:
        halves = [(pattern[:i], pattern[i + 1 :]) for i, letter in enumerate(pattern) if letter == ":"]
        if not halves:
            raise BadParameter(f"{pattern!r}: expected two patterns of brokers, such as 'plant*:hub*'")
        rows = {
            row
            for row, (a, b) in enumerate(ends)
            for left, right in halves
            if (matches(a, left) and matches(b, right)) or (matches(b, left) and matches(a, right))
        }
        if not rows:
            raise Unknown("link that the trace names", pattern, [f"{a}:{b}" for a, b in ends])
        found |= rows
    return tuple(sorted(found))


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
