"""Round by round: who asks, who is refused, what is locked, which messages it takes, what is saved."""

from __future__ import annotations

from overlace.model import Progress
from overlace.planners.tree.hub_safe import HubSafe
from overlace.planners.tree.ocbr import Ocbr
from overlace.planners.tree.setting import setting_of
from overlace.report.charts import Chart, Row
from overlace.workloads.square import square
from reproductions.result import Measured, item


@item("ocbr07/rounds", "Rounds, locks and control messages")
def rounds(seeds: int, progress: Progress) -> Measured:
    """The rounds of 100 brokers."""
    observation = square(100, 400, 300, seed=0)
    first = Ocbr().cost(observation, observation.overlay)
    planners: dict[str, Ocbr | HubSafe] = {
        "ocbr": Ocbr(),
        "ocbr, relaxed": Ocbr(locks="relaxed"),
        "hub-safe, paper's locks": HubSafe(locks="paper"),
        "hub-safe": HubSafe(),
    }
    rows: list[Row] = []
    points: list[Row] = []
    for name, planner in planners.items():
        run = planner.run(setting_of(planner, observation)).rounds
        left = first
        for i, each in enumerate(run):
            left -= each.gain
            points.append({"planner": name, "round": i + 1, "left": left / first})
            if i < 5 or i == len(run) - 1:
                rows.append(
                    {
                        "planner": name,
                        "round": i + 1,
                        "asked": each.asked,
                        "refused": each.refused,
                        "acted": each.acted,
                        "links changed": each.links,
                        "locks": each.locked,
                        "control messages": each.control,
                        "cost left": left / first,
                    }
                )
    chart = Chart("Cost left, round by round", points, "round", "left", series="planner", log="x", y_title="cost left")
    return Measured(rows, [chart])
