"""JSON lines: one object a line, its members mapped to fields.

    {"at": "2026-01-05T08:00:00Z", "client": "plc2", "topic": "fab/4/temp", "bytes": 4, "receivers": ["hmi7"]}

A line is a message. With an `id` lines of one id are one message; without, each is its own. Lines whose members are
those of the first lines are decoded into just what is used; any other line is read on its own, more slowly, and gives
the same.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from functools import cache
from itertools import accumulate, chain
from operator import attrgetter
from typing import Any

import msgspec
import numpy as np
import pyarrow as pa

from overlace.arrays.jit import Bools
from overlace.errors import Unknown
from overlace.ingest.content import asked_types, settle_content, types_in
from overlace.ingest.events import Blocks, Format, Settled
from overlace.ingest.fields import COMMON, OPTIONS, FieldColumn, in_lower_case, match_columns, settle_mapping
from overlace.ingest.lines import Faults, TextLines, read_lines
from overlace.ingest.rows import HALF, Number, columns_of, read_parts
from overlace.ingest.where import filter_columns, select_rows, settle_kinds

AT_ONCE, LOOKED_AT, MOST = 1000, 2000, 200
"""Lines that are read at once (they and what they say fit into a processor's cache), lines that are looked at to settle
what holds for all, and members that are decoded at once."""

DEPTH = 64
"""Lists and objects inside one another, at most."""

NOT_UNICODE = "not Unicode: half of a surrogate pair"
NO_OBJECT, TOO_DEEP = "not one JSON object", f"nested deeper than {DEPTH} levels"
STRINGS = re.compile(rb'"(?:[^"\\]|\\.)*"')
PLAIN = re.compile(r"[^\x00-\x1f\"\\\ud800-\udfff]*")
"""Names of members that are written without escapes."""

Values = dict[str, list[Any]]


class Objects:
    """A reader of lines that are objects, into the values of fields and of content."""

    def __init__(self, asked: Mapping[str, Sequence[str]], content: Collection[str], names: Collection[str]) -> None:
        self.asked, self.content, self.names = asked, content, dict.fromkeys(names)
        self.paths = paths_among([*chain.from_iterable(asked.values()), *content])
        self._prepare()

    def read(self, texts: Sequence[bytes], odd: Bools, faults: Faults) -> tuple[Values, Values]:
        """(fields, content): what each line says; odd lines are read on their own, one that is no object is a fault."""
        rows: list[Any] = []
        slow = np.flatnonzero(odd).tolist()
        for i, text in enumerate(texts):
            try:
                rows.append(self.decode(text))
            except (msgspec.DecodeError, RecursionError, UnicodeDecodeError):
                rows.append(self.nothing)
                slow.append(i)
        fields = {field: _first_of(rows, getters) for field, getters in self.fields.items()}
        content = {name: list(map(getter, rows)) for name, getter in self.getters.items()}
        for i in slow:
            values, extra, reason = self._read_slowly(texts[i])
            if reason:
                faults.note(np.arange(len(texts)) == i, reason)
            for into, found in ((fields, values), (content, extra)):
                for name in {**into, **found}:
                    into.setdefault(name, [None] * len(texts))[i] = found.get(name)
        if self.known < len(self.names) <= MOST:
            self._prepare()
        return fields, content

    def _prepare(self) -> None:
        """A decoder of objects with just these members."""
        self.known = len(self.names)
        slots = {name: f"m{i}" for i, name in enumerate(self.names) if PLAIN.fullmatch(name)}
        columns = self._columns(slots)
        used = {
            *self.content,
            *(each.name for each in columns),
            *(own for path in self.paths for own, _ in ways_to(path)),
        }
        members = [(slot, Any if name in used else msgspec.Raw, None) for name, slot in slots.items()]
        names = {slot: name for name, slot in slots.items()}
        row = msgspec.defstruct("Row", members, rename=names, gc=False, forbid_unknown_fields=True)
        self.decode, self.nothing = msgspec.json.Decoder(row, float_hook=Number).decode, row()
        self.getters = {name: _getter(name, slots) for name in self.content if name in slots}
        self.fields: dict[str, list[Callable[[Any], Any]]] = {}
        for each in columns:
            getter = _getter(each.name, slots)
            guessed = each.field == "key" and "key" not in self.asked
            self.fields.setdefault(each.field, []).append(_unless_object(getter) if guessed else getter)

    def _columns(self, names: Collection[str]) -> list[FieldColumn]:
        """Those of some members that are fields, the best name of a field first, in whatever order they come."""
        asked = {field: [name for name in listed if name in names] for field, listed in self.asked.items()}
        found = match_columns(sorted(names), asked, in_lower_case)
        return sorted((each for each in found if each), key=attrgetter("rank"))

    def _read_slowly(self, text: bytes) -> tuple[dict[str, Any], dict[str, Any], str]:
        """(fields, content, reason) of a line; the reason is empty if it can be read."""
        members = read_object(text)
        if isinstance(members, str):
            return {}, {}, members
        self.names.update(dict.fromkeys(members))
        members |= reached(members, self.paths)
        no_keys = {} if "key" in self.asked else {"key": dict}  # an object that is called so is none
        columns = [
            each
            for each in self._columns(members)
            if members[each.name] is not None and type(members[each.name]) is not no_keys.get(each.field)
        ]
        content = {name: members[name] for name in self.content if name in members}
        used = chain((members[each.name] for each in columns), content.values())
        if any(isinstance(value, str) and HALF.search(value) for value in used):
            return {}, {}, NOT_UNICODE
        best = sorted(columns, key=lambda each: members[each.name] == "")  # an empty text where there is no other
        return {each.field: members[each.name] for each in reversed(best)}, content, ""


def paths_among(names: Sequence[str]) -> list[str]:
    """Names that may be paths: of a member inside a member."""
    return [name for name in dict.fromkeys(names) if len(ways_to(name)) > 1]


@cache
def ways_to(path: str) -> list[tuple[str, str]]:
    """(member, rest): where a path may go on, first the member that is called so as a whole."""
    dots = (i for i, each in enumerate(path) if each == "." and 0 < i < len(path) - 1)
    return [(path, ""), *((path[:i], path[i + 1 :]) for i in dots)]


def value_at(value: Any, path: str) -> Any:
    """What is at a path inside a value; none where nothing is."""
    if not path:
        return value
    return _first(value_at(value.get(own), rest) for own, rest in ways_to(path)) if isinstance(value, dict) else None


def _first(values: Iterable[Any]) -> Any:
    return next((each for each in values if each is not None), None)


def reached(members: Mapping[str, Any], paths: Sequence[str]) -> dict[str, Any]:
    """The values at those paths that lead to one."""
    found = {path: value_at(members, path) for path in paths}
    return {path: value for path, value in found.items() if value is not None}


def _getter(name: str, slots: Mapping[str, str]) -> Callable[[Any], Any]:
    """What gets a member, or the value at a path, of a decoded row."""
    ways = [(attrgetter(slots[own]), rest) for own, rest in ways_to(name) if own in slots]
    if len(ways) == 1:
        return ways[0][0]
    return lambda row: _first(value_at(member(row), rest) for member, rest in ways)


def _unless_object(getter: Callable[[Any], Any]) -> Callable[[Any], Any]:
    """The same of a value that is no object: `message` may be an id, or what was sent."""
    return lambda row: None if type(found := getter(row)) is dict else found


def names_in(members: Mapping[str, Any], prefix: str = "") -> Iterator[str]:
    """The names of members, and of those inside them their paths."""
    for name, value in members.items():
        path = prefix + name.encode("utf-8", "backslashreplace").decode()
        yield path
        if isinstance(value, dict) and path.count(".") < DEPTH:
            yield from names_in(value, f"{path}.")


def _first_of(rows: Sequence[Any], getters: Sequence[Callable[[Any], Any]]) -> list[Any]:
    """Of each row the first of some members that has a value, an empty text only where there is no other."""
    first, *others = getters
    values = list(map(first, rows))
    for getter in others:
        more = map(getter, rows)
        values = [a if (a is not None and a != "") or b is None else b for a, b in zip(values, more, strict=True)]
    return values


def _cells(values: list[Any]) -> pa.Array:
    """Values as texts for filters: an empty one where there is none, null of lists and objects."""
    words = {None: "", True: "true", False: "false"}
    texts = (
        None if isinstance(v, list | dict) else words[v] if v is None or type(v) is bool else str(v) for v in values
    )
    return pa.array(texts, pa.string())


def _odd_lines(lines: TextLines) -> Bools:
    """Lines that may be nested too deep, and those with the number -0: its sign would be lost."""
    data = np.frombuffer(lines.block, np.uint8)
    opened = np.flatnonzero((data & 0xDF) == ord("["))  # or {
    minus = np.flatnonzero(data[:-2] == ord("-"))
    minus = minus[data[minus + 1] == ord("0")]
    odd = minus[~np.isin(data[minus + 2], np.frombuffer(b"0123456789.eE", np.uint8))]
    found = np.zeros(len(lines.first), bool)
    found[np.maximum(np.searchsorted(lines.first, odd, "right") - 1, 0)] = True
    if len(opened) > DEPTH and (opened[DEPTH:] - opened[:-DEPTH]).min() < (lines.last - lines.first).max():
        found |= np.searchsorted(opened, lines.last) - np.searchsorted(opened, lines.first) > DEPTH
    return found


def read_object(line: bytes) -> dict[str, Any] | str:
    """The members of an object, numbers as they are written, or what is wrong; of two of one name the last counts."""
    try:
        found = json.loads(line.decode(), parse_int=Number, parse_float=Number, parse_constant=_refuse)
    except RecursionError:
        return TOO_DEEP
    except ValueError:
        return NO_OBJECT
    if not isinstance(found, dict):
        return NO_OBJECT
    levels = accumulate(1 if each in b"[{" else -1 for each in STRINGS.sub(b"", line) if each in b"[]{}")
    return TOO_DEEP if max(levels) > DEPTH + 1 else found


def _refuse(word: str) -> None:
    raise ValueError(word)


def read(blocks: Blocks, options: Settled) -> Iterator[pa.RecordBatch]:
    """Events of JSON objects, a line each; options as `settle` gives them."""
    wanted = asked_types(options.get("content") or ())
    listed = [name for names in options["mapping"].values() for name in names]
    filtered = filter_columns(options)
    objects = Objects(options["map"], [*wanted, *filtered], [*listed, *options["unused"], *wanted, *filtered])

    def rows(lines: TextLines) -> Iterator[pa.RecordBatch]:
        texts, odd, faults = lines.each(), _odd_lines(lines), Faults(len(lines.first))
        parts = []
        for begin in range(0, len(texts), AT_ONCE):
            end = begin + AT_ONCE
            part = faults.part(begin, end)
            fields, content = objects.read(texts[begin:end], odd[begin:end], part)
            cells = {name: _cells(content.get(name) or [None] * len(part.code)) for name in filtered}
            select_rows(cells, options, part)
            extra = {name: (values, wanted[name]) for name, values in content.items() if name in wanted}
            parts.append(columns_of(fields, extra, options, part))
        yield from read_parts(lines, parts, options, faults)

    yield from read_lines(blocks, rows)


def is_finished(line: bytes) -> bool:
    """Whether a line is a whole JSON value, if not one of ours."""
    try:
        json.loads(line)
    except ValueError:
        return False
    except RecursionError:
        return line.rstrip().endswith((b"}", b"]"))
    return True


def settle(sample: bytes, options: Settled) -> Settled:
    """Which members the first lines have, and the unit of their times."""
    asked, members, objects = options["map"], dict[str, None](), []
    wanted = [*asked_types(options.get("content") or ()), *filter_columns(options)]
    paths = paths_among([*chain.from_iterable(asked.values()), *wanted])
    for line in sample.split(b"\n")[:LOOKED_AT]:
        try:
            found = json.loads(line)
        except (ValueError, RecursionError):
            continue
        if isinstance(found, dict):
            found |= reached(found, paths)
            members.update(dict.fromkeys(name.encode("utf-8", "backslashreplace").decode() for name in found))
            objects.append(found)
    needed = [each for each, listed in asked.items() if each in ("at", "client") or "." in "".join(listed)]
    missing = [asked[each][0] for each in needed if not {*asked[each]} & members.keys()]
    missing += [name for name in filter_columns(options) if name not in members]
    if objects and missing:  # without any there is nothing to go by
        there = dict.fromkeys(chain.from_iterable(map(names_in, objects)))
        raise Unknown("member of the first lines", missing[0], there)
    times = asked.get("at", COMMON["at"])
    folded = ({name.lower(): value for name, value in each.items()} | each for each in objects)
    samples = [next((each[name] for name in times if each.get(name) is not None), None) for each in folded]
    columns = list(dict.fromkeys(chain(members, *asked.values())))
    found = match_columns(columns, asked, in_lower_case)
    if "key" not in asked:
        inside = {name for name in members if all(isinstance(each.get(name), dict | type(None)) for each in objects)}
        found = [None if each and each.field == "key" and each.name in inside else each for each in found]
    settled = settle_mapping(options, columns, samples, found, table=False)
    texts = {name: [v for each in objects if isinstance(v := each.get(name), str)] for name in members}
    settled.update(settle_kinds(texts, options))
    known = columns if objects else asked_types(options.get("content") or ())
    return settle_content(settled, known, lambda name: types_in([each.get(name) for each in objects]))


def sniff(head: bytes) -> float:
    """How much it looks like JSON objects, a line each, with members that logs have."""
    line = head.lstrip().partition(b"\n")[0].strip()
    if not line.startswith(b"{"):
        return 0.0
    known = sum(f'"{name}"'.encode() in line.lower() for names in COMMON.values() for name in names)
    return 0.95 if known >= 2 and line.endswith(b"}") else 0.5


FORMAT = Format(
    name="jsonl", scope="line", sniff=sniff, read=read, finished=is_finished, settle=settle, options=OPTIONS
)
