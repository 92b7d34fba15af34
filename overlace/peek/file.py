"""One file: what it is, which column is what, and the recipes to ingest it, likeliest first.

What is likely is tried with the code that ingests: a recipe that does not work is not offered.
"""

from __future__ import annotations

import re
import shlex
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import replace
from typing import NamedTuple

from overlace.errors import BadParameter, BadTrace, OverlaceError, Unknown
from overlace.ingest.encode import count
from overlace.ingest.files import HEAD
from overlace.ingest.formats import padres_quotes
from overlace.ingest.lines import MARK
from overlace.ingest.options import Options
from overlace.ingest.sources import guess, look
from overlace.ingest.topologies.read import seems_configuration, seems_topology
from overlace.peek.columns import Columns, Guess
from overlace.peek.guesses import (
    NAMED,
    SHARED,
    clock_apart,
    guess_cost,
    guess_fields,
    guess_log,
    guess_pairs,
    separator_in,
    tables_by_names,
    unread_times,
)
from overlace.peek.heads import SEEN, Head, binary_kind, read_head
from overlace.peek.problems import problem_of
from overlace.peek.recipes import Outcome, Recipe
from overlace.peek.samples import sample_columns
from overlace.peek.summary import first_events

TABLE_BYTES = 16 << 20
"""Bytes of a table that are read to see whether it is one."""

LEAST = 1 << 16
"""Bytes that are looked at of each of many files."""

FEW_ROWS = 3
"""Rows below which two words a line are no table."""

FEW_BROKERS = 300
"""Names up to which a relation between things of one kind is likelier links of brokers than interests."""


class Found(NamedTuple):
    """A recipe to ingest a file, what it counts (none: the file was too large to try), and what the guess rests on."""

    recipe: Recipe
    outcome: Outcome | None
    columns: list[Guess]
    why: str = ""


class Looked(NamedTuple):
    """What a file is."""

    path: str
    what: str  # for people
    lines: list[str]  # the first ones
    whole: bool  # all of it was looked at
    columns: list[Guess]
    found: list[Found]  # recipes, likeliest first
    problem: str = ""  # why there is none
    size: int = 0  # bytes that were looked at

    @property
    def makes(self) -> str:
        """What the file is likeliest taken for: log, table, topology, or nothing."""
        return self.found[0].recipe.makes.partition(" ")[0] if self.found else ""


