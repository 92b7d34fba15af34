"""The wrapper against real brokers: NATS servers and Mosquittos, three in a row."""

import asyncio
import json
import os
import shutil
import subprocess
import sys
import textwrap
from contextlib import AsyncExitStack
from pathlib import Path

import pytest

from overlace.live import client as wrapper
from overlace.live.client import BadName, NoAnswer, Out, Refused, UnknownBroker, Unreachable, connect, hash_name
from tests.live.orders import Control
from tests.live.servers import MOSQUITTO, NATS, Mosquittos, NatsServers, free_port, until

pytestmark = [
    pytest.mark.live,
    pytest.mark.skipif(NATS is None, reason="no nats-server on PATH or in this environment"),
    pytest.mark.skipif(MOSQUITTO is None, reason="no mosquitto on PATH"),
]

ROW = [("a", "b"), ("b", "c")]
KINDS = {"nats": (NatsServers, "."), "mosquitto": (Mosquittos, "/")}


@pytest.fixture(scope="module", params=KINDS)
def row(request, tmp_path_factory):
    """Three brokers in a row, for tests that leave them as they were; and how topics are written."""
    kind, between = KINDS[request.param]
    with kind(tmp_path_factory.mktemp(request.param), "abc", ROW) as servers:
        servers.rest = {".": ">", "/": "#"}[between]
        servers.topic = lambda *words: between.join(words)
        yield servers


async def clients(stack, servers, **homes):
    """Connected clients by name, closed at the end."""
    return [await stack.enter_async_context(await connect(name, servers.network, home)) for name, home in homes.items()]


async def reach(publisher, *subscribers):
    """Wait until brokers on the way know what was subscribed: they learn it in the order in which it was done."""
    for each in subscribers:
        topic, seen = f"ready-{hash_name(each.name)}", []
        await each.subscribe(topic, lambda message, seen=seen: seen.append(1))

        async def try_again(topic=topic):
            await publisher._links[publisher.live].publish(Out(topic, b""))  # not counted

        await until_done(lambda seen=seen: seen, try_again)
        await each.unsubscribe(topic)


async def until_done(condition, again):
    while not condition():
        await again()
        await asyncio.sleep(0.01)


def test_messages_cross_brokers_with_headers_and_each_overlapping_filter(row):
    async def run():
        async with AsyncExitStack() as stack:
            left, right = await clients(stack, row, left="a", right="c")
            got = []
            for name in (row.topic("fab", row.rest), row.topic("fab", "4")):
                await right.subscribe(
                    name, lambda message: got.append((message.topic, message.payload, message.headers))
                )
            await reach(left, right)
            await left.publish(row.topic("fab", "4"), b"21.5", headers={"unit": "celsius"})
            await left.publish(row.topic("fab", "5"), "22")
            await left.flush()
            await until(lambda: len(got) >= 3)
            hot = (row.topic("fab", "4"), b"21.5", {"unit": "celsius"})
            assert sorted(got) == sorted([hot, hot, (row.topic("fab", "5"), b"22", {})])

    asyncio.run(run())


def test_requests_are_answered_and_silence_is_an_error(row):
    async def run():
        async with AsyncExitStack() as stack:
            left, right = await clients(stack, row, left="a", right="c")
            await right.subscribe("jobs", lambda message: message.respond(b"for " + message.payload))
            await reach(left, right)
            answers = await asyncio.gather(*(left.request("jobs", str(each), timeout=20) for each in range(20)))
            assert [answer.payload for answer in answers] == [b"for %d" % each for each in range(20)]
            with pytest.raises(NoAnswer):
                await left.request("nobody", b"", timeout=0.2)

    asyncio.run(run())


def test_each_message_of_a_group_goes_to_one_member_and_each_handler_of_a_filter_gets_all(row):
    async def run():
        async with AsyncExitStack() as stack:
            left, one, two = await clients(stack, row, left="a", one="c", two="c")
            got, watched = [], []
            for member in (one, two):
                await member.subscribe(
                    "work", lambda message, member=member: got.append((member.name, message.payload)), "g"
                )
            for _ in range(2):
                await one.subscribe("work", lambda message: watched.append(message.payload))
            await reach(left, one, two)
            for each in range(50):
                await left.publish("work", str(each))
            await until(lambda: len(got) == 50 and len(watched) == 100)
            assert sorted(payload for _, payload in got) == sorted(b"%d" % each for each in range(50))
            assert {name for name, _ in got} == {"one", "two"}
            assert ("work", None) in one.filters
            assert ("work", "g") in one.filters

    asyncio.run(run())


