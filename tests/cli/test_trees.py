"""`overlace trees` as a user types it."""

import csv
import json

import numpy as np
import pytest

HOSTS = 30


@pytest.fixture
def delays(tmp_path):
    rng = np.random.default_rng(0)
    place = rng.random((HOSTS, 2)) * 60
    delay = np.hypot(*(place[:, None] - place[None]).transpose(2, 0, 1)) + 1
    names = [f"host-{i}" for i in range(HOSTS)]
    lines = [
        ",".join(["", *names]),
        *(",".join([name, *map(str, row)]) for name, row in zip(names, delay, strict=True)),
    ]
    path = tmp_path / "delays.csv"
    path.write_text("\n".join(lines))
    return path


def test_the_table_has_every_tree_and_the_upper_bound(overlace, delays):
    code, out, _ = overlace("trees", delays, "--bounds", 60, "--degrees", 2, "--root", "host-3", "--drift")
    assert code == 0
    for name in ("arranged", "greedy by bound", "shortest-path tree", "minimum spanning tree", "no tree exceeds"):
        assert name in out
    assert "29 subscribers below host-3, 29 with a bound" in out
    assert "breaks the degree limits of 1" in out
    assert "noise of sigma 0.3" in out
    assert "exact optimum" not in out  # too many to look at every tree


def test_a_few_are_shown_beside_the_exact_optimum(overlace, tmp_path):
    (tmp_path / "few.csv").write_text("hub,a,b\n0,5,9\n5,0,4\n9,4,0\n")
    code, out, _ = overlace("trees", tmp_path / "few.csv", "--bounds", 9, "--degrees", 1, "--json")
    trees = json.loads(out)["trees"]
    assert (code, trees["exact optimum"]["met"], trees["arranged"]["met"]) == (0, 2, 2)


def test_the_file_is_the_tree_that_the_answer_counts(overlace, delays, tmp_path):
    words = ("trees", delays, "--bounds", 60, "--degrees", 2, "--out", "tree.csv", "--plot", "reach.svg", "--json")
    code, out, _ = overlace(*words)
    answer = json.loads(out)
    rows = {row["client"]: row for row in csv.DictReader((tmp_path / "tree.csv").read_text().splitlines())}
    assert code == 0
    assert answer["root"] == "host-0"
    assert {name: row["parent"] or None for name, row in rows.items()} == answer["tree"]
    assert sum(row["met"] == "true" for row in rows.values()) == answer["trees"]["arranged"]["met"]
    assert answer["trees"]["arranged"]["met"] <= answer["upper_bound"]["most"] <= answer["bounds"] == HOSTS - 1
    assert answer["trees"]["arranged"]["over_degree"] == 0
    assert "Share of subscribers reached" in (tmp_path / "reach.svg").read_text()
    for name, row in rows.items():
        late = float(row["delay_ms"])
        assert late == 0 if name == "host-0" else (late <= 60) == (row["met"] == "true")
    assert overlace(*words)[2].startswith("error: tree.csv is there already")
    assert overlace(*words, "--force")[1] == out


@pytest.mark.parametrize(
    ("words", "code", "text"),
    [
        (("--bounds", 5, "--degrees", 0), 2, "the root, host-0, has degree 0"),
        (("--bounds", 5, "--degrees", 1.5), 2, "the degree of host-0 is 1.5: expected a whole number"),
        (("--bounds", -5, "--degrees", 2), 2, "the bound of host-0 is -5"),
        (("--bounds", 5, "--degrees", 2, "--root", "hots-3"), 2, "no client is called 'hots-3'. Nearest: host-3"),
        (("--bounds", 5, "--degrees", 2, "--plot", "x.png"), 2, "expected a name that ends in .svg"),
        (("--bounds", "nowhere.csv", "--degrees", 2), 1, "nowhere.csv: No such file"),
        (("--degrees", 2), 2, "Missing option '--bounds'"),
    ],
)
def test_what_cannot_be_arranged_is_one_line(overlace, delays, words, code, text):
    found, _, err = overlace("trees", delays, *words)
    assert found == code
    assert text in err
    assert err.count("\n") == 1


def test_help_teaches_with_an_example(overlace):
    code, out, _ = overlace("trees", "--help")
    assert code == 0
    assert "Example: overlace trees delays.csv --bounds 100 --degrees 3 --root hub" in out
