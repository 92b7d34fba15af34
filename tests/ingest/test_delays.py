"""Delays from plain files: the same matrix in every way of writing it, and one line for what cannot be read."""

import gzip

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from overlace.errors import BadTrace, Unknown
from overlace.ingest.delays import Delays, find_names, go_around, read_delays, read_values

DELAY = [[0, 5, 6.5], [4, 0, 7], [6, 7, 0]]
PAIRS = [(i, j) for i in range(3) for j in range(3) if i != j]
WAYS = {
    "plain": "0,5,6.5\n4,0,7\n6,7,0\n",
    "blanks": "0 5  6.5\n4 0 7\n6 7 0\n",
    "semicolons and a comment": "# ms\n0;5;6.5\n4;0;7\n\n6;7;0\n",
    "header": "a,b,c\n0,5,6.5\n4,0,7\n6,7,0\n",
    "header and column": ",a,b,c\na,0,5,6.5\nb,4,0,7\nc,6,7,0\n",
    "a word in the corner": "client\ta\tb\tc\na\t0\t5\t6.5\nb\t4\t0\t7\nc\t6\t7\t0\n",
    "column": "a,0,5,6.5\nb,4,0,7\nc,6,7,0\n",
    "columns in another order": ",c,a,b\na,6.5,0,5\nb,7,4,0\nc,0,6,7\n",
    "no diagonal": ",a,b,c\na,,5,6.5\nb,4,,7\nc,6,7,\n",
    "pairs": "from,to,delay_ms\n" + "".join(f"{'abc'[i]},{'abc'[j]},{DELAY[i][j]}\n" for i, j in PAIRS),
    "pairs in other columns": "ms,to,x,from\n" + "".join(f"{DELAY[i][j]},{'abc'[j]},?,{'abc'[i]}\n" for i, j in PAIRS),
    "pairs without a header": "".join(f"{'abc'[i]} {'abc'[j]} {DELAY[i][j]}\n" for i, j in PAIRS),
    "pairs of numbers": "".join(f"{i},{j},{DELAY[i][j]}\n" for i, j in PAIRS),
}


@pytest.mark.parametrize("text", WAYS.values(), ids=WAYS)
def test_the_same_delays_in_every_way_of_writing_them(tmp_path, text):
    path = tmp_path / "delays.csv"
    path.write_text(text)
    read = read_delays(path)
    order = [read.clients.index(name) for name in sorted(read.clients)]
    assert sorted(read.clients) in (["a", "b", "c"], ["0", "1", "2"])
    assert read.delay[np.ix_(order, order)].tolist() == DELAY
    assert read.notes == ()
    packed = tmp_path / "delays.csv.gz"
    packed.write_bytes(gzip.compress(text.encode()))
    assert (read_delays(packed).delay == read.delay).all()


def test_a_missing_delay_is_the_shortest_way_over_known_ones(tmp_path):
    path = tmp_path / "delays.csv"
    path.write_text("0,5,nan\n5,0,7\n,7,0\n")
    read = read_delays(path)
    assert read.delay.tolist() == [[0, 5, 12], [5, 0, 7], [12, 7, 0]]
    assert "2 delays are missing" in read.notes[0]


def test_a_delay_of_nothing_is_no_missing_one():
    read = go_around("x", Delays(("a", "b", "c"), np.array([[0, 0, np.nan], [0, 0, 0], [0, 0, 0.0]])))
    assert read.delay.tolist() == [[0, 0, 0]] * 3