def look_into(path: str, asked: Options, files: int = 1) -> Looked:
    """What a file is and the recipes to ingest it; the more files there are, the less is looked at of each."""
    try:
        head = read_head(path, max(SEEN // files, LEAST))
    except BadTrace as error:
        return Looked(path, "packed by gzip, and damaged", [], False, [], [], str(error))
    if not head.data.strip():
        what = "blank" if head.data else "empty"
        return Looked(path, what, [], True, [], [], f"{path} is {what}: there is nothing to ingest.")
    binary = binary_kind(head)
    if binary:
        what, do = binary
        gzip = "gzip of " if head.packed else ""
        text = f"{path} is {gzip}{what}, which is not read. {do.replace('FILE', shlex.quote(path))}".strip()
        return Looked(path, what, head.lines(), head.whole, [], [], text)
    certain = seems_topology(path, head.data)
    if certain or seems_configuration(path):
        looked = _topology(head)
        if certain or any(found.outcome and found.outcome.rows.get("links") for found in looked.found):
            return looked
    return _rows(head, asked, max(TABLE_BYTES // files, LEAST))


def _topology(head: Head) -> Looked:
    recipe = Recipe((head.path,), topology=True)
    try:
        outcome = recipe.try_out()
        if outcome.rows.get("links") and not outcome.rows["wired links"]:
            recipe = replace(recipe, wired="mst")
            outcome = recipe.try_out()
    except OverlaceError as error:
        return Looked(head.path, "a topology that cannot be read", head.lines(), True, [], [], str(error))
    return Looked(head.path, "a topology", head.lines(), True, [], [Found(recipe, outcome, [])])


# --- rows -----------------------------------------------------------------------------------------------------


def _rows(head: Head, asked: Options, most: int) -> Looked:
    """A text or Parquet file: as a log by the names that logs have, as a table, as a log by guess."""
    form, reason = _format(head, asked)
    what = form or "text"
    found: list[Found] = []
    reasons: list[str] = [reason] if reason else []
    columns, options = sample_columns(head, form, asked)
    for make in (_log_as_it_is, _named_table, _guessed_log, _guessed_tables):
        if found and make is not _guessed_tables:
            continue
        if found and found[0].recipe.makes == "log":
            break
        for each in make(head, form, columns, options):
            try:
                found.append(_try(each, head, most))
            except OverlaceError as error:
                reasons.append(str(error))
            if found and make is not _guessed_tables:
                break
    guesses = found[0].columns if found else columns.guesses(guess_log(columns)) if columns and form else []
    if found and not columns and found[0].recipe.table:
        what = "a JSON object of lists"
    problem = "" if found else problem_of(head, form, columns, reasons)
    return Looked(head.path, what, head.lines(), head.whole, guesses, found, problem, len(head.data))


def _format(head: Head, asked: Options) -> tuple[str, str]:
    """(format, why none fits)."""
    try:
        return look(head.path, asked.format, asked).format, ""
    except (BadParameter, Unknown):  # what was asked for, not the file, is wrong
        raise
    except OverlaceError as error:
        named = asked.format or guess(head.data.removeprefix(MARK)[:HEAD])
        return (named if named == padres_quotes.FORMAT.name else ""), str(error)  # it lacks a mapping, which is guessed


def _try(found: Found, head: Head, most: int) -> Found:
    """A recipe with what it counts; raises where it does not work. Of a table `most` bytes are read."""
    recipe = found.recipe
    if recipe.makes == "log":
        outcome = recipe.try_out() if head.whole else _beginning(recipe, len(head.data))
        if outcome.bad and not outcome.kept:
            reason, rows = max(outcome.bad.items(), key=lambda item: item[1])
            raise BadTrace(f"read as a log, no line can be kept; most often ({rows:,}): {reason}.")
        recipe = replace(recipe, max_bad=outcome.max_bad())
        return found._replace(recipe=recipe, outcome=outcome if head.whole else None)
    if not head.whole and not read_head(head.path, most).whole:
        return found
    outcome = recipe.try_out()
    if not any(outcome.rows.values()):
        raise BadTrace("read as a table, it has no rows.")
    return found._replace(outcome=outcome)


def _beginning(recipe: Recipe, most: int) -> Outcome:
    """What becomes of the first lines of a log."""
    counted = count(first_events(look(recipe.files[0], recipe.options.format, recipe.options), most)).rows
    lines = sum(counted.values())
    bad = {reason: rows for (kind, reason), rows in counted.items() if kind == "bad"}
    ignored = {reason: rows for (kind, reason), rows in counted.items() if kind == "ignored"}
    return Outcome(lines, ignored=ignored, bad=bad, worst=sum(bad.values()) / lines if lines else 0.0)


# --- recipes, likeliest first ------------------------------------------------------------------------------------


def _log_as_it_is(head: Head, form: str, columns: Columns | None, options: Options) -> Iterator[Found]:
    """As a log whose columns are told by their names, or by what was asked for."""
    if not form:
        return
    guessed = guess_fields(form, columns) if columns else {}
    named = {name: each for name, each in guessed.items() if each[1] == NAMED}
    fields = {field for field, _ in named.values()} | set(options.map)
    if columns is None and form in ("csv", "counts", "json", "jsonl", "parquet"):
        return
    if columns is not None and not {"at", "client"} <= fields and form != "counts":
        return
    if columns is not None and not options.map and clock_apart(columns):
        return
    options = _with_separator(columns, named, options)
    guesses = [] if columns is None else _with_hints(columns.guesses({**named, **_asked_fields(options)}), guessed)
    yield Found(Recipe((head.path,), options), None, guesses)


def _with_separator(columns: Columns | None, fields: Mapping[str, tuple[str, str]], options: Options) -> Options:
    """The options with what separates receivers in a cell, where several stand in one."""
    mark = separator_in(columns, fields) if columns and not options.list_separator else ""
    return replace(options, list_separator=mark) if mark else options


def _with_hints(guesses: Sequence[Guess], fields: Mapping[str, tuple[str, str]]) -> list[Guess]:
    """Columns that are not used with what they could be."""
    hinted = []
    for each in guesses:
        field = "" if each.field else fields.get(each.column, ("", ""))[0]
        hinted.append(each._replace(why=f"could be the {field}: --map {field}={each.column}") if field else each)
    return hinted


def _asked_fields(options: Options) -> dict[str, tuple[str, str]]:
    listed = {field: [each] if isinstance(each, str) else each for field, each in options.map.items()}
    return {column: (field, "as asked") for field, columns in listed.items() for column in columns}


def _named_table(head: Head, form: str, columns: Columns | None, options: Options) -> Iterator[Found]:
    """As a table all of whose columns the file names; or as interests, from an object of lists."""
    if options.format or options.map:
        return
    if columns is None:
        if re.match(rb'\s*\{\s*"(\\.|[^"\\])*"\s*:\s*\[', head.data.removeprefix(MARK)):
            yield Found(Recipe((head.path,), table="interests"), None, _sides(head.data), "a JSON object of lists")
        return
    fields = {name: (name.strip().lower(), NAMED) for name in columns.names}
    for table in tables_by_names(columns.names):
        yield Found(Recipe((head.path,), _layout_only(options), table), None, columns.guesses(fields), NAMED)


def _sides(data: bytes) -> list[Guess]:
    """The two sides of an object of lists."""
    pair = re.search(rb'"((?:\\.|[^"\\])*)"\s*:\s*\[\s*("?(?:\\.|[^"\\,\]])*)', data[:4096])
    key, first = (each.decode("utf-8", "replace").strip('"') for each in pair.groups()) if pair else ("", "")
    return [
        Guess("member", "client", key, "each member of the object"),
        Guess("in its list", "topic", first, "what it lists"),
    ]


def _layout_only(options: Options) -> Options:
    return Options(delimiter=options.delimiter, header=options.header)


def _guessed_log(head: Head, form: str, columns: Columns | None, options: Options) -> Iterator[Found]:
    """As a log by what its columns hold."""
    if columns is None or options.map or (head.data.lstrip()[:1] == b"[" and form not in ("json", "padres-quotes")):
        return
    fields = guess_fields(form, columns)
    if not {"at", "client"} <= {field for field, _ in fields.values()} or clock_apart(columns):
        return
    options = _with_separator(columns, fields, options)
    said = form == padres_quotes.FORMAT.name
    taken = {name: each for name, each in fields.items() if (said or each[1] != NAMED) and each[0] != "content"}
    mapped = {taken[name][0]: name for name in columns.names if name in taken}
    chosen = replace(options, map=mapped, format=options.format or (None if form else "csv"))
    with suppress(OverlaceError):
        look(head.path, chosen.format, chosen)
        yield Found(Recipe((head.path,), chosen), None, columns.guesses(fields), "by what the columns hold")


def _guessed_tables(head: Head, form: str, columns: Columns | None, options: Options) -> Iterator[Found]:
    """As interests and as links: two columns of names, and perhaps what a link costs."""
    said = options.map or options.format or form == padres_quotes.FORMAT.name
    ends = guess_pairs(columns) if columns and not said else None
    if columns is None or ends is None or tables_by_names(columns.names) or unread_times(columns):
        return
    timed = any(field == "at" and "never fall" not in why for field, why in guess_log(columns).values())
    if timed or max(map(len, columns.known.values())) < FEW_ROWS:
        return
    layout = _layout_only(options)
    if {guess_log(columns).get(name, ("",))[0] for name in ends} == {"client", "broker"}:
        fields = {guess_log(columns)[name][0]: name for name in ends}
        yield _map_table(head, "sessions", fields, columns, layout, "by their names")
        return
    shared = columns.shared(*ends)
    cost = guess_cost(columns, ends)
    links = {"left": ends[0], "right": ends[1]} | ({"cost": cost} if cost else {})
    names = columns.sets[ends[0]] | columns.sets[ends[1]]
    alike = f"{shared:.0%} of the values are in both columns"
    why = "two columns of names" + ("; add --both-ways if a pair holds both ways" if shared >= SHARED else "")
    interests = _map_table(head, "interests", {"client": ends[0], "topic": ends[1]}, columns, layout, why)
    wires = _map_table(head, "links", links, columns, layout, alike if shared else "two columns of names")
    few = head.whole and len(names) <= FEW_BROKERS
    yield from (wires, interests) if shared >= SHARED and few else (interests, wires)


def _map_table(head: Head, table: str, fields: dict[str, str], columns: Columns, layout: Options, why: str) -> Found:
    guesses = columns.guesses({name: (field, why) for field, name in fields.items()})
    return Found(Recipe((head.path,), replace(layout, map=fields), table), None, guesses, why)
