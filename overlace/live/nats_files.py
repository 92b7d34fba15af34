"""nats-server's configuration as text. Nothing else writes into one.

A broker has three files: `SLUG.conf` is for networks that Overlace starts; an operator's own configuration includes
the other two, `SLUG.accounts.conf` at its top level and `SLUG.remotes.conf` within `leafnodes`.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Mapping, Sequence
from typing import NamedTuple
from urllib.parse import quote as percent
from urllib.parse import urlsplit

from overlace.errors import BadNetwork
from overlace.live.deployment import CONTROL, Deployment
from overlace.live.wiring import Links, dials, slug

SYSTEM = "SYS"
"""The system account of networks that Overlace starts."""

HEAD = "# Written by Overlace for {}. Changes here are lost when it is written again.\n"
ORDERS = "_OVERLACE.ctl.>"
TRACES = "_OVERLACE.trace.>"


class Listens(NamedTuple):
    """Where a broker listens, host:port each."""

    client: str
    links: str
    monitor: str


def quote(text: str, secret: str = "") -> str:
    """A text in double quotes, as nats-server reads it back; control characters are refused, a `secret` by its name."""
    if CONTROL.search(text):
        raise BadNetwork(f"{secret or repr(text)} holds a control character, which no configuration may. Change it.")
    return '"' + text.replace("\\", "\\\\").replace('"', '\\"') + '"'


def names_of(broker: str) -> dict[str, str]:
    """The names of a broker's files by what they hold."""
    return {kind: f"{slug(broker)}.{end}" for kind, end in ENDINGS.items()}


ENDINGS = {"main": "conf", "accounts": "accounts.conf", "remotes": "remotes.conf"}


def broker_files(
    deployment: Deployment,
    links: Mapping[int, Links],
    takes: Collection[int],
    listens: Mapping[str, Listens] | None = None,
    plain: Mapping[str, int] | None = None,
) -> dict[str, str]:
    """All files of a deployment by name: the links of each colour, and which colours take clients.

    `plain` is the colour that takes clients without the wrapper, at each broker (default: the first that takes any).
    Where accounts come from JWTs, they and the main file are the operator's.
    """
    files = {}
    parents = {colour: dials(deployment.brokers, wired) for colour, wired in sorted(links.items())}
    for broker in deployment.brokers:
        names = names_of(broker)
        dialled = [(c, tree[broker]) for c, tree in parents.items() if broker in tree]
        if accounts := accounts_text(deployment, takes, (plain or {}).get(broker)):
            files[names["main"]] = main_text(deployment, broker, (listens or {}).get(broker))
            files[names["accounts"]] = HEAD.format(quote(broker)) + accounts
        files[names["remotes"]] = HEAD.format(quote(broker)) + remotes_text(deployment, dialled)
    return files


def main_text(deployment: Deployment, broker: str, listens: Listens | None = None) -> str:
    """A broker's main configuration; `listens` where others reach it through something in between."""
    entry, names = deployment.of(broker), names_of(broker)
    if listens is None:
        monitor = urlsplit(entry.monitor or "").netloc
        listens = Listens(deployment.client_address(broker), deployment.link_address(broker), monitor)
    shows = []
    if entry.cert and entry.key:
        cert, key = (quote(str(deployment.place(each))) for each in (entry.cert, entry.key))
        shows = [f"tls {{ cert_file: {cert}, key_file: {key} }}"]
    scheme = "https" if shows and (entry.monitor or "").startswith("https:") else "http"
    lines = [
        HEAD.format(quote(broker)).rstrip(),
        f"server_name: {quote(broker)}",
        f"listen: {quote(listens.client)}",
        *([f"{scheme}: {quote(listens.monitor)}"] if listens.monitor else []),
        *shows,
        "leafnodes {",
        f"  listen: {quote(listens.links)}",
        *(f"  {line}" for line in shows),
        "  no_advertise: true",
        '  reconnect: "1s"',
        f"  include {quote(names['remotes'])}",
        "}",
        f"include {quote(names['accounts'])}",
    ]
    return "\n".join(lines) + "\n"


