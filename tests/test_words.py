"""One word per thing, in plain English: what the glossary replaced does not come back."""

import ast
import re
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
QUOTING = {"test_words.py", "test_page.py"}  # they name the words that are refused
TEXTS = [
    *(ROOT / "overlace").rglob("*.py"),
    *(ROOT / "overlace").rglob("*.j2"),
    *(ROOT / "reproductions").rglob("*.py"),
    *(path for path in (ROOT / "tests").rglob("*.py") if path.name not in QUOTING),
    *(ROOT / "docs").rglob("*.md"),
    *(ROOT / name for name in ("README.md", "CONTRIBUTING.md", "Makefile", "benchmarks/README.md")),
]
REPLACED = {
    r"\b(has|have) not seen\b": "held-out traffic",
    r"\bunseen traffic\b": "held-out traffic",
    r"\bpart(s)? that plan(s|ned)?\b": "training window",
    r"\bparts? that judges?\b": "held-out traffic",
    r"\bmessages that plan\b": "share of the log used for planning",
    r"\bthe bill\b": "traffic cost",
    r"\bhang(s)? together\b": "must stay connected",
    r"\bsays why for every step\b": "explains every step",
    r"\btaken from PyPI\b": "installed from PyPI if absent",
    r"\b(is|are) to come\b": "not implemented yet",
    r"\bsays what came when\b": "release history",
    r"\bbeside the papers\b": "compared with the papers",
    r"\bthis machine lacks\b": "check this installation",
    r"\band no more\b(?=\")": "print the version",
    r"\bwhole trace of an error\b": "full traceback",
    r"\bfolder to make\b": "output folder",
    r"\bwishes?\b": "limits, goal",
    r"\bchanged together, at most\b": "maximum total changes",
    r"\bstands between columns\b": "column delimiter",
    r"\bnothing beats what\b": "no change recommended",
    r"\bbound by: ": "limited by",
}
CLASSES = {"Wishes", "Sure", "Borne", "Heard", "Calls", "Desk", "Now", "Way", "Knows", "Told"}
FUNCTIONS = {"told", "less", "said_of", "viewed", "united", "begun", "knows", "said", "heard"}


@pytest.mark.parametrize("pattern", REPLACED, ids=REPLACED.values())
def test_what_was_replaced_does_not_come_back(pattern):
    """Names of quotations and old options aside, in code (names_of_tests too), docs and messages alike."""
    found = [
        f"{path.relative_to(ROOT)}: {match.group(0)}"
        for path in TEXTS
        for match in re.finditer(pattern, re.sub(r"[\s_]+", " ", path.read_text()), re.IGNORECASE)
    ]
    assert found == []


def test_classes_and_functions_are_called_by_plain_words():
    found = []
    for path in (each for each in TEXTS if each.suffix == ".py"):
        for node in ast.walk(ast.parse(path.read_text())):
            if isinstance(node, ast.ClassDef) and node.name in CLASSES:
                found.append(f"{path.relative_to(ROOT)}: class {node.name}")
            if isinstance(node, ast.FunctionDef) and node.name.lstrip("_") in FUNCTIONS:
                found.append(f"{path.relative_to(ROOT)}: def {node.name}")
    assert found == []


UNCLEAR = {
    r"\brows of traffic\b": "messages that are alike, rows",
    r"\bslices? of time\b": "stretches of the log",
    r"\bsaves? at least [^ ]*% more\b": "of what, in a sentence",
    r"\b(is|are) taken to serve\b": "clients may move to any broker",
    r"\bthe nearest( one)? with room\b": "the nearest broker below its limits",
    r"\bown cost\b": "planner's estimate",
    r"\bconnects? anew\b": "reconnects",
    r"\bworst single failure\b": "worst failure of a broker",
    r"\bfacets?\b(?!:)": "kind of planner; `facets:` is the key of plan.json",
    r"\bhomes?\b(?![:=])": "the broker of a client; `homes:` is the table",
    r"\bhomeless\b": "without a known broker",
    r"\bcounts\b|\bcount (as|for)\b": "is taken as, applies, is measured by",
    r"(?<!\d)\b0 (kept|changed|new)\b(?! \+)": "left out where it is nothing",
    r"\bwhoever\b": "what is done, not by whom",
}
"""What users did not understand on first reading, and what is said instead."""
SENTENCES = [path for path in (ROOT / "overlace").rglob("*.py") if "testing" not in path.parts]
"""What authors of planners read has their names for things."""


def sentences_of(path):
    """Texts of a module that are no names: of several words, braces for what is put in; docstrings are not shown."""
    tree = ast.parse(path.read_text())
    inside = {id(part) for node in ast.walk(tree) if isinstance(node, ast.JoinedStr) for part in node.values}
    inside |= {id(node.value) for node in ast.walk(tree) if isinstance(node, ast.Expr)}
    for node in ast.walk(tree):
        if isinstance(node, ast.JoinedStr):
            text = "".join(each.value if isinstance(each, ast.Constant) else "{}" for each in node.values)
        elif isinstance(node, ast.Constant) and isinstance(node.value, str) and id(node) not in inside:
            text = node.value
        else:
            continue
        names = re.fullmatch(r"[a-z_0-9 ]+", text) and "_" in text  # a list of metrics
        if " " in text.strip() and not names:
            yield node.lineno, text


def test_what_users_see_has_no_word_that_was_not_understood():
    """Messages, help, descriptions of fields; the templates of pages; help texts that are docstrings of commands."""
    shown = [(f"{path.relative_to(ROOT)}:{line}", text) for path in SENTENCES for line, text in sentences_of(path)]
    for path in (ROOT / "overlace").rglob("*.j2"):
        text = re.sub(r"{[{%#].*?[}%#]}|<[^>]*>", " ", path.read_text(), flags=re.DOTALL)
        shown += [(f"{path.relative_to(ROOT)}", text)]
    shown += [(f"help of {name}", text) for name, text in helps()]
    assert len(shown) > 1500
    found = [
        f"{where}: {match[0]!r} in {text.strip()[:80]!r}: {instead}"
        for where, text in shown
        for pattern, instead in UNCLEAR.items()
        if (match := re.search(pattern, text, re.IGNORECASE))
    ]
    assert found == []


def helps():
    """The help of every command, with its options."""
    import typer

    from overlace.cli.commands import app

    def walk(command, name):
        context = typer.Context(command, info_name=name)
        yield name, " ".join(filter(None, [command.help, *(getattr(each, "help", "") for each in command.params)]))
        for each in command.list_commands(context) if hasattr(command, "list_commands") else ():
            yield from walk(command.get_command(context, each), f"{name} {each}")

    return list(walk(typer.main.get_command(app), "overlace"))
