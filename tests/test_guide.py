"""docs/adding-a-planner.md is taken at its word: its files, its catalog lines, its tests, its commands."""

import ast
import re
import shlex
import subprocess
import sys
import types
from dataclasses import fields
from pathlib import Path

import pytest

from overlace.catalog import PLANNERS
from overlace.testing import check_planner, small_observations
from overlace.trace.runs import write_observation
from overlace.workloads.square import square

ROOT = Path(__file__).parent.parent
GUIDE = (ROOT / "docs/adding-a-planner.md").read_text(encoding="utf-8")
FILES = re.findall(r"^`(\S+\.py)`:\n\n```python\n(.*?)^```", GUIDE, re.S | re.M)
COMMANDS = [line for block in re.findall(r"^```sh\n(.*?)^```", GUIDE, re.S | re.M) for line in block.splitlines()]
OURS = 'lint.isort.known-first-party = ["overlace", "tests"]'  # the guide's files do not exist
NAMES = ["tree.shortest-paths", "placement.partner"]


@pytest.fixture
def guided(monkeypatch):
    """The guide's planners where the guide puts them, by name in the catalog."""
    for path, code in FILES:
        if path == "overlace/catalog.py":
            imported, _, lines = code.partition("\n\nPLANNERS")
            found: dict = {}
            exec(imported, found)
            for name, kind in re.findall(r'^    "(\S+)": (\w+),$', lines, re.M):
                monkeypatch.setitem(PLANNERS, name, found[kind])
        elif path.startswith("overlace/"):
            name = path.removesuffix(".py").replace("/", ".")
            module = types.ModuleType(name)
            monkeypatch.setitem(sys.modules, name, module)
            exec(compile(code, path, "exec"), module.__dict__)
    return {name: PLANNERS[name] for name in NAMES}


def test_every_python_block_of_the_guide_is_a_file_that_is_run():
    assert len(FILES) == GUIDE.count("```python") == 6
    assert {path for path, _ in FILES if not path.startswith("tests/")} == {
        "overlace/catalog.py",
        "overlace/planners/tree/shortest_paths.py",
        "overlace/planners/placement/partner.py",
    }


@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize("seed", [0, 7])
def test_the_guide_s_planners_keep_the_laws(guided, name, seed):
    (facet,) = guided[name].facets
    steps = [len(check_planner(guided[name](), each, seed).steps) for each in small_observations(facet).values()]
    assert sum(steps) > 0


def test_the_guide_s_planners_keep_the_laws_on_a_larger_network(guided):
    for name in NAMES:
        assert len(check_planner(guided[name](), square(40, 120, 100, seed=3)).steps) > 3


def test_the_guide_s_fields_have_help_and_its_code_types_and_docstrings(guided):
    for kind in guided.values():
        assert all(each.metadata["help"] for each in fields(kind))
    for path, code in FILES:
        for each in ast.walk(ast.parse(code)) if path.startswith("overlace/planners") else ():
            if isinstance(each, ast.FunctionDef | ast.ClassDef) and not each.name.startswith("__"):
                assert ast.get_docstring(each), each.name


@pytest.mark.parametrize(("path", "code"), [each for each in FILES if each[0].startswith("tests/")])
def test_the_guide_s_tests_pass(guided, tmp_path, path, code):
    """Run by pytest itself, in this process, as a file of that name."""
    file = tmp_path / Path(path).name
    file.write_text(code)
    assert pytest.main(["-q", "-p", "no:cacheprovider", "-p", "no:xdist", f"--rootdir={tmp_path}", str(file)]) == 0


def test_the_guide_s_commands_work(guided, overlace):
    brokers = [f"site-{b}" for b in range(24)]
    write_observation(Path("demo-run"), square(24, 96, 200), {"broker": brokers})
    assert len(COMMANDS) == 4
    printed = {}
    for line in COMMANDS:
        program, *words = shlex.split(line)
        code, printed[line], error = overlace(*words)
        assert (program, code) == ("overlace", 0), error
    planners, shown, *_, placed = printed.values()
    assert "Every broker on its cheapest path to one hub" in planners
    assert "that all paths lead to; 0 or more" in " ".join(shown.replace("│", " ").split())
    assert "placement.partner" in placed


@pytest.mark.parametrize(("path", "code"), [each for each in FILES if each[0] != "overlace/catalog.py"])
@pytest.mark.parametrize("words", [("check", "--config", OURS), ("format", "--check")])
def test_the_guide_s_code_passes_the_house_s_checks(path, code, words):
    pytest.importorskip("ruff")
    run = [sys.executable, "-m", "ruff", *words, "--stdin-filename", path, "-"]
    done = subprocess.run(run, input=code, cwd=ROOT, capture_output=True, text=True)
    assert done.returncode == 0, done.stdout + done.stderr
