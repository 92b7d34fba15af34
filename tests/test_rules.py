"""Imports, record types and names keep to the rules of the house; the import rules bite wherever one is broken."""

import ast
import shutil
import subprocess
import sys
import tomllib
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
CONTRACTS = {
    each["name"]: each
    for each in tomllib.loads((ROOT / "pyproject.toml").read_text())["tool"]["importlinter"]["contracts"]
}
LAYERS = [[room.strip(" ()") for room in layer.split("|")] for layer in CONTRACTS["Imports point one way"]["layers"]]
ROOMS = sorted(
    path.stem for path in (ROOT / "overlace").iterdir()
    if (path.suffix == ".py" or (path / "__init__.py").exists()) and not path.stem.startswith("__")
)  # fmt: skip
ALONE = {
    "pyspark": ("spark", "ingest"),
    "altair": ("report",),
    "vl_convert": ("report",),
    "nats": ("live",),
    "paho": ("live",),
    "pandas": (),
}
"""What only some rooms may import."""


@pytest.fixture
def lint(tmp_path):
    """Plant imports, each a (room, what) pair; what lint-imports says."""

    def run(planted):
        ignored = shutil.ignore_patterns("__pycache__")
        shutil.copytree(ROOT / "overlace", tmp_path / "overlace", ignore=ignored)
        shutil.copy(ROOT / "pyproject.toml", tmp_path)
        for room, what in planted:
            path = tmp_path / "overlace" / room
            file = path / "planted.py" if path.is_dir() else path.with_suffix(".py")
            with file.open("a") as out:
                out.write(f"\nimport {what}\n")
        found = subprocess.run(
            [sys.executable, "-c", "from importlinter.cli import lint_imports_command as c; c()", "--no-cache"],
            cwd=tmp_path, env={"PYTHONPATH": str(tmp_path), "COLUMNS": "300"}, capture_output=True, text=True,
        )  # fmt: skip
        return found.returncode, found.stdout + found.stderr

    return run


def name_in(room, planted=ROOT / "overlace"):
    return f"overlace.{room}.planted" if (planted / room).is_dir() else f"overlace.{room}"


def test_every_room_is_in_a_layer():
    assert sorted({room for layer in LAYERS for room in layer}) == ROOMS


def test_what_one_room_alone_may_import_is_caught_in_every_other(lint):
    planted = [(room, what) for room in ROOMS for what, mine in ALONE.items() if room not in mine]
    code, out = lint(planted)
    assert code == 1
    missing = [(room, what) for room, what in planted if f"{name_in(room)} -> {what}" not in out]
    assert missing == []


def test_an_import_from_any_layer_to_the_one_above_is_caught(lint):
    there = [[room for room in layer if room in ROOMS] for layer in LAYERS]
    planted = [(low, f"overlace.{high}") for i, lows in enumerate(there[1:]) for low in lows for high in there[i]]
    code, out = lint(planted)
    assert code == 1
    missing = [(low, high) for low, high in planted if f"{name_in(low)} -> {high}" not in out]
    assert missing == []


RECORDS = {"BaseModel", "NamedTuple", "Record", "Strict", "Struct", "TypedDict", "dataclass"}


def last_name(node):
    """`dataclass` of `@dataclasses.dataclass(frozen=True)`."""
    while isinstance(node, ast.Call | ast.Subscript):
        node = node.func if isinstance(node, ast.Call) else node.value
    return node.attr if isinstance(node, ast.Attribute) else getattr(node, "id", "")


def record_types():
    """(name, file) of each class that is a record by its bases or decorators, or inherits from one in its file."""
    found = []
    for path in sorted((ROOT / "overlace").rglob("*.py")):
        records = set(RECORDS)
        for node in ast.walk(ast.parse(path.read_text())):
            if isinstance(node, ast.ClassDef) and records & {*map(last_name, node.bases + node.decorator_list)}:
                records.add(node.name)
                found.append((node.name, str(path.relative_to(ROOT))))
    return found


def test_no_two_record_types_have_one_name():
    found = record_types()
    files = {name: [file for each, file in found if each == name] for name, _ in found}
    assert len(files) > 200
    assert {name: where for name, where in files.items() if len(where) > 1} == {}
