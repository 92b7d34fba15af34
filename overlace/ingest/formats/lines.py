"""Blocks of bytes as arrays of lines, and parsing in bulk with the bad lines found by halving."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import BinaryIO

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from overlace.arrays.jit import Ints

BLOCK = 8 << 20


def blocks(file: BinaryIO, start: int = 0, end: int | None = None, size: int = BLOCK) -> Iterator[tuple[int, bytes]]:
    """Whole lines that begin in start <= offset < end, in blocks, each with the offset of its first byte.

    A cut may fall anywhere: a line belongs to the part in which its first byte lies.
    """
    offset = start
    if start:
        file.seek(start - 1)
        lost = file.readline()  # the rest of a line that began before, or only its newline
        offset = start - 1 + len(lost)
    while end is None or offset < end:
        wanted = size if end is None else min(size, end - offset)
        block = file.read(wanted)
        if not block:
            return
        if not block.endswith(b"\n"):
            block += file.readline()
        yield offset, block
        offset += len(block)


def split(offset: int, block: bytes) -> tuple[pa.Array, Ints]:
    """(lines, offsets): the lines of a block, still with their ends, and where each begins."""
    ends = np.flatnonzero(np.frombuffer(block, dtype=np.uint8) == 10) + 1
    if len(block) and (len(ends) == 0 or ends[-1] != len(block)):
        ends = np.append(ends, len(block))
    bounds = np.append(0, ends).astype(np.int64)
    buffers = [None, pa.py_buffer(bounds), pa.py_buffer(block)]
    return pa.LargeBinaryArray.from_buffers(pa.large_binary(), len(ends), buffers), offset + bounds[:-1]


def text_of(lines: pa.Array) -> tuple[pa.Array, Ints]:
    """(text, broken): lines as strings without their ends, and which are not UTF-8 (empty there)."""
    broken = np.empty(0, np.int64)
    try:
        text = lines.cast(pa.large_string())
    except pa.ArrowInvalid:
        whole = np.array([_is_text(line) for line in lines.to_pylist()])  # only in a block with a broken line
        broken = np.flatnonzero(~whole)
        text = pc.if_else(pa.array(whole), lines, pa.scalar(b"", pa.large_binary())).cast(pa.large_string())
    return pc.utf8_rtrim(text, characters="\r\n"), broken


def _is_text(line: bytes) -> bool:
    try:
        line.decode()
    except UnicodeDecodeError:
        return False
    return True


def joined(lines: pa.Array) -> bytes:
    """Lines with an end each, in one piece."""
    ended = pc.binary_join_element_wise(lines, pa.scalar("", pa.large_string()), pa.scalar("\n", pa.large_string()))
    bounds = np.frombuffer(ended.buffers()[1], dtype=np.int64)[ended.offset : ended.offset + len(ended) + 1]
    return bytes(memoryview(ended.buffers()[2])[bounds[0] : bounds[-1]])


def in_bulk(
    parse: Callable[[pa.Array], pa.Table], lines: pa.Array
) -> tuple[list[tuple[pa.Table, Ints]], list[tuple[int, str]]]:
    """(good, bad): parse all lines at once; where that fails, halve until the bad ones stand alone.

    `parse` must give one row a line or raise. Good are tables with the lines that their rows came from,
    several where neighbours differ in type; bad are lines with the reason.
    """
    good: list[tuple[pa.Table, Ints]] = []
    bad: list[tuple[int, str]] = []
    todo = [(0, len(lines))]
    while todo:
        first, last = todo.pop()
        if first == last:
            continue
        try:
            rows = parse(lines.slice(first, last - first))
            if rows.num_rows != last - first:
                raise ValueError(f"{rows.num_rows} rows in {last - first} lines")
        except (pa.ArrowException, ValueError) as error:
            if last - first == 1:
                bad.append((first, str(error).splitlines()[0][:200]))
            else:
                middle = (first + last) // 2
                todo += [(middle, last), (first, middle)]
        else:
            good.append((rows, np.arange(first, last)))
    return good, bad
