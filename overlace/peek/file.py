"""One file: what it is, which column is what, and the recipes to ingest it, likeliest first; only what works."""

from __future__ import annotations

import csv
import gzip
import json
import re
import zipfile
from collections.abc import Iterator, Sequence
from contextlib import suppress
from dataclasses import replace
from typing import NamedTuple

from overlace.errors import BadParameter, BadTrace, OverlaceError, Unknown
from overlace.ingest.files import HEAD, open_file
from overlace.ingest.formats import padres_quotes, parquet
from overlace.ingest.lines import MARK
from overlace.ingest.options import Options
from overlace.ingest.sources import FORMATS, guess, look
from overlace.ingest.topologies import seems_configuration, seems_topology
from overlace.ingest.where import Kinds, kinds_of
from overlace.peek import columns as guessing
from overlace.peek.columns import NAMED, SHARED, Columns, Fields, Guess
from overlace.peek.logs import read_log
from overlace.peek.recipe import Recipe, Unfit, listed
from overlace.trace.address import name_of

SEEN, LEAST, BEGINNING = 1 << 17, 1 << 16, 1 << 16
"""Bytes up to which a file is read whole, each of many files is, and that are read of a larger one."""

TABLE_BYTES = 16 << 20
"""Bytes of a table that are read."""

LINES, WIDTH = 5, 100
"""Lines that are shown, and characters of each."""

FEW_ROWS, FEW_BROKERS = 3, 300
"""Rows below which two words a line are no table, and names up to which a relation between things of one kind is
likelier links of brokers than interests."""

OBJECT_OF_LISTS = re.compile(rb'\s*\{\s*"((?:\\.|[^"\\])*)"\s*:\s*\[\s*("?(?:\\.|[^"\\,\]])*)')
OBJECT_WITH_LIST = re.compile(rb'\{\s*"((?:\\.|[^"\\])*)"\s*:\s*\[\s*\{')

UNPACK = "Unpack it and peek at what is in it."
PACKETS = "Packets are not read: export messages as CSV with tshark."
MAGIC = (
    (b"\x89PNG", "a PNG image", ""),
    (b"\xff\xd8\xff", "a JPEG image", ""),
    (b"GIF8", "a GIF image", ""),
    (b"%PDF", "a PDF document", ""),
    (b"PK\x03\x04", "a zip archive", UNPACK),
    (b"BZh", "packed by bzip2", UNPACK),
    (b"\xfd7zXZ", "packed by xz", UNPACK),
    (b"\x28\xb5\x2f\xfd", "packed by zstd", UNPACK),
    (b"7z\xbc\xaf", "a 7-Zip archive", UNPACK),
    (b"Rar!", "a RAR archive", UNPACK),
    (b"SQLite format 3\0", "an SQLite database", "Export a table as CSV."),
    (b"\xd4\xc3\xb2\xa1", "a packet capture (pcap)", PACKETS),
    (b"\xa1\xb2\xc3\xd4", "a packet capture (pcap)", PACKETS),
    (b"\x0a\x0d\x0d\x0a", "a packet capture (pcapng)", PACKETS),
    (b"\x7fELF", "a program", ""),
    (b"Obj\x01", "Avro", "Export it as Parquet or JSON lines."),
    (b"ORC", "ORC", "Export it as Parquet."),
    (b"\x89HDF", "HDF5", "Export it as Parquet or CSV."),
)
"""What binary files begin with, what they are, and what to do."""

OFFICE = {
    "xl/": ("an Excel workbook", "Save the sheet as CSV (UTF-8)."),
    "word/": ("a Word document", ""),
    "content.xml": ("an OpenDocument file", "Save the sheet as CSV (UTF-8)."),
}
PAIRS = re.compile(rb"^(.* )?\w+=\S+ +\w+=\S+", re.MULTILINE)


class InspectedFile(NamedTuple):
    """What a file is."""

    path: str
    what: str  # for people
    problem: str = ""  # why there is no recipe
    whole: bool = True  # all of it was read
    lines: Sequence[str] = ()  # the first ones
    columns: Sequence[Guess] = ()
    recipes: Sequence[Recipe] = ()  # likeliest first
    question: str = ""  # that the recipes are answers to

    @property
    def makes(self) -> str:
        """What the file is likeliest taken for: log, table, topology, or nothing."""
        return self.recipes[0].makes.partition(" ")[0] if self.recipes else ""


