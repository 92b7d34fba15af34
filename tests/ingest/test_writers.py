"""Two who write one trace: one waits its turn, and what each has finished is there."""

import itertools
import json
import os
import threading

import pytest

from overlace.errors import Busy
from overlace.ingest.options import Options
from overlace.ingest.source import Reader
from overlace.ingest.store import Store
from overlace.ingest.tables import add_tables
from overlace.trace.lock import take
from overlace.trace.store import Trace
from overlace.trace.writer import Writer, writing
from tests.engine import ingest_sources

pytestmark = pytest.mark.usefixtures("sail")  # started before there are threads

START = 1_767_571_200


def log(path, first, count=20):
    rows = [
        {"at": START + 60 * i, "client": f"c{i % 5}", "broker": f"b{i % 2}", "receivers": [f"c{i % 3}"], "id": i // 2}
        for i in range(first, first + count)
    ]
    path.write_text("".join(json.dumps(row) + "\n" for row in rows))
    return str(path)


def ingest_of(name, first):
    def write(folder, **more):
        path = log(folder / f"{name}.jsonl", first)
        return ingest_sources([path], str(folder / "t"), options=Options(bucket="hour", **more)).trace

    return write


def table_of(name, column):
    def write(folder, **more):
        (folder / f"{name}.csv").write_text(f"{column}\n{name},{name}x\n")
        return add_tables([str(folder / f"{name}.csv")], name, str(folder / "t"), {}, **more)[0]

    return write


WRITERS = {
    "log": (ingest_of("a", 0), lambda trace: "a.jsonl" in trace.read("sources")["name"].to_pylist()),
    "other log": (ingest_of("b", 1000), lambda trace: "b.jsonl" in trace.read("sources")["name"].to_pylist()),
    "brokers": (table_of("brokers", "broker,region"), lambda trace: "brokers" in trace.names["broker"]),
    "clients": (table_of("clients", "client,region"), lambda trace: "clients" in trace.names["client"]),
}  # fmt: skip
ORDERS = list(itertools.permutations(WRITERS, 2))


def is_whole(path):
    """Every file that the manifest names is there, and nothing else but what the one before named."""
    trace = Trace.open(str(path))
    for table in trace.parts:
        trace.read(table)
    assert not [each.name for each in path.iterdir() if each.name.startswith(".")]
    return trace


@pytest.mark.parametrize("at", ["__init__", "commit"])
@pytest.mark.parametrize(("first", "second"), ORDERS)
def test_the_second_is_refused_and_both_are_there_in_the_end(tmp_path, monkeypatch, first, second, at):
    reached, go_on, done = threading.Event(), threading.Event(), []
    plain = getattr(Writer, at)

    def waiting(self, *args, **named):
        if threading.current_thread() is other:
            reached.set()
            assert go_on.wait(60)
        return plain(self, *args, **named)

    monkeypatch.setattr(Writer, at, waiting)
    other = threading.Thread(target=lambda: done.append(WRITERS[first][0](tmp_path)))
    other.start()
    try:
        assert reached.wait(60)
        with pytest.raises(Busy, match="is being written by process"):
            WRITERS[second][0](tmp_path)
    finally:
        go_on.set()
        other.join()
    assert len(done) == 1
    assert WRITERS[first][1](is_whole(tmp_path / "t"))
    WRITERS[second][0](tmp_path)
    both = is_whole(tmp_path / "t")
    assert WRITERS[first][1](both)
    assert WRITERS[second][1](both)


@pytest.mark.parametrize(("first", "second"), ORDERS)
def test_one_whose_lock_was_broken_changes_nothing(tmp_path, monkeypatch, first, second):
    """The first is not dead, only slow: the second breaks its lock and is done before it."""
    ingest_of("base", 5000)(tmp_path)
    plain, inside = Writer.commit, []

    def late(self, **named):
        if not inside:
            inside.append(self)
            WRITERS[second][0](tmp_path, break_lock=True)
        return plain(self, **named)

    monkeypatch.setattr(Writer, "commit", late)
    with pytest.raises(Busy, match="another writer took the lock and changed the trace meanwhile"):
        WRITERS[first][0](tmp_path)
    trace = is_whole(tmp_path / "t")
    assert WRITERS[second][1](trace)
    assert not WRITERS[first][1](trace)
    WRITERS[first][0](tmp_path)
    assert WRITERS[first][1](is_whole(tmp_path / "t"))


def test_one_whose_lock_is_another_s_changes_nothing_while_that_one_writes(tmp_path, monkeypatch):
    base = ingest_of("base", 5000)(tmp_path)
    plain, others = Writer.commit, []

    def late(self, **named):
        others.append(take(base.path, break_lock=True))
        return plain(self, **named)

    monkeypatch.setattr(Writer, "commit", late)
    with pytest.raises(Busy, match="another writer took the lock"):
        ingest_of("a", 0)(tmp_path)
    others[0].release()
    assert is_whole(tmp_path / "t").digest() == base.digest()


def test_many_at_once_lose_nothing(tmp_path):
    def write(i):
        path = log(tmp_path / f"{i}.jsonl", 100 * i)
        while True:
            try:
                return ingest_sources([path], str(tmp_path / "t"), options=Options(bucket="hour"))
            except Busy:
                continue

    threads = [threading.Thread(target=write, args=(i,)) for i in range(6)]
    for each in threads:
        each.start()
    for each in threads:
        each.join()
    trace = is_whole(tmp_path / "t")
    assert sorted(trace.read("sources")["name"].to_pylist()) == [f"{i}.jsonl" for i in range(6)]
    assert trace.rows("messages") == 6 * 10
    assert trace.generation == 6


def test_a_generation_is_made_once_even_without_a_lock(tmp_path):
    base = ingest_of("a", 0)(tmp_path)
    one, two = Writer(base.path, base), Writer(base.path, base)
    for each in (one, two):
        each.name({"client": ["x"]})
    kept = {"bucket_us": base.bucket_us, "unit": base.unit, "notes": {}}
    assert one.commit(**kept).generation == 2
    with pytest.raises(Busy):
        two.commit(**kept)
    (tmp_path / "t/.generation-3").touch()  # a writer that is making it right now
    with pytest.raises(Busy):
        Writer(base.path, Trace.open(base.path)).commit(**kept)


def test_who_reads_while_another_writes_can_read_on(tmp_path):
    trace = ingest_of("a", 0)(tmp_path)
    before = {table: trace.read(table) for table in trace.parts}
    reader = Trace.open(trace.path)
    table_of("brokers", "broker,region")(tmp_path)
    assert all(reader.read(table).equals(rows) for table, rows in before.items())


def test_nothing_is_left_of_a_write_that_was_refused(tmp_path):
    with pytest.raises(ValueError, match="on the way"), writing(str(tmp_path / "new/trace")) as writer:
        writer.name({"client": ["x"]})
        (tmp_path / "new/trace" / writer.staging).mkdir()
        raise ValueError("on the way")
    assert not (tmp_path / "new/trace").exists()


@pytest.mark.parametrize("reduce_only", [True, False])
def test_an_ingest_that_breaks_off_anywhere_leaves_the_trace_as_it_was(tmp_path, monkeypatch, reduce_only):
    """Before or after each of its writes; once nothing breaks it, it is as if nothing had."""
    out, options = tmp_path / "t", Options(bucket="hour", reduce_only=reduce_only)
    path = log(tmp_path / "a.jsonl", 0)
    before = ingest_sources([path], str(out), options).trace
    log(tmp_path / "a.jsonl", 0, 40)
    once = ingest_sources([path], str(tmp_path / "once"), options).trace
    plain, tables = Store.write, []

    def breaking(place):
        def write(self, table, *args, **named):
            if (len(tables), "before") == place:
                raise OSError("on the way")
            found = plain(self, table, *args, **named)
            if (len(tables), "after") == place:
                raise OSError("on the way")
            tables.append(table)
            return found

        return write

    for number, when in ((number, when) for number in itertools.count() for when in ("before", "after")):
        tables.clear()
        monkeypatch.setattr(Store, "write", breaking((number, when)))
        try:
            ingest_sources([path], str(out), options)
        except OSError:
            assert is_whole(out).digest() == before.digest()
            assert is_whole(out).notes == before.notes
        else:
            break
    assert number == len(tables) > 4
    assert is_whole(out).digest() == once.digest()


@pytest.mark.parametrize("reduce_only", [True, False])
def test_a_second_attempt_of_a_task_changes_nothing(tmp_path, monkeypatch, reduce_only):
    """Of each task the attempt that ends last is heard, and both were under way at once."""
    for name in ("LEAST", "MOST"):
        monkeypatch.setattr(f"overlace.ingest.source.{name}", 300)
    path = log(tmp_path / "a.jsonl", 0, 60)
    options = Options(bucket="hour", reduce_only=reduce_only)
    read, tasks = Reader.read, []

    def twice(self, partition):
        tasks.append(partition)
        attempts = [read(self, partition) for _ in range(2)]
        return (each for _, each in itertools.zip_longest(*attempts))

    once = ingest_sources([path], str(tmp_path / "once"), options).trace
    monkeypatch.setattr(Reader, "read", twice)
    again = ingest_sources([path], str(tmp_path / "again"), options).trace
    assert len(tasks) > 4
    assert again.digest() == once.digest()
    assert once.rows("traffic") > 0
    is_whole(tmp_path / "again")
    inside = {str(each.relative_to(tmp_path / "again")) for each in (tmp_path / "again").rglob("*.parquet")}
    parts = {part.path for parts in again.parts.values() for part in parts}
    assert {each for each in inside if each not in parts and each.rpartition("/")[0] not in parts} == set()


def test_a_folder_that_comes_and_goes_meets_nobody(tmp_path):
    """Writers of which each makes the folder, is refused and removes it again: the others see Busy, or nothing."""
    met, path = set(), str(tmp_path / "t")

    def write():
        for _ in range(100):
            try:
                with writing(path):
                    raise LookupError
            except Exception as error:
                met.add(type(error))

    threads = [threading.Thread(target=write) for _ in range(8)]
    for each in threads:
        each.start()
    for each in threads:
        each.join()
    assert met <= {Busy, LookupError}
    with pytest.raises(LookupError), writing(path):
        raise LookupError


def test_a_folder_that_goes_before_its_lock_is_made_again(tmp_path, monkeypatch):
    from overlace.trace import lock

    plain, gone = lock._open, []

    def late(path):
        if not gone:
            gone.append(os.path.dirname(path))
            os.rmdir(gone[0])
        return plain(path)

    monkeypatch.setattr(lock, "_open", late)
    assert ingest_of("a", 0)(tmp_path).rows("messages") == 10
    assert gone == [str(tmp_path / "t")]
