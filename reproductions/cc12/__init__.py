"""CC12 made again: hops, latencies and loads of three client networks on two overlays."""

from __future__ import annotations

from reproductions.cc12.backbone import table_4
from reproductions.cc12.comparison import compare_placements, hops_against_moves
from reproductions.cc12.held_out import place_held_out_mail
from reproductions.cc12.hops import figure_9, figures_5_to_7
from reproductions.cc12.latency import table_1, table_3
from reproductions.result import by_name

CC12 = by_name(
    figures_5_to_7, figure_9, table_1, table_3, table_4, compare_placements, hops_against_moves, place_held_out_mail
)
