"""Logs and traces on an object store: a stand-in for S3 on this machine, with the digests of local folders."""

import json
import logging
import os
import signal
import socket
import subprocess
import sys
from urllib.request import Request, urlopen

import pyarrow.fs as pafs
import pytest

from overlace.errors import BadTrace, Busy
from overlace.ingest.files import find_files, log_of
from overlace.ingest.store import Files
from overlace.optimize.task import observe
from overlace.trace.address import inside, name_of, options_of_s3a, place
from overlace.trace.lock import locked
from overlace.trace.store import Trace
from overlace.trace.writer import writing
from tests.engine import ingest_sources
from tests.ingest.test_follow import KILLED, end, lines
from tests.processes import LONGEST, command, until

SECRET = "not-to-be-seen"
KEYS = {"AWS_ACCESS_KEY_ID": "key", "AWS_SECRET_ACCESS_KEY": SECRET, "AWS_EC2_METADATA_DISABLED": "true"}


@pytest.fixture(scope="module")
def endpoint():
    moto = pytest.importorskip("moto.server", reason="needs moto[server]")
    logging.getLogger("werkzeug").setLevel(logging.ERROR)  # it notes every request
    server = moto.ThreadedMotoServer("127.0.0.1", 0, verbose=False)
    server.start()
    yield "http://{}:{}".format(*server.get_host_and_port())
    server.stop()


@pytest.fixture
def store(endpoint, monkeypatch, request):
    """The address of something in a bucket of this test's own."""
    for name, value in KEYS.items():
        monkeypatch.setenv(name, value)
    for name in ("AWS_ENDPOINT", "AWS_ENDPOINT_URL", "AWS_REGION", "AWS_DEFAULT_REGION", "AWS_ALLOW_HTTP"):
        monkeypatch.delenv(name, raising=False)
    bucket = f"bucket-{abs(hash(request.node.nodeid))}"
    urlopen(Request(f"{endpoint}/{bucket}", method="PUT")).close()
    return lambda key: f"s3://{bucket}/{key}?endpoint_override={endpoint}&region=us-east-1"


def put(address, data):
    files, at = place(address)
    with files.open_output_stream(at) as stream:
        stream.write(data)


def permit(endpoint, requests):
    """Permit everybody so many requests more, and then only those with a key that the stand-in knows: none."""
    plain = {"Content-Type": "text/plain"}
    urlopen(Request(f"{endpoint}/moto-api/reset-auth", requests, plain, method="POST")).close()


def held(address):
    """All objects at an address, with what they hold."""
    files, at = place(address)
    found = files.get_file_info(pafs.FileSelector(at, recursive=True, allow_not_found=True))
    return {i.path: files.open_input_file(i.path).read() for i in found if i.type == pafs.FileType.File}


def digest_here(tmp_path, log):
    """The digest of one ingest of a log into a local trace."""
    return ingest_sources([log], str(tmp_path / "here")).trace.digest()


def test_logs_and_a_trace_on_a_store_give_the_digest_of_local_ones_and_grow(store, tmp_path):
    rows = [line.replace(b'"id"', b'"number"') for line in lines(600)]  # a key is one of a log at its own address
    log, here = store("logs/50%25 of it/a.jsonl"), tmp_path / "a.jsonl"
    for count, kept in ((400, 400), (400, 0), (600, 200)):
        put(log, b"".join(rows[:count]))
        here.write_bytes(b"".join(rows[:count]))
        done = ingest_sources([store("logs/")], store("traces/t"))
        assert done.trace.digest() == digest_here(tmp_path, str(here))
        assert [(each.source, each.kept) for each in done.accounts] == ([("a.jsonl", kept)] if kept else [])
        assert done.known == ([] if kept else ["a.jsonl: nothing new"])
    assert not any(SECRET.encode() in data for data in held(store("")).values())
    assert not any("/.lock" in path or "/.staging" in path for path in held(store("")))


