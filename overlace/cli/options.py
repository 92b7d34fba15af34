"""A planner's fields as command-line options, and what people type back into a planner.

Every field of a planner is an option; its help is the field's metadata. A field that holds ids
(`metadata={"ids": "client"}`) takes names and patterns instead: `--keep 'plant-*' --keep hub1`.
"""

from __future__ import annotations

import dataclasses
import inspect
import types
from collections.abc import Callable, Mapping, Sequence
from fnmatch import fnmatchcase
from typing import Annotated, Any, Union, get_args, get_origin, get_type_hints

import typer

from overlace.errors import BadParameter, Unknown
from overlace.model import Names, Planner, name_of

UNLIMITED = "unlimited"


def parameters_of(planner: type[Planner]) -> list[inspect.Parameter]:
    """One keyword parameter a field, annotated for typer."""
    hints = get_type_hints(planner)
    found = []
    for field in dataclasses.fields(planner):  # type: ignore[arg-type]
        default: Any = getattr(planner(), field.name)
        kind, optional = _without_none(hints[field.name])
        many = get_origin(kind) is tuple
        text = field.metadata.get("help", "")
        if many:
            what = field.metadata.get("ids")
            kind, default = list[str], [str(value) for value in default] or None
            kind = kind if default else list[str] | None
            text += f" ({what}s by name, pattern or id; may be given several times)" if what else " (several times)"
        elif optional:
            text += " (or: unlimited)"
        flag = "--" + field.name.replace("_", "-")
        names = [f"{flag}/--no-{flag[2:]}"] if kind is bool else [flag]
        parser = _or_unlimited(kind) if optional and not many else None
        metavar = f"{kind.__name__}|{UNLIMITED}" if parser else None
        option = typer.Option(*names, help=text, show_default=default is not None, parser=parser, metavar=metavar)
        kind = Any if parser else kind
        found.append(
            inspect.Parameter(
                field.name,
                inspect.Parameter.KEYWORD_ONLY,
                default=default,
                annotation=Annotated[kind, option],
            )
        )
    return found


def _without_none(hint: Any) -> tuple[Any, bool]:
    """(type, optional): a type without its None."""
    if get_origin(hint) in (Union, types.UnionType):
        rest = [each for each in get_args(hint) if each is not type(None)]
        return rest[0], len(rest) < len(get_args(hint))
    return hint, False


def _or_unlimited(kind: Any) -> Callable[[str], Any]:
    """What people type for a field that may be unlimited."""

    def parse(text: str) -> Any:
        if text == UNLIMITED:
            return text
        try:
            return kind(text)
        except ValueError:
            raise typer.BadParameter(f"{text!r}: expected {kind.__name__} or {UNLIMITED}") from None

    return parse


def make_planner(planner: type[Planner], given: Mapping[str, Any], names: Names, counts: Mapping[str, int]) -> Planner:
    """The planner with these options; names and patterns become ids."""
    hints = get_type_hints(planner)
    values = {}
    for field in dataclasses.fields(planner):  # type: ignore[arg-type]
        if field.name not in given:
            continue
        value = given[field.name]
        hint, _ = _without_none(hints[field.name])
        if value == UNLIMITED:
            value = None
        elif get_origin(hint) is tuple and value is not None:
            kind = field.metadata.get("ids")
            value = ids_of(kind, value, names, counts) if kind else _plain(hint, value)
        elif get_origin(hint) is tuple:
            value = getattr(planner(), field.name)
        values[field.name] = value
    return planner(**values)


def ids_of(kind: str, wanted: Sequence[str], names: Names, counts: Mapping[str, int]) -> tuple[int, ...]:
    """The ids that names, patterns (`plant-*`) or plain ids stand for, ascending."""
    known = [name_of(kind, i, names) for i in range(counts.get(kind, len(names.get(kind, ()))))]
    place = {name: i for i, name in enumerate(known)}
    found: set[int] = set()
    for each in wanted:
        if each in place:
            found.add(place[each])
        elif each.isdigit() and int(each) < len(known):
            found.add(int(each))
        else:
            matches = [i for i, name in enumerate(known) if fnmatchcase(name, each)]
            if not matches:
                raise Unknown(kind, each, known)
            found.update(matches)
    return tuple(sorted(found))


def _plain(hint: Any, values: Sequence[str]) -> tuple[Any, ...]:
    element = get_args(hint)[0]
    try:
        return tuple(element(value) for value in values)
    except ValueError:
        raise BadParameter(f"expected {element.__name__}s, found {' '.join(values)}") from None


def type_name(hint: Any) -> str:
    """A field's type as people write it."""
    if get_origin(hint) in (Union, types.UnionType):
        return " | ".join(type_name(each) for each in get_args(hint) if each is not type(None)) + " | unlimited"
    if get_origin(hint) is tuple:
        return f"{get_args(hint)[0].__name__}s"
    if get_args(hint):
        return " | ".join(map(str, get_args(hint)))
    return str(hint.__name__)
