"""OCBR07: Figure 2, the laws of §3.1, and the tables that the paper leaves out."""

from __future__ import annotations

from reproductions.ocbr07.caps import caps
from reproductions.ocbr07.comparison import comparison
from reproductions.ocbr07.drift import drift
from reproductions.ocbr07.few_links import few_links
from reproductions.ocbr07.figure_2 import figure_2
from reproductions.ocbr07.large import large
from reproductions.ocbr07.laws import laws
from reproductions.ocbr07.optimum import optimum
from reproductions.ocbr07.rounds import rounds
from reproductions.ocbr07.traps import traps
from reproductions.result import by_name

OCBR07 = by_name(figure_2, laws, optimum, large, rounds, traps, few_links, caps, comparison, drift)
