"""Peek: what files are, which column is what, what is missing, and what to type; in a second and without an engine."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
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
from overlace.peek.file import InspectedFile, inspect_file
from overlace.peek.logs import LogSample, summarise
from overlace.peek.recipe import Recipe, Unfit
from overlace.trace.address import absolute, bare, is_address, is_text, name_of

MANY = 40
"""Files up to which each is inspected; of more, one of each ending in each folder is, in place of the others."""


class Kind(NamedTuple):
    """Files of one kind in what was inspected."""

    what: str
    makes: str  # log, table, topology, or nothing
    files: int
    example: str
    problem: str


class Command(NamedTuple):
    """A command to type: what it makes, what it counts (none: only the beginning was read), and why."""

    command: str
    makes: str
    counts: Mapping[str, Any] | None
    why: str


class Peek(NamedTuple):
    """What the first bytes of files say."""

    kinds_of_files: list[Kind]
    first: str  # the first file that can be ingested, of which these are
    head: Sequence[str]  # the first lines
    columns: Sequence[Guess]
    commands: list[Command]  # likeliest first; in a folder one after the other
    choose: bool  # one of the commands is meant, not all
    question: str  # what the commands are answers to, where rows are of several kinds
    problem: str  # why there is none
    format: str
    mapping: Sequence[str]  # what was settled: which column is which, units
    lines: int
    kinds: Mapping[str, int]  # lines by kind of event, bad, ignored and links with their reason
    rows: list[dict[str, Any]]  # ten messages
    clients: int
    topics: int
    brokers: int
    bridges: list[str]
    unstable: list[str]  # clients whose ids look made up for one connection
    whole: bool  # everything was read
    facets: Mapping[str, str]  # possible, or what is missing


def peek(paths: Sequence[str], options: Options | None = None) -> Peek:
    """Inspect the first bytes of each file."""
    chosen = options or Options()
    files = [_as_given(path, paths) for path in find_files(paths, chosen.skip) if is_text(path)]
    if not files:
        raise BadTrace(f"{', '.join(paths)}: no files there. Name the log's files or a folder with them.")
    inspected = _inspect_all(files, replace(chosen, skip=()))
    logs = [each for each in inspected if each.makes == "log"]
    first = next(iter([*logs, *(each for each in inspected if each.recipes), *inspected]))
    faults = [each.problem for each in inspected[:3]]
    logs_of_all = _log_recipes(paths, inspected, chosen, faults) if files[1:] else ()
    recipes = [*logs_of_all, *_other_recipes(inspected)] if files[1:] else first.recipes
    question = next((each.question for each in logs if each.question), "")
    summary = summarise([sample for each in logs for sample in each.recipes[0].samples])
    groups: dict[tuple[str, str], list[InspectedFile]] = defaultdict(list)
    for each in inspected:
        groups[each.what, each.recipes[0].makes if each.recipes else ""].append(each)
    return Peek(
        kinds_of_files=[
            Kind(what, makes, len(group), name_of(group[0].path), group[0].problem)
            for (what, makes), group in groups.items()
        ],
        first=first.path,
        head=first.lines,
        columns=first.columns,
        commands=[Command(each.command(), each.makes, each.counts, each.why) for each in recipes],
        choose=len(recipes) > 1 and (len(files) == 1 or bool(question)),
        question=question,
        problem="" if recipes else "; ".join(dict.fromkeys(filter(None, faults))),
        whole=all(each.whole for each in inspected if each.recipes),
        facets=_facets(summary, summary.pop("receivers"), recipes),
        **summary,
    )


def _as_given(path: str, paths: Sequence[str]) -> str:
    """A file of a folder by the name under which the folder was given."""
    for folder in paths:
        inside = absolute(folder).rstrip("/") + "/"
        if not is_address(folder) and path.startswith(inside):
            return str(PurePosixPath(folder) / path.removeprefix(inside))
    return path


def _inspect_all(files: Sequence[str], asked: Options) -> list[InspectedFile]:
    """What each file is; of many, files of one folder and ending are taken to be alike."""
    if len(files) <= MANY:
        return [inspect_file(path, asked, len(files)) for path in files]
    seen: dict[tuple[PurePosixPath, str], InspectedFile] = {}
    inspected = []
    for path in files:
        pure = PurePosixPath(bare(path).removesuffix(".gz"))
        if alike := seen.get((pure.parent, pure.suffix)):
            own = [replace(recipe, files=(path,), counts=None, samples=()) for recipe in alike.recipes]
            inspected.append(alike._replace(path=path, recipes=own, whole=False))
        else:
            inspected.append(seen.setdefault((pure.parent, pure.suffix), inspect_file(path, asked, MANY)))
    return inspected


def _log_recipes(
    paths: Sequence[str], inspected: Sequence[InspectedFile], asked: Options, faults: list[str]
) -> Iterator[Recipe]:
    """The recipes for the logs of a folder: one for those that are read alike; faults, where that is not well."""
    groups: dict[str, list[InspectedFile]] = defaultdict(list)
    for each in inspected:
        if each.makes == "log":
            groups[repr([recipe.options for recipe in each.recipes if recipe.makes == "log"])].append(each)
    for group in groups.values():
        alternatives = group[0].recipes if group[0].question else group[0].recipes[:1]
        for i in range(len(alternatives)):
            try:
                yield _common_recipe(paths, inspected, asked, group, i, len(groups))
            except Unfit as error:
                faults.append(str(error))


def _common_recipe(
    paths: Sequence[str],
    inspected: Sequence[InspectedFile],
    asked: Options,
    group: Sequence[InspectedFile],
    place: int,
    groups: int,
) -> Recipe:
    """The recipe at a place of the lists of files that are read alike, for all of them."""
    names, recipe = [each.path for each in group], group[0].recipes[place]
    in_folders = [each.path for each in inspected if each.path not in paths]  # no others can be skipped
    skip = _patterns_to_skip(in_folders, names) if groups == 1 else None
    if skip is not None:
        found = {each.path for each in inspected}
        names = [path for path in paths if path in names or path not in found]
    patterns = () if skip is None else (*asked.skip, *skip)
    recipe = replace(recipe, files=tuple(names), options=replace(recipe.options, skip=patterns), counts=None)
    samples = [sample for each in group for sample in each.recipes[place].samples]
    logs, notes = _without_copies(samples)
    whole, alone = all(each.whole for each in group), all(each.recipes[place].samples for each in group)
    return recipe.of_logs(logs, notes, asked=asked, whole=whole, alone=alone)


def _without_copies(logs: Sequence[LogSample]) -> tuple[list[LogSample], list[str]]:
    """(logs, notes): without those that are the same as another or the beginning of it, which an ingest reads once."""
    kept: dict[int, LogSample] = {}
    notes = []
    for i, log in sorted(enumerate(logs), key=lambda item: (-len(item[1].data), item[0])):
        of = next((each for each in kept.values() if each.data.startswith(log.data)), None)
        if of and (of.data == log.data or log.data.count(b"\n") > 1):
            relation = "the same as" if of.data == log.data else "the beginning of"
            notes.append(f"{log.source.name} is {relation} {of.source.name}: read once")
        else:
            kept[i] = log
    return [kept[i] for i in sorted(kept)], notes


def _patterns_to_skip(files: Sequence[str], logs: Sequence[str]) -> tuple[str, ...] | None:
    """Patterns of names that leave out all but the logs; none if names alone cannot."""
    kept = {name_of(path) for path in logs}
    patterns: list[str] = []
    for path in files:
        name, ending = name_of(path), PurePosixPath(name_of(path)).suffix
        if path in logs or any(fnmatch(name, pattern) for pattern in patterns):
            continue
        tries = ([f"*{escape(ending)}"] if ending else []) + [escape(name)]
        pattern = next((each for each in tries if not any(fnmatch(log, each) for log in kept)), None)
        if pattern is None:
            return None
        patterns.append(pattern)
    return tuple(patterns)


def _other_recipes(inspected: Sequence[InspectedFile]) -> Iterator[Recipe]:
    """The recipes for tables and topologies in a folder: configurations together, a graph as an example."""
    yield from (each.recipes[0] for each in inspected if each.makes == "table")
    topologies = [each.recipes[0] for each in inspected if each.makes == "topology"]
    configurations = tuple(file for each in topologies if not each.wired for file in each.files)
    graphs = [each for each in topologies if each.wired]
    if configurations:
        with suppress(OverlaceError):
            yield Recipe(configurations, topology=True, why="broker configurations belong together").of_table()
    if graphs:
        yield replace(graphs[0], why=f"one of {len(graphs)} topologies: choose" if len(graphs) > 1 else "")


def _facets(log: Mapping[str, Any], receivers: bool, recipes: Sequence[Recipe]) -> dict[str, str]:
    """For each facet: possible, or the tables that are missing; of recipes for one file the likeliest counts."""
    likeliest = {each.files: each for each in reversed(recipes)}.values()
    tables = {each.table for each in likeliest} | {"links" for each in likeliest if each.topology}
    subscriptions = "subscribe" in log["kinds"] or tables & {"interests", "subscriptions"}
    bridged = log["bridges"] or any(kind.startswith("link") for kind in log["kinds"])
    needed = {
        "messages (a log)": log["rows"],
        "receivers (log them, or --table subscriptions)": receivers or subscriptions,
        "where clients are (--table sessions)": log["brokers"] or "sessions" in tables,
        "how brokers are wired (--table links, or --topology)": bridged or "links" in tables,
    }
    placement = [what for what, there in needed.items() if not there]
    lacking = {
        "placement": placement,
        "tree": placement,
        "channels": [] if "advertisements" in tables else ["what publishers offer (--table advertisements)"],
        "mesh": [] if subscriptions else ["interests (--table interests)"],
    }
    return {name: "missing: " + "; ".join(each) if each else "possible" for name, each in lacking.items()}
