"""trees on the command line: one dissemination tree from a file of delays, bounds and degrees."""

from __future__ import annotations

import csv
import io
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import numpy as np
import typer
from rich.table import Table

from overlace.cli.console import AsJson, Force, answer, err, shown
from overlace.cli.options import options_from
from overlace.errors import BadParameter, Unknown
from overlace.limits import option
from overlace.trace.address import local

if TYPE_CHECKING:
    from overlace.ingest.delays import Delays
    from overlace.planners.dissemination.comparison import Compared
    from overlace.planners.dissemination.problem import TreeProblem

SIGMAS = (0.1, 0.3)
"""Lognormal noise of delays that a plan is checked on, as `--drift` does."""

DelaysPath = Annotated[
    Path,
    typer.Argument(
        help="a square matrix of milliseconds, from row to column, with or without names in the first row and column; "
        "or rows of from, to, delay_ms",
        metavar="DELAYS.csv",
        show_default=False,
    ),
]
Bounds = Annotated[
    str,
    typer.Option(
        help="latency bound, milliseconds from the root: one for all, or a file of client, bound_ms (* is all others; "
        "clients that are not named have none)",
        metavar="MS|FILE",
        show_default=False,
    ),
]
Degrees = Annotated[
    str,
    typer.Option(
        help="the most children a client may have, its parent not counted: one for all, or a file of client, degree "
        "(* is all others)",
        metavar="N|FILE",
        show_default=False,
    ),
]


@dataclass(frozen=True)
class TreeOptions:
    """How a tree is arranged and shown."""

    root: str | None = option(None, "the client that messages come from; without it the first", metavar="NAME")
    seed: int = option(0, "same seed, same result", least=0)
    out: str | None = option(None, "write client, parent, delay_ms, bound_ms, met", metavar="FILE.csv")
    plot: str | None = option(None, "draw how many clients are reached within how many ms", metavar="FILE.svg")
    drift: bool = option(False, "also plan on delays with noise, check on others: promised and kept")

    def __post_init__(self) -> None:
        if self.plot is not None and not self.plot.endswith(".svg"):
            raise BadParameter(f"--plot {self.plot}: expected a name that ends in .svg")


@options_from(TreeOptions)
def trees_command(
    delays: DelaysPath,
    bounds: Bounds,
    degrees: Degrees,
    options: TreeOptions,
    force: Force = False,
    as_json: AsJson = False,
) -> None:
    """Arrange the subscribers of a channel in a tree so that most latency bounds hold and no degree limit is broken.

    Beside it other trees under the same limits, the star as a control, and the share that no tree can exceed, proven;
    for up to 7 subscribers also the exact optimum.
    """
    from overlace.ingest.delays import read_delays
    from overlace.planners.dissemination.comparison import ARRANGED, add_optimum, compare

    for name in (options.out, options.plot):
        if name is not None and local(name).exists() and not force:
            raise BadParameter(f"{name} is there already. Choose another path, or replace it with --force.")
    read = read_delays(delays)
    for note in read.notes:
        err.print(f"[yellow]note:[/yellow] {shown(note)}")
    problem = read_problem(read, bounds, degrees, options.root)
    found = add_optimum(problem, compare(problem, options.seed))
    if options.out is not None:
        Path(options.out).write_text(tree_rows(read, problem, found), encoding="utf-8")
    if options.plot is not None:
        Path(options.plot).write_text(draw_reach(problem, found), encoding="utf-8")
    kept = judge_sigmas(problem, options.seed) if options.drift else []
    root = read.clients[problem.root]
    document = {
        "clients": len(read.clients),
        "root": root,
        "bounds": found.measures[ARRANGED].bounds,
        "trees": {name: {"share": each.share, **each._asdict()} for name, each in found.measures.items()},
        "upper_bound": {"share": found.upper, "most": found.ceiling.most, **found.ceiling._asdict()},
        "tree": {read.clients[v]: read.clients[p] if p >= 0 else None for v, p in enumerate(found.trees[ARRANGED])},
        "drift": kept,
        "notes": list(read.notes),
    }
    answer(as_json, document, *summary(root, found), *([drift_table(kept)] if kept else []))


