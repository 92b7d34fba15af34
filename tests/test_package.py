"""What `overlace` itself gives: nouns and planners, when they are asked for, and README's example."""

import re
import subprocess
import sys
from pathlib import Path

import pytest

import overlace
from overlace.catalog import PLANNERS
from overlace.planners.joint.joint import Joint

README = Path(__file__).parents[1] / "README.md"
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


def test_the_example_of_the_readme_runs_as_it_stands(capsys):
    (example,) = re.findall(r"^```python\n(.*?)^```", README.read_text(), re.DOTALL | re.MULTILINE)
    exec(compile(example, "README.md", "exec"), {})
    assert re.fullmatch(r".+ - saves [0-9.]+\n", capsys.readouterr().out)


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
