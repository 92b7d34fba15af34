"""Where is line 12 of Algorithm 3? Writes docs/concordance.md from the tags in the code.

The lines of the papers' algorithms are data (docs/papers/algorithms.toml). A tag is `# A3:12` at the
end of a line of code, several as `# A3:14, A3:17`; it means the paper of the folder it stands in.
Every line of an algorithm that is built must be tagged or listed as structure, and no tag may name a
line that does not exist. `--check` writes nothing and fails if the page is not up to date.
"""

from __future__ import annotations

import re
import sys
import tomllib
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).parent.parent
PAPERS = {"placement": "CC12", "tree": "OCBR07", "channels": "PART10", "mesh": "TDCD17"}
TAG = re.compile(r"\b([AF]\d+):(\d+)\b")


@dataclass(frozen=True)
class Algorithm:
    """A printed algorithm: its lines in our words, and the file that builds it."""

    paper: str
    key: str
    name: str
    built: str
    structure: tuple[int, ...]
    lines: tuple[str, ...]


Tags = dict[tuple[str, str, int], list[str]]


def algorithms(data: str) -> list[Algorithm]:
    """The algorithms listed as data."""
    rows = tomllib.loads(data)["algorithm"]
    return [Algorithm(**{**row, "structure": tuple(row["structure"]), "lines": tuple(row["lines"])}) for row in rows]


def tags_in(root: Path) -> Tags:
    """Every tag in a comment of a facet's code: (paper, algorithm, line) -> places."""
    found: Tags = {}
    for facet, paper in PAPERS.items():
        for path in sorted((root / "overlace" / "planners" / facet).glob("*.py")):
            for number, text in enumerate(path.read_text().splitlines(), 1):
                comment = text.partition("# ")[2]
                for key, line in TAG.findall(comment):
                    place = f"{path.relative_to(root)}:{number}"
                    found.setdefault((paper, key, int(line)), []).append(place)
    return found


def faults(known: list[Algorithm], tags: Tags, root: Path) -> list[str]:
    """What is neither tagged nor structure, and what is tagged but does not exist."""
    wrong = []
    lines = {(a.paper, a.key, n) for a in known for n in range(1, len(a.lines) + 1)}
    wrong += [f"{places[0]}: {p} {k} has no line {n}" for (p, k, n), places in tags.items() if (p, k, n) not in lines]
    for each in known:
        if not (root / each.built).exists():
            continue
        for n, text in enumerate(each.lines, 1):
            if n not in each.structure and (each.paper, each.key, n) not in tags:
                wrong.append(f"{each.built}: no step is tagged {each.key}:{n} ({each.paper}: {text})")
    return wrong


def page(known: list[Algorithm], tags: Tags, root: Path) -> str:
    """The concordance as Markdown."""
    parts = [
        "# Concordance\n",
        "Which line of which paper's algorithm is where. Written by `make docs` from the tags in the code;",
        "do not edit. The words are ours; the line numbers are the papers' (OCBR07's Figure 3 has none, so its",
        "lines are counted from `optimize`, comments left out).\n",
    ]
    for each in known:
        state = "" if (root / each.built).exists() else " — *to come*"
        parts.append(f"## {each.paper} {each.key}: {each.name}{state}\n")
        parts.append("| line | what it says | where |\n|---|---|---|")
        for n, text in enumerate(each.lines, 1):
            places = ", ".join(f"`{place}`" for place in tags.get((each.paper, each.key, n), []))
            where = places or ("structure" if n in each.structure else "to come")
            parts.append(f"| {n} | {text} | {where} |")
        parts.append("")
    return "\n".join(parts)


def main() -> int:
    """Write the page, or with --check compare it."""
    known = algorithms((ROOT / "docs/papers/algorithms.toml").read_text())
    tags = tags_in(ROOT)
    wrong = faults(known, tags, ROOT)
    text, path = page(known, tags, ROOT), ROOT / "docs/concordance.md"
    if "--check" in sys.argv:
        if not path.exists() or path.read_text() != text:
            wrong.append("docs/concordance.md is not up to date: make docs")
    else:
        path.write_text(text)
    print("\n".join(wrong) if wrong else f"the concordance holds: {len(known)} algorithms, {len(tags)} tagged lines")
    return bool(wrong)


if __name__ == "__main__":
    sys.exit(main())
