"""What takes longer than `make test` may: runs it, reports how it went, and writes benchmarks/long.md.

    python scripts/long.py [--only killed runs wheel mutations] [--runs 10]

* killed: tests marked `long`: a kill -9 at every moment of an ingest, clusters with executors that lack something
* runs: the fast tests several times in a row, each time with other random examples
* wheel: the package built, installed into empty environments elsewhere on each Python, and its demo run there
* mutations: scripts/mutate.py

A part that is not run keeps its rows. Exits with 1 if something failed.
"""

from __future__ import annotations

import argparse
import os
import re
import subprocess
import sys
import time
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import NamedTuple

ROOT = Path(__file__).parent.parent
PAGE = ROOT / "benchmarks/long.md"
WHEEL = "tests/package/test_wheel.py"
FAST = "not jvm and not browser and not live and not long"
HEAD = """# What takes long

Written by `make test-long` (`python scripts/long.py`), on {cores} cores. A part keeps its rows until it is run again.

| part | command | seconds | outcome |
|---|---|---:|---|
"""


class Row(NamedTuple):
    """One command and how it went."""

    part: str
    command: str
    seconds: int
    outcome: str
    fine: bool = True

    def line(self) -> str:
        """As the page has it."""
        return f"| {self.part} | `{self.command}` | {self.seconds} | {self.outcome} |"


def run(part: str, words: Sequence[str], shown: str, env: Mapping[str, str] | None = None) -> Row:
    """Run a command, its output as it comes; the last line that counts something is the outcome."""
    print(f"== {part}: {shown}", flush=True)
    begin, lines = time.monotonic(), []
    process = subprocess.Popen(
        list(words),
        cwd=ROOT,
        env={**os.environ, **(env or {})},
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        errors="replace",
    )
    assert process.stdout is not None
    for line in process.stdout:
        lines.append(line.rstrip())
        print(line, end="", flush=True)
    code = process.wait()
    counted = [line for line in lines if re.search(r"\d+ (passed|failed)|mutations noticed", line)]
    outcome = re.sub(r" in [\d.]+s.*", "", counted[-1]).strip("= ") if counted else "done"
    seconds = round(time.monotonic() - begin)
    return Row(part, shown, seconds, outcome if code == 0 else f"**failed ({code})**: {outcome}", code == 0)


def pytest(part: str, shown: str, *words: str, **env: str) -> Row:
    """Run some tests."""
    return run(part, [sys.executable, "-m", "pytest", "-o", "addopts=", "--strict-markers", *words], shown, env)


def killed(_: int) -> Iterator[Row]:
    """Every moment to be killed, and clusters."""
    yield pytest("killed", f"pytest -m long --ignore {WHEEL}", "-m", "long", "--ignore", WHEEL)


def runs(count: int) -> Iterator[Row]:
    """The fast tests, again and again."""
    for i in range(1, count + 1):
        shown = f"OVERLACE_RANDOM=1 make test-fast (seed {i})"
        words = ("-n", "2", "-m", FAST, f"--hypothesis-seed={i}")
        yield pytest("runs", shown, *words, OVERLACE_RANDOM="1", PYTHONHASHSEED=str(i))


def wheel(_: int) -> Iterator[Row]:
    """The package from nothing, outside of the checkout, on every Python."""
    yield pytest("wheel", f"pytest -m long {WHEEL}", "-m", "long", "-rs", WHEEL)


def mutations(_: int) -> Iterator[Row]:
    """Known faults, one at a time."""
    yield run("mutations", [sys.executable, "scripts/mutate.py", "--jobs", "2"], "make mutate")


PARTS = {each.__name__: each for each in (killed, runs, wheel, mutations)}


def written_before() -> dict[str, list[str]]:
    """The rows of the page by part."""
    rows: dict[str, list[str]] = {part: [] for part in PARTS}
    for line in PAGE.read_text().splitlines() if PAGE.exists() else ():
        part = line.split("|")[1].strip() if line.count("|") == 5 else ""
        if part in rows:
            rows[part].append(line)
    return rows


def main() -> int:
    """Run the parts that are asked for."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--only", nargs="*", choices=list(PARTS), default=list(PARTS))
    parser.add_argument("--runs", type=int, default=10, help="how often the fast tests are run")
    asked = parser.parse_args()
    rows, fine = written_before(), True
    for part in asked.only:
        rows[part] = []
        for row in PARTS[part](asked.runs):
            fine &= row.fine
            rows[part].append(row.line())
            listed = "\n".join(line for each in PARTS for line in rows[each])
            PAGE.write_text(HEAD.format(cores=os.cpu_count()) + listed + "\n")
    print(f"== written to {PAGE.relative_to(ROOT)}")
    return 0 if fine else 1


if __name__ == "__main__":
    sys.exit(main())
