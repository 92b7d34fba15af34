"""What goes on is looked at every few seconds: logs, of which what is new is ingested, or a trace that grows.

A batch of a log is an ingest like any other. It counts when the manifest is written, which says how far each file was
read: one that was killed is read again, and one that counts never is.
"""

from __future__ import annotations

import re
import time
from collections.abc import Callable, Sequence
from typing import TypeVar

from overlace.errors import Absent, BadParameter, Busy, Unfinished, read_os
from overlace.stopping import asked, coming_to_an_end

Found = TypeVar("Found")

UNITS = {"": 1.0, "ms": 0.001, "s": 1.0, "m": 60.0, "h": 3600.0}
LOOK = 0.05
"""Seconds between looks whether an end was asked for."""


def read_seconds(words: str | Sequence[str]) -> float:
    """A time such as 10s, 500ms or 5m, in seconds."""
    text = words if isinstance(words, str) else words[-1]
    found = re.fullmatch(r"(\d+(?:\.\d+)?) *(ms|s|m|h|)", text)
    if not found or not float(found[1]):
        raise BadParameter(f"--every {text!r}: expected a time such as 10s, 500ms or 5m")
    return float(found[1]) * UNITS[found[2]]


def follow(batch: Callable[[], Found | None], every: float, tell: Callable[[Found | str], None]) -> None:
    """Look at what is there and then, every so many seconds, at what is new, until Ctrl-C asks for an end.

    What is not there, or not yet, is said once and waited for; so is another writer. Anything else ends it.
    """
    said = ""
    with coming_to_an_end():
        while not asked():
            due = time.monotonic() + every
            try:
                found = batch()
                said = ""
                if found is not None:
                    tell(found)
            except (Absent, Unfinished, Busy, FileNotFoundError) as error:  # it may go while it is looked at
                why = read_os(str(error)) or str(error)
                if why != said:
                    tell(why)
                said = why
            while not asked() and time.monotonic() < due:
                time.sleep(LOOK)
