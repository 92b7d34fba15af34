"""What all benchmarks share: timing, memory, and the page they write."""

from __future__ import annotations

import os
import platform
import sys
import threading
import time
import tracemalloc
from collections.abc import Callable, Sequence
from importlib.metadata import version
from pathlib import Path
from typing import TypeVar

T = TypeVar("T")


def seconds(run: Callable[[], object], times: int = 5, clock: Callable[[], float] = time.perf_counter) -> float:
    """The least of several runs, after one that is not counted; by time.process_time in CPU seconds."""
    run()
    taken = []
    for _ in range(times):
        start = clock()
        run()
        taken.append(clock() - start)
    return min(taken)


def timed(run: Callable[[], T]) -> tuple[T, float]:
    """What a run gives, and its CPU seconds."""
    start = time.process_time()
    return run(), time.process_time() - start


def resident(what: str) -> int:
    """Bytes of memory that this process holds (VmRSS), or has held at most (VmHWM)."""
    lines = Path("/proc/self/status").read_text().splitlines()
    return 1024 * next(int(line.split()[1]) for line in lines if line.startswith(what))


def risen(run: Callable[[], T]) -> tuple[T, int]:
    """What a run gives, and by how many bytes the resident memory of this process rose at most."""
    Path("/proc/self/clear_refs").write_text("5")  # the peak counts from here
    before = resident("VmRSS")
    return run(), resident("VmHWM") - before


def peak_bytes(run: Callable[[], object]) -> int:
    """How far memory rises above what was there before."""
    run()
    tracemalloc.start()
    run()
    _, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    return peak


def _processes() -> dict[int, tuple[int, float]]:
    """Every process: its parent, and its CPU seconds with those of children it waited for."""
    tick = os.sysconf("SC_CLK_TCK")
    found = {}
    for folder in Path("/proc").iterdir():
        if folder.name.isdigit():
            try:
                stat = (folder / "stat").read_text().rpartition(")")[2].split()
            except OSError:
                continue
            cpu = sum(int(stat[i]) for i in (11, 12, 13, 14)) / tick
            found[int(folder.name)] = (int(stat[1]), cpu)
    return found


def _family(processes: dict[int, tuple[int, float]]) -> list[int]:
    mine, grown = {os.getpid()}, True
    while grown:
        more = {pid for pid, (parent, _) in processes.items() if parent in mine} - mine
        mine, grown = mine | more, bool(more)
    return list(mine)


def tree_cpu() -> float:
    """CPU seconds of this process and all below it."""
    processes = _processes()
    return sum(processes[pid][1] for pid in _family(processes) if pid in processes)


def _own_bytes(pid: int) -> int:
    """Resident memory of a process, what it shares with others counted in part (PSS)."""
    try:
        lines = Path(f"/proc/{pid}/smaps_rollup").read_text().splitlines()
    except OSError:
        return 0
    return next((int(line.split()[1]) * 1024 for line in lines if line.startswith("Pss:")), 0)


def _is_java(pid: int) -> bool:
    try:
        return Path(f"/proc/{pid}/comm").read_text().strip() == "java"
    except OSError:
        return False


class Measured:
    """Wall and CPU seconds of a block for the whole process tree, and the peak of its resident memory.

    The peaks of this process, of engines (JVMs) and of all others below it are there apart too.
    """

    def __enter__(self) -> Measured:
        self._stop = threading.Event()
        self.peak = self.driver = self.engine = self.workers = 0
        self._watch = threading.Thread(target=self._sample, daemon=True)
        self._watch.start()
        self._cpu, self._wall = tree_cpu(), time.perf_counter()
        return self

    def __exit__(self, *_: object) -> None:
        self.wall, self.cpu = time.perf_counter() - self._wall, tree_cpu() - self._cpu
        self._stop.set()
        self._watch.join()

    def _sample(self) -> None:
        while not self._stop.wait(0.2):
            held = {pid: _own_bytes(pid) for pid in _family(_processes())}
            engines = sum(size for pid, size in held.items() if _is_java(pid))
            driver, every = held.get(os.getpid(), 0), sum(held.values())
            self.peak, self.driver = max(self.peak, every), max(self.driver, driver)
            self.engine, self.workers = max(self.engine, engines), max(self.workers, every - engines - driver)


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