@pytest.mark.parametrize(
    ("moment", "after"),
    [("Writer.commit", False), ("Writer.commit", True), ("merge.write_traffic", False),
     *(pytest.param(name, after, marks=pytest.mark.long) for name, after in [
         ("merge.facts_of", False), ("Store.write", True), ("Writer.store", True), ("Store.digests", True)])],
)  # fmt: skip
def test_an_ingest_that_is_killed_leaves_the_trace_as_it_was_or_as_it_becomes(store, tmp_path, moment, after):
    rows, out = lines(400), store("t")
    put(store("a.jsonl"), b"".join(rows[:200]))
    before = ingest_sources([store("a.jsonl")], out).trace.digest()
    put(store("a.jsonl"), b"".join(rows))
    words = [moment, str(int(after)), "ingest", store("a.jsonl"), "--out", out, "--engine", "sail"]
    killed = subprocess.run([sys.executable, "-c", KILLED, *words], capture_output=True, check=False, timeout=LONGEST)
    assert killed.returncode == -signal.SIGKILL, killed.stderr
    whole = digest_here(tmp_path, store("a.jsonl"))
    assert Trace.open(out).digest() == (whole if (moment, after) == ("Writer.commit", True) else before)
    assert any(path.endswith("/.lock") for path in held(out))  # of a process that is dead, so it is free
    assert ingest_sources([store("a.jsonl")], out).trace.digest() == whole
    assert not any("/.lock" in path or "/.staging" in path for path in held(out))


def test_an_ingest_that_is_killed_while_it_writes_is_done_again(store, tmp_path):
    rows, out = lines(20_000), store("t")
    put(store("a.jsonl"), b"".join(rows))
    process = command("ingest", store("a.jsonl"), "--out", out, "--engine", "sail")
    try:
        until(lambda: any("/.staging" in path for path in held(out)) or process.poll() is not None)
    finally:
        end(process, signal.SIGKILL)
    assert process.returncode == -signal.SIGKILL
    whole = digest_here(tmp_path, store("a.jsonl"))
    assert not Trace.exists(out) or Trace.open(out).digest() == whole
    assert ingest_sources([store("a.jsonl")], out).trace.digest() == whole


def test_the_main_job_works_on_a_trace_of_a_store(store, overlace, tmp_path):
    code, _, said = overlace("generate", "sites", "--messages", "20000", "--out", store("t"))
    assert code == 0, said
    for words in (("observe", store("t"), "--out", "run"), ("replay", "run"), ("report", "run")):
        code, _, said = overlace(*words)
        assert code == 0, said
    assert json.loads((tmp_path / "run/run.json").read_text())["trace"] == store("t")
    code, _, said = overlace("optimize", store("t"), "--out", "planned", "--budget", "5")
    assert code in (0, 3), said
    assert (tmp_path / "planned/report.html").exists()
    assert "<title>t" in (tmp_path / "planned/report.html").read_text()


def test_peek_and_tables_read_from_a_store(store, overlace):
    put(store("a.jsonl"), b"".join(lines(50)))
    put(store("links.csv"), b"left,right,cost\nb1,b2,1\n")
    code, said, _ = overlace("peek", store("a.jsonl"), "--json")
    assert code == 0
    assert json.loads(said)["format"] == "jsonl"
    assert overlace("ingest", store("links.csv"), "--table", "links", "--out", store("t"))[0] == 0
    assert Trace.open(store("t")).rows("links") == 1


def test_a_store_has_one_writer_at_a_time(store):
    out = store("t")
    with writing(out) as writer:
        with pytest.raises(Busy, match=f"is being written by process {os.getpid()} on "), writing(out):
            pass
        files, at = place(out)
        with locked(at, True, files, out), pytest.raises(Busy, match="another writer took the lock"):
            writer.commit(bucket_us=60_000_000, unit="message", notes={})
    assert not Trace.exists(out)


# --- what is refused ------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "address", ["foo://bucket/x", "hdfs2://a/x", "S3://bucket/x", "s3:/bucket/x", "s3a://bucket/x"]
)
def test_an_address_of_an_unknown_kind_is_refused_and_no_folder(overlace, tmp_path, address):
    (tmp_path / "a.jsonl").write_bytes(b"".join(lines(10)))
    commands = [
        ("ingest", address, "--out", "t", "--engine", "sail"),
        ("ingest", "a.jsonl", "--out", address, "--engine", "sail"),
        ("ingest", address, "--table", "links", "--out", "t"),
        ("ingest", address, "--topology", "--out", "t"),
        ("peek", address), ("observe", address, "--out", "run"), ("optimize", address, "--out", "run"),
        ("generate", "sites", "--messages", "100", "--out", address), ("demo", "--out", address),
    ]  # fmt: skip
    for words in commands:
        code, _, said = overlace(*words)
        assert (code, said.count("\n")) == (1, 1), (words, said)
        assert said.startswith(f"error: {address.partition(':')[0]}:/"), (words, said)
    assert [each.name for each in tmp_path.iterdir()] == ["a.jsonl"]


