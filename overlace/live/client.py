"""The wrapper around nats-py and paho that applications use; one file that stands alone.

It needs the standard library, and nats-py for NATS or paho-mqtt for Mosquitto: it may be copied into an application.

    import asyncio
    from overlace.live.client import connect

    async def main():
        async with await connect("press-4", network="net/network.toml") as client:
            await client.subscribe("fab.4.>", lambda message: print(message.topic, message.payload))
            await client.subscribe("jobs.next", lambda message: message.respond(b"job 7"), group="planners")
            await client.publish("fab.4.temp", b"21.5", headers={"unit": "celsius"})
            answer = await client.request("jobs.next", b"press-4", timeout=2.0)
            print(answer.payload)

    asyncio.run(main())

A client is known by its name: no two may share one. It counts what it publishes, by topic, and follows the orders of
the control user, which name brokers and never addresses. The same brokers carry two overlays, the colours 0 and 1; a
client may hold a connection in each, and every message is published in exactly one of them, the live one.
"""

from __future__ import annotations

import asyncio
import csv
import hashlib
import inspect
import json
import logging
import math
import os
import re
import secrets
import socket
import ssl
import time
import tomllib
from collections import deque
from collections.abc import Awaitable, Callable, Collection, Coroutine, Iterable, Iterator, Mapping
from contextlib import contextmanager, suppress
from pathlib import Path
from random import random
from types import TracebackType
from typing import TYPE_CHECKING, Any, NamedTuple, TypeAlias

if TYPE_CHECKING:
    from nats.aio.client import Client as NatsClient
    from nats.aio.msg import Msg
    from nats.aio.subscription import Subscription as NatsSubscription
    from paho.mqtt.client import Client as PahoClient
    from paho.mqtt.client import MQTTMessage, MQTTMessageInfo
    from paho.mqtt.properties import Properties
    from paho.mqtt.reasoncodes import ReasonCode

logger = logging.getLogger(__name__)

PATIENCE = 5.0
"""Seconds in which a broker must take a connection, a subscription or a flush."""

FINISH = 30.0
"""Seconds that an order to finish waits for requests and handlers of the old colour."""

WHO = 1.0
"""Seconds that a newcomer waits for others to say which colour is live."""

PART = 200_000
"""Bytes of an answer, above which it comes in parts."""

BACKLOG = 65_536
"""Messages that wait for a handler before the broker's own limits take hold."""

PENDING = 8 * 2**20
"""Bytes that are kept while a broker is away; beyond that, publishing is refused."""

CONTROL = re.compile(r"[\x00-\x1f\x7f-\x9f\u2028\u2029]")
NO_CHARACTER = re.compile("[\ud800-\udfff\ufdd0-\ufdef\ufeff]")
"""Halves of characters, what is none, and the byte order mark, over which paho ends the connection of a receiver."""

LEVELS = 200
"""Slashes in a topic, of which Mosquitto takes no more."""

LONGEST = 3_500
"""Bytes of a subject: nats-server ends a connection over a line of more than 4,096."""

LONGEST_NAME = 1_000
"""Bytes of a client's name, for the same reason."""

TRACE = "Nats-Trace-Dest"
TAKEN_OVER, FLAPS = 142, 5
"""MQTT's reason for a connection that is ended since another client has the same name. Mosquitto 2.0 says none: there
it is connections in a row that last no two seconds."""

Network: TypeAlias = dict[str, Any]
"""A network file as `read_network` returns it."""

Filter: TypeAlias = tuple[str, str | None]
"""What a client subscribes to: a filter, and the queue group or None."""


class ClientError(Exception):
    """Anything that this file can explain in one line."""


class BadNetworkFile(ClientError):
    """A network file that cannot be read, or that lacks something."""


class BadName(ClientError):
    """A client's name, a topic or a filter that cannot be one."""


class UnknownBroker(ClientError):
    """A broker that the network file does not name."""


class Unreachable(ClientError):
    """A broker that does not answer."""


class Refused(ClientError):
    """A broker that does not take our credentials, or an action that it does not permit."""


class NoAnswer(ClientError):
    """A request that nobody answered in time."""


# The network file


def read_network(path: str | Path) -> Network:
    """A network file, or that of a folder, as plain values; relative paths in it begin at its "folder"."""
    file = Path(path) / "network.toml" if Path(path).is_dir() else Path(path)
    try:
        network: Network = tomllib.loads(file.read_text(encoding="utf-8-sig"))
    except OSError as error:
        raise BadNetworkFile(f"{file}: cannot be read: {error.strerror}. Give the path of a network file") from None
    except (UnicodeDecodeError, tomllib.TOMLDecodeError, RecursionError) as error:
        raise BadNetworkFile(f"{file}: not TOML: {' '.join(str(error).split())}") from None
    network["folder"] = str(file.absolute().parent)
    return check_network(network, str(file))


def check_network(network: Network, where: str = "network") -> Network:
    """Refuse what this file cannot work with; `overlace live status` checks the rest."""
    if network.get("substrate") not in ("nats", "mosquitto"):
        raise BadNetworkFile(f"{where}: expected substrate = 'nats' or 'mosquitto'")
    brokers = network.get("brokers")
    if not isinstance(brokers, dict) or not brokers:
        raise BadNetworkFile(f"{where}: expected [brokers.NAME] with client = 'host:port' for every broker")
    for name, entry in brokers.items():
        addresses = entry.get("client") if isinstance(entry, dict) else None
        for each in addresses if isinstance(addresses, (list, tuple)) and addresses else [addresses]:
            if not isinstance(each, str) or not re.fullmatch(r"(\[[0-9A-Fa-f:.]+\]|[^\s:\[\]/@]+):\d{1,5}", each):
                raise BadNetworkFile(f"{where}: brokers.{name}.client: expected host:port")
    return network


def client_address(network: Network, broker: str, colour: int = 0) -> str:
    """host:port of a broker for clients."""
    if broker not in network["brokers"]:
        known = ", ".join(list(network["brokers"])[:12])
        raise UnknownBroker(f"no broker is called {broker!r} in the network file. There are: {known}")
    found = network["brokers"][broker]["client"]
    addresses: list[str] = [found] if isinstance(found, str) else list(found)
    return addresses[min(colour, len(addresses) - 1)]


def find_home(network: Network, name: str) -> str | None:
    """Where the table `homes` of the network file puts a client; None: it does not say."""
    table = network.get("homes")
    if table is None:
        return None
    file = place_of(network, table)
    try:
        with file.open(newline="", encoding="utf-8-sig") as lines:
            rows = [row for row in csv.reader(lines) if row]
    except (OSError, UnicodeDecodeError, csv.Error):
        raise BadNetworkFile(f"homes: {file} cannot be read. Expected a table client,broker") from None
    if any(len(row) < 2 for row in rows):
        raise BadNetworkFile(f"homes: {file}: expected two columns, client,broker")
    homes = {name_in(row[0]): name_in(row[1]) for row in rows if row[:2] != ["client", "broker"]}
    return homes.get(name, homes.get("*"))


def name_in(cell: str) -> str:
    """The name in a cell: one that a spreadsheet would take for a formula has ' before it."""
    return cell[1:] if cell[:1] == "'" and cell[1:2] in ("=", "+", "-", "@", "'") else cell


def place_of(network: Network, path: str) -> Path:
    """A path of the network file."""
    return Path(network.get("folder", ".")) / Path(path).expanduser()


def colours_of(network: Network) -> tuple[str, ...]:
    """The names of the colours."""
    return tuple(network.get("colours", ("BLUE", "GREEN")))


def count_colours(network: Network) -> int:
    """How many colours can be told apart: on NATS by their users, on Mosquitto by their ports."""
    if network["substrate"] == "mosquitto":
        return min(len({client_address(network, each, colour) for colour in (0, 1)}) for each in network["brokers"])
    credential = credential_of(network, "clients") or {}
    apart = "user" in credential or "{colour}" in credential.get("nkey", credential.get("creds", ""))
    return len(colours_of(network)) if apart else 1


class Named(ssl.SSLContext):
    """TLS that expects the network file's name in certificates, whatever the host is called."""

    hostname: str | None = None

    def wrap_socket(self, *arguments: Any, **named: Any) -> ssl.SSLSocket:
        """Begin TLS on a socket of paho, which can neither say which name it expects nor close what has failed."""
        if self.hostname:
            named["server_hostname"] = self.hostname
        made = super().wrap_socket(*arguments, **named)
        try:
            made.settimeout(PATIENCE / 2)
            made.do_handshake()
        except BaseException:
            made.close()
            raise
        return made


