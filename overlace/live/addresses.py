"""A table of addresses in place of a network file, for people who carry a plan out by hand.

Columns: broker, client (host:port), links (host:port that other brokers dial; Mosquitto: that of clients if it is left
out), monitor (NATS, may be left out). There are no secrets in it: where one belongs, the files that are made have a
placeholder that the person fills.
"""

from __future__ import annotations

import csv
from pathlib import Path
from typing import Any

from pydantic import ValidationError

from overlace.errors import BadNetwork
from overlace.live.deployment import Deployment, Login, Substrate, first_fault

COLUMNS = ("broker", "client", "links", "monitor")


class ByHand(Deployment):
    """A network whose secrets are filled in by a person."""

    def login(self, role: str, colour: int = 0) -> Login:
        """A user with a placeholder for its password."""
        coloured = self.substrate == "nats" and role != "system"
        return Login(f"{role}-{self.colours[colour]}" if coloured else role, placeholder(role))


def placeholder(role: str) -> str:
    """What stands where the password of a role belongs."""
    return f"PASSWORD_OF_{role.upper()}"


def read_addresses(file: Path, substrate: Substrate, colour: str = "BLUE") -> ByHand:
    """A network from a table of addresses."""
    roles = ("clients", "control", "links", *(["system"] if substrate == "nats" else []))
    document: dict[str, Any] = {
        "substrate": substrate,
        "colours": [colour],
        "credentials": {role: {"user": role, "password_env": placeholder(role)} for role in roles},
        "brokers": dict(_rows(file)),
    }
    try:
        made = ByHand.model_validate(document)
    except ValidationError as error:
        raise BadNetwork(f"{file}: {first_fault(error)}") from None
    made._path = file.absolute()
    return made


def _rows(file: Path) -> list[tuple[str, dict[str, str]]]:
    """(broker, addresses) of each row."""
    try:
        with file.open(newline="", encoding="utf-8-sig") as lines:
            rows = [[cell.strip() for cell in row] for row in csv.reader(lines) if any(row)]
    except (OSError, UnicodeDecodeError, csv.Error) as error:
        raise BadNetwork(
            f"{file}: cannot be read: {error}. Expected a table of addresses: {','.join(COLUMNS)}"
        ) from None
    head = rows[0] if rows else []
    if head[:2] != ["broker", "client"] or not set(head) <= set(COLUMNS) or len(set(head)) < len(head):
        raise BadNetwork(
            f"{file}: columns {','.join(head) or 'none'}; expected {','.join(COLUMNS)}, the last two if any"
        )
    found: dict[str, dict[str, str]] = {}
    for number, row in enumerate(rows[1:], 2):
        cells = dict(zip(head, row, strict=False))
        if len(row) > len(head) or not cells.get("broker"):
            raise BadNetwork(f"{file}: row {number}: expected {','.join(head)}")
        name = cells.pop("broker")
        if name in found:
            raise BadNetwork(f"{file}: row {number}: {name} is there already. Expected a row for each broker.")
        if cells.get("monitor") and "://" not in cells["monitor"]:
            cells["monitor"] = f"http://{cells['monitor']}"
        found[name] = {key: cell for key, cell in cells.items() if cell}
    return list(found.items())
