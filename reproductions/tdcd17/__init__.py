"""TDCD17: Tables I to VI, and star meshes that beat them."""

from __future__ import annotations

from reproductions.result import by_name
from reproductions.tdcd17.lower_bounds import bounds
from reproductions.tdcd17.tables import table_1, table_2, table_3, table_4, table_5, table_6
from reproductions.tdcd17.three_axes import diameters
from reproductions.tdcd17.under_caps import comparison

TDCD17 = by_name(table_1, table_2, table_3, table_4, table_5, table_6, comparison, diameters, bounds)