def tls_context(network: Network) -> ssl.SSLContext | None:
    """TLS towards brokers, if the network file asks for it."""
    tls = network.get("tls")
    if tls is None:
        return None
    try:
        ca = tls.get("ca")
        context = Named(ssl.PROTOCOL_TLS_CLIENT)
        context.hostname = tls.get("hostname")
        if ca:
            context.load_verify_locations(place_of(network, ca))
        else:
            context.load_default_certs()
        if tls.get("cert"):
            key = tls.get("key")
            context.load_cert_chain(place_of(network, tls["cert"]), place_of(network, key) if key else None)
    except OSError as error:
        raise BadNetworkFile(f"tls: a certificate or key cannot be used: {error.strerror or error}") from None
    return context


def read_secret(network: Network, role: str, credential: Mapping[str, str], colour: str | None) -> str:
    """A password from where the network file says that it is."""
    if "password_env" in credential:
        name = f"the variable {with_colour(credential['password_env'], colour)}"
        found = os.environ.get(with_colour(credential["password_env"], colour), "")
    else:
        name = with_colour(credential["password_file"], colour)
        try:
            found = place_of(network, name).read_text(encoding="utf-8").removesuffix("\n")
        except (OSError, UnicodeDecodeError):
            raise BadNetworkFile(f"credentials.{role}: {name} cannot be read. Expected a password in it") from None
    if not found:
        raise BadNetworkFile(f"credentials.{role}: {name} is not set, or empty. Put the password there")
    return found


def with_colour(text: str, colour: str | None) -> str:
    """A value of the network file for one colour."""
    return text if colour is None else text.replace("{colour}", colour)


def credential_of(network: Network, role: str) -> Mapping[str, str] | None:
    """What the network file says of who connects in a role."""
    found = network.get("credentials", {}).get(role)
    if found is None:
        return None
    kept = {key: value for key, value in found.items() if value is not None}
    if not {"password_env", "password_file", "nkey", "creds"} & kept.keys():
        raise BadNetworkFile(f"credentials.{role}: expected one of password_env, password_file, nkey and creds")
    return kept


# How to connect, for this file and for whoever gives orders


def hash_name(name: str) -> str:
    """16 hex digits for a client's name: names hold dots, spaces and wildcards."""
    return hashlib.blake2b(name.encode(), digest_size=8).hexdigest()


def login_of(network: Network, role: str, colour: int = 0) -> dict[str, str]:
    """How a role logs in, in a colour: user and password, or the path of an nkey or creds; nothing: anonymously.

    On NATS a user belongs to one account, so that its name holds that of the colour, where there are two.
    """
    credential = credential_of(network, role)
    if credential is None:
        return {}
    apart = network["substrate"] == "nats" and role not in UNCOLOURED
    name = colours_of(network)[colour]
    for key in ("nkey", "creds"):
        if key in credential:
            return {key: str(place_of(network, with_colour(credential[key], name)))}
    user = credential["user"]
    if apart and "{colour}" not in user and len(colours_of(network)) > 1:
        user += "-{colour}"
    return {"user": with_colour(user, name), "password": read_secret(network, role, credential, name)}


UNCOLOURED = ("system", "plain")
"""Roles that are one user, whatever colour is live."""


def nats_options(network: Network, role: str, colour: int | None = None) -> dict[str, Any]:
    """Who we are on NATS, as keywords of nats.connect; the role system has no colour."""
    keywords = {"nkey": "nkeys_seed", "creds": "user_credentials"}
    found = login_of(network, role, colour or 0)
    options: dict[str, Any] = {keywords.get(key, key): value for key, value in found.items()}
    for key in options.keys() & {"nkeys_seed", "user_credentials"}:
        if not os.access(options[key], os.R_OK):
            raise BadNetworkFile(f"credentials.{role}: {options[key]} cannot be read")
    context = tls_context(network)
    if context is not None:
        options["tls"] = context
        if network["tls"].get("hostname"):
            options["tls_hostname"] = network["tls"]["hostname"]
    return options


def mqtt_client(network: Network, role: str, name: str) -> PahoClient:
    """A paho client for MQTT 5 that knows its user and TLS, not connected yet."""
    try:
        from paho.mqtt.client import Client as Plain
        from paho.mqtt.client import MQTTv5
        from paho.mqtt.enums import CallbackAPIVersion
    except ImportError:
        raise ClientError("paho-mqtt is not installed: pip install paho-mqtt") from None
    client = Plain(CallbackAPIVersion.VERSION2, name, protocol=MQTTv5)
    client.connect_timeout = PATIENCE / 2
    client.reconnect_delay_set(0.25, 2)  # type: ignore[arg-type]
    client.on_socket_open = lambda client, data, sock: _send_at_once(sock)
    found = login_of(network, role)
    if found:
        if "user" not in found:
            raise BadNetworkFile(f"credentials.{role}: Mosquitto takes a user and a password")
        client.username_pw_set(found["user"], found["password"])
    context = tls_context(network)
    if context is not None:
        client.tls_set_context(context)
    return client


def _send_at_once(sock: Any) -> None:
    """Have small packets sent without waiting for more: with a broker that delays its answers, 40 ms each."""
    with suppress(OSError):
        sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)


async def connect_nats(address: str, name: str, patience: float = PATIENCE, **options: Any) -> NatsClient:
    """A NATS connection that comes back by itself, or one exception within the patience."""
    try:
        from nats.aio.client import Client as Plain
    except ImportError:
        raise ClientError("nats-py is not installed: pip install nats-py") from None

    class Guarded(Plain):
        """Sends no password where the network file asks for TLS and the server has none."""

        def _connect_command(self) -> bytes:
            if "tls" in self.options and not self._server_info.get("tls_required"):
                raise OSError("the server offers no TLS, and the network file asks for it")
            return super()._connect_command()

    seen: list[Exception] = []
    then = options.pop("error_cb", None)

    async def note(error: Exception) -> None:
        if connected:
            await (then(error) if then else _ignore())
        else:
            seen.append(error)

    connected = False
    connection = Guarded()
    try:
        await asyncio.wait_for(
            connection.connect(
                f"nats://{address}", name=name, error_cb=note, allow_reconnect=False, max_reconnect_attempts=1,
                reconnect_time_wait=0, connect_timeout=max(1, int(patience / 2)), drain_timeout=5, pending_size=PENDING,
                ping_interval=20,
                **options,
            ),
            patience,
        )  # fmt: skip
    except (Exception, asyncio.CancelledError) as error:
        with suppress(Exception):  # after a failed handshake nats-py would wait for ever
            await asyncio.wait_for(connection.close(), 0.5)
        if isinstance(error, asyncio.CancelledError):
            raise
        raise _explain(address, [*seen, error], "tls" in options) from None
    connected = True
    # from here on it comes back however long the broker is away
    connection.options.update(allow_reconnect=True, max_reconnect_attempts=-1, reconnect_time_wait=0.2)
    return connection


async def _ignore() -> None:
    """No error handler was given."""


def _explain(address: str, errors: list[Exception], tls: bool) -> ClientError:
    """The exceptions of a connection that failed, as one."""
    text = "; ".join(dict.fromkeys(" ".join(str(each).split()) for each in errors if str(each)))
    if is_refusal(text):
        return Refused(f"{address}: the broker refuses our credentials. Check [credentials] of the network file")
    for each in errors:
        if isinstance(each, ssl.SSLError):
            return Refused(f"{address}: TLS failed: {each.reason or each}. Check tls of the network file")
        if isinstance(each, OSError) and "TLS" in str(each):
            return Refused(f"{address}: {each}")
        if isinstance(each, ConnectionResetError) and tls:
            return Refused(f"{address}: TLS failed: the broker ends the connection. Does it speak TLS there?")
    named = type(errors[0]).__name__
    cause = next((each.strerror for each in errors if isinstance(each, OSError) and each.strerror), None)
    return Unreachable(f"{address}: the broker does not answer ({cause or text or named})")


def is_refusal(text: str) -> bool:
    """Whether NATS says that it does not take a user."""
    return "authorization violation" in text.lower() or "authentication" in text.lower()


# Messages, and who handles them


