"""What a few changed links buy: cost left against links changed, for 100 brokers."""

from __future__ import annotations

import numpy as np

from overlace.model import Progress
from overlace.planners.tree.hub_safe import HubSafe
from overlace.planners.tree.ocbr import Ocbr
from overlace.planners.tree.regraft import Regraft
from overlace.report.charts import Chart, Row
from overlace.workloads.square import square
from reproductions.ocbr07.knows import KNOWS
from reproductions.result import Result, Spread

LINKS = (5, 10, 20, 40, 60, 99)


def cost_left(links: int, seed: int, brokers: int = 100) -> dict[str, float]:
    """The share of the cost that is left after so many links have changed."""
    observation = square(brokers, 4 * brokers, 3 * brokers, seed=seed)
    here = Ocbr().cost(observation, observation.overlay)
    whole = Ocbr().solve(observation, seed)
    plans = {
        "ocbr, as it goes": Ocbr(max_swaps=links).solve(observation, seed),
        "ocbr's tree, best swaps first": whole.first(min(links, len(whole.steps))),
        "hub-safe, as it goes": HubSafe(max_swaps=links).solve(observation, seed),
        "regraft": Regraft(max_swaps=links, kicks=0).solve(observation, seed),
    }
    return {name: Ocbr().cost(observation, plan.after) / here for name, plan in plans.items()}


def few_links(*, seeds: int | None = None, progress: Progress | None = None) -> Result:
    """Cost left after 5 to 99 changed links."""
    count = seeds or 10
    rows: list[Row] = []
    points: list[Row] = []
    for i, links in enumerate(LINKS):
        if progress:
            progress(i / len(LINKS), f"{links} links")
        runs = [cost_left(links, seed) for seed in range(count)]
        spreads = {name: Spread.of([run[name] for run in runs]) for name in runs[0]}
        rows.append(
            {"links changed": links}
            | {name: f"{each.mean:.3f} ± {each.deviation:.3f}" for name, each in spreads.items()}
        )
        points += [
            {"links": links, "planner": name, "left": each.mean, "low": each.low, "high": each.high}
            for name, each in spreads.items()
        ]
    removed = {
        name: 1 - np.mean([cost_left(20, seed)[name] for seed in range(count)])
        for name in ("regraft", "ocbr, as it goes")
    }
    notes = [
        f"Share of the cost that is left, mean of {count} seeds; 100 brokers, workload square.",
        "`as it goes`: the rounds run until one more rearrangement would change more links than are allowed; that is "
        "what a network sees whose masters know only their neighbourhoods. `best swaps first` takes OCBR's final "
        "tree and carries out first what pays most, which needs to know the whole tree.",
        f"At 20 links regraft removes {removed['regraft']:.0%} of the cost, OCBR as it goes "
        f"{removed['ocbr, as it goes']:.0%}: {removed['regraft'] / removed['ocbr, as it goes']:.1f} times as much "
        "(aim: 4).",
        KNOWS,
    ]
    chart = Chart(
        "What a few changed links buy", points, "links", "left", series="planner", low="low", high="high",
        x_title="links changed, of 99", y_title="share of the cost left",
    )  # fmt: skip
    return Result("Cost left after a few changed links", rows, notes, [chart])
