"""TDCD17 Tables I to VI: average and maximum degrees of GM, CD-ODA-II, 2D-ODA and TD-CD-ODA.

Each figure is the mean over the seeds of the value of an instance. Tables V and VI are run as §V.C says and as
their numbers say (R4).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import partial
from typing import Literal, NamedTuple

from overlace.model import Progress
from overlace.report.charts import Chart, Row
from reproductions.result import Item, Measured, Spread, expected, item
from reproductions.tdcd17.runs import PRINTED, SEEDS, Axes, Setting, solved

Degree = Literal["average", "maximum"]
NEAR = 0.05
"""How far from the paper's a figure of ours may lie, whatever its deviation."""


def _by_clients(clients: int) -> Mapping[str, Setting]:
    return {"": Setting(clients, 100, 10)}


def _by_topics(topics: int) -> Mapping[str, Setting]:
    return {"": Setting(200, topics, 10)}


def _by_size(each: int) -> Mapping[str, Setting]:
    return {"200 clients, 200 topics (fits)": Setting(200, 200, each), "250, 100 (printed)": Setting(250, 100, each)}


class Table(NamedTuple):
    """A table of the paper: its number, the degree that it prints, and what varies."""

    number: str
    degree: Degree
    varied: Literal["clients", "topics", "topics of each client"]

    @property
    def title(self) -> str:
        """Its name on the page."""
        return f"Table {self.number}, {self.degree} degree by {self.varied}"

    def settings(self) -> Mapping[int, Mapping[str, Setting]]:
        """The settings of each value, by their names where there are several."""
        if self.varied == "topics of each client":
            return {each: _by_size(each) for each in (15, 20, 25, 30, 35)}
        return {n: _by_clients(n) if self.varied == "clients" else _by_topics(n) for n in (200, 250, 300, 350, 400)}


def _measure(table: Table, seeds: int, progress: Progress) -> Measured:
    printed, settings = expected("tdcd17"), table.settings()
    cases = [(value, name, *each) for value in settings for name in PRINTED for each in settings[value].items()]
    rows: list[Row] = []
    for i, (value, name, variant, setting) in enumerate(cases):
        runs = [solved(PRINTED[name], setting, seed) for seed in range(seeds)]
        known = {table.varied: value, "algorithm": name} | ({"setting": variant} if variant else {})
        rows.append(known | _figures_of(runs, table.degree, printed[table.number, str(value), name]))
        progress((i + 1) / len(cases), f"{table.varied} {value}")
    return Measured(rows, [_chart(table, rows)])


def _figures_of(runs: Sequence[Axes], degree: Degree, paper: float) -> dict[str, object]:
    """The degree of the table against the paper's, then the other degree and the diameter."""
    ours = Spread.of([getattr(run, degree) for run in runs])
    other = "maximum" if degree == "average" else "average"
    return {
        "paper": paper,
        "ours": ours.mean,
        "ours / paper": ours.mean / paper,
        "deviation": ours.deviation,
        "least": ours.low,
        "most": ours.high,
        other: Spread.of([getattr(run, other) for run in runs]).mean,
        "diameter": Spread.of([run.diameter for run in runs]).mean,
    }


def _figures(measured: Measured, seeds: int) -> dict[str, object]:
    """What does not come out: more than NEAR and more than two deviations away."""
    varied, near = next(iter(measured.rows[0])), f"more than {100 * NEAR:g} %"
    notes = []
    for variant in dict.fromkeys(row.get("setting", "") for row in measured.rows):
        mine = [row for row in measured.rows if row.get("setting", "") == variant]
        far = [row for row in mine if abs(row["ours / paper"] - 1) > NEAR]
        off = [row for row in far if abs(row["ours"] - row["paper"]) > 2 * row["deviation"]]
        head = f"{variant}: " if variant else ""
        rest = f"not reproduced ({near} and two deviations away): {_list(off, varied)}" if off else "all do"
        notes.append(f"{head}{len(mine) - len(off)} of {len(mine)} figures come out; {rest}.")
        if doubtful := [row for row in far if row not in off]:
            notes.append(f"{head}{near} away, but within two deviations: {_list(doubtful, varied)}.")
    return {"verdicts": notes}


def _list(rows: Sequence[Row], varied: str) -> str:
    return ", ".join(f"{row['algorithm']} at {row[varied]} ({row['ours / paper'] - 1:+.0%})" for row in rows)


def _chart(table: Table, rows: Sequence[Row]) -> Chart:
    """One panel an algorithm, the paper and ours."""
    ours: list[Row] = []
    paper: dict[tuple[object, ...], Row] = {}
    for row in rows:
        same = {table.varied: row[table.varied], "algorithm": row["algorithm"]}
        who = f"ours, {row['setting']}" if "setting" in row else "ours"
        ours.append({**same, "who": who, table.degree: row["ours"], "low": row["least"], "high": row["most"]})
        paper[*same.values()] = {**same, "who": "paper"} | dict.fromkeys((table.degree, "low", "high"), row["paper"])
    title = f"{table.degree} degree (bar: least to most)"
    drawn = [*ours, *paper.values()]
    return Chart(table.title, drawn, table.varied, table.degree, "who", "algorithm", "low", "high", y_title=title)


def _item(place: int, table: Table) -> Item:
    make = item(f"tdcd17/table-{place}", table.title, seeds=SEEDS, figures=_figures, template="tdcd17/tables")
    return make(partial(_measure, table))


table_1 = _item(1, Table("I", "average", "clients"))
table_2 = _item(2, Table("II", "maximum", "clients"))
table_3 = _item(3, Table("III", "average", "topics"))
table_4 = _item(4, Table("IV", "maximum", "topics"))
table_5 = _item(5, Table("V", "average", "topics of each client"))
table_6 = _item(6, Table("VI", "maximum", "topics of each client"))
