"""A way to ingest files, tried on what was read of them, and the command for it."""

from __future__ import annotations

import shlex
import tempfile
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from overlace.errors import BadTrace
from overlace.ingest.accounts import notes_on_rows
from overlace.ingest.options import Options, flag_of
from overlace.ingest.tables import add_tables, add_topology
from overlace.ingest.wiring import WiringRequest
from overlace.peek.columns import Guess
from overlace.peek.logs import LogSample, count_logs, find_fault

OUT = "trace"
"""The trace in printed commands."""


class Unfit(BadTrace):
    """A way to ingest files that does not read them well."""


@dataclass(frozen=True)
class Recipe:
    """A way to ingest files, as logs, as a table or as a topology, and what it rests on."""

    files: tuple[str, ...]
    options: Options = field(default_factory=Options)
    table: str = ""
    topology: bool = False
    wired: str = ""
    why: str = ""
    columns: Sequence[Guess] = ()
    counts: Mapping[str, Any] | None = None  # none: the files are too large to be counted
    samples: Sequence[LogSample] = ()  # of logs

    @property
    def makes(self) -> str:
        """What the files are taken for."""
        return f"table {self.table}" if self.table else "topology" if self.topology else "log"

    def command(self) -> str:
        """The command as it can be pasted into a shell."""
        chosen = self.options
        flags = [("--format", chosen.format), ("--table", self.table), ("--wired", self.wired)]
        flags += [(flag_of(name), getattr(chosen, name)) for name in ("delimiter", "list_separator", "unit")]
        flags += [("--map", f"{field}={name}") for field, names in listed(chosen).items() for name in names]
        flags += [(flag_of("group"), ",".join(chosen.group))]
        several = ("where", "deliveries_where", "skip")
        flags += [(flag_of(name), each) for name in several for each in getattr(chosen, name)]
        words = ["overlace", "ingest", *(f"./{name}" if name.startswith("-") else name for name in self.files)]
        words += ["--topology"] if self.topology else []
        words += [] if chosen.header is None else ["--header" if chosen.header else "--no-header"]
        words += [word for flag, value in flags if value for word in (flag, value)]
        return shlex.join([*words, "--out", OUT])

    def of_logs(
        self, logs: Sequence[LogSample], notes: Sequence[str] = (), *, asked: Options, whole: bool, alone: bool
    ) -> Recipe:
        """The same with what the logs count, if they are whole; refused if it does not read them well."""
        counts, worst = count_logs(logs)
        if fault := find_fault(logs, counts, worst, asked, whole, alone):
            raise Unfit(fault)
        own = [note for log in logs for note in notes_on_rows(log.source, counts["lines"], counts["duplicates"])]
        return replace(self, counts={**counts, "notes": [*notes, *own]} if whole else None, samples=logs)

    def of_table(self) -> Recipe:
        """The same with the rows that a table or a topology makes, by the readers of these; raises what they raise."""
        names = {field: names[-1] for field, names in listed(self.options).items()}
        how = {"map": names, "delimiter": self.options.delimiter, "header": self.options.header}
        with tempfile.TemporaryDirectory(prefix="overlace-peek-") as folder:
            out = str(Path(folder) / OUT)
            if self.table:
                _, counts = add_tables(self.files, self.table, out, how)
                if not counts.new:
                    raise BadTrace("read as a table, it has no rows.")
                return replace(self, counts={"rows": {self.table: counts.new}, "notes": []})
            trace, merged, notes = add_topology(
                self.files, out, wired=WiringRequest(self.wired, how) if self.wired else None
            )
            wired = sum(trace.read("links", ["wired"])["wired"].to_pylist())
        rows = {name: each.new for name, each in merged.items()} | {"wired links": wired}
        if rows.get("links") and not wired and not self.wired:
            return replace(self, wired="mst").of_table()
        return replace(self, counts={"rows": rows, "notes": notes})


def listed(options: Options) -> dict[str, Sequence[str]]:
    """The columns that each field was mapped to."""
    return {field: [names] if isinstance(names, str) else names for field, names in options.map.items()}
