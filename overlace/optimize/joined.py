"""Two observations of one system, joined by name: what a run planned, by the ids of a newer trace.

Brokers must be the same; clients may come and go. Costs of links are the run's; a link that only the newer trace has
wired costs what that says.
"""

from __future__ import annotations

from dataclasses import fields, replace
from typing import Any, NamedTuple

import numpy as np

from overlace.arrays.jit import Ints, Pairs
from overlace.arrays.pairs import difference, positions
from overlace.errors import Absent, BadTrace
from overlace.model import Names, Network, Observation, Overlay, Plan, Planner
from overlace.observe.later import had_traffic


class InPlace(NamedTuple):
    """How much of a plan the newer trace shows to be carried out."""

    moves: int  # clients that the plan moves
    at_planned: int  # of them at the planned home,
    at_old: int  # still at the old one,
    elsewhere: int  # or at another; the rest has no session in the newer trace
    links: int  # links that the plan changes, as plans count them
    links_as_planned: int  # of them in place: the new one wired, and the old one not
    links_known: bool  # whether the newer trace shows wired links at all

    @property
    def seen_again(self) -> int:
        """Clients that the plan moves and whose home the newer trace shows."""
        return self.at_planned + self.at_old + self.elsewhere


class Joined:
    """Two observations of one system, brokers and clients joined by name."""

    def __init__(self, network: Network, names: Names, newer: Observation, newer_names: Names) -> None:
        old, new = list(names.get("broker", ()))[: network.brokers], list(newer_names.get("broker", ()))
        if not new:
            raise Absent("the newer trace names no brokers yet")
        if set(old) != set(new):
            only = sorted(set(old) ^ set(new))
            raise BadTrace(
                f"the newer trace has other brokers than the run ({', '.join(only[:5])}): plan again from it"
            )
        place = {name: i for i, name in enumerate(new)}
        self.broker = np.array([place[name] for name in old], dtype=np.int64)
        self.network = _renumbered(network, self.broker, newer)
        clients = {name: i for i, name in enumerate(names.get("client", ()))}
        called = list(newer_names.get("client", ()))[: newer.clients]
        self.client: Ints = np.full(newer.clients, -1)  # who has no name there was never seen here
        self.client[: len(called)] = [clients.get(name, -1) for name in called]
        self.newer = newer

    def unseen(self, observation: Observation) -> float:
        """The share of the newer messages whose senders had no traffic in an observation of the run."""
        known = np.append(had_traffic(observation), False)  # the last stands for those that have no id there
        there = np.where((self.client >= 0) & (self.client < observation.clients), self.client, -1)
        sent = self.newer.sent
        return float(sent[~known[there]].sum() / sent.sum()) if sent.sum() else 0.0

    def planner(self, planner: Planner, old: Network) -> Planner:
        """The planner with clients, brokers and links by the ids of the newer trace; clients that are gone drop out."""
        now = {int(then): i for i, then in enumerate(self.client) if then >= 0}
        row = {tuple(link): i for i, link in enumerate(self.network.links.tolist())}
        changed: dict[str, Any] = {}
        for each in fields(planner):  # type: ignore[arg-type]
            given = getattr(planner, each.name)
            if each.metadata.get("ids") == "client":
                changed[each.name] = tuple(sorted(now[c] for c in given if c in now))
            elif each.metadata.get("ids") == "broker":
                changed[each.name] = tuple(sorted(int(self.broker[b]) for b in given))
            elif each.name in ("may_wire", "keep_links"):
                ends = np.sort(self.broker[old.links[list(given)]], axis=1).tolist() if given else []
                changed[each.name] = tuple(sorted(row[tuple(link)] for link in ends))
        if getattr(planner, "only", ()) and not changed.get("only"):
            changed["keep"] = tuple(range(self.newer.clients))  # those who may move are gone: nobody moves
        return replace(planner, **changed)  # type: ignore[type-var]

    def overlay(self, overlay: Overlay) -> Overlay:
        """An overlay of the run by the ids of the newer trace, which also says where all other clients are."""
        known = overlay.homes(int(self.client.max(initial=-1)) + 1)
        homes = self.newer.overlay.homes(self.newer.clients)
        seen = np.flatnonzero(self.client >= 0)
        there = known[self.client[seen]]
        homes[seen[there >= 0]] = self.broker[there[there >= 0]]
        return _placed(homes, self.broker[overlay.tree])

    def applied(self, before: Overlay) -> Overlay:
        """The overlay that the newer trace shows; clients without a session there are where the run had them."""
        shown = self.newer.overlay
        lacking = [what for what, rows in (("sessions", shown.placement), ("wired links", shown.tree)) if not len(rows)]
        if lacking:
            raise BadTrace(
                f"the newer trace shows no {' and no '.join(lacking)}, so the overlay as applied is not known. Ingest "
                "sessions and links with it, or ask about the overlay as planned."
            )
        homes, now = (each.homes(self.newer.clients) for each in (self.overlay(before), shown))
        return _placed(np.where(now >= 0, now, homes), shown.tree)

    def in_place(self, made: Plan) -> InPlace:
        """How much of a plan of the run the newer trace shows."""
        clients = 1 + max(int(each.placement[:, 0].max(initial=-1)) for each in (made.before, made.after))
        old, planned = (self._at(overlay.homes(clients)) for overlay in (made.before, made.after))
        seen = (self.client >= 0) & (self.client < clients)
        now = np.full(clients, -1)
        now[self.client[seen]] = self.newer.overlay.homes(self.newer.clients)[seen]
        moved = old != planned
        again = moved & (now >= 0)
        wired = self.newer.overlay.tree
        removed, added = (self._links(links) for links in difference(made.before.tree, made.after.tree))
        there, gone = int((positions(wired, added) >= 0).sum()), int((positions(wired, removed) < 0).sum())
        done = min(there, gone) if len(added) and len(removed) else there + gone
        return InPlace(
            moves=int(moved.sum()),
            at_planned=int((again & (now == planned)).sum()),
            at_old=int((again & (now == old)).sum()),
            elsewhere=int((again & (now != planned) & (now != old)).sum()),
            links=max(len(removed), len(added)),
            links_as_planned=int(done) if len(wired) else 0,
            links_known=len(wired) > 0,
        )

    def _at(self, homes: Ints) -> Ints:
        """Homes by the ids of the newer trace, -1 for none."""
        return np.append(self.broker, -1)[homes]

    def _links(self, links: Pairs) -> Pairs:
        """Links by the ids of the newer trace."""
        return np.ascontiguousarray(np.sort(self.broker[links], axis=1))


