"""One JSON array of objects, as programs export them: each element is read as a line of JSON lines is.

    [{"at": "2026-01-05T08:00:00Z", "client": "plc2", "topic": "fab/4/temp"},
     {"at": ...}]

An element is a line, however many lines of the file it takes: accounts count elements.
"""

from __future__ import annotations

import re

import numpy as np
from numpy.typing import NDArray

from overlace.arrays.jit import Bools
from overlace.ingest.events import Blocks, Format, Settled
from overlace.ingest.formats import jsonl
from overlace.ingest.lines import MARK

Bytes = NDArray[np.uint8]
STEP = np.zeros(256, np.int8)
"""How a byte changes the number of brackets that are open."""

STEP[[ord("["), ord("{")]], STEP[[ord("]"), ord("}")]] = 1, -1

BEGINS = re.compile(rb"\s*\[\s*(\{|\]|$)")


def split_elements(blocks: Blocks) -> Blocks:
    """Blocks of a file as blocks of lines, an element each; nothing moves but the marks between them."""
    array, held, begin = Array(), b"", 0
    for offset, block in blocks:
        data = np.frombuffer(block, np.uint8).copy()
        if offset == 0 and block.startswith(MARK):
            data[: len(MARK)] = ord(" ")
        array.part(data)
        held += data.tobytes()
        whole = held.rfind(b"\n") + 1
        if whole:
            yield begin, held[:whole]
            begin, held = begin + whole, held[whole:]
    if held.strip():
        yield begin, held


class Array:
    """An array of which a part was read."""

    def __init__(self) -> None:
        self.depth = -1  # brackets that are open, the array's own among them; -1 before it
        self.in_string = self.escaped = False
        self.filled = False  # whether the current element has begun

    def part(self, data: Bytes) -> None:
        """Turn what parts the elements of the outermost array into newlines, and newlines inside them into blanks.

        Its brackets become blanks. A newline inside a string stays a character that no string may hold. What follows
        the array is left as it is, for a reader of lines to refuse.
        """
        inside = self._strings(data)
        breaks = (data == 10) | (data == 13)
        data[breaks & inside] = 1
        data[(breaks | (data == 9)) & ~inside] = 32
        if self.depth < 0:
            begin = len(data) - len(data.tobytes().lstrip())
            if begin == len(data):
                return
            self.depth = int(data[begin] == ord("["))
            data[begin] = 32 if self.depth else data[begin]
        if self.depth == 0:
            return
        at = np.flatnonzero(((STEP[data] != 0) | (data == ord(","))) & ~inside)
        marks = data[at]
        level = self.depth + np.cumsum(STEP[marks])
        level += np.maximum.accumulate(np.maximum(1 - level, 0))  # what closes too much closes nothing
        outermost = np.append(self.depth, level)[:-1] == 1
        ends = at[outermost & (marks == ord("]"))]
        end = ends[0] if len(ends) else len(data)
        commas = at[outermost & (marks == ord(",")) & (at < end)]
        data[commas] = 10
        begin = commas[-1] + 1 if len(commas) else 0
        filled = bool(data[begin:end].tobytes().strip()) or (self.filled and len(commas) == 0)
        self.depth = 0 if len(ends) else int(level[-1]) if len(level) else self.depth
        self.filled = filled and not len(ends)
        if len(ends):
            data[end] = 10 if filled else 32

    def _strings(self, data: Bytes) -> Bools:
        """Which bytes are inside strings."""
        carried = self.escaped
        text = (b"\\" * carried + data.tobytes()).replace(b"\\\\", b"  ")  # a pair of slashes escapes nothing
        self.escaped = text.endswith(b"\\")
        toggles = np.frombuffer(text.replace(b'\\"', b"  "), np.uint8)[carried:] == ord('"')
        toggles[:1] ^= self.in_string
        inside = np.bitwise_xor.accumulate(toggles)
        self.in_string = bool(inside[-1]) if len(inside) else self.in_string
        return inside


def settle(sample: bytes, options: Settled) -> Settled:
    """As for JSON lines, of the first elements."""
    return jsonl.settle(lines_of(sample), options)


def lines_of(sample: bytes) -> bytes:
    """The first bytes of a file as lines."""
    return b"".join(block for _, block in split_elements(iter([(0, sample)])))


def sniff(head: bytes) -> float:
    """How much it looks like an array of objects."""
    return 0.9 if BEGINS.match(head) else 0.0


FORMAT = Format(
    name="json",
    scope="file",
    sniff=sniff,
    read=jsonl.read,
    settle=settle,
    options=jsonl.FORMAT.options,
    lines=split_elements,
)
