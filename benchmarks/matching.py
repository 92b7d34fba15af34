"""Content filters against the stock quotes of PADRES: matching and covering, beside plain compiled loops.

`python benchmarks/matching.py --quotes padres_stockquotes.tar.xz`, a few minutes.
"""

from __future__ import annotations

import argparse
import pickle
import re
import subprocess
import sys
import tarfile
import tempfile
import time
from pathlib import Path

import numpy as np
import pyarrow as pa
from matching_rivals import Plain, match_by_counting, match_naively, prepare_counting, scan_covers
from protocol import resident, seconds, short, table, timed, write

from overlace.matching.content.columns import Columns
from overlace.matching.content.covering import CoverIndex
from overlace.matching.content.filters import Constraint, Filter
from overlace.matching.content.matcher import Matcher

sys.path.insert(0, str(Path(__file__).parent.parent))
from reproductions.part10.matching import NUMBERS, WORKLOADS, Drawn, draw_filters

SAMPLE, BATCH = 2_000, 200
SIZES = (1_000, 10_000, 100_000)
CHANGES, QUERIES = 10_000, 1_000


def read_quotes(path: Path) -> pa.Table:
    """The quotes as a table, a column for each attribute."""
    pair = re.compile(r"\[(\w+),(?:'([^']*)'|([^\]]*))\]")
    columns: dict[str, list[object]] = {}
    with tarfile.open(path) as archive:
        for each in sorted(archive.getmembers(), key=lambda member: member.name):
            file = archive.extractfile(each) if each.isfile() else None
            for line in file.read().decode().splitlines() if file else ():
                for name, text, number in pair.findall(line):
                    columns.setdefault(name, []).append(float(number) if number else text)
    return pa.table(columns)


def plain_filters(filters: list[Filter], symbols: dict[str, int]) -> Plain:
    """The same filters for the rivals."""
    rows: list[tuple[int, float, float]] = []
    start = [0]
    for each in filters:
        rows += plain_ranges(each, symbols)
        start.append(len(rows))
    column, low, high = zip(*rows, strict=True)
    return Plain(np.array(start), np.array(column), np.array(low), np.array(high))


def plain_ranges(filter: Filter, symbols: dict[str, int]) -> list[tuple[int, float, float]]:
    ranges = {}
    for each in filter:
        if each.attribute == "symbol":
            ranges[0] = [symbols[each.value]] * 2
        else:
            ranges.setdefault(1 + NUMBERS.index(each.attribute), [-np.inf, np.inf])[each.operator == "<="] = each.value
    return [(column, low, high) for column, (low, high) in ranges.items()]


def plain_messages(quotes: pa.Table, symbols: dict[str, int]) -> np.ndarray:
    codes = np.array([symbols[each] for each in quotes["symbol"].to_pylist()], float)
    return np.column_stack([codes, *(quotes[name].to_numpy() for name in NUMBERS)])


def compare_matchers(quotes: pa.Table, sample: pa.Table, symbols: dict[str, int]) -> str:
    """Matching, beside a naive loop and the counting matcher."""
    messages = plain_messages(sample, symbols)
    pieces = [messages[k : k + BATCH] for k in range(0, SAMPLE, BATCH)]
    batches = [Columns.from_batch(sample.slice(k, BATCH)) for k in range(0, SAMPLE, BATCH)]
    rows = []
    for workload, drawn in WORKLOADS.items():
        before = None
        for count in SIZES:
            filters = draw_filters(quotes, drawn, count, count)
            plain = plain_filters(filters, symbols)
            counting = prepare_counting(plain, messages)
            matcher, built = timed(lambda: Matcher(filters))
            matched = 0
            for piece, batch in zip(pieces, batches, strict=True):
                start, ids = match_naively(plain, piece)
                for other in (match_by_counting(counting, plain, piece), matcher.match(batch)):
                    assert np.array_equal(start, other[0])
                    assert np.array_equal(ids, other[1])
                matched += len(ids)
            naive = seconds(lambda: [match_naively(plain, each) and None for each in pieces], 2, time.process_time)
            counted = seconds(
                lambda: [match_by_counting(counting, plain, each) and None for each in pieces], 2, time.process_time
            )
            ours = seconds(lambda: [matcher.match(each) and None for each in batches], 5, time.process_time)
            rows.append((
                workload, f"{count:,}", f"{matched / SAMPLE:,.0f}",
                *(f"{1e6 * each / SAMPLE:.1f}" for each in (naive, counted, ours)),
                f"{naive / ours:.0f}", f"{counted / ours:.0f}", f"{ours / before:.1f}" if before else "-",
                short(built), f"{matcher.nbytes / 1e6:.1f}",
            ))  # fmt: skip
            before = ours
    return table(
        ("filters are", "filters", "matches a message", "naive, us", "counting, us", "ours, us", "naive / ours",
         "counting / ours", "growth per 10x", "built from Python in", "MB in arrays"), rows,
    )  # fmt: skip


