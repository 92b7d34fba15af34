"""TDCD17 Tables I to VI: average and maximum degrees of GM, CD-ODA-II, 2D-ODA and TD-CD-ODA.

Each figure is the mean over the seeds of the value of an instance. Tables V and VI are run as §V.C says and as
their numbers say (R4).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Literal

from overlace.model import Progress
from overlace.report.charts import Chart, Row
from reproductions.result import Result, Spread, expected
from reproductions.tdcd17.runs import PRINTED, SEEDS, Setting, solved

Degree = Literal["average", "maximum"]
NEAR = 0.05


def _by_clients(clients: int) -> Mapping[str, Setting]:
    return {"": Setting(clients, 100, 10)}


def _by_topics(topics: int) -> Mapping[str, Setting]:
    return {"": Setting(200, topics, 10)}


def _by_size(each: int) -> Mapping[str, Setting]:
    return {"200 clients, 200 topics (fits)": Setting(200, 200, each), "250, 100 (printed)": Setting(250, 100, each)}


def table_1(*, seeds: int | None = None, progress: Progress | None = None) -> Result:
    """Average degree for 200 to 400 clients."""
    settings = {n: _by_clients(n) for n in (200, 250, 300, 350, 400)}
    return _table("I", "average", "clients", settings, seeds, progress)


def table_2(*, seeds: int | None = None, progress: Progress | None = None) -> Result:
    """Maximum degree for 200 to 400 clients."""
    settings = {n: _by_clients(n) for n in (200, 250, 300, 350, 400)}
    return _table("II", "maximum", "clients", settings, seeds, progress)


def table_3(*, seeds: int | None = None, progress: Progress | None = None) -> Result:
    """Average degree for 200 to 400 topics."""
    settings = {n: _by_topics(n) for n in (200, 250, 300, 350, 400)}
    return _table("III", "average", "topics", settings, seeds, progress)


def table_4(*, seeds: int | None = None, progress: Progress | None = None) -> Result:
    """Maximum degree for 200 to 400 topics."""
    settings = {n: _by_topics(n) for n in (200, 250, 300, 350, 400)}
    return _table("IV", "maximum", "topics", settings, seeds, progress)


def table_5(*, seeds: int | None = None, progress: Progress | None = None) -> Result:
    """Average degree for 15 to 35 topics a client."""
    settings = {n: _by_size(n) for n in (15, 20, 25, 30, 35)}
    return _table("V", "average", "topics of each client", settings, seeds, progress)


def table_6(*, seeds: int | None = None, progress: Progress | None = None) -> Result:
    """Maximum degree for 15 to 35 topics a client."""
    settings = {n: _by_size(n) for n in (15, 20, 25, 30, 35)}
    return _table("VI", "maximum", "topics of each client", settings, seeds, progress)


def _table(
    table: str,
    degree: Degree,
    varied: str,
    settings: Mapping[int, Mapping[str, Setting]],
    seeds: int | None,
    progress: Progress | None,
) -> Result:
    printed, count = expected("tdcd17"), seeds or SEEDS
    several = max(len(each) for each in settings.values()) > 1
    rows: list[dict[str, object]] = []
    total = len(settings) * len(PRINTED)
    for value, variants in settings.items():
        for name, planner in PRINTED.items():
            for variant, setting in variants.items():
                runs = [solved(planner, setting, seed) for seed in range(count)]
                ours = Spread.of([getattr(run, degree) for run in runs])
                paper = printed[table, str(value), name]
                rows.append(
                    {
                        varied: value,
                        "algorithm": name,
                        **({"setting": variant} if several else {}),
                        "paper": paper,
                        "ours": ours.mean,
                        "ours / paper": ours.mean / paper,
                        "deviation": ours.deviation,
                        "least": ours.low,
                        "most": ours.high,
                        ("maximum" if degree == "average" else "average"): Spread.of(
                            [run.maximum if degree == "average" else run.average for run in runs]
                        ).mean,
                        "diameter": Spread.of([run.diameter for run in runs]).mean,
                    }
                )
            if progress:
                progress(len(rows) / total / (2 if several else 1), f"{varied} {value}")
    title = f"Table {table}, {degree} degree by {varied}"
    notes = [f"Mean of seeds 0 to {count - 1}. Diameter: the longest of any topic, by breadth-first search."]
    notes += _off(rows, varied, several)
    return Result(title, rows, notes, [_chart(title, degree, varied, rows, several)])


def _off(rows: Sequence[Row], varied: str, several: bool) -> list[str]:
    """What does not come out: more than 5 % and more than two deviations away."""
    notes = []
    for variant in dict.fromkeys(row.get("setting", "") for row in rows):
        mine = [row for row in rows if row.get("setting", "") == variant]
        far = [row for row in mine if abs(row["ours / paper"] - 1) > NEAR]
        off = [row for row in far if abs(row["ours"] - row["paper"]) > 2 * row["deviation"]]
        head = f"{variant}: " if several else ""
        said = f"not reproduced (more than 5 % and two deviations away): {_list(off, varied)}" if off else "all do"
        notes.append(f"{head}{len(mine) - len(off)} of {len(mine)} figures come out; {said}.")
        if doubtful := [row for row in far if row not in off]:
            notes.append(f"{head}more than 5 % away, but within two deviations: {_list(doubtful, varied)}.")
    return notes


def _list(rows: Sequence[Row], varied: str) -> str:
    return ", ".join(f"{row['algorithm']} at {row[varied]} ({row['ours / paper'] - 1:+.0%})" for row in rows)


def _chart(title: str, degree: str, varied: str, rows: Sequence[Row], several: bool) -> Chart:
    """One panel an algorithm, the paper and ours."""
    drawn = []
    for row in rows:
        same = {varied: row[varied], "algorithm": row["algorithm"]}
        setting = f"ours, {row['setting']}" if several else "ours"
        drawn.append({**same, "who": setting, degree: row["ours"], "low": row["least"], "high": row["most"]})
    seen = set()
    for row in rows:
        at = (row[varied], row["algorithm"])
        if at not in seen:
            same = {varied: row[varied], "algorithm": row["algorithm"]}
            drawn.append({**same, "who": "paper", degree: row["paper"], "low": row["paper"], "high": row["paper"]})
            seen.add(at)
    return Chart(
        title, drawn, varied, degree, series="who", panel="algorithm", low="low", high="high",
        y_title=f"{degree} degree (bar: least to most)",
    )  # fmt: skip
