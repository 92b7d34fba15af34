"""The end of the training window as a time, and that nothing after it reaches observation, steps, gains or reasons."""

import json
import random
from pathlib import Path

import pyarrow.parquet as pq
import pytest

from overlace.catalog import PLANNERS
from overlace.cli.options import read_options
from overlace.errors import BadParameter, BadTrace
from overlace.ingest.options import Options
from overlace.ingest.tables import add_tables
from overlace.limits import Goal
from overlace.observe.cut import cut_at, read_time
from overlace.observe.observation import observe_with_names
from overlace.trace.store import HOUR_US, MINUTE_US, Trace
from tests.engine import ingest_sources
from tests.ingest.logs import START
from tests.traces import observe, trace_of

UNTIL = START + 7200
TIME = "2026-01-05T02:00"
BROKERS = ["oslo", "rome", "paris", "bonn"]
CLIENTS = [f"{site}-{i}" for site in "pqrs" for i in range(4)]


def lines(seed, first, last, clients, brokers, count=400):
    """Messages within groups whose members are at home at different brokers."""
    draw = random.Random(seed)
    for _ in range(count):
        sender = draw.choice(clients)
        group = [each for each in clients if each[0] == sender[0] and each != sender]
        at = round(draw.uniform(first, last - 1), 3)
        broker = brokers[int(sender.partition("-")[2]) % len(brokers)]
        yield {"at": at, "client": sender, "topic": f"t/{sender[0]}", "bytes": 9, "receivers": group, "broker": broker}


def trace_with(folder, later, tables_first, extra_tables=None):
    """A trace whose log is the same up to UNTIL, and then what comes later."""
    folder.mkdir()
    out = str(folder / "trace")
    links = [f"{a},{b},{cost},{wired}" for a, b, cost, wired in (
        ("oslo", "rome", 1, True), ("rome", "paris", 2, True), ("paris", "bonn", 1, True), ("oslo", "bonn", 1, False)
    )]  # fmt: skip
    tables = {
        "brokers": ["broker,region,capacity,since", *(f"{each},eu,," for each in BROKERS)],
        "links": ["left,right,cost,wired,since", *(f"{each}," for each in links)],
        "clients": ["client,region,since", *(f"{each},eu," for each in [*CLIENTS, "idle-2", "idle-10"])],
    }
    tables["interests"] = ["client,topic", *(f"{each},t/{topic}" for each in CLIENTS for topic in (each[0], "p"))]
    tables["advertisements"] = ["client,attributes", "p-0,U", "q-0,V"]
    for name, rows in (extra_tables or {}).items():
        tables[name] += rows

    def add():
        for name, rows in tables.items():
            (folder / f"{name}.csv").write_text("\n".join(rows) + "\n")
            add_tables([str(folder / f"{name}.csv")], name, out, {})

    if tables_first:
        add()
    log = folder / "log.jsonl"
    every = [*lines(1, START, UNTIL, CLIENTS, BROKERS), *later]
    log.write_text("".join(json.dumps(line) + "\n" for line in every))
    ingest_sources([str(log)], out, options=Options(unit="s", bucket="minute", format="jsonl"))
    if not tables_first:
        add()
    return out


LATER = UNTIL + 86_400
QUIET = list(lines(2, UNTIL, UNTIL + 600, CLIENTS, BROKERS, 60))
"""Hardly anything follows."""
BUSY = [
    *lines(3, UNTIL, LATER, [*CLIENTS, "idle-10", "idle-2", "a-1", "a-2"], [*BROKERS[::-1], "aa"], 900),
    *({"at": UNTIL + i, "client": f"idle-{n}", "topic": "a", "bytes": 1} for i, n in enumerate((2, 10))),
    {"at": UNTIL, "client": "a-1", "topic": "a", "bytes": 1, "broker": "rome"},
]
"""New clients, a broker and topics; clients at other brokers than before; and for a day."""
ADDED = {
    "brokers": [f"aa,us,5,{UNTIL + 5}"],
    "links": [f"aa,bonn,3,True,{UNTIL + 5}", f"aa,oslo,9,False,{UNTIL + 9}"],
    "clients": [f"a-1,us,{UNTIL + 5}", f"a-0,asia,{UNTIL + 5}"],
}


def files(folder):
    return {str(path.relative_to(folder)): path.read_bytes() for path in sorted(folder.rglob("*")) if path.is_file()}


def trained(run):
    """What was measured on the training window."""
    rows = pq.read_table(run / "metrics.parquet").to_pylist()
    return [row for row in rows if row["run"].endswith("/train")]


def about_training(plan):
    """plan.json without what is of the trace's digest or of the held-out part."""
    document = json.loads((plan / "plan.json").read_text())
    judged = document.pop("judged")
    train = [each for each in judged["metrics"] if each["part"] == "train"]
    own = [(point["steps"], point["moves"], point["links"], point["own_cost"]) for point in judged["curve"]]
    for name in ("digest", "trace"):
        document.pop(name)
    return document, judged["train"], judged["limits"], train, own


