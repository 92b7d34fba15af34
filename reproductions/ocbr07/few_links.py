"""What a few changed links buy: cost left against links changed, for 100 brokers."""

from __future__ import annotations

from overlace.model import Progress
from overlace.planners.tree.hub_safe import HubSafe
from overlace.planners.tree.ocbr import Ocbr
from overlace.planners.tree.regraft import Regraft
from overlace.report.charts import Chart, Row
from overlace.workloads.square import square
from reproductions.result import Measured, Spread, item, mean_in

LINKS = (5, 10, 20, 40, 60, 99)
FEW, AIM = 20, 4
"""Where regraft should remove so many times what OCBR removes."""


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


def _figures(measured: Measured, seeds: int) -> dict[str, object]:
    [row] = (each for each in measured.rows if each["links changed"] == FEW)
    ours, ocbr = (1 - mean_in(row[name]) for name in ("regraft", "ocbr, as it goes"))
    return {"few": FEW, "aim": AIM, "ours": f"{ours:.0%}", "ocbr": f"{ocbr:.0%}", "times": f"{ours / ocbr:.1f}"}


@item("ocbr07/few-links", "Cost left after a few changed links", seeds=10, figures=_figures)
def few_links(seeds: int, progress: Progress) -> Measured:
    """Cost left after 5 to 99 changed links."""
    rows: list[Row] = []
    points: list[Row] = []
    for i, links in enumerate(LINKS):
        progress(i / len(LINKS), f"{links} links")
        runs = [cost_left(links, seed) for seed in range(seeds)]
        spreads = {name: Spread.of([run[name] for run in runs]) for name in runs[0]}
        rows.append(
            {"links changed": links}
            | {name: f"{each.mean:.3f} ± {each.deviation:.3f}" for name, each in spreads.items()}
        )
        points += [
            {"links": links, "planner": name, "left": each.mean, "low": each.low, "high": each.high}
            for name, each in spreads.items()
        ]
    title, x_title, y_title = "What a few changed links buy", "links changed, of 99", "share of the cost left"
    chart = Chart(title, points, "links", "left", "planner", "", "low", "high", x_title=x_title, y_title=y_title)
    return Measured(rows, [chart])
