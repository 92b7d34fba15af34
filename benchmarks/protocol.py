"""What all benchmarks share: timing, memory, and the page they write."""

from __future__ import annotations

import os
import platform
import sys
import time
import tracemalloc
from collections.abc import Callable, Sequence
from importlib.metadata import version
from pathlib import Path
from typing import Any


def seconds(run: Callable[[], Any], times: int = 5) -> float:
    """The least of several runs, after one that is not counted."""
    run()
    taken = []
    for _ in range(times):
        start = time.perf_counter()
        run()
        taken.append(time.perf_counter() - start)
    return min(taken)


def peak_bytes(run: Callable[[], Any]) -> int:
    """How far memory rises above what was there before."""
    run()
    tracemalloc.start()
    run()
    _, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    return peak


def short(value: float) -> str:
    """A time for people."""
    return f"{value:.2f} s" if value >= 1 else f"{value * 1e3:.1f} ms" if value >= 1e-3 else f"{value * 1e6:.0f} us"


def table(head: Sequence[str], rows: Sequence[Sequence[object]]) -> str:
    """A Markdown table."""
    lines = ["| " + " | ".join(head) + " |", "|" + "---|" * len(head)]
    return "\n".join(lines + ["| " + " | ".join(map(str, row)) + " |" for row in rows])


def machine() -> str:
    """Where and with what the figures were made."""
    packages = ", ".join(f"{name} {version(name)}" for name in ("numpy", "numba"))
    system = f"{platform.system()} {platform.machine()}, Python {platform.python_version()}"
    return f"{os.cpu_count()} cores, {system}, {packages}"


def write(script: str, title: str, parts: Sequence[str]) -> None:
    """Write the page beside the script and print it."""
    path = Path(script).with_suffix(".md")
    command = f"python benchmarks/{Path(script).name}" + "".join(f" {word}" for word in sys.argv[1:])
    text = "\n\n".join([f"# {title}", f"`{command}` on {machine()}.", *parts]) + "\n"
    path.write_text(text)
    print(text)
