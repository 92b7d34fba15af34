"""The journal of a colour swap: what was meant, and which phases began and ended, a synced line each.

The brokers are the truth, the journal is the memory: it says what the overlay was and should be, and how far the
applier came; who is where is always asked. A phase that began and did not end is done again from its first unit. A last
line that is torn is no line.
"""

from __future__ import annotations

import contextlib
import fcntl
import json
import os
import time
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, BinaryIO, NamedTuple

from overlace.errors import BadNetwork, Busy
from overlace.live.mosquitto_files import Bridged, Filters
from overlace.live.wiring import Links, links_of

VERSION = 1


class NamedOverlay(NamedTuple):
    """An overlay by name: links between brokers, and homes of clients."""

    links: Links
    homes: Mapping[str, str]

    def document(self) -> dict[str, Any]:
        """As JSON."""
        return {"homes": dict(sorted(self.homes.items())), "links": sorted(map(list, self.links))}

    @classmethod
    def of(cls, document: Mapping[str, Any]) -> NamedOverlay:
        """From JSON."""
        return cls(links_of(document["links"]), dict(document["homes"]))


class Journal:
    """One journal; opened for one applier at a time."""

    def __init__(self, path: Path, head: Mapping[str, Any], lines: list[dict[str, Any]]) -> None:
        self.path, self.head, self.lines = path, head, lines

    @property
    def old(self) -> int:
        """The colour that was live."""
        return int(self.head["old"])

    @property
    def new(self) -> int:
        """The colour that is to be."""
        return int(self.head["new"])

    @property
    def before(self) -> NamedOverlay:
        """What was."""
        return NamedOverlay.of(self.head["before"])

    @property
    def after(self) -> NamedOverlay:
        """What is meant."""
        return NamedOverlay.of(self.head["after"])

    @property
    def undo(self) -> str:
        """The command that takes it back when all is done; empty if nobody knows, or if it was taken back."""
        back = any(line.get("how") == "rollback" for line in self.lines)
        return "" if back else str(self.head.get("undo", ""))

    @property
    def filters(self) -> Filters | None:
        """What bridges carry; None: NATS, or everything."""
        held = self.head.get("filters")
        if held is None:
            return None
        return {(a, b): [Bridged(each, direction) for each, direction in carried] for a, b, carried in held}

    @property
    def ended(self) -> bool:
        """Whether the swap is over, one way or the other."""
        return any(line.get("do") == "end" for line in self.lines)

    @property
    def reached(self) -> str:
        """The last phase that began; empty: none has."""
        return next((str(line["phase"]) for line in reversed(self.lines) if line.get("do") == "begin"), "")

    @property
    def turned(self) -> bool:
        """Whether the way back was begun."""
        return any(line.get("do") == "turn" for line in self.lines)

    def write(self, do: str, **more: object) -> None:
        """Add a line; it is on the disk when this returns."""
        line = {"at": round(time.time(), 3), "do": do, **more}
        try:
            with open(self.path, "ab") as file:
                if file.tell() and not self._whole():
                    file.write(b"\n")  # what was torn is no line
                _append(file, line)
        except OSError as error:
            raise Unwritten(
                f"{self.path}: cannot be written ({error.strerror}), so nothing more is done. Make room; then "
                "`overlace live resume` goes on, `overlace live rollback` takes it back."
            ) from None
        self.lines.append(line)

    def _whole(self) -> bool:
        with open(self.path, "rb") as file:
            file.seek(-1, os.SEEK_END)
            return file.read(1) == b"\n"

    @contextlib.contextmanager
    def held(self) -> Iterator[None]:
        """Hold the journal; refused if another applier does."""
        with open(self.path, "ab") as file:
            try:
                fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except BlockingIOError:
                raise Busy(f"{self.path}: another applier is at work. Wait for it, or stop it.") from None
            yield


class Unwritten(BadNetwork):
    """A journal that cannot be written, so that nothing is done that it would not know of."""


def _append(file: BinaryIO, line: Mapping[str, Any]) -> None:
    """Write a line; it is on the disk when this returns."""
    file.write(json.dumps(line, ensure_ascii=False).encode() + b"\n")
    file.flush()
    os.fsync(file.fileno())


def write_filters(filters: Filters | None) -> list[Any] | None:
    """What bridges carry, as JSON."""
    if filters is None:
        return None
    return [[a, b, [list(each) for each in carried]] for (a, b), carried in sorted(filters.items())]


def begin_journal(folder: Path, head: Mapping[str, Any]) -> Journal:
    """A new journal; refused while another is open."""
    last = last_journal(folder)
    if last is not None and not last.ended:
        raise BadNetwork(
            f"{last.path}: a colour swap is not finished. `overlace live resume` or `live rollback` first."
        )
    whole = {"journal": VERSION, **head}
    path = folder
    try:
        folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        number = 1 + max((int(each.stem) for each in folder.glob("[0-9]*.jsonl")), default=0)
        path = folder / f"{number:04d}.jsonl"
        try:
            with open(os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600), "wb") as file:
                _append(file, whole)
        except FileExistsError:
            raise Busy(f"{path}: another applier has begun it. Wait for it, or stop it.") from None
        except OSError:
            path.unlink(missing_ok=True)  # what is torn never began
            raise
    except OSError as error:
        raise Unwritten(f"{path}: cannot be written ({error.strerror}). Nothing was changed.") from None
    return Journal(path, whole, [])


def last_journal(folder: Path) -> Journal | None:
    """The newest journal, if there is one; one whose first line is torn never began."""
    for path in sorted(folder.glob("[0-9]*.jsonl"), key=lambda each: int(each.stem), reverse=True):
        lines = _lines(path)
        if lines:
            if lines[0].get("journal") != VERSION:
                raise BadNetwork(f"{path}: a journal of another version of Overlace. Use that one.")
            return Journal(path, lines[0], lines[1:])
    return None


def _lines(path: Path) -> list[dict[str, Any]]:
    """The whole lines of a journal; the last may be torn."""
    found: list[dict[str, Any]] = []
    rows = path.read_bytes().split(b"\n")
    for i, row in enumerate(rows):
        if not row:
            continue
        try:
            line = json.loads(row)
        except ValueError:
            if i < len(rows) - 2 and any(rows[i + 1 :]):
                continue  # torn by a kill, and written on after
            continue
        if isinstance(line, dict):
            found.append(line)
    return found
