"""Which column of a strange table is what: by name, by a part of its name, and by what it holds.

A guess is a guess and says what it rests on. Times are told by their form or size, or as numbers that never
fall; two columns with many values in common are sender and receiver.
"""

from __future__ import annotations

import math
import re
from collections.abc import Mapping, Sequence
from typing import NamedTuple

import numpy as np
import pyarrow as pa

from overlace.ingest.cells import times
from overlace.ingest.fields import UNIT_WORDS, ZONELESS, mapping_of, match_columns, unit_of

Cells = Sequence[Sequence[str | None]]
"""Rows of a sample, as text; an empty cell is None."""

NAMED = "by name"
SHARED = 0.2
"""Share of the values of the smaller column from which two columns hold the same kind of names."""

STRONG: Mapping[str, tuple[str, ...]] = {
    "at": ("time", "timestamp", "datetime", "when", "date", "epoch", "sent", "created", "logged", "ts"),
    "receiver": ("receiver", "recipient", "recipients", "to", "dst", "dest", "destination", "target", "subscriber",
                 "consumer", "callee", "rcpt"),
    "client": ("client", "sender", "from", "src", "source", "publisher", "producer", "author", "caller", "origin"),
    "topic": ("topic", "subject", "channel", "queue", "stream", "room", "genre", "category", "tag", "hashtag"),
    "bytes": ("bytes", "size", "length"),
    "broker": ("broker", "server", "gateway"),
}  # fmt: skip
WEAK: Mapping[str, tuple[str, ...]] = {
    "client": ("user", "username", "device", "member", "account", "person", "actor", "sensor", "uid", "who"),
    "topic": ("group", "item", "interest", "feed", "path", "list", "movie", "product", "page", "song", "artist"),
}
"""Words in the names of columns that say what they hold; the weak ones where no other column is it."""

OTHER_DATES = re.compile(
    r"(?<![\d.])\d{1,2}[./-]\d{1,2}[./-]\d{2,4}(?![\d.])|\d{1,2}[- /][A-Z][a-z]{2}[- /]\d{2,4}|"
    r"[A-Z][a-z]{2} +\d{1,2}\b.*\d:\d\d|\d\d:\d\d:\d\d"
)
"""Times as people write them, which no two read alike."""


class Guess(NamedTuple):
    """What a column of a file is taken for: nothing if it is not used."""

    column: str
    field: str
    sample: str
    why: str


class Columns:
    """The columns of a sample, by name."""

    def __init__(self, names: Sequence[str], cells: Cells) -> None:
        self.names = list(dict.fromkeys(names))
        place = {name: i for i, name in reversed(list(enumerate(names)))}
        self.values = {name: [row[place[name]] for row in cells if place[name] < len(row)] for name in self.names}
        self.known = {name: [each for each in values if each] for name, values in self.values.items()}
        self.sets = {name: set(values) for name, values in self.known.items()}
        self.parts = {
            name: {part.strip() for each in own for part in re.split("[;|,]", each)} - {""}
            for name, own in self.sets.items()
        }

    def shared(self, left: str, right: str) -> float:
        """The share of the values of the smaller column that the other has too; a cell may list several."""
        both = [(self.sets[left], self.sets[right]), (self.parts[left], self.parts[right])]
        return max(len(a & b) / min(len(a), len(b)) if min(len(a), len(b)) > 1 else 0.0 for a, b in both)

    def guesses(self, fields: Mapping[str, tuple[str, str]]) -> list[Guess]:
        """Each column with its (field, why)."""
        samples = {name: (self.known[name] or [""])[0] for name in self.names}
        return [Guess(name, *_field(fields.get(name), samples[name])) for name in self.names]


def _field(found: tuple[str, str] | None, sample: str) -> tuple[str, str, str]:
    field, why = found or ("", "")
    return field, sample, why


# --- logs ---------------------------------------------------------------------------------------------------