def test_handlers_run_one_after_the_other_and_a_failing_one_ends_nothing(row):
    async def run():
        async with AsyncExitStack() as stack:
            left, right = await clients(stack, row, left="a", right="b")
            got = []

            async def slow(message):
                await asyncio.sleep(0)
                if message.payload == b"3":
                    raise ValueError("three")
                got.append(int(message.payload))

            await right.subscribe("slow", slow)
            await reach(left, right)
            for each in range(10):
                await left.publish("slow", str(each))
            await until(lambda: len(got) == 9)
            assert got == [0, 1, 2, 4, 5, 6, 7, 8, 9]
            await right.unsubscribe("slow")
            assert right.filters == []

    asyncio.run(run())


def test_counts_are_exact_and_the_last_answer_comes_when_a_client_leaves(row):
    async def run():
        async with Control(row.network, "b") as control:
            left, right = await connect("left", row.network, "a"), await connect("right", row.network, "c")
            await right.subscribe("jobs", lambda message: message.respond(b"done"), "w")
            await reach(left, right)
            for each in range(17):
                await left.publish("t1", b"x" * each)
            for _ in range(3):
                await left.request("jobs", b"12345", timeout=20)
            first, second = await control.tell("left", do="count"), await control.tell("left", do="count")
            reply = row.topic({"nats": "_INBOX", "mosquitto": "_reply"}[row.substrate], hash_name("left"), "reply")
            assert first["counts"] == {"t1": [17, 136], "jobs": [3, 15]}
            assert first == second
            assert (await control.tell("right", do="count"))["counts"] == {reply: [3, 12]}
            answer = await control.tell("right", do="ask")
            assert "counts" not in answer
            assert [each for each in answer["filters"] if not each[0].startswith("_")] == [["jobs", "w"]]
            assert (answer["client"], answer["live"], answer["homes"]) == ("right", 0, ["c", None])
            assert first["filters"][0][0].startswith(reply.removesuffix("reply"))
            for each in (left, right):
                await each.close()
                await each.close()
            await until(lambda: len(control.left) == 2)
            left_with = [each["counts"] for each in control.left]  # two brokers pass the answers on, in either order
            assert sorted(left_with, key=len) == [{reply: [3, 12]}, first["counts"]]

    asyncio.run(run())


def test_long_answers_come_in_parts(row, monkeypatch):
    monkeypatch.setattr(wrapper, "PART", 1000)

    async def run():
        async with Control(row.network, "b") as control, AsyncExitStack() as stack:
            (left,) = await clients(stack, row, left="a")
            for each in range(100):
                await left.publish(row.topic("many", f"topic-{each}"), b"x")
            answer = await control.tell("left", do="count")
            assert answer["parts"] >= 3
            assert answer["counts"] == {row.topic("many", f"topic-{each}"): [1, 1] for each in range(100)}

    asyncio.run(run())


def test_unknown_and_broken_orders_are_answered_with_an_error_and_change_nothing(row):
    async def run():
        async with Control(row.network, "b") as control, AsyncExitStack() as stack:
            (left,) = await clients(stack, row, left="a")
            for order in (
                {"do": "dance"}, {}, {"do": "prepare", "colour": 7, "home": "a"},
                {"do": "prepare", "colour": 1, "home": 3},
                {"do": "prepare", "colour": 1, "home": "127.0.0.1:9"}, {"do": "switch", "colour": 1},
                {"do": "sample", "share": 2}, {"do": "switch", "colour": True, "hold_ms": -1},
            ):  # fmt: skip
                answer = await control.tell("left", **order)
                assert answer["error"], order
                assert answer["homes"] == ["a", None]
            for do in ("finish", "cancel", "ask"):
                assert "error" not in await control.tell("left", do=do)
            assert repr(left) == "Client('left', live=0, homes=['a', None])"

    asyncio.run(run())


