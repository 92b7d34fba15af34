"""What a user wants of an optimisation: limits and wishes, from flags or from overlace.toml."""

from __future__ import annotations

import tomllib
from collections.abc import Iterable, Sequence
from datetime import date
from fnmatch import fnmatchcase
from pathlib import Path
from typing import Any, Literal, NamedTuple

from pydantic import BaseModel, ConfigDict, Field, ValidationError

from overlace.arrays.jit import Pairs
from overlace.arrays.pairs import positions
from overlace.errors import BadParameter, Unknown
from overlace.model import Names, Network, name_of

Objective = Literal["hops", "messages", "bytes", "latency", "cost"]


class Wishes(BaseModel):
    """Limits and wishes; unknown keys are errors."""

    model_config = ConfigDict(extra="forbid", frozen=True, allow_inf_nan=False)

    objective: Objective = Field(default="cost", description="what the plan lowers")
    train: float = Field(default=0.7, description="share of the messages that plans; the rest judges")
    train_until: str | None = Field(
        default=None,
        description="end of the training window: an ISO time, UTC unless it says otherwise; not with train",
    )
    placement: Literal["region", "anywhere"] | None = Field(
        default=None, description="may clients leave their region? default: only where the trace says where they are"
    )
    could_wire: tuple[str, ...] = Field(
        default=(), description="LEFT:RIGHT patterns of brokers that could be linked anew"
    )
    budget: int | None = Field(default=None, ge=0, description="clients moved and links changed together, at most")
    max_moves: int | None = Field(default=None, ge=0, description="clients moved, at most")
    max_swaps: int | None = Field(default=None, ge=0, description="links changed, at most")
    min_gain: float = Field(default=0.01, ge=0, le=1, description="share of today's cost that a plan must save")
    min_step: float = Field(default=0.0, ge=0, le=1, description="share of today's cost that every change must save")
    max_cut: float | None = Field(
        default=None, gt=0, le=1, description="share of the deliveries that may fail with one broker"
    )
    sent_cap: float | None = Field(
        default=1.5, ge=0, description="sent by a broker's clients: at most this times the mean; 0: no limit"
    )
    handled_cap: float | None = Field(
        default=1.0, ge=0, description="through a broker: at most this times today's busiest; 0: no limit"
    )
    head_room: float = Field(
        default=0.2, ge=0, lt=1, description="share of a broker's capacity that stays free, where the trace knows it"
    )
    max_degree: int | None = Field(default=None, ge=1, description="maximum links of a broker, in a mesh of a client")
    max_diameter: int | None = Field(
        default=None, ge=2, description="meshes: maximum links on a path between two subscribers of a topic"
    )
    survive: int = Field(
        default=0, ge=0, le=8, description="meshes: clients that may fail at once with every topic still connected"
    )
    keep: tuple[str, ...] = Field(
        default=(), description="what stays: CLIENT, broker:NAME or link:LEFT:RIGHT, by name or pattern"
    )
    only: tuple[str, ...] = Field(
        default=(),
        description="what may change: CLIENT, broker:NAME or link:LEFT:RIGHT, by name or pattern; of a kind that is "
        "not named, all",
    )
    forecast: Literal["chosen", "plain"] = Field(
        default="chosen",
        description="what is planned for: the traffic to come, chosen inside the part that plans, or its plain sums",
    )
    effort: int = Field(default=100, ge=0, description="how long to anneal after the first search; 0: not at all")
    seed: int = Field(default=0, ge=0)


def read_wishes(path: Path | None, given: dict[str, Any]) -> Wishes:
    """overlace.toml, if there is one, with what was typed on top."""
    document: dict[str, Any] = {}
    if path is not None:
        try:
            document = tomllib.loads(path.read_text(encoding="utf-8"))
        except (OSError, UnicodeDecodeError, tomllib.TOMLDecodeError) as error:
            raise BadParameter(f"{path}: {error}") from None
    typed = {key: value for key, value in given.items() if value not in (None, [], ())}
    for where in (typed, document):
        if {"train", "train_until"} <= where.keys():
            raise BadParameter("train and train_until both say where the log is cut: give one of them")
    if typed.keys() & {"train", "train_until"}:  # what was typed takes the place of either
        document = {key: value for key, value in document.items() if key not in ("train", "train_until")}
    merged = {**document, **typed}
    if isinstance(merged.get("train_until"), date):  # as TOML has it without quotes
        merged["train_until"] = merged["train_until"].isoformat()
    for key in ("keep", "only", "could_wire"):
        if isinstance(merged.get(key), str):
            raise BadParameter(f"{key}: expected a list of names or patterns, found {merged[key]!r}")
    unknown = [key for key in merged if key not in Wishes.model_fields]
    if unknown:
        raise Unknown(f"key in {path}", unknown[0], Wishes.model_fields)
    try:
        return Wishes.model_validate({k: tuple(v) if isinstance(v, list) else v for k, v in merged.items()})
    except ValidationError as error:
        first = error.errors()[0]
        raise BadParameter(f"{'.'.join(map(str, first['loc']))}: {first['msg']}, found {first['input']!r}") from None


def check_names(wishes: Wishes, names: Names) -> None:
    """Refuse a pattern of clients or brokers that matches nothing that the trace names; links need the network."""
    by_kind = kinds_of((*wishes.keep, *wishes.only))
    for kind in ("client", "broker"):
        called = [name_of(kind, i, names) for i in range(len(names.get(kind, ())))]
        for pattern in by_kind[kind]:
            if not any(matches(name, pattern) for name in called):
                raise Unknown(kind, pattern, called)


def matching(patterns: Sequence[str], kind: str, count: int, names: Names) -> tuple[int, ...]:
    """The ids whose names match."""
    called = [name_of(kind, i, names) for i in range(count)]
    return tuple(i for i, name in enumerate(called) if any(matches(name, pattern) for pattern in patterns))


def matches(name: str, pattern: str) -> bool:
    """Whether a name is the pattern, or matches it."""
    return name == pattern or fnmatchcase(name, pattern)


class Kept(NamedTuple):
    """What stays as it is, by id."""

    clients: tuple[int, ...]
    brokers: tuple[int, ...]  # with their clients and links
    links: tuple[int, ...]  # rows of the network's links
    only: tuple[int, ...] = ()  # clients that may move; none: all that do not stay


def kept_by(wishes: Wishes, network: Network, tree: Pairs, clients: int, names: Names) -> Kept:
    """What `keep` and `only` hold in place: of a kind that `only` names, all that it does not name stays too."""
    stays, may = (kept(patterns, network, clients, names) for patterns in (wishes.keep, wishes.only))
    named = kinds_of(wishes.only)
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


def kept(patterns: Sequence[str], network: Network, clients: int, names: Names) -> Kept:
    """What the patterns name: CLIENT, broker:NAME, link:LEFT:RIGHT."""
    by_kind = kinds_of(patterns)
    return Kept(
        matching(by_kind["client"], "client", clients, names),
        matching(by_kind["broker"], "broker", network.brokers, names),
        link_rows(by_kind["link"], network, names),
    )


def kinds_of(patterns: Sequence[str]) -> dict[str, list[str]]:
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
