"""The package built as anybody would, and environments to try it in."""

import os
import shutil
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).parents[2]
VERSIONS = ("3.11", "3.12", "3.13")
"""Those that the package says it runs on."""

LEFT_OUT = ("__pycache__", ".venv", ".git", "demo-run", "live-demo", "build", "dist", ".*_cache", ".hypothesis")


def build(source: Path, folder: Path) -> tuple[Path, Path]:
    """The wheel of a source tree and its sdist, by the build backend that is installed here."""
    code = (
        "import sys; from hatchling import build\n"
        "print(build.build_wheel(sys.argv[1])); print(build.build_sdist(sys.argv[1]))"
    )
    folder.mkdir(parents=True, exist_ok=True)
    run = [sys.executable, "-c", code, str(folder)]
    done = subprocess.run(run, cwd=source, capture_output=True, text=True, check=True)
    wheel, sdist = (folder / name for name in done.stdout.split())
    return wheel, sdist


def python_of(version: str) -> Path | None:
    """A Python of a version that runs: on PATH, or pyenv's newest."""
    homes = sorted(Path(os.environ.get("PYENV_ROOT", Path.home() / ".pyenv")).glob(f"versions/{version}.*/bin"))
    found = [shutil.which(f"python{version}"), *(str(each / "python") for each in reversed(homes))]
    for each in found:
        asked = "import sys, venv, ensurepip; print('{}.{}'.format(*sys.version_info))"
        run = each and subprocess.run([each, "-c", asked], capture_output=True, text=True, check=False)
        if run and run.returncode == 0 and run.stdout.strip() == version:
            return Path(each)
    return None


def clean_environment(**more: str) -> dict[str, str]:
    """That of a new user: nothing of this checkout or of this virtual environment."""
    ours = ("PYTHONPATH", "VIRTUAL_ENV", "PYTHONHOME", "COVERAGE_PROCESS_START", "SPARK_CONNECT_MODE_ENABLED")
    kept = {name: value for name, value in os.environ.items() if name not in ours and not name.startswith("PYTEST")}
    here = str(Path(sys.executable).parent)
    path = os.pathsep.join(each for each in kept.get("PATH", "").split(os.pathsep) if each != here)
    return {**kept, "PATH": path, "PIP_DISABLE_PIP_VERSION_CHECK": "1", **more}


def run(*words: object, at: Path, **more: str) -> str:
    """What a command prints; a failure with all that it printed."""
    done = subprocess.run(
        [str(each) for each in words],
        cwd=at,
        env=clean_environment(**more),
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, f"{words}: {done.returncode}\n{done.stdout[-3000:]}\n{done.stderr[-3000:]}"
    return done.stdout
