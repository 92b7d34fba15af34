"""How far tasks have read: a small file for each split, on a disk that driver and tasks share.

Engines say how many tasks are done, or nothing; a task reads for a minute. Where the trace is on an object store, tasks
are counted instead.
"""

from __future__ import annotations

import os
import shutil
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Protocol

from overlace.wording import left

EVERY = 0.5
"""Seconds between two notes of a task, and between two looks at them."""

MB = 1e6


class Counting(Protocol):
    """What counts lines and bytes as they go by."""

    lines: int
    size: int


class Meter:
    """Notes in a file how far a task has read a split, from time to time; it can do without."""

    def __init__(self, folder: str, split: str) -> None:
        self.path, self.due = os.path.join(folder, split) if folder else "", 0.0

    def note(self, count: Counting, end: bool = False) -> None:
        """Lines and bytes so far, if it is time."""
        if not self.path or (time.monotonic() < self.due and not end):
            return
        try:
            Path(self.path).write_text(f"{count.lines} {count.size}\n")
            self.due = time.monotonic() + EVERY
        except OSError:  # no disk in common, or over: what is read does not depend on it
            self.path = ""


def noted(folder: str) -> tuple[int, int]:
    """(lines, bytes) that all tasks have read."""
    lines = size = 0
    with suppress(OSError):
        for each in os.scandir(folder):
            with suppress(OSError, ValueError):  # half written
                one, two = Path(each.path).read_text().split()
                lines, size = lines + int(one), size + int(two)
    return lines, size


@contextmanager
def metered(folder: str, total: int, report: Callable[[float, str], None]) -> Iterator[None]:
    """While the block runs, report what was read of so many bytes; 0: of how many nobody knows."""
    shutil.rmtree(folder, ignore_errors=True)  # of a reading before
    os.makedirs(folder)
    began, over = time.monotonic(), threading.Event()

    def say() -> None:
        lines, size = noted(folder)
        if lines or size:
            report(*reading(lines, size, total, time.monotonic() - began))

    def look() -> None:
        with suppress(Exception):  # a terminal that is gone is noticed by those who need it
            while not over.wait(EVERY):
                say()

    watcher = threading.Thread(target=look, daemon=True)
    watcher.start()
    try:
        yield
    finally:
        over.set()
        watcher.join()
    say()


def reading(lines: int, size: int, total: int, seconds: float) -> tuple[float, str]:
    """(share, text) of what was read after so many seconds."""
    share = min(1.0, size / total) if total else 0.0
    said = f"reading: {lines:,} lines"
    if size:
        said += f", {size / MB:,.0f}" + (f" of {total / MB:,.0f}" if total else "") + " MB"
        said += f", {size / MB / seconds:,.0f} MB/s" if seconds >= 1 else ""
    return share, said + left(share, seconds)
