"""Blocks of whole lines, and lines that say nothing or cannot be read as events."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from typing import BinaryIO, NamedTuple

import numpy as np
import pyarrow as pa

from overlace.arrays.jit import Bools, Ints
from overlace.arrays.lines import BLANK, CLEAN, INNER_CR, NOT_UTF8, NUL, Lines, find_lines, is_blank
from overlace.arrays.text import Bytes, Small, gather_spans
from overlace.ingest.events import Blocks, events

BLOCK = 8 << 20
SAMPLE = 200
"""Characters of a bad line that are kept."""

REASONS = {NOT_UTF8: "not UTF-8", INNER_CR: "carriage return inside the line", NUL: "NUL byte inside the line"}
MARK = b"\xef\xbb\xbf"


def blocks(
    file: BinaryIO, start: int = 0, end: int | None = None, size: int = BLOCK, stop: int | None = None
) -> Iterator[tuple[int, bytes]]:
    """Whole lines that begin in start <= offset < end, in blocks, each with the offset of its first byte.

    A cut may fall anywhere: a line belongs to the part in which its first byte lies. Nothing is read beyond `stop`,
    however long the file has become.
    """
    offset = start
    if start:
        file.seek(start - 1)
        # the rest of a line that began before, or only its newline; a line may be longer than the part
        lost = file.readline(-1 if end is None else end - start + 1)
        offset = start - 1 + len(lost)
    while end is None or offset < end:
        wanted = size if end is None else min(size, end - offset)
        block = file.read(wanted)
        if not block:
            return
        if not block.endswith(b"\n"):
            block += file.readline(-1 if stop is None else max(0, stop - offset - len(block)))
        yield offset, block
        offset += len(block)


def raw_blocks(file: BinaryIO, size: int = BLOCK, stop: int | None = None) -> Iterator[tuple[int, bytes]]:
    """All bytes up to `stop` in blocks that end anywhere, each with the offset of its first byte."""
    offset = 0
    while block := file.read(size if stop is None else min(size, stop - offset)):
        yield offset, block
        offset += len(block)


class TextLines(NamedTuple):
    """Lines of a block: its bytes, the first and last byte of each line, and where in the source it begins."""

    data: Bytes
    first: Ints
    last: Ints
    offsets: Ints

    def at(self, rows: Bools) -> TextLines:
        """Some of them."""
        if rows.all():
            return self
        return TextLines(self.data, self.first[rows], self.last[rows], self.offsets[rows])


def read_lines(
    blocks: Blocks,
    read: Callable[[TextLines], Iterator[pa.RecordBatch]],
    header: bytes | None = None,
    comments: bool = False,
) -> Iterator[pa.RecordBatch]:
    """One event a line; `read` gets the lines that are text.

    Lines that equal the header are ignored wherever they stand: logs are often joined. So are, where there are
    comments, lines that begin with #.
    """
    for offset, block in blocks:
        data = np.frombuffer(block, dtype=np.uint8).copy()
        lines = find_lines(data)
        first, last, state = lines
        offsets = offset + first
        if offset == 0 and block.startswith(MARK):  # some programs begin a file with a mark
            first[0] += len(MARK)
            if state[0] == CLEAN and is_blank(data, first[:1], last[:1])[0]:
                state[0] = BLANK
        if header is not None:
            state = state.copy()
            heads = _equal_to(data, lines, header)
            state[heads] = HEADER
            yield from ignored(offsets[heads], "header")
        if comments:
            state = state.copy()
            marked = np.flatnonzero(state == CLEAN)
            marked = marked[data[first[marked]] == ord("#")]
            state[marked] = HEADER
            yield from ignored(offsets[marked], "comment")
        yield from ignored(offsets[state == BLANK], "blank")
        text = TextLines(data, first, last, offsets)
        yield from bad(block, text, {code: state == code for code in REASONS}, REASONS)
        clean = state == CLEAN
        if clean.any():
            yield from read(text.at(clean))


HEADER = 100
"""The state of a line that repeats the header, or is a comment."""


def text_lines(offset: int, block: bytes) -> tuple[pa.Array, Ints, Small]:
    """(text, offsets, state): lines as strings without their ends, empty where they are not clean text."""
    data = np.frombuffer(block, dtype=np.uint8)
    first, last, state = find_lines(data)
    offsets = offset + first
    if offset == 0 and block.startswith(MARK):
        first = first + np.append(len(MARK), np.zeros(len(first) - 1, np.int64))
    bounds, gathered = gather_spans(data, first, np.where(state == CLEAN, last, first))
    buffers = [None, pa.py_buffer(bounds.astype(np.int64)), pa.py_buffer(gathered)]
    return pa.LargeStringArray.from_buffers(len(first), *buffers[1:]), offsets, state


def _equal_to(data: Bytes, lines: Lines, header: bytes) -> Ints:
    """Lines that hold just these bytes."""
    found = np.flatnonzero(lines.last - lines.first == len(header))
    for k, byte in enumerate(header):
        if len(found) == 0:
            break
        found = found[data[lines.first[found] + k] == byte]
    return found


def ignored(offsets: Ints, reason: str) -> Iterator[pa.RecordBatch]:
    """Lines that say nothing of use, by kind."""
    if len(offsets):
        yield events(offset=offsets, kind="ignored", reason=pa.repeat(pa.scalar(reason), len(offsets)))


def bad(
    block: bytes, lines: TextLines, which: Mapping[int, Bools], reasons: Mapping[int, str]
) -> Iterator[pa.RecordBatch]:
    """Lines that cannot be read, each kind with one sample (the first in the block) and its reason."""
    for code, chosen in which.items():
        rows = np.flatnonzero(chosen)
        if len(rows) == 0:
            continue
        first, last = lines.first[rows[0]], lines.last[rows[0]]
        text = block[first : min(last, first + 4 * SAMPLE)].decode("utf-8", "replace")[:SAMPLE]
        yield events(
            offset=lines.offsets[rows],
            kind="bad",
            reason=pa.repeat(pa.scalar(reasons[code]), len(rows)),
            sample=pa.array([text] + [None] * (len(rows) - 1), pa.string()),
        )
