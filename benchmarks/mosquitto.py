"""How many sends of a real Mosquitto are given to the wrong message, in bursts of growing rudeness.

Publishers write on few topics at QoS 0, 1 and 2; every payload is distinct, so the receivers themselves say what
they got. A pair is (message, receiver). Wrong are pairs that the reader makes up and pairs that it misses.
"""

from __future__ import annotations

import random
import re
import sys
import tempfile
import threading
import time
from collections import Counter
from pathlib import Path
from typing import Any

import pyarrow as pa
from protocol import table, write

sys.path.insert(0, str(Path(__file__).parent.parent))

from overlace.ingest.formats.mosquitto import FORMAT
from tests.live.broker import MOSQUITTO, Broker, wait_until

BURSTS = (
    # what, settings of the broker, how many a publisher has under way (None: paho's 20; 0: no limit)
    ("within all limits", "", None),
    ("queues of 30: most is dropped", "max_queued_messages 30", None),
    ("publishers beyond their limits", "", 0),
    ("the same, queues of 30", "max_queued_messages 30", 0),
    ("the same, queues of 30, 5 in flight", "max_queued_messages 30\nmax_inflight_messages 5", 0),
)
EACH = 500  # messages a publisher
RUNS = 3


def burst(folder: Path, settings: str, at_once: int | None, seed: int) -> tuple[Broker, dict[Any, bytes], list[Any]]:
    """(broker, sent, receivers): a burst that is over, its broker stopped."""
    broker = Broker(folder, f"b{seed}", settings)
    try:
        wait_until(broker.listens, "the broker listens")
        receivers = [
            *(broker.client(f"at {q} (v{3 + 2 * v5})", ("t", q), v5=v5) for q in (0, 1, 2) for v5 in (False, True)),
            broker.client("all", ("#", 2)),
            broker.client("twice", ("#", 1), ("t", 2), v5=True),
        ]
        publishers = [broker.client(f"p{i}", at_once=at_once) for i in range(4)]
        sent: dict[Any, bytes] = {}

        def publish(i: int) -> None:
            rng, at_zero = random.Random(4 * seed + i), 0
            for k in range(EACH):
                topic = "t" if rng.random() < 0.8 else f"u/{k % 2}"
                qos = (1, 2, 1, rng.randrange(3))[i]
                payload = f"{i} {k} ".encode().ljust(20, b".")
                mid = publishers[i].publish(topic, payload, qos).mid
                sent[f"p{i}", str(mid) if qos else ("at zero", at_zero)] = payload
                at_zero += qos == 0

        threads = [threading.Thread(target=publish, args=(i,)) for i in range(4)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        wait_until(broker.settled, "the burst is over")
    finally:
        broker.stop()
    return broker, sent, receivers


def judged(broker: Broker, sent: dict[Any, bytes], receivers: list[Any]) -> Counter[str]:
    """What the reader makes of the log, against what the receivers got."""
    log = broker.log.read_bytes()
    start = time.perf_counter()
    events = pa.Table.from_batches(list(FORMAT.read(iter([(0, log)]), {"broker": broker.name}))).to_pylist()
    at_zero: Counter[str] = Counter()
    found = set()
    for row, line in zip(events, log.decode().splitlines(), strict=True):
        if row["kind"] == "message":
            named = re.search(r"from (p\d) \(d0, q(\d), r0, m(\d+),", line)
            assert named, line
            who, qos, mid = named.groups()
            payload = sent[who, mid if qos != "0" else ("at zero", at_zero[who])]
            at_zero[who] += qos == "0"
            found |= {(payload, receiver) for receiver in row["receivers"]}
    truth = {(payload, receiver.name) for receiver in receivers for payload in receiver.got}
    return Counter(
        messages=len(sent),
        sends=log.count(b"Sending PUBLISH to "),
        refused=len(re.findall(rb"Sending PUB(?:ACK|REC) to .* rc(?:12[89]|1[3-9]\d|2\d\d)\)", log)),
        dropped=log.count(b"Outgoing messages are being dropped"),
        pairs=len(truth),
        wrong=len(found - truth),
        missed=len(truth - found),
        milliseconds=int(1000 * (time.perf_counter() - start)),
    )


def bursts() -> str:
    rows = []
    for what, settings, at_once in BURSTS:
        total: Counter[str] = Counter()
        for seed in range(RUNS):
            with tempfile.TemporaryDirectory() as folder:
                total += judged(*burst(Path(folder), settings, at_once, seed))
        names = ("messages", "refused", "sends", "pairs", "wrong", "missed")
        share = (total["wrong"] + total["missed"]) / max(1, total["pairs"])
        rows.append((what, *(f"{total[name]:,}" for name in names), f"{share:.2%}"))
        print(rows[-1], file=sys.stderr)
    head = ("burst", "messages", "refused by the broker", "sends", "pairs", "made up", "missed", "wrong")
    return f"## Bursts of {EACH} messages each by 4 publishers, {RUNS} runs together\n\n" + table(head, rows)


if __name__ == "__main__":
    if MOSQUITTO is None:
        print("no mosquitto on this machine (apt install mosquitto): nothing measured")
        sys.exit(0)
    write(__file__, "Mosquitto's log", [__doc__.partition("\n\n")[2].strip(), bursts()])
