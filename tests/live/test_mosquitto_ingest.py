"""Three real brokers in a row, their logs ingested together: flows are what the clients themselves got."""

from collections import Counter

import pytest

from overlace.spark.ingest import ingest
from tests.live.broker import MOSQUITTO, Broker, wait_until
from tests.traces import observe

pytestmark = [
    pytest.mark.live,
    pytest.mark.jvm,
    pytest.mark.skipif(MOSQUITTO is None, reason="no mosquitto on this machine: install Debian's package"),
]


@pytest.fixture
def start(tmp_path):
    """Start brokers; all are stopped at the end, also of a test that fails."""
    brokers = []
    (tmp_path / "logs").mkdir()

    def run(name, settings=""):
        brokers.append(Broker(tmp_path / "logs", name, settings))
        wait_until(brokers[-1].listens, f"{name} listens")
        return brokers[-1]

    yield run
    for broker in brokers:
        broker.stop()


def bridge(name, to):
    return f"connection {name}\naddress 127.0.0.1:{to.port}\nremote_clientid {name}\ntopic # both 1\n"


def test_messages_are_followed_over_two_bridges_and_bridges_become_links(start, spark, tmp_path):
    hub = start("hub")
    west = start("west", bridge("w", hub))
    east = start("east", bridge("e", hub))
    for broker, name in ((west, "w"), (east, "e")):
        wait_until(lambda b=broker, n=name: f"Received SUBACK from local.{n}" in b.text(), "the bridge is up")
    brokers = {"hub": hub, "west": west, "east": east}
    subscribers = {f"{site}/s": broker.client("s", ("#", 1)) for site, broker in brokers.items()}
    publishers = {f"{site}/p": broker.client("p") for site, broker in brokers.items()}
    sizes = {}
    for turn in range(8):
        for k, (name, publisher) in enumerate(publishers.items()):
            size = 1 + k + 3 * (turn % 2)  # the publisher is told by the payload's length
            sizes[size] = name
            publisher.publish("t", b"x" * size, qos=1 + turn % 2)
    wait_until(lambda: all(len(each.got) == 24 for each in subscribers.values()), "everybody has everything")
    wait_until(lambda: all(broker.settled() for broker in brokers.values()), "all is acknowledged")
    for broker in brokers.values():
        broker.end()  # nobody leaves: whoever left in the last minute would have no home at its end
    for conf in (tmp_path / "logs").glob("*.conf"):
        conf.unlink()

    done = ingest([str(tmp_path / "logs")], str(tmp_path / "trace"), spark=spark)
    found, names = observe(done.trace), done.trace.names
    flows = Counter()
    for sender, receiver, messages in zip(found.flows.sender, found.flows.receiver, found.flows.messages, strict=True):
        flows[names["client"][sender], names["client"][receiver]] = int(messages)
    assert flows == {(sender, receiver): 8 for sender in publishers for receiver in subscribers}
    links = {frozenset((names["broker"][a], names["broker"][b])) for a, b in found.overlay.tree.tolist()}
    assert links == {frozenset(("west", "hub")), frozenset(("east", "hub"))}
    homes = {names["client"][c]: names["broker"][b] for c, b in found.overlay.placement.tolist()}
    assert homes == {name: name.split("/")[0] for name in (*publishers, *subscribers)}
    assert all(account.adds_up() for account in done.accounts)
    assert "were followed back to their publishers" in done.notes[0]
    assert len(done.notes) == 1
