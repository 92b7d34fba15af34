"""Where a trace was recorded from counters, or from a sample, whoever reads figures of it is told so."""

import json

import pytest

from overlace.cli.main_job import answer_text
from overlace.optimize.replay import replay
from overlace.optimize.task import observe
from overlace.report.page import write_report
from overlace.trace.recorded import describe_recording
from overlace.verbs import optimize
from tests.optimize.asking import options_of
from tests.optimize.test_optimize import NAMES, TABLES, log
from tests.processes import LONGEST, command
from tests.traces import trace_of

ESTIMATED = {"how": "estimated", "seconds": 60, "messages": 720, "incomplete": 0, "brokers": 5, "clients": 16}
TRACED = {"how": "traced", "seconds": 60, "messages": 720, "incomplete": 3, "share": 0.1, "brokers": 5, "clients": 16}
SAID = {"estimated": "flows are estimated from counters", "traced": "each stands for 10"}


def recorded(tmp_path, about):
    trace_of(tmp_path / "trace", log(hours=60), NAMES, notes={"recorded": about}, **TABLES)
    return str(tmp_path / "trace")


@pytest.mark.parametrize("about", [ESTIMATED, TRACED], ids=lambda about: about["how"])
def test_optimize_and_the_report_say_how_flows_were_recorded(about, tmp_path):
    said = SAID[about["how"]]
    found = optimize(recorded(tmp_path, about), tmp_path / "run", *options_of(placement="anywhere", effort=1))
    assert said in found.notes[0]
    assert any(said in str(line) for line in answer_text(found))
    assert said in json.loads((tmp_path / "run" / "answer.json").read_text())["notes"][0]
    page = found.report.read_text()
    assert page.count(said) == 2  # among the notes of the answer, and in how the report was made
    assert "there is no log to account for" in page


def test_the_report_says_it_without_an_answer_too(tmp_path):
    observe(recorded(tmp_path, ESTIMATED), tmp_path / "run")
    replay(tmp_path / "run")
    page = write_report(tmp_path / "run").read_text()
    assert '<p class="warning">Flows are estimated from counters' in page
    assert "How the traffic was recorded: flows are estimated" in page


def test_observe_says_it(tmp_path):
    started = command("observe", recorded(tmp_path, ESTIMATED), "--out", tmp_path / "run")
    _, said = started.communicate(timeout=LONGEST)
    assert started.returncode == 0
    assert "note: flows are estimated from counters" in " ".join(said.split())


def test_what_was_counted_or_came_from_a_log_needs_no_word(tmp_path):
    assert describe_recording({}) == []
    assert describe_recording({"recorded": {"how": "counted", "messages": 9}}) == []
    observe(recorded(tmp_path, {"how": "counted"}), tmp_path / "run")
    assert "recorded" not in json.loads((tmp_path / "run" / "run.json").read_text())


@pytest.mark.parametrize("about", [None, 7, [], {"how": "traced", "share": "x", "messages": None, "incomplete": True}])
def test_notes_that_are_no_recording_say_nothing(about):
    assert describe_recording({"recorded": about}) == []


def test_each_fact_has_its_line():
    assert describe_recording({"recorded": TRACED}) == [
        "720 messages were traced, each stands for 10",
        "3 messages are left out: not all of their way was traced",
    ]
    assert describe_recording({"recorded": {**TRACED, "share": 1.0, "incomplete": 0}}) == []
    assert describe_recording({"recorded": {**TRACED, "weight": 2, "incomplete": 0}})[0].endswith("stands for 2")
    (line,) = describe_recording({"recorded": {**ESTIMATED, "spread": 0.123}})
    assert line.endswith("two halves of the recording differ in 12% of the messages")
    (line,) = describe_recording({"recorded": {"how": "counted", "not_counted": 2}})
    assert line == "what 2 clients publish is not in the trace: they do not use overlace.live.client"
