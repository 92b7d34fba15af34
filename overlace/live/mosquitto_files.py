"""mosquitto.conf as text. Nothing else writes into one.

A broker of a colour has three files: its configuration, the hashed passwords and the access rules. There are no quotes
in mosquitto.conf: control characters are refused, and a level of a filter with a space in it becomes `+`.
"""

from __future__ import annotations

import base64
import hashlib
import re
from collections.abc import Mapping, Sequence
from typing import Literal, NamedTuple

from overlace.errors import BadNetwork
from overlace.live.deployment import CONTROL, Deployment
from overlace.live.wiring import Links, dials, slug

Direction = Literal["in", "out", "both"]
ROUNDS = 101
"""Of the hash of a password, as mosquitto_passwd has it."""

PROBES = "$overlace/probe/#"

ACCESS = {
    "clients": (
        "readwrite #",
        "read $overlace/ctl/#",
        "write $overlace/answers/#",
        "write $overlace/left",
        f"readwrite {PROBES}",
    ),
    "control": ("readwrite #", "read $SYS/#", "readwrite $overlace/#"),
    "links": ("readwrite #", "readwrite $overlace/#"),
}
"""What each role may do. A rule for # does not hold for topics that begin with $: nobody but control gives orders."""


class Bridged(NamedTuple):
    """A filter that a bridge carries, seen from the broker that dials."""

    filter: str
    direction: Direction


Filters = Mapping[tuple[str, str], Sequence[Bridged]]
"""What the bridge of a broker (first) to the one that it dials (second) carries."""

EVERYTHING = (Bridged("#", "both"),)


def plain(text: str, what: str, *, secret: bool = False) -> str:
    """A value of a line as it is; refused where it would not be read back, a secret without showing it."""
    named = what if secret else f"{what} {text!r}"
    if CONTROL.search(text):
        raise BadNetwork(f"{named} holds a control character, which no configuration may. Change it.")
    if text != text.strip() or not text:
        raise BadNetwork(f"{named}: mosquitto.conf cannot hold a value that is empty, begins or ends with a space")
    return text


def bridge_filter(text: str) -> str:
    """A filter as it can stand in mosquitto.conf: a level with a space becomes +; control characters are refused."""
    if CONTROL.search(text):
        raise BadNetwork(f"filter {text!r} holds a control character, which no configuration may. Leave it out.")
    if text == '""':  # means nothing at all there
        return "+"
    return "/".join("+" if re.search(r"\s", level) else level for level in text.split("/"))


def names_of(broker: str, colour: int) -> dict[str, str]:
    """The names of a broker's files in a colour by what they hold."""
    start = f"{slug(broker)}.{colour}"
    return {"main": f"{start}.conf", "passwords": f"{start}.passwords", "access": f"{start}.acl"}


def broker_files(
    deployment: Deployment,
    colour: int,
    links: Links,
    filters: Filters | None = None,
    more: str = "",
    *,
    proxied: bool = False,
) -> dict[str, str]:
    """All files of the brokers of a colour by name; `more` lines stand in every configuration.

    A broker listens where others dial it, too, unless something in between does (`proxied`).
    """
    parents = dials(deployment.brokers, links)
    files = {}
    for broker in deployment.brokers:
        names = names_of(broker, colour)
        dialled = parents.get(broker)
        carried = EVERYTHING if filters is None or dialled is None else filters.get((broker, dialled), ())
        own = deployment.client_address(broker, colour)
        dialled_at = deployment.link_address(broker, colour)
        listens = [own] if proxied or dialled_at == own else [own, dialled_at]
        files[names["main"]] = main_text(deployment, broker, colour, listens, more) + (
            bridge_text(deployment, broker, dialled, colour, carried) if dialled else ""
        )
        files[names["passwords"]] = passwords_text(deployment, broker)
        files[names["access"]] = access_text(deployment)
    return files


def main_text(deployment: Deployment, broker: str, colour: int, listens: Sequence[str], more: str = "") -> str:
    """What a broker listens on, and who may connect."""
    entry, names = deployment.of(broker), names_of(broker, colour)
    folder = deployment.files_folder
    shows = (
        [
            f"certfile {plain(str(deployment.place(entry.cert)), 'path')}",
            f"keyfile {plain(str(deployment.place(entry.key)), 'path')}",
        ]
        if entry.cert and entry.key
        else []
    )
    lines = [
        f"# Written by Overlace for broker {plain(broker, 'broker')}. Changes here are lost when it is written again.",
        *(line for each in listens for line in (listener_text(each), *shows)),
        "allow_anonymous false",
        f"password_file {plain(str(folder / names['passwords']), 'path')}",
        f"acl_file {plain(str(folder / names['access']), 'path')}",
        "persistence false",
        "set_tcp_nodelay true",
        "max_queued_messages 0",
        "sys_interval 1",
        *([more.rstrip()] if more else []),
    ]
    return "\n".join(lines) + "\n"


def listener_text(address: str) -> str:
    """A port that a broker opens, from host:port."""
    host, _, port = address.rpartition(":")
    return f"listener {port} {plain(host.strip('[]'), 'host')}"


def bridge_text(deployment: Deployment, broker: str, dialled: str, colour: int, carried: Sequence[Bridged]) -> str:
    """The bridge to the broker that this one dials."""
    who = deployment.login("links", colour)
    name = f"{slug(broker)}.{slug(dialled)}"
    lines = [
        f"connection {name}",
        f"address {deployment.link_address(dialled, colour)}",
        f"local_clientid overlace.{name}.local",
        f"remote_clientid overlace.{name}",
        f"remote_username {plain(who.user, 'user')}",
        f"remote_password {plain(who.password, 'the password of links', secret=True)}",
        "bridge_protocol_version mqttv50",
        "cleansession true",
        "notifications true",
        "notifications_local_only true",
        "try_private true",
        "restart_timeout 1",
        "keepalive_interval 10",
    ]
    if deployment.tls:
        given = {
            "bridge_cafile": deployment.tls.ca,
            "bridge_certfile": deployment.tls.cert,
            "bridge_keyfile": deployment.tls.key,
        }
        lines += [f"{word} {plain(str(deployment.place(path)), 'path')}" for word, path in given.items() if path]
    lines += [f"topic {bridge_filter(each.filter)} {each.direction} 2" for each in (*carried, Bridged(PROBES, "both"))]
    return "\n".join(lines) + "\n"


def passwords_text(deployment: Deployment, broker: str) -> str:
    """Users and the hashes of their passwords."""
    deployment.refuse_shared(*ACCESS)
    lines = []
    for role in ACCESS:
        if getattr(deployment.credentials, role):
            who = deployment.login(role, 0)
            salt = hashlib.blake2b(f"{broker} {who.user}".encode(), digest_size=12).digest()  # the same file each time
            hashed = hashlib.pbkdf2_hmac("sha512", who.password.encode(), salt, ROUNDS, 64)
            coded = (base64.b64encode(each).decode() for each in (salt, hashed))
            lines.append(f"{_user(who.user)}:$7${ROUNDS}${'$'.join(coded)}")
    return "\n".join(lines) + "\n"


def _user(name: str) -> str:
    if ":" in name:
        raise BadNetwork(f"user {name!r}: a Mosquitto user has no colon in its name")
    return plain(name, "user")


def access_text(deployment: Deployment) -> str:
    """What each user may do."""
    lines = []
    for role, rules in ACCESS.items():
        if getattr(deployment.credentials, role):
            lines += [f"user {_user(deployment.login(role, 0).user)}", *(f"topic {rule}" for rule in rules), ""]
    return "\n".join(lines)