def _placed(homes: Ints, tree: Pairs) -> Overlay:
    """The overlay of homes (-1: none) and links."""
    placed = np.flatnonzero(homes >= 0)
    return Overlay(placement=np.column_stack([placed, homes[placed]]), tree=tree)


def _renumbered(network: Network, broker: Ints, newer: Observation) -> Network:
    """The run's network by the ids of the newer trace, with the newer trace's clients and what is newly wired there."""
    order = np.argsort(broker)
    per: dict[str, Any] = {
        name: getattr(network, name)[order] for name in ("region", "broker_cost", "capacity", "max_degree")
    }
    links, wired = np.sort(broker[network.links], axis=1), newer.overlay.tree
    named = {tuple(link) for link in links.tolist()}
    fresh = np.array([len(named) > 0 and tuple(link) not in named for link in wired.tolist()], dtype=np.bool_)
    rows = newer.network.link_rows(wired[fresh])
    return Network(
        **per, links=np.concatenate([links, wired[fresh]]),
        link_cost=np.append(network.link_cost, newer.network.link_cost[rows]),
        latency_us=np.append(network.latency_us, newer.network.latency_us[rows]),
        client_region=newer.network.client_region, access_cost=newer.network.access_cost,
        access_latency_us=newer.network.access_latency_us,
    )  # fmt: skip
