"""The options of live commands: each once, with its help. Loads nothing heavy, so that commands start at once."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

from overlace.errors import BadParameter
from overlace.ingest.options import KEY_VARIABLE
from overlace.limits import Given, Objective, check_options, option


def read_delay(text: str) -> float:
    """Milliseconds from 3ms, 0.2 s or 3."""
    found = text.strip().lower().replace(" ", "")
    try:
        for end_, factor in (("ms", 1.0), ("us", 0.001), ("s", 1000.0), ("", 1.0)):
            if found.endswith(end_):
                return float(found.removesuffix(end_)) * factor
    except ValueError:
        pass
    raise BadParameter(f"--delay {text!r}: expected a time such as 3ms")


@dataclass(frozen=True)
class LocalOptions:
    """What network to start."""

    substrate: Literal["nats", "mosquitto"] = option("nats", "what the brokers are: nats or mosquitto")
    brokers: int = option(7, "how many brokers", least=1, most=200)
    tree: str | None = option(None, "table of links (left,right; brokers hub-1, hub-2, ...); default: drawn by --seed")
    delay: float = option(
        0.0, "latency of every link, such as 3ms (default: none)", metavar="TIME", read=read_delay, least=0, most=10_000
    )
    port: int | None = option(None, "first port to listen on (default: free ones)", least=1024, most=65_000)
    seed: int = option(0, "same seed, same tree", least=0)

    def __post_init__(self) -> None:
        check_options(self)
        if self.substrate == "nats" and self.delay > SLOWEST:
            raise BadParameter(
                f"--delay {self.delay:g}ms: a NATS server gives a link up that says nothing for a second. "
                f"Expected at most {SLOWEST}ms."
            )


SLOWEST = 800
"""Milliseconds of delay with which NATS links still come up."""

How = Literal["counted", "traced", "estimated"]


@dataclass(frozen=True)
class RecordOptions:
    """How to record."""

    how: How = option(
        "counted",
        "counted: wrapped clients say what they publish; traced: servers say where sampled messages went (NATS); "
        "estimated: from servers' counters, any client (NATS)",
    )
    seconds: float = option(60.0, "how long to record", above=0, most=31 * 86_400)
    sample: float = option(0.1, "share of messages that are traced; taken as 1 in a whole number", above=0, most=1)
    pseudonymise: bool = option(False, f"hash all names with the key in {KEY_VARIABLE}")

    def __post_init__(self) -> None:
        check_options(self)

    @property
    def weight(self) -> int:
        """How many messages one that was traced stands for."""
        return max(1, round(1 / self.sample)) if self.how == "traced" else 1


@dataclass(frozen=True)
class ExportOptions(Given):
    """What the files of a plan are for."""

    network: str | None = option(None, "network file, or the folder of one", metavar="FILE")
    addresses: str | None = option(
        None, "without a network file: table of addresses (broker,client,links[,monitor])", metavar="TABLE"
    )
    filters: Literal["prefix", "exact", "all"] = option(
        "prefix",
        "Mosquitto: what crosses a link: known filters widened to their prefix, the filters themselves, or everything",
    )
    colour: str | None = option(
        None, "colour to wire the plan in, by name (default: the one that is not in use)", metavar="NAME"
    )
    place: str | None = option(
        None,
        "Mosquitto: folder in which the files will lie at the brokers (default: the output folder)",
        metavar="FOLDER",
    )
    run: str | None = option(None, "the run that the plan is from (default: the one that it lies in)", metavar="RUN")

    def __post_init__(self) -> None:
        check_options(self)


def read_seconds(words: Sequence[str]) -> tuple[float, ...]:
    """Times in seconds."""
    try:
        return tuple(float(word) for word in words)
    except ValueError:
        raise BadParameter(f"--change-at {' '.join(words)}: expected seconds") from None


@dataclass(frozen=True)
class TrafficOptions:
    """What load to put on a network."""

    seed: int = option(0, "same seed, same clients, topics and messages", least=0)
    seconds: float = option(60.0, "how long to publish", above=0, most=31 * 86_400)
    rate: float = option(300.0, "messages a second in all, answers to requests included", above=0, most=100_000)
    clients: int = option(40, "how many clients", least=2, most=10_000)
    topics: int = option(30, "how many topics that everybody subscribed receives", least=1, most=100_000)
    groups: float = option(0.1, "share of messages to queue groups", least=0, most=1)
    requests: float = option(0.1, "share of messages that are requests", least=0, most=1)
    change_at: tuple[float, ...] = option(
        (), "seconds after which the pattern changes: other communities, other topics (may be given several times)",
        read=read_seconds, metavar="SECONDS",
    )  # fmt: skip
    zipf: float = option(1.0, "skew of topics' rates: the rank to this power (0: all alike)", least=0, most=5)

    def __post_init__(self) -> None:
        check_options(self)
        if list(self.change_at) != sorted(self.change_at):
            raise BadParameter("change_at: expected times in their order")
        if self.groups + self.requests > 1:
            raise BadParameter(f"groups and requests are {self.groups + self.requests:g} of all messages; at most 1")


@dataclass(frozen=True)
class ApplyOptions:
    """How to carry a plan out."""

    steps: int | None = option(None, "only the first steps of the plan (default: all)", least=0)
    inverse: bool = option(False, "take back a plan that was carried out: its changes the other way round")
    rate: float | None = option(
        None, "brokers and clients a second, at most (default: as fast as they answer)", above=0
    )
    lossy: bool = option(False, "go on though clients that follow no orders will lose messages")
    copy_retained: bool = option(False, "Mosquitto: copy retained messages to the new brokers")
    filters: Literal["prefix", "exact", "all"] = option(
        "prefix",
        "Mosquitto: what crosses a link: known filters widened to their prefix, the filters themselves, or everything",
    )
    run: str | None = option(None, "the run that the plan is from (default: the one that it lies in)", metavar="RUN")

    def __post_init__(self) -> None:
        check_options(self)


def read_share(text: str) -> float:
    """A share from 5% or 0.05."""
    found = text.strip().replace(" ", "")
    try:
        return float(found.removesuffix("%")) / 100 if found.endswith("%") else float(found)
    except ValueError:
        raise BadParameter(f"--min-gain {text!r}: expected a share such as 5% or 0.05") from None


def read_port(text: str) -> int:
    """A port."""
    try:
        return int(text)
    except ValueError:
        raise BadParameter(f"--metrics {text!r}: expected a port such as 9464") from None


@dataclass(frozen=True)
class AdaptOptions:
    """How to adapt a network, window by window."""

    every: float = option(60.0, "seconds of a window; planning and applying come after it", least=2, most=86_400)
    min_gain: float = option(
        0.05, "minimum share of the cost that a plan saves, such as 5% (default) or 0.05", least=0, most=1,
        read=read_share, metavar="SHARE",
    )  # fmt: skip
    rest: int = option(6, "windows for which a client that moved stays where it is", least=0, most=10_000)
    wake: bool = option(False, "nobody rests any more once the pattern of traffic has changed")
    budget: int | None = option(None, "maximum changes after a window: clients moved and links changed", least=0)
    kept: int = option(3, "windows that a plan is made from: the last ones", least=1, most=1000)
    windows: int | None = option(None, "end after so many windows (default: Ctrl-C ends it)", least=1)
    dry_run: bool = option(False, "plan and say what would be done, and change nothing")
    metrics: int | None = option(
        None, "port on loopback for Prometheus metrics, such as 9464 (default: none)", least=1, most=65_535,
        read=read_port, metavar="PORT",
    )  # fmt: skip
    objective: Objective = option("messages", "what to lower, as in optimize")
    effort: int = option(10, "how long to anneal after the first search, as in optimize; 0: quickest", least=0)
    seed: int = option(0, "same seed, same plans from the same windows", least=0)

    def __post_init__(self) -> None:
        check_options(self)
