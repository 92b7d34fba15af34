"""How far an ingest has read is counted, not guessed."""

import gzip
import re
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from overlace.ingest.meter import Meter, metered, noted, reading
from overlace.ingest.sources import Count
from tests.engine import ingest_sources

ROWS = "at,client,receiver\n" + "".join(f"{1772409600 + i},c{i % 9},c{i % 7}\n" for i in range(5000))


@pytest.mark.parametrize("pack", [False, True])
def test_what_is_said_in_the_end_is_all_there_is(pack, tmp_path):
    paths, said = [], []
    for k in range(3):
        paths.append(str(tmp_path / f"{k}.csv{'.gz' * pack}"))
        data = ROWS.replace("c", f"{k}c").encode()
        Path(paths[-1]).write_bytes(gzip.compress(data) if pack else data)
    ingest_sources(paths, str(tmp_path / "t"), progress=lambda share, what: said.append((share, what)))
    shares = [share for share, _ in said]
    assert shares == sorted(shares)
    (last,) = {what for _, what in said if what.startswith("reading: 15,003 lines")} or {""}
    megabytes = f"{3 * len(data) / 1e6:,.0f}"
    assert re.fullmatch(
        rf"reading: 15,003 lines, {megabytes}{'' if pack else f' of {megabytes}'} MB(, \d+ MB/s)?", last
    )
    assert not list(tmp_path.glob("t/.staging*"))


@given(st.lists(st.tuples(st.integers(0, 10**9), st.integers(0, 10**12)), min_size=1, max_size=5))
def test_notes_of_splits_add_up_and_a_task_that_is_done_again_counts_once(tmp_path_factory, splits):
    folder, said = tmp_path_factory.mktemp("meter") / "m", []
    with metered(str(folder), 0, lambda share, what: said.append(what)):
        for again in range(2):
            for k, (lines, size) in enumerate(splits):
                count = Count()
                count.lines, count.size = lines // (2 - again), size // (2 - again)
                Meter(str(folder), f"{k}-0").note(count, end=True)
    assert noted(str(folder)) == tuple(map(sum, zip(*splits, strict=True)))
    assert bool(said) == any(lines or size for lines, size in splits)
    assert all(said[-1].startswith(f"reading: {sum(lines for lines, _ in splits):,} lines") for _ in said[-1:])


@given(st.integers(0, 10**12), st.integers(0, 10**12), st.floats(0.1, 1e5))
def test_time_left_is_what_the_rest_takes_at_this_rate(size, total, seconds):
    share, text = reading(7, size, total, seconds)
    assert 0 <= share <= 1
    if found := re.search(r"([\d,]+) s left", text):
        rest = int(found[1].replace(",", ""))
        assert rest == pytest.approx((total - size) / size * seconds, abs=0.5 + 1e-6 * seconds * total / size)
    else:
        assert share <= 0.02 or share == 1 or seconds < 1 or (total - size) / size * seconds < 1


def test_a_disk_that_is_not_shared_or_full_changes_nothing(tmp_path):
    meter = Meter(str(tmp_path / "absent"), "0-0")
    meter.note(Count())
    meter.note(Count(), end=True)
    assert noted(str(tmp_path / "absent")) == (0, 0)
    assert list(tmp_path.iterdir()) == []
