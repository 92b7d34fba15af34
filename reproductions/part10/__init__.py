"""PART10: formulas (4.1) and (4.2), figures 5.2 to 5.20, what a join costs, what strategy 4 gains, content, trees."""

from __future__ import annotations

from reproductions.part10.comparison import comparison, frontier
from reproductions.part10.content import content
from reproductions.part10.dissemination import dissemination
from reproductions.part10.figures import figures
from reproductions.part10.formulas import formulas
from reproductions.part10.joins import joins
from reproductions.part10.matching import matching
from reproductions.part10.sampling import sampling
from reproductions.part10.strategy_1 import strategy_1
from reproductions.part10.strategy_2 import strategy_2
from reproductions.part10.strategy_3 import strategy_3
from reproductions.part10.strategy_31 import strategy_31
from reproductions.result import by_name

PART10 = by_name(
    formulas,
    strategy_1,
    strategy_2,
    strategy_3,
    strategy_31,
    figures,
    sampling,
    joins,
    comparison,
    frontier,
    matching,
    content,
    dissemination,
)