def change_filters(quotes: pa.Table, sample: pa.Table) -> str:
    """Filters that come and go."""
    rows = []
    batches = [Columns.from_batch(sample.slice(k, BATCH)) for k in range(0, SAMPLE, BATCH)]
    for workload, drawn in WORKLOADS.items():
        filters = draw_filters(quotes, drawn, SIZES[-1] + CHANGES, 7)
        matcher = Matcher(filters[:-CHANGES])
        fresh = seconds(lambda: [matcher.match(each) and None for each in batches], 3, time.process_time)
        order = np.random.default_rng(7).permutation(SIZES[-1])[:CHANGES]
        _, inserted = timed(lambda: [matcher.insert(each) for each in filters[-CHANGES:]])
        _, removed = timed(lambda: [matcher.remove(int(each)) for each in order])
        after = seconds(lambda: [matcher.match(each) and None for each in batches], 3, time.process_time)
        again = Matcher([each for k, each in enumerate(filters) if k not in set(order.tolist())])
        kept = np.delete(np.arange(len(filters)), order)
        for each in batches[:2]:
            there, expected = matcher.match(each), again.match(each)
            assert np.array_equal(there.start, expected.start)
            assert np.array_equal(there.ids, kept[expected.ids])
        rows.append((
            workload, short(inserted / CHANGES), short(removed / CHANGES),
            *(f"{1e6 * each / SAMPLE:.1f}" for each in (fresh, after)), f"{after / fresh:.2f}",
        ))  # fmt: skip
    head = ("filters are", "an insertion", "a removal", "a message before, us", "a message after, us", "after / before")
    return table(head, rows)


def weigh(quotes: pa.Table, sample: pa.Table) -> str:
    """Memory of a process that gets the matcher and matches."""
    rows = []
    for workload, drawn in WORKLOADS.items():
        matcher = Matcher(draw_filters(quotes, drawn, SIZES[-1], SIZES[-1]))
        with tempfile.TemporaryDirectory() as folder:
            path = Path(folder) / "matcher"
            path.write_bytes(pickle.dumps((matcher, sample.slice(0, BATCH))))
            done = subprocess.run(
                [sys.executable, __file__, "--weigh", path], capture_output=True, text=True, check=True
            )
            shipped, held, peak, took = done.stdout.split()
        rows.append((workload, shipped, f"{matcher.nbytes / 1e6:.1f}", held, peak, took))
    return table(
        ("filters are", "pickled, MB", "in arrays, MB", "resident, MB", "at its peak, MB", "unpickled in"), rows
    )


def weigh_here(path: Path) -> None:
    """In a process of its own: load a matcher, match with it, print megabytes."""
    small = Columns.from_messages([{"symbol": "a", "open": 1.0}])
    other = [(Constraint("symbol", "=", "a"), Constraint("open", ">", k)) for k in range(99)]
    pickle.loads(pickle.dumps(Matcher([*other, *((each[1],) for each in other)]))).match(small)
    content = path.read_bytes()
    Path("/proc/self/clear_refs").write_text("5")
    before = resident("VmRSS")
    (matcher, batch), took = timed(lambda: pickle.loads(content))
    size = len(content)
    matcher.match(Columns.from_batch(batch.slice(0, 1)))
    held, peak = resident("VmRSS") - before, resident("VmHWM") - before
    print(*(f"{each / 1e6:.1f}" for each in (size, held, peak)), f"{took:.2f}s")


