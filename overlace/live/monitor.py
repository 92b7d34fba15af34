"""What NATS servers say of themselves over HTTP: /varz, /leafz, /connz."""

from __future__ import annotations

import asyncio
import http.client
import json
import ssl
import urllib.request
from collections.abc import Container
from typing import Any

from overlace.errors import BadNetwork
from overlace.live.deployment import Deployment

PATIENCE = 3.0
"""Seconds until a broker that says nothing counts as silent."""

PAGE = 1024
"""Connections that /connz lists at a time."""

ONLY_ACCOUNT = "$G"
"""The account of servers without accounts; /leafz names it, /connz does not."""


async def look(deployment: Deployment, broker: str, path: str) -> dict[str, Any] | None:
    """What a broker's monitoring says; None if it is silent."""
    monitor = deployment.of(broker).monitor
    if monitor is None:
        raise BadNetwork(
            f"{deployment.path}: brokers.{broker} has no monitor. Start nats-server with http: and give its address."
        )
    return await asyncio.to_thread(_get, f"{monitor.rstrip('/')}/{path}", _context(deployment))


async def look_at_all(deployment: Deployment, path: str) -> dict[str, dict[str, Any] | None]:
    """What every broker's monitoring says."""
    told = await asyncio.gather(*(look(deployment, broker, path) for broker in deployment.brokers))
    return dict(zip(deployment.brokers, told, strict=True))


async def connections(
    deployment: Deployment, broker: str, how: str = "subs=1&auth=1", kinds: Container[str | None] = (None, "", "Client")
) -> list[dict[str, Any]] | None:
    """All connections of clients, page by page; None if the broker is silent. Links are of kind Leafnode."""
    found: list[dict[str, Any]] = []
    while True:
        page = await look(deployment, broker, f"connz?{how}&limit={PAGE}&offset={len(found)}")
        if page is None:
            return None
        found += [{"account": ONLY_ACCOUNT} | row for row in page.get("connections") or []]
        if len(page.get("connections") or []) == 0 or len(found) >= int(page.get("total", 0)):
            return [each for each in found if each.get("kind") in kinds]


def _context(deployment: Deployment) -> ssl.SSLContext | None:
    tls = deployment.tls
    if tls is None or tls.ca is None:
        return None
    return ssl.create_default_context(cafile=str(deployment.place(tls.ca)))


def _get(address: str, context: ssl.SSLContext | None) -> dict[str, Any] | None:
    secure = context if address.startswith("https") else None
    direct = urllib.request.build_opener(
        urllib.request.ProxyHandler({}),  # brokers are ours: a proxy for the web does not know them
        *([urllib.request.HTTPSHandler(context=secure)] if secure else []),
    )
    try:
        with direct.open(address, timeout=PATIENCE) as answer:
            told = json.loads(answer.read())
    except (OSError, ValueError, RecursionError, http.client.HTTPException):
        return None
    return told if isinstance(told, dict) else None
