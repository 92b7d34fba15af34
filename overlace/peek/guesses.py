"""What a strange file could be: which of its columns are the fields of a log, or which table of a trace it is.

A guess is a guess and says what it rests on: names, parts of names, and what columns hold. Times are told by their
form or size, or as numbers that never fall; two columns with many values in common are sender and receiver.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence

import numpy as np

from overlace.ingest.fields import mapping_of, match_columns, unit_of
from overlace.ingest.formats import padres_quotes
from overlace.peek.columns import Columns, could_be_names, is_nested, numbers_in, time_kind
from overlace.trace.tables import schema_of

TABLE_COLUMNS = (
    ("interests", {"client", "topic"}),
    ("links", {"left", "right"}),
    ("sessions", {"client", "broker"}),
    ("subscriptions", {"client", "topic"}),
    ("subscriptions", {"client", "filter"}),
    ("advertisements", {"client", "attributes"}),
    ("brokers", {"broker"}),
    ("access", {"region", "broker"}),
    ("clients", {"client"}),
    ("channels", {"combination", "channel"}),
    ("peers", {"left", "right"}),
)
"""Columns that tell a table, the tables that people have first."""


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


def guess_fields(form: str, columns: Columns) -> dict[str, tuple[str, str]]:
    """Column -> (field, why); of publications, whose attributes are called as they like, the time and the client."""
    found = guess_log(columns)
    if form != padres_quotes.FORMAT.name:
        return found
    times = {name: each for name, each in found.items() if each[0] == "at"}
    who = padres_quotes.guess_client([name for name in columns.names if name not in times])
    content = dict.fromkeys(columns.names, ("content", ""))
    return {**content, **times, who: ("client", "stands for a publisher, as publications name none")}


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
    return bool(columns.known[name]) and not is_nested(columns, name)


def _guess_time(columns: Columns, found: Mapping[str, tuple[str, str]]) -> dict[str, tuple[str, str]]:
    """The column that holds times: by their form, by their size, or as numbers that never fall."""
    free = [name for name in columns.names if name not in found and not is_nested(columns, name)]
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


def tables_by_names(names: Sequence[str]) -> list[str]:
    """The tables that have all of these columns, likeliest first."""
    own = {name.strip().lower() for name in names}
    return [
        table
        for table, needed in TABLE_COLUMNS
        if needed <= own <= (needed if table == "interests" else set(schema_of(table).names))
    ]


def guess_pairs(columns: Columns) -> tuple[str, str] | None:
    """Two columns that could be a relation: the first two of names."""
    free = [
        name
        for name in columns.names
        if could_be_names(columns, name) and not time_kind(columns, name).startswith("ISO")
    ]
    return (free[0], free[1]) if len(free) > 1 else None


def guess_cost(columns: Columns, ends: tuple[str, str]) -> str:
    """A column that holds what links cost."""
    for name in columns.names:
        numbers = numbers_in(columns.known[name])
        priced = re.search(r"cost|weight|price|distance|length|metric|delay", name.lower()) or name.isdecimal()
        if name not in ends and priced and numbers and len(numbers) == len(columns.values[name]) and min(numbers) >= 0:
            return name
    return ""
