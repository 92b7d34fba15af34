"""Make the reports of docs/gallery.md by its own commands, into build/gallery; those that are there are kept."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).parents[1]
SECTION = re.compile(r"^```sh\n(.*?)^```\n.*?\]\(gallery/([\w-]+)\.html\)", re.DOTALL | re.MULTILINE)


def sections() -> dict[str, str]:
    """The commands of each report, by its name."""
    return {name: commands for commands, name in SECTION.findall((ROOT / "docs/gallery.md").read_text())}


def main() -> int:
    """Run what is not there yet."""
    made = ROOT / "build/gallery"
    made.mkdir(parents=True, exist_ok=True)
    path = os.pathsep.join([str(Path(sys.executable).parent), os.environ["PATH"]])
    for name, commands in sections().items():
        if (made / f"{name}.html").exists():
            continue
        print(f"== {name}", flush=True)
        work = ROOT / "build/work" / name
        shutil.rmtree(work, ignore_errors=True)
        work.mkdir(parents=True)
        subprocess.run(["sh", "-ec", commands], cwd=work, env={**os.environ, "PATH": path}, check=True)
        shutil.copy(work / "run/report.html", made / f"{name}.html")

    return 0


if __name__ == "__main__":
    sys.exit(main())
