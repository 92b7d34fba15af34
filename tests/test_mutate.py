import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent
sys.path.insert(0, str(ROOT / "scripts"))

import mutate  # noqa: E402

LISTED = mutate.mutations(mutate.LIST.read_text(encoding="utf-8"))
ROOMS = """arrays trace ingest observe matching placement tree search joint channels mesh replay optimize report
    cli""".split()


def test_every_mutation_can_be_planted_in_exactly_one_place():
    assert mutate.faults(LISTED, ROOT) == []


def test_there_are_mutations_in_every_room_that_has_fast_tests():
    assert len(LISTED) >= 30
    assert set(ROOMS) <= {each.room for each in LISTED}


def one(tmp_path, before="a < b", after="a <= b", text="x = a < b\n"):
    """A tree of one module, and a mutation of it."""
    (tmp_path / "overlace").mkdir(exist_ok=True)
    (tmp_path / "overlace/room.py").write_text(text)
    (tmp_path / "tests").mkdir(exist_ok=True)
    return mutate.Mutation("less", "overlace/room.py", before, after, ("tests",))


@pytest.mark.parametrize(
    ("given", "says"),
    [
        ({"before": "a > b"}, "stands 0 times"),
        ({"text": "x = a < b or a < b"}, "stands 2 times"),
        ({"after": "a < b"}, "changes nothing"),
    ],
)
def test_a_mutation_that_does_not_apply_is_a_fault(tmp_path, given, says):
    assert says in mutate.faults([one(tmp_path, **given)], tmp_path)[0]


def test_two_mutations_of_one_name_and_tests_that_are_not_there_are_faults(tmp_path):
    mutation = one(tmp_path)
    assert mutate.faults([mutation], tmp_path) == []
    assert mutate.faults([mutation, mutation], tmp_path) == ["less: stands twice"]
    (tmp_path / "tests").rmdir()
    assert mutate.faults([mutation], tmp_path) == ["less: there is no tests"]


def test_a_planted_mutation_changes_one_place_and_forgets_what_was_compiled_from_it(tmp_path):
    mutation = one(tmp_path, text="@kernel\ndef x(a, b):\n    return a < b\n")
    compiled = tmp_path / "overlace/__pycache__"
    compiled.mkdir()
    for name, text in (
        ("caller", "from overlace.room import x\n"),
        ("apart", "import os\n"),
        ("far", "import overlace.caller\n"),
    ):
        (tmp_path / f"overlace/{name}.py").write_text(text)
        (compiled / f"{name}.f-3.py311.nbi").touch()
    mutate.plant(mutation, tmp_path)
    assert (tmp_path / "overlace/room.py").read_text() == "@kernel\ndef x(a, b):\n    return a <= b\n"
    assert [each.name.split(".")[0] for each in compiled.iterdir()] == ["apart"]


@pytest.mark.parametrize(
    ("code", "said", "noticed"),
    [
        (0, "3 passed", ""),
        (1, "..F\nFAILED tests/a.py::test_b - assert 1\n!! stopping", "tests/a.py::test_b"),
        (2, "ERROR tests/a.py\n", "tests/a.py"),
        (-11, "", "exit code -11"),
    ],
)
def test_what_failed_is_named(code, said, noticed):
    assert mutate.noticed_by(code, said) == noticed


def test_no_test_at_all_is_no_notice():
    with pytest.raises(SystemExit, match="no fast test"):
        mutate.noticed_by(5, "")


def test_a_mutation_is_chosen_by_its_name_or_its_room(tmp_path):
    mutation = one(tmp_path)
    assert mutate.chosen([mutation], []) == mutate.chosen([mutation], ["room"]) == [mutation]
    with pytest.raises(SystemExit, match="nowhere"):
        mutate.chosen([mutation], ["nowhere"])


def test_a_mutation_that_survives_and_one_that_is_noticed(tmp_path):
    """End to end on a tree of one module."""
    mutation = one(tmp_path, text="def less(a, b):\n    return a < b\n")
    (tmp_path / "overlace/__init__.py").touch()
    test = tmp_path / "tests/test_room.py"
    head = "from overlace.room import less\n\n\ndef test_less():\n    assert less(1, 2)\n"
    for text, noticed in ((head, ""), (head + "    assert not less(2, 2)\n", "tests/test_room.py::test_less")):
        test.write_text(text)
        outcome = mutate.attempt(mutation, _clean(tmp_path), tmp_path / "work")
        assert outcome.noticed == noticed


def _clean(tmp_path):
    (tmp_path / "pyproject.toml").write_text('[tool.pytest.ini_options]\nmarkers = ["jvm", "browser", "live"]\n')
    clean = tmp_path / "clean"
    for name in ("overlace", "tests"):
        mutate.shutil.copytree(tmp_path / name, clean / name, dirs_exist_ok=True)
    mutate.shutil.copy(tmp_path / "pyproject.toml", clean)
    return clean