def test_a_run_is_local(overlace, tmp_path):
    assert overlace("generate", "sites", "--messages", "1000", "--out", "t")[0] == 0
    for words in (("observe", "t"), ("optimize", "t")):
        code, _, said = overlace(*words, "--out", "s3://bucket/run")
        assert (code, said) == (1, "error: s3:/... is an address, and a local path is expected here.\n")
    assert [each.name for each in tmp_path.iterdir()] == ["t"]


@pytest.mark.parametrize(
    "address",
    [f"s3://key:{SECRET}@bucket/x", f"s3://key:a/{SECRET}@bucket/x", f"s3://bucket/x?secret_key={SECRET}&region=a",
     f"s3://bucket/x?access_key={SECRET}", f"abfs://c:{SECRET}@account/x", f"gs://bucket/x?access_token={SECRET}"],
)  # fmt: skip
def test_credentials_in_an_address_are_refused_and_not_repeated(overlace, tmp_path, address):
    (tmp_path / "a.jsonl").write_bytes(b"".join(lines(10)))
    for words in (("ingest", address, "--out", "t"), ("ingest", "a.jsonl", "--out", address), ("peek", address)):
        code, shown, said = overlace(*words)
        assert (code, said.count("\n")) == (1, 1)
        assert "holds credentials" in said
        assert SECRET not in shown + said
    assert [each.name for each in tmp_path.iterdir()] == ["a.jsonl"]


def test_what_a_store_refuses_is_one_line_and_nothing_is_lost(store, endpoint, overlace, monkeypatch, tmp_path):
    out, rows = store("t"), lines(100)
    put(store("a.jsonl"), b"".join(rows[:50]))
    ingest_sources([store("a.jsonl")], out)
    put(store("a.jsonl"), b"".join(rows))
    (tmp_path / "a.jsonl").write_bytes(b"".join(rows))
    before, bucket = held(out), store("").split("/")[2]
    nowhere = store("t").replace(bucket, "no-such-bucket")
    code, _, said = overlace("ingest", "a.jsonl", "--out", nowhere, "--engine", "sail")
    assert (code, said) == (
        1,
        "error: no such bucket: bucket no-such-bucket. Check the address; buckets are not made.\n",
    )
    commands = [
        ("ingest", store("a.jsonl"), "--out", out, "--engine", "sail"),
        ("ingest", store("a.jsonl"), "--out", "t", "--engine", "sail"),
        ("ingest", "a.jsonl", "--out", store("u"), "--engine", "sail"),
        ("observe", out, "--out", "run"),
    ]
    permit(endpoint, b"0")
    try:
        refused = [overlace(*words) for words in commands]
    finally:
        permit(endpoint, b"inf")
    for words, (code, _, said) in zip(commands, refused, strict=True):
        assert (code, said.count("\n")) == (1, 1), (words, said)
        assert "permission denied: bucket " in said, (words, said)
        assert SECRET not in said
    assert held(out) == before
    assert [each.name for each in tmp_path.iterdir()] == ["a.jsonl"]
    assert ingest_sources([store("a.jsonl")], out).trace.digest() == digest_here(tmp_path, store("a.jsonl"))


@pytest.mark.parametrize(
    "requests", [20, 60, 100, *(pytest.param(n, marks=pytest.mark.long) for n in range(5, 160, 10))]
)
def test_a_permission_that_ends_meanwhile_loses_nothing(store, endpoint, overlace, tmp_path, requests):
    rows, out = lines(400), store("t")
    put(store("a.jsonl"), b"".join(rows[:200]))
    before = ingest_sources([store("a.jsonl")], out).trace.digest()
    put(store("a.jsonl"), b"".join(rows))
    permit(endpoint, str(requests).encode())
    try:
        code, _, said = overlace("ingest", store("a.jsonl"), "--out", out, "--engine", "sail")
    finally:
        permit(endpoint, b"inf")
    whole = digest_here(tmp_path, store("a.jsonl"))
    assert code == 0 or (said.count("\n") == 1 and "permission denied" in said), said
    assert Trace.open(out).digest() in (before, whole)
    assert ingest_sources([store("a.jsonl")], out).trace.digest() == whole
    assert not any("/.lock" in path or "/.staging" in path for path in held(out))


