"""Publications as PADRES writes them, one a line: pairs of attribute and value in brackets, as in its stock quotes.

    [class,'STOCK'],[symbol,'AAPL'],[open,63.30],[high,64.25],[close,63.75],[volume,9000000],[date,'21-Dec-04']

A line is a message and all its pairs are its content: in quotes text, else a number (nan: none), or true or false. A
publication names neither its publisher nor when it was made: `--map client=symbol --map at=date` takes both from
attributes (a time also from any attribute that is called as logs call theirs). No attribute is taken for anything else
unasked.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from itertools import chain

import numpy as np
import pyarrow as pa

from overlace.errors import BadTrace, Unknown
from overlace.ingest.content import TRUTHS, TYPES, asked_types
from overlace.ingest.events import Blocks, Format, Settled
from overlace.ingest.fields import COMMON, OPTIONS, match_columns, settle_mapping
from overlace.ingest.lines import CLEAN, Faults, TextLines, find_lines, read_lines
from overlace.ingest.rows import OF_TYPE, Number, columns_of, read_parts
from overlace.ingest.values import NUMBER

NAME = "padres-quotes"
LINE = re.compile(rb"^\s*\[\s*[A-Za-z_][^\[\],'\"]*,\s*('[^']*'|\"[^\"]*\"|[^\[\],'\"]+)\s*\]\s*(,\s*\[|$)")
PAIR = re.compile(r"""[ \t]*\[([^\[\],]*),[ \t]*(?:'([^']*)'[ \t]*|"([^"]*)"[ \t]*|([^\]'" \t][^\]]*))\][ \t]*(,|$)""")
NOT_A_NUMBER = re.compile("[+-]?nan", re.IGNORECASE)
Pairs = dict[str, str | bool | None]
"""Attribute -> value; None where it is not a number."""


def read_pairs(line: str) -> tuple[Pairs, str]:
    """(pairs, reason): the pairs of a line, or what is wrong with it."""
    pairs: Pairs = {}
    at, more = 0, ","
    while more:
        found = PAIR.match(line, at)
        name = found[1].strip(" \t") if found else ""
        if found is None or not name:
            return {}, "not pairs of [attribute,value]"
        value = found[2] if found[2] is not None else found[3]
        if value is None:
            word = found[4].strip(" \t")
            if NUMBER.fullmatch(word):
                value = Number(word)
            elif word.lower() in TRUTHS:
                value = TRUTHS[word.lower()]
            elif not NOT_A_NUMBER.fullmatch(word):
                return {}, "a value that is neither in quotes, a number nor true or false"
        if name in pairs:
            return {}, "two values for one attribute"
        pairs[name] = value
        at, more = found.end(), found[5]
    return pairs, ""


def read(blocks: Blocks, options: Settled) -> Iterator[pa.RecordBatch]:
    """Events of publications with their content, a line each; options as `settle` gives them."""
    wanted = asked_types(options.get("content") or ())

    def rows(lines: TextLines) -> Iterator[pa.RecordBatch]:
        found, reasons = zip(*map(read_pairs, lines.text().to_pylist()), strict=True)
        faults = Faults(len(found))
        for reason in sorted(set(reasons) - {""}):
            faults.note(np.array(reasons, object) == reason, reason)
        names = wanted or dict.fromkeys(chain.from_iterable(found))
        content = {name: ([each.get(name) for each in found], wanted.get(name)) for name in names}
        fields = {
            field: [next((each[name] for name in listed if each.get(name) is not None), None) for each in found]
            for field, listed in options["mapping"].items()
        }
        yield from read_parts(lines, [columns_of(fields, content, options, faults)], options, faults)

    yield from read_lines(blocks, rows)


def settle(sample: bytes, options: Settled) -> Settled:
    """Which attributes the first lines have, of which types, and which of them are the client and the time."""
    rows = sample_pairs(sample)
    asked, listed = options["map"], list(dict.fromkeys(chain.from_iterable(rows)))
    for name in (name for names in asked.values() for name in names):
        if listed and name not in listed:
            raise Unknown("attribute of the first lines", name, listed)
    columns = list(dict.fromkeys([*listed, *(name for names in asked.values() for name in names)]))
    # attributes are called as they like: only a time is known by its name
    found = [each if each and each.field in ("at", *asked) else None for each in match_columns(columns, asked)]
    times = [each.name for each in found if each and each.field == "at"]
    if listed and not times:
        raise BadTrace(
            f"no attribute is the time of a publication. Name one: --map at=ATTRIBUTE (found: {', '.join(listed)})."
        )
    if listed and "client" not in asked:
        likely = guess_client([name for name in listed if name not in times] or listed)
        raise BadTrace(
            f"publications name no publisher. Expected an attribute that stands for one: --map client={likely} (found: "
            f"{', '.join(listed)})."
        )
    samples = [each.get(name) for name in times for each in rows]
    settled = settle_mapping(options, columns, samples, found, table=False)
    wanted = asked_types(options.get("content") or ())
    for name in wanted:
        if listed and name not in listed:
            raise Unknown("attribute of the first lines", name, listed)
    types: dict[str, str] = {}
    for name in [each for each in listed if not wanted or each in wanted]:
        kinds = {OF_TYPE[type(each.get(name))] for each in rows}
        types[name] = wanted.get(name) or "|".join(each for each in TYPES if each in kinds) or "number"
    unused = [name for name in settled["unused"] if name not in types]
    return {**settled, "types": types, "unused": unused}


def sample_pairs(sample: bytes) -> list[Pairs]:
    """The pairs of the first lines."""
    lines, state = find_lines(0, sample)
    return [read_pairs(line)[0] for line in lines.at(state == CLEAN).text().to_pylist()]


def guess_client(names: Sequence[str]) -> str:
    """The attribute that likeliest stands for a publisher: one that is called so, the symbol, or any but the class."""
    likely = [name for name in names if name.lower() in (*COMMON["client"], "symbol")]
    return next(iter([*likely, *(name for name in names if name != "class"), *names]))


def sniff(head: bytes) -> float:
    """Whether the first lines are pairs in brackets."""
    lines = [line for line in head.split(b"\n")[:20] if line.strip()]
    shaped = sum(bool(LINE.match(line)) for line in lines)
    return 0.95 if lines and shaped * 2 > len(lines) else 0.0


FORMAT = Format(
    name=NAME,
    scope="line",
    sniff=sniff,
    read=read,
    settle=settle,
    content=True,
    options=OPTIONS - {"where", "deliveries_where"},
)
