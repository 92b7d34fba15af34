"""Plain readers, a row at a time, with Python's json and csv: slow, and obviously right.

A row is `Ignored(reason)`, `Bad(reasons)` with everything that is wrong with it, or `Kept`. They are told what was
settled for the source (columns, delimiter, unit, what was asked for) and find out the rest on their own.
"""

import csv as csv_module
import json
import re
from collections.abc import Iterator, Mapping
from datetime import UTC, datetime, timedelta
from decimal import Decimal
from typing import Any, NamedTuple

from overlace.ingest.fields import COMMON

csv_module.field_size_limit(1 << 30)
EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
MICRO = timedelta(microseconds=1)
NUMBER = re.compile(r"([+-]?(?:[0-9]+\.?[0-9]*|\.[0-9]+))(?:[eE]([+-]?[0-9]+))?")
ISO = re.compile(
    r"([0-9]{4})-([0-9]{2})-([0-9]{2})"
    r"(?:[Tt ]([0-9]{2}):([0-9]{2})(?::([0-9]{2})(?:[.,:]([0-9]{1,9}))?)?(?: ?([Zz]|[+-][0-9]{2}(?::?[0-9]{2})?))?)?"
)
DAY = re.compile(r"([0-9]{1,2})-([A-Za-z]{3})-([0-9]{2}|[0-9]{4})")
MONTHS = "jan feb mar apr may jun jul aug sep oct nov dec".split()
UNITS = {"s": 0, "ms": 3, "us": 6, "ns": 9}
DEEPEST = 64
HALF = re.compile("[\ud800-\udfff]")
FOLD = {upper: upper + 32 for upper in range(65, 91)}


class Ignored(NamedTuple):
    reason: str


class Bad(NamedTuple):
    reasons: frozenset[str]


class Kept(NamedTuple):
    at: int
    client: str
    broker: str | None
    topic: str | None
    key: str | None
    bytes: int | None
    weight: int | None
    receivers: frozenset[str] | None
    attributes: frozenset[str] | None


Row = Ignored | Bad | Kept


class Number(str):
    """A number as it is written."""


class Object(list[tuple[str, Any]]):
    """An object's members, as they come."""


def rows(log: bytes, read: Any, settled: Mapping[str, Any], head: str | None = None) -> Iterator[tuple[int, Row]]:
    """(offset, row) of every line of a file."""
    offset = 0
    for whole in log.split(b"\n")[: None if log and not log.endswith(b"\n") else -1]:
        line = whole.removeprefix(b"\xef\xbb\xbf") if offset == 0 else whole
        yield offset, _line(line.rstrip(b"\r"), read, settled, head)
        offset += len(whole) + 1


def _line(line: bytes, read: Any, settled: Mapping[str, Any], head: str | None) -> Row:
    if head is not None and line == head.encode():
        return Ignored("header")
    wrong = {"carriage return inside the line"} if b"\r" in line else set()
    wrong |= {"NUL byte inside the line"} if b"\0" in line else set()
    try:
        text = line.decode()
    except UnicodeDecodeError:
        wrong.add("not UTF-8")
    if wrong:
        return Bad(frozenset(wrong))
    return read(text, settled) if text.strip(" \t") else Ignored("blank")


# --- formats -------------------------------------------------------------------------------------------


def jsonl(text: str, settled: Mapping[str, Any]) -> Row:
    """One object a line; of the names of a field the best that has a value counts."""
    try:
        found = json.loads(text, object_pairs_hook=Object, parse_int=Number, parse_float=Number, parse_constant=_none)
    except ValueError:
        return Bad(frozenset(["not one JSON object"]))
    except RecursionError:
        return Bad(frozenset([f"nested deeper than {DEEPEST} levels"]))
    if not isinstance(found, Object):
        return Bad(frozenset(["not one JSON object"]))
    if any(_depth(value) > DEEPEST for _, value in found):
        return Bad(frozenset([f"nested deeper than {DEEPEST} levels"]))
    wrong, best = set(), {}
    for name, value in dict(found).items():  # of two values for one name the last
        field, rank = _place(name, settled["map"], name.translate(FOLD))
        if field is None or value is None or (field == "key" not in settled["map"] and isinstance(value, Object)):
            continue
        if isinstance(value, str) and HALF.search(value):
            wrong.add("not Unicode: half of a surrogate pair")
        best[field] = min(best.get(field, ((2,), None)), ((value == "", rank, name), value), key=lambda each: each[0])
    if wrong:
        return Bad(frozenset(wrong))
    return _row({field: value for field, (_, value) in best.items()}, settled)


