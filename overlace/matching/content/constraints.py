"""Constraints on typed attributes, and filters: conjunctions of them (PART10 §2.1).

A value is a text, a number or a flag. A constraint has the type of its value and holds only for attributes of that
type; `exists` alone holds for any. Texts are compared by their code points, numbers as float64.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Literal, TypeAlias

import numpy as np

from overlace.errors import BadFilter

Value: TypeAlias = str | float | bool
Type = Literal["text", "number", "flag", "any"]
Operator = Literal["=", "!=", "<", "<=", ">", ">=", "prefix", "suffix", "contains", "exists"]
Message: TypeAlias = Mapping[str, Value | int | None]
"""Attributes by name. None and not-a-number mean that the attribute is absent."""

ORDER: tuple[Operator, ...] = ("<", "<=", ">", ">=")
PARTS: tuple[Operator, ...] = ("prefix", "suffix", "contains")
OPERATORS: dict[Type, tuple[Operator, ...]] = {
    "text": ("=", "!=", *ORDER, *PARTS),
    "number": ("=", "!=", *ORDER),
    "flag": ("=", "!="),
    "any": ("exists",),
}
"""Which operators a constraint of each type may have."""


@dataclass(frozen=True)
class Constraint:
    """A condition on one attribute. `exists` has no value."""

    attribute: str
    operator: Operator
    value: Value | None = None
    type: Type = field(init=False, repr=False)  # so that = 1 and = true differ

    def __post_init__(self) -> None:
        if not self.attribute:
            raise BadFilter("a constraint names no attribute: write one before its operator")
        value = _plain(self.value, self.attribute)
        object.__setattr__(self, "value", value)
        kind: Type = "any" if value is None else type_of(value)
        object.__setattr__(self, "type", kind)
        if self.operator in OPERATORS[kind]:
            return
        if self.operator not in {each for some in OPERATORS.values() for each in some}:
            raise BadFilter(f"{self.attribute}: found operator {self.operator!r}, expected one of {_listed()}")
        if value is None:
            raise BadFilter(f"{self.attribute} {self.operator}: found no value, expected one after the operator")
        if self.operator == "exists":
            raise BadFilter(f"{self.attribute} exists: found the value {value!r}, expected none")
        known = " ".join(OPERATORS[kind])
        raise BadFilter(f"{self.attribute} {self.operator} {value!r}: a {kind} can be compared by {known} only")


Filter: TypeAlias = tuple[Constraint, ...]
"""A conjunction: all of its constraints must hold. The empty one matches every message."""


def type_of(value: Value) -> Type:
    """The type that a value has."""
    if isinstance(value, bool):
        return "flag"
    return "text" if isinstance(value, str) else "number"


def present(message: Message) -> dict[str, Value]:
    """The attributes that a message has."""
    values = {name: value if isinstance(value, str | bool) else _number(value) for name, value in message.items()}
    return {name: value for name, value in values.items() if value is not None}


def holds(value: Value, constraint: Constraint) -> bool:
    """Whether an attribute with this value and the constraint's name matches the constraint."""
    if constraint.operator == "exists":
        return True
    return type_of(value) == constraint.type and _compare(value, constraint.operator, constraint.value)


def _compare(value: Value, operator: Operator, bound: Value | None) -> bool:
    if isinstance(value, str) and isinstance(bound, str) and operator in PARTS:
        return bound in value if operator == "contains" else _at_end(value, operator, bound)
    if operator in ("=", "!="):
        return (value == bound) == (operator == "=")
    if operator in ("<", "<="):
        return value < bound or (operator == "<=" and value == bound)  # type: ignore[operator]
    return value > bound or (operator == ">=" and value == bound)  # type: ignore[operator]


def _at_end(value: str, operator: Operator, bound: str) -> bool:
    return value.startswith(bound) if operator == "prefix" else value.endswith(bound)


def _plain(value: object, attribute: str) -> Value | None:
    """A constraint's value as Python has it: numbers as float."""
    if value is None:
        return None
    if isinstance(value, str):
        try:
            value.encode()
        except UnicodeEncodeError:
            raise BadFilter(f"{attribute}: found {value!r}, expected text that can be written as UTF-8") from None
        return str(value)
    if isinstance(value, bool | np.bool_):
        return bool(value)
    if isinstance(value, int | float | np.integer | np.floating):
        number = _number(value)
        if number is not None and math.isfinite(number):
            return number
    raise BadFilter(f"{attribute}: found the value {value!r}, expected text, a finite number, true or false")


def _number(value: object) -> float | None:
    """A number as float64, zero without a sign; nothing for what is absent."""
    if value is None:
        return None
    if isinstance(value, np.bool_):
        return bool(value)
    try:
        number = float(value) + 0.0  # type: ignore[arg-type]
    except OverflowError:
        number = math.inf if value > 0 else -math.inf  # type: ignore[operator]
    return None if math.isnan(number) else number


def _listed() -> str:
    return " ".join(dict.fromkeys(each for some in OPERATORS.values() for each in some))
