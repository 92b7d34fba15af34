"""A system to plan for, in hand: its trace, what the training window says, and what the user asks for."""

from __future__ import annotations

from dataclasses import replace
from typing import NamedTuple

from overlace.limits import Goal, Limits
from overlace.model import Names, Network, Observation
from overlace.observe.cut import Cut
from overlace.observe.known import Known
from overlace.optimize.groups import Grouped
from overlace.optimize.observe import link_costs_known
from overlace.trace.store import Trace


class Training(NamedTuple):
    """The training window of a trace: what was observed in it, and who is who."""

    trace: Trace
    window: tuple[int, int]
    known: Known
    observation: Observation


class Case(NamedTuple):
    """What is planned from and judged by, and what the user asks for."""

    trace: Trace
    cut: Cut
    observation: Observation
    names: Names
    known: Known
    limits: Limits
    goal: Goal
    grouped: Grouped = Grouped()  # whom shared subscriptions hold in place

    @property
    def scoped(self) -> Limits:
        """The limits, with all that stays in their `keep`."""
        return replace(self.limits, keep=(*self.limits.keep, *self.grouped.keep))

    @property
    def training(self) -> Training:
        """The training window."""
        return Training(self.trace, self.cut.train, self.known, self.observation)

    @property
    def held_out(self) -> bool:
        """Whether some traffic is held out."""
        return self.cut.held_out[1] > self.cut.held_out[0]

    @property
    def links_priced(self) -> bool:
        """Whether some link has a cost."""
        return link_costs_known(self.trace)

    @property
    def given(self) -> frozenset[str]:
        """The options that the user gave, rather than their defaults."""
        return self.limits.given | self.goal.given


METRIC = {
    "cost": "cost",
    "messages": "link_messages",
    "bytes": "link_bytes",
    "hops": "mean_hops",
    "latency": "mean_latency_us",
}
"""What judges each objective; where access has a cost, `total_cost` takes the place of `cost`."""


def metric_of(objective: str, network: Network, judged: bool = True) -> str:
    """The metric that judges an objective; of a plan that was not judged, what its planner counts.

    Planners count hops between brokers, replay also the two links of the clients, which no plan changes.
    """
    if objective == "cost" and network.access_cost.size:
        return "total_cost"
    return "mean_broker_hops" if objective == "hops" and not judged else METRIC[objective]
