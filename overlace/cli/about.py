"""What there is: file formats and metrics; and a check of this installation."""

from __future__ import annotations

from typing import Annotated

import typer
from rich.table import Table

from overlace.cli.console import AsJson, answer, shown
from overlace.cli.options import options_from
from overlace.errors import BadParameter, Unknown
from overlace.spark.engines import Engine


def metrics_command(
    name: Annotated[str | None, typer.Argument(help="only metrics whose name holds this")] = None,
    as_json: AsJson = False,
) -> None:
    """Every metric with its unit, direction, definition and source."""
    from overlace.replay.definitions import METRICS

    chosen = {key: each for key, each in METRICS.items() if name is None or name in key}
    if not chosen:
        raise Unknown("metric", name or "", METRICS)
    rows = [{"metric": key, **each.__dict__} for key, each in chosen.items()]
    table = Table("metric", "unit", "better", "what it is", "source", box=None, pad_edge=False, header_style="dim")
    for key, each in chosen.items():
        table.add_row(key, *map(shown, (each.unit, each.direction, each.definition, each.citation)))
    answer(as_json, rows, table)


def schema_command(
    name: Annotated[str | None, typer.Argument(help="plan, network, or a table's name; none: list them")] = None,
    as_json: AsJson = False,
) -> None:
    """The JSON Schema of plan files and network files, or the columns of a table."""
    from overlace.trace.plan_file import PlanFile
    from overlace.trace.tables import RUN, TABLES, TRACE, schema_of

    if name == "plan":
        answer(True, PlanFile.model_json_schema())
        return
    if name == "network":
        from overlace.live.deployment import Deployment

        answer(True, Deployment.model_json_schema())
        return
    if name is None:
        listing = {"file": ["plan", "network"], "trace": list(TRACE), "run": list(RUN)}
        answer(
            as_json,
            listing,
            *(f"[bold]{kind}[/bold]  {' '.join(tables)}" for kind, tables in listing.items()),
        )
        return
    if name not in TABLES:
        raise Unknown("table", name, ["plan", "network", *TABLES])
    columns = [{"column": f.name, "type": str(f.type), "nullable": f.nullable} for f in schema_of(name)]
    table = Table("column", "type", "may be empty", box=None, pad_edge=False, header_style="dim")
    for each in columns:
        table.add_row(str(each["column"]), shown(each["type"]), "yes" if each["nullable"] else "")
    answer(as_json, {"table": name, "columns": columns}, table)


@options_from(Engine)
def doctor_command(engine: Engine, as_json: AsJson = False) -> None:
    """Check this installation and, if an engine is named, that it runs and what each of its executors has."""
    from overlace.doctor import PACKAGES, examine, executor_finding

    if engine.conf and not engine.asked:
        raise BadParameter("--conf is for Spark: say where it runs with --master or --remote")
    findings, executors = examine(engine if engine.asked else None)
    marks = {"ok": "[green]ok[/green]", "optional": "[yellow]-[/yellow]", "missing": "[red]missing[/red]"}
    table = Table("", "what", "found", "to do", box=None, pad_edge=False, header_style="dim")
    for each in findings:
        table.add_row(marks[each.state], *map(shown, (each.what, each.found, each.advice)))
    rows = Table("", "executor", "host", "python", *PACKAGES, "to do", box=None, pad_edge=False, header_style="dim")
    for row in executors:
        found = executor_finding(row)
        cells = [row["executor"], row["host"], f"{row['python']} {row['path']}"]
        cells += [row["found"].get(name) or row["lacks"].get(name, "?") for name in PACKAGES]
        rows.add_row(marks[found.state], *map(shown, (*cells, found.advice)))
        findings.append(found)
    answer(as_json, [each._asdict() for each in findings], table, *([rows] if executors else []))
    if any(each.state == "missing" for each in findings):
        raise typer.Exit(1)
