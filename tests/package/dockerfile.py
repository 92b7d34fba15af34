"""A Dockerfile as steps, and the same steps without an engine: folders for stages, a virtual environment for Python."""

import json
import re
import shutil
from pathlib import Path
from typing import NamedTuple

from tests.package.build import ROOT, run

OF_AN_IMAGE = ("useradd", "USER")
"""What changes the users of the image: left out on a machine that is in use."""


class Step(NamedTuple):
    """An instruction and what follows it."""

    name: str
    words: str


def steps_of(text: str) -> list[list[Step]]:
    """The stages, each from its FROM on."""
    lines = re.sub(r"\\\n", " ", "".join(f"{line}\n" for line in text.splitlines() if not line.startswith("#")))
    stages: list[list[Step]] = []
    for line in filter(None, map(str.strip, lines.splitlines())):
        name, _, words = line.partition(" ")
        if name == "FROM":
            stages.append([])
        stages[-1].append(Step(name, words.strip()))
    return stages


def copied(step: Step) -> tuple[str, list[str], str]:
    """The stage (empty: the checkout), the sources and the target of a COPY."""
    words = step.words.split()
    stage = words.pop(0).removeprefix("--from=") if words[0].startswith("--from=") else ""
    return stage, words[:-1], words[-1]


def command_of(stage: list[Step]) -> list[str]:
    """What a container runs, without the words that a user adds."""
    return json.loads(next(step.words for step in stage if step.name == "ENTRYPOINT"))


def carry_out(stages: list[list[Step]], folder: Path, python: Path) -> tuple[Path, Path]:
    """Do what the file says; the folder that commands start in, and the programs of the last stage."""
    roots: dict[str, Path] = {}
    for number, stage in enumerate(stages):
        root, at = folder / f"stage-{number}", "/"
        root.mkdir()
        run(python, "-m", "venv", root / "env", at=folder)
        roots[stage[0].words.partition(" AS ")[2]] = root
        for step in stage[1:]:
            if step.name == "WORKDIR":
                at = step.words
                (root / at[1:]).mkdir(parents=True, exist_ok=True)
            elif step.name == "COPY":
                origin, sources, target = copied(step)
                into = root / (target if target.startswith("/") else f"{at}/{target}").lstrip("/")
                for source in sources:
                    copy(roots[origin] / source[1:] if origin else ROOT / source, into, target.endswith("/"))
            elif step.name == "RUN" and not any(word in step.words for word in OF_AN_IMAGE):
                words = re.sub(r"(?<![\w./\"])/(?=\w)", f"{root}/", step.words)
                run("sh", "-c", f'PATH="{root}/env/bin:$PATH"; {words}', at=root / at[1:])
    return root / at[1:], root / "env/bin"


def copy(source: Path, target: Path, inside: bool) -> None:
    """As COPY does: the content of a folder, or a file."""
    if source.is_dir():
        shutil.copytree(source, target, ignore=shutil.ignore_patterns("__pycache__"), dirs_exist_ok=True)
    else:
        target = target / source.name if inside or target.is_dir() else target
        target.parent.mkdir(parents=True, exist_ok=True)
        shutil.copy(source, target)
