"""What limits on brokers cost and protect: 200 moves on five logs, judged on held-out traffic.

python benchmarks/caps.py [--data FOLDER] [LOG ...]
"""

from __future__ import annotations

import argparse
import tempfile
from pathlib import Path

from hold import DATA, case, written
from protocol import table, write

from overlace.errors import NothingBetter
from overlace.limits import Goal, Limits
from overlace.trace.store import Trace
from overlace.verbs import optimize

LOGS = ("email-Eu", "Enron", "sites", "turns", "newcomers")
CAPS: dict[str, dict[str, float]] = {
    "--sent-cap 1.5 --handled-cap 1": {"sent_cap": 1.5},
    "--handled-cap 1 (default)": {},
    "none": {"handled_cap": 0.0},
}
HEAD = ("log", "seed", "limits", "listed changes", "with the rule for newcomers", "busiest broker", "worst failure")


def row(trace: Trace, folder: Path, caps: dict[str, float], seed: int) -> list[str]:
    """What a plan with these limits saves, and what it does to brokers."""
    limits = Limits(placement="anywhere", max_moves=200, max_swaps=0, **caps)
    try:
        part = optimize(trace.path, folder, limits, Goal(seed=seed)).verdicts[0]
    except NothingBetter as error:
        part = error.result.verdicts[0]  # type: ignore[attr-defined]
    assert part.saving is not None
    judged, rule = part.judged, part.judged.newcomers
    found = {each.metric: each for each in judged.metrics if each.part == "held-out"}
    load, cut = found["max_broker_load"], found["cut_share_max"]
    return [
        f"{part.saving.share:.1%}",
        f"{part.saving.share + (rule.share if rule else 0):.1%}",
        f"{load.after / load.before:.2f} of today's",
        f"{cut.before:.0%} -> {cut.after:.0%}",
    ]


def main() -> None:
    """Measure, and write the page."""
    asked = argparse.ArgumentParser(description=__doc__)
    asked.add_argument("logs", nargs="*", default=[])
    asked.add_argument("--data", type=Path, default=DATA)
    given = asked.parse_args()
    rows = []
    for name in given.logs or LOGS:
        for seed in (0, 1):
            with tempfile.TemporaryDirectory() as folder:
                trace = written(Path(folder) / "trace", *case(name, given.data, seed), seed)
                for k, (words, caps) in enumerate(CAPS.items()):
                    rows.append([name, str(seed), words, *row(trace, Path(folder) / f"run{k}", caps, seed)])
    parts = [
        "At most 200 clients move, links stay; logs, homes and links as in [hold](hold.md). Saved on held-out "
        "traffic; the busiest broker there; the share of deliveries that the worst failure of a broker cuts off, today "
        "and after.",
        table(HEAD, rows),
    ]
    write(__file__, "Limits on brokers", parts)


if __name__ == "__main__":
    main()
