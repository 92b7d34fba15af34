"""What a user may ask of a plan: limits that it must keep, and what it is for.

An option is one field: its help, default and range stand here, and the command line, overlace.toml and the planners
that have it share the field. To add one, add a line here and use it.
"""

from __future__ import annotations

import dataclasses
import json
import math
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from numbers import Integral, Real
from types import UnionType
from typing import Any, ClassVar, Literal, TypeVar, Union, get_args, get_origin, get_type_hints

from overlace.errors import BadParameter, Unknown

Objective = Literal["hops", "messages", "bytes", "latency", "cost"]
Made = TypeVar("Made")


def option(
    default: Any,
    text: str,
    *,
    least: float | None = None,
    above: float | None = None,
    most: float | None = None,
    below: float | None = None,
    **about: object,
) -> Any:
    """A field that is an option: its default, its help and its range.

    `about` may hold `flag` (if it is not the field's name), `metavar`, `formerly` (an old name that still works), `ids`
    (what the names that are typed stand for), `read` (what makes a value of what is typed), `typed` (what is read where
    nothing is typed) and `hidden` (no option of the command line).
    """
    bounds = {"least": least, "above": above, "most": most, "below": below}
    known = {key: value for key, value in bounds.items() if value is not None}
    metadata = {"help": text, **known, **about}
    if isinstance(default, dict):
        return dataclasses.field(default_factory=default.copy, metadata=metadata)
    return dataclasses.field(default=default, metadata=metadata)


def same_option(name: str, **changed: Any) -> Any:
    """The option of this name, for a planner that has it too; only its default or help may be another."""
    found = next(each for kind in (Limits, Goal) for each in dataclasses.fields(kind) if each.name == name)
    metadata = {**found.metadata, "help": changed.get("help", found.metadata["help"])}
    return dataclasses.field(default=changed.get("default", found.default), metadata=metadata)


def check_options(given: Any) -> None:
    """Refuse values of the wrong type or out of range."""
    hints = get_type_hints(type(given))
    for each in dataclasses.fields(given):
        check_value(each, hints[each.name], getattr(given, each.name))


def check_value(each: dataclasses.Field[Any], hint: Any, value: Any) -> None:
    """Refuse a value that is not of the field's type or out of its range."""
    kind, optional = without_none(hint)
    if value is None and optional:
        return
    if get_origin(kind) is Literal:
        right, wanted = value in get_args(kind), f"one of {', '.join(map(str, get_args(kind)))}"
    elif get_origin(kind) is tuple:
        right, wanted = isinstance(value, tuple), "a list of names or patterns"
        if get_args(kind)[0] is not str:
            wanted = "a list of numbers, from 0" if "ids" in each.metadata else "a list of numbers"
            right = right and all(_is_number(one, get_args(kind)[0]) for one in value)
            right = right and ("ids" not in each.metadata or min(value, default=0) >= 0)
        else:
            right = right and all(isinstance(one, str) for one in value)
    elif kind in (int, float):
        right = _is_number(value, kind) and _is_within(each.metadata, value)
        limits = range_of(each.metadata)
        wanted = f"a {'whole ' if kind is int else ''}number{' of ' if limits[:1].isdigit() else ' '}{limits}".strip()
    else:
        right = isinstance(value, get_origin(kind) or kind)
        wanted = {str: "a text", bool: "true or false"}.get(kind, "a mapping")
    if not right:
        shown = (
            repr(value) if isinstance(value, Real) and not isinstance(value, bool) else json.dumps(value, default=str)
        )
        raise BadParameter(f"{each.name} is {shown}; expected {wanted}")


def without_none(hint: Any) -> tuple[Any, bool]:
    """(type, optional): a type without its None."""
    if get_origin(hint) not in (Union, UnionType):
        return hint, False
    rest = [each for each in get_args(hint) if each is not type(None)]
    return rest[0], len(rest) < len(get_args(hint))


def _is_number(value: object, kind: type) -> bool:
    """Whether a value is a whole number (int) or any number (float) that fits into eight bytes."""
    if isinstance(value, bool):
        return False
    if isinstance(value, Integral):
        return -(2**63) <= int(value) < 2**63
    return kind is float and isinstance(value, Real) and math.isfinite(value)


def _is_within(metadata: Mapping[str, Any], value: float) -> bool:
    """Whether a number is in an option's range."""
    low = value >= metadata.get("least", value) and value > metadata.get("above", -math.inf)
    return bool(low and value <= metadata.get("most", value) and value < metadata.get("below", math.inf))


def range_of(metadata: Mapping[str, Any]) -> str:
    """An option's range in words."""
    words = {"least": "{:g} or more", "above": "above {:g}", "most": "at most {:g}", "below": "below {:g}"}
    return ", ".join(text.format(metadata[key]) for key, text in words.items() if key in metadata)


class Given:
    """Options that remember which of them were given, so that a default is never taken for what was asked for."""

    def __new__(cls, *values: object, **named: object) -> Any:
        """An instance that knows the names of its arguments."""
        made = super().__new__(cls)
        names = [each.name for each in dataclasses.fields(cls)][: len(values)]  # type: ignore[arg-type]
        object.__setattr__(made, "_given", frozenset([*names, *named]))
        return made

    @property
    def given(self) -> frozenset[str]:
        """Names of the options that were given."""
        return self._given  # type: ignore[attr-defined, no-any-return]