def guess_log(columns: Columns) -> dict[str, tuple[str, str]]:
    """Column -> (field, why) of a log: with at and client it can be one."""
    found: dict[str, tuple[str, str]] = {}
    for field, names in mapping_of(match_columns(columns.names, {})).items():
        found |= dict.fromkeys(names, (field, NAMED))
    for name in [name for name, (field, _) in found.items() if field == "at"]:
        if columns.known[name] and not time_kind(columns, name):
            del found[name]
    for words, why in ((STRONG, "by its name"), (WEAK, "perhaps, by its name")):
        for name in columns.names:
            field = _field_in(name, words)
            if name not in found and field and not _has(found, field) and _fits(columns, name, field):
                found[name] = (field, why)
    if not _has(found, "at"):
        found |= _guess_time(columns, found)
    return found | _guess_names(columns, found)


def _has(found: Mapping[str, tuple[str, str]], field: str) -> bool:
    several = ("receiver", "receivers") if field in ("receiver", "receivers") else (field,)
    return any(each in several for each, _ in found.values())


def _field_in(name: str, words: Mapping[str, tuple[str, ...]]) -> str:
    """The field that a word in the name of a column says; the first word that says one counts."""
    parts = re.findall(r"[A-Z]?[a-z]+|[A-Z]+|\d+", name)
    return next((field for part in parts for field, known in words.items() if part.lower() in known), "")


def _fits(columns: Columns, name: str, field: str) -> bool:
    if field == "at":
        return bool(time_kind(columns, name))
    if field == "bytes":
        return all(each.isdecimal() for each in columns.known[name])
    return bool(columns.known[name]) and not _nested(columns, name)


def _nested(columns: Columns, name: str) -> bool:
    return any(each.startswith(("{", "[")) for each in columns.known[name][:20])


def time_kind(columns: Columns, name: str) -> str:
    """What makes a column look like times; nothing if it does not."""
    values = columns.known[name][:500]
    if not values or np.mean(times(pa.array(values, pa.string()))[1]) < 0.5:
        return ""
    if sum("-" in each[1:] for each in values) > len(values) // 2:
        return "ISO times" + (", without a zone" if ZONELESS.match(values[0]) else "")
    unit = unit_of(values) or "s"
    return f"numbers, taken as {UNIT_WORDS[unit]} since 1970"


def _guess_time(columns: Columns, found: Mapping[str, tuple[str, str]]) -> dict[str, tuple[str, str]]:
    """The column that holds times: by their form, by their size, or as numbers that never fall."""
    free = [name for name in columns.names if name not in found and not _nested(columns, name)]
    for name in free:
        kind = time_kind(columns, name)
        if kind.startswith("ISO") or (kind and _of_our_days(columns.known[name])):
            return {name: ("at", kind)}
    others = [name for name in columns.names if name not in free or not _never_falls(columns.known[name])]
    for name in free:
        alone = all(columns.shared(name, other) < SHARED for other in others)
        if len(columns.names) > 2 and _never_falls(columns.known[name]) and alone:
            return {name: ("at", "numbers that never fall, taken as seconds")}
    return {}


def _of_our_days(values: Sequence[str]) -> bool:
    """Whether numbers are times from 1990 to 2100 in the unit that their size suggests."""
    size = {"s": 1.0, "ms": 1e3, "us": 1e6, "ns": 1e9}[unit_of(values) or "s"]
    seconds = sorted(numbers_in(values))
    return len(seconds) > len(values) // 2 and 6.3e8 < seconds[len(seconds) // 2] / size < 4.1e9


def numbers_in(values: Sequence[str]) -> list[float]:
    """Those that are finite numbers."""
    found = []
    for each in values:
        try:
            value = float(each)
        except ValueError:
            continue
        if math.isfinite(value):
            found.append(value)
    return found


def _never_falls(values: Sequence[str]) -> bool:
    """Whether they are numbers of 0 or more that grow, and not by one from row to row."""
    numbers = np.array(numbers_in(values))
    if len(numbers) < max(3, 0.98 * len(values)) or (numbers < 0).any():
        return False
    steps = np.diff(numbers)
    counts = (steps == 1).all()
    return bool((steps >= 0).mean() >= 0.98 and numbers[-1] - numbers[0] >= len(numbers) / 2 and not counts)


