"""What became of the lines of a source: lines = kept + ignored + quarantined + duplicates."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, NamedTuple

import pyarrow as pa

from overlace.errors import BadTrace
from overlace.ingest.options import Options
from overlace.ingest.sources import Source, shown_mapping, waiting
from overlace.trace.tables import schema_of

ORPHANS = "delivery of a message that no log publishes"


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


def with_joined(account: Account, extra: int, orphans: int) -> Account:
    """An account with what was only known when all splits were joined."""
    ignored = {**account.ignored, ORPHANS: orphans} if orphans else account.ignored
    return account._replace(kept=account.kept - extra - orphans, duplicates=account.duplicates + extra, ignored=ignored)


def judge(accounts: Iterable[Account], options: Options, before: Mapping[str, int] | None = None) -> None:
    """Refuse a log with too many bad lines, before anything counts; `before` are lines that were read of it earlier."""
    for account in accounts:
        lines = account.lines + (before or {}).get(account.digest, 0)
        if not account.adds_up():
            raise BadTrace(f"{account.source}: the lines do not add up: {account}. Please report this.")
        if account.bad and (options.strict or account.bad > options.max_bad * lines):
            reason, (count, sample) = max(account.quarantined.items(), key=lambda item: item[1][0])
            limit = "none is allowed with --strict" if options.strict else f"--max-bad allows {options.max_bad:.1%}"
            raise BadTrace(
                f"{account.source}: {account.bad:,} of {lines:,} lines cannot be read and {limit}. "
                f"Most often ({count:,}): {reason}; for example {sample[:90]!r}. Nothing was ingested."
            )


def quarantine_of(account: Account) -> pa.Table:
    """The bad lines of a source by reason."""
    rows = [
        {"source": account.source, "reason": reason, "count": count, "sample": sample}
        for reason, (count, sample) in sorted(account.quarantined.items())
    ]
    return pa.Table.from_pylist(rows, schema_of("quarantine"))


def account_of(source: Source, told: Sequence[Mapping[str, Any]]) -> Account:
    """The account of a source, from what its splits told."""
    ignored: Counter[str] = Counter()
    bad: Counter[str] = Counter()
    kept = 0
    samples: dict[str, tuple[int, str]] = {}
    for reason, at, text in (each for about in told for each in about["samples"]):
        if reason not in samples or at < samples[reason][0]:
            samples[reason] = (at, text)
    for kind, reason, rows in (each for about in told for each in about["counted"]):
        if kind == "ignored":
            ignored[reason or "other"] += rows
        elif kind == "bad":
            bad[reason] += rows
        else:
            kept += rows
    lines, extra = (sum(about[name] for about in told) for name in ("lines", "extra"))
    quarantined = {reason: (rows, samples.get(reason, (0, ""))[1]) for reason, rows in bad.items()}
    head = (source.name, source.digest, source.format, lines)
    return Account(*head, kept - extra, dict(ignored), quarantined, extra, shown_mapping(source), waiting(source))


def less(account: Account, tail: Account) -> Account:
    """An account without the part of it in which messages may go on."""
    ignored = Counter(account.ignored)
    ignored.subtract(tail.ignored)
    bad = {
        reason: (count - tail.quarantined.get(reason, (0, ""))[0], sample)
        for reason, (count, sample) in account.quarantined.items()
    }
    return account._replace(
        lines=account.lines - tail.lines, kept=account.kept - tail.kept, ignored=dict(+ignored),
        quarantined={reason: each for reason, each in bad.items() if each[0]},
        duplicates=account.duplicates - tail.duplicates,
    )  # fmt: skip


def body_of(account: Account, known: Mapping[str, Any]) -> dict[str, Any]:
    """An account added to what is known of the source up to there."""
    body = known.get("body", {})
    ignored = Counter(account.ignored)
    ignored.update(body.get("ignored", {}))
    counts = {
        "lines": account.lines,
        "kept": account.kept,
        "quarantined": account.bad,
        "duplicates": account.duplicates,
    }
    counts = {name: count + body.get(name, 0) for name, count in counts.items()}
    return {**counts, "ignored": dict(sorted(ignored.items()))}


def sources_table(
    accounts: Sequence[Account], sources: Sequence[Source], before: pa.Table | None, noted: Mapping[str, Any]
) -> pa.Table:
    """The table of sources, these among those that are there; what was read of one before adds up."""
    kept = {row["digest"]: row for row in (before.to_pylist() if before else [])}
    for account, source in zip(accounts, sources, strict=True):
        row = {"digest": account.digest, "name": account.source, "format": account.format, "lines": account.lines,
               "kept": account.kept, "ignored": sum(account.ignored.values()), "quarantined": account.bad,
               "duplicates": account.duplicates}  # fmt: skip
        if source.begin and account.digest in kept:
            known = dict(kept[account.digest])
            if "body" in noted.get(account.digest, {}):  # the rest was read again
                body = noted[account.digest]["body"]
                known |= {**body, "ignored": sum(body["ignored"].values())}
            row = {k: (v + known[k] if isinstance(v, int) else v) for k, v in row.items()}
        kept[account.digest] = row
    return pa.Table.from_pylist(list(kept.values()), schema_of("sources"))