class Message:
    """What a handler gets."""

    __slots__ = ("_correlation", "_link", "_qos", "headers", "payload", "reply", "topic")

    def __init__(self, link: Link, topic: str, payload: bytes, headers: dict[str, str], reply: str | None) -> None:
        self._link = link
        self.topic = topic
        self.payload = payload
        self.headers = headers
        self.reply = reply
        """Where an answer goes; None if nobody waits for one."""
        self._qos = 0
        self._correlation: bytes | None = None

    async def respond(self, payload: bytes | str, headers: Mapping[str, str] | None = None) -> None:
        """Answer a request, over the connection that it came by."""
        if self.reply is None:
            raise ClientError(f"a message of {self.topic!r} asks for no answer: message.reply is None")
        await self._link.client._respond(self, _bytes(payload), headers)

    def __repr__(self) -> str:
        return f"Message({self.topic!r}, {len(self.payload)} bytes)"


Handler: TypeAlias = Callable[[Message], object]
"""Takes a message; what it returns is awaited if that can be done."""


class HandlerJob(NamedTuple):
    """A message for a handler, or what a handler has returned and is to be awaited."""

    message: Message
    handler: Handler
    rest: Awaitable[object] | None


class Entry:
    """A filter that a client is subscribed to, in all its colours; messages are handled one after the other."""

    def __init__(self, key: Filter, qos: int, number: int) -> None:
        self.key, self.qos, self.number = key, qos, number
        self.handlers: list[Handler] = []
        self.queue: asyncio.Queue[HandlerJob | None] = asyncio.Queue()
        self.working = False
        self.task = asyncio.get_running_loop().create_task(self._work())

    def receivers(self) -> list[Handler]:
        """All handlers; in a group the next one in turn."""
        if self.key[1] is not None and len(self.handlers) > 1:
            self.handlers.append(self.handlers.pop(0))
            return self.handlers[-1:]
        return list(self.handlers)

    def take(self, message: Message) -> None:
        """Handle a message, at once if nothing waits and the handler is a plain function."""
        for handler in self.receivers():
            message._link.begin()
            rest = None
            if not (self.working or self.queue.qsize() or inspect.iscoroutinefunction(handler)):
                rest = self._call(handler, message)
                if rest is None:
                    message._link.end()
                    continue
            self.queue.put_nowait(HandlerJob(message, handler, rest))

    def _call(self, handler: Handler, message: Message) -> Awaitable[object] | None:
        try:
            rest = handler(message)
        except Exception:
            logger.exception("a handler of %r failed", self.key[0])
            return None
        return rest if inspect.isawaitable(rest) else None

    async def _work(self) -> None:
        while (job := await self.queue.get()) is not None:
            self.working = True
            try:
                rest = job.rest if job.rest is not None else self._call(job.handler, job.message)
                if rest is not None:
                    await rest
            except Exception:
                logger.exception("a handler of %r failed", self.key[0])
            finally:
                self.working = False
                job.message._link.end()
                self.queue.task_done()

    def finish(self) -> None:
        """Handle what has come, and then no more."""
        self.queue.put_nowait(None)

    def stop(self) -> None:
        """Handle no more."""
        if self.task is not asyncio.current_task():
            self.task.cancel()
        while self.queue.qsize():
            job = self.queue.get_nowait()
            if job is not None:
                job.message._link.end()
                if inspect.iscoroutine(job.rest):
                    job.rest.close()
        self.finish()  # for a handler that stops itself


def _bytes(payload: bytes | str) -> bytes:
    """A payload as bytes: a text in UTF-8."""
    if isinstance(payload, str):
        return payload.encode()
    if not isinstance(payload, (bytes, bytearray, memoryview)):
        raise ClientError(f"a payload is bytes or a text, not {type(payload).__name__}")
    return bytes(payload)


def _headers(headers: Mapping[str, str] | None) -> dict[str, str] | None:
    """Headers that both kinds of broker take: Mosquitto ends a connection over a control character in one."""
    for key, value in (headers or {}).items():
        if not (is_text(key) and is_text(value)):
            raise BadName(f"header {key!r}: expected a name and a value that are texts without control characters")
    return dict(headers) if headers else None


def is_text(value: object, most: int = 65535) -> bool:
    """Whether something is a text that a broker takes: without control characters or halves of characters."""
    if not isinstance(value, str) or CONTROL.search(value):
        return False
    if NO_CHARACTER.search(value) or any(ord(each) & 0xFFFE == 0xFFFE for each in set(value)):
        return False
    return len(value.encode()) <= most


# Connections


@contextmanager
def _explained(what: str) -> Iterator[None]:
    """Turn what a library raises into one of our exceptions."""
    try:
        yield
    except ClientError:
        raise
    except Exception as error:
        raise _trouble(what, error) from None


def _trouble(what: str, error: Exception) -> ClientError:
    """What a library raised, as one of our exceptions."""
    name, text = type(error).__name__, " ".join(str(error).split()).removeprefix("nats: ")
    if isinstance(error, ValueError) or name in ("BadSubjectError", "BadHeaderError"):
        return BadName(f"cannot {what}: {text or 'invalid'}. No spaces, no wildcards in what is published")
    if isinstance(error, TimeoutError) or name == "OutboundBufferLimitError":
        return Unreachable(f"cannot {what}: the broker is away ({text or name})")
    return ClientError(f"cannot {what}: {text or name}")


class Out(NamedTuple):
    """A message on its way out."""

    topic: str
    payload: bytes
    headers: dict[str, str] | None = None
    qos: int = 0
    reply: str | None = None
    correlation: bytes | None = None


class Link:
    """A connection to one broker in one colour; what both kinds have in common."""

    orders: str
    """Where orders to one client go, with {} for the hash of its name or `all`."""
    who: str
    left: str
    replies: str
    """The filter of answers to requests, with {} for the hash of its name."""
    asks_early = False
    """Whether answers must be subscribed to before the first request: bridges carry known filters."""
    traces: bool
    """Whether servers trace messages that ask for it."""
    keeps: bool
    """Whether what is published while the broker is away can be had back."""

    @staticmethod
    def problem_of(topic: str) -> str | None:
        """Why nothing can be published to a topic."""
        raise NotImplementedError

    @staticmethod
    def problem_with(topic: str, group: str | None) -> str | None:
        """Why a filter cannot be subscribed to: brokers end a connection over some, or take them for others."""
        raise NotImplementedError

    @staticmethod
    def fold(topic: str) -> str:
        """The topic under which messages are counted: all replies to one client are one."""
        raise NotImplementedError

    def __init__(self, client: Client, colour: int, home: str) -> None:
        self.client, self.colour, self.home = client, colour, home
        self.closed = False
        self.orders_begun, self.leaving = 0, False
        self.over = False
        """Whether it will not come back by itself."""
        self.refusals: list[str] = []
        """What the broker did not permit, since somebody last looked."""
        self.received = 0
        self.busy = 0
        self._idle = asyncio.Event()
        self._idle.set()

    def begin(self) -> None:
        """A message of this connection is being handled, or a request over it waits."""
        self.busy += 1
        self._idle.clear()

    def end(self) -> None:
        """It is handled, or answered."""
        self.busy -= 1
        if not self.busy:
            self._idle.set()

    def check(self, concerns: Callable[[str], bool]) -> None:
        """Raise what the broker did not permit."""
        found = [text for text in self.refusals if concerns(text)]
        self.refusals = [text for text in self.refusals if text not in found]
        if found:
            raise Refused(f"{self.home}: {found[0]}")

    async def settle(self, seconds: float) -> bool:
        """Wait until all that was sent to us is handled and no request waits; whether that came true."""
        deadline = time.monotonic() + seconds
        before = -1
        while self.received != before or self.busy:
            before = self.received
            try:
                await asyncio.wait_for(self._idle.wait(), max(0.0, deadline - time.monotonic()))
                await self.barrier()
            except (TimeoutError, ClientError):
                return False
        return True

    async def open(self) -> None:
        """Connect."""
        raise NotImplementedError

    @property
    def up(self) -> bool:
        """Whether the broker is there at this moment."""
        raise NotImplementedError

    async def subscribe(self, entry: Entry) -> None:
        """Subscribe to a filter; a second time changes nothing."""
        raise NotImplementedError

    async def unsubscribe(self, entry: Entry) -> None:
        """Give up a filter."""
        raise NotImplementedError

    async def publish(self, out: Out) -> None:
        """Send a message."""
        raise NotImplementedError

    def unsent(self) -> list[Out]:
        """What was published while the broker was away, to be published elsewhere."""
        return []

    async def barrier(self) -> None:
        """Return when the broker has taken all that was sent to it."""
        raise NotImplementedError

    async def listen(self) -> None:
        """Take orders, and say who is live."""
        raise NotImplementedError

    async def ask_live(self, answered: Callable[[bytes | None], None]) -> None:
        """Ask the others which colour is live; None is for nobody there."""
        raise NotImplementedError

    async def close(self) -> None:
        """Leave the broker."""
        raise NotImplementedError


