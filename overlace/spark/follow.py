"""A log that goes on: what is new of it is ingested every few seconds, on one session.

A batch is an ingest like any other. It counts when the manifest is written, which says how far each file was read: one
that was killed is read again, and one that counts never is.
"""

from __future__ import annotations

import re
import time
from collections.abc import Callable, Sequence

from overlace.errors import Absent, BadParameter, Busy, Unfinished
from overlace.ingest.run import Ingested
from overlace.stopping import asked, coming_to_an_end

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


def follow(batch: Callable[[], Ingested], every: float, tell: Callable[[Ingested | str], None]) -> None:
    """Ingest what is there and then, every so many seconds, what is new, until Ctrl-C asks for an end.

    What is not there, or not yet, is said once and waited for; so is another writer. Anything else ends it.
    """
    said = ""
    with coming_to_an_end():
        while not asked():
            due = time.monotonic() + every
            try:
                done = batch()
                said = ""
                if done.accounts:
                    tell(done)
            except (Absent, Unfinished, Busy) as error:
                if str(error) != said:
                    tell(str(error))
                said = str(error)
            while not asked() and time.monotonic() < due:
                time.sleep(LOOK)
