"""Tables and topologies on the command line, and how a trace is shown."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from rich.markup import escape

from overlace.cli.console import answer

if TYPE_CHECKING:
    from overlace.ingest.tables import Merged


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


def show_merged(merged: Merged, as_json: bool) -> None:
    """What tables or a topology brought to a trace."""
    trace, counts, notes = merged
    document = {**summary(trace), "merged": {name: each._asdict() for name, each in counts.items()}, "notes": notes}
    lines = [escape(f"{name}: {each}") for name, each in counts.items()]
    answer(as_json, document, *lines, *map(escape, notes), *trace_lines(trace))
