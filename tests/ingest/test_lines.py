import io

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from overlace.ingest.formats.lines import blocks, in_bulk, split, text_of

logs = st.lists(st.binary(max_size=12).map(lambda b: b.replace(b"\n", b"")), max_size=12).map(b"\n".join)


def lines_of(log, start, end, size):
    found = []
    for offset, block in blocks(io.BytesIO(log), start, end, size):
        lines, offsets = split(offset, block)
        found += zip(offsets.tolist(), lines.to_pylist(), strict=True)
    return found


@given(logs, st.lists(st.integers(0, 150), max_size=4), st.integers(1, 40))
def test_a_log_cut_anywhere_gives_the_same_lines(log, cuts, size):
    bounds = sorted({0, len(log), *(cut for cut in cuts if cut < len(log))})
    parts = [line for start, end in zip(bounds, bounds[1:], strict=False) for line in lines_of(log, start, end, size)]
    assert parts == lines_of(log, 0, None, 1 << 20)
    assert b"".join(line for _, line in parts) == log
    assert all(log[offset : offset + len(line)] == line for offset, line in parts)
    assert all(line.count(b"\n") <= 1 for _, line in parts)


@given(logs)
def test_broken_text_is_found_and_the_rest_kept(log):
    lines, _ = split(0, log)
    text, broken = text_of(lines)
    for i, line in enumerate(lines.to_pylist()):
        try:
            expected = line.decode().rstrip("\r\n")
        except UnicodeDecodeError:
            assert i in broken
        else:
            assert i not in broken
            assert text[i].as_py() == expected


@given(st.lists(st.sampled_from(["1", "22", "x", "", "7"]), max_size=40))
def test_bad_lines_are_found_by_halving(words):
    def parse(lines):
        return pa.table({"n": lines.cast(pa.int64())})

    good, bad = in_bulk(parse, pa.array(words, pa.large_string()))
    wanted = [(i, int(word)) for i, word in enumerate(words) if word.isdigit()]
    found = [pair for rows, at in good for pair in zip(at.tolist(), rows["n"].to_pylist(), strict=True)]
    assert found == wanted
    assert [i for i, _ in bad] == [i for i, word in enumerate(words) if not word.isdigit()]


def test_a_parser_that_loses_a_row_is_not_believed():
    def parse(lines):
        return pa.table({"n": [1] * (len(lines) + ("ab" in lines.to_pylist()))})

    good, bad = in_bulk(parse, pa.array(["a", "ab", "c", "d"]))
    assert [i for _, at in good for i in at.tolist()] == [0, 2, 3]
    assert bad == [(1, "2 rows in 1 lines")]


@pytest.mark.parametrize("log", [b"", b"\n", b"a", b"a\n", b"a\r\nb"])
def test_small_logs(log):
    assert b"".join(line for _, line in lines_of(log, 0, None, 1)) == log