def inspect_file(path: str, asked: Options, files: int = 1) -> InspectedFile:
    """What a file is and the recipes to ingest it; the more files there are, the less is read of each."""
    seen = max(SEEN // files, LEAST)
    try:
        with open_file(path) as stream:
            packed, data = isinstance(stream, gzip.GzipFile), stream.read(seen + 1)
    except BadTrace as error:
        return InspectedFile(path, "packed by gzip, and damaged", str(error), whole=False)
    whole, data = len(data) <= seen, data[: seen if len(data) <= seen else min(seen, BEGINNING)]
    if not data.strip():
        what = "blank" if data else "empty"
        return InspectedFile(path, what, f"{path} is {what}: there is nothing to ingest.")
    text = data[: LINES * HEAD].removeprefix(MARK).decode("utf-8", "replace")
    listed = [repr(data[: WIDTH // 3])[2:-1]] if _is_binary(data) else text.splitlines()[:LINES]
    lines = [line if len(line) <= WIDTH else line[: WIDTH - 3] + "..." for line in listed]
    if binary := _binary_kind(path, data):
        what, advice = binary
        problem = f"{path} is {'gzip of ' * packed}{what}, which is not read. {advice}".strip()
        return InspectedFile(path, what, problem, whole, lines)
    certain = seems_topology(name_of(path), data)
    if certain or seems_configuration(name_of(path)):
        try:
            recipe = Recipe((path,), topology=True).of_table()
            if certain or (recipe.counts and recipe.counts["rows"].get("links")):
                return InspectedFile(path, "a topology", lines=lines, recipes=[recipe])
        except OverlaceError as error:
            if certain:
                return InspectedFile(path, "a topology that cannot be read", str(error), lines=lines)
    file = InspectedFile(path, "text", "", whole, lines)
    return _inspect_rows(file, data, asked, max(TABLE_BYTES // files, LEAST), files == 1)


def _inspect_rows(file: InspectedFile, data: bytes, asked: Options, most: int, alone: bool) -> InspectedFile:
    """A text or Parquet file: as a log by the names that logs have, as a table, or either by guess."""
    form, reasons, unfit, found = "", list[str](), list[str](), list[Recipe]()
    try:
        form = look(file.path, asked).format
    except (BadParameter, Unknown):  # what was asked for, not the file, is wrong
        raise
    except OverlaceError as error:
        reasons = [str(error)]
        if (asked.format or guess(data.removeprefix(MARK)[:HEAD])) == padres_quotes.NAME:
            form = padres_quotes.NAME  # it lacks a mapping, which is guessed
    columns, options = guessing.sample_columns(file.path, data, form, asked)
    kinds = (
        kinds_of(columns.known, options.for_format(FORMATS[form]))
        if columns and form in ("csv", "json", "jsonl", "parquet")
        else None
    )
    if columns and kinds:
        columns.kind = kinds.column
    for recipes in _recipes_for(file, data, form, columns, options):
        for recipe in _by_kinds(recipes, kinds, columns):
            try:
                if recipe.makes == "log":
                    sample = read_log(file.path, recipe.options, data, file.whole)
                    found.append(recipe.of_logs([sample], asked=asked, whole=file.whole, alone=alone))
                else:
                    with open_file(file.path) as stream:
                        small = len(stream.read(most + 1)) <= most
                    found.append(recipe.of_table() if small else recipe)
            except Unfit as error:
                unfit.append(str(error))
            except OverlaceError as error:
                reasons.append(str(error))
        if found:
            what = "a JSON object of lists" if columns is None and found[0].table else form or "text"
            question = kinds.short if kinds and found[0].makes == "log" else ""
            return file._replace(what=what, columns=found[0].columns, recipes=found, question=question)
    guesses = columns.guesses(guessing.guess_fields("", columns)) if columns and form else ()
    asking = [f"{kinds.question}. So far: {unfit[0]}"] if kinds and unfit else unfit
    problem = f"{name_of(file.path)}: {next(iter(asking), '') or next(_problems(file, data, form, columns, reasons))}"
    return file._replace(what=form or "text", problem=problem, columns=guesses)


def _recipes_for(
    file: InspectedFile, data: bytes, form: str, columns: Columns | None, options: Options
) -> Iterator[list[Recipe]]:
    """Recipes that may work, the likeliest first; those of one list are alternatives.

    By names: a log whose columns are called as those of logs are, or were asked for, then a table that has all columns
    of the file. By what the columns hold: a log, then interests and links.
    """
    plain = Recipe((file.path,), options)
    table = Recipe((file.path,), Options(delimiter=options.delimiter, header=options.header))
    for_tables = not (options.format or options.map)
    if columns is None:
        if form not in ("", *guessing.WITH_COLUMNS):
            yield [plain]
        if for_tables and (pair := OBJECT_OF_LISTS.match(data.removeprefix(MARK))):
            member, first = (each.decode("utf-8", "replace").strip('"') for each in pair.groups())
            sides = [Guess("member", "client", member, "each member of the object")]
            sides += [Guess("in its list", "topic", first, "what it lists")]
            yield [replace(table, options=Options(), table="interests", why="a JSON object of lists", columns=sides)]
        return
    fields, split_time = guessing.guess_fields(form, columns), guessing.clock_apart(columns)
    named = {name: each for name, each in fields.items() if each[1] == NAMED}
    known = {field for field, _ in named.values()} | {*options.map}
    if form and (form == "counts" or {"at", "client"} <= known) and (options.map or not split_time):
        hints = {name: ("", f"could be the {each}: --map {each}={name}") for name, (each, _) in fields.items() if each}
        asked = {column: (field, "as asked") for field, names in listed(options).items() for column in names}
        options_named = _with_separator(columns, named, options)
        yield [replace(plain, options=options_named, columns=columns.guesses({**hints, **named, **asked}))]
    if for_tables:
        guesses = columns.guesses({name: (name.strip().lower(), NAMED) for name in columns.names})
        for name in guessing.tables_by_names(columns.names):
            yield [replace(table, table=name, why=NAMED, columns=guesses)]
    quotes = form == padres_quotes.NAME
    readable = form == "json" or quotes or data.lstrip()[:1] != b"["
    if readable and not options.map and not split_time and {"at", "client"} <= {field for field, _ in fields.values()}:
        taken = {name: each for name, each in fields.items() if (quotes or each[1] != NAMED) and each[0] != "content"}
        mapped = {taken[name][0]: name for name in columns.names if name in taken}
        chosen = replace(
            _with_separator(columns, fields, options), map=mapped, format=options.format or (None if form else "csv")
        )
        yield [replace(plain, options=chosen, why="by what the columns hold", columns=columns.guesses(fields))]
    if for_tables and not quotes:
        yield _guessed_tables(table, columns, fields, file.whole)


def _by_kinds(recipes: Sequence[Recipe], kinds: Kinds | None, columns: Columns | None) -> Iterator[Recipe]:
    """Recipes for logs whose rows are of several kinds in each reading of these; others as they are."""
    for recipe in recipes:
        if kinds is None or columns is None or recipe.makes != "log":
            yield recipe
            continue
        mapping = listed(recipe.options)
        fields = {name: field for field, names in mapping.items() for name in names if name != kinds.column}
        plain = replace(recipe.options, map={field: name for name, field in fields.items()})
        mapped = {name for name, field in fields.items() if field != "key"}
        mapped |= {name for name in columns.names if columns.time_kinds[name]}
        for what, published, delivered in kinds.readings:
            messages = replace(plain, where=tuple(f"{kinds.column}={value}" for value in published))
            key = guessing.common_key(columns, kinds.column, (published, delivered), mapped) if delivered else ""
            if key:
                both = {**messages.map, **({} if "key" in fields.values() else {"key": key})}
                deliveries = tuple(f"{kinds.column}={value}" for value in delivered)
                why = f"deliveries are joined by {key}"
                joined = replace(messages, map=both, deliveries_where=deliveries)
                yield replace(recipe, options=joined, why=f"{what}; {why}" if what else why)
            why = "messages alone: who receives them follows from subscriptions"
            yield replace(recipe, options=messages, why=f"{what}; {why}" if what else why)


def _with_separator(columns: Columns, fields: Fields, options: Options) -> Options:
    """The options with what separates receivers in a cell, where a cell has several."""
    listed = [name for name, (field, _) in fields.items() if field.startswith("receiver")]
    cells = [each for name in listed for each in columns.known[name] if not each.startswith("[")]
    mark = next((mark for mark in ";|," if any(mark in each for each in cells)), None)
    return replace(options, list_separator=options.list_separator or mark)


def _guessed_tables(base: Recipe, columns: Columns, fields: Fields, whole: bool) -> list[Recipe]:
    """As interests and as links: two columns of names, and perhaps what a link costs; or as sessions."""
    names = [n for n in columns.names if columns.could_be_names(n) and not columns.time_kinds[n].startswith("ISO")]
    timed = any(field == "at" and "never fall" not in why for field, why in fields.values())
    few = max(map(len, columns.known.values())) < FEW_ROWS
    unread = guessing.unread_times(columns) or guessing.labelled_times(columns)
    if len(names) < 2 or guessing.tables_by_names(columns.names) or unread or timed or few:
        return []

    def recipe(table: str, roles: dict[str, str], why: str) -> Recipe:
        guesses = columns.guesses({name: (field, why) for field, name in roles.items()})
        return replace(base, options=replace(base.options, map=roles), table=table, why=why, columns=guesses)

    left, right = names[:2]
    ends = {fields[name][0]: name for name in (left, right) if name in fields}
    if set(ends) == {"client", "broker"}:
        return [recipe("sessions", ends, "by their names")]
    shared, why = columns.shared(left, right), "two columns of names"
    costs = [name for name in columns.names if name not in (left, right) and columns.could_be_costs(name)]
    alike = f"{shared:.0%} of the values are in both columns" if shared else why
    both = "; add --both-ways if a pair holds both ways" if shared >= SHARED else ""
    interests = recipe("interests", {"client": left, "topic": right}, why + both)
    links = recipe("links", dict(zip(("left", "right", "cost"), (left, right, *costs), strict=False)), alike)
    brokers = shared >= SHARED and whole and len(columns.sets[left] | columns.sets[right]) <= FEW_BROKERS
    return [links, interests] if brokers else [interests, links]


# --- problems -------------------------------------------------------------------------------------------------


def _is_binary(data: bytes) -> bool:
    """Whether bytes are no text in an encoding that extends ASCII."""
    head = data[:4096]
    strange = sum(byte < 32 and byte not in b"\t\n\r\f\x1b" for byte in head)
    return b"\0" in head or head.startswith((b"\xff\xfe", b"\xfe\xff")) or strange > len(head) // 20


def _binary_kind(path: str, data: bytes) -> tuple[str, str] | None:
    """(what it is, what to do) of a file that is no text and no Parquet; None if it is."""
    if data[257:262] == b"ustar":
        return "a tar archive", UNPACK
    if known := next(((what, advice) for magic, what, advice in MAGIC if data.startswith(magic)), None):
        with suppress(zipfile.BadZipFile, OSError), zipfile.ZipFile(path) as archive:
            names = archive.namelist()
            return next((kind for key, kind in OFFICE.items() if any(n.startswith(key) for n in names)), known)
        return known
    if data.startswith(parquet.MAGIC) or not _is_binary(data):
        return None
    if data.startswith((b"\xff\xfe", b"\xfe\xff")) or 0.3 < data[:400].count(0) / min(400, len(data)) < 0.7:
        big = data.startswith((b"\xfe\xff", b"\0"))
        return "text in UTF-16", f"Convert it from UTF-16{'BE' if big else 'LE'} to UTF-8."
    return "a binary file of an unknown kind", ""


def _problems(
    file: InspectedFile, data: bytes, form: str, columns: Columns | None, reasons: Sequence[str]
) -> Iterator[str]:
    """What may be wrong with a file that no recipe fits, likeliest first; `reasons` are why those tried have failed.

    None is a command that would write a file.
    """
    text = data.removeprefix(MARK).lstrip()
    known = columns.known if columns else {}
    member = ""
    if text[:1] == b"{" and file.whole:
        with suppress(ValueError, RecursionError):
            lists = {key: len(value) for key, value in json.loads(text).items() if isinstance(value, list)}
            member = max(lists, key=lambda key: lists[key])
    elif begun := OBJECT_WITH_LIST.match(text):
        member = begun[1].decode("utf-8", "replace")
    if member:
        yield (
            f"one JSON object, where rows are expected. Its member {member!r} is a list: put that into a file of its "
            "own, and peek at it."
        )
    if text[:1] == b"[" and all(map(str.isdecimal, known)) and len(known) > 2:
        yield "lists with times are not read: write each as a row of CSV, or as an object with names."
    if "\ufffd" in data[:-4].decode("utf-8", "replace") and "\ufffd".encode() not in data:
        yield "not UTF-8. Convert it, from Latin-1 if it is that."
    with suppress(csv.Error):
        rows = list(csv.reader(text[: 1 << 16].decode("utf-8", "replace").splitlines(keepends=True)))[:-1]
        broken = any("\n" in cell for row in rows for cell in row)
        if broken and len({len(row) for row in rows if row}) == 1 and len(rows[0]) > 1:
            yield "its cells hold line breaks, and a row is one line here. Export it without them."
    if len(PAIRS.findall(text[:4096])) > 2:
        yield "lines of name=value are not read. Convert them to JSON lines or CSV, and peek at that."
    if columns and (apart := guessing.clock_apart(columns)):
        yield (
            f"the date ({apart[0]}) and the time of day ({apart[1]}) are in two columns. Join them into one, such as "
            "2026-01-05T08:00:00."
        )
    if columns and (marked := guessing.labelled_times(columns)):
        yield (
            f"cells hold a label before their value, such as {known[marked][0]!r}. Write the values alone, "
            "and peek at that."
        )
    if columns and (unread := guessing.unread_times(columns)):
        yield (
            f"the column {unread} seems to hold times, such as {known[unread][0]!r}, which are not read. "
            "Expected ISO 8601 (2026-01-05T08:00:00Z) or seconds since 1970: convert them."
        )
    fields = {field for field, _ in guessing.guess_fields("", columns).values()} if columns else set()
    if "at" in fields and "client" not in fields:
        yield "no column could be the client, who sends. Name it: --map client=COLUMN"
    if not form and not reasons[1:]:
        yield "text, but neither rows with columns, nor a log or a topology that is known here."
    yield from (each.removeprefix(f"{file.path}: ") for each in reasons[-1:])
    yield "no column holds times (a log needs them), and it is no table of two columns of names or of known columns."
