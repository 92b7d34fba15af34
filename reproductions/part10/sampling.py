"""§5.1: the simulation with drawn subscribers and messages, against the exact rate."""

from __future__ import annotations

from overlace.model import Overlay, Progress
from overlace.planners.channels.strategy1 import Strategy1
from overlace.planners.channels.strategy2 import Strategy2
from overlace.planners.channels.strategy3 import Strategy3
from overlace.planners.channels.strategy4 import Strategy4
from overlace.planners.channels.strategy31 import Strategy31
from overlace.replay.delivery import delivery, sample
from overlace.report.charts import Row
from reproductions.part10.curves import Setup, Strategy
from reproductions.part10.strategy_3 import thesis
from reproductions.result import Measured, item

SUBSCRIBERS, MESSAGES = 30_000, 10_000


def _figures(measured: Measured, seeds: int) -> dict[str, object]:
    return {"subscribers": f"{SUBSCRIBERS:,}", "messages": f"{MESSAGES:,}"}


@item("part10/sampling", "§5.1: the sampled simulation compared with the exact rate", seeds=10, figures=_figures)
def sampling(seeds: int, progress: Progress) -> Measured:
    """Draw as the thesis does, and compare with what can be counted."""
    few, large = thesis((11, 15)), Setup(10, (3, 4), 3000)
    cases: list[tuple[str, Strategy, Setup]] = [
        ("strategy 1", Strategy1(), few),
        ("strategy 1", Strategy1(), large),
        ("strategy 2", Strategy2(), few),
        ("strategy 3", Strategy3(), few),
        ("strategy 3.1", Strategy31(), few),
        ("strategy 4", Strategy4(), few),
    ]
    rows: list[Row] = []
    for i, (name, strategy, setup) in enumerate(cases):
        observation = setup.draw(0)
        online = strategy.online(observation)
        online.join(0, len(online.kinds))
        overlay = Overlay(channels=online.pairs)
        exact = delivery(observation, overlay).of("false_positive_rate")
        draws = [sample(observation, overlay, SUBSCRIBERS, MESSAGES, seed) for seed in range(seeds)]
        within = [abs(each.rate - exact) <= 2 * each.standard_error for each in draws]
        rows.append(
            {
                "strategy": name,
                "publishers": setup.joining,
                "exact rate": exact,
                "sampled, mean": sum(d.rate for d in draws) / seeds,
                "least": min(d.rate for d in draws),
                "most": max(d.rate for d in draws),
                "standard error": sum(d.standard_error for d in draws) / seeds,
                "within two standard errors": f"{sum(within)} of {seeds}",
                "messages received, millions": sum(d.received for d in draws) / seeds / 1e6,
            }
        )
        progress((i + 1) / len(cases), name)
    return Measured(rows)
