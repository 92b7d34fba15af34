"""`overlace show`: what is in a trace, a run and a plan is what their files hold, by name."""

import json
import subprocess
import sys
from pathlib import Path

import pyarrow as pa
import pytest

from overlace.model import ENDS
from overlace.trace.ids import identities
from overlace.trace.runs import read_observation
from overlace.trace.store import HOUR_US, Trace
from overlace.trace.tables import TIME, hashed_columns
from overlace.wording import amount
from tests.traces import trace_of

HOURS, CLIENTS = 40, 12
NAMES = {
    "client": [f"sensor/{i}[bold]" for i in range(CLIENTS)],
    "broker": ["Lyon", "Oslo", "Rome", "Kyiv"],
    "topic": ["news", "t[1]"],
    "region": ["north", "south"],
}
BEGAN = 1_767_571_200_000_000  # 2026-01-05, a Monday


@pytest.fixture
def trace(overlace):
    """A trace of 4 brokers in a line, with an account of its logs."""
    sent = [(BEGAN + h * HOUR_US + 1, h % CLIENTS, h % 2, 7, [(h * 5 + 1) % CLIENTS]) for h in range(HOURS)]
    ends = range(CLIENTS)
    log = {"digest": ["0" * 16], "name": ["a[b].jsonl"], "format": ["jsonl"], "lines": [50], "kept": [41]}
    trace_of(
        "trace", sent, NAMES,
        sessions={"client": list(ends), "broker": [3 - i % 4 for i in ends], "since": pa.array([BEGAN] * 12, TIME)},
        brokers={"broker": range(4), "region": [0, 0, 1, -1], "cost": [1.0] * 4},
        links={
            "left": [0, 1, 2, 0, 0], "right": [1, 2, 3, 2, 3], "cost": [4.0, 9.5, 2.0, 1.5, None],
            "wired": [True, True, True, False, False],
        },
        sources=log | {"ignored": [2], "quarantined": [6], "duplicates": [1]},
    )  # fmt: skip
    return Trace.open("trace")


@pytest.fixture
def run(overlace, trace):
    """A run of it with a plan, replayed."""
    for words in (("observe", "trace", "--out", "run"), ("solve", "tree.mst", "run"), ("replay", "run")):
        assert overlace(*words)[0] == 0
    (plan,) = Path("run/plans").iterdir()
    return plan


def rows(overlace, *words):
    code, out, err = overlace("show", *words, "--json")
    assert code == 0, err
    return json.loads(out)["rows"]


def hashed(names):
    return [*map(hashed, names)] if isinstance(names, list) else names if names is None else identities([names]).item()


def ends(ids):
    """In any order: a link is the same whichever end is named first, and receivers are a set."""
    return sorted(str(sorted(each) if isinstance(each, list) else each) for each in ids)


def test_every_id_in_every_table_of_a_trace_is_shown_by_the_name_that_has_it(overlace, trace):
    """The id of a name is its hash: another way there than through the table of names."""
    for table in trace.parts:
        stored = trace.stored(table).to_pydict()
        shown = rows(overlace, "trace", table, "--rows", 1000)
        assert len(shown) == trace.rows(table) > 0
        columns = list(hashed_columns(table))
        for i, row in enumerate(shown):
            assert ends([hashed(row[each]) for each in columns]) == ends([stored[each][i] for each in columns])
    assert [row["region"] for row in rows(overlace, "trace", "brokers")] == ["north", "north", "south", "backbone"]
    assert {row["since"] for row in rows(overlace, "trace", "sessions")} == {"2026-01-05 00:00:00Z"}


def test_a_trace_is_shown_in_a_few_lines(overlace, trace):
    code, out, _ = overlace("show", "trace")
    assert code == 0
    assert "span     2026-01-05 00:00 to 2026-01-06 16:00, UTC, in buckets of 60 min" in out
    assert "brokers  Lyon, Oslo, Rome, Kyiv\n" in out
    assert f"clients  {', '.join(NAMES['client'][:8])} and 4 more\n" in out
    assert "links    5, 3 of them wired; cost 1.5 to 9.5 per message" in out
    assert "a[b].jsonl (jsonl): 50 lines = 41 kept + 2 ignored + 6 quarantined + 1 duplicates" in out
    assert "sessions 12" in out
    document = json.loads(overlace("show", "trace/trace.json", "--json")[1])
    assert document["rows"] == {table: trace.rows(table) for table in trace.parts}
    assert (document["brokers"], document["costs"], document["wired"]) == (NAMES["broker"], [1.5, 9.5], 3)


def test_rows_are_listed_without_empty_columns_and_the_rest_is_counted(overlace, trace):
    out = overlace("show", "trace", "links", "--rows", 2)[1]
    head, *lines, last = out.splitlines()
    assert head.split() == ["left", "right", "cost", "wired"]
    assert len(lines) == 2
    assert last == "2 of 5 rows (--rows N lists more)"
    assert overlace("show", "trace", "links")[1].endswith("5 of 5 rows\n")
    assert NAMES["client"][0] in overlace("show", "trace", "sessions")[1]