class NatsLink(Link):
    """A connection to a NATS server, in the account of a colour."""

    orders, who, left, replies = "_OVERLACE.ctl.{}", "_OVERLACE.who", "_OVERLACE.left", "_INBOX.{}.>"
    traces, keeps = True, False

    @staticmethod
    def problem_of(topic: str) -> str | None:
        """Why nothing can be published to a topic."""
        if not is_text(topic, LONGEST) or re.search(r"\s", topic) or {"", "*", ">"} & set(topic.split(".")):
            return "expected words with dots between them, without spaces or wildcards"
        return None

    @staticmethod
    def problem_with(topic: str, group: str | None) -> str | None:
        """Why a filter cannot be subscribed to."""
        if not is_text(topic, LONGEST) or re.search(r"\s", topic) or "" in topic.split("."):
            return "expected words with dots between them, without spaces"
        if group is not None and (not is_text(group, LONGEST_NAME) or not group or re.search(r"\s", group)):
            return "expected a group's name without spaces"
        return None

    @staticmethod
    def fold(topic: str) -> str:
        """The topic under which messages are counted: all replies to one client are one."""
        return "_INBOX." + topic.split(".", 2)[1] + ".reply" if topic.startswith("_INBOX.") else topic

    def __init__(self, client: Client, colour: int, home: str) -> None:
        super().__init__(client, colour, home)
        self._subscriptions: dict[Filter, NatsSubscription] = {}
        self._listening = False
        self._back = asyncio.Event()

    async def open(self) -> None:
        """Connect."""
        client = self.client
        address = client_address(client.network, self.home, self.colour)
        self._connection = await connect_nats(
            address, client.name, error_cb=self._failed, closed_cb=self._ended, reconnected_cb=self._returned,
            inbox_prefix=f"_INBOX.{client.hash}", **nats_options(client.network, "clients", self.colour),
        )  # fmt: skip

    @property
    def up(self) -> bool:
        """Whether the server is there at this moment."""
        return self._connection.is_connected

    async def _failed(self, error: Exception) -> None:
        text = " ".join(str(error).split())
        if "permissions violation" in text.lower():
            self.refusals.append(text.removeprefix("nats: "))
        elif is_refusal(text) and not self.closed:
            self.client._lose(self, refused=True)
        logger.warning("%r: %s", self.home, text or type(error).__name__)

    async def _ended(self) -> None:
        self.over = True
        if not self.closed:
            self.client._lose(self)

    async def _returned(self) -> None:
        self._back.set()

    async def subscribe(self, entry: Entry) -> None:
        """Subscribe to a filter; a second time changes nothing."""
        if entry.key in self._subscriptions:
            return

        async def got(message: Msg) -> None:
            self.received += 1
            headers = message.headers or {}
            if TRACE in headers:
                headers = {key: value for key, value in headers.items() if not key.startswith("Nats-Trace-")}
            entry.take(Message(self, message.subject, message.data, headers, message.reply or None))
            if entry.queue.qsize() >= BACKLOG:
                await entry.queue.join()

        topic, group = entry.key
        with _explained(f"subscribe to {topic!r}"):
            self._subscriptions[entry.key] = await self._connection.subscribe(topic, queue=group or "", cb=got)

    async def unsubscribe(self, entry: Entry) -> None:
        """Give up a filter; what has come already is handled."""
        found = self._subscriptions.pop(entry.key, None)
        if found is not None and self._connection.is_connected:
            with suppress(Exception):
                await found.drain()  # type: ignore[no-untyped-call]

    async def publish(self, out: Out) -> None:
        """Send a message; while the server is away it is kept."""
        try:
            await self._connection.publish(out.topic, out.payload, out.reply or "", out.headers)
        except Exception as error:
            raise _trouble(f"publish to {out.topic!r}", error) from None

    async def barrier(self) -> None:
        """Return when the server has taken all that was sent to it."""
        connection = self._connection
        if not connection.is_connected:
            self._back.clear()
            try:
                await asyncio.wait_for(self._back.wait(), PATIENCE)
            except TimeoutError:
                raise Unreachable(f"{self.home}: the broker has been away for {PATIENCE:g} s") from None
        with _explained(f"flush at {self.home}"):
            # nats-py writes the first ping ahead of what waits to be written; the second comes after it
            await connection.flush(int(PATIENCE))
            await connection.flush(int(PATIENCE))

    async def listen(self) -> None:
        """Take orders, and say who is live."""
        if self._listening:
            return
        self._listening = True

        async def order(message: Msg) -> None:
            self.client._obey(self, message.data, message.reply)

        async def who(message: Msg) -> None:
            if message.reply:
                await self.publish(Out(message.reply, json.dumps({"live": self.client.live}).encode()))

        for suffix in (self.client.hash, "all"):
            await self._connection.subscribe(self.orders.format(suffix), cb=order)
        await self._connection.subscribe(self.who, cb=who)

    async def ask_live(self, answered: Callable[[bytes | None], None]) -> None:
        """Ask the others which colour is live; None is for nobody there."""

        async def got(message: Msg) -> None:
            answered(message.data or None)

        inbox = f"_INBOX.{self.client.hash}.who.{secrets.token_hex(6)}"
        found = await self._connection.subscribe(inbox, cb=got)
        await found.unsubscribe(limit=1)
        await self._connection.publish(self.who, b"", reply=inbox)

    async def close(self) -> None:
        """Leave the server, with all handled that has come."""
        self.closed = True
        connection = self._connection
        with suppress(Exception):
            if connection.is_connected:
                await asyncio.wait_for(connection.drain(), 2 * PATIENCE)
        with suppress(Exception):
            if not connection.is_closed:
                await asyncio.wait_for(connection.close(), PATIENCE)


