"""The papers' tables and figures, made again: one module per table or figure, the printed numbers in expected.csv.

An item is a function that returns a `Result`: our figures beside the paper's, with their spread, as rows and
as charts. Nothing here writes or plots; `overlace reproduce` does.
"""

from __future__ import annotations

from overlace.reproduce.cc12 import CC12
from overlace.reproduce.ocbr07 import OCBR07
from overlace.reproduce.part10 import PART10
from overlace.reproduce.result import Chart, Item, Result
from overlace.reproduce.tdcd17 import TDCD17

ITEMS: dict[str, dict[str, Item]] = {
    "cc12": dict(CC12),
    "ocbr07": dict(OCBR07),
    "part10": dict(PART10),
    "tdcd17": dict(TDCD17),
}
"""Every item by the paper's key and its own name; one plain dict."""

__all__ = ["ITEMS", "Chart", "Item", "Result"]
