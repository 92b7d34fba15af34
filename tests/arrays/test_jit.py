import ast
import os
import pickle
import subprocess
import sys
import zipfile
from pathlib import Path

import numpy as np
import pytest

import overlace
from overlace.arrays.csr import group
from overlace.arrays.hashing import hash_groups
from overlace.arrays.jit import Kernel, kernel, size
from overlace.arrays.trees import root_at

PACKAGE = Path(overlace.__file__).parent

ASK = """
import sys
sys.path.insert(0, sys.argv[1])
import numpy as np
import overlace.arrays.trees as trees
assert sys.argv[1] in trees.__file__, trees.__file__
links = np.array([[0, 1], [1, 2]])
rooted = trees.root_at(3, links, 0)
print(trees.hops_between(rooted, np.array([0]), np.array([2]))[0], end=" ")
done = trees.hops_between.compiled
print(sum(done.stats.cache_hits.values()) if hasattr(done, "stats") else "plain")
"""


def zipped(folder: Path, edits: dict[str, tuple[str, str]] | None = None) -> Path:
    path = folder / "overlace.zip"
    with zipfile.ZipFile(path, "w") as archive:
        for source in PACKAGE.rglob("*.py"):
            name = source.relative_to(PACKAGE)
            text = source.read_text()
            if str(name) in (edits or {}):
                assert edits[str(name)][0] in text
                text = text.replace(*edits[str(name)])
            archive.writestr(str(Path("overlace") / name), text)
    return path


def ask(archive: Path, cache: Path, fails: bool = False, **more: str) -> str:
    environment = {k: v for k, v in os.environ.items() if k != "NUMBA_DISABLE_JIT"}
    done = subprocess.run(
        [sys.executable, "-c", ASK, str(archive)],
        env={**environment, "OVERLACE_CACHE": str(cache), "HOME": str(cache.parent), **more},
        cwd=archive.parent,
        capture_output=True,
        text=True,
        check=False,
    )
    assert fails or done.returncode == 0, done.stderr
    return done.stdout.strip()


@pytest.mark.skipif(os.environ.get("NUMBA_DISABLE_JIT") == "1", reason="it is the compiled cache that is tested")
def test_kernels_from_a_zip_are_compiled_once_even_when_the_zip_lies_elsewhere(tmp_path):
    """Each Spark application unpacks the package to another folder of an executor."""
    cache = tmp_path / "cache"
    (tmp_path / "first").mkdir()
    archive = zipped(tmp_path / "first")
    assert ask(archive, cache) == "2 0"
    (tmp_path / "second").mkdir()
    assert ask(archive.rename(tmp_path / "second" / archive.name), cache) == "2 1"


@pytest.mark.skipif(os.environ.get("NUMBA_DISABLE_JIT") == "1", reason="it is the compiled cache that is tested")
def test_an_upgrade_of_any_module_is_compiled_anew(tmp_path):
    """Kernels are compiled into their callers, so a caller's own source does not say what it does."""
    cache = tmp_path / "cache"
    edit = {"arrays/csr.py": ("link[place[v]] = k", "link[place[v]] = k + 0")}
    for place, edits in (("old", {}), ("new", edit)):
        (tmp_path / place).mkdir()
        assert ask(zipped(tmp_path / place, edits), cache) == "2 0"


def test_kernels_from_a_zip_run_as_plain_python_too(tmp_path):
    assert ask(zipped(tmp_path), tmp_path / "cache", NUMBA_DISABLE_JIT="1") == "2 plain"


def test_a_cache_that_cannot_be_written_is_no_reason_to_fail(tmp_path):
    blocked = tmp_path / "file"
    blocked.write_text("in the way")
    assert ask(zipped(tmp_path), blocked).startswith("2 ")
    assert ask(zipped(tmp_path), blocked, TMPDIR=str(blocked)).startswith("2 ")


class Evil:
    """Unpickled, it leaves a mark."""

    def __init__(self, mark: Path) -> None:
        self.mark = mark

    def __reduce__(self):
        return (Path.touch, (self.mark,))


@pytest.mark.skipif(os.environ.get("NUMBA_DISABLE_JIT") == "1", reason="it is the compiled cache that is tested")
@pytest.mark.parametrize("how", ["folder", "link", "compiled", "trusted"])
def test_kernels_that_somebody_planted_are_never_loaded(tmp_path, how):
    """Compiled kernels are pickles: who can write them can run anything. In the user's own folder they are loaded."""
    cache, mark = tmp_path / "cache", tmp_path / "mark"
    archive = zipped(tmp_path)
    (tmp_path / ".cache").write_text("no second place")
    assert ask(archive, cache) == "2 0"
    folder = cache / "overlace"
    (compiled,) = {each.parent for each in folder.rglob("*.nbi")}
    for each in compiled.glob("*.nbi"):
        each.write_bytes(pickle.dumps(Evil(mark)))
    if how == "folder":
        folder.chmod(0o777)
    elif how == "link":
        folder.rename(tmp_path / "theirs")
        folder.symlink_to(tmp_path / "theirs")
    elif how == "compiled":
        compiled.chmod(0o777)
    names = sorted(each.name for each in compiled.glob("*")) if how != "link" else []
    if how == "trusted":
        ask(archive, cache, fails=True)
    else:
        assert ask(archive, cache) == "2 0"
    assert mark.exists() == (how == "trusted")
    assert how in ("link", "trusted") or sorted(each.name for each in compiled.glob("*")) == names