class MqttLink(Link):
    """A connection to a Mosquitto, on the port of a colour; paho's thread hands all to the event loop."""

    asks_early = True
    orders, who, left, replies = "$overlace/ctl/{}", "$overlace/probe/who", "$overlace/left", "_reply/{}/+"
    traces, keeps = False, True
    answers, lives, flushes = "$overlace/answers/", "$overlace/probe/live/", "$overlace/flush/none"

    def __init__(self, client: Client, colour: int, home: str) -> None:
        super().__init__(client, colour, home)
        self._loop = asyncio.get_running_loop()
        self._paho = mqtt_client(client.network, "clients", client.name)
        self._up = asyncio.Event()
        self._first: asyncio.Future[ReasonCode] = self._loop.create_future()
        self._acks: dict[int, asyncio.Future[list[ReasonCode]]] = {}
        self._entries: dict[int, Entry] = {}
        self._listening: list[str] = []
        self._asked: dict[str, Callable[[bytes | None], None]] = {}
        self._arrived: deque[MQTTMessage] = deque()
        self._woken = False
        self._kept: deque[Out] = deque()
        self._kept_size = 0
        self._sent: deque[MQTTMessageInfo] = deque()
        self._since, self._short = 0.0, 0

    @staticmethod
    def problem_of(topic: str) -> str | None:
        """Why nothing can be published to a topic."""
        if not is_text(topic) or not topic or "+" in topic or "#" in topic or topic.count("/") > LEVELS:
            return "expected words with slashes between them, without wildcards or control characters"
        return None

    @staticmethod
    def problem_with(topic: str, group: str | None) -> str | None:
        """Why a filter cannot be subscribed to."""
        shared = topic.split("/", 2) if is_text(topic, 65535 - LONGEST_NAME) else []
        if not shared or not topic or topic.count("/") > LEVELS:
            return "expected words with slashes between them, without control characters"
        if shared[0] == "$share" and (group is not None or len(shared) < 3 or "" in shared):
            return "expected $share/GROUP/FILTER, or a filter and a group"
        if group is not None and (not is_text(group, LONGEST_NAME // 2) or not group or re.search("[/+#]", group)):
            return "expected a group's name without slashes, wildcards or control characters"
        return None

    @staticmethod
    def fold(topic: str) -> str:
        """The topic under which messages are counted: all replies to one client are one."""
        return "_reply/" + topic.split("/", 2)[1] + "/reply" if topic.startswith("_reply/") else topic

    async def open(self) -> None:
        """Connect."""
        paho = self._paho
        paho.on_connect = lambda client, data, flags, reason, properties: self._later(self._connected, reason)
        paho.on_connect_fail = lambda client, data: self._later(self._failed)
        paho.on_disconnect = lambda client, data, flags, reason, properties: self._later(self._gone, reason)
        paho.on_publish = lambda client, data, mid, reason, properties: self._published(reason)
        paho.on_subscribe = lambda client, data, mid, reasons, properties: self._later(self._acked, mid, reasons)
        paho.on_unsubscribe = lambda client, data, mid, reasons, properties: self._later(self._acked, mid, reasons)
        paho.on_message = lambda client, data, message: self._got(message)
        address = client_address(self.client.network, self.home, self.colour)
        host, _, port = address.rpartition(":")
        try:
            await asyncio.to_thread(paho.connect, host.strip("[]"), int(port), 30, clean_start=True)
            paho.loop_start()
            reason = await asyncio.wait_for(self._first, PATIENCE)
            if reason.is_failure:
                named = str(reason).lower()
                if "auth" in named or "password" in named or "banned" in named:
                    raise Refused(
                        f"{address}: the broker refuses our credentials. Check [credentials] of the network file"
                    )
                raise Unreachable(f"{address}: the broker does not take us ({named})")
        except BaseException as error:
            await self.close()
            if isinstance(error, (ClientError, asyncio.CancelledError)) or not isinstance(error, Exception):
                raise
            raise _explain(address, [error], "tls" in self.client.network) from None

    def _later(self, call: Callable[..., object], *arguments: object) -> None:
        """Have something done in the event loop; called by paho's thread."""
        with suppress(RuntimeError):  # the loop is closed: nobody is left to care
            self._loop.call_soon_threadsafe(call, *arguments)

    @property
    def up(self) -> bool:
        """Whether the broker is there at this moment."""
        return self._up.is_set()

    def _connected(self, reason: ReasonCode) -> None:
        again = self._first.done()
        if not again:
            self._first.set_result(reason)
        if self.closed:
            return
        if reason.is_failure:
            if again:
                self._failed()
            return
        if again:  # the broker has forgotten us
            for entry in self._entries.values():
                self._subscribe(entry)
            for topic in (*self._listening, *self._asked):
                self._paho.subscribe(topic, 1)
        self._since = time.monotonic()
        self._up.set()
        kept, self._kept, self._kept_size = self._kept, deque(), 0
        for out in kept:
            self._publish(out)

    def _gone(self, reason: ReasonCode) -> None:
        self._up.clear()
        self._short = self._short + 1 if time.monotonic() - self._since < 2 else 0
        if not self.closed and (reason.value == TAKEN_OVER or self._short == FLAPS):
            self._paho.reconnect_delay_set(10, 60)  # else the two would throw each other out without a pause
            logger.error("%r: thrown out again and again; another client is called %r", self.home, self.client.name)

    def _published(self, reason: ReasonCode) -> None:
        """Note what was refused; called by paho's thread."""
        if reason.is_failure:
            self._later(self.refusals.append, f"a message was refused: {str(reason).lower()}")

    def _failed(self) -> None:
        if not self.closed:
            self.client._lose(self)

    def _acked(self, mid: int, reasons: list[ReasonCode]) -> None:
        waiting = self._acks.pop(mid, None)
        if waiting is not None and not waiting.done():
            waiting.set_result(reasons)

    async def _until_acked(self, sent: tuple[int, int | None], what: str) -> list[ReasonCode]:
        """Wait for the broker's answer to a packet."""
        code, mid = sent
        if code or mid is None:
            raise Unreachable(f"{self.home}: the broker is away: cannot {what}")
        waiting = self._acks[mid] = self._loop.create_future()
        try:
            return await asyncio.wait_for(waiting, PATIENCE)
        except TimeoutError:
            raise Unreachable(f"{self.home}: the broker does not answer: cannot {what}") from None
        finally:
            self._acks.pop(mid, None)

    async def _until_up(self) -> None:
        try:
            await asyncio.wait_for(self._up.wait(), PATIENCE)
        except TimeoutError:
            raise Unreachable(f"{self.home}: the broker has been away for {PATIENCE:g} s") from None

    @staticmethod
    def _topic(entry: Entry) -> str:
        topic, group = entry.key
        return topic if group is None else f"$share/{group}/{topic}"

    def _subscribe(self, entry: Entry) -> tuple[int, int | None]:
        from paho.mqtt.packettypes import PacketTypes
        from paho.mqtt.properties import Properties
        from paho.mqtt.subscribeoptions import SubscribeOptions

        numbered = Properties(PacketTypes.SUBSCRIBE)  # type: ignore[no-untyped-call]
        numbered.SubscriptionIdentifier = entry.number
        # what is retained was had in the live colour: in the other one it would come a second time
        wanted = self.colour == self.client.live or self.client._finding
        handling = SubscribeOptions.RETAIN_SEND_ON_SUBSCRIBE if wanted else SubscribeOptions.RETAIN_DO_NOT_SEND
        options = SubscribeOptions(entry.qos, retainHandling=handling)
        return self._paho.subscribe(self._topic(entry), options=options, properties=numbered)

    async def subscribe(self, entry: Entry) -> None:
        """Subscribe to a filter; a second time changes nothing."""
        if entry.number in self._entries:
            return
        await self._until_up()
        what = f"subscribe to {entry.key[0]!r}"
        self._entries[entry.number] = entry  # messages may come ahead of our look at the answer
        try:
            with _explained(what):
                reasons = await self._until_acked(self._subscribe(entry), what)
            if reasons[0].is_failure:
                raise Refused(f"{self.home}: cannot {what}: {str(reasons[0]).lower()}")
        except BaseException:
            self._entries.pop(entry.number, None)
            raise

    async def unsubscribe(self, entry: Entry) -> None:
        """Give up a filter."""
        if entry.number in self._entries and self.up:
            with suppress(ClientError):
                await self._until_acked(self._paho.unsubscribe(self._topic(entry)), "unsubscribe")
        self._entries.pop(entry.number, None)

    async def publish(self, out: Out) -> None:
        """Send a message; while the broker is away it is kept."""
        if self.up:
            self._publish(out)
            return
        self._kept_size += len(out.payload) + len(out.topic)
        if self._kept_size > PENDING or self.closed:
            raise Unreachable(
                f"cannot publish to {out.topic!r}: {self.home} is away, and {PENDING:,} bytes wait for it"
            )
        self._kept.append(out)

    def _publish(self, out: Out) -> None:
        properties = None
        if out.headers or out.reply or out.correlation:
            properties = self._properties(out)
        try:
            info = self._paho.publish(out.topic, out.payload, out.qos, properties=properties)
        except Exception as error:
            raise _trouble(f"publish to {out.topic!r}", error) from None
        if out.qos:
            while self._sent and self._sent[0].is_published():
                self._sent.popleft()
            self._sent.append(info)
        elif info.rc:  # gone between two looks
            self._kept.append(out)

    @staticmethod
    def _properties(out: Out) -> Properties:
        from paho.mqtt.packettypes import PacketTypes
        from paho.mqtt.properties import Properties

        properties = Properties(PacketTypes.PUBLISH)  # type: ignore[no-untyped-call]
        if out.headers:
            properties.UserProperty = list(out.headers.items())
        if out.reply:
            properties.ResponseTopic = out.reply
            properties.CorrelationData = out.reply.encode()
        if out.correlation:
            properties.CorrelationData = out.correlation
        return properties

    def unsent(self) -> list[Out]:
        """What was published while the broker was away, to be published elsewhere."""
        kept, self._kept = self._kept, deque()
        return list(kept)

    def _got(self, message: MQTTMessage) -> None:
        """Take a message; called by paho's thread."""
        self._arrived.append(message)
        if not self._woken:
            self._woken = True
            self._later(self._deliver)

    def _deliver(self) -> None:
        self._woken = False
        while self._arrived:
            message = self._arrived.popleft()
            topic, payload = message.topic, bytes(message.payload)
            properties = message.properties
            numbers = getattr(properties, "SubscriptionIdentifier", None)
            if not numbers and topic.startswith("$overlace/"):
                self._control(topic, payload)
                continue
            self.received += 1
            found = self._entries_of(topic, numbers)
            headers = dict(getattr(properties, "UserProperty", ()))
            made = Message(self, topic, payload, headers, getattr(properties, "ResponseTopic", None))
            made._qos, made._correlation = message.qos, getattr(properties, "CorrelationData", None)
            for entry in found:
                if entry.queue.qsize() < 8 * BACKLOG:
                    entry.take(made)
                else:
                    logger.warning("a handler of %r is too slow: a message was dropped", entry.key[0])

    def _entries_of(self, topic: str, numbers: list[int] | None) -> list[Entry]:
        """The filters for which the broker sent a message."""
        if numbers:
            return [self._entries[each] for each in numbers if each in self._entries]
        from paho.mqtt.client import topic_matches_sub

        return [each for each in self._entries.values() if topic_matches_sub(each.key[0], topic)]

    def _control(self, topic: str, payload: bytes) -> None:
        """An order, or a newcomer's question, or the answer to ours."""
        if topic in self._asked:
            self._asked[topic](payload)
            return
        reply = _read_json(payload).get("reply")
        if not isinstance(reply, str) or self.problem_of(reply):
            reply = ""
        if topic == self.who:
            if reply.startswith(self.lives) and self.up:
                self._publish(Out(reply, json.dumps({"live": self.client.live}).encode(), qos=1))
        else:
            self.client._obey(self, payload, reply if reply.startswith(self.answers) else "")

    async def barrier(self) -> None:
        """Return when the broker has taken all that was sent to it."""
        await self._until_up()
        deadline = time.monotonic() + PATIENCE
        while self._sent:
            if not self._sent[0].is_published():
                if time.monotonic() > deadline:
                    raise Unreachable(f"{self.home}: the broker does not acknowledge what was published")
                await asyncio.sleep(0.002)
            else:
                self._sent.popleft()
        await self._until_acked(self._paho.unsubscribe(self.flushes), "flush")

    async def listen(self) -> None:
        """Take orders, and say who is live."""
        if self._listening:
            return
        self._listening = [self.orders.format(self.client.hash), self.orders.format("all"), self.who]
        for topic in self._listening:
            reasons = await self._until_acked(self._paho.subscribe(topic, 1), "subscribe to orders")
            if reasons[0].is_failure:
                logger.warning("%r: orders cannot be followed: %r is refused", self.home, topic)

    async def ask_live(self, answered: Callable[[bytes | None], None]) -> None:
        """Ask the others which colour is live; who is alone hears nothing."""
        reply = f"{self.lives}{self.client.hash}{secrets.token_hex(6)}"
        self._asked[reply] = answered
        await self._until_acked(self._paho.subscribe(reply, 1), "ask which colour is live")
        self._publish(Out(self.who, json.dumps({"reply": reply}).encode(), qos=1))

    async def close(self) -> None:
        """Leave the broker."""
        self.closed = True
        if self.up:
            with suppress(ClientError):
                await self.barrier()
        self._up.clear()
        paho: PahoClient | None = self.__dict__.pop("_paho", None)
        if paho is None:
            return
        paho.disconnect()
        await asyncio.to_thread(paho.loop_stop)
        paho.on_connect = paho.on_connect_fail = paho.on_disconnect = None
        paho.on_subscribe = paho.on_unsubscribe = None
        paho.on_message = paho.on_publish = None  # nobody else knows it: its sockets close


# The client


class Client:
    """An application's client; made by `connect`."""

    def __init__(self, name: str, network: Network) -> None:
        self.name, self.network = name, network
        self.hash = hash_name(name)
        self.instance = secrets.token_hex(8)
        self._kind: type[Link] = NatsLink if network["substrate"] == "nats" else MqttLink
        self._links: dict[int, Link] = {}
        self._live = 0
        self._idle_is: str | None = None  # what the other colour is: "new", "old", or "open" to a newcomer
        self._entries: dict[Filter, Entry] = {}
        self._numbers = 0
        self._counts: dict[str, list[int]] = {}
        self._held: deque[tuple[asyncio.Future[Link], Out]] | None = None
        self._held_until, self._letting_go = 0.0, False
        self._waiting: dict[str, asyncio.Future[Message]] = {}
        self._asked = 0
        self._inbox_open, self._inbox_opening = False, asyncio.Lock()
        self._share, self._share_until, self._traced = 0.0, 0.0, 0
        self._changing = asyncio.Lock()
        self._tasks: set[asyncio.Task[None]] = set()
        self._finding = False
        self._closed = False

    # what it is

    @property
    def live(self) -> int:
        """The colour in which it publishes."""
        return self._live

    @property
    def homes(self) -> list[str | None]:
        """Its broker in each colour."""
        return [
            self._links[colour].home if colour in self._links else None
            for colour in range(len(colours_of(self.network)))
        ]

    @property
    def home(self) -> str:
        """Its broker in the live colour."""
        return self._links[self._live].home

    @property
    def filters(self) -> list[Filter]:
        """What the application is subscribed to, with groups."""
        inbox = self._kind.replies.format(self.hash)
        return [each for each in self._entries if each[0] != inbox]

    @property
    def counts(self) -> dict[str, tuple[int, int]]:
        """Messages and bytes that the application published, by topic."""
        return {topic: (messages, size) for topic, (messages, size) in self._counts.items()}

    def __repr__(self) -> str:
        return f"Client({self.name!r}, live={self._live}, homes={self.homes})"

    async def __aenter__(self) -> Client:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self.close()

    # what applications do

    async def publish(
        self, topic: str, payload: bytes | str = b"", headers: Mapping[str, str] | None = None, qos: int = 0
    ) -> None:
        """Publish a message, in the live colour. `qos` is MQTT's; NATS delivers at most once."""
        await self._send(Out(topic, _bytes(payload), _headers(headers), qos))

    async def subscribe(self, topic: str, handler: Handler, group: str | None = None, qos: int = 0) -> None:
        """Have a handler called for every message of a filter; within a group each message goes to one member.

        Returns when the broker has taken it. The handler may be a plain function or a coroutine function; messages
        of one filter are handled one after the other.
        """
        self._check_open()
        if problem := self._kind.problem_with(topic, group):
            raise BadName(f"cannot subscribe to {topic!r}: {problem}")
        key = (topic, group)
        entry = self._entries.get(key)
        if entry is None:
            self._numbers += 1
            entry = self._entries[key] = Entry(key, qos, self._numbers)
        entry.handlers.append(handler)
        try:
            for link in list(self._links.values()):
                await link.subscribe(entry)
                await link.barrier()
                link.check(lambda text: "subscription" in text and f'"{topic.lower()}"' in text)
        except BaseException:
            if entry.handlers == [handler]:
                await self.unsubscribe(topic, group)
            elif handler in entry.handlers:  # what others subscribed to earlier stays
                entry.handlers.remove(handler)
            raise

    async def unsubscribe(self, topic: str, group: str | None = None) -> None:
        """Give up a filter and all its handlers; one that is not there is no error."""
        entry = self._entries.pop((topic, group), None)
        if entry is None:
            return
        for link in list(self._links.values()):
            await link.unsubscribe(entry)
        entry.finish()

    async def request(
        self,
        topic: str,
        payload: bytes | str = b"",
        timeout: float = 2.0,
        headers: Mapping[str, str] | None = None,
        qos: int = 0,
    ) -> Message:
        """Publish a message and wait for its first answer."""
        inbox = await self._open_inbox(qos)
        self._asked += 1
        reply = inbox[:-1] + f"{self.instance}{self._asked}"
        answer: asyncio.Future[Message] = asyncio.get_running_loop().create_future()
        self._waiting[reply] = answer
        link = None
        try:
            link = await self._send(Out(topic, _bytes(payload), _headers(headers), qos, reply))
            return await asyncio.wait_for(answer, timeout)
        except TimeoutError:
            raise NoAnswer(f"nobody answered on {topic!r} within {timeout:g} s") from None
        finally:
            del self._waiting[reply]
            if link is not None:
                link.end()

    async def flush(self) -> None:
        """Return when the brokers have taken all that was published; raise Refused for what they did not permit."""
        self._check_open()
        for link in list(self._links.values()):
            try:
                await link.barrier()
            except Unreachable:
                if self._links.get(link.colour) is link:
                    raise
            link.check(lambda text: True)

    async def close(self) -> None:
        """Say goodbye: handle what has come, wait for requests, and leave. A second time changes nothing."""
        if self._closed:
            return
        self._closed = True
        links, entries = list(self._links.values()), list(self._entries.values())
        own = asyncio.current_task() in {entry.task for entry in entries}  # called by a handler: do not wait for it
        if self._live in self._links:
            with suppress(ClientError):
                for part in self._answers(counted=True):
                    await self._links[self._live].publish(Out(self._kind.left, part))
        for task in list(self._tasks):
            if task is not asyncio.current_task():
                task.cancel()
        for link in links:
            if link.up and not own:
                await link.settle(PATIENCE)
            await link.close()
        for entry in entries:
            entry.stop()
        self._links.clear()
        self._release(ClientError("the client was closed"))

    # publishing

    async def _send(self, out: Out) -> Link:
        """Send a message in the live colour, or when the hold is over; with a reply the connection counts it."""
        if self._held is not None:
            self._check_open()
            sent: asyncio.Future[Link] = asyncio.get_running_loop().create_future()
            self._held.append((sent, out))
            try:
                return await sent
            except asyncio.CancelledError:
                if out.reply is not None and sent.done() and not sent.cancelled() and sent.exception() is None:
                    sent.result().end()
                raise
        return await self._send_now(out)

    async def _send_now(self, out: Out) -> Link:
        link = self._links.get(self._live)
        if link is None:
            raise ClientError("the client is closed")
        count = self._counts.get(out.topic)
        if count is None:
            count = self._new_count(out.topic)
        if self._share:
            out = self._with_trace(out)
        if out.reply is None:
            await link.publish(out)
        else:
            link.begin()
            try:
                await link.publish(out)
            except BaseException:
                link.end()
                raise
        count[0] += 1
        count[1] += len(out.payload)
        return link

    def _new_count(self, topic: str) -> list[int]:
        """Where a topic is counted, if it is one; replies are counted together."""
        problem = self._kind.problem_of(topic)
        if problem:
            raise BadName(f"cannot publish to {topic!r}: {problem}")
        return self._counts.setdefault(self._kind.fold(topic), [0, 0])

    def _with_trace(self, out: Out) -> Out:
        """Ask the servers to trace a share of what is published."""
        if time.monotonic() > self._share_until:
            self._share = 0.0
        elif random() < self._share:
            self._traced += 1
            trace = {TRACE: f"_OVERLACE.trace.{self.instance}{self._traced:x}"}
            return out._replace(headers={**(out.headers or {}), **trace})
        return out

    async def _respond(self, message: Message, payload: bytes, headers: Mapping[str, str] | None) -> None:
        """Answer over the connection that a request came by; if that is gone, over the live one."""
        link = message._link if not message._link.closed else self._links.get(self._live)
        if link is None or message.reply is None:
            raise ClientError("the client is closed")
        out = Out(message.reply, payload, _headers(headers), message._qos)
        if self._share:
            out = self._with_trace(out)
        await link.publish(out._replace(correlation=message._correlation))
        count = self._new_count(message.reply)
        count[0] += 1
        count[1] += len(payload)

    async def _open_inbox(self, qos: int) -> str:
        """Where answers to requests come; subscribed to once."""
        inbox = self._kind.replies.format(self.hash)
        if not self._inbox_open:
            async with self._inbox_opening:  # many may ask at once, and none before answers can come
                if not self._inbox_open:
                    await self.subscribe(inbox, self._replied, qos=qos)
                    self._inbox_open = True
        return inbox

    def _replied(self, message: Message) -> None:
        """Hand an answer to whoever waits for it."""
        answer = self._waiting.get(message.topic)
        if answer is None or answer.done():
            return
        if message.headers.get("Status") == "503" and not message.payload:
            answer.set_exception(NoAnswer("nobody is subscribed to what was requested"))
        else:
            answer.set_result(message)

    def _check_open(self) -> None:
        if self._closed:
            raise ClientError("the client is closed")

    # connecting

    def _colours(self) -> range:
        """The colours that can be told apart: by user on NATS, by port on Mosquitto."""
        return range(count_colours(self.network))

    async def _open(self, colour: int, home: str) -> Link:
        link = self._kind(self, colour, home)
        await link.open()
        return link

    async def _join(self, home: str) -> None:
        """Connect at a broker, in the live colour; in both while a colour swap is under way."""
        tries = [asyncio.ensure_future(self._open(colour, home)) for colour in self._colours()]
        try:
            await asyncio.wait(tries)
            self._links = {each.result().colour: each.result() for each in tries if each.exception() is None}
            if not self._links:
                errors = [each.exception() for each in tries]
                raise next((each for each in errors if isinstance(each, Refused)), errors[0]) or Unreachable(home)
            await self._find_live()
            for link in self._links.values():
                await link.listen()
                await link.barrier()
        except BaseException:
            for each in tries:
                each.cancel()
            await asyncio.wait(tries)
            for each in tries:
                if not each.cancelled() and each.exception() is None:
                    await each.result().close()
            raise

    async def _find_live(self) -> None:
        """One colour takes us: it is live. Both do: the others say which."""
        if len(self._links) == 1:
            self._live = next(iter(self._links))
            return
        self._live, self._idle_is = await self._ask_live(self._links.values()) or 0, "open"

    async def _ask_live(self, links: Collection[Link]) -> int | None:
        """The colour that others say is live; None if nobody says one."""
        found: asyncio.Future[int | None] = asyncio.get_running_loop().create_future()
        silent = 0

        def answered(data: bytes | None) -> None:
            nonlocal silent
            silent += data is None
            live = _read_json(data or b"").get("live")
            if found.done():
                return
            if isinstance(live, int) and live in self._colours():
                found.set_result(int(live))
            elif silent == len(links):
                found.set_result(None)

        for link in links:
            await link.ask_live(answered)
        try:
            return await asyncio.wait_for(found, WHO)
        except TimeoutError:
            return None

    def _lose(self, link: Link, *, refused: bool = False) -> None:
        """A broker does not take us back: the colour was closed meanwhile, or our user was taken out.

        Of the idle colour nobody needs us then: it was closed after a newcomer had found it open.
        """
        if self._closed or self._links.get(link.colour) is not link:
            return
        if link.colour != self._live:
            if link.over or refused or self._idle_is == "open":
                del self._links[link.colour]
                self._idle_is = None
                self._begin(link.close())
        elif not self._finding:
            self._finding = True
            self._begin(self._find_again(link))

    async def _find_again(self, lost: Link) -> None:
        """Find the live colour as a newcomer would; what is published meanwhile waits."""
        if self._held is None and not lost.keeps:
            self._held = deque()
        try:
            while not (self._closed or lost.up or self._links.get(self._live) is not lost):
                async with self._changing:
                    for colour in self._colours():
                        if (colour != lost.colour or lost.over) and await self._take_over(lost, colour):
                            return
                await asyncio.sleep(0.2)
        finally:
            self._finding = False
            if self._held is not None:  # ours, or those of a switch whose hold ended meanwhile
                await self._let_go()

    async def _take_over(self, lost: Link, colour: int) -> bool:
        """Try to go on in a colour after our connection was lost."""
        known = self._links.get(colour)
        link = None
        try:
            link = known if known not in (None, lost) else await self._open(colour, lost.home)
            assert link is not None
            if await self._ask_live([link]) not in (None, colour):
                raise ClientError(f"colour {colour} is not live")
            for entry in list(self._entries.values()):
                await link.subscribe(entry)
            await link.listen()
            await link.barrier()
        except ClientError as error:
            logger.warning("%r: %s", lost.home, error)
            if link is not None and link is not known:
                await link.close()
            return False
        if self._links.get(lost.colour) is lost:
            del self._links[lost.colour]
        self._links[colour], self._live = link, colour
        self._idle_is = "open" if len(self._links) > 1 else None
        for out in lost.unsent():
            await link.publish(out)
        await lost.close()
        return True

    # orders

    def _begin(self, work: Coroutine[Any, Any, None]) -> None:
        """Run something beside; the client remembers it until it is done."""
        task = asyncio.get_running_loop().create_task(work)
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    def _obey(self, link: Link, data: bytes, reply: str) -> None:
        """Follow an order and answer it."""
        if not self._closed:
            link.orders_begun += 1
            self._begin(self._follow(link, _read_json(data), reply))

    async def _follow(self, link: Link, order: Mapping[str, object], reply: str) -> None:
        error = None
        do = order.get("do")
        try:
            if do == "sample":
                self._sample(order)
            elif do in ("prepare", "switch", "finish", "cancel"):
                async with self._changing:
                    await {
                        "prepare": self._prepare, "switch": self._switch, "finish": self._finish, "cancel": self._cancel
                    }[str(do)](order)  # fmt: skip
            elif do not in ("ask", "count"):
                error = f"unknown order {str(do)[:40]!r}; there are ask, count, sample, prepare, switch, finish, cancel"
        except ClientError as problem:
            error = str(problem)
        finally:
            link.orders_begun -= 1
        if reply:
            with suppress(ClientError):
                for part in self._answers(do == "count", error):
                    await link.publish(Out(reply, part))
        if link.leaving and not link.orders_begun:
            await link.close()

    def _answers(self, counted: bool = False, error: str | None = None) -> Iterator[bytes]:
        """What we are, in parts that a broker takes."""
        answer: dict[str, object] = {
            "client": self.name, "instance": self.instance, "live": self._live, "homes": self.homes
        }  # fmt: skip
        if error is not None:
            answer["error"] = error
        filters = list(_in_parts(map(list, self._entries)))
        counts = list(_in_parts(self._counts.items())) if counted else []
        parts = max(len(filters), len(counts), 1)
        for part in range(parts):
            answer.update(part=part, parts=parts, filters=filters[part] if part < len(filters) else [])
            if counted:
                answer["counts"] = dict(counts[part]) if part < len(counts) else {}
            yield json.dumps(answer).encode()

    def _sample(self, order: Mapping[str, object]) -> None:
        """Trace a share of what is published, for some seconds."""
        share, seconds = order.get("share"), order.get("seconds", 90)
        if not isinstance(share, (int, float)) or not isinstance(seconds, (int, float)) or not 0 <= share <= 1:
            raise ClientError("sample: expected a share of 0 to 1, and seconds")
        if not self._kind.traces:
            raise ClientError("sample: only NATS traces messages")
        self._share, self._share_until = float(share), time.monotonic() + float(seconds)

    def _colour(self, order: Mapping[str, object]) -> int:
        colour = order.get("colour")
        if not isinstance(colour, int) or colour not in self._colours():
            raise ClientError(f"{order.get('do')}: expected a colour, one of {', '.join(map(str, self._colours()))}")
        return int(colour)

    async def _prepare(self, order: Mapping[str, object]) -> None:
        """Open the other colour at a home, with all filters there, before it is used."""
        colour, home = self._colour(order), order.get("home")
        if not isinstance(home, str):
            raise ClientError("prepare: expected a broker")
        client_address(self.network, home, colour)
        there = self._links.get(colour)
        if colour == self._live:
            if there is None or there.home != home:
                raise ClientError(f"prepare: colour {colour} is live already, at {self.home}")
            return
        link = there if there is not None and there.home == home else await self._open(colour, home)
        self._links[colour] = link  # from here on new subscriptions are made in it too
        try:
            for entry in list(self._entries.values()):
                await link.subscribe(entry)
            await link.listen()
            await link.barrier()
        except BaseException:
            if there is None:
                del self._links[colour]
            else:
                self._links[colour] = there
            if link is not there:
                await link.close()
            raise
        self._idle_is = "new"
        if there is not None and there is not link:
            await there.close()

    async def _switch(self, order: Mapping[str, object]) -> None:
        """Publish in the other colour from now on, after a pause that keeps the order of messages."""
        colour, hold = self._colour(order), order.get("hold_ms", 50)
        if not isinstance(hold, (int, float)) or not 0 <= hold <= 60_000:
            raise ClientError("switch: expected hold_ms, 0 to 60000")
        if colour == self._live:
            return
        if colour not in self._links:
            raise ClientError(f"switch: colour {colour} is not prepared")
        if self._held is None:
            self._held = deque()
        self._held_until = math.inf  # nothing goes before the barrier has passed
        try:
            await self._links[self._live].barrier()
        except BaseException:
            self._held_until = 0.0
            await self._let_go()
            raise
        self._live = colour
        self._idle_is = "new" if self._idle_is == "old" else "old"
        self._held_until = time.monotonic() + hold / 1000
        asyncio.get_running_loop().call_later(hold / 1000, lambda: self._begin(self._let_go()))

    async def _let_go(self) -> None:
        """Send what was held, in its order; then publishing is direct again. The last of several holds counts."""
        if self._letting_go or self._finding or time.monotonic() < self._held_until - 0.001:
            return
        self._letting_go = True
        try:
            while self._held:
                sent, out = self._held.popleft()
                if not sent.done():  # else whoever published it has given up
                    await self._send_held(sent, out)
            self._held = None
        finally:
            self._letting_go = False

    async def _send_held(self, sent: asyncio.Future[Link], out: Out) -> None:
        try:
            link = await self._send_now(out)
        except Exception as error:
            if not sent.done():
                sent.set_exception(error)
            return
        if not sent.done():
            sent.set_result(link)
        elif out.reply is not None:
            link.end()

    def _release(self, error: ClientError) -> None:
        """Give up what was held."""
        for sent, _ in self._held or ():
            if not sent.done():
                sent.set_exception(error)
        self._held = None

    async def _finish(self, order: Mapping[str, object]) -> None:
        """Leave the colour that is not live any more, once all its messages are handled and requests answered."""
        link = self._links.get(1 - self._live)
        if link is None:
            return
        if self._idle_is == "new":
            raise ClientError(f"finish: not switched; colour {self._live} is still live. Send switch or cancel")
        if not await link.settle(FINISH):
            raise ClientError(f"finish: colour {link.colour} has {link.busy} unanswered after {FINISH:g} s. Try again")
        await self._leave(link)

    async def _cancel(self, order: Mapping[str, object]) -> None:
        """Leave the colour that was prepared."""
        link = self._links.get(1 - self._live)
        if link is None:
            return
        if self._idle_is == "old":
            raise ClientError(f"cancel: colour {self._live} is live. Send switch to {link.colour} first, or finish")
        await self._leave(link)

    async def _leave(self, link: Link) -> None:
        del self._links[link.colour]
        self._idle_is = None
        link.leaving = True
        if not link.orders_begun:  # else its last order closes it: the answer goes where the order came from
            await link.close()


def _read_json(data: bytes) -> Mapping[str, object]:
    """A JSON object from elsewhere; nothing if it is none."""
    with suppress(ValueError, RecursionError):
        found = json.loads(data)
        if isinstance(found, dict):
            return found
    return {}


def _in_parts(items: Iterable[Any]) -> Iterator[list[Any]]:
    """Items in lists whose JSON is of a size that a broker takes."""
    part: list[Any] = []
    size = 0
    for each in items:
        size += len(json.dumps(each)) + 2
        if part and size > PART:
            yield part
            part, size = [], len(json.dumps(each)) + 2
        part.append(each)
    if part:
        yield part


async def connect(name: str, network: str | Path | Network = "network.toml", home: str | None = None) -> Client:
    """A client by its name, at its home: as given, as the network file's `homes` say, or the first that answers."""
    if not is_text(name, LONGEST_NAME) or not name.strip():
        got = f"{name[:20]!r}... of {len(name):,}" if isinstance(name, str) and len(name) > 200 else repr(name)
        raise BadName(f"a client needs a name of its own, without control characters; got {got}")
    known = check_network(network) if isinstance(network, dict) else await asyncio.to_thread(read_network, network)
    found = home if home is not None else await asyncio.to_thread(find_home, known, name)
    if found is not None:
        client_address(known, found)
    client = Client(name, known)
    trouble: ClientError | None = None
    for broker in [found] if found is not None else list(known["brokers"]):
        try:
            await client._join(broker)
        except Unreachable as error:
            trouble = trouble or error
            continue
        try:
            if client._kind.asks_early:
                await client._open_inbox(2)
        except BaseException:
            await client.close()
            raise
        return client
    raise trouble or Unreachable("no broker answers")
