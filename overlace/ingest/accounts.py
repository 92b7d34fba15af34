"""What became of the lines of a source: lines = kept + ignored + quarantined + duplicates."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from typing import NamedTuple, TypedDict

import pyarrow as pa

from overlace.errors import BadTrace
from overlace.ingest.fields import UNIT_WORDS
from overlace.ingest.options import Options
from overlace.ingest.sources import Source, bytes_waiting
from overlace.ingest.staging import Read, label
from overlace.trace.tables import schema_of
from overlace.trace.writer import Writer

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
        return self.lines == self.kept + sum(self.ignored.values()) + self.bad + self.duplicates and self.kept >= 0

    @property
    def bad(self) -> int:
        """Lines in quarantine."""
        return sum(count for count, _ in self.quarantined.values())


def add_joined(account: Account, extra: int, orphans: int, incomplete: int = 0) -> Account:
    """An account with what was only known when all splits were joined."""
    ignored = {**account.ignored, ORPHANS: orphans} if orphans else account.ignored
    bad = {**account.quarantined, INCOMPLETE: (incomplete, "")} if incomplete else account.quarantined
    return account._replace(
        kept=account.kept - extra - orphans - incomplete,
        duplicates=account.duplicates + extra,
        ignored=ignored,
        quarantined=bad,
    )


def judge(accounts: Iterable[Account], options: Options, before: Mapping[str, int] | None = None) -> None:
    """Refuse a log with too many bad lines, before anything counts; `before` are lines that were read of it earlier."""
    for account in accounts:
        lines = account.lines + (before or {}).get(account.digest, 0)
        if not account.adds_up():
            raise BadTrace(f"{account.source}: the lines do not add up: {account}. Please report this.")
        if account.bad and (options.strict or account.bad > options.max_bad * lines):
            reason, (count, sample) = max(account.quarantined.items(), key=lambda item: item[1][0])
            limit = "none is allowed with --strict" if options.strict else f"--max-bad allows {options.max_bad:.1%}"
            about = HINTS.get(reason, f"; for example {sample[:90]!r}.")
            raise BadTrace(
                f"{account.source}: {account.bad:,} of {lines:,} lines cannot be read and {limit}. "
                f"Most often ({count:,}): {reason}{about} Nothing was ingested."
            )


def quarantine_of(account: Account) -> pa.Table:
    """The bad lines of a source by reason."""
    rows = [
        {"source": account.source, "reason": reason, "count": count, "sample": sample}
        for reason, (count, sample) in sorted(account.quarantined.items())
    ]
    return pa.Table.from_pylist(rows, schema_of("quarantine"))


def account_of(source: Source, splits: Sequence[Read]) -> Account:
    """The account of a source, from what became of its splits."""
    ignored: Counter[str] = Counter()
    bad: Counter[str] = Counter()
    kept = 0
    samples: dict[str, tuple[int, str]] = {}
    for reason, at, text in (each for read in splits for each in read.samples):
        if reason not in samples or at < samples[reason][0]:
            samples[reason] = (at, text)
    for kind, reason, rows in (each for read in splits for each in read.counted):
        if kind == "ignored":
            ignored[reason or "other"] += rows
        elif kind == "bad":
            bad[reason] += rows
        else:
            kept += rows
    extra = sum(read.extra for read in splits)
    return Account(
        source.name,
        source.digest,
        source.format,
        lines=sum(read.lines for read in splits),
        kept=kept - extra,
        ignored=dict(ignored),
        quarantined={reason: (rows, samples.get(reason, (0, ""))[1]) for reason, rows in bad.items()},
        duplicates=extra,
        mapping=shown_mapping(source),
        waits=bytes_waiting(source),
    )


def subtract_tail(account: Account, tail: Account) -> Account:
    """An account without the part of it in which messages may go on."""
    ignored = Counter(account.ignored)
    ignored.subtract(tail.ignored)
    bad = {
        reason: (count - tail.quarantined.get(reason, (0, ""))[0], sample)
        for reason, (count, sample) in account.quarantined.items()
    }
    return account._replace(
        lines=account.lines - tail.lines,
        kept=account.kept - tail.kept,
        ignored=dict(+ignored),
        quarantined={reason: each for reason, each in bad.items() if each[0]},
        duplicates=account.duplicates - tail.duplicates,
    )


class Counts(TypedDict, total=False):
    """An account as numbers, as the notes of a trace keep it."""

    lines: int
    kept: int
    quarantined: int
    duplicates: int
    ignored: dict[str, int]


def add_counts(account: Account, known: Counts) -> Counts:
    """An account added to what is known of the source up to there."""
    ignored = Counter(account.ignored)
    ignored.update(known.get("ignored", {}))
    return {
        "lines": account.lines + known.get("lines", 0),
        "kept": account.kept + known.get("kept", 0),
        "quarantined": account.bad + known.get("quarantined", 0),
        "duplicates": account.duplicates + known.get("duplicates", 0),
        "ignored": dict(sorted(ignored.items())),
    }


def sources_table(
    accounts: Sequence[Account], sources: Sequence[Source], before: pa.Table | None, bodies: Mapping[str, Counts]
) -> pa.Table:
    """The table of sources, these among those that are there; what was read of one before adds up.

    Of a source with a body only that counts of what was read before: the rest was read again.
    """
    kept = {row["digest"]: row for row in (before.to_pylist() if before else [])}
    for account, source in zip(accounts, sources, strict=True):
        row = {
            "digest": account.digest,
            "name": account.source,
            "format": account.format,
            "lines": account.lines,
            "kept": account.kept,
            "ignored": sum(account.ignored.values()),
            "quarantined": account.bad,
            "duplicates": account.duplicates,
        }
        if source.begin and account.digest in kept:
            known = dict(kept[account.digest])
            if account.digest in bodies:
                body = bodies[account.digest]
                known |= {**body, "ignored": sum(body["ignored"].values())}
            row = {name: value + known[name] if isinstance(value, int) else value for name, value in row.items()}
        kept[account.digest] = row
    return pa.Table.from_pylist(list(kept.values()), schema_of("sources"))


def write_accounts(
    writer: Writer, sources: Sequence[Source], accounts: Sequence[Account], tails: Sequence[Account]
) -> None:
    """Write the bad lines of each source and the table of sources; `tails` are of what may go on."""
    rows = []
    for source, account, tail in zip(sources, accounts, tails, strict=True):
        writer.drop("quarantine", label(source.digest, True))
        if not source.begin:
            writer.drop("quarantine", source.digest)
        rows.append((source.digest, quarantine_of(subtract_tail(account, tail))))
        rows.append((label(source.digest, True), quarantine_of(tail)))
    writer.write_by_source("quarantine", rows)
    base = writer.base
    noted = base.notes.get("sources", {}) if base else {}
    bodies = {digest: note["body"] for digest, note in noted.items() if "body" in note}
    table = sources_table(accounts, sources, base.read("sources") if base else None, bodies)
    writer.write("sources", table, replace=True)


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
