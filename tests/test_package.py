"""What `overlace` itself gives: nouns and planners, when they are asked for, and README's example."""

import re
import subprocess
import sys
from pathlib import Path

import pytest
from pyspark import SparkContext

import overlace
from overlace.catalog import PLANNERS
from overlace.planners.joint.joint import Joint

README = Path(__file__).parents[1] / "README.md"
NOTEBOOK = README.parent / "docs/notebook.ipynb"
sys.path.insert(0, str(README.parent / "scripts"))
from notebook import check as check_notebook  # noqa: E402

SLOW = (
    "numpy",
    "numba",
    "scipy",
    "pyarrow",
    "pyspark",
    "pydantic",
    "altair",
    "typer",
    "overlace.model",
    "overlace.catalog",
)


@pytest.fixture
def on_sail(sail, monkeypatch):
    """What names no engine runs on Sail, also in a process that has a driver."""
    monkeypatch.setattr(SparkContext, "_active_spark_context", None)


@pytest.mark.usefixtures("on_sail")
def test_the_example_of_the_readme_runs_as_it_stands(capsys, tmp_path, monkeypatch):
    (example,) = re.findall(r"^```python\n(.*?)^```", README.read_text(), re.DOTALL | re.MULTILINE)
    monkeypatch.chdir(tmp_path)
    names = {}
    exec(compile(example, "README.md", "exec"), names)
    shown = capsys.readouterr().out
    assert shown.startswith(f"{names['result'].saving}\n")
    assert list(names["result"].steps["step"]) == list(range(1, 1 + len(names["result"].plan.steps)))
    assert names["result"].steps["changes"][0] in shown


@pytest.mark.usefixtures("on_sail")
def test_the_notebook_shows_what_its_cells_show(tmp_path):
    assert check_notebook(NOTEBOOK, tmp_path) == []


def test_every_noun_and_every_planner_can_be_imported_from_the_package():
    for name in overlace.__all__:
        assert getattr(overlace, name) is not None
    assert overlace.PLANNERS is PLANNERS
    assert overlace.Joint is Joint
    for planner in PLANNERS.values():
        assert getattr(overlace, planner.__name__) is planner
        assert planner.__name__ in dir(overlace)
    assert set(overlace.__all__) <= set(dir(overlace))


@pytest.mark.parametrize(
    "name", ["Nothing", "nothing", "__wrapped__", "observed", "Any", "TYPE_CHECKING", "Unknown", ""]
)
def test_what_is_neither_is_refused(name):
    with pytest.raises(AttributeError, match=f"no attribute '{name}'"):
        getattr(overlace, name)


def test_importing_the_package_loads_nothing_slow():
    code = "import sys, overlace; print(*(m for m in sys.argv[1:] if m in sys.modules))"
    assert (
        subprocess.run([sys.executable, "-c", code, *SLOW], capture_output=True, text=True, check=True).stdout == "\n"
    )
