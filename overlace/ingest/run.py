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
import pyarrow.fs as pafs

from overlace.arrays.jit import Ints
from overlace.errors import BadParameter, BadTrace, NotSorted
from overlace.ingest.accounts import (
    Account,
    account_of,
    body_of,
    judge,
    less,
    quarantine_of,
    sources_table,
    with_joined,
)
from overlace.ingest.bridges import Followed, bridge_lines, bridge_notes, follow
from overlace.ingest.coded import flat
from overlace.ingest.encode import KINDS, LATER
from overlace.ingest.events import PLAIN
from overlace.ingest.growth import new_sources
from overlace.ingest.history import doubles_of, seen_before, sessions_of, subscriptions_of
from overlace.ingest.keys import keys_table
from overlace.ingest.links import BRIDGES, Wired, first_told, links_of, links_told, with_earlier
from overlace.ingest.options import BUCKETS, Options
from overlace.ingest.reduce import Ids, Partial, unite
from overlace.ingest.sources import Source, first_and_last, refuse_changed, settle_together
from overlace.ingest.splits import Split, batched, scopes_of, split_tasks
from overlace.ingest.staging import NUMBER, Answer, BatchFunction, Job, answers, label, partial_of, stage, staged
from overlace.ingest.tails import Crossed, find_crossed, joins, widened, with_cut, without
from overlace.ingest.tasks import Piece, finish, parse, regroup
from overlace.ingest.topologies import Bridge
from overlace.model import Progress
from overlace.trace.names import names_table, number_names
from overlace.trace.store import DAY_US, HOUR_US, MINUTE_US, Part, Trace, Writer, absolute, place, writing
from overlace.trace.traffic import Reduction, merge

FEW = 3  # messages up to which a client counts as short-lived
TOGETHER = 1_000_000
"""Messages in several splits that one task joins."""

AT_HOME = 400_000
"""Messages up to which the second job is done by the driver: to ask Spark costs as much."""


class Runner(NamedTuple):
    """How jobs run: `run(function, tasks, stage, begin, end)` gives all answers; `parallel` tasks run at once."""

    run: Callable[[BatchFunction, int, str, float, float], pa.Table]
    parallel: int = 1


def in_process(function: BatchFunction, tasks: int, *_: Any) -> pa.Table:
    """Run a job in this process, task by task."""
    numbers = pa.RecordBatch.from_arrays([pa.array(np.arange(tasks))], schema=NUMBER)
    return pa.Table.from_batches(list(function(iter([numbers]))))


HERE = Runner(in_process)


class Summed(NamedTuple):
    """What a task summed up of a source, or of the part of it in which messages may go on."""

    source: int
    tail: bool
    sums: Partial
    extra: int  # further rows that repeat others
    orphans: int


OF = ("", "tail_")
SUMMED = tuple(f"{of}{table}" for of in OF for table in ("traffic", "audiences"))
"""Tables of what was summed up: of a source, and of the part of it in which messages may go on."""


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
    chosen = as_before(chosen, base)
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
        return Ingested(base, [], found.known, 0, [])
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
            sources = settle_together(widened(sources, crossed.needs, found.same, noted))
        else:
            return done._replace(known=found.known)
        writer.restart()


KEPT = ("identity", "keep_topics", "pseudonymise", "reduce_only")
"""Options that hold for all logs of a trace."""


