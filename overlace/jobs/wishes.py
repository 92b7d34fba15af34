"""What a user wants of an optimisation: limits and wishes, from flags or from overlace.toml."""

from __future__ import annotations

import tomllib
from fnmatch import fnmatchcase
from pathlib import Path
from typing import Any, Literal, NamedTuple

from pydantic import BaseModel, ConfigDict, Field, ValidationError

from overlace.errors import BadParameter, Unknown
from overlace.model import Names, Network, name_of

Objective = Literal["hops", "messages", "bytes", "latency", "cost"]


class Wishes(BaseModel):
    """Limits and wishes; unknown keys are errors."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    objective: Objective = Field(default="cost", description="what the plan lowers")
    train: float = Field(default=0.7, description="share of the messages that plans; the rest judges")
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
    max_cut: float | None = Field(default=None, gt=0, le=1, description="share of messages that may pass one broker")
    sent_cap: float | None = Field(
        default=1.5, gt=0, description="sent by a broker's clients: at most this times the mean"
    )
    handled_cap: float | None = Field(
        default=1.0, gt=0, description="through a broker: at most this times today's busiest"
    )
    max_degree: int | None = Field(default=None, ge=1, description="links of a broker, at most")
    keep: tuple[str, ...] = Field(
        default=(), description="what stays: CLIENT, broker:NAME or link:A:B, by name or pattern"
    )
    only: tuple[str, ...] = Field(default=(), description="clients that may move, by name or pattern; none: all")
    effort: int = Field(default=100, ge=0, description="kicks after the first search")
    seed: int = Field(default=0, ge=0)


def read_wishes(path: Path | None, given: dict[str, Any]) -> Wishes:
    """overlace.toml, if there is one, with what was typed on top."""
    document: dict[str, Any] = {}
    if path is not None:
        try:
            document = tomllib.loads(path.read_text(encoding="utf-8"))
        except (OSError, tomllib.TOMLDecodeError) as error:
            raise BadParameter(f"{path}: {error}") from None
    merged = {**document, **{key: value for key, value in given.items() if value not in (None, [], ())}}
    unknown = [key for key in merged if key not in Wishes.model_fields]
    if unknown:
        raise Unknown(f"key in {path}", unknown[0], Wishes.model_fields)
    try:
        return Wishes.model_validate({k: tuple(v) if isinstance(v, list) else v for k, v in merged.items()})
    except ValidationError as error:
        first = error.errors()[0]
        raise BadParameter(f"{'.'.join(map(str, first['loc']))}: {first['msg']}, found {first['input']!r}") from None


def matching(patterns: tuple[str, ...], kind: str, count: int, names: Names) -> tuple[int, ...]:
    """The ids whose names match; a pattern that matches nothing is refused."""
    called = [name_of(kind, i, names) for i in range(count)]
    found: set[int] = set()
    for pattern in patterns:
        mine = {i for i, name in enumerate(called) if fnmatchcase(name, pattern)}
        if not mine:
            raise Unknown(kind, pattern, called)
        found |= mine
    return tuple(sorted(found))


class Kept(NamedTuple):
    """What stays as it is, by id."""

    clients: tuple[int, ...]
    brokers: tuple[int, ...]
    links: tuple[int, ...]  # rows of the network's links


def kept(patterns: tuple[str, ...], network: Network, clients: int, names: Names) -> Kept:
    """What the patterns name: CLIENT, broker:NAME, link:A:B."""
    by_kind: dict[str, list[str]] = {"broker": [], "link": [], "client": []}
    for pattern in patterns:
        kind, colon, rest = pattern.partition(":")
        if colon and kind in by_kind:
            by_kind[kind].append(rest)
        else:
            by_kind["client"].append(pattern)
    return Kept(
        matching(tuple(by_kind["client"]), "client", clients, names),
        matching(tuple(by_kind["broker"]), "broker", network.brokers, names),
        link_rows(tuple(by_kind["link"]), network, names),
    )


def link_rows(patterns: tuple[str, ...], network: Network, names: Names) -> tuple[int, ...]:
    """Rows of the network's links whose ends match LEFT:RIGHT either way round."""
    called = [name_of("broker", b, names) for b in range(network.brokers)]
    found: set[int] = set()
    for pattern in patterns:
        left, colon, right = pattern.partition(":")
        if not colon:
            raise BadParameter(f"{pattern!r}: expected two patterns of brokers, such as 'plant*:hub*'")
        for row, (a, b) in enumerate(network.links.tolist()):
            for x, y in ((called[a], called[b]), (called[b], called[a])):
                if fnmatchcase(x, left) and fnmatchcase(y, right):
                    found.add(row)
    return tuple(sorted(found))
