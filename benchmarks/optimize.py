"""The main job from end to end: a generated trace in, a judged plan and a report out; seconds by stage, memory.

python benchmarks/optimize.py [MESSAGES:CLIENTS ...]      default: 200000:1000 2000000:10000 10000000:100000
"""

from __future__ import annotations

import json
import subprocess
import sys
import tempfile
import time
from pathlib import Path

from protocol import short, table, write

SIZES = ("200000:1000", "2000000:10000", "10000000:100000")
STAGES = ("observing", "choosing", "planning", "replaying", "judging", "asking", "writing")
CODE = """
import json, resource, sys, time
from pathlib import Path
from overlace.errors import NothingBetter
from overlace.verbs import optimize
from overlace.limits import Limits

began, seen = time.process_time(), []
def progress(share, what):
    seen.append((what.split()[0], time.process_time()))
answer = optimize(sys.argv[1], Path(sys.argv[2]), Limits(budget=int(sys.argv[3])), progress=progress)
(part,) = answer.verdicts
spent = {}
for (what, at), (_, after) in zip(seen, seen[1:]):
    spent[what] = spent.get(what, 0.0) + after - at
peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1e6
counts = part.document.counts
found = {"spent": spent, "peak": peak, "saved": part.saving.share, "moves": counts.moves, "links": counts.links}
print(json.dumps(found))
"""


def generated(messages: int, clients: int, folder: Path) -> tuple[int, float]:
    """(deliveries, wall seconds) of a trace, Spark's start included."""
    began = time.perf_counter()
    words = ["generate", "sites", "--out", str(folder), "--json", "--messages", str(messages)]
    words += ["--clients", str(clients), "--topics", str(clients * 6 // 10)]
    subprocess.run([Path(sys.executable).with_name("overlace"), *words], check=True, capture_output=True, text=True)
    taken = time.perf_counter() - began
    from overlace.observe.traffic import traffic_of
    from overlace.trace.store import Trace
    from overlace.trace.tables import groups, numbers

    rows = traffic_of(Trace.open(str(folder)))
    start, _ = groups(rows["receivers"])
    return int(((start[1:] - start[:-1]) * numbers(rows["messages"])).sum()), taken


def measured(trace: Path, run: Path, budget: int) -> dict[str, object]:
    """One run, in a process of its own."""
    subprocess.run(["rm", "-rf", str(run)], check=True)
    words = [sys.executable, "-c", CODE, str(trace), str(run), str(budget)]
    done = subprocess.run(words, check=True, capture_output=True, text=True)
    return dict(json.loads(done.stdout))


def main() -> None:
    rows = []
    last: dict[str, float] = {}
    for size in sys.argv[1:] or SIZES:
        messages, clients = map(int, size.split(":"))
        with tempfile.TemporaryDirectory() as folder:
            deliveries, wall = generated(messages, clients, Path(folder) / "trace")
            if not rows:  # fills the compiled cache, and is not counted
                measured(Path(folder) / "trace", Path(folder) / "run", 40)
            found = measured(Path(folder) / "trace", Path(folder) / "run", max(40, clients // 100))
        spent: dict[str, float] = found["spent"]  # type: ignore[assignment]
        total = sum(spent.values())
        growth = f"{total / last['total']:.1f}" if last else "-"
        most = max(spent, key=lambda stage: spent[stage])
        rows.append(
            [
                f"{deliveries:,}",
                f"{clients:,}",
                short(wall),
                *(short(spent.get(stage, 0.0)) for stage in STAGES),
                short(total),
                growth,
                f"{most} ({spent[most] / total:.0%})",
                f"{found['peak']:.2f} GB",
                f"{found['saved']:.1%} with {found['moves']:,} moves and {found['links']:,} links",
            ]
        )
        last = {"total": total}
    heads = (
        "deliveries",
        "clients",
        "generate, wall",
        *STAGES,
        "all",
        "times the size before",
        "dominates",
        "peak memory",
        "saved, held out",
    )
    write(
        __file__,
        "Optimize",
        [
            "CPU seconds of `overlace optimize` by stage, in a fresh process with compiled kernels, on traces of "
            "`overlace generate sites` (24 brokers, 14 days, 600 topics for 1,000 clients). Choosing: the "
            "forecast, by trial plans; asking: what each limit costs. A budget of 40 changes, or one for 100 clients.",
            table(heads, rows),
        ],
    )


if __name__ == "__main__":
    main()