def test_a_manifest_that_cannot_be_read_for_a_moment_is_not_taken_for_none(store, monkeypatch):
    """Else what it names would be removed as what a dead writer has left."""
    out = store("t")
    put(store("a.jsonl"), b"".join(lines(100)))
    ingest_sources([store("a.jsonl")], out)
    before = held(out)

    class Failing:
        def __init__(self, files):
            self.files = files

        def __getattr__(self, name):
            return getattr(self.files, name)

        def open_input_stream(self, path):
            if path.endswith("trace.json"):
                raise OSError("AWS Error NETWORK_CONNECTION during GetObject operation")
            return self.files.open_input_stream(path)

    def failing(path):
        files, at = place(path)
        return Failing(files), at

    monkeypatch.setattr("overlace.trace.writer.place", failing)
    with pytest.raises(OSError, match="NETWORK_CONNECTION"), writing(out):
        pass
    assert held(out) == before


def test_an_endpoint_that_does_not_answer_is_one_line(overlace, store, tmp_path):
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        silent = f"s3://bucket/x?endpoint_override=http://127.0.0.1:{free.getsockname()[1]}"
        for words in (("ingest", silent, "--out", "t", "--engine", "sail"), ("observe", silent, "--out", "run")):
            code, _, said = overlace(*words)
            assert (code, said.count("\n")) == (1, 1), said
            assert "the object store does not answer" in said
    assert not list(tmp_path.iterdir())


# --- addresses ------------------------------------------------------------------------------------------------


def test_what_is_appended_to_an_address_comes_before_its_settings():
    address = "s3://bucket/logs/?endpoint_override=http://127.0.0.1:1&region=r"
    assert (
        inside(address, "100%?.csv") == "s3://bucket/logs/100%25%3F.csv?endpoint_override=http://127.0.0.1:1&region=r"
    )
    assert name_of(inside(address, "100%?.csv")) == "100%?.csv"
    assert place(inside(address, "100%?.csv"))[1] == "bucket/logs/100%?.csv"
    assert inside("logs", "a?b") == "logs/a?b"
    assert log_of(inside(address, "a.log")) == log_of("s3://bucket/logs/a.log.2.gz")
    with pytest.raises(
        BadTrace, match="'allow' of|has 'background_writes'; expected endpoint_override, region, scheme"
    ):
        place("s3://bucket/x?background_writes=false")


def test_an_endpoint_is_the_same_setting_for_all(store, endpoint, monkeypatch):
    bucket, _, key = store("t").removeprefix("s3://").partition("?")[0].partition("/")
    monkeypatch.setenv("AWS_ENDPOINT_URL", endpoint)
    put(f"s3://{bucket}/a.jsonl", b"x")
    assert find_files([f"s3://{bucket}/"]) == [f"s3://{bucket}/a.jsonl"]
    monkeypatch.delenv("AWS_ENDPOINT_URL")
    found = options_of_s3a(Files(None, store(key)).bucket)
    assert found == {
        f"fs.s3a.bucket.{bucket}.endpoint": endpoint,
        f"fs.s3a.bucket.{bucket}.endpoint.region": "us-east-1",
        f"fs.s3a.bucket.{bucket}.path.style.access": "true",
        f"fs.s3a.bucket.{bucket}.connection.ssl.enabled": "false",
    }


def test_observe_refuses_a_run_that_is_an_address(store, tmp_path):
    with writing(str(tmp_path / "t")) as writer:
        writer.commit(bucket_us=60_000_000, unit="message", notes={})
    with pytest.raises(BadTrace, match="a local path is expected"):
        observe(str(tmp_path / "t"), "s3://bucket/run")


# --- Apache Spark ---------------------------------------------------------------------------------------------


@pytest.mark.jvm
def test_spark_reads_logs_from_a_store_and_names_the_jars_that_a_trace_there_needs(store, tmp_path, overlace):
    rows = lines(300)
    put(store("logs/a.jsonl"), b"".join(rows))
    code, _, said = overlace("ingest", store("logs"), "--out", "t", "--master", "local[1]")
    assert code == 0, said
    there = Trace.open(str(tmp_path / "t")).digest()
    code, _, said = overlace("ingest", store("logs"), "--out", store("t"), "--master", "local[1]")
    assert (code, said.count("\n")) == (1, 1), said
    assert "--conf spark.jars.packages=org.apache.hadoop:hadoop-aws:" in said
    assert not held(store("t"))
    assert command_digest(store, tmp_path) == there


def command_digest(store, tmp_path):
    """The digest of the same logs on Sail, in a process of its own."""
    process = command("ingest", store("logs"), "--out", "sail", "--engine", "sail", cwd=tmp_path)
    said = process.communicate(timeout=LONGEST)
    assert process.returncode == 0, said
    return Trace.open(str(tmp_path / "sail")).digest()