def compare_covering(quotes: pa.Table, symbols: dict[str, int]) -> str:
    """Covering queries, beside a scan over all filters."""
    rows = []
    for workload, drawn in list(WORKLOADS.items())[:2]:
        for count in SIZES:
            filters = draw_filters(quotes, drawn, count, count)
            asked = draw_filters(quotes, drawn, QUERIES, 5)
            index, built = timed(lambda: CoverIndex(filters))
            plain = plain_filters(filters, symbols)
            ranges = [tuple(map(np.array, zip(*plain_ranges(each, symbols), strict=True))) for each in asked]
            for name, upward, query in (("covers", True, index.covers_of), ("covered", False, index.covered_by)):
                found = 0
                for each, own in zip(asked, ranges, strict=True):
                    expected = scan_covers(plain, *own, upward)
                    assert np.array_equal(query(each), expected)
                    found += len(expected)
                some = ranges[:200]
                scanned = seconds(lambda: [len(scan_covers(plain, *own, upward)) for own in some], 3, time.process_time)
                scanned /= len(some)
                ours = seconds(lambda: [len(query(each)) for each in asked], 3, time.process_time) / len(asked)
                rows.append((
                    workload, f"{count:,}", name, f"{found / QUERIES:.1f}", f"{1e6 * scanned:.1f}", f"{1e6 * ours:.1f}",
                    f"{scanned / ours:.1f}", f"{len(index.roots):,}", short(built / count),
                ))  # fmt: skip
    return table(
        (
            "filters are",
            "filters",
            "asked for",
            "found",
            "scan, us",
            "ours, us",
            "scan / ours",
            "roots",
            "an insertion",
        ),
        rows,
    )


def describe(drawn: Drawn) -> str:
    """A workload in words."""
    of = "that symbol's" if drawn.named else "all"
    ranges, width = (
        "{} to {}".format(*each) for each in (drawn.ranges, (round(100 * drawn.width[0]), round(100 * drawn.width[1])))
    )
    return f"{'a symbol and ' if drawn.named else ''}{ranges} ranges, each {width} % of {of} quotes wide"


ABOUT = """\
The naive loop goes through all filters and stops at the first range that fails. The counting matcher lists ranges by
bucket of value, adds one to the filter of every range that holds, and reports those that are full. Both know only
ranges of numbers, a symbol being the number of its word and a range from low to high one thing and not two
constraints, which helps them; their answers and ours are compared before anything is timed. Building starts from
filters as Python objects."""
MEMORY = """\
Of a process that unpickles the matcher (its filters as arrays), lays it out and matches a message, above what it had
with everything imported and compiled."""
COVERING = f"""\
{QUERIES:,} filters drawn in the same way are asked which of the filters cover them, and which they cover. A query
takes a Python object and has to bring it into numbers first; the scan, a compiled loop over all filters, is given
numbers. That is why it is ahead while there are few filters. Roots: filters that no other covers. An insertion asks
one or both queries."""


def main() -> None:
    data = Path(__file__).resolve().parents[2] / "shared" / "data" / "padres_stockquotes.tar.xz"
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--quotes", type=Path, default=data, help="padres_stockquotes.tar.xz")
    parser.add_argument("--weigh", type=Path, help=argparse.SUPPRESS)
    given = parser.parse_args()
    if given.weigh:
        weigh_here(given.weigh)
        return
    if not given.quotes.exists():
        sys.exit(f"{given.quotes} is not there: give the archive of the stock quotes with --quotes")
    quotes = read_quotes(given.quotes)
    sample = quotes.take(np.random.default_rng(0).permutation(len(quotes))[:SAMPLE])
    symbols = {each: k for k, each in enumerate(sorted(set(quotes["symbol"].to_pylist())))}
    parts = [
        f"{len(quotes):,} quotes of {len(symbols)} symbols; {SAMPLE:,} of them, drawn with seed 0, are matched in "
        f"batches of {BATCH}. CPU time, one thread.",
        "\n".join(f"- {name}: {describe(drawn)}" for name, drawn in WORKLOADS.items()),
        "## Matching",
        ABOUT,
        compare_matchers(quotes, sample, symbols),
        "## Filters that come and go",
        change_filters(quotes, sample),
        "## Memory",
        MEMORY,
        weigh(quotes, sample),
        "## Covering",
        COVERING,
        compare_covering(quotes, symbols),
    ]
    write(__file__, "Content filters", parts)


if __name__ == "__main__":
    main()
