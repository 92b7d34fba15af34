"""The reference as pages: commands with their options, planners, metrics, tables, the Python API.

Nothing here is written by hand: help comes from the command line, docstrings from the code. The same list of commands
checks what our pages type: `check_commands` names every command and flag of a text that does not exist.
"""

from __future__ import annotations

import json
import re
import shlex
from collections.abc import Iterator
from contextlib import redirect_stdout
from functools import cache
from io import StringIO
from typing import Any

import typer
from rich.text import Text

import overlace
from overlace.cli.commands import app, run

ROOT = typer.main.get_command(app)
EVERYWHERE = {"--help", "--debug"}
FOREIGN = {"--list", "--jobs", "--seeds"}
"""Flags of our scripts that pages name on their own."""

EXAMPLES = {"tree.shortest-paths", "placement.partner"}
"""Planners that docs/adding-a-planner.md adds; tests/test_guide.py types its commands."""


# --- the tree of commands -----------------------------------------------------------------------------------


@cache
def children(command: Any) -> dict[str, Any]:
    """The commands of a group, by name; of another command: none."""
    if not hasattr(command, "list_commands"):
        return {}
    return {name: command.get_command(None, name) for name in command.list_commands(None)}


@cache
def flags_of(command: Any) -> set[str]:
    """The options of a command as they are typed."""
    return {name for each in command.params for name in (*each.opts, *each.secondary_opts) if name.startswith("-")}


@cache
def every_flag(command: Any = ROOT) -> set[str]:
    """The options of all commands."""
    found = flags_of(command) | EVERYWHERE
    return found.union(*map(every_flag, children(command).values())) if children(command) else found


# --- commands and flags in our pages --------------------------------------------------------------------------

CODE = re.compile(r"^(```+)[^\n]*\n(.*?)^\1|`([^`\n]+)`", re.DOTALL | re.MULTILINE)
TYPED = re.compile(r"(?:^|(?<!from)[\s`'(])overlace (?!import )(?=[a-z-])([^\n`]*)")
ENDS = ("#", ";", "&&", "|", ">", "&", "...", "…")


def check_commands(text: str) -> list[str]:
    """What a page types that the command line does not know, a line each."""
    wrong: list[str] = []
    known = every_flag() | FOREIGN
    for block in CODE.finditer(text):
        code = block[2] if block[1] else block[3]
        for found in TYPED.finditer(re.sub(r"\\\n\s*", " ", code)):
            wrong += check_words(words_of(found[1]))
        if block[3] and re.match(r"--[a-z]", code):
            flag = re.match(r"--[\w-]+", code)
            wrong += [f"no command has {flag[0]}"] if flag and flag[0] not in known else []
    return wrong


def words_of(line: str) -> list[str]:
    """The words of a command up to what follows it: a pipe, a comment, or the next column of a table."""
    line = re.split(r"\s{3,}|: |[;,.)](?:\s|$)", line)[0]
    try:
        words = shlex.split(line)
    except ValueError:
        words = line.split()
    end = next((i for i, word in enumerate(words) if word.startswith(ENDS)), len(words))
    return words[:end]


def check_words(words: list[str]) -> Iterator[str]:
    """What is wrong with the words after `overlace`."""
    command, path = ROOT, "overlace"
    while words and (below := children(command)):
        if words[0].startswith("-"):
            break
        if words[0] in EXAMPLES:
            return
        if words[0] not in below:
            if not words[0].isupper() and not words[0].startswith(("<", "{")):
                yield f"{path} has no command {words[0]!r}"
            return
        command, path, words = below[words[0]], f"{path} {words[0]}", words[1:]
    allowed = flags_of(command) | EVERYWHERE
    for word in words:
        flag = word.partition("=")[0]
        if re.fullmatch(r"--[a-z][\w-]*", flag) and flag not in allowed:
            yield f"{path} has no option {flag}"


# --- pages ------------------------------------------------------------------------------------------------------


def plain(text: str | None) -> str:
    """Help without the marks of the terminal, safe in a table."""
    return Text.from_markup(text or "").plain.strip()


def cell(text: str) -> str:
    """A text in a cell of a table."""
    return " ".join(text.split()).replace("|", "\\|").replace("<", "&lt;").replace("*", "\\*")


def options_table(command: Any, but: frozenset[str] = frozenset()) -> Iterator[str]:
    """Arguments and options, a table for each panel of the help, but those of some names."""
    panels: dict[str, list[str]] = {}
    for each in command.params:
        if getattr(each, "hidden", False) or each.name in but:
            continue
        flag = each.opts[0].startswith("-")
        panel = each.rich_help_panel or ("Options" if flag else "Arguments")
        name = ", ".join(f"`{name}`" for name in (*each.opts, *each.secondary_opts)) if flag else f"`{each.metavar}`"
        value = f" `{each.metavar}`" if flag and each.metavar else ""
        needed = " (required)" if each.required else ""
        panels.setdefault(panel, []).append(f"| {name}{value} | {cell(plain(each.help))}{needed} |")
    for panel, rows in panels.items():
        yield f"\n| {panel.lower()} | |\n|---|---|\n" + "\n".join(rows) + "\n"


SOLVE = "overlace solve"


