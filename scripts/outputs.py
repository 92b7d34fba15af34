"""Are the outputs in our pages what the commands print?

    python scripts/outputs.py README.md FOLDER [--write] [--only WORD]

In a block, `$ ` begins a command, and what follows is its standard output: `...` alone stands for any lines, at the end
of a line for the rest of it. Commands run in FOLDER, those of a page one after the other; `--only peek` runs those that
hold the word. `--write` puts what is printed into the page, cut as it was.
"""

from __future__ import annotations

import argparse
import os
import re
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

BLOCK = re.compile(r"^```\n(\$ .*?)^```$", re.DOTALL | re.MULTILINE)
GAP = "..."


class Shown(NamedTuple):
    """A command of a page, and what the page says that it prints."""

    command: str
    output: list[str]


def commands_of(text: str) -> Iterator[Shown]:
    """The commands of a page in order, with their outputs."""
    for block in BLOCK.findall(text):
        for part in re.split(r"^\$ ", block, flags=re.MULTILINE)[1:]:
            command, _, output = part.partition("\n")
            yield Shown(command, output.splitlines())


def agrees(shown: list[str], printed: list[str]) -> bool:
    """Whether what a page shows is what was printed, but for what it leaves out."""
    pattern = "".join(
        r"(?:.*\n)*?"
        if line == GAP
        else re.escape(line.removesuffix(GAP)) + (".*" if line.endswith(GAP) else "") + r"\n"
        for line in shown
    )
    return re.fullmatch(pattern, "".join(f"{line.rstrip()}\n" for line in printed)) is not None


def cut(printed: list[str], like: list[str]) -> list[str]:
    """What was printed, with as much left out as a page did before."""
    printed = [line.rstrip() for line in printed]
    if GAP in like:
        first, last = like.index(GAP), len(like) - 1 - like.index(GAP)
        if len(printed) > first + last:
            printed = [*printed[:first], GAP, *printed[len(printed) - last :]]

    most = max((len(line) for line in like if line.endswith(GAP) and line != GAP), default=0)
    return [f"{line[: most - len(GAP)]}{GAP}" if most and len(line) > most else line for line in printed]


def outcome(command: str, folder: Path) -> list[str]:
    """What a command prints."""
    path = os.pathsep.join([str(Path(sys.executable).parent), os.environ["PATH"]])
    env = {**os.environ, "PATH": path, "COLUMNS": "200"}
    done = subprocess.run(["sh", "-c", command], cwd=folder, env=env, capture_output=True, text=True, check=False)
    if done.returncode:
        raise RuntimeError(f"{command} ended with {done.returncode}: {done.stderr.strip()[-500:]}")
    return done.stdout.splitlines()


def check(page: Path, folder: Path, only: str = "", write: bool = False) -> list[str]:
    """The commands of a page whose output is another one, each with what is printed."""
    text, wrong = page.read_text(), []
    for shown in list(commands_of(text)):
        if only not in shown.command:
            continue
        printed = outcome(shown.command, folder)
        if agrees(shown.output, printed):
            continue
        now = cut(printed, shown.output)
        wrong.append("\n".join([f"$ {shown.command}", *now]))
        before, after = ("\n".join([f"$ {shown.command}", *lines]) for lines in (shown.output, now))
        text = text.replace(before, after)
    if write:
        page.write_text(text)
    return wrong


def main() -> int:
    """Check a page, or write its outputs."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("page", type=Path)
    parser.add_argument("folder", type=Path)
    parser.add_argument("--only", default="", help="only commands that hold this word")
    parser.add_argument("--write", action="store_true", help="put what is printed into the page")
    asked = parser.parse_args()
    wrong = check(asked.page, asked.folder, asked.only, asked.write)
    print("\n".join(wrong) or "as printed")
    return 0 if asked.write or not wrong else 1


if __name__ == "__main__":
    sys.exit(main())
