"""From content to channels: stock quotes, subscriptions by content, and what PART10's strategies make of them.

The quotes are not part of the project: OVERLACE_DATA names the folder of their archive (default: ../shared/data).
"""

from __future__ import annotations

import os
import tarfile
from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from overlace.arrays.jit import Ints
from overlace.errors import BadParameter
from overlace.ingest.content import attribute_of, content_of
from overlace.ingest.formats.padres_quotes import FORMAT
from overlace.ingest.options import Options
from overlace.matching.content.attributes import choose_attributes
from overlace.matching.content.columns import Columns
from overlace.matching.content.filters import Filter
from overlace.matching.content.matcher import Matcher
from overlace.model import UNLIMITED, Planner, Progress
from overlace.planners.channels.strategies import Strategy1, Strategy2, Strategy3, Strategy31
from overlace.planners.channels.strategy4 import Strategy4
from overlace.replay.delivery import delivery
from overlace.report.charts import Row
from reproductions.part10.predicates import describe, fit_predicates
from reproductions.result import Measured, Spread, item
from reproductions.workloads.content import content_filters, quote_columns

ARCHIVE = "padres_stockquotes.tar.xz"
TRAIN = 0.7
SUBSCRIBERS = 500
SHARES = {"selective": 1.0, "mixed": 0.7, "broad": 0.0}
LIMITS = (4, 8, 16)
FREE: dict[str, Planner] = {"strategy 1 (no limits)": Strategy1(), "strategy 2 (no limits)": Strategy2()}
LIMITED: dict[str, Planner] = {
    "strategy 3": Strategy3(),
    "strategy 3.1": Strategy31(),
    "strategy 4": Strategy4(),
}
STEPS = (4, 8, 16, 24, 32, 48, 63)


class Part(NamedTuple):
    """Quotes of some time: what they say, who publishes them, and how many of them each filter matches together."""

    columns: Columns
    publisher: Ints
    wanted: int


def read_quotes(archive: Path) -> pa.Table:
    """All quotes of an archive, by time, then by symbol."""
    if not archive.exists():
        raise BadParameter(f"{archive} is not there: name the folder of {archive.name} in OVERLACE_DATA")
    given = Options(map={"client": "symbol", "at": "date"}).for_format(FORMAT)
    parts = []
    with tarfile.open(archive) as files:
        for member in files:
            content = files.extractfile(member)
            text = content.read() if content else b""
            if text:
                parts += [_quotes_in(batch) for batch in FORMAT.read(iter([(0, text)]), FORMAT.settle(text, given))]
    return pa.concat_tables([part for part in parts if part is not None]).sort_by(
        [("at", "ascending"), ("symbol", "ascending")]
    )


def _quotes_in(batch: pa.RecordBatch) -> pa.Table | None:
    columns = {attribute_of(name)[1]: batch[name] for name in content_of(batch)}
    plain = {
        name: each.cast(pa.string()) if pa.types.is_dictionary(each.type) else each for name, each in columns.items()
    }
    return pa.table({"at": batch["at"], **plain}) if plain else None


def cut(quotes: pa.Table) -> tuple[pa.Table, pa.Table]:
    """The training window and what follows."""
    at = int(TRAIN * quotes.num_rows)
    return quotes.slice(0, at), quotes.slice(at)


def part_of(quotes: pa.Table, filters: Sequence[Filter], symbols: pa.Array) -> Part:
    """Quotes as messages."""
    columns = quote_columns(quotes)
    publisher = pc.index_in(quotes["symbol"], symbols).to_numpy().astype(np.int64)
    return Part(columns, publisher, len(Matcher(filters).match(columns).ids))


def rate(part: Part, received: float) -> float:
    """False positives / messages received."""
    return 1 - part.wanted / received if received else 0.0


def by_symbol(part: Part, filters: Sequence[Filter]) -> int:
    """Messages received if the symbol is the topic: who names no symbol receives all."""
    symbol = part.columns.columns["symbol"]
    count = dict(zip(symbol.words.to_pylist(), np.bincount(symbol.codes, minlength=len(symbol.words)), strict=True))
    named = [next((each.value for each in own if each.attribute == "symbol"), None) for own in filters]
    return sum(part.columns.rows if each is None else int(count.get(each, 0)) for each in named)


def compare(quotes: pa.Table, share: float, seed: int) -> dict[str, tuple[float, ...]]:
    """(rate on the training window, rate later, attributes, channels, connections) of everybody, for one seed."""
    early, late = cut(quotes)
    filters = content_filters(quote_columns(early), SUBSCRIBERS, share, seed=seed)
    symbols = pc.unique(quotes["symbol"])
    train, later = (part_of(each, filters, symbols) for each in (early, late))
    alone = [rate(part, part.columns.rows * len(filters)) for part in (train, later)]
    topics = [rate(part, by_symbol(part, filters)) for part in (train, later)]
    found: dict[str, tuple[float, ...]] = {
        "one channel": (*alone, 0, 1, 1),
        "topic = symbol": (*topics, len(symbols), len(symbols), 1),
    }
    ranked = choose_attributes(filters, train.columns, seed=seed)
    cases = [(name, planner, UNLIMITED) for name, planner in FREE.items()]
    cases += [(f"{name}, {limit} connections", planner, limit) for limit in LIMITS for name, planner in LIMITED.items()]
    for name, planner, limit in cases:
        fitted = fit_predicates(planner, train.columns, train.publisher, filters, ranked, limit, STEPS)
        seen = [describe(part.columns, part.publisher, filters, fitted.predicates, limit) for part in (train, later)]
        metrics = [delivery(each, fitted.overlay) for each in seen]
        rates = [rate(part, each.of("received")) for part, each in zip((train, later), metrics, strict=True)]
        used = (metrics[0].of("channels"), metrics[0].of("mean_connections"))
        found[name] = (*rates, len(fitted.predicates), *used)
    return found


def _figures(measured: Measured, seeds: int) -> dict[str, object]:
    rows = {(row["subscriptions"], row["channels by"]): row for row in measured.rows}
    figures: dict[str, object] = {"quotes": measured.facts["quotes"], "subscribers": SUBSCRIBERS}
    for kind in SHARES:
        for name, short in (("one channel", "one"), ("topic = symbol", "topic"), ("strategy 4, 8 connections", "four")):
            figures[f"{kind}_{short}"] = f"{rows[kind, name]['rate, later']:.3f}"
    return figures


@item("part10/content", "From content to channels, on stock quotes", seeds=3, figures=_figures)
def content(seeds: int, progress: Progress) -> Measured:
    """Plan on the first 70 % of the quotes, judge on the rest: one channel, a topic a symbol, chosen attributes."""
    quotes = read_quotes(Path(os.environ.get("OVERLACE_DATA", "../shared/data")) / ARCHIVE)
    rows: list[Row] = []
    for i, (kind, share) in enumerate(SHARES.items()):
        found = []
        for seed in range(seeds):
            found.append(compare(quotes, share, seed))
            progress((i * seeds + seed + 1) / (len(SHARES) * seeds), f"{kind}, seed {seed}")
        for name in found[0]:
            train, later, attributes, channels, connections = (
                Spread.of(column) for column in zip(*(each[name] for each in found), strict=True)
            )
            rows.append(
                {
                    "subscriptions": kind,
                    "channels by": name,
                    "rate, training": train.mean,
                    "rate, later": later.mean,
                    "least": later.low,
                    "most": later.high,
                    "attributes": attributes.mean,
                    "channels": channels.mean,
                    "connections": connections.mean,
                }
            )
    return Measured(rows, facts={"quotes": f"{quotes.num_rows:,}"})
