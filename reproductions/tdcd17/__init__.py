"""TDCD17: Tables I to VI, and star meshes that beat them."""

from __future__ import annotations

from collections.abc import Mapping

from reproductions.result import Item
from reproductions.tdcd17.lower_bounds import bounds
from reproductions.tdcd17.tables import table_1, table_2, table_3, table_4, table_5, table_6
from reproductions.tdcd17.three_axes import diameters
from reproductions.tdcd17.under_caps import beat

TDCD17: Mapping[str, Item] = {
    "table-1": table_1,
    "table-2": table_2,
    "table-3": table_3,
    "table-4": table_4,
    "table-5": table_5,
    "table-6": table_6,
    "beat": beat,
    "diameters": diameters,
    "bounds": bounds,
}
