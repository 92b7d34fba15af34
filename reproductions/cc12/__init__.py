"""CC12 made again: hops, latencies and loads of three client networks on two overlays."""

from __future__ import annotations

from reproductions.cc12.backbone import table_4
from reproductions.cc12.beat import fewer_hops_and_moves, hops_against_moves
from reproductions.cc12.hops import figure_9, figures_5_to_7
from reproductions.cc12.latency import table_1, table_3
from reproductions.cc12.unseen import on_unseen_mail
from reproductions.result import Item

CC12: dict[str, Item] = {
    "figures-5-7": figures_5_to_7,
    "figure-9": figure_9,
    "table-1": table_1,
    "table-3": table_3,
    "table-4": table_4,
    "beat": fewer_hops_and_moves,
    "hops-against-moves": hops_against_moves,
    "unseen": on_unseen_mail,
}
"""Every item of the paper, by name."""