def csv(text: str, settled: Mapping[str, Any], largest: int = 2**31 - 1) -> Row:
    """One row a line; of the columns of a field the best that is not empty counts, the left of two alike."""
    try:
        cells = next(csv_module.reader([text], delimiter=settled["delimiter"], strict=True))
    except csv_module.Error as error:
        return Bad(
            frozenset(
                ["text after a closing quote" if "expected after" in str(error) else "a quote that is not closed"]
            )
        )
    columns = settled["columns"]
    if len(cells) != len(columns):
        return Bad(frozenset([f"not {len(columns)} columns"]))
    values: dict[str, tuple[Any, str]] = {}
    for name, cell in zip(columns, cells, strict=True):
        field, rank = _place(name, settled["map"], name.strip().lower())
        if field is not None and cell and (field not in values or rank < values[field][0]):
            values[field] = (rank, cell)
    return _row({field: cell for field, (_, cell) in values.items()}, settled, largest)


def counts(text: str, settled: Mapping[str, Any]) -> Row:
    """CSV with larger numbers; `settled` already says which column stands for the client."""
    return csv(text, settled, 2**53)


# --- values --------------------------------------------------------------------------------------------


def _none(word: str) -> Any:
    raise ValueError(word)


def _depth(value: Any) -> int:
    level, depth = [value], 0
    while level := [each for each in level if isinstance(each, list)]:
        depth += 1
        level = [each for held in level for each in ([v for _, v in held] if isinstance(held, Object) else held)]
    return depth


def _place(name: str, asked: Mapping[str, tuple[str, ...]], folded: str) -> tuple[str | None, tuple[int, bool]]:
    """The field that a column or member is of, and how good a name it is."""
    for field, names in asked.items():
        if name in names:
            return field, (names.index(name), False)
    for field, names in COMMON.items():
        if field not in asked and folded in names:
            return field, (names.index(folded), name != folded)
    return None, (0, False)


def _row(values: Mapping[str, Any], settled: Mapping[str, Any], largest: int = 2**31 - 1) -> Row:
    mapping, wrong = settled["mapping"], set()

    def read(field: str, function: Any, *more: Any) -> Any:
        called = mapping[field][0] if len(mapping.get(field, ())) == 1 else field
        try:
            return function(values.get(field), *more)
        except ValueError as error:
            missing = {"at": "no time", "client": "no client"}[field] if str(error) == "empty" else ""
            wrong.add(missing if missing and field not in mapping else f"{called}: {error}")
            return None

    separator = settled.get("list_separator")
    many = read("receivers", _list, separator, ",;| \t")
    one = read("receiver", _list, separator, ",;|")
    if one == frozenset() and not isinstance(values["receiver"], list):
        one = None
    row = Kept(
        read("at", _time, settled.get("unit") or "s"), read("client", _client), read("broker", _name),
        read("topic", _name), read("key", _name), read("bytes", _whole, largest), read("weight", _whole, largest),
        one if many is None else many, read("attributes", _list, separator, ",;| \t"),
    )  # fmt: skip
    return Bad(frozenset(wrong)) if wrong else row


def _name(value: Any) -> str | None:
    if value is None:
        return None
    if not isinstance(value, str):
        raise ValueError("neither text nor a number")
    return _short(value) or None


def _short(value: str) -> str:
    """7.0 names what 7 names."""
    return re.sub(r"^(-?[0-9]+)\.0+$", r"\1", value) if isinstance(value, Number) else str(value)