def test_a_run_is_shown_with_its_windows_and_plans(overlace, run):
    code, out, _ = overlace("show", "run")
    assert code == 0
    assert "planned on 2026-01-05 00:00 to 2026-01-06 04:00 (70% of the messages), judged on 2026-01-06 04:00" in out
    assert f"plan     {run}: change 1 link (not judged)" in out
    assert "4 brokers" in out
    document = json.loads(overlace("show", "run", "--json")[1])
    assert document["plans"] == {run.name: "change 1 link"}
    assert document["rows"]["runs"] == 4


def test_a_run_that_was_only_observed_has_its_windows_and_no_tables_yet(overlace, trace):
    assert overlace("observe", "trace", "--out", "all", "--train", 1)[0] == 0
    out = overlace("show", "all")[1]
    assert "windows  planned and judged on 2026-01-05 00:00 to 2026-01-06 16:00 (100% of the messages), UTC" in out
    assert "tables   none yet (overlace replay all)" in out
    assert "all has no table runs. It has: none yet." in overlace("show", "all", "runs")[2]


def test_metrics_of_a_run_are_by_name(overlace, run):
    found = rows(overlace, "run", "metrics", "--rows", 100_000)
    kinds = {"link": "broker", "region pair": "region"}
    for row in found:
        names = NAMES.get(kinds.get(row["scope"], row["scope"]))
        assert names is None or {row["key"], row["other"]} <= {*names, "backbone", None}, row
    handled = {row["key"] for row in found if (row["metric"], row["scope"]) == ("handled", "broker")}
    assert handled == set(NAMES["broker"])
    assert [row["part"] for row in rows(overlace, "run", "runs")] == ["train", "train", "held-out", "held-out"]


def test_a_plan_is_shown_as_plan_show_does(overlace, run):
    assert overlace("show", run) == overlace("plan", "show", run)
    assert overlace("show", run, "--json") == overlace("plan", "show", run, "--json")


def test_changes_of_a_plan_have_their_names_wherever_it_lies(overlace, run):
    steps = json.loads((run / "plan.json").read_text())["steps"]
    changes = [{"step": step["step"], **line} for step in steps for line in step["changes"]]
    assert rows(overlace, run, "changes") == changes
    assert overlace("plan", "cut", run, "--steps", 1, "--out", "elsewhere/first")[0] == 0
    assert rows(overlace, "elsewhere/first", "changes") == changes
    assert {row["left"] for row in rows(overlace, "elsewhere/first", "after")} >= {"b0", "c0"}


def test_the_overlay_after_a_plan_is_the_one_before_with_its_changes(overlace, run):
    observation, _ = read_observation(Path("run"))
    overlay = {
        (facet, *(NAMES[kind][i] for kind, i in zip(ENDS[facet], pair, strict=True)))
        for facet in ("placement", "tree")
        for pair in observation.overlay.relation(facet).tolist()
    }
    for each in rows(overlace, run, "changes"):
        change = {(each["facet"], each["left"], each["right"])}
        overlay = overlay | change if each["action"] == "add" else overlay - change
    assert {tuple(row.values()) for row in rows(overlace, run, "after", "--rows", 99)} == overlay


@pytest.mark.parametrize(
    ("words", "code", "text"),
    [
        (("trace", "link"), 2, "no table is called 'link'. Nearest: links."),
        (("trace", "deliveries"), 1, "trace has no table deliveries. It has: audiences, brokers, links, messages"),
        (("run", "metric"), 2, "no table is called 'metric'. Nearest: metrics."),
        (("run", "trees"), 1, "run has no table trees. It has: metrics, runs."),
        (("run/plans",), 1, "run/plans is no trace, run or plan: it holds neither plan.json nor run.json"),
        (("run/plans",), 1, "In it: run/plans/tree.mst-"),
        (("nowhere",), 1, "Nothing is at that path."),
        (("empty",), 1, "`overlace ingest LOG --out empty` makes a trace."),
        (("a.log", "links"), 1, "`overlace peek a.log` shows what a log holds."),
        (("trace", "links", "--rows", "0"), 2, "--rows"),
    ],
)
def test_what_is_not_there_is_one_line(overlace, run, words, code, text):
    Path("empty").mkdir()
    Path("a.log").write_text("x\n")
    found, out, err = overlace("show", *words)
    assert (found, out, err.count("\n")) == (code, "", 1)
    assert text in err


def test_a_damaged_table_is_named(overlace, run):
    Path("run/metrics.parquet").write_text("x")
    code, _, err = overlace("show", "run")
    assert (code, err.count("\n")) == (1, 1)
    assert "`overlace replay run` makes it anew" in err


def test_numbers_are_for_people_and_exact_as_json(overlace, run):
    value = next(row["value"] for row in rows(overlace, "run", "metrics") if row["value"] % 1)
    assert amount(value) in overlace("show", "run", "metrics")[1]


def test_it_starts_no_engine_and_loads_no_pandas(overlace, run):
    code = "import sys; from overlace.cli.commands import run; run(sys.argv[1:]); print(sorted(sys.modules))"
    for words in (("trace",), ("trace", "messages"), ("run",), ("run", "runs")):
        out = subprocess.run([sys.executable, "-c", code, "show", *words], capture_output=True, text=True, check=True)
        loaded = out.stdout.splitlines()[-1]
        assert "'overlace.trace.store'" in loaded or "'overlace.trace.runs'" in loaded
        assert "'pyspark'" not in loaded
        assert "'pandas'" not in loaded