def test_names_topics_and_brokers_that_cannot_be(row):
    async def run():
        for name in ("", "  ", "a\nb", "\u2028"):
            with pytest.raises(BadName):
                await connect(name, row.network)
        with pytest.raises(UnknownBroker, match="There are: a, b, c"):
            await connect("left", row.network, "d")
        async with await connect("left", row.network) as left:
            assert left.home == "a"  # nobody says where: the first that answers
            for topic in ("", row.topic("a", row.rest), "a\nb"):
                with pytest.raises(BadName):
                    await left.publish(topic, b"")
            with pytest.raises(wrapper.ClientError, match="payload"):
                await left.publish("a", 7)
            assert left.counts == {}
        with pytest.raises(wrapper.ClientError, match="closed"):
            await left.publish("a", b"")

    asyncio.run(run())


def test_homes_come_from_the_table(row, tmp_path):
    network = wrapper.read_network(row.network)
    (tmp_path / "homes.csv").write_text("client,broker\nleft,c\n*,b\n")
    network["homes"] = str(tmp_path / "homes.csv")

    async def run():
        async with await connect("left", network) as left, await connect("other", network) as other:
            assert (left.home, other.home) == ("c", "b")

    asyncio.run(run())


def test_a_wrong_password_a_dead_broker_and_a_bad_file_are_one_exception_each(row, tmp_path, monkeypatch):
    network = wrapper.read_network(row.network)
    (tmp_path / "wrong").write_text("not it")
    wrong = {**network, "credentials": {"clients": {"user": "clients", "password_file": str(tmp_path / "wrong")}}}
    dead = {**network, "brokers": {"a": {"client": f"127.0.0.1:{free_port()}"}}}
    unset = {**network, "credentials": {"clients": {"user": "clients", "password_env": "OVERLACE_NOT_SET"}}}

    async def run():
        with pytest.raises(Refused, match="credentials"):
            await connect("left", wrong)
        with pytest.raises(Unreachable, match="does not answer"):
            await connect("left", dead)
        with pytest.raises(wrapper.BadNetworkFile, match="OVERLACE_NOT_SET"):
            await connect("left", unset)
        for text in ("substrate = ", "substrate = 'rabbit'", "substrate = 'nats'\n[brokers.a]\nclient = 'x'"):
            (tmp_path / "network.toml").write_text(text)
            with pytest.raises(wrapper.BadNetworkFile):
                await connect("left", tmp_path)
        with pytest.raises(wrapper.BadNetworkFile, match="cannot be read"):
            await connect("left", tmp_path / "nothing.toml")

    asyncio.run(run())


def test_a_client_that_gives_orders_is_refused_by_the_broker(row):
    """Only the control user may: not even to itself."""

    async def run():
        async with Control(row.network, "b") as control, AsyncExitStack() as stack:
            left, right = await clients(stack, row, left="a", right="c")
            orders = row.topic({"nats": "_OVERLACE", "mosquitto": "$overlace"}[row.substrate], "ctl")
            forged = json.dumps({"do": "sample", "share": 1, "reply": "x"})
            for target in (hash_name("right"), hash_name("left"), "all"):
                await left.publish(row.topic(orders, target), forged, qos=1)
                with pytest.raises(Refused, match="violation|not authorized"):
                    await left.flush()
            await left.flush()
            for name in ("left", "right"):
                await control.tell(name, do="ask")  # a forged order would have come first
            assert left._share == right._share == 0

    asyncio.run(run())


def test_a_client_comes_back_when_its_broker_was_restarted(tmp_path):
    """What it publishes meanwhile is kept; its filters are subscribed again."""

    async def run(servers, key, restart):
        async with AsyncExitStack() as stack:
            left, right = await clients(stack, servers, left="a", right="a")
            got = []
            await right.subscribe("t", lambda message: got.append(message.payload))
            await asyncio.to_thread(servers.kill, key)
            await until(lambda: not left._links[0].up and not right._links[0].up, "both notice")
            await left.publish("t", b"kept")
            await asyncio.to_thread(restart)
            await until(lambda: left._links[0].up and right._links[0].up, "both are back")
            await right.flush()
            await left.publish("t", b"after")
            await until(lambda: b"after" in got)
            assert set(got) <= {b"kept", b"after"}

    for kind in KINDS:
        folder = tmp_path / kind
        folder.mkdir()
        with KINDS[kind][0](folder, "a", []) as servers:
            if kind == "nats":
                asyncio.run(run(servers, "a", lambda servers=servers: servers.run("a")))
            else:
                asyncio.run(run(servers, ("a", 0), lambda servers=servers: servers.run("a", 0, [])))