def _guess_names(columns: Columns, found: Mapping[str, tuple[str, str]]) -> dict[str, tuple[str, str]]:
    """Sender and receiver as columns with the same names in them, a topic, and the first column as sender."""
    added: dict[str, tuple[str, str]] = {}
    free = [name for name in columns.names if name not in found and could_be_names(columns, name)]
    free = [name for name in free if not _says_nothing(columns.known[name])]
    mine = next((name for name, (field, _) in found.items() if field == "client"), None)
    if not _has(found, "receiver"):
        pairs = (
            [(a, b) for i, a in enumerate(free) for b in free[i + 1 :]] if mine is None else [(mine, b) for b in free]
        )
        best = max(pairs, key=lambda pair: columns.shared(*pair), default=None)
        if best and columns.shared(*best) >= SHARED:
            why = f"{columns.shared(*best):.0%} of its values are also in {{}}"
            added |= {} if mine else {best[0]: ("client", why.format(best[1]))}
            added[best[1]] = ("receiver", why.format(best[0]))
    free = [name for name in free if name not in added]
    levels = [name for name in free if np.mean([bool(re.search(r"\w[/.]\w", v)) for v in columns.known[name]]) > 0.5]
    if not _has(found, "topic") and levels:
        added[levels[0]] = ("topic", "names with levels")
        free.remove(levels[0])
    if not _has({**found, **added}, "client") and free:
        added[free[0]] = ("client", "the first column of names")
        free = free[1:]
        repeats = [name for name in free if len(columns.sets[name]) < len(columns.known[name])]
        if not _has({**found, **added}, "topic") and not _has({**found, **added}, "receiver") and repeats:
            added[repeats[0]] = ("topic", "the next column of names that come again")
    return added


def _says_nothing(values: Sequence[str]) -> bool:
    """Whether a column holds one value only, or the numbers of rows."""
    numbers = numbers_in(values)
    counts = len(numbers) == len(values) and bool((np.diff(numbers) == 1).all())
    return len(values) > 3 and (counts or len(set(values)) == 1)


def could_be_names(columns: Columns, name: str) -> bool:
    """Whether a column could hold names: neither fractions, nor long texts, nor lists."""
    values = columns.known[name]
    long = sum(len(each) > 80 for each in values) > len(values) // 2
    fractions = sum(bool(re.fullmatch(r"-?\d*\.\d+", each)) for each in values) > len(values) // 2
    return len(values) * 2 > len(columns.values[name]) and not long and not fractions and not _nested(columns, name)


def unread_times(columns: Columns) -> str:
    """A column of times that are written as no reader here takes them."""
    for name in columns.names:
        values = columns.known[name][:100]
        dates = bool(values) and np.mean([bool(OTHER_DATES.search(each)) for each in values]) > 0.5
        if dates and not time_kind(columns, name):
            return name
    return ""


def clock_apart(columns: Columns) -> tuple[str, str] | None:
    """(date, time of day), where they stand in two columns."""
    days = [name for name in columns.names if _all_like(columns.known[name], r"\d{4}-\d\d-\d\d")]
    clocks = [name for name in columns.names if _all_like(columns.known[name], r"\d{1,2}:\d\d(:\d\d([.,]\d+)?)?Z?")]
    return (days[0], clocks[0]) if days and clocks else None


def _all_like(values: Sequence[str], pattern: str) -> bool:
    return bool(values) and all(re.fullmatch(pattern, each.strip()) for each in values)


def separator_in(columns: Columns, fields: Mapping[str, tuple[str, str]]) -> str:
    """What separates names in cells that hold several receivers; nothing where each holds one."""
    listed = [name for name, (field, _) in fields.items() if field.startswith("receiver")]
    cells = [each for name in listed for each in columns.known[name] if not each.startswith("[")]
    return next((mark for mark in ";|," if any(mark in each for each in cells)), "")


def looks_like_data(columns: Columns) -> bool:
    """Whether the names of the columns look like one more row: they come again below, and mean nothing."""
    fields = [_field_in(name, words) for name in columns.names for words in (STRONG, WEAK)]
    again = [name for name in columns.names if any(name in each for each in columns.sets.values())]
    return not any(fields) and bool(again)
