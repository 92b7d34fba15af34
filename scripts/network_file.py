"""Write docs/network-file.md, the reference of the network file, from its schema. `--check` only compares."""

from __future__ import annotations

import sys
from pathlib import Path

from pydantic import BaseModel

from overlace.live.deployment import BrokerEntry, Credential, Credentials, Deployment, Tls

ROOT = Path(__file__).parent.parent
PARTS: tuple[tuple[str, type[BaseModel]], ...] = (
    ("The file", Deployment),
    ("`tls`", Tls),
    ("`[credentials]`", Credentials),
    ("A credential", Credential),
    ("`[brokers.NAME]`", BrokerEntry),
)


def page() -> str:
    """The reference."""
    parts = [
        "# The network file\n",
        "Which brokers there are, where they listen, and where credentials are found. It is TOML; paths in it begin at",
        "its own folder; a key that is not listed here is refused. It never holds a secret: it names the variable or",
        "the file that does. `overlace live up` writes one; [live.md](live.md) uses it. This page is written from the",
        "schema (`overlace schema network` prints that as JSON).\n",
        "```toml",
        'substrate = "nats"',
        'files = "/etc/nats/overlace"          # only files in here are written; your configuration includes them',
        'allow_link = ["*:hub-*"]              # links that may be new',
        'tls = { ca = "/etc/nats/ca.pem" }',
        "",
        "[credentials]",
        'clients = { user = "app", password_env = "APP_PASSWORD" }',
        'control = { user = "overlace", password_file = "/etc/overlace/control" }',
        'links = { user = "link", password_file = "/etc/overlace/link" }',
        "",
        "[brokers.hub-1]",
        'client = "10.0.0.1:4222"',
        'links = "10.0.0.1:7422"',
        'monitor = "http://10.0.0.1:8222"',
        "```\n",
    ]
    for title, kind in PARTS:
        parts.append(f"## {title}\n")
        parts.append("| key | what it is | default |\n|---|---|---|")
        for name, each in kind.model_fields.items():
            default = "**needed**" if each.is_required() else _default(each.default)
            parts.append(f"| `{name}` | {each.description} | {default} |")
        parts.append("")
    return "\n".join(parts)


def _default(value: object) -> str:
    if value is None or isinstance(value, BaseModel):
        return "none"
    if isinstance(value, tuple):
        return ", ".join(f"`{each}`" for each in value)
    return f"`{value}`"


def main() -> int:
    """Write the page, or with --check compare it."""
    path, text = ROOT / "docs/network-file.md", page()
    if "--check" not in sys.argv:
        path.write_text(text)
    elif not path.exists() or path.read_text() != text:
        print("docs/network-file.md is not up to date: make docs")
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
