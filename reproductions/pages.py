"""Pages, tables and pictures of the papers' tables and figures: a page is a function of its rows."""

from __future__ import annotations

import csv
import io
import json
import re
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

from overlace.errors import BadParameter, Unknown
from overlace.model import Progress
from overlace.report.charts import Row, chart_svg
from reproductions import ITEMS, Item, Result
from reproductions.result import Measured


def chosen_items(selection: str | None) -> list[tuple[str, str]]:
    """(key, item) of everything, of one paper (KEY) or of one table or figure (KEY/ITEM)."""
    key, _, item = (selection or "").lower().partition("/")
    if not key:
        return [(each, name) for each, items in ITEMS.items() for name in items]
    if key not in ITEMS:
        raise Unknown("paper", key, ITEMS)
    if item and item not in ITEMS[key]:
        raise Unknown(f"item of {key}", item, ITEMS[key])
    return [(key, name) for name in ITEMS[key] if item in ("", name)]


def reproduce(
    selection: str | None, out: Path, *, seeds: int | None = None, progress: Progress | None = None
) -> dict[str, Result]:
    """Make the chosen items again and write each into OUT/KEY: a page, its rows as csv, its charts as svg."""
    if seeds is not None and seeds < 1:
        raise BadParameter(f"seeds is {seeds}: expected 1 or more")
    chosen = chosen_items(selection)
    done = {}
    for i, (key, name) in enumerate(chosen):
        result = _run(ITEMS[key][name], seeds, progress, i / len(chosen), 1 / len(chosen), f"{key}/{name}")
        _write(out / key, key, name, result, seeds)
        done[f"{key}/{name}"] = result
    return done


def rewrite(selection: str | None, out: Path) -> dict[str, Result]:
    """Write the chosen pages anew from their rows in OUT/KEY: nothing is measured, the pictures stay."""
    done = {}
    for key, name in chosen_items(selection):
        path = out / key / f"{name}.md"
        if not path.exists():
            raise BadParameter(f"{path} is not there: make the page first, without --from-csv")
        text, done[f"{key}/{name}"] = render(key, name, out)
        path.write_text(text, encoding="utf-8")
    return done


def render(key: str, name: str, out: Path) -> tuple[str, Result]:
    """The page that follows from the rows in OUT/KEY, with the seeds and pictures' titles of the page there."""
    item, old = ITEMS[key][name], (out / key / f"{name}.md").read_text(encoding="utf-8")
    command = re.search(r"--seeds (\d+)`", old)
    seeds = int(command[1]) if command else None
    result = item.result(read_measured(out / key, name), seeds or item.seeds)
    titles = re.findall(r"^!\[(.*)\]\(", old, re.MULTILINE)
    return page(key, name, result, titles, seeds), result


def _run(item: Item, seeds: int | None, progress: Progress | None, begin: float, share: float, name: str) -> Result:
    if progress is None:
        return item(seeds=seeds)
    progress(begin, name)
    return item(seeds=seeds, progress=lambda done, what: progress(begin + share * done, f"{name}: {what}"))


def _write(folder: Path, key: str, name: str, result: Result, seeds: int | None) -> None:
    folder.mkdir(parents=True, exist_ok=True)
    pictures = picture_names(name, len(result.charts))
    for old in folder.glob(f"{name}*.svg"):
        if old.name.removesuffix(".svg").removeprefix(name).lstrip("-").isdigit() and old.name not in pictures:
            old.unlink()
    for path, chart in zip(pictures, result.charts, strict=True):
        (folder / path).write_text(chart_svg(chart), encoding="utf-8")
    lines = io.StringIO()
    table = csv.DictWriter(lines, list(result.rows[0]) if result.rows else [], lineterminator="\n")
    table.writeheader()
    table.writerows(result.rows)
    (folder / f"{name}.csv").write_text(lines.getvalue(), encoding="utf-8")
    if result.facts:
        facts = json.dumps(dict(result.facts), indent=1, ensure_ascii=False)
        (folder / f"{name}.facts.json").write_text(f"{facts}\n", encoding="utf-8")
    rows = read_measured(folder, name).rows  # so that the page follows from the file, to the last digit
    titles = [chart.title for chart in result.charts]
    (folder / f"{name}.md").write_text(page(key, name, replace(result, rows=rows), titles, seeds), encoding="utf-8")


def picture_names(name: str, count: int) -> list[str]:
    """The files of an item's pictures, in the order of its charts."""
    return [f"{name}{'' if i == 0 else f'-{i + 1}'}.svg" for i in range(count)]


def read_measured(folder: Path, name: str) -> Measured:
    """What was measured, from the files of an item: its rows and facts, without the charts."""
    table = list(csv.reader(io.StringIO((folder / f"{name}.csv").read_text(encoding="utf-8"))))
    columns = {head: _values(column) for head, *column in zip(*table, strict=True)}
    rows: list[Row] = [dict(zip(columns, row, strict=True)) for row in zip(*columns.values(), strict=True)]
    facts = folder / f"{name}.facts.json"
    return Measured(rows, facts=json.loads(facts.read_text(encoding="utf-8")) if facts.exists() else {})


def _values(column: Sequence[str]) -> list[object]:
    """A column of a csv file as it was. A number that Python would write otherwise (5.20) makes the column text."""
    values = [_value(text) for text in column]
    if any(isinstance(value, float) and repr(value) != text for text, value in zip(column, values, strict=True)):
        return [text or None for text in column]
    return values


def _value(text: str) -> object:
    if text in ("", "True", "False"):
        return {"": None, "True": True, "False": False}[text]
    try:
        return float(text) if "." in text or "e" in text else int(text)
    except ValueError:
        return text


def page(key: str, name: str, result: Result, titles: Sequence[str] = (), seeds: int | None = None) -> str:
    """The page of an item, in Markdown, with a picture for each title."""
    command = f"python -m reproductions {key}/{name}" + (f" --seeds {seeds}" if seeds else "")
    parts = [f"# {key.upper()}: {result.title}", f"`{command}`"]
    if result.rows:
        head = list(result.rows[0])
        rows = [head, ["---"] * len(head), *([cell(row[each]) for each in head] for row in result.rows)]
        parts.append("\n".join("| " + " | ".join(row) + " |" for row in rows))
    parts += [f"- {note}" if len(result.notes) > 1 else note for note in result.notes]
    pictures = picture_names(name, len(titles))
    parts += [f"![{title}]({picture})" for title, picture in zip(titles, pictures, strict=True)]
    return "\n\n".join(parts).replace("\n\n- ", "\n- ").replace("\n- ", "\n\n- ", 1) + "\n"


def cell(value: object) -> str:
    """A value in a table: four digits are enough."""
    if value is None:
        return ""
    if isinstance(value, bool):
        return "yes" if value else "no"
    if isinstance(value, float):
        return f"{value:,.0f}" if abs(value) >= 10_000 else f"{value:.4g}"
    return str(value)
