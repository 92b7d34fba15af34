"""What is in a trace, a run or a plan, and rows of their tables by name: `overlace show`. It needs no engine."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer
from rich.table import Table

from overlace.cli.console import AsJson, answer, shown
from overlace.cli.logs import MANY, account_line, short
from overlace.cli.plans import plan_show
from overlace.cli.tables import summary, trace_lines
from overlace.errors import BadTrace, Unknown
from overlace.model import ENDS, Names, name_of
from overlace.trace.address import is_address
from overlace.wording import amount, counted

if TYPE_CHECKING:
    import pyarrow as pa
    import pyarrow.parquet as pq

MARKS = {"plan": "plan.json", "run": "run.json", "trace": "trace.json"}
"""The file that a folder of each kind holds."""

PER = {"message": "per message", "gb": "per GB", "ms": "ms"}
"""What the cost of a link is per."""

KINDS = {"region": "region", "attributes": "combination", "combination": "combination", "channel": "channel"}
"""What columns of small numbers number; those of hashed ids are in hashed_columns."""

SCOPES = {"link": "broker", "region pair": "region", "overall": "", "bin": ""}
"""What the keys of metrics number, where it is not what their scope is called."""


def show_command(
    path: Annotated[str, typer.Argument(help="a trace, a run folder or a plan", metavar="TRACE|RUN|PLAN")],
    table: Annotated[str | None, typer.Argument(help="list the rows of this table", metavar="TABLE")] = None,
    rows: Annotated[int, typer.Option(min=1, help="how many rows of TABLE, or steps of a plan, to list")] = 20,
    as_json: AsJson = False,
) -> None:
    """What is in a trace, a run or a plan; with TABLE, the rows of one of its tables, with names for ids.

    Of a trace its span, clients, brokers, links, sources and tables; of a run its windows and plans; of a plan what
    each step changes and why. Tables of a run are runs, metrics and trees, those of a plan changes and after.
    """
    kind, place = kind_of(path)
    document: dict[str, Any]
    if table is not None:
        total, found = rows_of(kind, place, table, rows)
        more = f"{len(found):,} of {counted(total, 'row', 'rows')}" + " (--rows N lists more)" * (len(found) < total)
        document = {kind: place, "table": table, "total": total, "rows": found}
        answer(as_json, document, *([table_of_rows(found)] if found else []), f"[dim]{more}[/dim]")
    elif kind == "plan":
        plan_show(Path(place), rows, as_json)
    else:
        document, lines = trace_summary(place) if kind == "trace" else run_summary(Path(place))
        tables = ", ".join(f"{name} {count:,}" for name, count in document["rows"].items())
        hint = f"{tables} (overlace show {place} TABLE)" if tables else f"none yet (overlace replay {place})"
        answer(as_json, document, *lines, shown(f"tables   {hint}"))


def kind_of(path: str) -> tuple[str, str]:
    """(trace, run or plan, its folder); also of the file by which it is known."""
    if is_address(path):
        return "trace", path
    at = Path(path).parent if Path(path).name in MARKS.values() else Path(path)
    for kind, mark in MARKS.items():
        if (at / mark).is_file():
            return kind, str(at)
    advice = f"`overlace peek {path}` shows what a log holds." if at.exists() else "Nothing is at that path."
    if at.is_dir():
        inside = sorted({str(each.parent) for mark in MARKS.values() for each in at.glob(f"*/{mark}")})
        advice = f"In it: {listing(inside, 5)}." if inside else f"`overlace ingest LOG --out {path}` makes a trace."
    raise BadTrace(f"{path} is no trace, run or plan: it holds neither {' nor '.join(MARKS.values())}. {advice}")


def trace_summary(path: str) -> tuple[dict[str, Any], list[str]]:
    """A trace as JSON and in lines."""
    from overlace.observe.cut import format_time
    from overlace.trace.store import Trace

    trace = Trace.open(path)
    links, sources = trace.read("links", ["cost", "wired"]).to_pydict(), trace.read("sources").to_pylist()
    span = [format_time(each) for each in trace.span()] if trace.rows("traffic") else []
    costs = sorted(cost for cost in links["cost"] if cost is not None)
    count = {"links": len(links["wired"]), "wired": sum(links["wired"])}
    document = summary(trace) | {
        "unit": trace.unit,
        "span": span,
        "names": {kind: len(names) for kind, names in sorted(trace.names.items())},
        "brokers": list(trace.names.get("broker", ())),
        **count,
        "costs": [costs[0], costs[-1]] if costs else None,
        "sources": sources,
    }
    lines = [f"span     {' to '.join(span)}, UTC, in buckets of {trace.bucket_us / 60e6:g} min"] if span else []
    for kind, most in (("client", 8), ("broker", 40), ("region", 8), ("topic", 8)):
        lines += [f"{kind + 's':<8} {listing(names, most)}"] if (names := trace.names.get(kind)) else []
    if count["links"]:
        unit = PER.get(trace.unit, trace.unit)
        cost = f"cost {amount(costs[0])} to {amount(costs[-1])} {unit}" if costs else "no link has a cost"
        lines.append(f"links    {count['links']:,}, {count['wired']:,} of them wired; {cost}")
    fields = ("lines", "kept", "ignored", "quarantined", "duplicates")
    accounts = [(f"{each['name']} ({each['format']})", *(each[field] for field in fields)) for each in sources]
    if len(accounts) > MANY:
        accounts = [(f"{len(accounts)} files", *map(sum, zip(*(each[1:] for each in accounts), strict=True)))]
    lines += [f"source   {account_line(*each)}" for each in accounts]
    return document, [*trace_lines(trace), *map(shown, lines)]


def run_summary(run: Path) -> tuple[dict[str, Any], list[str]]:
    """A run as JSON and in lines."""
    from overlace.optimize.words import headline, windows_line
    from overlace.trace.plans import read_document
    from overlace.trace.runs import read_json, read_names, read_run

    about, names = read_run(run), read_names(run)
    found = read_json(run / "answer.json") if (run / "answer.json").exists() else {}
    plans = {path.parent: read_document(path) for path in sorted((run / "plans").glob("*/plan.json"))}
    document = {
        "run": str(run),
        **{key: value for key, value in about.items() if key != "schema_version"},
        "names": {kind: len(each) for kind, each in sorted(names.items())},
        "why_not": found.get("why_not"),
        "plans": {path.name: headline(plan) for path, plan in plans.items()},
        "rows": {name: table.metadata.num_rows for name, table in run_tables(run).items()},
    }
    lines = [f"run      {run}", f"trace    {about['trace']}  digest {about['trace_digest']}"]
    if any(about["train"]):
        lines.append(f"windows  {windows_line(about['train'], about['held_out'], about['share'])}")
    lines.append(f"observed {', '.join(counted(len(each), kind, f'{kind}s') for kind, each in names.items()) or '-'}")
    lines += [f"no change recommended: {found['why_not']}"] if found.get("why_not") else []
    lines += [f"plan     {at}: {headline(plan)}{'' if plan.judged else ' (not judged)'}" for at, plan in plans.items()]
    lines += [f"report   {run / 'report.html'}"] if (run / "report.html").exists() else []
    return document, [*map(shown, lines)]


def run_tables(run: Path) -> dict[str, pq.ParquetFile]:
    """The tables that a run has, by name."""
    import pyarrow as pa
    import pyarrow.parquet as pq

    from overlace.trace.tables import RUN

    try:
        return {path.stem: pq.ParquetFile(path) for path in sorted(run.glob("*.parquet")) if path.stem in RUN}
    except (OSError, pa.ArrowException) as error:
        raise BadTrace(f"a table of {run} cannot be read: {error}. `overlace replay {run}` makes it anew.") from None


def rows_of(kind: str, path: str, table: str, most: int) -> tuple[int, list[dict[str, Any]]]:
    """(how many rows a table has, the first of them by name); the nearest tables if there is none of that name."""
    from overlace.trace.plans import changes_by_name, read_columns, read_plan
    from overlace.trace.runs import overlay_table, read_json, read_names
    from overlace.trace.store import Trace, replace_ids
    from overlace.trace.tables import TABLES

    at, trace = Path(path), Trace.open(path) if kind == "trace" else None
    there = sorted(trace.parts if trace else run_tables(at) if kind == "run" else ("after", "changes"))
    if table not in there and table in TABLES:
        raise BadTrace(f"{path} has no table {table}. It has: {', '.join(there) or 'none yet'}.")
    if table not in there:
        raise Unknown("table", table, there)
    if trace:
        found = replace_ids(trace.stored(table, most=most), table, trace.number)
        return trace.rows(table), by_name(found, table, trace.names)
    if kind == "run":
        found = run_tables(at)[table].read()
        return len(found), by_name(found.slice(0, most), table, read_names(at))
    document, run = read_plan(at), at.resolve().parent.parent
    observed = run / "observation/observation.json"  # a plan elsewhere has the names that plan.json lists
    own = observed.exists() and read_json(observed).get("digest") == document.observation
    names = read_names(run) if own else {}
    if table == "after":
        found = overlay_table(read_columns(at, document)[0])
        return len(found), by_name(found.slice(0, most), "overlay", names)
    changes = zip(*changes_by_name(at, names, most), strict=True)
    return document.changes_total, [{"step": step, **line.model_dump()} for step, _, line in changes]


def by_name(found: pa.Table, table: str, names: Names) -> list[dict[str, Any]]:
    """Rows with names for the numbers of clients, brokers and the like, and times as text."""
    import pyarrow as pa

    from overlace.trace.tables import RUN, hashed_columns

    times = [field.name for field in found.schema if pa.types.is_timestamp(field.type)]
    for each in times:  # Arrow's own times import pandas
        text = found[each].cast(pa.timestamp("us")).cast(pa.string())
        found = found.set_column(found.column_names.index(each), each, text)
    kinds, rows = KINDS | (hashed_columns(table) if table not in RUN else {}), found.to_pylist()
    for row in rows:
        if table == "overlay":
            kinds["left"], kinds["right"] = ENDS[row["facet"]]
        elif table == "metrics":
            kinds["key"] = kinds["other"] = SCOPES.get(row["scope"], row["scope"])
        row |= {each: row[each].removesuffix(".000000") + "Z" for each in times if row[each]}
        row |= {each: called(kind, row[each], names) for each, kind in kinds.items() if kind and each in row}
    return [dict(row) for row in rows]


def called(kind: str, value: Any, names: Names) -> Any:
    """The name of a number, or of each in a list; null stays."""
    if isinstance(value, list):
        return [called(kind, each, names) for each in value]
    return value if value is None else "backbone" if (kind, value) == ("region", -1) else name_of(kind, value, names)


def table_of_rows(rows: Sequence[Mapping[str, Any]]) -> Table:
    """Rows for people, long texts cut; without columns that hold nothing."""
    table = Table(box=None, pad_edge=False, header_style="dim")
    filled = [column for column in rows[0] if any(row[column] is not None for row in rows)]
    for column in filled:
        table.add_column(column, overflow="fold")
    for row in rows:
        texts = (", ".join(map(str, v)) if isinstance(v := row[column], list) else v for column in filled)
        table.add_row(
            *("" if t is None else shown(amount(t) if isinstance(t, float) else short(str(t))) for t in texts)
        )
    return table


def listing(names: Sequence[str], most: int) -> str:
    """The first names, and how many more there are."""
    return ", ".join(names[:most]) + (f" and {len(names) - most:,} more" if len(names) > most else "")