def accounts_text(deployment: Deployment, takes: Collection[int], plain: int | None = None) -> str:
    """The accounts of all colours and their users; a colour that takes no clients has no user for them.

    Clients without the wrapper have one user, who is in one colour that takes clients: `plain`, or the first.
    Empty where accounts come from JWTs, or where one is the server's own, such as $G: they are the operator's.
    """
    held = deployment.credentials
    if any(each is not None and each.creds for each in (held.clients, held.control, held.links)):
        return ""
    if any(each.startswith("$") for each in deployment.colours):
        return ""
    if SYSTEM in deployment.colours:
        raise BadNetwork(f"{deployment.path}: colours: {SYSTEM} is the system account here. Expected another name.")
    deployment.login("links")  # refused where the network file names none: no link would be let in
    deployment.refuse_shared("clients", "control", "links", "system")
    lines = ["accounts {"]
    rights = f"permissions: {{ publish: {{ deny: {quote(ORDERS)} }}, subscribe: {{ deny: {quote(TRACES)} }} }}"
    plain = plain if plain in takes else min(takes, default=None)
    for colour, account in enumerate(deployment.colours):
        users = []
        if colour in takes and held.clients:
            users.append(f"{{ {user_text(deployment, 'clients', colour)}, {rights} }}")
        if colour == plain and held.plain:
            users.append(f"{{ {user_text(deployment, 'plain', colour)}, {rights} }}")
        users += [
            f"{{ {user_text(deployment, role, colour)} }}" for role in ("control", "links") if getattr(held, role)
        ]
        lines += [f"  {quote(account)} {{", "    users: [", *(f"      {each}" for each in users), "    ]", "  }"]
    if held.system and not held.system.creds:
        lines.append(f"  {SYSTEM} {{ users: [ {{ {user_text(deployment, 'system', 0)} }} ] }}")
        lines += ["}", f"system_account: {SYSTEM}"]
    else:
        lines.append("}")
    return "\n".join(lines) + "\n"


def user_text(deployment: Deployment, role: str, colour: int) -> str:
    """A user of an account, with what it is known by."""
    who = deployment.login(role, colour)
    if who.nkey:
        return f"nkey: {quote(who.public_key())}"
    if re.match(r"\$2[abxy]\$", who.password):
        raise BadNetwork(f"{deployment.path}: credentials.{role}: NATS would take this password for a bcrypt hash")
    return f"user: {quote(who.user)}, password: {quote(who.password, f'the password of {role}')}"


def remotes_text(deployment: Deployment, dialled: Sequence[tuple[int, str]]) -> str:
    """The brokers that a broker dials, in each colour."""
    lines = ["remotes: ["]
    for colour, other in dialled:
        who = deployment.login("links", colour) if deployment.credentials.links else None
        scheme = "tls" if deployment.tls else "nats-leaf"
        user = f"{percent(who.user, safe='')}:{percent(who.password, safe='')}@" if who and who.user else ""
        parts = [f"url: {quote(f'{scheme}://{user}{deployment.link_address(other, colour)}')}"]
        parts.append(f"account: {quote(deployment.colours[colour])}")
        if who and who.creds:
            parts.append(f"credentials: {quote(str(who.creds))}")
        if who and who.nkey:
            parts.append(f"nkey: {quote(who.seed(), 'the seed of links')}")  # a remote takes the seed itself
        if deployment.tls:
            parts.append(f"tls: {{ {tls_text(deployment)} }}")
        lines.append(f"  {{ {', '.join(parts)} }}")
    return "\n".join([*lines, "]"]) + "\n"


def tls_text(deployment: Deployment) -> str:
    """TLS towards other brokers."""
    tls = deployment.tls
    given = {"ca_file": tls.ca, "cert_file": tls.cert, "key_file": tls.key} if tls else {}
    return ", ".join(f"{key}: {quote(str(deployment.place(path)))}" for key, path in given.items() if path)