def test_a_handler_may_give_up_its_own_filter(row):
    async def run():
        async with AsyncExitStack() as stack:
            left, right = await clients(stack, row, left="a", right="a")
            got = []

            async def once(message):
                await right.unsubscribe("once")
                await asyncio.sleep(0)
                got.append(message.payload)

            await right.subscribe("once", once)
            await left.publish("once", b"1")
            await until(lambda: got == [b"1"])
            assert right.filters == []

    asyncio.run(run())


def test_two_clients_of_one_name_throw_each_other_out_only_so_often(tmp_path, caplog):
    """Mosquitto keeps one connection for a name, and paho comes back at once."""

    async def run(servers):
        first = await connect("same", servers.network, "a")
        second = await connect("same", servers.network, "a")
        await until(lambda: "another client is called 'same'" in caplog.text)
        for each in (first, second):
            await each.close()

    with Mosquittos(tmp_path, "a", []) as servers:
        asyncio.run(run(servers))


def test_the_example_of_the_file_is_true(tmp_path, capfd):
    with NatsServers(tmp_path, "a", []) as servers:
        (tmp_path / "net").mkdir()
        text = servers.network.read_text().replace(' = "clients.password"', ' = "../clients.password"')
        (tmp_path / "net" / "network.toml").write_text(text)
        code = wrapper.__doc__.split("\n\n", 2)[2].split("\n\nA client is known")[0]
        done = subprocess.run(
            [sys.executable, "-c", textwrap.dedent(code)], capture_output=True, text=True, timeout=60, cwd=tmp_path,
            env={**os.environ, "PYTHONPATH": str(Path(wrapper.__file__).parents[2])}, check=False,
        )  # fmt: skip
    assert (done.stdout, done.stderr) == ("fab.4.temp b'21.5'\nb'job 7'\n", "")


def test_sampling_adds_a_destination_of_its_own_to_a_share_and_ends_by_itself(tmp_path):
    async def run(servers):
        async with Control(servers.network, "a") as control, AsyncExitStack() as stack:
            left, right = await clients(stack, servers, left="a", right="b")
            got, traces = [], []

            async def traced(message):
                traces.append((message.subject, json.loads(message.data)))

            await control.nats.subscribe("_OVERLACE.trace.*", cb=traced)
            await control.nats.flush()
            await right.subscribe("t", lambda message: got.append(message.headers))
            await reach(left, right)
            assert "error" not in await control.tell("left", do="sample", share=1, seconds=60)
            for _ in range(10):
                await left.publish("t", b"x", headers={"k": "v"})
            await until(lambda: len(traces) == 20 and len(got) == 10)  # two servers each
            assert len({subject for subject, _ in traces}) == 10
            assert got == [{"k": "v"}] * 10  # handlers do not see it
            await control.tell("left", do="sample", share=0.5, seconds=0)
            for _ in range(10):
                await left.publish("t", b"x")
            await until(lambda: len(got) == 20)
            await control.nats.flush()
            assert len(traces) == 20
            assert left.counts == {"t": (20, 20)}

    with NatsServers(tmp_path, "ab", [("a", "b")]) as servers:
        asyncio.run(run(servers))


# One file, alone

ALONE = """
import asyncio, sys
sys.path[:0] = [{folder!r}, {site!r}]


class Only:
    def find_spec(self, name, path=None, target=None):
        if name.split(".")[0] in ("overlace", "paho", "numpy", "pydantic", "pyspark", "typer"):
            raise ImportError(f"{{name}} is not installed here")


sys.meta_path.insert(0, Only())
import client


async def main():
    async with await client.connect("alone", {network!r}, "a") as alone:
        await alone.publish("t", b"hello from one file")
        await alone.flush()


asyncio.run(main())
print(sorted({{name.split(".")[0] for name in sys.modules}} & {{"nats", "paho", "overlace"}}))
"""


