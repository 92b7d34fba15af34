"""Metrics of `live adapt` for Prometheus, on loopback: by broker and link, never by topic or client."""

from __future__ import annotations

import threading
import time
from types import TracebackType
from wsgiref.simple_server import WSGIServer

from prometheus_client import CollectorRegistry, Counter, Gauge, start_http_server

from overlace.errors import BadNetwork
from overlace.live.adapt import Outcome

ADDRESS = "127.0.0.1"


class Exposed:
    """Serves what the windows came to: `with Exposed(9464) as exposed: exposed.take(outcome)`."""

    def __init__(self, port: int) -> None:
        self.port = port
        self.registry = CollectorRegistry()
        self._server: WSGIServer | None = None
        self._thread: threading.Thread | None = None
        at = self.registry
        self.windows = Counter("overlace_windows", "Windows that were recorded or tried", registry=at)
        self.idle = Counter("overlace_idle_windows", "Windows after which nothing was done", registry=at)
        self.applies = Counter("overlace_applies", "Plans that were carried out", registry=at)
        self.moves = Counter("overlace_moves", "Clients that were moved", registry=at)
        self.messages = Counter(
            "overlace_messages", "Messages published, by the broker of their publisher", ["broker"], registry=at
        )
        self.crossings = Counter("overlace_crossings", "Messages that crossed a link", ["left", "right"], registry=at)
        self.gain = Gauge(
            "overlace_gain_ratio", "Share of the cost that the last plan saves where it was judged", registry=at
        )
        self.cost = Gauge("overlace_window_cost", "Cost of the last window, in what is lowered", registry=at)
        self.clients = Gauge("overlace_clients", "Clients at a broker", ["broker"], registry=at)
        self.last = Gauge("overlace_last_window_timestamp_seconds", "When the last window ended", registry=at)

    def __enter__(self) -> Exposed:
        try:
            self._server, self._thread = start_http_server(self.port, ADDRESS, self.registry)
        except OSError as error:
            raise BadNetwork(f"--metrics {self.port}: cannot listen on {ADDRESS}: {error.strerror or error}.") from None
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._server is not None and self._thread is not None:
            self._server.shutdown()
            self._server.server_close()
            self._thread.join()

    def take(self, found: Outcome) -> None:
        """Count a window."""
        self.windows.inc()
        self.last.set(time.time())
        if found.applied:
            self.applies.inc()
            self.moves.inc(found.moves)
        else:
            self.idle.inc()
        if found.gain is not None:
            self.gain.set(found.gain)
        if found.figures is None:
            return
        self.cost.set(found.figures.cost)
        for broker, messages in found.figures.by_broker.items():
            self.messages.labels(broker).inc(messages)
        for (left, right), messages in found.figures.by_link.items():
            self.crossings.labels(left, right).inc(messages)
        self.clients.clear()
        for broker, clients in found.figures.clients.items():
            self.clients.labels(broker).set(clients)
