"""Blocks of whole lines, and lines that say nothing or cannot be read as events."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from typing import BinaryIO, NamedTuple

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from overlace.arrays.jit import Bools, Ints
from overlace.ingest.events import Blocks, events

BLOCK = 8 << 20
SAMPLE = 200
"""Characters of a bad line that are kept."""

CLEAN, BLANK, NOT_UTF8, INNER_CR, NUL, HEADER, COMMENT = range(7)
"""What a line is, before anything is read of it."""

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

    block: bytes
    first: Ints
    last: Ints
    offsets: Ints

    def at(self, rows: Bools | Ints) -> TextLines:
        """Some of them."""
        return TextLines(self.block, self.first[rows], self.last[rows], self.offsets[rows])

    def each(self) -> list[bytes]:
        """Their bytes."""
        if (self.first[1:] == self.last[:-1] + 1).all():
            return self.block[self.first[0] : self.last[-1]].split(b"\n")
        return [self.block[i:j] for i, j in zip(self.first.tolist(), self.last.tolist(), strict=True)]

    def text(self) -> pa.StringArray:
        """Their text."""
        return text_between(self.block, self.first, self.last)

    def sample(self, row: int) -> str:
        """The beginning of one of them."""
        first, last = self.first[row], self.last[row]
        return self.block[first : min(last, first + 4 * SAMPLE)].decode("utf-8", "replace")[:SAMPLE]


class TableRows(NamedTuple):
    """Rows of a table, by their numbers."""

    offsets: Ints

    def at(self, rows: Bools | Ints) -> TableRows:
        """Some of them."""
        return TableRows(self.offsets[rows])

    def sample(self, row: int) -> str:
        """The number of one of them."""
        return f"row {self.offsets[row]:,}"


def find_lines(offset: int, block: bytes) -> tuple[TextLines, NDArray[np.int8]]:
    """(lines, state): lines of a block without their ends, carriage returns among these, and what each is.

    The mark that some programs begin a file with is no part of its first line.
    """
    data = np.frombuffer(block, np.uint8)
    ends = np.flatnonzero(data == 10)
    if block and not block.endswith(b"\n"):
        ends = np.append(ends, len(data))
    first, last = np.append(0, ends[:-1] + 1)[: len(ends)], ends
    offsets, state = offset + first, np.zeros(len(ends), np.int8)
    if offset == 0 and block.startswith(MARK):
        first[0] += len(MARK)
    if b"\r" in block:
        last = last - ((last > first) & (data[last - 1] == 13))
        for i in np.flatnonzero((last > first) & (data[last - 1] == 13)).tolist():  # several at one end
            last[i] = first[i] + len(block[first[i] : last[i]].rstrip(b"\r"))
        returns = np.flatnonzero(data == 13)
        line = np.searchsorted(ends, returns)
        state[line[returns < last[line]]] = INNER_CR
    if b"\0" in block:
        state[np.searchsorted(ends, np.flatnonzero(data == 0))] = NUL
    if not block.isascii() and not is_text(block):
        for i in np.unique(np.searchsorted(ends, np.flatnonzero(data >= 0x80))).tolist():
            if not is_text(block[first[i] : last[i]]):
                state[i] = NOT_UTF8
    begins = data[np.minimum(first, len(data) - 1)] if len(data) else data
    for i in np.flatnonzero((state == CLEAN) & ((first == last) | (begins == 32) | (begins == 9))).tolist():
        if not block[first[i] : last[i]].strip(b" \t"):
            state[i] = BLANK
    return TextLines(block, first, last, offsets), state


def is_text(data: bytes) -> bool:
    """Whether bytes are UTF-8."""
    try:
        data.decode()
    except UnicodeDecodeError:
        return False
    return True


def text_between(block: bytes, first: Ints, last: Ints) -> pa.StringArray:
    """Spans of a block as text; they are in order and do not overlap."""
    if len(first) == 0:
        return pa.array([], pa.string())
    bounds = np.column_stack([first, last]).astype(np.int32)  # each span, and what lies between it and the next
    spans = pa.StringArray.from_buffers(2 * len(first) - 1, pa.py_buffer(bounds), pa.py_buffer(block))
    return spans.take(pa.array(np.arange(0, 2 * len(first), 2)))


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
        lines, state = find_lines(offset, block)
        first = lines.first
        if header is not None and header in block:
            heads = np.flatnonzero(lines.last - first == len(header)).tolist()
            state[[i for i in heads if block.startswith(header, first[i])]] = HEADER
        if comments:
            clean = np.flatnonzero(state == CLEAN)
            state[clean[np.frombuffer(block, np.uint8)[first[clean]] == ord("#")]] = COMMENT
        for code, reason in ((HEADER, "header"), (COMMENT, "comment"), (BLANK, "blank")):
            yield from ignored(lines.offsets[state == code], reason)
        yield from bad(lines, {code: state == code for code in REASONS}, REASONS)
        if (state == CLEAN).all():
            yield from read(lines)
        elif (state == CLEAN).any():
            yield from read(lines.at(state == CLEAN))


def text_lines(offset: int, block: bytes) -> tuple[pa.StringArray, Ints, NDArray[np.int8]]:
    """(text, offsets, state): lines as strings without their ends, empty where they are not clean text."""
    lines, state = find_lines(offset, block)
    return text_between(block, lines.first, np.where(state == CLEAN, lines.last, lines.first)), lines.offsets, state


def ignored(offsets: Ints, reason: str) -> Iterator[pa.RecordBatch]:
    """Lines that say nothing of use, by kind."""
    if len(offsets):
        yield events(offset=offsets, kind="ignored", reason=pa.repeat(pa.scalar(reason), len(offsets)))


def bad(
    lines: TextLines | TableRows, which: Mapping[int, Bools], reasons: Mapping[int, str]
) -> Iterator[pa.RecordBatch]:
    """Lines that cannot be read, each kind with one sample (the first in the block) and its reason."""
    for code, chosen in which.items():
        rows = np.flatnonzero(chosen)
        if len(rows):
            yield events(
                offset=lines.offsets[rows],
                kind="bad",
                reason=pa.repeat(pa.scalar(reasons[code]), len(rows)),
                sample=pa.array([lines.sample(rows[0])] + [None] * (len(rows) - 1), pa.string()),
            )


class Faults:
    """Why each of some rows gives no event, if it does not: what was noted first; and which rows are deliveries."""

    def __init__(self, rows: int) -> None:
        self.code: Ints = np.zeros(rows, np.int64)
        self.reasons: dict[int, str] = {}
        self.ignored: set[int] = set()  # codes of what is not wrong
        self.deliveries: Bools = np.zeros(rows, bool)  # of messages that other rows publish

    def note(self, rows: Bools, reason: str, *, ignored: bool = False) -> None:
        """These rows cannot be read or are ignored, unless something else was noted of them already."""
        if rows.any():
            code = next((code for code, known in self.reasons.items() if known == reason), len(self.reasons) + 1)
            self.reasons[code] = reason
            self.ignored |= {code} if ignored else set()
            self.code[rows & (self.code == 0)] = code

    def part(self, begin: int, end: int) -> Faults:
        """Those of some of the rows, which share what is noted."""
        part = Faults(0)
        part.code, part.deliveries = self.code[begin:end], self.deliveries[begin:end]
        part.reasons, part.ignored = self.reasons, self.ignored
        return part

    @property
    def fine(self) -> Bools:
        """The rows that give an event."""
        return np.asarray(self.code == 0)

    def events(self, lines: TextLines | TableRows) -> Iterator[pa.RecordBatch]:
        """The other rows, by their reasons."""
        which = {code: self.code == code for code in self.reasons}
        for code in self.ignored:
            yield from ignored(lines.offsets[which.pop(code)], self.reasons[code])
        yield from bad(lines, which, self.reasons)
