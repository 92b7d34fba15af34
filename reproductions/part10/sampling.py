"""§5.1: the simulation with drawn subscribers and messages, against the exact rate."""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np

from overlace.arrays.jit import Ints, kernel
from overlace.errors import NotObserved
from overlace.model import Observation, Overlay, Progress
from overlace.planners.channels.strategies import Strategy1, Strategy2, Strategy3, Strategy31
from overlace.planners.channels.strategy4 import Strategy4
from overlace.replay.delivery import channels_met, cut_of, delivery, places, wanted_of
from overlace.report.charts import Row
from reproductions.part10.curves import Setup, Strategy
from reproductions.part10.strategy_3 import thesis
from reproductions.result import Measured, item

SUBSCRIBERS, MESSAGES = 30_000, 10_000


def _figures(measured: Measured, seeds: int) -> dict[str, object]:
    return {"subscribers": f"{SUBSCRIBERS:,}", "messages": f"{MESSAGES:,}"}


@item("part10/sampling", "§5.1: the sampled simulation compared with the exact rate", seeds=10, figures=_figures)
def sampling(seeds: int, progress: Progress) -> Measured:
    """Draw as the thesis does, and compare with what can be counted."""
    few, large = thesis((11, 15)), Setup(10, (3, 4), 3000)
    cases: list[tuple[str, Strategy, Setup]] = [
        ("strategy 1", Strategy1(), few),
        ("strategy 1", Strategy1(), large),
        ("strategy 2", Strategy2(), few),
        ("strategy 3", Strategy3(), few),
        ("strategy 3.1", Strategy31(), few),
        ("strategy 4", Strategy4(), few),
    ]
    rows: list[Row] = []
    for i, (name, strategy, setup) in enumerate(cases):
        observation = setup.draw(0)
        online = strategy.online(observation)
        online.join(0, len(online.kinds))
        overlay = Overlay(channels=online.pairs)
        exact = delivery(observation, overlay).of("false_positive_rate")
        draws = [sample(observation, overlay, SUBSCRIBERS, MESSAGES, seed) for seed in range(seeds)]
        within = [abs(each.rate - exact) <= 2 * each.standard_error for each in draws]
        rows.append(
            {
                "strategy": name,
                "publishers": setup.joining,
                "exact rate": exact,
                "sampled, mean": sum(d.rate for d in draws) / seeds,
                "least": min(d.rate for d in draws),
                "most": max(d.rate for d in draws),
                "standard error": sum(d.standard_error for d in draws) / seeds,
                "within two standard errors": f"{sum(within)} of {seeds}",
                "messages received, millions": sum(d.received for d in draws) / seeds / 1e6,
            }
        )
        progress((i + 1) / len(cases), name)
    return Measured(rows)


class Sampled(NamedTuple):
    """What a simulation with some subscribers and some messages saw."""

    rate: float  # false positives / received
    standard_error: float
    received: int
    false_positives: int


def sample(
    observation: Observation, overlay: Overlay, subscribers: int = 10_000, messages: int = 10_000, seed: int = 0
) -> Sampled:
    """PART10 §5.1: draw subscribers and messages, deliver each message, count what was not wanted.

    Subscribers are drawn from the requests, or uniformly from the offered combinations where none are
    known; messages by how often their publishers publish; both with replacement. The standard error is
    that of a ratio over a grid: the spread over the messages plus the spread over the subscribers.
    """
    cut, offers = cut_of(overlay), observation.offers
    among = wanted_of(observation)
    total = int(offers.messages.sum())
    if total == 0 or len(among) == 0 or subscribers < 2 or messages < 2:
        raise NotObserved(
            f"sampled: {subscribers} subscribers out of {len(among)}, {messages} messages out of {total}; "
            "expected at least two draws and something to draw from. Ingest the table advertisements."
        )
    draw = np.random.default_rng(seed)
    wanted = among[draw.integers(0, len(among), subscribers)]
    row = np.searchsorted(np.cumsum(offers.messages), draw.integers(0, total, messages), side="right")
    masks, times = np.unique(offers.attributes[row], return_counts=True)
    wanted, listeners = np.unique(wanted, return_counts=True)
    start, met = channels_met(masks, cut)
    by_message, by_subscriber = simulate(masks, times, wanted, listeners, places(wanted, cut), start, met)
    received, false = (int((times * column).sum()) for column in by_message.T)
    if received == 0:
        return Sampled(0.0, 0.0, 0, 0)
    rate = false / received
    error = math.hypot(_spread(by_message, times, rate), _spread(by_subscriber, listeners, rate))
    return Sampled(rate, error, received, false)


def _spread(seen: Ints, times: Ints, rate: float) -> float:
    """The standard error of a ratio of sums over independent draws; seen is (received, false) of each kind."""
    draws, received = int(times.sum()), int((times * seen[:, 0]).sum())
    left_over = seen[:, 1] - rate * seen[:, 0]
    return math.sqrt(float((times * left_over**2).sum()) * draws / (draws - 1)) / received


@kernel
def simulate(
    masks: Ints, times: Ints, wanted: Ints, listeners: Ints, listens: Ints, start: Ints, met: Ints
) -> tuple[Ints, Ints]:
    """Deliver messages of each kind to subscribers of each kind and let these match them.

    (received, false positives) of one message of each kind over all subscribers, and of one
    subscriber of each kind over all messages.
    """
    by_message = np.zeros((len(masks), 2), dtype=np.int64)
    by_subscriber = np.zeros((len(wanted), 2), dtype=np.int64)
    published = np.full(max(listens.max(), met.max()) + 1, -1, dtype=np.int64)
    for i in range(len(masks)):
        for k in range(start[i], start[i + 1]):
            published[met[k]] = i
        for k in range(len(wanted)):
            if published[listens[k]] == i:
                by_message[i, 0] += listeners[k]
                by_subscriber[k, 0] += times[i]
                if wanted[k] & ~masks[i] != 0:
                    by_message[i, 1] += listeners[k]
                    by_subscriber[k, 1] += times[i]
    return by_message, by_subscriber
