"""What is kept between the windows of `live adapt`: the last windows, and when each client last moved.

`adapt.json` lies in the folder of the network file, 0600, written whole; the traces of the windows lie in the folder
`adapt` beside it. Who started again reads it. A file that is torn is said so and not trusted.
"""

from __future__ import annotations

import contextlib
import fcntl
import json
import os
import shutil
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from overlace.errors import BadNetwork, Busy
from overlace.live.deployment import Deployment
from overlace.live.files import write_files
from overlace.live.windows import Window
from overlace.trace.store import Trace

VERSION = 1
NAME = "adapt.json"


@dataclass
class RecentWindows:
    """The last windows, in order, and the window after which each client last moved."""

    number: int = 0  # of the last window
    windows: dict[int, Window] = field(default_factory=dict)
    moved: dict[str, int] = field(default_factory=dict)
    applies: int = 0

    def document(self) -> dict[str, Any]:
        """As JSON."""
        windows = [{"window": n, "begin_us": each.begin_us, "end_us": each.end_us} for n, each in self.windows.items()]
        return {"adapt": VERSION, "number": self.number, "applies": self.applies, "windows": windows,
                "moved": dict(sorted(self.moved.items()))}  # fmt: skip

    def resting(self, rest: int) -> list[str]:
        """Clients that moved within so many windows."""
        return sorted(name for name, when in self.moved.items() if self.number - when <= rest)


class Memory:
    """Where it is kept."""

    def __init__(self, deployment: Deployment) -> None:
        self.folder = deployment.folder / "adapt"
        self.path = deployment.folder / NAME
        self.notes: list[str] = []

    @contextlib.contextmanager
    def held(self) -> Iterator[None]:
        """Hold it; refused if another `adapt` does."""
        self.folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        with open(os.open(self.folder / "lock", os.O_RDWR | os.O_CREAT, 0o600), "rb+") as file:
            try:
                fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except BlockingIOError:
                raise Busy(f"{self.folder}: another `overlace live adapt` is at work here. Stop it first.") from None
            yield

    def read(self) -> RecentWindows:
        """What was kept; of a file that is torn only that windows were counted."""
        try:
            document = json.loads(self.path.read_bytes())
        except FileNotFoundError:
            return RecentWindows(number=self._highest())
        except ValueError:
            return self._begin_anew("is torn")
        if isinstance(document, dict) and document.get("adapt", VERSION) != VERSION:
            raise BadNetwork(f"{self.path}: kept by another version of Overlace. Use that one, or remove the file.")
        try:
            kept = RecentWindows(
                number=int(document["number"]),
                windows={
                    int(each["window"]): Window(self.window(int(each["window"])), *_times(each))
                    for each in document["windows"]
                },
                moved={str(name): int(when) for name, when in document["moved"].items()},
                applies=int(document["applies"]),
            )
        except (KeyError, TypeError, ValueError, AttributeError):
            return self._begin_anew("does not hold what was kept")
        kept.windows = {n: each for n, each in sorted(kept.windows.items()) if Trace.exists(str(each.trace))}
        return kept

    def _begin_anew(self, what: str) -> RecentWindows:
        self.notes.append(f"{self.path} {what}: it begins anew, and nobody rests")
        return RecentWindows(number=self._highest())

    def _highest(self) -> int:
        found = [each.name.partition("-")[2] for each in self.folder.glob("window-*")]
        return max((int(each) for each in found if each.isdecimal()), default=0)

    def write(self, kept: RecentWindows) -> None:
        """Keep it."""
        write_files(self.path.parent, {self.path.name: json.dumps(kept.document(), ensure_ascii=False) + "\n"})

    def window(self, number: int) -> Path:
        """The trace of a window."""
        return self.folder / f"window-{number:06d}"

    def run(self, number: int) -> Path:
        """The run, with the plan, that was made after a window."""
        return self.folder / f"run-{number:06d}"

    def sweep(self, kept: RecentWindows) -> None:
        """Remove the traces that are not kept, and the runs beside them."""
        oldest = min(kept.windows, default=kept.number)
        for each in self.folder.glob("*-*"):
            what, _, number = each.name.partition("-")
            if not number.isdecimal() or what not in ("window", "run"):
                continue
            stays = int(number) in kept.windows if what == "window" else int(number) >= oldest
            if not stays:
                shutil.rmtree(each, ignore_errors=True)


def _times(document: dict[str, Any]) -> tuple[int, int]:
    return int(document["begin_us"]), int(document["end_us"])