def read_problem(read: Delays, bounds: str, degrees: str, root: str | None) -> TreeProblem:
    """What was asked for, each wrong value named by its client."""
    from overlace.ingest.delays import read_values
    from overlace.planners.dissemination.problem import make_problem

    clients = read.clients
    if root is not None and root not in clients:
        raise Unknown("client", root, clients)
    first = clients.index(root) if root is not None else 0
    asked, limits = read_values(bounds, "bound_ms", clients, np.inf), read_values(degrees, "degree", clients, None)
    for name, bound, degree in zip(clients, asked, limits, strict=True):
        if not bound >= 0:
            raise BadParameter(f"the bound of {name} is {bound:g}: expected milliseconds, 0 or more, or inf for none")
        if not (degree >= 0 and degree == np.floor(degree)) or np.isinf(degree):
            raise BadParameter(f"the degree of {name} is {degree:g}: expected a whole number, 0 or more")
    if len(clients) > 1 and limits[first] < 1:
        raise BadParameter(
            f"the root, {clients[first]}, has degree 0: nobody else could be reached. Allow it at least one child, or "
            "choose another one with --root."
        )
    return make_problem(read.delay, asked, limits, first)


def summary(root: str, found: Compared) -> list[str | Table]:
    """The trees, ours first, and the upper bound."""
    from overlace.planners.dissemination.comparison import ARRANGED

    ours = found.measures[ARRANGED]
    table = Table("tree", "bounds met", "share", "mean ms", "p95 ms", "most children", "", box=None, pad_edge=False)
    table.header_style = "dim"
    for name, each in found.measures.items():
        broken = f"breaks the degree limits of {each.over_degree}" if each.over_degree else ""
        figures = (f"{each.met:,}", f"{each.share:.1%}", f"{each.mean_ms:.1f}", f"{each.p95_ms:.1f}")
        table.add_row(name, *figures, f"{each.max_degree:,}", broken)
    table.add_row("no tree exceeds", f"{found.ceiling.most:,}", f"{found.upper:.1%}", "", "", "", "proven")
    subscribers = len(found.trees[ARRANGED]) - 1
    return [f"{subscribers:,} subscribers below {shown(root)}, {ours.bounds:,} with a bound", table]


def tree_rows(read: Delays, problem: TreeProblem, found: Compared) -> str:
    """The tree as CSV: the root has no parent."""
    from overlace.planners.dissemination.comparison import ARRANGED
    from overlace.planners.dissemination.problem import find_arrivals, is_met

    parent = found.trees[ARRANGED]
    arrival = find_arrivals(problem, parent)
    met = is_met(problem, arrival)
    lines = io.StringIO()
    table = csv.writer(lines, lineterminator="\n")
    table.writerow(("client", "parent", "delay_ms", "bound_ms", "met"))
    for v, name in enumerate(read.clients):
        above = read.clients[parent[v]] if parent[v] >= 0 else ""
        bound = problem.bound[v] if v != problem.root else np.inf
        has = bool(np.isfinite(bound))
        cells = (round(float(arrival[v]), 6), f"{bound:g}" if has else "", str(bool(met[v])).lower() if has else "")
        table.writerow((name, above, *cells))
    return lines.getvalue()


def draw_reach(problem: TreeProblem, found: Compared) -> str:
    """The share of subscribers that each tree reaches within so many milliseconds, as a picture."""
    from overlace.planners.dissemination.problem import find_arrivals, list_subscribers
    from overlace.report.charts import Chart, chart_svg

    rows: list[dict[str, Any]] = []
    for name, parent in found.trees.items():
        late = np.sort(find_arrivals(problem, parent)[list_subscribers(problem)])
        marks = np.unique(np.linspace(0, len(late) - 1, POINTS).astype(int)).tolist() if len(late) else []
        rows += [{"ms": float(late[i]), "share": (i + 1) / len(late), "tree": name} for i in marks]
    title = "Share of subscribers reached"
    return chart_svg(Chart(title, rows, "ms", "share", "tree", x_title="milliseconds from the root"))


POINTS = 60
"""Of each curve."""


def judge_sigmas(problem: TreeProblem, seed: int) -> list[dict[str, Any]]:
    """What a plan promises on one measurement and keeps on another, beside the star."""
    from overlace.planners.dissemination.comparison import judge_drift

    kept = []
    for sigma in SIGMAS:
        found = judge_drift(problem, sigma, seed)
        names = ("arranged", "star")
        kept += [{"sigma": sigma, "tree": name, **each._asdict()} for name, each in zip(names, found, strict=True)]
    return kept


def drift_table(kept: list[dict[str, Any]]) -> Table:
    """The same as a table."""
    table = Table("delays measured again", "tree", "promised", "kept", "promises held", box=None, pad_edge=False)
    table.header_style = "dim"
    for each in kept:
        shares = (f"{each[name]:.1%}" for name in ("promised", "kept", "held"))
        table.add_row(f"noise of sigma {each['sigma']:g}", each["tree"], *shares)
    return table
