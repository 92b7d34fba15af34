"""Filters on content: what they match, which cover which, and what an advertisement promises (PART10 §2.1).

A notification is a set of typed attributes; here, a message. With n a message, f a filter that somebody subscribes to
and a one that a publisher advertises:

- `matches`: every constraint of f holds for an attribute of n. Several constraints on one attribute must all hold.
- `advertised`: for every attribute of n a constraint of a holds. Several on one attribute are alternatives.
- `intersects`: some message is advertised by a and matched by f. The thesis says that a covers f; it is no covering.
- `covers`: one filter matches whatever another does.

Keeps: `matches`, `advertised` and `intersects` are exact. `covers` never says yes wrongly, is a preorder, and misses
nothing but for texts that are compared by <, <=, > or >= (see `sets`). What nothing matches is covered by all.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from overlace.errors import BadFilter, Unknown
from overlace.matching.content.constraints import (
    Constraint,
    Filter,
    Message,
    Operator,
    Type,
    Value,
    holds,
    present,
    type_of,
)
from overlace.matching.content.sets import allow, allowed_values, includes, is_empty
from overlace.matching.content.syntax import format_constraint, format_filter, parse_filter

__all__ = [
    "Constraint", "Filter", "Message", "Operator", "Type", "Value", "advertised", "attributes_of", "check_types",
    "covers", "format_filter", "intersects", "is_satisfiable", "matches", "parse_filter", "type_of",
]  # fmt: skip


def matches(message: Message, filter: Filter) -> bool:
    """Whether every constraint of a filter holds for an attribute of a message."""
    attributes = present(message)
    return all(each.attribute in attributes and holds(attributes[each.attribute], each) for each in filter)


def advertised(message: Message, advertisement: Filter) -> bool:
    """Whether for every attribute of a message some constraint of an advertisement holds."""
    return all(
        any(each.attribute == name and holds(value, each) for each in advertisement)
        for name, value in present(message).items()
    )


def covers(wide: Filter, narrow: Filter) -> bool:
    """Whether wide matches whatever narrow does."""
    allowed = allowed_values(narrow)
    if any(map(is_empty, allowed.values())):
        return True
    return all(name in allowed and includes(each, allowed[name]) for name, each in allowed_values(wide).items())


def intersects(advertisement: Filter, filter: Filter) -> bool:
    """Whether some message is advertised and matches the filter.

    The least such message has the attributes of the filter and no others.
    """
    return all(
        any(each.attribute == name and not is_empty(allow([*wanted, each])) for each in advertisement)
        for name, wanted in _by_attribute(filter)
    )


def is_satisfiable(filter: Filter) -> bool:
    """Whether there is a message that a filter matches."""
    return not any(map(is_empty, allowed_values(filter).values()))


def attributes_of(filter: Filter) -> list[str]:
    """The attributes that a filter names, each once, in its order."""
    return list(dict.fromkeys(each.attribute for each in filter))


def check_types(filter: Filter, types: Mapping[str, Type]) -> None:
    """Refuse a filter that names an attribute that there is not, or with a value of another type than it has."""
    for each in filter:
        if each.attribute not in types:
            raise Unknown("attribute", each.attribute, types)
        expected = types[each.attribute]
        if each.type not in (expected, "any") and expected != "any":
            raise BadFilter(
                f"{format_constraint(each)}: found a {each.type}, but {each.attribute} is a {expected}. "
                f"Compare it with {_example(expected)}."
            )


def _by_attribute(filter: Filter) -> Iterator[tuple[str, list[Constraint]]]:
    for name in attributes_of(filter):
        yield name, [each for each in filter if each.attribute == name]


def _example(kind: Type) -> str:
    return {"text": "text in single quotes", "number": "a number", "flag": "true or false", "any": "anything"}[kind]
