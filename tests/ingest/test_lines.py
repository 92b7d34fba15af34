import io

from hypothesis import example, given
from hypothesis import strategies as st

from overlace.ingest.lines import CLEAN, INNER_CR, MARK, NOT_UTF8, NUL, blocks, find_lines, text_lines

logs = st.lists(st.binary(max_size=12).map(lambda b: b.replace(b"\n", b"")), max_size=12).map(b"\n".join)


def lines_of(log, start, end, size):
    found = []
    for offset, block in blocks(io.BytesIO(log), start, end, size):
        lines, _ = find_lines(offset, block)
        begins = (lines.offsets - offset).tolist()
        found += [(offset + a, block[a:b]) for a, b in zip(begins, [*begins[1:], len(block)], strict=True)]
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
@example(MARK)
@example(MARK + b"a\xff\n" + MARK)
def test_broken_text_is_found_and_the_rest_kept(log):
    text, offsets, state = text_lines(0, log)
    ends = [*offsets[1:].tolist(), len(log)][: len(offsets)]
    for i, (first, last) in enumerate(zip(offsets.tolist(), ends, strict=True)):
        line = log[first:last].removesuffix(b"\n").rstrip(b"\r")
        line = line.removeprefix(MARK) if first == 0 else line
        try:
            line.decode()
        except UnicodeDecodeError:
            expected = NOT_UTF8
        else:
            expected = NUL if b"\0" in line else INNER_CR if b"\r" in line else CLEAN
        if line.strip(b" \t"):
            assert state[i] == expected
            assert text[i].as_py() == (line.decode() if expected == CLEAN else "")
