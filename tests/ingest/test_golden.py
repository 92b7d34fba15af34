"""From the lines of a log to an observation: it is what plain Python counts of the messages."""

import json
import tempfile
from pathlib import Path

from hypothesis import given
from hypothesis import strategies as st

from overlace.ingest.options import Options
from overlace.observe.observation import observe_with_names
from tests.engine import ingest_sources
from tests.ingest.logs import START, ingested
from tests.observe.brute import observed, of_observation

clients = st.sampled_from("abcdefgh")
messages = st.builds(
    dict,
    at=st.integers(START, START + 7200),
    client=clients,
    receivers=st.lists(clients, max_size=5, unique=True),
    bytes=st.integers(0, 9),
    weight=st.sampled_from([1, 1, 3]),
)


@ingested(30)
@given(st.lists(messages, min_size=1, max_size=20), st.randoms(use_true_random=False))
def test_an_observation_is_what_plain_python_counts(messages, random):
    """Whether a message is one row or several, in whatever order, and however often the log is read as it grows."""
    rows = []
    for number, message in enumerate(messages):
        parts = random.randint(1, 3)
        rows += [{**message, "id": number, "receivers": message["receivers"][i::parts]} for i in range(parts)]
    random.shuffle(rows)
    lines = [json.dumps(row) + "\n" for row in rows]
    with tempfile.TemporaryDirectory() as folder:
        log, options = Path(folder, "a.jsonl"), Options(bucket="minute", unit="s")
        for end in sorted({random.randint(1, len(lines)), len(lines)}):
            log.write_text("".join(lines[:end]))
            done = ingest_sources([str(log)], f"{folder}/trace", options)
        assert of_observation(*observe_with_names(done.trace)) == observed(messages)
    assert done.trace.rows("messages") == len(messages)
    assert all(account.adds_up() for account in done.accounts)
