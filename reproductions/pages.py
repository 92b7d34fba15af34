"""Reproduce: the papers' tables and figures beside ours, as pages, tables and pictures."""

from __future__ import annotations

import csv
import io
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from overlace.errors import BadParameter, Unknown
from overlace.model import Progress
from overlace.report.charts import chart_svg
from reproductions import ITEMS, Item, Result


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


def _run(item: Item, seeds: int | None, progress: Progress | None, begin: float, share: float, name: str) -> Result:
    if progress is None:
        return item(seeds=seeds)
    tell = progress
    tell(begin, name)
    return item(seeds=seeds, progress=lambda done, what: tell(begin + share * done, f"{name}: {what}"))


def _write(folder: Path, key: str, name: str, result: Result, seeds: int | None) -> None:
    folder.mkdir(parents=True, exist_ok=True)
    pictures = [f"{name}{'' if i == 0 else f'-{i + 1}'}.svg" for i in range(len(result.charts))]
    for old in folder.glob(f"{name}*.svg"):
        if old.name.removesuffix(".svg").removeprefix(name).lstrip("-").isdigit() and old.name not in pictures:
            old.unlink()
    for path, chart in zip(pictures, result.charts, strict=True):
        (folder / path).write_text(chart_svg(chart), encoding="utf-8")
    columns = list(result.rows[0]) if result.rows else []
    lines = io.StringIO()
    table = csv.DictWriter(lines, columns, lineterminator="\n")
    table.writeheader()
    table.writerows(result.rows)
    (folder / f"{name}.csv").write_text(lines.getvalue(), encoding="utf-8")
    (folder / f"{name}.md").write_text(page(key, name, result, pictures, seeds), encoding="utf-8")


def page(key: str, name: str, result: Result, pictures: Sequence[str] = (), seeds: int | None = None) -> str:
    """The page of an item, in Markdown."""
    command = f"python -m reproductions {key}/{name}" + (f" --seeds {seeds}" if seeds else "")
    parts = [f"# {key.upper()}: {result.title}", f"`{command}`"]
    if result.rows:
        head = list(result.rows[0])
        rows = [head, ["---"] * len(head), *([cell(row[each]) for each in head] for row in result.rows)]
        parts.append("\n".join("| " + " | ".join(row) + " |" for row in rows))
    parts += [f"- {note}" if len(result.notes) > 1 else note for note in result.notes]
    parts += [f"![{chart.title}]({path})" for chart, path in zip(result.charts, pictures, strict=True)]
    return "\n\n".join(parts).replace("\n\n- ", "\n- ").replace("\n- ", "\n\n- ", 1) + "\n"


def cell(value: Any) -> str:
    """A value in a table: four digits are enough."""
    if value is None:
        return ""
    if isinstance(value, bool):
        return "yes" if value else "no"
    if isinstance(value, float):
        return f"{value:,.0f}" if abs(value) >= 10_000 else f"{value:.4g}"
    return str(value)