@dataclass(frozen=True)
class PlannerLimits:
    """Limits that mean the same to a user and to a planner. No limit is tighter than what is there today."""

    budget: int | None = option(None, "maximum total changes: clients moved and links changed", least=0)
    max_moves: int | None = option(None, "maximum clients moved", least=0)
    max_swaps: int | None = option(None, "maximum links changed", least=0)
    min_step: float = option(0.0, "minimum share of today's cost that every change saves", least=0, most=1)
    sent_cap: float | None = option(None, "messages sent by a broker's clients: maximum / mean", least=0)
    handled_cap: float | None = option(
        1.0, "messages through a broker: maximum / today's busiest broker (0: unlimited)", least=0
    )
    head_room: float = option(
        0.2, "share of a broker's capacity that stays free, where the trace knows it", least=0, below=1
    )
    max_degree: int | None = option(None, "maximum links of a broker; in a mesh, of a client", least=1)
    max_cut: float | None = option(
        None, "maximum share of deliveries that one broker's failure may cost", above=0, most=1
    )

    def __post_init__(self) -> None:
        check_options(self)


@dataclass(frozen=True)
class Limits(Given, PlannerLimits):
    """What a plan must keep."""

    min_gain: float = option(0.01, "minimum share of today's cost that a plan saves", least=0, most=1)
    placement: Literal["region", "anywhere"] | None = option(
        None, "may clients leave their region? (default: only where the trace says where they are)"
    )
    allow_link: tuple[str, ...] = option(
        (),
        "links that could be new: LEFT:RIGHT patterns of brokers, such as 'plant*:hub*'",
        formerly="could_wire",
        metavar="LEFT:RIGHT",
    )
    keep: tuple[str, ...] = option((), "what stays: CLIENT, broker:NAME or link:LEFT:RIGHT, by name or pattern")
    only: tuple[str, ...] = option((), "what may change, named as for --keep; of a kind that is not named: all")
    max_diameter: int | None = option(
        None, "meshes: maximum links on a path between two subscribers of a topic", least=2
    )
    survive: int = option(0, "meshes: clients that may fail at once with every topic still connected", least=0, most=8)


@dataclass(frozen=True)
class Split(Given):
    """Where a log is cut: what comes before is the training window, the rest is held out."""

    train: float = option(0.7, "share of the log used for planning; the rest is held out", above=0, most=1)
    train_until: str | None = option(
        None,
        "end of the training window, such as 2026-11-16T08:00 (UTC unless it names a zone); in place of --train",
        metavar="TIME",
    )
    EITHER: ClassVar[frozenset[str]] = frozenset({"train", "train_until"})

    def __post_init__(self) -> None:
        if self.given >= self.EITHER:
            raise BadParameter("train and train_until both say where the log is cut: give one of them")
        check_options(self)


@dataclass(frozen=True)
class Goal(Split):
    """What a plan is for, and how long to search for it."""

    objective: Objective = option("cost", "what to lower")
    forecast: Literal["chosen", "plain"] = option(
        "chosen", "what to plan for: the traffic to come, as chosen in the training window, or its plain sums"
    )
    delays: str | None = option(
        None,
        "trees per channel: milliseconds between clients, a matrix or rows of from,to,delay_ms (default: from the "
        "latencies of links)",
        metavar="FILE",
    )
    effort: int = option(100, "how long to anneal after the first search; 0: quickest", least=0)
    seed: int = option(0, "same seed, same result", least=0)


def as_flag(name: str) -> str:
    """An option as it is typed."""
    return "--" + name.replace("_", "-")


def as_document(*options: Limits | Goal) -> dict[str, Any]:
    """Options as plain JSON values, in one mapping."""
    values = {name: value for each in options for name, value in dataclasses.asdict(each).items()}
    return {name: list(value) if isinstance(value, tuple) else value for name, value in values.items()}


def rename_old(kinds: Iterable[type[Any]], document: Mapping[str, Any]) -> tuple[dict[str, Any], list[str]]:
    """(the options under their present names, a note on each old one)."""
    every = [each for kind in kinds for each in dataclasses.fields(kind)]
    renamed = {each.metadata["formerly"]: each.name for each in every if "formerly" in each.metadata}
    notes, found = [], {}
    for key, value in document.items():
        name = renamed.get(key, key)
        if name != key:
            old, new = as_flag(key), as_flag(name)
            notes.append(f"{old} ({key} in overlace.toml) is called {new} now; the old name goes with the next release")
        if name in found:
            raise BadParameter(f"{as_flag(key)} and {as_flag(name)} are the same option: give one of them")
        found[name] = value
    return found, notes


def make_options(kinds: Iterable[type[Made]], document: Mapping[str, Any], where: str = "options") -> list[Made]:
    """An instance of each class from a flat mapping of options; unknown keys are refused."""
    owner = {each.name: kind for kind in kinds for each in dataclasses.fields(kind)}  # type: ignore[arg-type]
    unknown = [key for key in document if key not in owner]
    if unknown:
        raise Unknown(f"key in {where}", unknown[0], owner)
    values = {name: tuple(value) if isinstance(value, list) else value for name, value in document.items()}
    return [
        kind(**{name: value for name, value in values.items() if owner[name] is kind})
        for kind in dict.fromkeys(owner.values())
    ]
