"""What became of the lines of a source: lines = kept + ignored + quarantined + duplicates."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any, NamedTuple

import pyarrow as pa

from overlace.errors import BadTrace
from overlace.ingest.fields import UNIT_WORDS
from overlace.ingest.options import Options
from overlace.ingest.sources import Source
from overlace.trace.tables import schema_of

NUMBERS = ("lines", "kept", "duplicates", "ignored", "quarantined")
"""What the notes of a trace have of an account."""

ORPHANS = "delivery of a message that no log publishes"
INCOMPLETE = "incomplete trace"
HINTS = {
    INCOMPLETE: ", of which events are missing or too many. Name the events of all servers together, and where all "
    "messages have one destination, a header that tells them apart (--map id=HEADER); --max-bad 100% does without them."
}
"""What to do about a reason, where no line is an example."""


class Account(NamedTuple):
    """What became of the lines of one source."""

    source: str
    digest: str
    format: str
    lines: int
    kept: int
    ignored: Mapping[str, int]
    quarantined: Mapping[str, tuple[int, str]]  # by reason: how many, and a sample
    duplicates: int
    mapping: Sequence[str] = ()  # what was settled for the source, for people
    waits: int = 0  # bytes of a last line that is not finished: it is no line yet

    def adds_up(self) -> bool:
        """lines = kept + ignored + quarantined + duplicates."""
        return self.lines == self.kept + sum(self.ignored.values()) + self.bad + self.duplicates

    @property
    def bad(self) -> int:
        """Lines in quarantine."""
        return sum(count for count, _ in self.quarantined.values())

    def add(self, other: Mapping[str, Any]) -> Account:
        """This account with what the trace had of the source before."""
        ignored = {name: self.ignored.get(name, 0) for name in {*self.ignored, *other["ignored"]}}
        ignored = {name: count + other["ignored"].get(name, 0) for name, count in sorted(ignored.items())}
        bad = {name: (count, sample) for name, (count, sample) in other["quarantined"].items()}
        for name, (count, sample) in self.quarantined.items():
            before = bad.get(name, (0, sample))
            bad[name] = (before[0] + count, before[1] or sample)
        sums = {name: getattr(self, name) + other[name] for name in ("lines", "kept", "duplicates")}
        return self._replace(ignored=ignored, quarantined=dict(sorted(bad.items())), **sums)

    def numbers(self) -> dict[str, Any]:
        """As the notes of a trace keep it."""
        return {name: getattr(self, name) for name in NUMBERS}

    def without_pending(self, orphans: int, incomplete: int) -> Account:
        """The account where so many of the lines that it has as kept are of messages that are not whole yet."""
        ignored = {**self.ignored, ORPHANS: orphans} if orphans else self.ignored
        bad = {**self.quarantined, INCOMPLETE: (incomplete, "")} if incomplete else self.quarantined
        return self._replace(kept=self.kept - orphans - incomplete, ignored=ignored, quarantined=bad)


def account_of(source: Source, rows: Sequence[Mapping[str, Any]], waits: int) -> Account:
    """The account of a source from what its splits have counted."""
    ignored = {row["reason"]: row["rows"] for row in rows if row["what"] == "ignored"}
    bad = {row["reason"]: (row["rows"], row["sample"] or "") for row in rows if row["what"] == "bad"}
    kept, lines = (sum(row["rows"] for row in rows if row["what"] == what) for what in ("kept", "lines"))
    account = Account(
        source.name, source.digest, source.format, lines, kept, ignored, bad, 0, shown_mapping(source), waits
    )
    if not account.adds_up():
        raise BadTrace(f"{source.name}: the lines do not add up: {account}. Please report this.")
    return account


def judge(accounts: Iterable[Account], options: Options, before: Mapping[str, int]) -> None:
    """Refuse a log with too many bad lines, before anything counts; `before` are lines that were read of it earlier."""
    for account in accounts:
        lines = account.lines + before.get(account.digest, 0)
        nothing = account.format == "parquet" and account.bad == lines  # most often another column was meant
        if account.bad and (options.strict or nothing or account.bad > options.max_bad * lines):
            reason, (count, sample) = max(account.quarantined.items(), key=lambda item: item[1][0])
            limit = "none is allowed with --strict" if options.strict else f"--max-bad allows {options.max_bad:.1%}"
            about = HINTS.get(reason, f"; for example {sample[:90]!r}.")
            raise BadTrace(
                f"{account.source}: {account.bad:,} of {lines:,} lines cannot be read and {limit}. "
                f"Most often ({count:,}): {reason}{about} Nothing was ingested."
            )


def sources_table(notes: Mapping[str, Any]) -> tuple[pa.Table, pa.Table]:
    """The tables of sources and of the quarantine."""
    sources, bad = [], []
    for digest, note in notes.items():
        counted = {name: note["account"][name] for name in NUMBERS}
        account = Account(note["name"], digest, note["format"], **counted).without_pending(*note["pending"])
        counts = {"lines": account.lines, "kept": account.kept, "duplicates": account.duplicates}
        counts |= {"ignored": sum(account.ignored.values()), "quarantined": account.bad}
        sources.append({"digest": digest, "name": account.source, "format": account.format, **counts})
        bad += [
            {"source": account.source, "reason": reason, "count": count, "sample": sample}
            for reason, (count, sample) in account.quarantined.items()
        ]
    tables = ("sources", sources), ("quarantine", bad)
    first, second = (pa.Table.from_pylist(rows, schema_of(name)) for name, rows in tables)
    return first, second


def shown_mapping(source: Source) -> list[str]:
    """What was settled for a source, for people."""
    mapping, lines = source.options.get("mapping"), []
    if mapping is None:
        return []
    lines.append("; ".join(f"{field} from {', else '.join(names)}" for field, names in mapping.items()))
    if source.options.get("types"):
        listed = ", ".join(f"{name} ({kind})" for name, kind in source.options["types"].items())
        lines.append(f"content: {listed}")
    if source.options.get("unused"):
        lines.append(f"not used: {', '.join(source.options['unused'])}")
    unit = source.options.get("unit")
    if unit:
        lines.append(f"times that are numbers are {UNIT_WORDS[unit]} since 1970 (--time-unit)")
    if source.options.get("zoneless"):
        lines.append("times without a zone are taken as UTC")
    group = source.options.get("group")
    if group and source.format != "counts":
        lines.append(f"rows that agree in {', '.join(group)} are one message (--group)")
    elif "key" in mapping:
        lines.append(f"rows that agree in {', else '.join(mapping['key'])} are one message")
    return lines