@pytest.mark.parametrize("tables_first", [True, False])
def test_whatever_follows_the_plan_is_the_same_byte_for_byte(overlace, tmp_path, tables_first):
    runs = []
    for name, later, more in (("quiet", QUIET, None), ("busy", BUSY, ADDED)):
        trace = trace_with(tmp_path / name, later, tables_first, more)
        code, out, err = overlace("observe", trace, "--out", f"{name}-seen", "--train-until", TIME, "--json")
        assert code == 0, err
        seen = json.loads(out)
        code, _, err = overlace(
            "optimize", trace, "--out", f"{name}-run", "--train-until", TIME, "--effort", "3", "--sent-cap", "0",
            "--objective", "messages", "--placement", "anywhere", "--handled-cap", "0",
        )  # fmt: skip
        assert code in (0, 3), err
        runs.append((name, {key: seen[key] for key in seen if key not in ("run", "held_out", "share")}))
    (one, seen), (other, otherwise) = runs
    assert seen == otherwise
    assert seen["clients"] == 18
    assert seen["brokers"] == 4
    for kind in ("seen", "run"):
        assert files(Path(f"{one}-{kind}/observation")) == files(Path(f"{other}-{kind}/observation"))
    plans = [sorted(path.name for path in Path(f"{name}-run/plans").iterdir()) for name in (one, other)]
    assert plans[0] == plans[1]
    for plan in plans[0]:
        mine, theirs = (Path(f"{name}-run/plans", plan) for name in (one, other))
        assert about_training(mine) == about_training(theirs)
        tables = [{name: data for name, data in files(each).items() if name != "plan.json"} for each in (mine, theirs)]
        assert tables[0] == tables[1]
    answers = [json.loads(Path(f"{name}-run/answer.json").read_text()) for name in (one, other)]
    for name in ("left_out", "bounds", "limits"):
        assert answers[0][name] == answers[1][name]
    assert trained(Path(f"{one}-run")) == trained(Path(f"{other}-run"))
    (routed,) = (json.loads(path.read_text()) for path in Path("busy-run/plans").glob("joint-*/plan.json"))
    assert routed["steps_total"] > 3
    held_out = next(each for each in routed["judged"]["metrics"] if each["part"] == "held-out")
    assert held_out["after"] < held_out["before"]  # the plan is carried over to the whole trace by name


def test_whatever_follows_planners_draw_the_same(tmp_path):
    window = (START * 10**6, UNTIL * 10**6)
    quiet, busy = (
        Trace.open(trace_with(tmp_path / name, later, False, more))
        for name, later, more in (("quiet", QUIET, None), ("busy", BUSY, ADDED))
    )
    one, other = observe_with_names(quiet, window), observe_with_names(busy, window)
    assert busy.count("client") > quiet.count("client") == one[0].clients
    for name in ("placement.community", "placement.leiden", "mesh.random-mesh", "mesh.cd-oda", "tree.ocbr"):
        plans = [(PLANNERS[name]().solve(seen, 7), names) for seen, names in (one, other)]
        said = [[(plan.step(i).gain, plan.why(i, names)) for i in range(len(plan.steps))] for plan, names in plans]
        assert said[0] == said[1], name
        assert plans[0][0].after == plans[1][0].after, name


@pytest.mark.parametrize(
    ("words", "told"),
    [
        (["--train-until", "2026-01-04"], "before all traffic, which runs from 2026-01-05 00:00 to 2026-01-05"),
        (["--train-until", "2026-02-01"], "after all traffic"),
        (["--train-until", "soon"], "expected a date and time such as"),
        (["--train-until", TIME, "--train", "0.5"], "give one of them"),
    ],
)
@pytest.mark.parametrize("command", ["observe", "optimize"])
def test_a_time_that_cuts_nothing_is_refused_in_one_line(overlace, tmp_path, command, words, told):
    trace = trace_with(tmp_path / "t", QUIET, True)
    code, _, err = overlace(command, trace, "--out", "run", *words)
    assert code == 2
    assert told in err
    assert not Path("run").exists()


def test_a_time_may_name_its_zone(tmp_path):
    assert read_time(TIME) == UNTIL * 10**6 == read_time("2026-01-05T03:00:00+01:00") == read_time("2026-01-05 02:00Z")


def test_a_cut_inside_a_bucket_needs_the_messages(tmp_path):
    log = [(minute * MINUTE_US + 5, 0, 0, 1, [1]) for minute in range(120)]
    trace = trace_of(tmp_path / "t", log)
    parts = cut_at(trace, 90 * MINUTE_US)
    assert (parts.train, parts.held_out, parts.share) == ((0, 90 * MINUTE_US), (90 * MINUTE_US, 2 * HOUR_US), 0.75)
    assert observe(trace, parts.train).sent.tolist() == [90, 0]
    reduced = trace.parts | {"messages": []}
    with pytest.raises(BadTrace, match="a window must be whole buckets of 3600 s"):
        cut_at(trace.__class__(trace.path, trace.bucket_us, trace.unit, reduced), 90 * MINUTE_US)
    assert cut_at(trace.__class__(trace.path, trace.bucket_us, trace.unit, reduced), HOUR_US).share == 0.5
    with pytest.raises(BadParameter, match="before all traffic"):
        cut_at(trace, 5)
    with pytest.raises(BadParameter, match="after all traffic"):
        cut_at(trace, 119 * MINUTE_US + 6)
    with pytest.raises(BadTrace, match="no traffic"):
        cut_at(trace_of(tmp_path / "u", []), 5)


def test_of_a_file_and_of_what_was_typed_one_says_where_to_cut(tmp_path):
    file = tmp_path / "overlace.toml"
    file.write_text("train_until = 2026-01-05T02:00:00Z\n")
    assert read_time(read_options([Goal], file, {})[0][0].train_until) == UNTIL * 10**6
    assert read_options([Goal], file, {"train": 0.5})[0][0].train_until is None
    file.write_text("train = 0.5\ntrain_until = '2026-01-05'\n")
    with pytest.raises(BadParameter, match="give one of them"):
        read_options([Goal], file, {})
