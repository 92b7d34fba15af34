"""One JSON array of objects, as programs export them: each element is read as a line of JSON lines is.

    [{"at": "2026-01-05T08:00:00Z", "client": "plc2", "topic": "fab/4/temp"},
     {"at": ...}]

An element is a line, however many lines of the file it takes: accounts count elements.
"""

from __future__ import annotations

import re
from collections.abc import Iterator

import numpy as np

from overlace.arrays.elements import at_the_beginning, part_elements
from overlace.ingest.events import Blocks, Format
from overlace.ingest.formats import jsonl
from overlace.ingest.lines import MARK

BEGINS = re.compile(rb"\s*\[\s*(\{|\]|$)")


def split_elements(blocks: Blocks) -> Blocks:
    """Blocks of a file as blocks of lines, an element each; nothing moves but the marks between them."""
    state, held, begin = at_the_beginning(), b"", 0
    for offset, block in blocks:
        data = np.frombuffer(block, np.uint8).copy()
        if offset == 0 and block.startswith(MARK):
            data[: len(MARK)] = ord(" ")
        part_elements(data, state)
        held += data.tobytes()
        whole = held.rfind(b"\n") + 1
        if whole:
            yield begin, held[:whole]
            begin, held = begin + whole, held[whole:]
    if held.strip():
        yield begin, held


def lines_of(sample: bytes) -> bytes:
    """The first bytes of a file as lines."""
    return b"".join(_only(split_elements(iter([(0, sample)]))))


def _only(blocks: Blocks) -> Iterator[bytes]:
    return (block for _, block in blocks)


def sniff(head: bytes) -> float:
    """How much it looks like an array of objects."""
    return 0.9 if BEGINS.match(head) else 0.0


FORMAT = Format(
    name="json",
    scope="file",
    sniff=sniff,
    read=jsonl.read,
    settle=lambda sample, options: jsonl.settle(lines_of(sample), options),
    options=jsonl.FORMAT.options,
    lines=split_elements,
)
