"""Formats that are data: a file each, with a mapping, filters, a regular expression where lines are text, and a sample.

    about = "what writes such lines"
    source = "where that is documented"
    written = "from the documentation"
    lines = "json"                     # an object a line, or "text"
    where = ["type=published"]         # filters as --where takes them; deliveries_where too
    members = ["routing_keys"]         # of JSON: further members that tell such a log from others
    pattern = '(?P<at>\\S+) ...'        # of text: groups are columns
    note = "what should be known"
    sample = '''lines'''
    [map]
    at = "timestamp"                   # a field -> its column, or several in order

What a user maps or filters by comes first. Lines of text that the pattern does not match are ignored as `other`.
"""

from __future__ import annotations

import json
import re
import tomllib
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property, partial
from importlib.resources import files
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from overlace.errors import BadTrace
from overlace.ingest.events import Blocks, Format, Settled
from overlace.ingest.fields import OPTIONS, mapping_of, match_columns, settle_mapping
from overlace.ingest.formats import jsonl
from overlace.ingest.lines import Faults, TextLines, read_lines
from overlace.ingest.rows import read_rows
from overlace.ingest.values import empty_as_null, mask_of
from overlace.ingest.where import check_columns, filter_columns, filters_of, select_rows

OTHER = "other"
"""Why a line is ignored that the pattern of its format does not match."""

LOOKED_AT = 50
"""Lines of which one has to fit, for a log to be of a format."""

SURE = 0.97


@dataclass(frozen=True)
class Preset:
    """A format that is data; fields as in its file."""

    name: str
    about: str
    source: str
    written: str
    lines: str
    map: Mapping[str, str | Sequence[str]]
    sample: str
    note: str = ""
    where: Sequence[str] = ()
    deliveries_where: Sequence[str] = ()
    members: Sequence[str] = field(default=())
    pattern: str = ""

    @cached_property
    def expression(self) -> re.Pattern[str]:
        """The pattern of lines that are text."""
        return re.compile(self.pattern)

    @cached_property
    def columns(self) -> Mapping[str, tuple[str, ...]]:
        """Field -> its columns."""
        return {name: (each,) if isinstance(each, str) else tuple(each) for name, each in self.map.items()}

    def fits(self, line: str) -> bool:
        """Whether a line is one of those that the format is for."""
        if self.lines == "text":
            return bool(self.expression.search(line))
        try:
            found = json.loads(line)
        except (ValueError, RecursionError):
            return False
        names = {*jsonl.names_in(found)} if isinstance(found, dict) else set()
        needed = [*self.members, *(each.column for each in filters_of(self.where))]
        return names.issuperset(needed) and all(names & {*listed} for listed in self.columns.values())

    def sniff(self, head: bytes) -> float:
        """Whether the first lines have one that fits."""
        lines = head.decode("utf-8", "replace").split("\n")[:LOOKED_AT]
        return SURE if any(map(self.fits, lines)) else 0.0

    def settle(self, sample: bytes, options: Settled) -> Settled:
        """What holds for the whole source: what was asked for, else what the file of the format says."""
        lines = sample.decode("utf-8", "replace").split("\n")
        if sample.strip() and not any(map(self.fits, lines)):
            like = next(line for line in self.sample.split("\n") if self.fits(line))
            raise BadTrace(f"no line looks like the format {self.name}, such as {like[:150]!r}. Name another --format.")
        asked: Settled = {
            **options,
            "map": {**self.columns, **options["map"]},
            "where": options.get("where") or tuple(self.where),
            "deliveries_where": options.get("deliveries_where") or tuple(self.deliveries_where),
        }
        if self.lines == "json":
            return jsonl.settle(sample, asked)
        names = [*self.expression.groupindex]
        found = match_columns(names, asked["map"])
        check_columns(asked, names)
        times = [each["at"] for line in lines[:LOOKED_AT] if (each := self.expression.search(line))]
        return settle_mapping(asked, names, times, found, table=False)

    def read(self, blocks: Blocks, options: Settled) -> Iterator[pa.RecordBatch]:
        """Events of lines; options as `settle` gives them."""
        yield from (
            jsonl.read(blocks, options) if self.lines == "json" else read_lines(blocks, partial(self._rows, options))
        )

    def _rows(self, options: Settled, lines: TextLines) -> Iterator[pa.RecordBatch]:
        found, faults = pc.extract_regex(lines.text(), self.pattern), Faults(len(lines.first))
        faults.note(mask_of(found.is_null()), OTHER, ignored=True)
        select_rows({name: found.field(name) for name in filter_columns(options)}, options, faults)
        matched = match_columns([*self.expression.groupindex], options["map"])
        columns = {
            name: [empty_as_null(found.field(column)) for column in listed]
            for name, listed in mapping_of(matched).items()
        }
        yield from read_rows(lines, columns, options, faults)

    @property
    def format(self) -> Format:
        """What reads it."""
        finished = jsonl.is_finished if self.lines == "json" else lambda line: False
        return Format(
            name=self.name,
            scope="line",
            sniff=self.sniff,
            read=self.read,
            settle=self.settle,
            finished=finished,
            options=OPTIONS - ({"content"} if self.lines == "text" else set()),
        )


def read_preset(name: str, text: str) -> Preset:
    """A format from the text of its file."""
    found: dict[str, Any] = tomllib.loads(text)
    return Preset(name, **{**found, "sample": found["sample"].removeprefix("\n")})


PRESETS: Mapping[str, Preset] = {
    name: read_preset(name, each.read_text("utf-8"))
    for each in sorted(files(__name__).iterdir(), key=lambda each: each.name)
    for name, mark, kind in [each.name.rpartition(".")]
    if kind == "toml"
}
"""All of them by name."""
