"""Optimize arranges a tree for each channel: recounted from the trace's own tables."""

import json
import math
import random
from collections import Counter, defaultdict

import pyarrow.parquet as pq
import pytest

from overlace.cli.commands import run
from overlace.limits import Goal, Limits
from overlace.verbs import optimize
from tests.traces import trace_of

BROKERS, PUBLISHERS, SUBSCRIBERS = 5, 4, 30


def make_tables(seed, bounds=True):
    """A path of brokers, publishers of two or three of four attributes, subscribers within 20 to 100 ms."""
    draw = random.Random(seed)
    clients = PUBLISHERS + SUBSCRIBERS
    offers = [sum(1 << bit for bit in draw.sample(range(4), draw.choice([2, 3]))) for _ in range(PUBLISHERS)]
    wanted = []
    for _ in range(SUBSCRIBERS):
        offered = draw.choice(offers)
        wanted.append(draw.choice([mask for mask in range(1, 16) if mask & offered == mask]))
    return {
        "brokers": {"broker": range(BROKERS), "region": [0] * BROKERS, "cost": [1.0] * BROKERS},
        "links": {
            "left": range(BROKERS - 1), "right": range(1, BROKERS), "cost": [1.0] * (BROKERS - 1),
            "latency_us": [draw.randrange(2000, 20000) for _ in range(BROKERS - 1)], "wired": [True] * (BROKERS - 1),
        },
        "sessions": {"client": range(clients), "broker": [draw.randrange(BROKERS) for _ in range(clients)]},
        "clients": {"client": range(clients), "max_degree": [draw.choice([0, 1, 2, 5, None]) for _ in range(clients)]},
        "advertisements": {"client": range(PUBLISHERS), "attributes": offers, "connections": [5] * PUBLISHERS},
        "subscriptions": {
            "client": range(PUBLISHERS, clients), "attributes": wanted,
            "bound_ms": [draw.choice([20.0, 50.0, 100.0, None]) if bounds else None for _ in range(SUBSCRIBERS)],
        },
    }  # fmt: skip


def make_trace(path, tables):
    names = {
        "client": [f"c{i}" for i in range(PUBLISHERS + SUBSCRIBERS)],
        "broker": [f"b{i}" for i in range(BROKERS)],
        "attribute": list("ABCD"),
    }
    messages = [(i * 1_000_000, i % PUBLISHERS, None, 10, None) for i in range(40)]
    return trace_of(path, messages, names, **tables)


def find_trees(tmp_path, tables):
    make_trace(tmp_path / "trace", tables)
    found = optimize(str(tmp_path / "trace"), tmp_path / "run", Limits(min_gain=0), Goal(train=1))
    return found, read_trees(tmp_path / "run")


def read_trees(folder):
    """The rows of the trees, with the numbers that clients have in these traces."""
    rows = pq.read_table(folder / "trees.parquet").to_pylist()
    number = {f"c{i}": i for i in range(PUBLISHERS + SUBSCRIBERS)} | {None: None}
    return [row | {end: number[row[end]] for end in ("client", "parent")} for row in rows]


@pytest.mark.parametrize("seed", [1, 2, 3])
def test_trees_are_recounted(tmp_path, seed):
    tables = make_tables(seed)
    found, rows = find_trees(tmp_path, tables)
    place = [0.0]
    for us in tables["links"]["latency_us"]:
        place.append(place[-1] + us / 1000)
    at = [place[broker] for broker in tables["sessions"]["broker"]]
    channel_of = dict(found.verdicts[0].plan.after.channels.tolist())
    offers, asked = tables["advertisements"]["attributes"], defaultdict(dict)
    rows_asked = (tables["subscriptions"][name] for name in ("client", "attributes", "bound_ms"))
    for client, mask, bound in zip(*rows_asked, strict=True):
        asked[channel_of[mask]][client] = bound
    children, met, bounded = Counter(), 0, 0
    trees = defaultdict(list)
    for row in rows:
        trees[row["channel"]].append(row)
    for channel, tree in trees.items():
        held = [mask for mask, each in channel_of.items() if each == channel]
        publishers = [p for p in range(PUBLISHERS) if any(offers[p] & mask == mask for mask in held)]
        root = next(row["client"] for row in tree if row["parent"] is None)
        entry = max(abs(at[p] - at[root]) for p in publishers)
        parent = {row["client"]: row["parent"] for row in tree}
        assert set(parent) - {root} == asked[channel].keys() - {root}  # everybody, and nobody else
        for row in tree:
            delay, client = entry, row["client"]
            for _ in range(len(tree)):
                if client == root:
                    break
                delay += abs(at[client] - at[parent[client]])
                client = parent[client]
            assert client == root
            assert math.isclose(row["delay_ms"], delay, abs_tol=1e-6)
            bound = asked[channel].get(row["client"])
            assert row["bound_ms"] == (None if bound is None else pytest.approx(bound))
            assert row["met"] == (None if bound is None else delay <= bound + 1e-6)
            met, bounded = met + bool(row["met"]), bounded + (bound is not None)
        children.update(each for each in parent.values() if each is not None)
    for client, limit in enumerate(tables["clients"]["max_degree"]):
        assert limit is None or children[client] <= limit  # over all channels together
    document = json.loads(json.dumps(found.as_document()))["trees"]
    ours, _, *rivals = document["kinds"]
    assert (ours["met"], document["bounds"], ours["over_degree"]) == (met, bounded, 0)
    assert met <= round(document["share_met_at_most"] * bounded) <= bounded
    assert all(each["met"] <= met for each in rivals)  # those that keep the limits
    assert document["share_met"] == met / bounded
    assert found.trees.num_rows == len(rows)


