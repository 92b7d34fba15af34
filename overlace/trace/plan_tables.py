"""The tables of a plan folder: its changes, its steps and the overlay it leads to, as Parquet.

What is read is checked as far as a table can be checked alone: its columns and their types, facets and actions
that exist, ids that are not negative, steps in order and within their number, gains that are finite.
"""

from __future__ import annotations

import hashlib
from pathlib import Path
from typing import NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from overlace.arrays.jit import Bools, Ints
from overlace.errors import BadOverlay, BadPlan, BadTrace
from overlace.model import FACETS, Changes, Facet, Overlay, Steps
from overlace.trace.runs import overlay_table
from overlace.trace.tables import Numbers, conform, numbers, texts
from overlace.wording import counted

ARG = "arg_"
"""How the column of a reason's argument begins."""


class PlanColumns(NamedTuple):
    """A plan's changes and steps without its planner."""

    changes: Changes
    steps: Steps

    def digest(self) -> str:
        """The same for the same changes, gains and reasons in the same order."""
        return hashlib.blake2b((self.changes.digest() + self.steps.digest()).encode(), digest_size=16).hexdigest()


def reconnects(changes: Changes, steps: Steps) -> Ints:
    """How many must connect anew in each step: a client at its home, the two ends of a link, a combination."""
    added = np.append(0, np.cumsum(changes.action > 0))
    return np.diff(added[steps.start])


class ChangeCounts(NamedTuple):
    """What a plan changes, as everybody counts it: a link that takes another's place is one change."""

    moves: int = 0  # clients that move
    links: int = 0  # links between brokers that change
    combinations: int = 0  # that change their channel
    new_links: int = 0  # links between clients that are new
    old_links: int = 0  # and that go

    def __str__(self) -> str:
        words = (
            ("client moves", "clients move"),
            ("link changes", "links change"),
            ("combination changes", "combinations change"),
            ("link added", "links added"),
            ("link removed", "links removed"),
        )
        counts = [counted(number, *each) for number, each in zip(self, words, strict=True) if number]
        return ", ".join(counts) or "nothing changes"


def count_changes(changes: Changes) -> ChangeCounts:
    """What these changes come to."""
    rows = {(facet, sign): changes.pairs(facet, sign) for facet in FACETS for sign in (1, -1)}

    def either(facet: Facet) -> int:
        return max(len(rows[facet, 1]), len(rows[facet, -1]))

    moves, combinations = (
        len(np.unique(np.concatenate([rows[facet, sign][:, 0] for sign in (1, -1)])))
        for facet in ("placement", "channels")
    )
    return ChangeCounts(moves, either("tree"), combinations, len(rows["mesh", 1]), len(rows["mesh", -1]))


def write_tables(folder: Path, after: Overlay, columns: PlanColumns) -> None:
    """after.parquet, changes.parquet and steps.parquet."""
    changes, steps = columns
    step_of = np.repeat(np.arange(len(steps)), np.diff(steps.start))
    change_table = pa.table(
        {
            "facet": np.asarray(FACETS)[changes.facet],
            "action": changes.action,
            "left": changes.left,
            "right": changes.right,
            "step": step_of,
        }
    )
    args = {ARG + name: values for name, values in steps.args.items()}
    step_table = pa.table({"gain": steps.gain, "reason": steps.reason, **args})
    pq.write_table(overlay_table(after), folder / "after.parquet", compression="zstd")
    pq.write_table(conform(change_table, "changes"), folder / "changes.parquet", compression="zstd")
    pq.write_table(step_table, folder / "steps.parquet", compression="zstd")


def read_tables(folder: Path) -> tuple[Overlay, PlanColumns]:
    """(overlay after, columns) of a plan folder; refused, naming file and column, if they are none."""
    steps, args = _steps(folder / "steps.parquet")
    changes = _read(folder / "changes.parquet", "changes")
    facet, left, right = _pairs(folder / "changes.parquet", changes)
    action, step = numbers(changes["action"]), numbers(changes["step"])
    _refuse(
        folder / "changes.parquet", "action", np.abs(action.astype(np.int64)) != 1, action, "1 to add, -1 to remove"
    )
    outside = (step < 0) | (step >= steps.num_rows) | np.append(False, step[1:] < step[:-1])
    _refuse(folder / "changes.parquet", "step", outside, step, f"steps in order, of {steps.num_rows:,} counted from 0")
    start = np.searchsorted(step, np.arange(steps.num_rows + 1))
    rows = _read(folder / "after.parquet", "overlay")
    where, *ends = _pairs(folder / "after.parquet", rows)
    pairs = np.column_stack(ends)
    try:
        after = Overlay(**{each: pairs[where == code] for code, each in enumerate(FACETS)})
    except BadOverlay as error:
        raise BadPlan(f"{folder / 'after.parquet'}: {error}") from None
    made = Steps(start, numbers(steps["gain"]), numbers(steps["reason"]), args)
    return after, PlanColumns(Changes(facet, action, left, right), made)


def _steps(path: Path) -> tuple[pa.Table, dict[str, Numbers]]:
    """(gain and reason, arguments by name)."""
    table = _table(path)
    named = [name for name in table.column_names if name.startswith(ARG)]
    steps = _conform(path, table.drop_columns(named) if named else table, "steps")
    gain, args = numbers(steps["gain"]), {}
    _refuse(path, "gain", ~np.isfinite(gain), gain, "finite numbers")
    for name in named:
        values = table[name]
        if values.type not in (pa.int64(), pa.float64()) or values.null_count:
            raise BadPlan(f"{path}: {name}: expected int64 or double without nulls, found {values.type}")
        args[name.removeprefix(ARG)] = numbers(values)
    return steps, args


def _pairs(path: Path, table: pa.Table) -> tuple[Ints, Ints, Ints]:
    """(facet as index, left, right)."""
    facet = numbers(pc.index_in(table["facet"], value_set=texts(FACETS)), -1)
    left, right = numbers(table["left"]), numbers(table["right"])
    if (facet < 0).any():
        raise BadPlan(f"{path}: facet: row {int(np.argmax(facet < 0)):,} has none of {', '.join(FACETS)}")
    for name, ids in (("left", left), ("right", right)):
        _refuse(path, name, ids < 0, ids, "ids from 0 on")
    return facet.astype(np.int64), left, right


def _refuse(path: Path, name: str, wrong: Bools, values: Numbers, expected: str) -> None:
    if wrong.any():
        row = int(np.argmax(wrong))
        raise BadPlan(f"{path}: {name}: row {row:,} has {values[row]}; expected {expected}")


def _read(path: Path, name: str) -> pa.Table:
    return _conform(path, _table(path), name)


def _conform(path: Path, table: pa.Table, name: str) -> pa.Table:
    try:
        return conform(table, name)
    except BadTrace as error:
        raise BadPlan(f"{path}: {error}") from None


def _table(path: Path) -> pa.Table:
    try:
        with pq.ParquetFile(path) as file:
            table = file.read()
            table.validate(full=True)
            names = table.column_names
    except (OSError, ValueError, pa.ArrowException) as error:
        raise BadPlan(f"{path} cannot be read as a table of a plan: {' '.join(str(error).split())}") from None
    if len(set(names)) < len(names):
        raise BadPlan(f"{path}: columns stand twice: {', '.join(names)}")
    return table
