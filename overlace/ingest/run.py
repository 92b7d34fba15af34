"""Ingest: sources to a trace, every line accounted for.

Two jobs and little between them. The first parses splits of the sources; the driver numbers the names and finds
the keys that lie in several splits. The second puts messages under ids, writes them and sums them up; where only
the reduction is kept and no key can be cut, the first job has done all. Nothing counts before the manifest is
written, so a killed ingest leaves the trace as it was.

Of a source that grew, only the new bytes are read where each line stands alone; where state or keys run
through the file, it is read anew and replaces what it gave before.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from overlace.errors import BadParameter, BadTrace, NotSorted
from overlace.ingest.accounts import Account, account_of, add_joined, judge, write_accounts
from overlace.ingest.bridges import Followed, bridge_notes, follow_bridges, learn_bridges
from overlace.ingest.encode import KINDS, LATER
from overlace.ingest.events import in_one_piece
from overlace.ingest.growth import new_sources, reopen
from overlace.ingest.history import read_life, seen_in, write_history
from overlace.ingest.links import write_links
from overlace.ingest.notes import Note, note_sources, warn_of_bridges, warn_of_namesakes, warn_of_short_lived
from overlace.ingest.options import BUCKETS, KEPT, Options, keep_settings
from overlace.ingest.predicates import warn_of_kept, with_predicates, write_predicates
from overlace.ingest.receivers import content_notes, stage_subscriptions
from overlace.ingest.reduce import Ids
from overlace.ingest.sources import Source, first_and_last, refuse_changed, settle_together
from overlace.ingest.splits import FileSplit, scopes_of, split_tasks
from overlace.ingest.staging import HERE, Answer, Job, Parsed, Read, Runner, answers, by_source, in_process
from overlace.ingest.sums import Summed, Sums, finish_messages, stage_ids, stage_shared, sums_of, write_traffic
from overlace.ingest.tails import Crossed, keys_by_log, refuse_crossed, widen_sources, with_cut, write_keys
from overlace.ingest.tasks import Piece, parse
from overlace.model import Progress
from overlace.trace.names import names_table, number_names
from overlace.trace.store import DAY_US, HOUR_US, MINUTE_US, Trace, absolute
from overlace.trace.writer import Writer, writing


class Ingested(NamedTuple):
    """A trace and how it came about."""

    trace: Trace
    accounts: list[Account]
    known: list[str]  # sources with nothing new, and why
    folded: int  # topic names that folding saved
    notes: list[str]  # what a user should know


def ingest_sources(
    paths: Sequence[str],
    out: str,
    runner: Runner | Callable[[], Runner] = HERE,
    options: Options | None = None,
    progress: Progress | None = None,
    writer: Writer | None = None,
) -> Ingested:
    """Read logs into the trace at `out`, new or existing; a runner that is yet to be made is made if it is needed."""
    chosen = options or Options()
    if writer is None:
        with writing(out, break_lock=chosen.break_lock) as own:
            return ingest_sources(paths, out, runner, chosen, progress, own)
    base = writer.base
    chosen = keep_settings(chosen, base)
    key = chosen.key()
    if base is not None and chosen.bucket and base.rows("traffic") and BUCKETS[chosen.bucket] != base.bucket_us:
        raise BadParameter(f"--bucket {chosen.bucket}: the trace at {out} has other buckets, and they cannot change")
    notes = dict(base.notes) if base else {}
    noted = notes.get("sources", {})
    found = new_sources([absolute(path) for path in paths], chosen, noted)
    sources = settle_together([with_cut(source) for source in found.sources])
    if not sources:
        if base is None:
            raise BadTrace(f"nothing to ingest: {'; '.join(found.known) or 'no file was found'}")
        return Ingested(base, [], found.known, 0, warn_of_kept(base, chosen.attributes))
    runner = runner if isinstance(runner, Runner) else runner()
    while True:
        try:
            done = _Ingest(sources, writer, runner, chosen, key, progress, found.same).run(notes)
        except OSError:
            writer.refuse_if_broken()  # what was staged is gone with the lock
            raise
        except NotSorted:  # the statistics promised more than the rows keep
            sources = [replace(s, options={**s.options, "sorted": False}) for s in sources]
        except Crossed as crossed:
            same = {**reopen(crossed.needs, noted, chosen), **found.same}
            sources = settle_together(widen_sources(sources, crossed.needs, same, noted))
        else:
            return done._replace(known=found.known)
        writer.restart()


class _Ingest:
    """One ingest, from sources to a trace."""

    def __init__(
        self,
        sources: Sequence[Source],
        writer: Writer,
        runner: Runner,
        options: Options,
        key: bytes,
        progress: Progress | None,
        same: Mapping[str, Source],
    ) -> None:
        self.same = same  # sources with nothing new
        self.writer, self.base, self.runner, self.options = writer, writer.base, runner, options
        self.tell = progress or (lambda share, what: None)
        self.scopes = scopes_of(sources)
        identity = options.identity or next((s.form.identity for s in sources if s.form.identity != "client"), "client")
        self.job = Job(
            trace=writer.path,
            staging=writer.staging,
            sources=tuple(sources),
            identity=identity,
            keep_topics=options.keep_topics,
            key=key,
            reduce_only=options.reduce_only,
            id=writer.id,
        )

    def run(self, notes: dict[str, Any]) -> Ingested:
        """All of it; the notes of the trace are added to."""
        noted: dict[str, Note] = notes.get("sources", {})
        if self.options.attributes:
            self.tell(0.02, "choosing attributes")
        self.job = with_predicates(stage_subscriptions(self.job, self.base), self.base, notes, self.options.attributes)
        parsed, several = self._read(noted)
        self.tell(0.5, f"reading: {sum(each.read.lines for each in parsed):,} lines")

        # coarser buckets than those that tasks summed up are made of them
        fine_us = self.job.bucket_us
        self.job = replace(self.job, bucket_us=self._bucket(parsed))
        ratio = 1 if self.job.staged else self.job.bucket_us // fine_us

        self.tell(0.5, "numbering names")
        names = self._number(parsed)
        ids = [_ids_of(each.tables, names) for each in parsed]
        lines = {s.digest: noted[s.digest].get("lines", 0) for s in self.job.sources if s.begin}
        judge(self._accounts(parsed), self.options, lines)
        crossed = follow_bridges(self.job, parsed, names, notes.get("bridges", []))
        sums = self._finish(parsed, ids, several, crossed) if self.job.staged else sums_of(parsed, ids)
        accounts = self._accounts(parsed, sums.parts)
        judge(accounts, self.options, lines)

        self.tell(0.9, "writing")
        unasked = write_predicates(self.writer, self.job, write_traffic(self.writer, self.job, sums, ratio), notes)
        messages, rows = (sum(part.rows for part in self.writer.parts.get(t, ())) for t in ("messages", "traffic"))
        self.tell(0.95, f"writing: {messages:,} messages, {rows:,} rows of traffic")
        write_keys(self.writer, self.job, parsed)
        tails = self._accounts(parsed, sums.parts, tail=True)
        self._write_tables(list(zip(parsed, ids, strict=True)), names, crossed)
        write_accounts(self.writer, self.job.sources, accounts, tails)
        notes["sources"] = {**noted, **note_sources(self.job, parsed, accounts, tails, noted)}
        notes["how"] = {name: getattr(self.options, name) for name in KEPT}
        unit = self.base.unit if self.base else "message"
        told = content_notes(self.job, self.base)  # what is staged goes with the commit
        trace = self.writer.commit(bucket_us=self.job.bucket_us, unit=unit, notes=notes)
        self.tell(1.0, "done")
        folded = sum(each.read.folded for each in parsed)
        warnings = [*bridge_notes(crossed), *warn_of_bridges(trace), *warn_of_short_lived(trace)]
        warnings += [*warn_of_namesakes(trace), *warn_of_kept(self.base, self.options.attributes), *told, *unasked]
        return Ingested(trace, accounts, [], folded, warnings)

    # --- the first job

    def _read(self, noted: Mapping[str, Note]) -> tuple[list[Parsed], set[int]]:
        """(splits, scopes with keys in several of them): all splits read, again where more was learned from them."""
        tasks = split_tasks(self.job.sources, self.runner.parallel)
        cut = {self.scopes[i] for i, source in enumerate(self.job.sources) if source.keyed}
        likely = any(count > 1 for scope, count in self._count_splits(tasks).items() if scope in cut)
        self.job = replace(self.job, bucket_us=self._likely_bucket(), staged=not self.options.reduce_only or likely)
        parsed = self._parse(tasks)
        learned = learn_bridges(self.job, parsed, noted)
        if learned != self.job.sources:
            self.job = replace(self.job, sources=learned)
            parsed = self._parse(tasks)
        for source in self.job.sources:
            refuse_changed(source)
        if self.base:
            refuse_crossed(self.base, self.job.sources, keys_by_log(self.job, parsed), noted, self.same)
        several = self._several(parsed)
        if several and not self.job.staged:  # keys that the first bytes did not show
            self.job = replace(self.job, staged=True)
            parsed = self._parse(tasks)
        return parsed, several

    def _parse(self, tasks: Sequence[Sequence[FileSplit]]) -> list[Parsed]:
        """Run the first job."""
        done = answers(self.runner.run(parse(self.job, tasks), len(tasks), "reading", 0.05, 0.5))
        parsed = [Parsed(Read(**each.about), each) for each in done]
        return sorted(parsed, key=lambda each: (each.read.source, each.read.number))

    def _count_splits(self, tasks: Sequence[Sequence[FileSplit]]) -> Counter[int]:
        """Splits by the scope of their keys, those of sorted tables left out: no key of theirs is cut."""
        splits = [split for task in tasks for split in task]
        return Counter(self.scopes[each.source] for each in splits if not self._is_sorted(each.source))

    def _several(self, parsed: Sequence[Parsed]) -> set[int]:
        """The scopes with keys in several splits, by what was read."""
        reads = [each.read for each in parsed]
        counts = Counter(self.scopes[r.source] for r in reads if r.keyed and not self._is_sorted(r.source))
        return {scope for scope, splits in counts.items() if splits > 1}

    def _is_sorted(self, source: int) -> bool:
        return bool(self.job.sources[source].options.get("sorted"))

    # --- buckets, names, accounts

    def _likely_bucket(self) -> int:
        """The width of buckets where it is known before reading; else the finer, of which coarser ones can be made."""
        if self.base and self.base.rows("traffic"):
            return self.base.bucket_us
        if self.options.bucket:
            return BUCKETS[self.options.bucket]
        ends = [each for each in map(first_and_last, self.job.sources) if each] if self.options.reduce_only else []
        certain = ends and max(last for _, last in ends) - min(first for first, _ in ends) >= DAY_US
        return HOUR_US if certain else MINUTE_US

    def _bucket(self, parsed: Sequence[Parsed]) -> int:
        """An hour; a minute when the log spans less than a day."""
        if (self.base and self.base.rows("traffic")) or self.options.bucket:
            return self.job.bucket_us
        first = min((each.read.first for each in parsed), default=LATER)
        last = max((each.read.last for each in parsed), default=-LATER)
        return HOUR_US if first > last or last - first >= DAY_US else MINUTE_US

    def _number(self, parsed: Sequence[Parsed]) -> dict[str, pa.Array]:
        """Ids for new names: after those that are there, in order of when they first came up, then by name."""
        known = self.base.names if self.base else {}
        names: dict[str, pa.Array] = {}
        for kind in KINDS:
            tables = [each.tables.table(kind) for each in parsed]
            used = [(in_one_piece(table["name"]), table["at"].to_numpy()) for table in tables if table.num_rows]
            before = known.get(kind) or (self.job.predicates if kind == "attribute" else ())
            names[kind] = number_names(before, used, LATER)
            if kind == "attribute" and len(names[kind]) > 63:
                raise BadTrace(f"{len(names[kind])} attributes; a mask holds at most 63. Leave some out with --map.")
        others = {kind: own for kind, own in known.items() if kind not in KINDS}
        self.writer.write("names", names_table({**others, **names}), replace=True)
        return names

    def _accounts(
        self, parsed: Sequence[Parsed], parts: Sequence[Summed] = (), *, tail: bool | None = None
    ) -> list[Account]:
        """What became of the lines of each source, or of those in which messages may go on."""
        extra, orphans, incomplete = Counter[int](), Counter[int](), Counter[int]()
        for part in parts:
            if tail in (None, part.tail):
                extra[part.source] += part.extra
                orphans[part.source] += part.orphans
                incomplete[part.source] += part.incomplete
        chosen = by_source([each for each in parsed if tail in (None, each.read.tail)], len(self.job.sources))
        return [
            add_joined(account_of(source, [each.read for each in own]), extra[i], orphans[i], incomplete[i])
            for i, (source, own) in enumerate(zip(self.job.sources, chosen, strict=True))
        ]

    # --- the second job, and what is written

    def _finish(
        self, parsed: Sequence[Parsed], ids: Sequence[Ids], several: set[int], crossed: Followed | None
    ) -> Sums:
        """Staged messages under ids, written and summed up."""
        reads = [each.read for each in parsed]
        pieces = [Piece(read.name, read.source, self.scopes[read.source], read.tail) for read in reads]
        stage_ids(self.job, pieces, ids)
        shared = stage_shared(self.job, parsed, pieces, several)
        bridged = crossed is not None and crossed.receivers.num_rows > 0
        return finish_messages(self.job, self.runner, pieces, [read.messages for read in reads], bridged, shared)

    def _write_tables(
        self, parsed: Sequence[tuple[Parsed, Ids]], names: Mapping[str, pa.Array], crossed: Followed | None
    ) -> None:
        """Sessions, subscriptions and links: few rows, made on the driver."""
        splits: list[list[tuple[Parsed, Ids]]] = [[] for _ in self.job.sources]
        for split, ids in parsed:
            splits[split.read.source].append((split, ids))
        lives = [read_life(self.job, [split for split, _ in own]) for own in splits]
        write_history(self.writer, self.job, lives, [seen_in(own) for own in splits], names)
        write_links(self.writer, self.job, lives, names, crossed)


def _ids_of(answer: Answer, names: Mapping[str, pa.Array]) -> Ids:
    """The ids of a split's codes, -1 for names that nothing uses; the last place is for none."""
    found = {}
    for kind in KINDS:
        own = in_one_piece(answer.table(kind)["name"])
        to = pc.index_in(own, value_set=names[kind]).fill_null(-1).to_numpy(zero_copy_only=False)
        found[kind] = np.append(to, -1).astype(np.int64)
    return Ids(**found)


__all__ = ["HERE", "Account", "Ingested", "Runner", "in_process", "ingest_sources"]
