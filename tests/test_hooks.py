"""Before a commit runs what `make check` runs: one list, in the Makefile."""

import subprocess
from pathlib import Path

import yaml

ROOT = Path(__file__).parents[1]
CONFIG = yaml.safe_load((ROOT / ".pre-commit-config.yaml").read_text())


def test_the_hook_is_make_check_and_fetches_nothing():
    [repository] = CONFIG["repos"]
    assert repository["repo"] == "local"
    [hook] = repository["hooks"]
    assert (hook["entry"], hook["language"]) == ("make check", "system")
    assert hook["always_run"]
    assert not hook["pass_filenames"]


def test_make_check_runs_every_check():
    shown = subprocess.run(["make", "--dry-run", "check"], cwd=ROOT, capture_output=True, text=True, check=True).stdout
    for check in ("ruff check .", "ruff format --check .", "mypy", "lint-imports", "concordance.py --check"):
        assert f"/{check}" in shown
