"""Tables and topologies on the command line, and how a trace is shown."""

from __future__ import annotations

from typing import Any

from rich.markup import escape

from overlace.cli.console import answer
from overlace.errors import BadParameter
from overlace.ingest.options import Options, TableOptions


def summary(trace: Any) -> dict[str, Any]:
    """A trace as JSON."""
    rows = {table: trace.rows(table) for table in trace.parts}
    return {"trace": trace.path, "digest": trace.digest(), "bucket_us": trace.bucket_us, "rows": rows}


def trace_lines(trace: Any) -> list[str]:
    """A trace for people."""
    traffic = trace.rows("traffic")
    messages = trace.rows("messages") or int(trace.read("traffic", ["messages"])["messages"].to_numpy().sum())
    lines = [escape(f"trace    {trace.path}  digest {trace.digest()}")]
    counted = ", ".join(f"{trace.count(kind):,} {kind}s" for kind in ("client", "topic", "broker") if trace.count(kind))
    lines.append(f"{messages:,} messages; {counted}")
    if messages and traffic:
        ratio = messages / traffic
        lines.append(
            f"stored as {traffic:,} sums of messages that are alike ({ratio:.1f} messages each), with "
            f"{trace.rows('audiences'):,} sets of receivers"
            + ("" if ratio >= 2 else " [yellow](hardly fewer than the messages: few are alike)[/yellow]")
        )
    return lines


def ingest_tables(logs: list[str], out: str, options: Options, tables: TableOptions, as_json: bool) -> None:
    """Plain tables, or the topology where no table is named, merged into a trace."""
    from overlace.ingest.tables import add_tables, add_topology
    from overlace.ingest.wiring import ALL, MST, Wanted

    if options.where or options.deliveries_where:
        raise BadParameter("--where and --deliveries-where are for logs, not for tables and topologies. Leave it out.")
    notes: list[str] = []
    columns = {name: each[-1] for name, each in options.map.items()}
    how = {"map": columns, "delimiter": options.delimiter, "header": options.header}
    table, wired, unit = tables.table, tables.wired, tables.cost_unit
    lock, hidden = options.break_lock, options.pseudonymise
    if table:
        trace, counts = add_tables(
            logs,
            table,
            out,
            how,
            both_ways=tables.both_ways,
            cost_unit=unit,
            pseudonymise=hidden,
            break_lock=lock,
            tell=notes.append,
        )
        merged = {table: counts}
    else:
        if wired in (None, MST, ALL) and any(value not in (None, {}) for value in how.values()):
            raise BadParameter("--map, --delimiter and --header work on tables, not on topologies. Leave them out.")
        wanted = Wanted(wired, how) if wired else None
        trace, merged, notes = add_topology(
            logs, out, wired=wanted, cost_unit=unit, pseudonymise=hidden, break_lock=lock
        )
    document = {**summary(trace), "merged": {name: each._asdict() for name, each in merged.items()}, "notes": notes}
    lines = [escape(f"{name}: {each}") for name, each in merged.items()]
    answer(as_json, document, *lines, *map(escape, notes), *trace_lines(trace))
