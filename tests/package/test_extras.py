"""What an extra brings: each is declared, and what is absent is named with the command that installs it."""

import ast
import json
import re
import sys
import tomllib
from importlib.metadata import packages_distributions
from pathlib import Path

import pytest
from packaging.requirements import Requirement

from overlace.errors import OverlaceError
from overlace.extras import EXTRAS, USES, NotInstalled, installing, require
from overlace.live.adapter import adapter_for
from overlace.live.deployment import Deployment, Login
from overlace.report.charts import Chart, chart_svg, inline_svg, rows_chart
from overlace.spark.engines import Engine, session

ROOT = Path(__file__).parents[2]
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
DECLARED = PROJECT["optional-dependencies"]
DISTRIBUTIONS = packages_distributions()
BROUGHT = {
    "markupsafe": "jinja2",
    "llvmlite": "numba",
    "py4j": "pyspark",
}  # by what we declare, as a part of its interface


def named(requirements):
    """The distributions of some requirements, those of our own extras among them."""
    found = set()
    for each in map(Requirement, requirements):
        more = [DECLARED[extra] for extra in each.extras] if each.name == "overlace" else []
        found |= set().union(*map(named, more)) if more else {key(each.name)}
    return found


def key(name):
    return re.sub(r"[-_.]+", "-", name).lower()


def distributions_of(module):
    return {key(each) for each in DISTRIBUTIONS.get(module, [module])}


def imported():
    """The modules of others that the package imports outside of type checking, by file."""
    for path in (ROOT / "overlace").rglob("*.py"):
        tree = ast.parse(path.read_text())
        typing = [
            each for each in ast.walk(tree) if isinstance(each, ast.If) and "TYPE_CHECKING" in ast.unparse(each.test)
        ]
        skipped = {id(each) for block in typing for each in ast.walk(block)}
        for each in ast.walk(tree):
            if id(each) in skipped:
                continue
            names = [alias.name for alias in each.names] if isinstance(each, ast.Import) else []
            names += [each.module] if isinstance(each, ast.ImportFrom) and each.module and not each.level else []
            yield from ((path.relative_to(ROOT), name.split(".")[0]) for name in names)


def test_whatever_the_package_imports_is_declared():
    """In the base, or in an extra whose absence has a sentence."""
    base = named(PROJECT["dependencies"])
    assert set(BROUGHT.values()) <= base
    optional = {module for modules in EXTRAS.values() for module in modules}
    undeclared = {
        (str(path), module)
        for path, module in imported()
        if module not in sys.stdlib_module_names and module != "overlace"
        and module not in {*optional, *BROUGHT} and not distributions_of(module) & base
    }  # fmt: skip
    assert undeclared == set()


@pytest.mark.parametrize("extra", EXTRAS)
def test_an_extra_installs_the_modules_that_it_is_named_for(extra):
    wanted = set().union(*map(distributions_of, EXTRAS[extra]))
    assert wanted <= named(DECLARED[extra])
    assert installing(extra) == f"pip install 'overlace[{extra}]'"


def test_every_extra_but_that_of_developers_has_a_sentence():
    assert set(DECLARED) - {"dev"} == set(EXTRAS) == set(USES)


def draw_a_chart():
    chart_svg(Chart("t", [{"x": 1, "y": 2}], "x", "y"))


def connect_a_session(**engine):
    with session(engine=Engine(**engine)):
        pass


USED = {
    "vl_convert": (draw_a_chart, "report"),
    "pysail": (lambda: connect_a_session(engine="sail"), "sail"),
    "grpc": (lambda: connect_a_session(remote="sc://localhost:1"), "connect"),
    "grpc_status": (lambda: connect_a_session(remote="sc://localhost:1"), "connect"),
    "nkeys": (lambda: Login("control", nkey=Path("seed")).public_key(), "live"),
}


@pytest.mark.parametrize("module", USED)
def test_what_is_absent_is_one_line_with_the_command_that_installs_it(module, monkeypatch):
    use, extra = USED[module]
    monkeypatch.setitem(sys.modules, module, None)
    with pytest.raises(NotInstalled) as raised:
        use()
    assert str(raised.value) == f"{module} is not installed: pip install 'overlace[{extra}]'"
    assert isinstance(raised.value, OverlaceError)
    assert raised.value.exit_code == 1


def test_what_is_there_is_used_without_a_word():
    for extra in set(EXTRAS) - {"java"}:
        require(extra)


@pytest.mark.parametrize("module", ["nats", "paho"])
def test_a_command_of_running_networks_says_what_it_lacks(module, monkeypatch):
    monkeypatch.setitem(sys.modules, module, None)
    substrate = {"nats": "nats", "paho": "mosquitto"}[module]
    with pytest.raises(NotInstalled, match=re.escape(f"{module} is not installed: {installing('live')}")):
        adapter_for(Deployment.model_construct(substrate=substrate))


def test_a_page_without_the_extra_says_where_a_chart_would_be_and_how_to_have_it(monkeypatch):
    chart = rows_chart([{"x": 1, "y": 2}]).mark_point().encode(x="x:Q", y="y:Q")
    assert inline_svg(chart, 100, 100, "t").startswith("<svg")
    monkeypatch.setitem(sys.modules, "vl_convert", None)
    assert "pip install &#39;overlace[report]&#39;" in inline_svg(chart, 100, 100, "t")


def test_the_doctor_lists_what_is_absent_and_does_not_fail_for_it(overlace, monkeypatch):
    for module in ("vl_convert", "pysail", "paho"):
        monkeypatch.setitem(sys.modules, module, None)
    code, out, _ = overlace("doctor", "--json")
    found = {row["what"]: (row["state"], row["advice"]) for row in json.loads(out)}
    assert code == 0
    for extra in ("report", "sail", "live"):
        assert found[f"overlace[{extra}]"] == ("optional", installing(extra))
    assert found["overlace[connect]"][0] == "ok"