def _client(value: Any) -> str:
    name = _name(value)
    if name is None:
        raise ValueError("empty")
    return name


def _list(value: Any, separator: str | None, suspects: str) -> frozenset[str] | None:
    if value is None:
        return None
    if isinstance(value, str):
        if separator not in (None, "none"):
            parts = (part.strip(" \t") for part in value.split(separator))
            return frozenset(_short(type(value)(part)) for part in parts if part)
        if separator is None and set(value.strip(" \t")) & set(suspects):
            raise ValueError("looks like a list; name its separator with --list-separator, or 'none' if it is one name")
        return frozenset([_short(value)] if value.strip(" \t") else [])
    if not isinstance(value, list) or isinstance(value, Object):
        raise ValueError("neither text nor a number")
    if any(isinstance(each, str) and HALF.search(each) for each in value):
        raise ValueError("not Unicode")
    if not all(each is None or isinstance(each, str) for each in value):
        raise ValueError("a list that holds more than names")
    return frozenset(_short(each) for each in value if each)


def _number(text: str, shift: int = 0) -> Decimal | None:
    """The number times 10**shift, with all its digits."""
    found = NUMBER.fullmatch(text)
    if found is None:
        return None
    sign, digits, exponent = Decimal(found[1]).as_tuple()
    power = int((found[2] or "").lstrip("+-").lstrip("0")[:8] or 0)
    power = -power if (found[2] or "").startswith("-") else power
    return Decimal((sign, digits, exponent + power + shift))


def _time(value: Any, unit: str) -> int:
    text = value.strip(" \t") if isinstance(value, str) else value
    if text is None or text == "":
        raise ValueError("empty")
    if not isinstance(text, str):
        raise ValueError("not a time")
    number = _number(text, 6 - UNITS[unit])
    micro = _iso(text) if number is None else int(number) if _near(number) else 0 if number.adjusted() < 0 else 10**30
    if not -2_208_988_800_000_000 <= micro < 7_258_118_400_000_000:
        raise ValueError("a time before 1900 or after 2199")
    return micro


def _near(number: Decimal) -> bool:
    return not number or -30 < number.adjusted() < 30


def _iso(text: str) -> int:
    day = DAY.fullmatch(text)
    if day is not None and day[2].lower() in MONTHS:
        year = day[3] if len(day[3]) == 4 else f"{19 if int(day[3]) >= 69 else 20}{day[3]}"
        text = f"{year}-{MONTHS.index(day[2].lower()) + 1:02}-{int(day[1]):02}"
    found = ISO.fullmatch(text)
    if found is None:
        raise ValueError("not a time")
    year, month, day, hour, minute, second = (int(each or 0) for each in found.groups()[:6])
    micro = int((found[7] or "").ljust(6, "0")[:6])
    zone = found[8] or "Z"
    east = 0 if zone in "Zz" else int(zone[1:3]) * 60 + int(zone[3:].lstrip(":") or 0)
    if east and (int(zone[1:3]) > 23 or int(zone[3:].lstrip(":") or 0) > 59):
        raise ValueError("not a time")
    try:  # the calendar repeats after 400 years; datetime has no year 0
        at = datetime(year or 400, month, day, hour, minute, second, micro, tzinfo=UTC)
    except ValueError:
        raise ValueError("not a time") from None
    shift = timedelta(days=0 if year else 146_097, minutes=-east if zone[0] == "-" else east)
    return (at - EPOCH) // MICRO - shift // MICRO


def _whole(value: Any, largest: int) -> int | None:
    text = value.strip(" \t") if isinstance(value, str) else value
    if text is None or text == "":
        return None
    number = _number(text) if isinstance(text, str) else None
    if number is None or number < 0:
        raise ValueError("not a whole number of 0 or more")
    if not _near(number) and number.adjusted() > 0:
        raise ValueError(f"above {largest:,}")
    if not _near(number) or int(number) != number:
        raise ValueError("not a whole number of 0 or more")
    if number > largest:
        raise ValueError(f"above {largest:,}")
    return int(number)
