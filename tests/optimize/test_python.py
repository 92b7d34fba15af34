"""The main job from Python: named options, a result in hand or read from its folder, and the page as a view of it."""

import inspect
import subprocess
import sys
from dataclasses import fields

import pytest
from markupsafe import escape

import overlace
from overlace.errors import BadParameter, Unknown
from overlace.limits import Goal, Limits
from overlace.optimize.result import NoChangeRecommended, read_result
from overlace.report.page import write_report
from overlace.trace.store import Trace
from tests.optimize import test_dissemination as channels
from tests.optimize.test_optimize import NAMES, TABLES, log
from tests.traces import trace_of


def routed(path):
    trace_of(path, log(), NAMES, **TABLES)


def meshed(path):
    wants = {"client": [c for c in range(9) for _ in range(2)], "topic": [t for c in range(9) for t in (0, 1 + c % 2)]}
    trace_of(path, [], {"client": list("abcdefghi"), "topic": list("xyz")}, subscriptions=wants)


CASES = {
    "placement and tree": (routed, {"placement": "anywhere", "budget": 5, "effort": 0}),
    "mesh": (meshed, {"effort": 1}),
    "channels": (lambda path: channels.make_trace(path, channels.make_tables(2)), {"train": 1, "min_gain": 0}),
}


@pytest.fixture(params=CASES, scope="module")
def found(request, tmp_path_factory):
    folder = tmp_path_factory.mktemp("python")
    make, options = CASES[request.param]
    make(folder / "trace")
    result = overlace.optimize(Trace.open(str(folder / "trace")), folder / "run", **options)
    assert request.param in [each.name for each in result.verdicts]
    return result


def test_a_result_that_is_read_says_what_the_one_in_hand_says(found):
    read = read_result(found.run)
    assert read.as_document() == found.as_document()
    assert repr(read) == repr(found)
    for one, two in zip(read.verdicts, found.verdicts, strict=True):
        assert (one.document, one.plan) == (two.document, two.plan)
        assert [*one.limits, *one.notes] == [*two.limits, *two.notes]
    assert read.measured == {name: each for name, each in found.measured.items() if len(each.value)}
    assert read._repr_html_() == found._repr_html_()


def test_the_page_is_the_same_in_hand_or_from_the_folder(found):
    made = found.report.read_bytes()
    found.report.unlink()
    assert write_report(found.run).read_bytes() == made


def test_a_result_has_its_plan_and_says_what_it_saves_in_a_line_and_in_a_notebook(found):
    assert found.plan is found.verdicts[0].plan
    assert len(found.plan.steps) == found.verdicts[0].document.steps_total
    assert found.saving is found.verdicts[0].saving
    assert "\n" not in repr(found)
    html = found._repr_html_()
    for said in [text for each in found.as_document()["parts"] for text in (each["headline"], *each["lines"])]:
        assert escape(said) in html
    assert ("<svg" in html) == (len(found.plan.after.tree) > 0)


def test_options_are_those_of_the_command_line(tmp_path):
    routed(tmp_path / "trace")
    taken = inspect.signature(overlace.optimize).parameters
    for each in [each for kind in (Limits, Goal) for each in fields(kind)]:
        assert taken[each.name].default == each.default
        assert taken[each.name].kind is inspect.Parameter.KEYWORD_ONLY
    with pytest.raises(Unknown, match="Nearest: budget"):
        overlace.optimize(tmp_path / "trace", tmp_path / "run", bugdet=3)
    with pytest.raises(BadParameter, match="budget is -1"):
        overlace.optimize(tmp_path / "trace", tmp_path / "run", budget=-1)
    with pytest.raises(BadParameter, match="not both"):
        overlace.optimize(tmp_path / "trace", tmp_path / "run", Limits(budget=3), seed=1)
    assert not (tmp_path / "run").exists()
    with pytest.raises(NoChangeRecommended) as refused:
        overlace.optimize(tmp_path / "trace", tmp_path / "run", budget=0)
    assert repr(refused.value.result).endswith(f"; no change recommended ({tmp_path / 'run'})>")
    assert read_result(tmp_path / "run").why_not == refused.value.result.why_not == str(refused.value)


def test_a_plain_import_loads_neither_planners_nor_the_report():
    code = """
import sys, overlace
assert callable(overlace.optimize)
assert not {"overlace.optimize.job", "overlace.report", "overlace.catalog"} & set(sys.modules)
from overlace.optimize.task import observe
"""
    subprocess.run([sys.executable, "-c", code], check=True)
