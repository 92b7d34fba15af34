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