def test_without_bounds_or_latencies_it_is_said_why_there_are_no_trees(tmp_path, capsys):
    make_trace(tmp_path / "unbound", make_tables(1, bounds=False))
    tables = make_tables(1)
    tables["links"]["latency_us"] = [None] * (BROKERS - 1)
    make_trace(tmp_path / "unmeasured", tables)
    for name, why in (("unbound", "no subscription has a latency bound"), ("unmeasured", "links with latency_us")):
        found = optimize(str(tmp_path / name), tmp_path / f"run-{name}", Limits(min_gain=0), Goal(train=1))
        assert found.trees is None
        assert any("trees" in what and why in text for what, text in found.left_out)
        assert not (tmp_path / f"run-{name}" / "trees.parquet").exists()


def test_the_report_and_the_command_line_show_them(tmp_path, capsys):
    make_trace(tmp_path / "trace", make_tables(1))
    assert run(["optimize", str(tmp_path / "trace"), "--out", str(tmp_path / "run"), "--train", "1", "--verbose"]) == 0
    shown = " ".join(capsys.readouterr().out.split())
    assert "latency bounds met:" in shown
    assert "minimum spanning tree:" in shown
    page = (tmp_path / "run" / "report.html").read_text()
    assert "A tree for each channel" in page
    assert "Trees by channel" in page


def test_delays_may_come_from_a_file(tmp_path, capsys):
    tables = make_tables(2)
    tables["links"]["latency_us"] = [None] * (BROKERS - 1)
    make_trace(tmp_path / "trace", tables)
    draw, clients = random.Random(5), range(1, PUBLISHERS + SUBSCRIBERS)  # c0 is not in the file
    ms = {(a, b): draw.randrange(1, 40) for a in clients for b in clients if a < b}
    file = tmp_path / "delays.csv"
    file.write_text("from,to,delay_ms\n" + "".join(f"c{a},c{b},{each}\n" for (a, b), each in ms.items()))
    words = ["optimize", str(tmp_path / "trace"), "--out", str(tmp_path / "run"), "--train", "1", "--delays"]
    assert run([*words, str(file)]) == 0
    rows = read_trees(tmp_path / "run")
    assert rows
    arrived = {(row["channel"], row["client"]): row["delay_ms"] for row in rows}
    for row in rows:
        if row["parent"] is not None:
            way = ms[min(row["client"], row["parent"]), max(row["client"], row["parent"])]
            assert row["delay_ms"] == pytest.approx(arrived[row["channel"], row["parent"]] + way)
    for text, problem in (("a,b\n", "square"), ("from,to,delay_ms\nx,y,3\n", "names no client"), (None, "no such")):
        file.unlink(missing_ok=True)
        if text is not None:
            file.write_text(text)
        assert run([*words, str(file), "--force"]) == 1
        assert problem in capsys.readouterr().err.lower()


def test_edges_of_bounds_and_roots(tmp_path, capsys):
    """A bound met to the microsecond over links that take no time; a root that alone has asked; a silent publisher."""
    names = {"client": ["p", "q", "r", "s", "t", "u"], "broker": [f"b{i}" for i in range(5)], "attribute": list("ABC")}
    tables = {
        "brokers": {"broker": range(5), "region": [0] * 5, "cost": [1.0] * 5},
        "links": {
            "left": range(4), "right": range(1, 5), "cost": [1.0] * 4, "latency_us": [0, 0, 0, 5000],
            "wired": [True] * 4,
        },
        "sessions": {"client": [0, 1, 3, 4, 5], "broker": [0, 1, 4, 1, 0]},  # r is nowhere
        "clients": {"client": [1], "max_degree": [0]},
        "advertisements": {"client": [0, 1, 2], "attributes": [1, 2, 1], "connections": [3, 3, 3]},
        "subscriptions": {"client": [3, 4, 5], "attributes": [1, 2, 4], "bound_ms": [5.0, 1.0, 9.0]},
    }  # fmt: skip
    trace_of(tmp_path / "trace", [(i * 1_000_000, i % 3, None, 10, None) for i in range(40)], names, **tables)
    assert run(["optimize", str(tmp_path / "trace"), "--out", str(tmp_path / "run"), "--train", "1"]) == 0
    rows = pq.read_table(tmp_path / "run" / "trees.parquet").to_pylist()
    told = {(row["client"], row["parent"], row["delay_ms"], row["met"]) for row in rows}
    assert told == {("p", None, 0.0, None), ("s", "p", 5.0, True), ("t", None, 0.0, True)}
    shown = " ".join(capsys.readouterr().out.split())
    assert "latency bounds met 100.0% of 2" in shown
    assert shown.count("latency bounds met") == 1
    assert "1 subscriber is in no tree: nobody publishes what they ask for" in shown
    assert "1 publisher's delay is not known" in shown
