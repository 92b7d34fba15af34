"""Benchmarks run: the code of each can be loaded, and those that take a size run with a tiny one."""

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent
SCRIPTS = sorted(path.stem for path in (ROOT / "benchmarks").glob("*.py"))


@pytest.fixture
def run(tmp_path):
    """Run Python in a copy of the benchmarks, so that no page is written here."""
    shutil.copytree(ROOT / "benchmarks", tmp_path, dirs_exist_ok=True)

    def python(*words):
        environment = {**os.environ, "PYTHONPATH": str(ROOT), "RUST_LOG": "off"}
        done = subprocess.run(
            [sys.executable, *words], cwd=tmp_path, env=environment, capture_output=True, text=True, check=False
        )
        assert done.returncode == 0, done.stderr[-3000:]

    return python


def test_every_benchmark_can_be_loaded(run):
    run("-c", f"import sys; sys.path.insert(0, '.'); import {', '.join(SCRIPTS)}")


@pytest.mark.parametrize(
    "words",
    [
        ["optimize.py", "3000:40"],
        ["pipeline.py", "--engine", "sail", "20000"],
        ["hold.py", "--messages", "5000", "--seeds", "1", "--effort", "0", "--changes", "both, 20", "--", "newcomers"],
    ],
    ids=lambda words: words[0],
)
def test_a_benchmark_runs_with_a_tiny_size_and_writes_its_page(run, tmp_path, words):
    run(*words)
    page = (tmp_path / words[0]).with_suffix(".md")
    assert words[-1] in page.read_text().splitlines()[2]
