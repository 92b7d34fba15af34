"""Rows that are read: what their cells say decides which are messages, deliveries of messages, or left out.

A filter is COLUMN=VALUE or COLUMN!=VALUE, of texts as they are written; no value is an empty text. Several values that
a column may have are alternatives, all else has to hold.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Mapping, Sequence
from typing import NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from overlace.arrays.jit import Bools
from overlace.errors import BadParameter, Unknown
from overlace.ingest.events import Settled
from overlace.ingest.lines import Faults
from overlace.ingest.values import mask_of

LEFT_OUT = "left out by --where "
"""Begins the reason of rows that a filter ignores."""

FILTER = re.compile(r"([^=!][^=]*?)(!?=)(.*)", re.DOTALL)


class Filter(NamedTuple):
    """Cells of a column: those that are one of some texts, or all others."""

    column: str
    values: Sequence[str]
    equal: bool

    def __str__(self) -> str:
        return " or ".join(f"{self.column}{'=' if self.equal else '!='}{value}" for value in self.values)

    def holds(self, cells: pa.Array) -> Bools:
        """Whether it holds, for each of some texts; null is no text, and equals none."""
        among = mask_of(pc.is_in(cells, pa.array(self.values, pa.string())))
        return among if self.equal else ~among


def filters_of(words: Sequence[str], flag: str = "--where") -> list[Filter]:
    """What the words say."""
    equal: dict[str, list[str]] = {}
    others = []
    for word in words:
        found = FILTER.fullmatch(word)
        if found is None:
            raise BadParameter(f"{flag} {word!r}: expected COLUMN=VALUE or COLUMN!=VALUE, such as eventType=Publish-In")
        if found[2] == "=":
            equal.setdefault(found[1], []).append(found[3])
        else:
            others.append(Filter(found[1], (found[3],), False))
    return [*(Filter(column, tuple(values), True) for column, values in equal.items()), *others]


def asked_filters(options: Settled) -> list[Filter]:
    """All filters of a source."""
    return [*filters_of(options.get("where") or ()), *filters_of(options.get("deliveries_where") or ())]


def filter_columns(options: Settled) -> list[str]:
    """The columns that filters name."""
    return list(dict.fromkeys(each.column for each in asked_filters(options)))


def check_columns(options: Settled, columns: Collection[str]) -> None:
    """Refuse filters on columns that are not there."""
    for name in filter_columns(options):
        if name not in columns:
            raise Unknown("column", name, columns)


def refuse_names(options: Settled) -> None:
    """Refuse filters on what is hidden: they are kept as they are typed."""
    names = {column for columns in options.get("mapping", {}).values() for column in columns}
    for each in asked_filters(options):
        if each.column in names:
            raise BadParameter(
                f"--pseudonymise: --where {each} would put what it names into the trace. Filter by a column that is no "
                "field of the log, or leave such rows out before."
            )


def select_rows(cells: Mapping[str, pa.Array], options: Settled, faults: Faults) -> None:
    """Find the rows that are deliveries, and of the others leave out those for which a filter does not hold."""
    if delivered := filters_of(options.get("deliveries_where") or ()):
        faults.deliveries[:] = np.logical_and.reduce([each.holds(cells[each.column]) for each in delivered])
    for each in filters_of(options.get("where") or ()):
        faults.note(~faults.deliveries & ~each.holds(cells[each.column]), f"{LEFT_OUT}{each}", ignored=True)