def command_text(command: Any, path: str, level: int = 1) -> str:
    """A command, and those below it."""
    arguments = " ".join(
        each.metavar or each.name.upper() for each in command.params if not each.opts[0].startswith("-")
    )
    below = {} if path == SOLVE else children(command)
    takes = "COMMAND" if below else "PLANNER RUN [OPTIONS]" if path == SOLVE else "[OPTIONS]"
    usage = f"{path} {takes} {arguments}".strip()
    parts = [f"{'#' * level} {path}\n", f"{plain(command.help)}\n", f"```\n{usage}\n```\n"]
    if example := plain(command.epilog):
        parts.append(re.sub(r"^(Examples?: )(.*)", r"\1`\2`", example, flags=re.DOTALL) + "\n")
    parts += options_table(command)
    parts += ["Each [planner](../planners.md) has options of its own.\n"] if path == SOLVE else []
    parts += [command_text(each, f"{path} {name}", level + 1) for name, each in below.items()]
    return "\n".join(parts)


def answer_of(*words: str) -> Any:
    """What a command prints as JSON."""
    with redirect_stdout(StringIO()) as out:
        code = run([*words, "--json"])
    if code:
        raise RuntimeError(f"overlace {' '.join(words)} ended with {code}")
    return json.loads(out.getvalue())


def table(heads: tuple[str, ...], rows: list[tuple[str, ...]]) -> str:
    """Rows as a table of a page."""
    lines = [f"| {' | '.join(heads)} |", f"|{'---|' * len(heads)}"]
    return "\n".join([*lines, *(f"| {' | '.join(map(cell, row))} |" for row in rows)]) + "\n"


def commands_page(commands: dict[str, Any]) -> str:
    """The list of commands."""
    rows = [
        (f"[overlace {name}](commands/{name}.md)", plain(each.help).split("\n")[0]) for name, each in commands.items()
    ]
    after = "Every command takes `--help`, and `--debug` for the full traceback of a failure; most take `--json`.\n"
    return f"# Commands\n\n{after}\n" + table(("command", "what it does"), rows)


def planners_page(solve: Any) -> str:
    """Every planner with its paper and its fields."""
    parts = ["# Planners\n", f"`{SOLVE} PLANNER RUN`, the fields as options; in Python a dataclass of these fields.\n"]
    found = children(solve)
    common = frozenset.intersection(*(frozenset(each.name for each in command.params) for command in found.values()))
    every = next(iter(found.values()))
    parts += ["All take:\n", *options_table(every, frozenset(each.name for each in every.params) - common)]
    for row in answer_of("planners"):
        name, command = row["planner"], found[row["planner"]]
        parts += [
            f"## {name}\n",
            f"`{overlace.PLANNERS[name].__name__}`, {row['paper'] or 'beyond the papers'}. {row['about']}\n",
        ]
        parts += options_table(command, common)
    return "\n".join(parts)


def metrics_page() -> str:
    """Every metric."""
    heads = ("metric", "unit", "better", "what it is", "source")
    rows = [(m["metric"], m["unit"], m["direction"], m["definition"], m["citation"]) for m in answer_of("metrics")]
    return "# Metrics\n\n" + table(heads, rows)


def tables_page() -> str:
    """The columns of the tables of a trace and of a run."""
    parts = [
        "# Tables of traces and runs\n",
        "Parquet files; ids are hashes of names. `overlace schema TABLE` prints the same.\n",
    ]
    listing = answer_of("schema")
    for kind in ("trace", "run"):
        for name in listing[kind]:
            columns = answer_of("schema", name)["columns"]
            rows = [(c["column"], c["type"], "yes" if c["nullable"] else "") for c in columns]
            parts += [f"## {kind}: {name}\n", table(("column", "type", "may be empty"), rows)]
    return "\n".join(parts)


MORE = {
    "Stages of ingest": "overlace.ingest.stages",
    "Limits and goals": "overlace.limits",
    "Laws of planners": "overlace.testing",
    "Clients of running networks": "overlace.live.client",
    "Errors": "overlace.errors",
}
"""Modules that users import from, beyond what `overlace` itself has."""


def python_page() -> str:
    """What `overlace` exports, from docstrings and types."""
    parts = ["# Python\n", "```python\nimport overlace\n```\n"]
    for name in sorted(set(overlace.__all__) - {"PLANNERS"}, key=str.lower):
        found = getattr(overlace, name)
        found = getattr(found, "_verb", found)
        parts += [f"::: {found.__module__}.{found.__qualname__}\n    options: {{heading_level: 2}}\n"]
    parts += ["Planners are classes of `overlace` too: [all of them](planners.md), in `overlace.PLANNERS` by name.\n"]
    return "\n".join(parts)


def pages() -> dict[str, str]:
    """The generated pages by their place in the site."""
    commands = children(ROOT)
    made = {f"reference/commands/{name}.md": command_text(each, f"overlace {name}") for name, each in commands.items()}
    made["reference/commands.md"] = commands_page(commands)
    made["reference/planners.md"] = planners_page(commands["solve"])
    made["reference/metrics.md"] = metrics_page()
    made["reference/tables.md"] = tables_page()
    made["reference/python.md"] = python_page()
    for title, module in MORE.items():
        made[f"reference/{module}.md"] = f"# {title}\n\n::: {module}\n    options:\n      show_root_heading: false\n"
    return made
