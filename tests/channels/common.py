"""Strategies, publishers and partitions that all tests of channels use."""

from hypothesis import strategies as st

from overlace.model import Observation, Offers
from overlace.planners.channels.strategies import Strategy1, Strategy2, Strategy3, Strategy31
from overlace.planners.channels.strategy4 import Strategy4
from tests.oracles.channels import offer

LIMITED = (Strategy3(), Strategy3("random"), Strategy31(), Strategy31("random"), Strategy4(effort=12, drafted=50))
ONLINE = (Strategy1(), Strategy2(), *LIMITED)

publishers = st.lists(st.tuples(st.integers(1, 31), st.integers(1, 9)), min_size=1, max_size=14)


def observed(joins, messages=(), **others):
    masks, limits = zip(*joins, strict=True)
    return Observation(offers=Offers(range(len(masks)), masks, limits, messages), **others)


def partition(pairs):
    found = {}
    for combination, channel in pairs.tolist():
        found.setdefault(channel, set()).add(combination)
    return {frozenset(held) for held in found.values()}


def connections(joins, channels):
    """How many channels each publisher meets; what no channel holds is none (R3)."""
    return [len({channels[a] for a in offer(mask) if a in channels}) for mask, _ in joins]
