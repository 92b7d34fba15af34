"""The papers' tables and figures, made again: one module per table or figure, the printed numbers in expected.csv.

An item measures our figures, with their spread, against the paper's: rows and charts. What its page says of them is in
KEY/NAME.notes.md. Nothing here writes or plots; `python -m reproductions` does.
"""

from __future__ import annotations

from reproductions.cc12 import CC12
from reproductions.ocbr07 import OCBR07
from reproductions.part10 import PART10
from reproductions.result import Item, Result
from reproductions.tdcd17 import TDCD17

ITEMS: dict[str, dict[str, Item]] = {"cc12": CC12, "ocbr07": OCBR07, "part10": PART10, "tdcd17": TDCD17}
"""Every item by the paper's key and its own name; one plain dict."""

__all__ = ["ITEMS", "Item", "Result"]
