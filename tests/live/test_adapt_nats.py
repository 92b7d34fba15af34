"""`live adapt` on real NATS brokers under load: it applies once, loses nothing, and Ctrl-C ends it."""

import asyncio
import json
import os
import signal
import sys

import pytest

from overlace.live import servers
from overlace.live.kept import Memory
from overlace.live.local import down, up
from overlace.live.options import LocalOptions, TrafficOptions
from overlace.live.traffic import Load

pytestmark = [
    pytest.mark.live,
    pytest.mark.skipif(servers.find_program("nats") is None, reason="no nats server on this machine"),
]
PATIENCE = 240  # seconds; planning compiles its kernels once

COMMAND = "import sys; from overlace.cli import main; sys.exit(main())"


@pytest.fixture
def deployment(tmp_path):
    made = up(tmp_path / "net", LocalOptions(brokers=3, seed=5), bound=True)
    yield made
    down(made)


def test_it_applies_once_under_load_loses_nothing_and_ends_when_asked(deployment):
    async def story():
        load = Load(deployment, TrafficOptions(seed=5, clients=12, topics=8, rate=250))
        await load.start()
        running = asyncio.create_task(load.run(PATIENCE))
        words = ["live", "adapt", "--network", str(deployment.path), "--every", "2.5", "--json", "--effort", "0"]
        process = await asyncio.create_subprocess_exec(
            sys.executable, "-c", COMMAND, *words, stdout=asyncio.subprocess.PIPE, stderr=asyncio.subprocess.PIPE,
            env={**os.environ, "PYTHONPATH": os.getcwd()},
        )  # fmt: skip
        try:
            lines = [await asyncio.wait_for(process.stdout.readline(), PATIENCE) for _ in range(2)]
            if not all(lines):
                raise AssertionError((await process.stderr.read()).decode())
            process.send_signal(signal.SIGINT)
            _, told = await asyncio.wait_for(process.communicate(), PATIENCE)
        finally:
            if process.returncode is None:
                process.kill()
                await process.wait()
            load.end()
            tally = await running
            await load.stop()
        return [json.loads(line) for line in lines], process.returncode, told.decode(), tally

    (first, second), code, told, tally = asyncio.run(story())
    assert code == 0, told
    assert first["applied"], first["why"]
    assert first["applied"]["landed"] == first["applied"]["clients"] == 12
    assert first["gain"] >= 0.05
    assert second["window"] == 2
    assert second["crossings"] < first["crossings"]
    assert (tally.lost, tally.duplicated, tally.unanswered) == (0, 0, 0)
    kept = Memory(deployment).read()
    assert kept.number >= 2
    assert len(kept.moved) >= first["moves"]
    assert (deployment.folder / "journal" / "0001.jsonl").exists()
