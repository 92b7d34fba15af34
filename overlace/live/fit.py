"""Who published what, from how much each client sent and each topic received, tick by tick.

A publisher is taken to send constant shares of its messages to each topic: what a topic receives in a tick is the sum
of its publishers' shares of what they sent then. The shares are a non-negative least-squares fit over all ticks.

Keeps: publishers that rise and fall together are one in the fit, and share what is found by what they sent; no order
of publishers or topics changes anything.
"""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np
from scipy.optimize import lsq_linear, nnls
from scipy.sparse import csr_matrix
from scipy.sparse.csgraph import connected_components

from overlace.arrays.jit import Floats, Ints

Origins = Mapping[tuple[int, ...], Mapping[int, Floats]]
"""By topics (one, or those of a family) and broker, what was published there in each tick, where that is known."""

TURNS = 20
"""Turns of making what is found of a family fit to what its topics received and its publishers sent to it."""

ALIKE = 0.05
"""Of what two independent publishers differ by: those that differ by less cannot be told apart."""


def groups_alike(sent: Floats) -> Ints:
    """The group of each publisher; `sent` has a row a tick and a column a publisher. Two in one rise and fall together.

    What is left of one after taking away the other, as much as fits, is compared with what chance leaves of two that
    publish independently.
    """
    publishers = sent.shape[1]
    gram, total = sent.T @ sent, sent.sum(axis=0)
    own = np.maximum(np.diag(gram), 1e-12)
    times = gram / own[:, None]  # times[p, q]: how often p goes into q
    left = np.maximum(own[None, :] - times * gram, 0.0)
    chance = total[None, :] + times**2 * total[:, None]
    alike = left < ALIKE * np.maximum(chance, 1e-12)
    alike &= (total > 0)[:, None] & (total > 0)[None, :]
    found: Ints = connected_components(csr_matrix(alike), directed=False)[1].astype(np.int64)
    return found if publishers else np.empty(0, dtype=np.int64)


def shares_of(sent: Floats, got: Floats) -> Floats:
    """(publisher, topic): the share of its messages that each publisher sends to each topic."""
    group = groups_alike(sent)
    groups = int(group.max(initial=-1)) + 1
    merged = np.zeros((len(sent), groups))
    np.add.at(merged.T, group, sent.T)
    found = np.zeros((groups, got.shape[1]))
    for topic in range(got.shape[1]):
        if got[:, topic].any() and groups:
            found[:, topic] = _fit(merged, got[:, topic])
    return found[group]


def shares_by_broker(sent: Floats, got: Floats, at: Ints, origins: Origins) -> Floats:
    """(publisher, topic) as `shares_of`; of topics in `origins` what was published at each broker is fitted alone.

    Of a family, that says who published how much to all of it; they are then told apart by what each topic received.
    `at` is the broker of each publisher.
    """
    families = list(origins)
    found = np.zeros((sent.shape[1], got.shape[1]))
    whole = np.zeros((sent.shape[1], len(families)))
    for broker in np.unique(at).tolist():
        mine = np.flatnonzero(at == broker)
        here = {i: origins[f][broker] for i, f in enumerate(families) if broker in origins[f]}
        here = {i: amount for i, amount in here.items() if amount.sum() > 0.5}
        if here:
            columns = np.array(list(here), dtype=np.int64)
            whole[np.ix_(mine, columns)] = _to_totals(sent[:, mine], np.column_stack(list(here.values())))
    for i, family in enumerate(families):
        topics = np.array(family, dtype=np.int64)
        found[:, topics] = whole[:, [i]] if len(family) == 1 else _within(sent, got[:, topics], whole[:, i])
    unknown = ~found.any(axis=0)
    found[:, unknown] = shares_of(sent, got[:, unknown])
    return found


def _to_totals(sent: Floats, got: Floats) -> Floats:
    """Shares that add up to all that was received; where nothing fits, by what was sent."""
    shares, total = shares_of(sent, got), sent.sum(axis=0)
    shares[:, total @ shares <= 0] = 1.0
    return np.asarray(shares * got.sum(axis=0) / np.maximum(total @ shares, 1e-12), dtype=np.float64)


def _within(sent: Floats, got: Floats, whole: Floats) -> Floats:
    """The shares of a family's topics, of publishers of which it is known what share goes to all of it."""
    found, total = np.zeros((sent.shape[1], got.shape[1])), np.maximum(got.sum(axis=0), 0.0)
    who = np.flatnonzero(whole > 0)
    amount = whole[who] * sent[:, who].sum(axis=0)
    flows = shares_of(sent[:, who], got) * sent[:, who].sum(axis=0)[:, None]
    lost = (flows.sum(axis=1) <= 0)[:, None] | (flows.sum(axis=0) <= 0)[None, :]  # nothing fits: in proportion
    flows += np.where(lost, np.outer(amount, total) / max(float(total.sum()), 1e-12), 0.0)
    for _ in range(TURNS):
        flows *= (amount / np.maximum(flows.sum(axis=1), 1e-12))[:, None]
        flows *= total / np.maximum(flows.sum(axis=0), 1e-12)
    found[who] = flows / np.maximum(sent[:, who].sum(axis=0), 1e-12)[:, None]
    return found


def _fit(sent: Floats, got: Floats) -> Floats:
    try:
        return np.asarray(nnls(sent, got, maxiter=30 * sent.shape[1] + 100)[0], dtype=np.float64)
    except RuntimeError:  # too many turns
        return np.asarray(lsq_linear(sent, got, bounds=(0.0, np.inf)).x, dtype=np.float64)


def explained(sent: Floats, got: Floats, shares: Floats) -> float:
    """The share of what topics' amounts vary by that the fit explains (R squared); 1 where nothing varies."""
    left = ((got - sent @ shares) ** 2).sum()
    varies = ((got - got.mean(axis=0, keepdims=True)) ** 2).sum() if len(got) else 0.0
    return float(1 - left / varies) if varies > 0 else 1.0


def differ(one: Floats, other: Floats) -> float:
    """The share of messages that two tables (publisher, topic) have at different publishers."""
    most = max(float(one.sum()), float(other.sum()))
    return float(np.abs(one - other).sum() / (2 * most)) if most > 0 else 0.0


def deal(weights: Floats, amounts: Ints) -> Ints:
    """Whole numbers as near to the weights as can be, row by row: each row adds up to its amount.

    By largest remainder; what is left over or missing is made good in the rows that follow, so that small shares get
    theirs as well. A row without any weight goes by the sum of all rows; without that, nobody gets anything.
    """
    usual = weights.sum(axis=0)
    dealt = np.zeros(weights.shape, dtype=np.int64)
    owed = np.zeros(weights.shape[1])
    for row, amount in enumerate(amounts.tolist()):
        by = weights[row] if weights[row].sum() > 0 else usual
        if amount <= 0 or not by.sum() > 0:
            continue
        wanted = owed + amount * by / by.sum()
        whole = np.floor(np.maximum(wanted, 0.0)).astype(np.int64)
        more = amount - int(whole.sum())
        if more > 0:
            order = np.lexsort((np.arange(len(by)), -(wanted - whole)))
            whole[order[:more]] += 1
        while more < 0:  # somebody has had too much, and others are owed it
            held = np.flatnonzero(whole > 0)
            order = held[np.lexsort((held, (wanted - whole)[held]))][:-more]
            whole[order] -= 1
            more += len(order)
        dealt[row], owed = whole, wanted - whole
    return dealt
