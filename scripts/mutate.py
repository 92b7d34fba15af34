"""Do the fast tests notice when the code is wrong? Plants mutations one at a time and reports which are noticed.

    python scripts/mutate.py [--list] [--only NAME|ROOM ...] [--jobs N]

The mutations are data (scripts/mutations.toml): a file, a text that stands in it exactly once, what is put in its
place, and the tests of the rooms that ought to notice. Everything happens in temporary copies of the tree. First the
tests that are needed must pass as they are; then each mutation is planted into a copy of its own and its tests are run
until one fails (those of arrays, observe and ingest with kernels as plain Python). Exits with 1 if a mutation
survives, with 2 if one cannot be planted or the tests fail without any.
"""

from __future__ import annotations

import argparse
import ast
import os
import re
import shutil
import signal
import subprocess
import sys
import tempfile
import time
import tomllib
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).parent.parent
LIST = ROOT / "scripts/mutations.toml"
FAST = "not jvm and not browser and not live"
LEFT_OUT = (".git", ".venv", ".hypothesis", ".mypy_cache", ".pytest_cache", ".ruff_cache", "demo-run", "*.part")
PLAIN = ("arrays", "observe", "ingest")
"""Rooms whose tests also pass with kernels as plain Python: theirs are run so, which spares compiling all callers."""
LONGEST = 1200
"""Seconds after which tests that hang count as having noticed."""


@dataclass(frozen=True)
class Mutation:
    """One fault to plant."""

    name: str
    file: str
    before: str
    after: str
    tests: tuple[str, ...]

    @property
    def room(self) -> str:
        """The folder of the package that the file is in, or its own name."""
        inside = self.file.removeprefix("overlace/").removeprefix("planners/")
        return inside.split("/")[0].removesuffix(".py")

    @property
    def plain(self) -> bool:
        """Whether its tests are run with kernels as plain Python."""
        return all(test.removeprefix("tests/").split("/")[0] in PLAIN for test in self.tests)


@dataclass(frozen=True)
class Outcome:
    """What became of a mutation: the test that failed, or nothing."""

    mutation: Mutation
    noticed: str
    seconds: float


def mutations(text: str) -> list[Mutation]:
    """The mutations listed as data."""
    return [Mutation(**{**row, "tests": tuple(row["tests"])}) for row in tomllib.loads(text)["mutation"]]


def faults(listed: Sequence[Mutation], root: Path) -> list[str]:
    """What is wrong with the list: texts that do not stand in their file exactly once, names twice, no tests."""
    found = []
    names = [each.name for each in listed]
    found += [f"{name}: stands twice" for name in sorted({each for each in names if names.count(each) > 1})]
    for each in listed:
        path = root / each.file
        count = path.read_text(encoding="utf-8").count(each.before) if path.exists() else 0
        if count != 1:
            found.append(f"{each.name}: {each.before!r} stands {count} times in {each.file}, expected once")
        if each.after == each.before:
            found.append(f"{each.name}: changes nothing")
        found += [f"{each.name}: there is no {test}" for test in each.tests if not (root / test).exists()]
        if not each.tests:
            found.append(f"{each.name}: names no tests")
    return found


def plant(mutation: Mutation, root: Path) -> None:
    """Put the fault into a tree, and forget kernels that were compiled from what it changes."""
    path = root / mutation.file
    text = path.read_text(encoding="utf-8")
    path.write_text(text.replace(mutation.before, mutation.after), encoding="utf-8")
    if "@kernel" not in text:
        return
    for module in importers(root, mutation.file):
        for compiled in (module.parent / "__pycache__").glob(f"{module.stem}.*.nb[ic]"):
            compiled.unlink()


def importers(root: Path, file: str) -> set[Path]:
    """The modules that import a file of the package, directly or through others, and the file itself."""
    used = {path: set(_imports(path)) for path in (root / "overlace").rglob("*.py")}
    found, ahead = set(), [root / file]
    while ahead:
        path = ahead.pop()
        if path in found:
            continue
        found.add(path)
        name = ".".join(path.relative_to(root).with_suffix("").parts).removesuffix(".__init__")
        ahead += [other for other, names in used.items() if name in names]
    return found


def _imports(path: Path) -> Iterator[str]:
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        if isinstance(node, ast.Import):
            yield from (each.name for each in node.names)
        elif isinstance(node, ast.ImportFrom) and node.module:
            yield node.module
            yield from (f"{node.module}.{each.name}" for each in node.names)