def test_one_way_stands_for_both_where_the_other_is_not_given(tmp_path):
    path = tmp_path / "delays.csv"
    path.write_text("from,to,delay_ms\na,b,3\nb,c,4\nc,b,5\na,c,9\n")
    read = read_delays(path)
    assert read.delay.tolist() == [[0, 3, 9], [3, 0, 4], [9, 5, 0]]
    assert "2 delays are given one way only" in read.notes[0]


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("1,2\n3,4\n5,6\n7,8\n", "4 rows of delays, and row 1 has 2. Expected a square matrix"),
        ("0,2,3\n3,0\n5,6,0\n", "row 2 has 2"),
        ("1 b\n1 1 0\n1 1 2\n2 b 0\n", "3 rows of delays, and 2 names of columns"),
        ("0,-2\n3,0\n", "the delay from 0 to 1 is -2. Expected milliseconds"),
        ("a,b\n0,1\nx,0\n", "row b: 'x' is no number"),
        ("0,1,2\n1,0,?!\n1,2,0\n", r"row 1: '\?!' is no number"),
        ("from,to,delay_ms\na,b,3\na,b,5\n", "the delay from a to b is given twice, as 3 and 5"),
        ("from,to,delay_ms\na,b,3\nc,d,4\n", "no delay is known from a to c, nor a way over others"),
        ("from,to,delay_ms\na,b\n", "row 1 has 2 columns"),
        (",a,b\na,0,1\nc,1,0\n", "names a row or a column, not both"),
        (",a,a\na,0,1\na,1,0\n", "client 'a' stands there twice"),
        ("\n# nothing\n", "is empty"),
        ("1,2,10\n2,3,11\n1,3,12\n", "three rows of three numbers: a matrix would have 0"),
    ],
)
def test_what_is_no_delays_is_refused_in_a_line(tmp_path, text, expected):
    path = tmp_path / "delays.csv"
    path.write_text(text)
    with pytest.raises(BadTrace, match=expected) as caught:
        read_delays(path)
    assert "\n" not in str(caught.value)


@given(st.integers(2, 6), st.booleans(), st.booleans())
def test_names_are_found_whatever_is_named(n, header, labelled):
    rows = [["1.5"] * n for _ in range(n)]
    rows = [[f"n{i}", *row] for i, row in enumerate(rows)] if labelled else rows
    rows = [[*([""] if labelled else []), *(f"n{i}" for i in range(n))], *rows] if header else rows
    assert find_names(rows) == (header, labelled)


@given(st.lists(st.integers(0, 10**6), min_size=2, max_size=6, unique=True))
def test_numbers_may_be_names(ids):
    body = [[str(each), *("0" if i == j else "7" for j in range(len(ids)))] for i, each in enumerate(ids)]
    assert find_names([["", *map(str, ids)], *body]) == (1, 1)
    empty = [["" if i == j else "7" for j in range(len(ids))] for i in range(len(ids))]
    assert find_names(empty) == (0, 0)  # a diagonal that is left empty is no corner


def test_numbers_of_clients_are_one_for_all_or_from_a_file(tmp_path):
    path = tmp_path / "bounds.csv"
    path.write_text("client,bound_ms\nb,20\n*,inf\n")
    assert read_values(str(path), "bound_ms", ["a", "b"], None).tolist() == [np.inf, 20]
    path.write_text("b,20\n")
    assert read_values(str(path), "bound_ms", ["a", "b"], np.inf).tolist() == [np.inf, 20]
    assert read_values("7.5", "bound_ms", ["a", "b"], None).tolist() == [7.5, 7.5]
    assert read_values("none", "bound_ms", ["a"], None).tolist() == [np.inf]


@pytest.mark.parametrize(
    ("text", "error", "expected"),
    [
        ("client,degree\nb,2\n", BadTrace, "1 of 2 clients have no degree .first: a."),
        ("client,degree\nc,2\n", Unknown, "no client is called 'c'"),
        ("client,degree\nb,2\nb,3\n*,1\n", BadTrace, "'b' stands there twice"),
        ("client,degree\nb,\n*,1\n", BadTrace, "the degree of b is missing"),
        ("client,degree\nb,2,3\n", BadTrace, "row 1 has 3 columns"),
        ("a,1O\nb,3\n", BadTrace, "row 1: '1O' is no number"),
        ("*,1O\nb,3\n", BadTrace, "row 1: '1O' is no number"),
    ],
)
def test_numbers_that_do_not_fit_the_clients_are_refused(tmp_path, text, error, expected):
    path = tmp_path / "degrees.csv"
    path.write_text(text)
    with pytest.raises(error, match=expected):
        read_values(str(path), "degree", ["a", "b"], None)
