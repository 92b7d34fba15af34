"""What became of the lines of a source: lines = kept + ignored + quarantined + duplicates."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from itertools import chain
from typing import Any, NamedTuple, cast

import pyarrow as pa

from overlace.errors import Absent, BadTrace
from overlace.ingest.fields import UNIT_WORDS
from overlace.ingest.job import id_of
from overlace.ingest.options import Options
from overlace.ingest.sources import Source, bytes_waiting, hide
from overlace.ingest.where import LEFT_OUT, filter_columns, filters_of, unseen_values
from overlace.trace.notes import OF_THE_LOG, LineCounts, Note, ReadSettings
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


class SourceAccount(NamedTuple):
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

    def add(self, other: Mapping[str, Any]) -> SourceAccount:
        """This account with what the trace had of the source before."""
        ignored = Counter(self.ignored) + Counter(other["ignored"])
        bad = dict(other["quarantined"])
        for name, (count, sample) in self.quarantined.items():
            before = bad.get(name, (0, sample))
            bad[name] = (before[0] + count, before[1] or sample)
        sums = {name: getattr(self, name) + other[name] for name in ("lines", "kept", "duplicates")}
        return self._replace(ignored=dict(sorted(ignored.items())), quarantined=dict(sorted(bad.items())), **sums)

    def without_pending(self, orphans: int, incomplete: int) -> SourceAccount:
        """The account where so many of the lines that it has as kept are of messages that are not whole yet."""
        ignored = {**self.ignored, ORPHANS: orphans} if orphans else self.ignored
        bad = {**self.quarantined, INCOMPLETE: (incomplete, "")} if incomplete else self.quarantined
        return self._replace(kept=self.kept - orphans - incomplete, ignored=ignored, quarantined=bad)


class Book:
    """The accounts of the sources of an ingest, and the notes that the trace has of its sources.

    `counted` is what their splits have counted (`stages.accounts_of`). A log with too many bad lines is refused.
    """

    def __init__(
        self,
        sources: Sequence[Source],
        noted: dict[str, Note],
        options: Options,
        counted: Iterable[Mapping[str, Any]],
    ) -> None:
        self.sources, self.noted, self.options = sources, noted, options
        self.rows: dict[int, list[Mapping[str, Any]]] = {id_of(source.digest): [] for source in sources}
        for row in sorted(counted, key=lambda row: (row["what"], row["reason"] or "")):  # engines have no order
            self.rows[row["source"]].append(row)
        self.accounts = {s.digest: account_of(s, self.rows[id_of(s.digest)], bytes_waiting(s)) for s in sources}
        self.before = {s.digest: noted[s.digest]["account"]["lines"] for s in sources if s.begin}
        judge(self.accounts.values(), options, self.before)
        if not self.before and not any(account.kept for account in self.accounts.values()):
            refuse_empty(self.accounts, sources)

    def total(self, what: str) -> int:
        """The sum of what was counted under a word over all sources."""
        return sum(row["rows"] for own in self.rows.values() for row in own if row["what"] == what)

    @property
    def spans(self) -> dict[int, tuple[int, int]]:
        """First and last time of each source that has any."""
        return {n: (row["first"], row["last"]) for n, own in self.rows.items() for row in own if row["what"] == "span"}

    def close(
        self,
        repeats: Mapping[int, int],
        pending: Mapping[tuple[int, bool], int],
        bridges: Mapping[int, set[str]],
    ) -> list[SourceAccount]:
        """The accounts with what only shows when all is joined; the notes of all sources follow."""
        for digest, account in self.accounts.items():
            if rows := repeats.get(id_of(digest)):
                self.accounts[digest] = account._replace(kept=account.kept - rows, duplicates=rows)
        waiting = {}
        for digest in (*self.noted, *self.accounts):
            number = id_of(digest)
            waiting[digest] = pending.get((number, False), 0), pending.get((number, True), 0)
            if digest not in self.accounts and (rows := repeats.get(number)):
                old = self.noted[digest]["account"]  # rows of an earlier ingest that were not joined then
                old["kept"], old["duplicates"] = old["kept"] - rows, old["duplicates"] + rows
        final = {digest: account.without_pending(*waiting[digest]) for digest, account in self.accounts.items()}
        judge(final.values(), self.options, self.before)
        kept = not self.options.reduce_only
        for source in self.sources:
            account = (self.accounts if kept else final)[source.digest]
            self.noted[source.digest] = self._note(source, account, bridges.get(id_of(source.digest), set()))
        for digest, note in self.noted.items():
            note["pending"] = waiting[digest] if kept else (0, 0)
        return list(final.values())

    def _note(self, source: Source, account: SourceAccount, bridges: set[str]) -> Note:
        before = self.noted[source.digest] if source.begin else None
        total = account.add(before["account"]) if before else account
        end, tail, is_open = source.size, source.tail, source.open
        for row in self.rows[id_of(source.digest)]:
            if row["what"] == "end":  # of what is packed only reading shows it
                end, tail, is_open = source.begin + row["rows"], row["reason"], row["sample"] == "open"
        kept = {*ReadSettings.__annotations__} - {*(OF_THE_LOG if source.key else ())}
        named = {*bridges, *(before["bridges"] if before else ())}
        note: Note = {
            "name": source.label,
            "format": source.format,
            "settled": cast(ReadSettings, {name: value for name, value in source.options.items() if name in kept}),
            "broker": hide(source.options.get("broker") or "", source.key),
            "log": source.log,
            "start": source.start,
            "marks": dict(source.marks),
            "end": end,
            "tail": tail,
            "disk": source.disk,
            "open": is_open,
            "bridges": [""] * bool(named) if source.key else sorted(named),
            "account": cast(LineCounts, {name: getattr(total, name) for name in NUMBERS}),
            "pending": (0, 0),
        }
        spans = [self.spans[id_of(source.digest)]] if id_of(source.digest) in self.spans else []
        spans += [(before["first"], before["last"])] if before and "first" in before else []
        if spans:
            note |= {"first": min(first for first, _ in spans), "last": max(last for _, last in spans)}
        return note


def account_of(source: Source, rows: Sequence[Mapping[str, Any]], waits: int) -> SourceAccount:
    """The account of a source from what its splits have counted."""
    ignored = {row["reason"]: row["rows"] for row in rows if row["what"] == "ignored"}
    bad = {row["reason"]: (row["rows"], row["sample"] or "") for row in rows if row["what"] == "bad"}
    kept, lines = (sum(row["rows"] for row in rows if row["what"] == what) for what in ("kept", "lines"))
    account = SourceAccount(
        source.name, source.digest, source.format, lines, kept, ignored, bad, 0, shown_mapping(source), waits
    )
    if not account.adds_up():
        raise BadTrace(f"{source.name}: the lines do not add up: {account}. Please report this.")
    return account


def judge(accounts: Iterable[SourceAccount], options: Options, before: Mapping[str, int]) -> None:
    """Refuse a log with too many bad lines, before anything counts; `before` are lines that were read of it earlier."""
    for account in accounts:
        lines = account.lines + before.get(account.digest, 0)
        nothing = account.format == "parquet" and account.bad == lines  # most often another column was meant
        if account.bad and (options.strict or nothing or account.bad > options.max_bad * lines):
            reason, (count, sample) = max(account.quarantined.items(), key=lambda item: item[1][0])
            limit = (
                f"--max-bad allows {options.max_bad:.1%}"
                if account.bad > options.max_bad * lines
                else "so nothing is left"
            )
            limit = "none is allowed with --strict" if options.strict else limit
            about = HINTS.get(reason, f"; for example {sample[:90]!r}.")
            raise BadTrace(
                f"{account.source}: {account.bad:,} of {lines:,} lines cannot be read and {limit}. "
                f"Most often ({count:,}): {reason}{about} Nothing was ingested."
            )


def refuse_empty(accounts: Mapping[str, SourceAccount], sources: Sequence[Source]) -> None:
    """Refuse logs of which filters leave no row."""
    for source in sources:
        account = accounts[source.digest]
        reasons = {reason: count for reason, count in account.ignored.items() if reason.startswith(LEFT_OUT)}
        if reasons:
            reason, count = max(reasons.items(), key=lambda item: item[1])
            raise Absent(
                f"{account.source}: no row is kept: {count:,} of {account.lines:,} lines are {reason}, so nothing was "
                f"ingested: {unseen_values(source.options) or '`overlace peek` shows rows as they are.'}"
            )


def notes_on_rows(source: Source, lines: int, duplicates: int) -> list[str]:
    """What a user should know of how rows were taken: several kinds as one, messages of one second as one."""
    settled = source.options
    notes = [f"{source.label}: every row is taken as a message, but {own}"] if (own := settled.get("question")) else []
    if duplicates * 100 >= lines and duplicates and settled.get("whole_seconds") and settled.get("group"):
        notes.append(
            f"{source.label}: {duplicates:,} of {lines:,} rows are dropped as duplicates: they agree in "
            f"{', '.join(settled['group'])}, and times are whole seconds. If they are messages of their own, name a "
            "column that tells them apart (--map key=COLUMN), or all that makes rows one message (--group FIELDS)."
        )
    return notes


def sources_table(notes: Mapping[str, Any]) -> tuple[pa.Table, pa.Table]:
    """The tables of sources and of the quarantine."""
    sources, bad = [], []
    for digest, note in notes.items():
        counted = {name: note["account"][name] for name in NUMBERS}
        account = SourceAccount(note["name"], digest, note["format"], **counted).without_pending(*note["pending"])
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
    own, others = source.options.get("where"), source.options.get("deliveries_where")
    for what, words in (("messages", own), ("deliveries", others)):
        if words:
            lines.append(f"rows that are {what}: {' and '.join(map(str, filters_of(words)))}")
    used = [f"{name}." for name in (*chain.from_iterable(mapping.values()), *filter_columns(source.options))]
    unused = [each for each in source.options.get("unused") or () if not any(n.startswith(f"{each}.") for n in used)]
    if unused:
        lines.append(f"not used: {', '.join(unused)}")
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
