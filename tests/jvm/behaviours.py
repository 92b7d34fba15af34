"""What an ingest must do, on one engine: what this returns is the same on every engine.

python -m tests.jvm.behaviours LOGS OUT ENGINE      an engine as JSON: {"master": "local[2]"}

Logs of one folder: keys of messages hold within a log, which is known by its path.
"""

import gzip
import json
import os
import random
import sys
from pathlib import Path
from unittest import mock

import pyarrow as pa

from overlace.errors import BadTrace
from overlace.ingest import source
from overlace.ingest.options import Options
from overlace.observe.observation import observe_with_names
from overlace.spark.engines import Engine, session
from overlace.spark.ingest import ingest
from overlace.trace.store import Trace
from tests.ingest.test_mosquitto import BRIDGED
from tests.observe.brute import observed, of_observation

START = 1_767_571_200
EVENTS = Path(__file__).parents[1] / "ingest/nats_events.jsonl"


def made_up(count=400, clients=12):
    rng = random.Random(1)
    return [
        {
            "at": START + i * 3 * 86_400 // count, "client": f"c{rng.randrange(clients)}", "topic": f"t/{i % 5}",
            "broker": f"b{i % 3}", "bytes": rng.randrange(1000), "id": i,
            "receivers": sorted({f"c{rng.randrange(clients)}" for _ in range(rng.randrange(5))}),
        }
        for i in range(count)
    ]  # fmt: skip


def behaviours(folder, out, spark):
    """(digest, accounts) of each behaviour, by its name; what plain Python can count is counted."""
    source.LEAST = source.MOST = 30_000  # several tasks from a small log
    rng, found, messages = random.Random(2), {}, made_up()

    def kept(name, logs, **options):
        done = ingest(logs, str(out / name), spark=spark, **options)
        assert all(account.adds_up() for account in done.accounts)
        lines = [[a.lines, a.kept, sum(a.ignored.values()), a.bad, a.duplicates] for a in done.accounts]
        found[name] = [done.trace.digest(), sorted(lines)]
        return done.trace

    # deliveries with a key, in any order, over a file and its rotation; some bad, some twice
    rows = [{**each, "receivers": each["receivers"][k::2]} for each in messages for k in range(2)]
    rng.shuffle(rows)
    lines = [json.dumps(row).encode() + b"\n" for row in rows]
    for where in (7, 600):
        lines[where:where] = [b"{\n", b'{"at": "never"}\n', lines[3]]
    (folder / "log.jsonl").write_bytes(b"".join(lines[:500]))
    (folder / "log.jsonl.1.gz").write_bytes(gzip.compress(b"".join(lines[500:])))
    logs = [str(folder / "log.jsonl"), str(folder / "log.jsonl.1.gz")]
    trace = kept("keyed", logs)
    assert of_observation(*observe_with_names(trace)) == observed(messages)
    assert trace.rows("messages") == len(messages)

    # the same as it grows; with names hidden; refused, and the trace is as it was
    for end in (300, len(lines), len(lines)):
        (folder / "grown.jsonl").write_bytes(b"".join(lines[:end]))
        trace = kept("grown", str(folder / "grown.jsonl"))
    assert of_observation(*observe_with_names(trace)) == observed(messages)
    with mock.patch.dict(os.environ, {"OVERLACE_KEY": "sixteen bytes or more"}):
        kept("hidden", logs, pseudonymise=True)
    before = Trace.open(str(out / "grown")).digest()
    try:
        ingest(logs[1], str(out / "grown"), spark=spark, options=Options(strict=True))
    except BadTrace as error:
        found["refused"] = str(error).replace(str(folder), "")
    assert Trace.open(str(out / "grown")).digest() == before

    # brokers' own logs, with a bridge, rows that agree and sums, all at once; and a frame
    several = folder / "several"
    several.mkdir(exist_ok=True)
    for name, text in (("hub", BRIDGED), ("plant-b", BRIDGED.replace("plant-b", "hub"))):
        (several / f"{name}.log").write_text(text)
    (several / "nats.jsonl").write_bytes(EVENTS.read_bytes())
    (several / "mail.csv").write_text("src,dst,time\n" + "".join(f"a{i % 3},b{i % 7},{i // 5}\n" for i in range(300)))
    hours = "".join(f"2026-01-05T{i % 24:02}:00,c{i % 5},t,{i},{i * 7}\n" for i in range(90))
    (several / "counts.csv").write_text("hour,client,topic,messages,bytes\n" + hours)
    kept("several", str(several))
    frame = pa.table({"src": ["a", "b", "a"], "dst": ["b", "c", "c"], "when": [START, START, START + 9]})
    kept("frame", frame, client="src", receiver="dst", at="when", unit="s")
    return found


if __name__ == "__main__":
    with session(engine=Engine(**json.loads(sys.argv[3]))) as made:
        print(json.dumps(behaviours(Path(sys.argv[1]), Path(sys.argv[2]), made)))
