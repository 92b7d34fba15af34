"""The papers' tables and figures, made again: one module per table or figure, the printed numbers in expected.csv.

An item is a function that returns a `Result`: our figures beside the paper's, with their spread, as rows and
as charts. Nothing here writes or plots; `overlace reproduce` does.
"""

from __future__ import annotations

from overlace.reproduce.result import Chart, Item, Result

ITEMS: dict[str, dict[str, Item]] = {}
"""Every item by the paper's key and its own name; one plain dict."""

__all__ = ["ITEMS", "Chart", "Item", "Result"]
