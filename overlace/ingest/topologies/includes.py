"""Files that a configuration includes: those in its own folder or below it, and no others."""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path

from overlace.errors import BadTrace

DEEPEST = 8
"""How many files deep includes may go."""


@dataclass
class Includes:
    """What was included so far, and by which files the one that is being read was included."""

    files: set[Path] = field(default_factory=set)
    outer: tuple[Path, ...] = ()

    def find(self, name: str, file: Path) -> tuple[Path | None, str]:
        """(path, why not) of what a file includes; refused if that leads back to the file."""
        folder = file.parent.resolve()
        try:
            path = (folder / name).resolve()
            inside, there = path.is_relative_to(folder), path.exists()
        except (OSError, ValueError, RuntimeError):  # too long, a NUL, links in a ring
            return None, "no such file"
        if not inside:
            return None, "it lies outside of the folder"
        if not there:
            return None, "no such file"
        if path in (*self.outer, file.resolve()):
            raise BadTrace(f"{file}: include {name} leads back to a file that includes it. Take one of them out.")
        if len(self.outer) >= DEEPEST:
            raise BadTrace(f"{file}: include {name}: expected files at most {DEEPEST} deep.")
        return path, ""

    def enter(self, path: Path, file: Path) -> Includes:
        """The same for a file that is included by another."""
        self.files.add(path)
        return Includes(self.files, (*self.outer, file.resolve()))