def test_a_planted_source_is_not_what_is_compiled(tmp_path):
    cache, archive = tmp_path / "cache", zipped(tmp_path)
    assert ask(archive, cache).startswith("2 ")
    for each in (cache / "overlace").rglob("*.py"):
        each.write_text("raise SystemExit('planted')")
    assert ask(archive, cache).startswith("2 ")
    assert all("planted" not in each.read_text() for each in (cache / "overlace").rglob("overlace.arrays.trees.py"))


def test_a_kernel_may_be_typed_in_at_a_prompt():
    code = "from overlace.arrays.jit import kernel\nprint(kernel(lambda x: x + 1)(41))"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert done.stdout.strip() == "42", done.stderr


def test_plain_and_compiled_are_the_same():
    links = np.array([[0, 1], [1, 2], [1, 3]])
    for each, *given in ((root_at, 4, links, 0), (hash_groups, np.array([0, 2, 4]), links.ravel()[:4])):
        with np.errstate(over="ignore"):
            assert np.array_equal(each.plain(*given), each.compiled(*given))


def test_little_work_is_plain_until_it_has_added_up(monkeypatch):
    monkeypatch.setattr(Kernel, "left", 10)
    called = []
    watched = kernel(work=size)(lambda values: called.append("plain") or values.sum())
    watched.__dict__["compiled"] = lambda values: called.append("compiled") or values.sum()
    for n in (6, 11, 3, 6, 1, 1):
        assert watched(np.ones(n, np.int64)) == n
    assert called == ["plain", "compiled", "plain", "compiled", "plain", "compiled"]
    assert size(np.ones(3), 5, (np.ones(2), 7)) == 5


def test_a_kernel_is_pickled_by_its_name():
    assert pickle.loads(pickle.dumps(group)) is group


def test_a_kernel_that_was_never_compiled_stays_plain_for_longer_if_its_calls_are_brief(monkeypatch):
    monkeypatch.setattr(Kernel, "left", 0)
    monkeypatch.setattr(Kernel, "cold", 25)
    called = []
    watched = kernel(work=size, brief=10)(lambda values: called.append("plain") or values.sum())
    watched.__dict__["never_compiled"] = True
    for n in (10, 9):
        assert watched(np.ones(n, np.int64)) == n
    watched.__dict__["compiled"] = lambda values: called.append("compiled") or values.sum()
    assert watched(np.ones(3, np.int64)) == 3  # once it is compiled there is nothing to save
    assert called == ["plain", "plain", "compiled"]
    assert Kernel.cold == 6


@pytest.mark.skipif(os.environ.get("NUMBA_DISABLE_JIT") == "1", reason="it is the compiled cache that is tested")
def test_what_an_older_version_left_of_a_kernel_is_dropped_if_it_cannot_be_read(tmp_path):
    (tmp_path / "mine.py").write_text(
        "from overlace.arrays.jit import kernel\n\n\n@kernel\ndef double(x: int) -> int:\n    return 2 * x\n"
    )
    code = "import sys; sys.path.insert(0, sys.argv[1]); import mine; print(mine.double(21))"
    words = [sys.executable, "-c", code, str(tmp_path)]
    for _ in range(2):
        done = subprocess.run(words, capture_output=True, text=True, check=False)
        assert done.stdout.strip() == "42", done.stderr
        (index,) = (tmp_path / "__pycache__").glob("mine.double-*.nbi")
        index.write_bytes(index.read_bytes()[:40] + b"cno.such\nname\n.")
    done = subprocess.run(words, capture_output=True, text=True, check=False)
    assert done.stdout.strip() == "42", done.stderr


def test_no_kernel_assigns_arrays_to_slices():
    """Numba would compile what it says of lengths that differ: most of two seconds in a process. `copy` does it."""
    found = []
    for path in sorted(Path(overlace.__file__).parent.rglob("*.py")):
        functions = [each for each in ast.walk(ast.parse(path.read_text())) if isinstance(each, ast.FunctionDef)]
        kernels = [each for each in functions if any("kernel" in ast.unparse(d) for d in each.decorator_list)]
        for each in (node for function in kernels for node in ast.walk(function) if isinstance(node, ast.Assign)):
            slices = [part for target in each.targets for part in ast.walk(target) if isinstance(part, ast.Slice)]
            scalar = isinstance(each.value, ast.Constant | ast.UnaryOp)
            found += [f"{path.name}: {ast.unparse(each)}"] if slices and not scalar else []
    assert found == []
