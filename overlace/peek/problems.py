"""Why a file can become nothing, and what to do about it."""

from __future__ import annotations

import csv
import json
import re
import shlex
from collections.abc import Sequence
from contextlib import suppress
from pathlib import PurePosixPath

from overlace.ingest.lines import MARK
from overlace.peek.columns import Columns
from overlace.peek.guesses import clock_apart, guess_log, unread_times
from overlace.peek.heads import Head

PAIRS = re.compile(rb"^(.* )?\w+=\S+ +\w+=\S+", re.MULTILINE)
JOINED = (
    "import csv,sys; csv.writer(sys.stdout).writerows([' '.join(c.split()) for c in r] for r in csv.reader(sys.stdin))"
)
"""A program that takes the line breaks out of cells."""


def problem_of(head: Head, form: str, columns: Columns | None, reasons: Sequence[str]) -> str:
    """What is wrong with a file that no recipe to ingest fits; `reasons` are why those that were tried failed."""
    text = head.data.removeprefix(MARK).lstrip()
    name, file = PurePosixPath(head.path).name, shlex.quote(head.path)
    found = _json_problem(head, text, columns, file) if text[:1] in (b"{", b"[") else ""
    if not found and not _is_utf8(head.data):
        found = f"not UTF-8. If it is Latin-1, convert it: iconv -f LATIN1 -t UTF-8 {file} > NEW"
    if not found and _runs_over_lines(text):
        found = (
            "its cells hold line breaks, and a row is one line here. Take the breaks out: "
            f"python3 -c {shlex.quote(JOINED)} < {file} > NEW.csv"
        )
    if not found and len(PAIRS.findall(text[:4096])) > 2:
        found = "lines of name=value are not read. Convert them to JSON lines or CSV, and peek at that."
    if not found and columns is not None:
        found = _columns_problem(columns)
    if not found and not form and not reasons[1:]:
        found = "text, but neither rows with columns, nor a log or a topology that is known here."
    lacking = (
        "no column holds times (a log needs them), and it is no table of two columns of names or of known columns."
    )
    return f"{name}: {found or (reasons[-1].removeprefix(f'{head.path}: ') if reasons else lacking)}"


def _json_problem(head: Head, text: bytes, columns: Columns | None, file: str) -> str:
    """What is wrong with JSON."""
    if text[:1] == b"{" and head.whole:
        with suppress(ValueError, RecursionError):
            lists = {key: len(value) for key, value in json.loads(text).items() if isinstance(value, list)}
            longest = max(lists, key=lambda key: lists[key])
            return (
                f"one JSON object, where rows are expected. Its member {longest!r} is a list: take it out with "
                f"jq {shlex.quote(f'.[{json.dumps(longest)}]')} {file} > NEW.json, and peek at that."
            )
    if columns is None:
        return ""
    if text[:1] == b"[" and all(each.isdecimal() for each in columns.names) and len(columns.names) > 2:
        return f"lists with times are read from CSV: jq -r '.[] | @csv' {file} > NEW.csv, and peek at that."
    nested = [each for each in columns.names if (columns.known[each] or [""])[0].startswith("{")]
    if nested:
        return (
            f"what stands inside {nested[0]} is not read, and no other member says who sent when. Take it out first: "
            f"jq -c {shlex.quote(f'. + .[{json.dumps(nested[0])}]')} {file} > NEW.jsonl, and peek at that."
        )
    return ""


def _columns_problem(columns: Columns) -> str:
    """What is wrong with times, or that nobody sends."""
    apart, unread = clock_apart(columns), unread_times(columns)
    if apart:
        return (
            f"the date ({apart[0]}) and the time of day ({apart[1]}) stand in two columns. Join them into one, such as "
            "2026-01-05T08:00:00."
        )
    if unread:
        return (
            f"the column {unread} seems to hold times, such as {columns.known[unread][0]!r}, which are not read. "
            "Expected ISO 8601 (2026-01-05T08:00:00Z) or seconds since 1970: convert them."
        )
    fields = {field for field, _ in guess_log(columns).values()}
    if "at" in fields and "client" not in fields:
        return "no column could be the client, who sends. Name it: --map client=COLUMN"
    return ""


def _is_utf8(data: bytes) -> bool:
    """Whether bytes are UTF-8, but for a character that is cut at the end."""
    try:
        data.decode()
    except UnicodeDecodeError as error:
        return error.start > len(data) - 4
    return True


def _runs_over_lines(text: bytes) -> bool:
    """Whether quoted cells hold line breaks: read as rows that may, they are regular."""
    sample = text[: 1 << 16].decode("utf-8", "replace")
    if '"' not in sample:
        return False
    with suppress(csv.Error):
        rows = list(csv.reader(sample.splitlines(keepends=True)))[:-1]
        breaks = any("\n" in cell for row in rows for cell in row)
        return breaks and len({len(row) for row in rows if row}) == 1 and len(rows[0]) > 1
    return False
