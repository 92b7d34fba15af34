"""Parquet files: their row groups, and what their statistics say."""

from __future__ import annotations

from itertools import pairwise

import pyarrow as pa
import pyarrow.fs as pafs
import pyarrow.parquet as pq

from overlace.errors import BadTrace
from overlace.ingest.events import Settled
from overlace.trace.store import place

ROWS = 2_000_000
"""Rows that a task holds at once."""


def files_of(path: str) -> list[str]:
    """The files of a table: itself, or those in its folder, in order."""
    files, at = place(path)
    if files.get_file_info(at).type != pafs.FileType.Directory:
        return [path]
    inside = sorted(
        info.base_name for info in files.get_file_info(pafs.FileSelector(at)) if info.extension == "parquet"
    )
    return [f"{path}/{name}" for name in inside]


def open_parquet(path: str) -> pq.ParquetFile:
    """The file, or what is wrong with it."""
    files, at = place(path)
    try:
        return pq.ParquetFile(files.open_input_file(at))
    except pa.ArrowInvalid as error:
        raise BadTrace(f"{path}: not a whole Parquet file ({str(error).splitlines()[0]}). Was it cut?") from None


def key_range(file: pq.ParquetFile, settled: Settled) -> tuple[int, int] | None:
    """The least and largest message, if the statistics show row groups in order of one whole number."""
    names = settled["mapping"].get("key", ())
    if len(names) != 1 or settled.get("group"):
        return None
    column = file.schema_arrow.get_field_index(names[0])
    if not pa.types.is_integer(file.schema_arrow.field(column).type):
        return None
    ends = [key_ends(file.metadata, group, column) for group in range(file.metadata.num_row_groups)]
    known = [each for each in ends if each]
    if not known or len(known) < len(ends) or any(left[1] > right[0] for left, right in pairwise(known)):
        return None
    return known[0][0], known[-1][1]


def key_ends(about: pq.FileMetaData, group: int, column: int) -> tuple[int, int] | None:
    """The least and largest value of a column in a row group, where its statistics tell."""
    found = about.row_group(group).column(column)
    if not found.is_stats_set or not found.statistics.has_min_max or found.statistics.null_count:
        return None
    return int(found.statistics.min), int(found.statistics.max)


def span(path: str, options: Settled) -> tuple[int, int] | None:
    """First and last time of a file, where its statistics say so."""
    names = options["mapping"].get("at", ())
    if len(names) != 1 or files_of(path) != [path]:
        return None
    with open_parquet(path) as file:
        column = file.schema_arrow.get_field_index(names[0])
        kind = file.schema_arrow.field(column).type
        if not pa.types.is_timestamp(kind):
            return None
        found = [file.metadata.row_group(g).column(column).statistics for g in range(file.metadata.num_row_groups)]
        if not found or any(each is None or not each.has_min_max for each in found):
            return None
        low, high = min(each.min for each in found), max(each.max for each in found)
        ends = pa.array([low, high], pa.timestamp("us", kind.tz)).cast(pa.int64()).to_pylist()
        return ends[0], ends[1]


def splits(path: str, rows: int = ROWS) -> list[tuple[int, int]]:
    """(first, last): runs of row groups of one file, each of about so many rows; numbered through all files."""
    found, first = [], 0
    for each in files_of(path):
        with open_parquet(each) as file:
            sizes = [file.metadata.row_group(group).num_rows for group in range(file.metadata.num_row_groups)]
        held, end = 0, first + len(sizes)
        for group, count in enumerate(sizes, first):
            held += count
            if held >= rows or group + 1 == end:
                found.append((first, group + 1))
                first, held = group + 1, 0
    return found
