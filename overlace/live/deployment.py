"""The network file: which brokers there are, where they listen, and where credentials are found.

A network file names secrets (a variable of the environment, a file), it never holds them. What is not known in it is
refused. `overlace live up` writes one; docs/live.md explains every key, from the descriptions here.
"""

from __future__ import annotations

import re
import tomllib
from collections.abc import Mapping
from fnmatch import fnmatchcase
from pathlib import Path
from typing import Annotated, Any, Literal, NamedTuple, TypeAlias
from urllib.parse import SplitResult, urlsplit

from pydantic import BaseModel, BeforeValidator, ConfigDict, Field, PrivateAttr, ValidationError, model_validator

from overlace.errors import BadNetwork, Unknown
from overlace.extras import require
from overlace.live.client import CONTROL as CONTROL
from overlace.live.client import ClientError, login_of

Substrate = Literal["nats", "mosquitto"]
NAME = "network.toml"
"""The network file of a folder that `overlace live up` makes."""

ADDRESS = re.compile(r"(\[[0-9A-Fa-f:.]+\]|[^\s:\[\]/@]+):(\d{1,5})")


def _address(text: object) -> object:
    found = ADDRESS.fullmatch(text) if isinstance(text, str) else None
    if not found or not 0 < int(found[2]) < 65536:
        raise ValueError("expected host:port")
    return text


def _one_or_two(value: object) -> object:
    return (value,) if isinstance(value, str) else value


Address: TypeAlias = Annotated[str, BeforeValidator(_address)]
Addresses: TypeAlias = Annotated[tuple[Address, ...], BeforeValidator(_one_or_two), Field(min_length=1, max_length=2)]


class NetworkPart(BaseModel):
    """A part of the network file; unknown keys are refused."""

    model_config = ConfigDict(extra="forbid", frozen=True)


class Tls(NetworkPart):
    """TLS towards brokers."""

    ca: str | None = Field(default=None, description="file with the certificates that are trusted")
    cert: str | None = Field(default=None, description="our own certificate, where brokers ask for one")
    key: str | None = Field(default=None, description="the key of our certificate")
    hostname: str | None = Field(default=None, description="name expected in certificates, if it is not the host's")


class Credential(NetworkPart):
    """Where a secret is found: in a variable or in a file. `{colour}` in a value stands for the name of the colour."""

    user: str | None = Field(default=None, description="user name; on NATS the colour's name is added unless it is in")
    password_env: str | None = Field(default=None, description="variable of the environment that holds the password")
    password_file: str | None = Field(default=None, description="file that holds the password")
    nkey: str | None = Field(default=None, description="NATS: file with the seed of an NKEY")
    creds: str | None = Field(default=None, description="NATS: file with a JWT and its seed")

    @model_validator(mode="after")
    def _whole(self) -> Credential:
        ways = [self.password_env, self.password_file, self.nkey, self.creds]
        if sum(each is not None for each in ways) != 1:
            raise ValueError("expected one of password_env, password_file, nkey and creds")
        if (self.user is None) == (self.nkey is None and self.creds is None):
            raise ValueError("expected a user with a password, and none with nkey or creds")
        return self


class Credentials(NetworkPart):
    """Who connects as whom."""

    clients: Credential | None = Field(default=None, description="applications that use overlace.live.client")
    control: Credential | None = Field(default=None, description="record and apply; nobody else may give orders")
    links: Credential | None = Field(default=None, description="brokers that dial other brokers")
    system: Credential | None = Field(default=None, description="NATS: the system account, to reload and to look")
    plain: Credential | None = Field(
        default=None, description="NATS: applications without overlace.live.client: one user, who is in the live colour"
    )


