"""Peek: what files are, which column is what, what is missing, and what to type; in two seconds and without a JVM."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import replace
from fnmatch import fnmatch
from glob import escape
from pathlib import PurePosixPath
from typing import Any, NamedTuple

from overlace.errors import BadTrace, OverlaceError
from overlace.ingest.files import find_files
from overlace.ingest.options import Options
from overlace.peek.columns import Guess
from overlace.peek.file import Found, Looked, look_into
from overlace.peek.recipes import Outcome, Recipe
from overlace.peek.summary import summarise
from overlace.trace.store import absolute

MANY = 40
"""Files up to which each is looked into; of more, one of each ending in each folder is, and stands for the others."""


class Kind(NamedTuple):
    """Files of one kind in what was looked at."""

    what: str
    makes: str  # log, table, topology, or nothing
    files: int
    example: str
    problem: str


class Command(NamedTuple):
    """A command to type: what it makes, what it counts (none: not tried, the files are large), and why."""

    command: str
    makes: str
    counts: Mapping[str, Any] | None
    why: str


class Peek(NamedTuple):
    """What the first bytes of files say."""

    kinds_of_files: list[Kind]
    first: str  # the first file that can be ingested, of which these are
    head: list[str]  # the first lines
    columns: list[Guess]
    commands: list[Command]  # likeliest first; in a folder one after the other
    choose: bool  # one of the commands is meant, not all
    problem: str  # why there is none
    format: str
    mapping: Sequence[str]  # what was settled: which column is which, units
    lines: int
    kinds: Mapping[str, int]  # events by kind, bad, ignored and links with their reason
    rows: list[dict[str, Any]]  # ten events
    clients: int
    topics: int
    brokers: int
    bridges: list[str]
    unstable: list[str]  # clients whose ids look made up for one connection
    whole: bool  # everything was looked at
    facets: Mapping[str, str]  # possible, or what is missing


def peek(paths: Sequence[str], options: Options | None = None) -> Peek:
    """Look at the first bytes of each file."""
    chosen = options or Options()
    files = [_as_given(path, paths) for path in find_files(paths, chosen.skip)]
    if not files:
        raise BadTrace(f"{', '.join(paths)}: no files there. Name the log's files or a folder with them.")
    asked = replace(chosen, skip=())
    looked = _look_into_all(files, asked)
    first = next((each for each in looked if each.makes == "log"), next((e for e in looked if e.found), looked[0]))
    if len(files) == 1:
        (one,) = looked
        found, choose, problem = one.found, len(one.found) > 1, one.problem
    else:
        found, choose = [*_logs(paths, looked, chosen), *_others(looked)], False
        problem = "" if found else "; ".join(dict.fromkeys(each.problem for each in looked[:3]))
    logs = [each for each in looked if each.makes == "log"]
    summary = summarise([(each.path, each.found[0].recipe.options, each.size) for each in logs if each.size])
    whole = all(each.whole for each in looked if each.found)
    commands = [Command(e.recipe.command(), e.recipe.makes, _counts(e.outcome), e.why) for e in found]
    has = {**summary.has, **_table_facts(found)}
    kinds, facets = _kinds(looked), _facets(has)
    return Peek(kinds, first.path, first.lines, first.columns, commands, choose, problem, *summary[:-1], whole, facets)


def _as_given(path: str, paths: Sequence[str]) -> str:
    """A file of a folder by the name under which the folder was given."""
    for folder in paths:
        inside = absolute(folder).rstrip("/") + "/"
        if "://" not in folder and path.startswith(inside):
            return str(PurePosixPath(folder) / path.removeprefix(inside))
    return path


def _counts(outcome: Outcome | None) -> dict[str, Any] | None:
    if outcome is None:
        return None
    if outcome.rows:
        return {"rows": dict(outcome.rows), "notes": list(outcome.notes)}
    counted = outcome._asdict()
    return {name: counted[name] for name in ("lines", "messages", "ignored", "bad", "duplicates", "notes")}


# --- folders ------------------------------------------------------------------------------------------------


def _look_into_all(files: Sequence[str], asked: Options) -> list[Looked]:
    """What each file is; of many, files of one folder and ending are taken to be alike."""
    if len(files) <= MANY:
        return [look_into(path, asked, len(files)) for path in files]
    seen: dict[tuple[str, str], Looked] = {}
    looked = []
    for path in files:
        pure = PurePosixPath(path.removesuffix(".gz"))
        alike = (str(pure.parent), pure.suffix)
        if alike not in seen:
            seen[alike] = look_into(path, asked, MANY)
        each = seen[alike]
        own = [found._replace(recipe=replace(found.recipe, files=(path,)), outcome=None) for found in each.found]
        looked.append(each if each.path == path else each._replace(path=path, found=own, whole=False, size=0))
    return looked


def _kinds(looked: Sequence[Looked]) -> list[Kind]:
    """Kinds of files with how many there are."""
    groups: dict[tuple[str, str], list[Looked]] = defaultdict(list)
    for each in looked:
        groups[each.what, each.found[0].recipe.makes if each.found else ""].append(each)
    return [
        Kind(what, makes, len(each), PurePosixPath(each[0].path).name, each[0].problem)
        for (what, makes), each in groups.items()
    ]


def _logs(paths: Sequence[str], looked: Sequence[Looked], asked: Options) -> list[Found]:
    """The commands for the logs of a folder: one for those that are read alike."""
    groups: dict[str, list[Looked]] = defaultdict(list)
    for each in looked:
        if each.makes == "log":
            groups[repr(each.found[0].recipe.options)].append(each)
    found = []
    for group in groups.values():
        names = [each.path for each in group]
        first = group[0].found[0]
        beside = [each.path for each in looked if each.path not in paths]  # only what stands in a folder can be skipped
        skip = _patterns_to_skip(beside, names) if len(groups) == 1 else None
        given = [path for path in paths if path in names or path not in {each.path for each in looked}]
        files, patterns = (tuple(names), ()) if skip is None else (tuple(given), (*asked.skip, *skip))
        recipe = replace(first.recipe, files=files, options=replace(first.recipe.options, skip=patterns))
        outcome = None
        if all(each.whole for each in group) and len(group) <= MANY:
            with suppress(OverlaceError):
                outcome = recipe.try_out()
                recipe = replace(recipe, max_bad=outcome.max_bad())
        found.append(Found(recipe, outcome, first.columns, first.why))
    return found


def _patterns_to_skip(files: Sequence[str], logs: Sequence[str]) -> tuple[str, ...] | None:
    """Patterns of names that leave out all but the logs; none if names alone cannot."""
    kept = {PurePosixPath(path).name for path in logs}
    patterns: list[str] = []
    for path in files:
        name = PurePosixPath(path).name
        if path in logs or any(fnmatch(name, pattern) for pattern in patterns):
            continue
        ending = PurePosixPath(name).suffix
        tries = ([f"*{escape(ending)}"] if ending else []) + [escape(name)]
        pattern = next((each for each in tries if not any(fnmatch(log, each) for log in kept)), None)
        if pattern is None:
            return None
        patterns.append(pattern)
    return tuple(patterns)


def _others(looked: Sequence[Looked]) -> list[Found]:
    """The commands for tables and topologies beside logs: configurations together, a graph as an example."""
    found = [each.found[0] for each in looked if each.makes == "table"]
    topologies = [each for each in looked if each.makes == "topology"]
    graphs = [each for each in topologies if each.found[0].recipe.wired]
    configurations = [each for each in topologies if not each.found[0].recipe.wired]
    if configurations:
        recipe = Recipe(tuple(each.path for each in configurations), topology=True)
        with suppress(OverlaceError):
            found.append(Found(recipe, recipe.try_out(), [], "broker configurations belong together"))
    if graphs:
        why = f"one of {len(graphs)} topologies: choose" if len(graphs) > 1 else ""
        found.append(graphs[0].found[0]._replace(why=why))
    return found


# --- facets -------------------------------------------------------------------------------------------------


def _table_facts(found: Sequence[Found]) -> dict[str, bool]:
    """What tables and topologies bring; of several recipes for one file the likeliest counts."""
    brought: dict[str, bool] = {}
    taken: set[tuple[str, ...]] = set()
    for each in found:
        if each.recipe.files in taken:
            continue
        taken.add(each.recipe.files)
        table = each.recipe.table
        brought |= {"subscriptions": True} if table in ("interests", "subscriptions") else {}
        brought |= {"broker": True} if table == "sessions" else {}
        brought |= {"attributes": True} if table == "advertisements" else {}
        brought |= {"bridges": True} if table == "links" or each.recipe.topology else {}
    return brought


def _facets(has: Mapping[str, bool]) -> dict[str, str]:
    """For each facet: possible, or the tables that are missing."""
    audience = has["receivers"] or has["subscriptions"]
    lacking = {
        "placement": [
            *([] if has["messages"] else ["messages (a log)"]),
            *([] if audience else ["receivers (log them, or --table subscriptions)"]),
            *([] if has["broker"] else ["where clients are (--table sessions)"]),
            *([] if has["bridges"] else ["how brokers are wired (--table links, or --topology)"]),
        ],
        "channels": [] if has["attributes"] else ["what publishers offer (--table advertisements)"],
        "mesh": [] if has["subscriptions"] else ["interests (--table interests)"],
    }
    lacking["tree"] = lacking["placement"]
    order = ("placement", "tree", "channels", "mesh")
    return {name: "possible" if not lacking[name] else "missing: " + "; ".join(lacking[name]) for name in order}
