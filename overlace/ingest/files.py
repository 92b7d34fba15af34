"""Small files as bytes, unpacked if they are packed."""

from __future__ import annotations

import gzip
import zlib
from pathlib import Path

from overlace.errors import BadTrace


def read_unpacked(path: str | Path, expected: str) -> bytes:
    """What a file holds, unpacked; an error says what was expected of it."""
    try:
        data = Path(path).read_bytes()
    except OSError as error:
        raise BadTrace(f"{path}: {error.strerror}. Expected {expected}.") from None
    if data[:2] != b"\x1f\x8b":
        return data
    try:
        return gzip.decompress(data)
    except (OSError, EOFError, zlib.error):
        raise BadTrace(f"{path}: the gzip file is cut short or damaged. Fetch it again.") from None