def as_before(options: Options, base: Trace | None) -> Options:
    """The options with those that hold for all logs of the trace as they were; refused if they were others."""
    how = base.notes.get("how") if base else None
    if not how or not base:
        return options
    for name in ("pseudonymise", "reduce_only"):
        if getattr(options, name) and not how[name]:
            flag = name.replace("_", "-")
            raise BadParameter(f"--{flag}: the trace at {base.path} was made without. Ingest into a new trace.")
    if how["pseudonymise"] and not options.pseudonymise:
        raise BadParameter(f"the names in the trace at {base.path} are hidden: give --pseudonymise with the same key")
    identity = options.identity or how["identity"]
    if identity != (how["identity"] or identity):
        raise BadParameter(
            f"--identity {identity}: the trace at {base.path} has {how['identity']}, and that cannot change"
        )
    return replace(
        options,
        identity=identity,
        keep_topics=options.keep_topics or how["keep_topics"],
        reduce_only=how["reduce_only"],
    )


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
        self.same = same
        self.sources, self.base, self.runner, self.options = list(sources), writer.base, runner, options
        self.tell = progress or (lambda share, what: None)
        self.writer = writer
        self.written: list[Part] = []
        self.scopes = scopes_of(sources)
        identity = options.identity or next((s.form.identity for s in sources if s.form.identity != "client"), "client")
        self.job = Job(
            trace=writer.path, staging=writer.staging, sources=tuple(sources), identity=identity,
            keep_topics=options.keep_topics, key=key, reduce_only=options.reduce_only, id=writer.id,
        )  # fmt: skip

    def run(self, notes: dict[str, Any]) -> Ingested:
        """All of it."""
        tasks = split_tasks(self.sources, self.runner.parallel)
        cut = {self.scopes[i] for i, source in enumerate(self.sources) if source.keyed}
        likely = any(len(splits) > 1 for scope, splits in self._splits(tasks).items() if scope in cut)
        self.job = replace(self.job, bucket_us=self._likely_bucket(), staged=not self.options.reduce_only or likely)
        noted = notes.get("sources", {})
        told = self._parse(tasks)
        if self._learn_bridges(told, noted):
            told = self._parse(tasks)
        for source in self.sources:
            refuse_changed(source)
        if self.base:
            find_crossed(self.base, self.sources, self._keys_by_log(told), noted, self.same)
        several = self._several(told)
        if several and not self.job.staged:  # keys that the first bytes did not show
            self.job = replace(self.job, staged=True)
            told = self._parse(tasks)
        self.tell(0.5, f"reading: {sum(each.about['lines'] for each in told):,} lines")
        bucket_us = self._bucket(told)
        ratio, self.job = bucket_us // self.job.bucket_us, replace(self.job, bucket_us=bucket_us)
        self.tell(0.5, "numbering names")
        names = self._number(told)
        ids = [_ids_of(each, names) for each in told]
        lines = {s.digest: noted[s.digest].get("lines", 0) for s in self.sources if s.begin}
        judge(self._accounts(told), self.options, lines)
        crossed = self._follow_bridges(told, names, notes.get("bridges", []))
        if self.job.staged:
            parts = self._finish(told, ids, several, crossed)
        else:
            parts = [
                Summed(each.about["source"], each.about["tail"], partial_of(each, own), 0, each.about["orphans"])
                for each, own in zip(told, ids, strict=True)
            ]
        accounts = self._accounts(told, parts)
        judge(accounts, self.options, lines)
        self.tell(0.9, "writing")
        self._traffic(parts, bucket_us, ratio if not self.job.staged else 1)
        self._keys(told)
        tails = self._accounts(told, parts, tail=True)
        self._tables(told, ids, names, accounts, tails, crossed)
        notes["sources"] = {**noted, **self._noted(told, accounts, tails, noted)}
        notes["how"] = {name: getattr(self.options, name) for name in KEPT}
        trace = self.writer.commit(bucket_us=bucket_us, unit=self.base.unit if self.base else "message", notes=notes)
        self.tell(1.0, "done")
        folded = sum(each.about["folded"] for each in told)
        return Ingested(
            trace, accounts, [], folded, [*bridge_notes(crossed), *_unlike_before(trace), *short_lived(trace)]
        )

    def _parse(self, tasks: Sequence[Sequence[Split]]) -> list[Answer]:
        """Run the first job."""
        told = answers(self.runner.run(parse(self.job, tasks), len(tasks), "reading", 0.05, 0.5))
        return sorted(told, key=lambda each: (each.about["source"], each.about["number"]))

    def _splits(self, tasks: Sequence[Sequence[Split]]) -> dict[int, list[Split]]:
        """Splits by the scope of their keys, those of sorted tables left out: no key of theirs is cut."""
        found: dict[int, list[Split]] = {}
        for split in (each for task in tasks for each in task):
            if not self.sources[split.source].options.get("sorted"):
                found.setdefault(self.scopes[split.source], []).append(split)
        return found

    def _several(self, told: Sequence[Answer]) -> set[int]:
        """The scopes with keys in several splits, by what was read."""
        counts = Counter(
            self.scopes[each.about["source"]]
            for each in told
            if each.about["keyed"] and not self.sources[each.about["source"]].options.get("sorted")
        )
        return {scope for scope, splits in counts.items() if splits > 1}

    # --- buckets and names

    def _likely_bucket(self) -> int:
        """The width of buckets where it is known before reading; else the finer, of which coarser ones can be made."""
        if self.base and self.base.rows("traffic"):
            return self.base.bucket_us
        if self.options.bucket:
            return BUCKETS[self.options.bucket]
        ends = [each for each in map(first_and_last, self.sources) if each] if self.options.reduce_only else []
        surely = ends and max(last for _, last in ends) - min(first for first, _ in ends) >= DAY_US
        return HOUR_US if surely else MINUTE_US

    def _bucket(self, told: Sequence[Answer]) -> int:
        """An hour; a minute when the log spans less than a day."""
        if (self.base and self.base.rows("traffic")) or self.options.bucket:
            return self.job.bucket_us
        first = min((each.about["first"] for each in told), default=LATER)
        last = max((each.about["last"] for each in told), default=-LATER)
        return HOUR_US if first > last or last - first >= DAY_US else MINUTE_US

    def _number(self, told: Sequence[Answer]) -> dict[str, pa.Array]:
        """Ids for new names: after those that are there, in order of when they first came up, then by name."""
        known = self.base.names if self.base else {}
        names: dict[str, Any] = {}
        for kind in KINDS:
            tables = [each.table(kind) for each in told]
            used = [(flat(table["name"]), table["at"].to_numpy()) for table in tables if table.num_rows]
            names[kind] = number_names(known.get(kind, ()), used, LATER)
            if kind == "attribute" and len(names[kind]) > 63:
                raise BadTrace(f"{len(names[kind])} attributes; a mask holds at most 63. Leave some out with --map.")
        others = {kind: own for kind, own in known.items() if kind not in KINDS}
        self.writer.write("names", names_table({**others, **names}), replace=True)
        return names

    # --- the second job

    def _finish(
        self, told: Sequence[Answer], ids: Sequence[Ids], several: set[int], crossed: Followed | None
    ) -> list[Summed]:
        """Staged messages under ids, written and summed up."""
        pieces = [
            Piece(
                f"{about['source']}-{about['number']}-{about['token']}",
                about["source"],
                self.scopes[about["source"]],
                about["tail"],
            )
            for about in (each.about for each in told)
        ]
        for piece, own in zip(pieces, ids, strict=True):
            for kind, values in own._asdict().items():
                stage(self.job, f"ids/{piece.name}-{kind}", pa.table({"id": values}))
        shared = self._shared(told, pieces, several)
        bridged = crossed is not None and crossed.receivers.num_rows > 0
        weights = [each.about["messages"] for each in told]
        runner = self.runner if sum(weights) > AT_HOME else HERE._replace(parallel=self.runner.parallel)
        work = batched(pieces, weights, runner.parallel)
        done = answers(
            runner.run(finish(self.job, work, bridged, shared), len(work), "encoding and reducing", 0.6, 0.85)
        )
        count = sum(each.about.get("shared", 0) for each in done)
        if count:
            held = [piece for piece in pieces if _staged_shared(self.job, piece)]
            parts = -(-count // TOGETHER)
            done += answers(runner.run(regroup(self.job, held, parts), parts, "joining messages", 0.85, 0.9))
        sums = []
        for each in done:
            if "parts" in each.about:
                listed = [
                    Part(path, rows, int(hashed), source, group)
                    for path, rows, hashed, source, group in each.about["parts"]
                ]
                self.written += listed
            if "traffic" in each:
                about = each.about
                extra, orphans = about.get("extra", 0), about.get("orphans", 0)
                sums.append(Summed(about["source"], about["tail"], partial_of(each, None), extra, orphans))
        return sums

    def _shared(self, told: Sequence[Answer], pieces: Sequence[Piece], several: set[int]) -> list[int]:
        """The scopes in which a key lies in several splits; the keys are staged."""
        found = []
        for scope in sorted(several):
            own = [
                np.unique(each.table("keys")["high"].to_numpy())
                for each, piece in zip(told, pieces, strict=True)
                if piece.scope == scope and "keys" in each
            ]
            if len(own) < 2:
                continue
            every = np.sort(np.concatenate(own))
            twice = np.unique(every[1:][every[1:] == every[:-1]])
            if len(twice):
                stage(self.job, f"shared/{scope}", pa.table({"high": twice}))
                found.append(scope)
        return found

    # --- what is written

    def _traffic(self, parts: Sequence[Summed], bucket_us: int, ratio: int) -> None:
        """Traffic and audiences of each source, added to what an earlier part of it gave."""
        written: dict[str, list[tuple[str, pa.Table]]] = {}
        sums: list[list[Summed]] = [[] for _ in self.sources]
        for part in parts:
            sums[part.source].append(part)
        for source, own in zip(self.sources, sums, strict=True):
            reduction = unite([each.sums for each in own], bucket_us, ratio)
            if source.begin and self.base:
                before = self._of_source(source, *SUMMED)
                known = without(*(Reduction(before.read(f"{of}traffic"), before.read(f"{of}audiences")) for of in OF))
                reduction = merge([known, reduction])
            tail = unite([each.sums for each in own if each.tail], bucket_us, ratio)
            for table in SUMMED:
                self.writer.drop(table, source.digest)
            self.writer.drop("messages", label(source.digest, True))
            if not source.begin:
                for table in ("messages", "sessions", "subscriptions"):
                    self.writer.drop(table, source.digest)
            for table, rows in zip(SUMMED, (*reduction, *tail), strict=True):
                written.setdefault(table, []).append((source.digest, rows))
        for table, by_source in written.items():
            self.writer.write_by_source(table, by_source)
        order = {label(source.digest, tail): i for i, source in enumerate(self.sources) for tail in (False, True)}
        listed = sorted(self.written, key=lambda part: (part.path.rpartition("/")[0], order[part.source]))
        self.writer.add("messages", listed)
        messages, traffic = (sum(part.rows for part in self.writer.parts.get(t, ())) for t in ("messages", "traffic"))
        self.tell(0.95, f"writing: {messages:,} messages, {traffic:,} rows of traffic")

    def _keys(self, told: Sequence[Answer]) -> None:
        """The keys of each source, for when it has grown; those of names that are hidden are not kept."""
        rows = []
        for source, own in zip(self.sources, self._by_source(told, told), strict=True):
            for tail in (False, True):
                if tail or not source.begin:
                    self.writer.drop("keys", label(source.digest, tail))
                if joins(source) and not self.job.key:
                    rows.append((label(source.digest, tail), keys_table([e for e in own if e.about["tail"] == tail])))
        self.writer.write_by_source("keys", rows)

    def _keys_by_log(self, told: Sequence[Answer]) -> dict[str, Ints]:
        """The keys that were met, by log."""
        found: dict[str, list[Answer]] = {}
        for source, own in zip(self.sources, self._by_source(told, told), strict=True):
            if joins(source):
                found.setdefault(source.log, []).extend(own)
        return {log: keys_table(own)["key"].to_numpy() for log, own in found.items()}

    def _of_source(self, source: Source, *tables: str) -> Trace:
        """What the trace has of one source so far."""
        assert self.base is not None
        own = {t: [p for p in self.base.parts.get(t, []) if p.source == source.digest] for t in tables}
        return replace(self.base, parts=own)

    def _tables(
        self,
        told: Sequence[Answer],
        ids: Sequence[Ids],
        names: Mapping[str, pa.Array],
        accounts: Sequence[Account],
        tails: Sequence[Account],
        crossed: Followed | None,
    ) -> None:
        """Sessions, subscriptions, links and the accounting: few rows, made on the driver."""
        rows: dict[str, list[tuple[str, pa.Table]]] = {
            "sessions": [],
            "subscriptions": [],
            "doubles": [],
            "quarantine": [],
        }
        linked: dict[tuple[int, int], int] = {}
        pairs = self._by_source(told, list(zip(told, ids, strict=True)))
        for i, (source, own) in enumerate(zip(self.sources, pairs, strict=True)):
            life = self._life([each for each, _ in own])
            before = self._of_source(source, "sessions").read("sessions") if self.base and source.begin else None
            seen = seen_before(before, pa.concat_tables([_seen_under_ids(each, to) for each, to in own]))
            for table in ("sessions", "doubles"):
                self.writer.drop(table, source.digest)
            self.writer.drop("quarantine", label(source.digest, True))
            if not source.begin:
                self.writer.drop("quarantine", source.digest)
            rows["sessions"].append((source.digest, sessions_of(life, seen, names)))
            rows["subscriptions"].append((source.digest, subscriptions_of(life, names)))
            rows["doubles"].append((source.digest, doubles_of(life, names, self.job.bucket_us)))
            rows["quarantine"].append((source.digest, quarantine_of(less(accounts[i], tails[i]))))
            rows["quarantine"].append((label(source.digest, True), quarantine_of(tails[i])))
            linked = first_told(linked, links_told(life, names).items())
        for table, listed in rows.items():
            self.writer.write_by_source(table, listed)
        before = self.base.read("sources") if self.base else None
        noted = self.base.notes.get("sources", {}) if self.base else {}
        self.writer.write("sources", sources_table(accounts, self.sources, before, noted), replace=True)
        wired = Wired({}, linked, {})
        if crossed and crossed.links and not self.job.key:
            place_of = {name: i for i, name in enumerate(names["broker"].to_pylist())}
            number = {of: place_of[self.sources[i].options["broker"]] for i, of in enumerate(self._brokers())}
            ends = [(number[a], number[b]) for a, b in crossed.links]
            over = {pair: at for pair, at in zip(ends, crossed.until, strict=True) if at != LATER}
            wired = Wired(first_told({}, zip(ends, crossed.since, strict=True)), linked, over)
        if wired.dialled or wired.told:
            self._links(wired)

    def _links(self, wired: Wired) -> None:
        """Add the links that the logs show, unless the trace has links from elsewhere."""
        parts = self.writer.parts.get("links", [])
        before = [part for part in parts if part.source == BRIDGES]
        if len(before) < len(parts):
            return
        if self.base and before:
            wired = with_earlier(wired, replace(self.base, parts={"links": before}).read("links"))
            self.writer.drop("links", BRIDGES)
        self.writer.write("links", links_of(*wired), source=BRIDGES, name="-bridges")

    def _life(self, told: Sequence[Answer]) -> pa.Table:
        """Events of sessions, subscriptions and bridges that some splits staged."""
        empty = PLAIN.empty_table()
        tables = [
            staged(self.job, f"life/{each.about['source']}-{each.about['number']}-{each.about['token']}")
            for each in told if each.about["life"]
        ]  # fmt: skip
        return pa.concat_tables([empty, *(table.cast(PLAIN) for table in tables)]).combine_chunks()

    def _noted(
        self, told: Sequence[Answer], accounts: Sequence[Account], tails: Sequence[Account], before: Mapping[str, Any]
    ) -> dict[str, Any]:
        """What the next ingest must know of each source, and its ignored lines by kind."""
        noted = {}
        for i, (s, own) in enumerate(zip(self.sources, self._by_source(told, told), strict=True)):
            last = max(own, key=lambda each: int(each.about["number"]), default=None)
            end, tail, is_open = s.size, s.tail, s.open
            if s.packed and last is not None:
                end, tail, is_open = s.begin + last.about["size"], last.about["last_bytes"], not last.about["ended"]
            known = before[s.digest] if s.begin else {}
            settled = {k: v for k, v in s.options.items() if k in SETTLED}
            ignored = Counter(accounts[i].ignored)
            ignored.update(known.get("body", known).get("ignored", {}))
            body = body_of(less(accounts[i], tails[i]), known)
            noted[s.digest] = {
                "name": s.name, "end": end, "head": s.head, "tail": tail, "open": is_open, "log": s.log,
                "keyed": any(each.about["keyed"] for each in own) or s.keyed, "cut": 0 if self.job.key else s.cut,
                "number": s.number, "packed": s.packed, "start": list(s.start), "disk": list(s.disk),
                "broker": None if self.job.key else s.options.get("broker"), "format": s.format, "settled": settled,
                "kept": accounts[i].kept + known.get("body", known).get("kept", 0), "hidden": bool(self.job.key),
                "lines": accounts[i].lines + known.get("body", known).get("lines", 0), "marks": dict(s.marks),
                "bridges": self._bridges(own), **_times(own, known),
                "ignored": dict(sorted(ignored.items())), **({"body": body} if s.cut else {}),
            }  # fmt: skip
        return noted

    # --- accounts and bridges

    def _accounts(
        self, told: Sequence[Answer], parts: Sequence[Summed] = (), *, tail: bool | None = None
    ) -> list[Account]:
        """What became of the lines of each source, or of those in which messages may go on."""
        chosen = [each for each in told if tail in (None, each.about["tail"])]
        extra, orphans = Counter[int](), Counter[int]()
        for each in parts:
            if tail in (None, each.tail):
                extra[each.source] += each.extra
                orphans[each.source] += each.orphans
        by_source = self._by_source(chosen, [each.about for each in chosen])
        return [
            with_joined(account_of(source, own), extra[i], orphans[i])
            for i, (source, own) in enumerate(zip(self.sources, by_source, strict=True))
        ]

    def _by_source(self, told: Sequence[Answer], values: Sequence[Any]) -> list[list[Any]]:
        """Values that belong to splits, by the source of the split."""
        found: list[list[Any]] = [[] for _ in self.sources]
        for each, value in zip(told, values, strict=True):
            found[each.about["source"]].append(value)
        return found

    def _brokers(self) -> list[int]:
        """For each source the first that is of the same broker's log."""
        first: dict[Any, int] = {}
        return [first.setdefault(s.options.get("broker") or s.digest, i) for i, s in enumerate(self.sources)]

    def _bridges(self, told: Sequence[Answer]) -> list[str]:
        """The bridges that some splits tell of, without a name where names are hidden."""
        found = sorted({name for each in told for name in each.about["bridges"]})
        return found if not self.job.key else [""] * bool(found)

    def _learn_bridges(self, told: Sequence[Answer], noted: Mapping[str, Any]) -> bool:
        """Tell each source which bridges other files of its broker's log show; whether there was something to tell."""
        if self.job.key:
            return False
        shown: dict[str, set[str]] = {}
        for each in noted.values():
            shown.setdefault(each["broker"] or "", set()).update(each.get("bridges") or ())
        by_source = list(zip(self.sources, self._by_source(told, told), strict=True))
        for source, own in by_source:
            shown.setdefault(source.options.get("broker") or "", set()).update(self._bridges(own))
        wiser = []
        for source, own in by_source:
            new = shown[source.options.get("broker") or ""] - {*self._bridges(own)} - {""}
            given = {**source.options, "bridges": sorted({*(source.options.get("bridges") or ()), *new})}
            wiser.append(replace(source, options=given) if new and source.form.one_broker else source)
        changed = wiser != self.sources
        self.sources, self.job = wiser, replace(self.job, sources=tuple(wiser))
        return changed

    def _follow_bridges(
        self, told: Sequence[Answer], names: Mapping[str, pa.Array], known: Sequence[Mapping[str, Any]]
    ) -> Followed | None:
        """Join the logs of several brokers at their bridges; what was found is staged for the next job."""
        if not any(each.about["bridges"] for each in told):
            return None
        tables, brokers = [], self._brokers()
        for each in told:
            life, source = self._life([each]), each.about["source"]
            for name, value in (("source", source), ("log", brokers[source])):
                life = life.append_column(name, pa.array(np.full(life.num_rows, value, np.int32)))
            tables.append(life)
        renaming = (
            [] if self.job.key else [Bridge.of(each) for each in known]
        )  # under pseudonyms topics no longer match
        crossed = follow(bridge_lines(pa.concat_tables(tables)), renaming)
        lists = flat(crossed.receivers["receiver_distinct"])
        ids = pc.index_in(lists.flatten(), value_set=names["client"]).cast(pa.int32())
        sizes = pc.list_value_length(lists).to_numpy(zero_copy_only=False)
        bounds = pa.array(np.append(0, np.cumsum(sizes)).astype(np.int64))
        receivers = pa.LargeListArray.from_arrays(bounds, ids)
        columns = {"source": crossed.receivers["source"], "offset": crossed.receivers["offset"], "receivers": receivers}
        stage(self.job, "bridged", pa.table(columns))
        return crossed


SETTLED = (
    "map",
    "mapping",
    "unused",
    "unit",
    "zoneless",
    "group",
    "delimiter",
    "header",
    "columns",
    "comments",
    "head",
    "list_separator",
)
"""What is kept of a source's options, so that its next bytes are read alike."""


def _unlike_before(trace: Trace) -> list[str]:
    """A warning where a bridge counts as a client: files that were read before did not show it as one."""
    shown = {
        (each["broker"], bridge)
        for each in trace.notes["sources"].values()
        for bridge in each.get("bridges") or ()
        if each["broker"] and bridge
    }
    clients = set(trace.names["client"]) if shown else set()
    counted = sorted(
        bridge for broker, bridge in shown if clients & {f"{broker}/{bridge}", f"{broker}/local.{bridge}", bridge}
    )
    return [
        f"{each} is a bridge, and counts as a client in logs that were read before that was known. For true flows, "
        "ingest all logs into a new trace."
        for each in counted
    ]


def _times(told: Sequence[Answer], known: Mapping[str, Any]) -> dict[str, int]:
    """The first and the last time that a source tells, if it tells any."""
    first = min([each.about["span"][0] for each in told] + [known.get("first", LATER)])
    last = max([each.about["span"][1] for each in told] + [known.get("last", -LATER)])
    return {"first": first, "last": last} if first <= last else {}


def _ids_of(told: Answer, names: Mapping[str, pa.Array]) -> Ids:
    """The ids of a split's codes, -1 for names that nothing uses; the last place is for none."""
    found = {}
    for kind in KINDS:
        own = flat(told.table(kind)["name"])
        to = pc.index_in(own, value_set=names[kind]).fill_null(-1).to_numpy(zero_copy_only=False)
        found[kind] = np.append(to, -1).astype(np.int64)
    return Ids(**found)


def _seen_under_ids(told: Answer, ids: Ids) -> pa.Table:
    seen = told.table("seen")
    client, broker = (to[seen[name].to_numpy()] for name, to in (("client", ids.client), ("broker", ids.broker)))
    return pa.table({"client": client, "broker": broker, "at_min": seen["at_min"].cast(pa.int64())})


def _staged_shared(job: Job, piece: Piece) -> bool:
    files, at = place(f"{job.trace}/{job.staging}/messages/shared-{piece.name}.arrow")
    return bool(files.get_file_info(at).type == pafs.FileType.File)


def short_lived(trace: Trace) -> list[str]:
    """A warning when many clients sent next to nothing: ids that are made up for each connection look like that."""
    rows = trace.read("traffic", ["client", "messages"])
    sent = np.bincount(rows["client"].to_numpy(), weights=rows["messages"].to_numpy()) if rows.num_rows else np.zeros(0)
    few = int(((sent > 0) & (sent <= FEW)).sum())
    if few < 20 or few < 0.2 * (sent > 0).sum():
        return []
    return [
        f"{few:,} of {int((sent > 0).sum()):,} senders sent {FEW} messages or fewer in all. If their ids are made up "
        "for each connection, say who is one client with --identity PATTERN."
    ]


__all__ = ["HERE", "Account", "Ingested", "Runner", "in_process", "ingest_sources"]
