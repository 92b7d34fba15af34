"""Where clients connect, for those who tell them: a table of clients and brokers, and DNS records.

`clients.csv` has a row for every client, client,broker, and as its last row `*` for all others, where the plan says
so. `newcomers.csv` is the plan's rule for clients that it has never seen: rule, what the rule goes by, broker. A name
that a spreadsheet would take for a formula is written with ' before it, and so is one that begins with '.
"""

from __future__ import annotations

import csv
import hashlib
import io
import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from ipaddress import ip_address

from overlace.errors import BadNetwork
from overlace.live.deployment import CONTROL
from overlace.trace.plan_file import Newcomers

FORMULAS = ("=", "+", "-", "@", "'")
TTL = 60
"""Seconds that a DNS record may be kept: clients find their new home within that time."""


def cell(text: str) -> str:
    """A name in a table, such that no spreadsheet takes it for a formula."""
    return f"'{text}" if text.startswith(FORMULAS) else text


def table_text(head: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    """A table as CSV."""
    out = io.StringIO()
    writer = csv.writer(out, lineterminator="\n")
    writer.writerow(head)
    writer.writerows([cell(each) for each in row] for row in rows)
    return out.getvalue()


def split_names(homes: Mapping[str, str]) -> tuple[dict[str, str], int]:
    """(clients that a line of text can name, how many it cannot): left out are those with control characters, and *,
    which stands for all others."""
    fine = {name: home for name, home in sorted(homes.items()) if name not in ("", "*") and not CONTROL.search(name)}
    return fine, len(homes) - len(fine)


def clients_text(homes: Mapping[str, str], newcomers: Newcomers | None) -> str:
    """Every client and its broker, and where all others go."""
    rows = list(homes.items())
    if newcomers and newcomers.default:
        rows.append(("*", newcomers.default))
    return table_text(("client", "broker"), rows)


def newcomers_text(newcomers: Newcomers | None) -> str:
    """The plan's rule for clients that it has never seen."""
    head = ("rule", "which", "broker")
    if newcomers is None:
        return table_text(head, [("stay", "*", "")])
    rows = [(newcomers.rule, which, broker) for which, broker in newcomers.brokers.items()]
    rows = rows or [(newcomers.rule, "*", "")]
    rows += [("keep", pattern, "") for pattern in newcomers.keep]
    rows += [("only", pattern, "") for pattern in newcomers.only]
    return table_text(head, [*rows, ("default", "*", newcomers.default or "")])


def newcomers_words(newcomers: Newcomers | None) -> list[str]:
    """The rule in sentences."""
    if newcomers is None:
        return ["The plan has no rule for newcomers: they stay where they connect."]
    told = [
        f"Newcomers: {newcomers}.",
        "newcomers.csv has the rule: for each of what the rule goes by (which) the broker; `keep` are clients, by name "
        "or pattern, that stay where they connect, and where there is any `only` all others stay; `default` is the "
        "broker for all others, empty: where they connect, or the nearest broker below its limits.",
    ]
    if newcomers.rule == "first-contact":
        told.append(
            "A first contact is the client that a newcomer sends to or receives from first: clients.csv has it."
        )
    return told


def label(name: str) -> str:
    """A name as one label of a domain name; no two names share one."""
    plain = re.sub(r"[^a-z0-9]+", "-", name.lower()).strip("-")[:40].strip("-")
    if plain and plain == name and not re.search(r"-[0-9a-f]{12}$", name):
        return plain
    return f"{plain or 'x'}-{hashlib.blake2b(name.encode('utf-8', 'replace'), digest_size=6).hexdigest()}"


def dns_rows(homes: Mapping[str, str], address: Callable[[str], str], service: str) -> list[tuple[str, ...]]:
    """(client, label, type, value) of the records of each client: its broker's host, and the service there."""
    rows: list[tuple[str, ...]] = []
    for name, broker in homes.items():
        host, _, port = address(broker).rpartition(":")
        host, mine = host.strip("[]"), "*" if name == "*" else label(name)
        try:
            kind, target = ("AAAA" if ip_address(host).version == 6 else "A"), mine
        except ValueError:
            if not re.fullmatch(r"[A-Za-z0-9_]([A-Za-z0-9_.-]{0,251}[A-Za-z0-9_])?\.?", host):
                raise BadNetwork(f"broker {broker!r}: host {host!r} cannot be in DNS records") from None
            kind, host = "CNAME", f"{host.rstrip('.')}."
            target = host
        rows.append((name, mine, kind, host))
        if name != "*":
            rows.append((name, f"_{service}._tcp.{mine}", "SRV", f"0 0 {port} {target}"))
    return rows


def zone_text(rows: Iterable[Sequence[str]], about: str) -> str:
    """Records as part of a zone file, relative to its origin."""
    lines = [f"; {about}", "; Include it in the zone of your clients: names are relative to its $ORIGIN."]
    lines += [f"{name} {TTL} IN {kind} {value} ; {client}" for client, name, kind, value in rows]
    return "\n".join(lines) + "\n"