def test_the_file_runs_where_only_nats_py_is_installed(tmp_path):
    import nats

    alone, site = tmp_path / "alone", tmp_path / "site"
    alone.mkdir(), site.mkdir()
    shutil.copy(wrapper.__file__, alone / "client.py")
    (site / "nats").symlink_to(Path(nats.__file__).parent)

    async def run(servers):
        async with await connect("listener", servers.network, "a") as listener:
            got = []
            await listener.subscribe("t", lambda message: got.append(message.payload))
            program = ALONE.format(folder=str(alone), site=str(site), network=str(servers.network))
            done = await asyncio.to_thread(
                subprocess.run, [sys.executable, "-I", "-S", "-c", program], capture_output=True, text=True, timeout=60,
                env={"PATH": os.environ["PATH"]}, check=False,
            )  # fmt: skip
            assert (done.stdout, done.stderr) == ("['nats']\n", "")
            await until(lambda: got == [b"hello from one file"])

    with NatsServers(tmp_path, "a", []) as servers:
        asyncio.run(run(servers))


ODD = [
    "", " ", "a b", ".", "..", "/", "//", "+", "#", "*", ">", "a.>", "a/#", "a.>.b", "a/#/b", "a\nb", "a\x00b",
    "a\x85b", "\u2028", "\ud800", "ü☃", "\ufeff", "\uffff", "\ufdd0", "\U0001fffe", "$SYS.x", "$SYS/x", "$share/g/x",
    "$share", "$share/", "$share/g", "$share//x", "$share/+/x", "x" * 3_400, "x" * 5_000, "x" * 70_000,
    "/".join("x" * 201), "/".join("x" * 202), ".".join("x" * 300), "'\"\\{}[]%", None, 5, b"x",
]  # fmt: skip
"""Topics, filters, groups, headers that are fine, or that brokers end connections over."""


def test_no_topic_filter_group_or_header_ends_the_connection(row):
    """What a broker would end a connection over is refused before it is sent; all else comes back from the broker."""

    async def run():
        async with AsyncExitStack() as stack:
            (odd,) = await clients(stack, row, odd="b")
            link = odd._links[odd.live]
            gone = []
            if hasattr(link, "_paho"):
                link._gone = gone.append
            else:
                link._connection._disconnected_cb = lambda: gone.append(1) or asyncio.sleep(0)
            tries = [
                lambda each: odd.publish(each, b""),
                lambda each: odd.subscribe(each, lambda message: None),
                lambda each: odd.subscribe("fine", lambda message: None, group=each),
                lambda each: odd.publish("fine", b"", headers={each: "x"}),
                lambda each: odd.publish("fine", b"", headers={"x": each}),
            ]
            for act in tries:
                for each in ODD:
                    try:
                        await act(each)
                        await odd.flush()
                    except (BadName, Refused):
                        pass
                    assert not gone, (tries.index(act), each)

    asyncio.run(run())


def test_a_subscription_that_fails_leaves_the_earlier_ones(row, monkeypatch):
    async def run():
        async with AsyncExitStack() as stack:
            (one,) = await clients(stack, row, one="b")
            got = []
            await one.subscribe("twice", lambda message: got.append(1))

            async def fail():
                raise Unreachable("away")

            with monkeypatch.context() as patch:
                patch.setattr(one._links[one.live], "barrier", fail)
                for name in ("twice", "new"):
                    with pytest.raises(Unreachable):
                        await one.subscribe(name, lambda message: got.append(2))
            assert one.filters == [("twice", None)]
            await one.publish("twice")
            await until(lambda: got)
            await one.flush()
            assert got == [1]

    asyncio.run(run())


def test_a_handler_may_close_its_own_client(row):
    async def run():
        before = asyncio.all_tasks()
        left, right = [await connect(name, row.network, "b") for name in ("left", "right")]
        await right.subscribe("bye", lambda message: right.close())
        await reach(left, right)
        await left.publish("bye")
        await until(lambda: right._closed and not right._links)
        await left.close()
        await until(lambda: asyncio.all_tasks() <= before)

    asyncio.run(run())
