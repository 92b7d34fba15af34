"""The values that constraints on one attribute allow, in a form that can be compared.

A conjunction on one attribute allows:

- a `Range` of numbers, from `low` to `high` with both ends, but for some holes. There is a next float64 after every
  one, so `<` and `>` are closed ranges too, and a hole at an end moves the end.
- `Flags`, some of false and true.
- `Texts`, from `low` up to but not including `high`, with a suffix, with parts, but for some holes. The next text after
  any is that text and a zero character, so `=`, `<=`, `>` and prefix are all such spans.
- `Anything`, by `exists` alone.

Keeps: which values a set allows is exact, and so is whether there are any. `includes` never says yes wrongly, and it
is a preorder. It says yes whenever that is true, but for texts that are compared by `<`, `<=`, `>` or `>=`: there it
compares spans, suffixes and parts one by one, and does not see what only follows from several of them together.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from typing import NamedTuple, TypeAlias, cast

from overlace.matching.content.constraints import Constraint, Filter, Value

LAST = "\U0010ffff"
"""The last character that a text can have."""


class Anything(NamedTuple):
    """An attribute of any type and value."""


class Range(NamedTuple):
    """Numbers from low to high, both among them and neither a hole; none if low is above high."""

    low: float
    high: float
    holes: frozenset[float] = frozenset()


class Flags(NamedTuple):
    """Some of false and true."""

    allowed: frozenset[bool]


class Texts(NamedTuple):
    """Texts from low up to, not including, high (None: no end) that have this suffix and these parts."""

    low: str
    high: str | None
    suffix: str = ""
    parts: frozenset[str] = frozenset()
    holes: frozenset[str] = frozenset()


class Choice(NamedTuple):
    """Finitely many texts; perhaps none."""

    texts: frozenset[str]


Allowed: TypeAlias = Anything | Range | Flags | Texts | Choice

NOTHING = Choice(frozenset())


def allowed_values(filter: Filter) -> dict[str, Allowed]:
    """The values that a filter allows of each attribute that it names."""
    grouped: dict[str, list[Constraint]] = {}
    for each in filter:
        if each.attribute in grouped:
            grouped[each.attribute].append(each)
        else:
            grouped[each.attribute] = [each]
    return {name: allow(constraints) for name, constraints in grouped.items()}


def allow(constraints: Sequence[Constraint]) -> Allowed:
    """The values that hold for all of some constraints on one attribute."""
    kind = constraints[0].type
    for each in constraints:
        if each.type != kind:
            typed = [each for each in constraints if each.type != "any"]
            return allow(typed) if len(typed) < len(constraints) else NOTHING  # a value has one type
    if kind == "number":
        return _range(constraints)
    if kind == "text":
        return _texts(constraints)
    return _flags(constraints) if kind == "flag" else Anything()


def is_empty(allowed: Allowed) -> bool:
    """Whether no value is allowed."""
    if isinstance(allowed, Range):
        return not allowed.low <= allowed.high
    if isinstance(allowed, Flags | Choice):
        return not allowed[0]
    return False  # a span that is not finite has texts with any suffix, parts and holes


def has(allowed: Allowed, value: Value) -> bool:
    """Whether a value is allowed."""
    match allowed:
        case Anything():
            return True
        case Range():
            number = isinstance(value, float | int) and not isinstance(value, bool)
            return number and allowed.low <= float(value) <= allowed.high and float(value) not in allowed.holes
        case Flags():
            return isinstance(value, bool) and value in allowed.allowed
        case Choice():
            return isinstance(value, str) and value in allowed.texts
    return isinstance(value, str) and _in_texts(allowed, value) and value not in allowed.holes


def includes(wide: Allowed, narrow: Allowed) -> bool:
    """Whether wide allows whatever narrow does. See the module for where it may miss that."""
    if isinstance(wide, Anything) or is_empty(narrow):
        return True
    match wide, narrow:
        case Range(), Range():
            inside = {hole for hole in wide.holes if narrow.low <= hole <= narrow.high}
            return wide.low <= narrow.low and narrow.high <= wide.high and inside <= narrow.holes
        case Flags(), Flags():
            return narrow.allowed <= wide.allowed
        case ((Texts() | Choice()), Choice()):
            return all(has(wide, text) for text in narrow.texts)
        case Texts(), Texts():
            return _includes_texts(wide, narrow)
    return False


def _range(constraints: Iterable[Constraint]) -> Range:
    low, high, holes = -math.inf, math.inf, set()
    for each in constraints:
        operator, value = each.operator, cast(float, each.value)
        if operator == ">=":
            low = value if value > low else low
        elif operator == "<=":
            high = value if value < high else high
        elif operator == "=":
            low, high = max(low, value), min(high, value)
        elif operator == ">":
            low = max(low, math.nextafter(value, math.inf))
        elif operator == "<":
            high = min(high, math.nextafter(value, -math.inf))
        else:
            holes.add(value)
    if not holes:
        return Range(low, high)
    while low in holes and low <= high:
        low = math.nextafter(low, math.inf)
    while high in holes and low <= high:
        high = math.nextafter(high, -math.inf)
    return Range(low, high, frozenset(hole for hole in holes if low < hole < high))


def _flags(constraints: Iterable[Constraint]) -> Flags:
    allowed = {False, True}
    for each in constraints:
        allowed &= {bool(each.value) == (each.operator == "=")}
    return Flags(frozenset(allowed))


def _texts(constraints: Sequence[Constraint]) -> Allowed:
    if len(constraints) == 1 and constraints[0].operator == "=":
        return Choice(frozenset((str(constraints[0].value),)))
    low, high, suffix, parts, holes = "", None, "", set(), set()
    for each in constraints:
        text = str(each.value)
        match each.operator:
            case "!=":
                holes.add(text)
            case "suffix":
                if not (text.endswith(suffix) or suffix.endswith(text)):
                    return NOTHING
                suffix = max(suffix, text, key=len)
            case "contains":
                parts.add(text)
            case operator:
                begin, end = _span(operator, text)
                low, high = max(low, begin), end if high is None else high if end is None else min(high, end)
    spanned = Texts(low, high, suffix, frozenset(parts), frozenset(holes))
    if high is not None and (high <= low or not high.removeprefix(low).strip("\0")):
        count = len(high) - len(low) if high > low else 0
        texts = (low + "\0" * zeros for zeros in range(count))
        return Choice(frozenset(text for text in texts if has(spanned, text)))
    return spanned


def _span(operator: str, text: str) -> tuple[str, str | None]:
    """(low, high) of the texts for which an operator holds: low is the first, high the first after them."""
    match operator:
        case "=":
            return text, text + "\0"
        case "<":
            return "", text
        case "<=":
            return "", text + "\0"
        case ">":
            return text + "\0", None
        case "prefix":
            return text, _after_prefix(text)
    return text, None


def _after_prefix(prefix: str) -> str | None:
    """The first text that is after all those with a prefix; None if there is none."""
    stem = prefix.rstrip(LAST)
    if not stem:
        return None
    following = ord(stem[-1]) + 1
    return stem[:-1] + chr(0xE000 if following == 0xD800 else following)  # no text has a surrogate


def common_prefix(low: str, high: str | None) -> str:
    """The longest prefix that all texts from low up to high have, where these are infinitely many."""
    length = len(low)
    while length and not _ends_before(high, _after_prefix(low[:length])):
        length -= 1
    return low[:length]


def _ends_before(high: str | None, other: str | None) -> bool:
    return other is None or (high is not None and high <= other)


def _in_texts(allowed: Texts, text: str) -> bool:
    """Whether a text lies in the span and has the suffix and parts."""
    return (
        allowed.low <= text
        and (allowed.high is None or text < allowed.high)
        and text.endswith(allowed.suffix)
        and all(part in text for part in allowed.parts)
    )


def _includes_texts(wide: Texts, narrow: Texts) -> bool:
    found = (common_prefix(narrow.low, narrow.high), narrow.suffix, *narrow.parts)
    return (
        wide.low <= narrow.low
        and _ends_before(narrow.high, wide.high)
        and narrow.suffix.endswith(wide.suffix)
        and all(any(part in each for each in found) for part in wide.parts)
        and all(hole in narrow.holes or not _in_texts(narrow, hole) for hole in wide.holes)
    )