def run_tests(
    tree: Path, tests: Sequence[str], plain: bool, jobs: int = 1, limit: int | None = None
) -> tuple[int, str]:
    """(exit code, output) of the fast ones among these tests, up to the first that fails or the limit in seconds."""
    words = [sys.executable, "-m", "pytest", "-x", "-q", "-p", "no:cacheprovider", "--tb=no", "-m", FAST, *tests]
    words += ["-n", str(jobs)] if jobs > 1 else []
    env = {**os.environ, "PYTHONPATH": str(tree), "NUMBA_DISABLE_JIT": "1" if plain else "0"}
    with subprocess.Popen(
        words, cwd=tree, env=env, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, start_new_session=True
    ) as process:
        try:
            output, _ = process.communicate(timeout=limit)
        except subprocess.TimeoutExpired:
            os.killpg(process.pid, signal.SIGKILL)
            process.communicate()
            return 1, f"no end after {limit} s"
    return process.returncode, output


def noticed_by(code: int, output: str) -> str:
    """The first test that failed; nothing where all passed."""
    if code == 0:
        return ""
    if code == 5:
        raise SystemExit(f"no fast test was found:\n{output}")
    failed = re.search(r"^(?:FAILED|ERROR) (\S+)", output, re.MULTILINE)
    return failed[1] if failed else (output.strip().splitlines() or [f"exit code {code}"])[-1]


def copy(source: Path, target: Path) -> None:
    """A tree with its times, so that what was compiled stays valid."""
    shutil.copytree(source, target, ignore=shutil.ignore_patterns(*LEFT_OUT), symlinks=True)


def attempt(mutation: Mutation, clean: Path, folder: Path) -> Outcome:
    """Plant a mutation into a copy of its own and run its tests."""
    began = time.monotonic()
    tree = folder / mutation.name
    copy(clean, tree)
    plant(mutation, tree)
    noticed = noticed_by(*run_tests(tree, mutation.tests, mutation.plain, limit=LONGEST))
    shutil.rmtree(tree, ignore_errors=True)
    return Outcome(mutation, noticed, time.monotonic() - began)


def chosen(listed: Sequence[Mutation], only: Sequence[str]) -> list[Mutation]:
    """The mutations of these names or rooms; all of them where none is named."""
    unknown = [each for each in only if not any(each in (m.name, m.room) for m in listed)]
    if unknown:
        raise SystemExit(f"no mutation or room is called {', '.join(unknown)}")
    return [each for each in listed if not only or {each.name, each.room} & set(only)]


def say(outcome: Outcome, done: int, of: int) -> None:
    """A line for a mutation."""
    word = "noticed " if outcome.noticed else "SURVIVED"
    print(f"{done:3}/{of} {word} {outcome.mutation.name:28} {outcome.seconds:4.0f} s  {outcome.noticed}", flush=True)


def main(words: Sequence[str] | None = None) -> int:
    """Plant what was asked for; the exit code."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--list", action="store_true", help="list the mutations and plant none")
    parser.add_argument("--only", action="append", default=[], metavar="NAME|ROOM", help="only these; may be repeated")
    parser.add_argument("--jobs", type=int, default=1, metavar="N", help="how many at a time (default 1)")
    asked = parser.parse_args(words)
    listed = mutations(LIST.read_text(encoding="utf-8"))
    wrong = faults(listed, ROOT)
    if wrong:
        print("\n".join(wrong), file=sys.stderr)
        return 2
    wanted = chosen(listed, asked.only)
    if asked.list:
        for each in wanted:
            print(f"{each.room:10} {each.name:28} {each.file}: {each.before.strip()} -> {each.after.strip()}")
        return 0
    with tempfile.TemporaryDirectory(prefix="overlace-mutate-") as place:
        clean = Path(place) / "clean"
        copy(ROOT, clean)
        for plain in (True, False):
            tests = list(dict.fromkeys(test for each in wanted for test in each.tests if each.plain == plain))
            if not tests:
                continue
            print(f"first as it is{', as plain Python' if plain else ''}: {' '.join(tests)}", flush=True)
            red = noticed_by(*run_tests(clean, tests, plain, asked.jobs))
            if red:
                print(f"the tests fail without any mutation: {red}", file=sys.stderr)
                return 2
        survived = 0
        with ThreadPoolExecutor(max(asked.jobs, 1)) as pool:
            outcomes = pool.map(lambda each: attempt(each, clean, Path(place)), wanted)
            for done, outcome in enumerate(outcomes, 1):
                say(outcome, done, len(wanted))
                survived += not outcome.noticed
    print(f"{len(wanted) - survived} of {len(wanted)} mutations noticed by the fast tests, {survived} survived")
    return 1 if survived else 0


if __name__ == "__main__":
    sys.exit(main())
