"""Sources cut into splits, splits into tasks, and where keys name messages."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple, TypeVar

from overlace.ingest.sources import Source

T = TypeVar("T")

SPLIT = 32 << 20
LEAST_SPLIT = 8 << 20
CONTENT_SPLIT = 2 << 20
"""The same where messages have content: who receives them may be many times what they say."""


class FileSplit(NamedTuple):
    """A part of a source."""

    source: int
    number: int
    begin: int
    end: int


def split_tasks(sources: Sequence[Source], parallel: int) -> list[list[FileSplit]]:
    """Splits of all sources in order, as many to a task as make a fair share of bytes."""
    total = sum(source.size - source.begin for source in sources)
    most = min(SPLIT, max(LEAST_SPLIT, -(-total // max(parallel, 1))))
    splits, weights = [], []
    for i, source in enumerate(sources):
        listed = source.splits(min(most, CONTENT_SPLIT) if source.has_content else most)
        for number, (begin, end) in enumerate(listed):
            splits.append(FileSplit(i, number << 20, begin, end))  # a large one may turn out to be several
            weights.append((source.size - source.begin) // len(listed))
    return make_batches(splits, weights, parallel, most)


def make_batches(items: Sequence[T], weights: Sequence[int], parallel: int, most: int = 0) -> list[list[T]]:
    """Neighbours together, each batch of about a fair share."""
    share = max(most, -(-sum(weights) // max(4 * parallel, 1)), 1)
    found: list[list[T]] = []
    held = 0
    for item, weight in zip(items, weights, strict=True):
        if not found or held + weight > share:
            found.append([])
            held = 0
        found[-1].append(item)
        held += weight
    return found


def scopes_of(sources: Sequence[Source]) -> list[int]:
    """Where each source's keys name messages: in its log, or in all of its format that are read together."""
    first: dict[str, int] = {}
    found = []
    for i, source in enumerate(sources):
        own = source.format if source.form.keys == "call" else source.log if source.format != "parquet" else source.path
        found.append(first.setdefault(own, i))
    return found
