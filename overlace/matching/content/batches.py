"""The matcher as a batch function: Arrow record batches in, the same with a list of filters for each message out.

That is what Spark's `mapInArrow` takes: `frame.mapInArrow(partial(match_batches, matcher=matcher), schema)`. A pickled
matcher is its filters as arrays; every worker lays them out once.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator

import pyarrow as pa

from overlace.errors import BadParameter
from overlace.matching.content.columns import Columns
from overlace.matching.content.matcher import Matcher

FILTERS = "filters"
"""The column that is added."""


def match_batches(
    batches: Iterable[pa.RecordBatch], matcher: Matcher, column: str = FILTERS
) -> Iterator[pa.RecordBatch]:
    """Each batch with a column of the ids of the filters that each message matches, ascending.

    The batch's columns are the messages' attributes; those that no filter names may be of any type.
    """
    for batch in batches:
        if column in batch.schema.names:
            raise BadParameter(f"found a column {column} already, expected none. Choose another name for the filters.")
        yield batch.append_column(column, match_lists(batch, matcher))


def match_lists(batch: pa.RecordBatch | pa.Table, matcher: Matcher) -> pa.ListArray:
    """The ids of the filters that each message matches, as lists of int32."""
    known = set(batch.schema.names)
    found = matcher.match(Columns.from_batch(batch, [name for name in matcher.attributes if name in known]))
    if found.start[-1] >= 1 << 31:
        raise BadParameter(f"found {found.start[-1]:,} matches in one batch, expected below 2^31. Use smaller batches.")
    return pa.ListArray.from_arrays(pa.array(found.start, pa.int32()), pa.array(found.ids))
