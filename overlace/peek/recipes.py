"""Ways to ingest files: the command to type, and what it does, tried out without Spark in a folder of its own."""

from __future__ import annotations

import shlex
import tempfile
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from math import ceil
from pathlib import Path
from typing import NamedTuple

from overlace.ingest.options import Options, flag_of
from overlace.ingest.run import ingest_sources
from overlace.ingest.tables import add_tables, add_topology
from overlace.ingest.wiring import Wanted

OUT = "trace"
"""The trace that printed commands make."""

MAX_BAD = 10
"""Percent of a file's lines that may be bad, unless the command line says otherwise."""


class Outcome(NamedTuple):
    """What an ingest counts: lines of a log by what became of them, or rows of tables."""

    lines: int = 0
    messages: int = 0
    ignored: Mapping[str, int] = {}
    bad: Mapping[str, int] = {}
    duplicates: int = 0
    rows: Mapping[str, int] = {}  # new rows by table
    notes: Sequence[str] = ()
    worst: float = 0.0  # the largest share of bad lines that a file has

    @property
    def kept(self) -> int:
        """Lines of which something was kept."""
        return self.lines - sum(self.ignored.values()) - sum(self.bad.values()) - self.duplicates

    def max_bad(self) -> int:
        """Percent of bad lines that must be allowed."""
        return max(MAX_BAD, ceil(self.worst * 100))


@dataclass(frozen=True)
class Recipe:
    """A recipe to ingest files: as logs, as a table or as a topology."""

    files: tuple[str, ...]
    options: Options = field(default_factory=Options)
    table: str = ""
    topology: bool = False
    wired: str = ""
    max_bad: int = MAX_BAD  # percent

    @property
    def makes(self) -> str:
        """What the files are taken for."""
        return f"table {self.table}" if self.table else "topology" if self.topology else "log"

    def words(self) -> list[str]:
        """The command, word by word."""
        chosen = self.options
        words = ["overlace", "ingest", *(f"./{name}" if name.startswith("-") else name for name in self.files)]
        words += ["--format", chosen.format] if chosen.format else []
        words += ["--table", self.table] if self.table else []
        words += ["--topology"] if self.topology else []
        words += ["--wired", self.wired] if self.wired else []
        for name, columns in chosen.map.items():
            for column in [columns] if isinstance(columns, str) else columns:
                words += ["--map", f"{name}={column}"]
        for name in chosen.content:
            words += ["--content", name]
        for name in ("delimiter", "list_separator", "unit", "broker"):
            value = getattr(chosen, name)
            words += [flag_of(name), value] if value else []
        if chosen.header is not None:
            words.append("--header" if chosen.header else "--no-header")
        for pattern in chosen.skip:
            words += ["--skip", pattern]
        words += ["--max-bad", f"{self.max_bad}%"] if self.max_bad != MAX_BAD else []
        return [*words, "--out", OUT]

    def command(self) -> str:
        """The command as it can be pasted into a shell."""
        return shlex.join(self.words())

    def try_out(self) -> Outcome:
        """What the command would count; raises what it would raise."""
        with tempfile.TemporaryDirectory(prefix="overlace-peek-") as folder:
            return self.run(str(Path(folder) / OUT))

    def run(self, out: str) -> Outcome:
        """Ingest in this process."""
        how: dict[str, object] = {
            "map": {name: each if isinstance(each, str) else each[-1] for name, each in self.options.map.items()},
            "delimiter": self.options.delimiter,
            "header": self.options.header,
        }
        if self.table:
            _, counts = add_tables(self.files, self.table, out, how)
            return Outcome(rows={self.table: counts.new})
        if self.topology:
            wanted = Wanted(self.wired, how) if self.wired else None
            trace, merged, notes = add_topology(self.files, out, wired=wanted)
            wired = sum(trace.read("links", ["wired"])["wired"].to_pylist())
            return Outcome(rows={name: each.new for name, each in merged.items()} | {"wired links": wired}, notes=notes)
        done = ingest_sources(self.files, out, options=self.options)
        ignored: Counter[str] = Counter()
        bad: Counter[str] = Counter()
        for account in done.accounts:
            ignored.update(account.ignored)
            bad.update({reason: count for reason, (count, _) in account.quarantined.items()})
        messages = done.trace.rows("messages")
        if not messages:
            messages = int(done.trace.read("traffic", ["messages"])["messages"].to_numpy().sum())
        return Outcome(
            sum(account.lines for account in done.accounts),
            messages,
            dict(ignored),
            dict(bad),
            duplicates=sum(account.duplicates for account in done.accounts),
            notes=[*done.known, *done.notes],
            worst=max((account.bad / account.lines for account in done.accounts if account.lines), default=0.0),
        )
