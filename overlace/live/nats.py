"""NATS networks: brokers joined by leafnode links, each colour an account."""

from __future__ import annotations

import asyncio
import contextlib
import json
import re
import secrets
import time
from collections.abc import AsyncIterator, Collection, Mapping
from typing import TYPE_CHECKING, Any

from overlace.errors import BadNetwork, Busy
from overlace.extras import require
from overlace.live import nats_files
from overlace.live.adapter import Answer, Answers, Order, Seen, Shown, await_links
from overlace.live.client import ClientError, client_address, connect_nats, hash_name, nats_options
from overlace.live.deploying import deploy
from overlace.live.deployment import Deployment
from overlace.live.monitor import ONLY_ACCOUNT, connections, look, look_at_all
from overlace.live.mosquitto_files import Filters
from overlace.live.servers import refuse_old
from overlace.live.wiring import Links, Pair, links_of, pair

if TYPE_CHECKING:
    from nats.aio.client import Client
    from nats.aio.msg import Msg

PATIENCE = 3.0
"""Seconds to wait for an answer."""

APPLIER = "_OVERLACE.applier"
USER = "$SYS.REQ.USER.INFO"
OURS = "overlace."
"""How the names of our own connections begin."""


class NatsNetwork:
    """A NATS network."""

    def __init__(self, deployment: Deployment) -> None:
        require("live", "nats")
        self.deployment = deployment
        self.connected: dict[tuple[str, str, int], Client] = {}
        self.farewells: list[bytes] = []
        self.meant: dict[int, Links] = {}

    async def connect(self, broker: str, role: str = "control", colour: int = 0) -> Client:
        """Our connection to a broker as a role, in a colour; made once."""
        key = broker, role, colour
        if key in self.connected and self.connected[key].is_connected:
            return self.connected[key]
        network = self.deployment.plain()
        try:
            options = nats_options(network, role, None if role == "plain" else colour)
            name = f"{OURS}{role}.{secrets.token_hex(4)}"
            made = await connect_nats(client_address(network, broker, colour), name, PATIENCE, **options)
        except ClientError as error:
            raise BadNetwork(f"{broker} does not take {role}: {error}") from None
        self.connected[key] = made
        if role == "control" and broker == self.first:
            await made.subscribe("_OVERLACE.left", cb=self._take_farewell)
            await made.flush()
        return made

    async def _take_farewell(self, message: Msg) -> None:
        self.farewells.append(message.data)

    async def shown(self) -> Shown:
        """What the brokers say over their monitoring."""
        deployment = self.deployment
        general, leafs = await asyncio.gather(look_at_all(deployment, "varz"), look_at_all(deployment, "leafz"))
        listed = await asyncio.gather(*(connections(deployment, b, "subs=detail&auth=1") for b in deployment.brokers))
        versions = {}
        for broker, told in general.items():
            versions[broker] = str(told.get("version", "")) if told else ""
            if told and told.get("server_name") != broker:
                raise BadNetwork(
                    f"{deployment.of(broker).monitor} is called {told.get('server_name')!r}; the network file says "
                    f"{broker!r}. A server's server_name is its name here."
                )
            if told:
                refuse_old("nats", broker, versions[broker])
        wired: tuple[list[Pair], list[Pair]] = ([], [])
        for broker, told in leafs.items():
            for leaf in (told or {}).get("leafs") or []:
                if leaf.get("account") in deployment.colours and leaf.get("name") in deployment.brokers:
                    wired[deployment.colours.index(leaf["account"])].append((broker, leaf["name"]))
        seen, nameless = self._clients(dict(zip(deployment.brokers, listed, strict=True)))
        accounts = {leaf.get("account") for told in leafs.values() for leaf in (told or {}).get("leafs") or []}
        accounts |= {row["account"] for rows in listed for row in rows or []}
        if accounts == {ONLY_ACCOUNT} and ONLY_ACCOUNT not in deployment.colours:
            raise BadNetwork(
                f"{deployment.path}: all clients and links are in the account {ONLY_ACCOUNT}, none in "
                f'{" or ".join(deployment.colours)}. Servers without accounts need colours = ["{ONLY_ACCOUNT}"] here; '
                "such a network can be recorded and exported."
            )
        return Shown(versions, (links_of(wired[0]), links_of(wired[1])), seen, nameless)

    def _clients(self, listed: dict[str, list[dict[str, Any]] | None]) -> tuple[dict[str, Seen], int]:
        """(clients by name, connections without one)."""
        colours = self.deployment.colours
        homes: dict[str, list[list[str]]] = {}
        filters: dict[str, dict[tuple[str, str | None], None]] = {}
        follow: dict[str, set[int]] = {}
        plain: set[str] = set()
        own_user = self._plain_user()
        nameless = 0
        for broker, rows in listed.items():
            for row in rows or []:
                name = row.get("name", "")
                if row.get("account") not in colours or name.startswith(OURS):
                    continue
                if not name:
                    nameless += 1
                    continue
                colour = colours.index(row["account"])
                if own_user and row.get("authorized_user") == own_user:
                    plain.add(name)
                homes.setdefault(name, [[], []])[colour].append(broker)
                own = filters.setdefault(name, {})
                for each in row.get("subscriptions_list_detail") or []:
                    if each["subject"] == f"_OVERLACE.ctl.{hash_name(name)}":
                        follow.setdefault(name, set()).add(colour)
                    elif not each["subject"].startswith("_OVERLACE."):
                        own[each["subject"], each.get("qgroup") or None] = None
        found = {}
        for name, (first, second) in homes.items():
            live = int(not first)
            connected = max(len(first), len(second))
            at = (first[0] if first else None, second[0] if second else None)
            movable = name in follow or name in plain
            found[name] = Seen(at, live, tuple(filters[name]), name in follow, connected, movable)
        return found, nameless

    def _plain_user(self) -> str:
        """Who clients without the wrapper are; empty if the network file names nobody."""
        if self.deployment.credentials.plain is None:
            return ""
        who = self.deployment.login("plain")
        return who.public_key() if who.nkey else who.user

    async def tell(self, client: str, order: Order, colour: int = 0) -> list[Answer]:
        """Give an order to a client; what it answers."""
        return await self._request(f"_OVERLACE.ctl.{hash_name(client)}", order, colour, {client})

    async def tell_all(self, order: Order, colour: int = 0, expected: Collection[str] = ()) -> list[Answer]:
        """Give an order to all clients that follow orders; what they answer until all that are expected have."""
        return await self._request("_OVERLACE.ctl.all", order, colour, expected)

    async def _request(
        self, subject: str, order: Order, colour: int, expected: Collection[str], broker: str = ""
    ) -> list[Answer]:
        connection = await self.connect(broker or self.first, "control", colour)
        answers = Answers(expected)

        async def take(message: Msg) -> None:
            if (message.headers or {}).get("Status") == "503":
                answers.nobody = True
            answers.take(message.data)

        inbox = connection.new_inbox()
        subscription = await connection.subscribe(inbox, cb=take)
        try:
            await connection.publish(subject, json.dumps(order).encode(), reply=inbox)
            await connection.flush()
            return await answers.wait(PATIENCE)
        finally:
            await subscription.unsubscribe()

    @property
    def first(self) -> str:
        """The broker that orders are given at."""
        return next(iter(self.deployment.brokers))

    async def latencies(self, colour: int, links: Links) -> dict[Pair, int]:
        """Microseconds over each link: half the round trip that its two servers have measured, the longer one: the
        first that a server measures, while it connects, is too short."""
        account = self.deployment.colours[colour]
        deadline = time.monotonic() + PATIENCE
        while True:
            found: dict[Pair, int] = {}
            for broker, told in (await look_at_all(self.deployment, "leafz")).items():
                for leaf in (told or {}).get("leafs") or []:
                    link = pair(broker, str(leaf.get("name")))
                    if leaf.get("account") == account and link in links and (trip := read_duration(leaf.get("rtt"))):
                        found[link] = max(1, round(trip / 2), found.get(link, 0))
            if found.keys() >= links or time.monotonic() > deadline:
                return dict(sorted(found.items()))
            await asyncio.sleep(0.05)

    async def _meant(self, colour: int) -> Links:
        """The links of a colour as a swap means them: a broker that is away, or just back, shows fewer."""
        return self.meant[colour] if colour in self.meant else (await self.shown()).links[colour]

    async def wire(self, colour: int, links: Links, filters: Filters | None = None) -> AsyncIterator[str]:
        """Wire an account beside the other, and let it take clients; NATS carries interest by itself."""
        other = await self._meant(1 - colour)
        plain = await self._plain_colours(1 - colour)
        async for broker in self._reload({1 - colour: other, colour: links}, {0, 1}, plain):
            yield broker
        await self._until_wired(colour, links)

    async def unwire(self, colour: int) -> AsyncIterator[str]:
        """Take the links and the clients' user of an account away."""
        other = await self._meant(1 - colour)
        async for broker in self._reload({1 - colour: other}, {1 - colour}):
            yield broker
        await self._until_wired(colour, frozenset())

    async def admit(self, colour: int) -> AsyncIterator[str]:
        """Move the user of clients without the wrapper into an account: servers break their connections then."""
        if self.deployment.credentials.plain is None:
            return
        links = {each: await self._meant(each) for each in (0, 1)}
        files = nats_files.broker_files(
            self.deployment, links, {0, 1}, plain=dict.fromkeys(self.deployment.brokers, colour)
        )
        for broker in self.deployment.brokers:
            await self._deploy(broker, files)
        # all at once: who is cut off would else come back at a broker that is about to cut it off
        await asyncio.gather(*map(self._read_again, self.deployment.brokers))
        for broker in self.deployment.brokers:
            yield broker

    async def _plain_colours(self, otherwise: int) -> dict[str, int]:
        """The account that takes clients without the wrapper, as each broker says."""
        found = dict.fromkeys(self.deployment.brokers, otherwise)
        for broker in found if self.deployment.credentials.plain else ():
            try:
                connection = await self.connect(broker, "plain")
            except BadNetwork:  # the network file has just got this user, or who is away: that is said elsewhere
                continue
            try:
                told = json.loads((await connection.request(USER, b"", timeout=PATIENCE)).data)
                found[broker] = self.deployment.colours.index(told["data"]["account"])
            except Exception as error:
                raise BadNetwork(f"{broker} does not say which account plain is in: {type(error).__name__}") from None
            finally:
                await self.connected.pop((broker, "plain", 0)).close()
        return found

    async def _reload(
        self, links: Mapping[int, Links], takes: Collection[int], plain: Mapping[str, int] | None = None
    ) -> AsyncIterator[str]:
        """Write the files of every broker and let it read them."""
        files = nats_files.broker_files(self.deployment, links, takes, plain=plain)
        for broker in self.deployment.brokers:
            await self._deploy(broker, files)
            await self._read_again(broker)
            yield broker

    async def _deploy(self, broker: str, files: Mapping[str, str]) -> None:
        """Bring its files to a broker."""
        names = [name for kind, name in nats_files.names_of(broker).items() if kind != "main"]
        await deploy(self.deployment, broker, {name: files[name] for name in names if name in files})

    async def _read_again(self, broker: str) -> None:
        """Let a broker read its files."""
        told = await self._ask_server(broker, "RELOAD", {})
        if error := told.get("error"):
            what = error.get("description", error) if isinstance(error, dict) else error
            raise BadNetwork(f"{broker} does not take its new configuration: {what}")

    async def _ask_server(self, broker: str, what: str, order: Mapping[str, object]) -> dict[str, Any]:
        """Ask a server something over the system account."""
        about = await look(self.deployment, broker, "varz")
        if about is None:
            raise BadNetwork(f"{broker} at {self.deployment.client_address(broker)} does not answer. Is it running?")
        connection = await self.connect(broker, "system")
        subject = f"$SYS.REQ.SERVER.{about['server_id']}.{what}"
        try:
            answer = await connection.request(subject, json.dumps(order).encode(), timeout=10)
        except Exception as error:
            raise BadNetwork(f"{broker} does not answer to {what}: {type(error).__name__}") from None
        told = json.loads(answer.data)
        return told if isinstance(told, dict) else {}

    async def _until_wired(self, colour: int, links: Links) -> None:
        """Wait until exactly these links are wired in a colour."""

        async def look() -> Links:
            return (await self.shown()).links[colour]

        await await_links(look, links)

    async def probe(self, colour: int, broker: str, expected: Collection[str]) -> set[str]:
        """Who answers to a question that is asked at a broker, in a colour.

        A client subscribes to questions after all its filters, and interest travels in order: where a question
        reaches it, every message does.
        """
        answers = await self._request("_OVERLACE.ctl.all", {"do": "ask"}, colour, expected, broker)
        return {str(each["client"]) for each in answers}

    @contextlib.asynccontextmanager
    async def alone(self) -> AsyncIterator[None]:
        """Be the only applier: all ask and answer at the first broker, which has no need of links."""
        import nats.errors

        connection = await self.connect(self.first)
        with contextlib.suppress(nats.errors.TimeoutError, nats.errors.NoRespondersError):
            await connection.request(APPLIER, b"", timeout=0.5)
            raise Busy("another applier is at work on this network. Wait for it, or stop it.")

        async def answer(message: Msg) -> None:
            await message.respond(b"")

        subscription = await connection.subscribe(APPLIER, cb=answer)
        try:
            await connection.flush()
            yield
        finally:
            with contextlib.suppress(Exception):
                await subscription.unsubscribe()

    async def stranded(self) -> list[str]:
        """Streams, which stay in their account."""
        found = []
        for broker, told in (await look_at_all(self.deployment, "jsz?accounts=1&streams=1")).items():
            for account in (told or {}).get("account_details") or []:
                if account.get("name") in self.deployment.colours:
                    found += [f"stream {each.get('name')!r} at {broker}" for each in account.get("stream_detail") or []]
        return found

    async def kick(self, client: str) -> None:
        """Break the connections of a client."""
        for broker in self.deployment.brokers:
            for row in await connections(self.deployment, broker, "auth=1") or []:
                if row.get("name") == client and row.get("account") in self.deployment.colours:
                    await self._ask_server(broker, "KICK", {"cid": row["cid"]})

    async def copy_retained(self, old: int, new: int) -> int:
        """NATS retains nothing."""
        return 0

    async def close(self) -> None:
        """Leave the network."""
        for each in self.connected.values():
            with contextlib.suppress(Exception):
                await each.close()
        self.connected.clear()


def read_duration(text: object) -> float:
    """Microseconds from a duration as Go writes it, such as 1m2.5s, 6.54ms or 99µs; 0: none."""
    parts = re.findall(r"([\d.]+)(h|ms|m|s|µs|us|ns)", text if isinstance(text, str) else "")
    return sum(float(number) * UNITS[unit] for number, unit in parts)


UNITS = {"h": 3.6e9, "m": 6e7, "s": 1e6, "ms": 1e3, "µs": 1.0, "us": 1.0, "ns": 1e-3}