class BrokerEntry(NetworkPart):
    """One broker."""

    client: Addresses = Field(description="host:port for clients; Mosquitto: one for each colour")
    links: Addresses | None = Field(
        default=None, description="host:port that other brokers dial; Mosquitto: that of clients, if it is left out"
    )
    monitor: str | None = Field(default=None, description="NATS: the address of its monitoring, http://host:port")
    cert: str | None = Field(
        default=None, description="certificate that the broker shows, in the files that are written for it"
    )
    key: str | None = Field(default=None, description="key of that certificate")
    deploy: tuple[str, ...] | None = Field(
        default=None, description="command that brings {file} to the broker; no shell; left out: it is on this machine"
    )
    start: tuple[str, ...] | None = Field(default=None, description="Mosquitto: command that starts it from {file}")
    stop: tuple[str, ...] | None = Field(default=None, description="Mosquitto: command that stops what {file} started")

    @model_validator(mode="after")
    def _monitored(self) -> BrokerEntry:
        if self.monitor is not None:
            try:
                parts = urlsplit(self.monitor)
            except ValueError:
                raise ValueError("monitor: expected http://host:port, without a user") from None
            wrong = parts.scheme not in ("http", "https") or not parts.hostname or parts.username or parts.password
            if wrong or not is_port(parts):
                raise ValueError("monitor: expected http://host:port, without a user")
        return self


def is_port(parts: SplitResult) -> bool:
    """Whether the port of an address is one, or none is given."""
    try:
        return parts.port is None or parts.port > 0
    except ValueError:
        return False


class Login(NamedTuple):
    """A user with what it proves itself by; paths for keys."""

    user: str
    password: str = ""
    nkey: Path | None = None
    creds: Path | None = None

    def __repr__(self) -> str:
        return f"Login({self.user!r})"  # never the secret

    def public_key(self) -> str:
        """The public part of an NKEY."""
        require("live", "nkeys")
        import nkeys

        try:
            return str(nkeys.from_seed(self.seed().encode()).public_key.decode())
        except Exception:
            raise BadNetwork(f"{self.nkey}: not the seed of an NKEY") from None

    def seed(self) -> str:
        """The seed of an NKEY: a secret."""
        try:
            return self.nkey.read_text(encoding="ascii").strip() if self.nkey else ""
        except (OSError, UnicodeDecodeError):
            raise BadNetwork(f"{self.nkey}: cannot be read. Expected a file with the seed of an NKEY.") from None


class Deployment(NetworkPart):
    """A network file and what it names."""

    substrate: Substrate = Field(description="what the brokers are")
    files: str = Field(default="files", description="folder of our files; nothing outside of it is written")
    colours: tuple[str, ...] = Field(
        default=("BLUE", "GREEN"), min_length=1, max_length=2,
        description="names of the two overlays that the same machines carry. NATS: two accounts. Mosquitto: two ports",
    )  # fmt: skip
    allow_link: tuple[str, ...] = Field(default=("*:*",), description="links that may be new, as patterns left:right")
    homes: str | None = Field(default=None, description="table (client,broker) of where clients connect")
    tls: Tls | None = Field(default=None, description="TLS towards brokers")
    credentials: Credentials = Field(default=Credentials(), description="where secrets are found")
    brokers: dict[str, BrokerEntry] = Field(min_length=1, description="the brokers by name")

    _path: Path = PrivateAttr(default=Path(NAME))

    @model_validator(mode="after")
    def _fits(self) -> Deployment:
        for name in self.brokers:
            if not name or CONTROL.search(name) or (self.substrate == "nats" and re.search(r"\s", name)):
                raise ValueError(f"brokers.{name!r}: expected a name without control characters or spaces")
        for each in self.allow_link:
            if each.count(":") != 1:
                raise ValueError(f"allow_link {each!r}: expected two patterns, left:right")
        if self.credentials.plain and (self.substrate != "nats" or self.credentials.plain.creds):
            raise ValueError("credentials.plain: expected on NATS only, with a password or an nkey")
        if len(set(self.colours)) < len(self.colours) or any(not re.fullmatch(r"[\w$-]+", c) for c in self.colours):
            raise ValueError("colours: expected two different names of letters, digits, _ and -")
        return self

    @property
    def path(self) -> Path:
        """The network file."""
        return self._path

    @property
    def folder(self) -> Path:
        """Where the network file lies: paths in it are relative to this."""
        return self._path.parent

    def place(self, path: str) -> Path:
        """A path of the network file."""
        return self.folder / Path(path).expanduser()

    @property
    def files_folder(self) -> Path:
        """The folder of our files."""
        return self.place(self.files)

    def client_address(self, broker: str, colour: int = 0) -> str:
        """host:port for clients."""
        return self.of(broker).client[min(colour, len(self.of(broker).client) - 1)]

    def link_address(self, broker: str, colour: int = 0) -> str:
        """host:port that other brokers dial."""
        links = self.of(broker).links
        if links is None and self.substrate == "nats":
            raise BadNetwork(f"{self.path}: brokers.{broker} has no links: where do other brokers dial it? host:port")
        return links[min(colour, len(links) - 1)] if links else self.client_address(broker, colour)

    def of(self, broker: str) -> BrokerEntry:
        """A broker by its name."""
        if broker not in self.brokers:
            raise Unknown("broker", broker, self.brokers)
        return self.brokers[broker]

    def may_link(self, left: str, right: str) -> bool:
        """Whether a link between the two may be new."""
        return any(
            (fnmatchcase(left, a) and fnmatchcase(right, b)) or (fnmatchcase(right, a) and fnmatchcase(left, b))
            for a, b in (each.split(":") for each in self.allow_link)
        )

    def login(self, role: str, colour: int = 0) -> Login:
        """How a role logs in, in a colour; refused where the network file or what it names does not say."""
        if getattr(self.credentials, role) is None:
            raise BadNetwork(f"{self.path}: credentials.{role} is missing: a user, and where the password is found")
        try:
            found = login_of(self.plain(), role, colour)
        except ClientError as error:
            raise BadNetwork(f"{self.path}: {error}") from None
        keys = [Path(found[key]) if key in found else None for key in ("nkey", "creds")]
        return Login(found.get("user", ""), found.get("password", ""), *keys)

    def refuse_shared(self, *roles: str) -> None:
        """Refused if two roles are one user, or on NATS one role in two colours: a broker takes a user once."""
        seen: dict[str, str] = {}
        apart = self.substrate == "nats" and len(self.colours) > 1
        for role in roles:
            if getattr(self.credentials, role) is None:
                continue
            for colour in range(len(self.colours)):
                who = self.login(role, colour)
                name = who.public_key() if who.nkey else who.user
                here = f"{role} in {self.colours[colour]}" if apart and role != "system" else role
                if seen.setdefault(name, here) != here:
                    raise BadNetwork(
                        f"{self.path}: credentials: {here} and {seen[name]} are one user, {name!r}. Expected one for "
                        "each, so that brokers can tell who may do what."
                    )

    def plain(self) -> dict[str, Any]:
        """The network file as overlace.live.client takes it: plain values, and the folder of relative paths."""
        return {**self.model_dump(mode="json", exclude_none=True), "folder": str(self.folder)}


def read_deployment(path: str | Path) -> Deployment:
    """A network file, or that of a folder."""
    file = Path(path) / NAME if Path(path).is_dir() else Path(path)
    try:
        document = tomllib.loads(file.read_text(encoding="utf-8-sig"))  # some editors put a mark before a text
    except FileNotFoundError:
        raise BadNetwork(f"{file}: no network file there. `overlace live up` makes a network and its file.") from None
    except (UnicodeDecodeError, tomllib.TOMLDecodeError, RecursionError) as error:
        raise BadNetwork(f"{file}: not TOML: {' '.join(str(error).split())}") from None
    return check_deployment(document, file)


def check_deployment(document: Mapping[str, Any], file: Path) -> Deployment:
    """A network file from what it says."""
    try:
        made = Deployment.model_validate(document)
    except ValidationError as error:
        raise BadNetwork(f"{file}: {first_fault(error)}") from None
    made._path = file.absolute()
    return made


def first_fault(error: ValidationError) -> str:
    """The first fault in a line, without the value: it may be a secret."""
    first = error.errors(include_input=False, include_url=False)[0]
    where = ".".join(str(each) for each in first["loc"])
    if first["type"] == "extra_forbidden":
        return f"{where}: not known here. {_known(first['loc'])}"
    return " ".join(f"{where + ': ' if where else ''}{first['msg'].removeprefix('Value error, ')}".split())


def _known(loc: tuple[str | int, ...]) -> str:
    """The keys that there are beside an unknown one; what holds a secret is told apart."""
    kind: type[BaseModel] = Deployment
    if loc[0] == "brokers":
        kind = BrokerEntry
    elif loc[0] == "tls":
        kind = Tls
    elif loc[0] == "credentials":
        kind = Credentials if len(loc) < 3 else Credential
    if loc[-1] in ("password", "secret", "token", "seed"):
        return "A network file names where a secret is found: password_env = 'VARIABLE' or password_file = 'PATH'"
    return f"There are {', '.join(kind.model_fields)}"
