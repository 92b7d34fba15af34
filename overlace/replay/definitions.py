"""Every metric that a replay can measure: its unit, which way is better, what it is, where it is from.

`overlace metrics` prints this list; a test holds it equal to what the replays produce, scope by scope.
Where there is nothing to divide by, a share or a mean is 0.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

Direction = Literal["lower", "higher", "neither"]


@dataclass(frozen=True)
class Metric:
    """One metric, in all scopes in which it is measured."""

    unit: str
    direction: Direction
    scopes: tuple[str, ...]
    definition: str
    citation: str = ""  # paper key and place, or empty


def _of(unit: str, direction: Direction, scopes: str, definition: str, citation: str = "") -> Metric:
    return Metric(unit, direction, tuple(scopes.split(", ")), definition, citation)


ROUTING: dict[str, Metric] = {
    "messages": _of(
        "messages", "neither", "overall, link, channel",
        "Messages published; over a link, those that cross it; in a channel, those published there.",
        "OCBR07 (1), PART10 §5.1",
    ),
    "bytes": _of("bytes", "neither", "overall, link", "Bytes published; over a link, those that cross it."),
    "deliveries": _of(
        "deliveries", "neither", "overall, region pair",
        "Messages x receivers at known brokers that are not the sender; by the regions of the two brokers.",
    ),
    "delivered_bytes": _of(
        "bytes", "neither", "overall, region pair", "Bytes x receivers, of deliveries."
    ),
    "to_self": _of(
        "messages", "neither", "overall", "Messages whose sender is among their receivers; that makes no delivery."
    ),
    "homeless": _of(
        "deliveries", "lower", "overall", "Deliveries dropped: the broker of the sender or the receiver is not known."
    ),
    "homeless_messages": _of("messages", "lower", "overall", "Messages of senders without a broker; they go nowhere."),
    "mean_hops": _of(
        "links", "lower", "overall", "Links per delivery, the two client links counted: broker hops + 2.",
        "CC12 (1), R8",
    ),
    "mean_broker_hops": _of("links", "lower", "overall", "Links between the two brokers, per delivery.", "CC12 (1)"),
    "hops": _of(
        "deliveries", "neither", "bin", "Deliveries with as many links as the key, both client links counted.",
        "CC12 Figures 5, 6, 7, 9",
    ),
    "broker_hops": _of("deliveries", "neither", "bin", "Deliveries with as many links between the brokers as the key."),
    "crossings": _of(
        "links", "lower", "overall",
        "Links of the minimal subtree that joins the brokers of sender and receivers, per message that is routed.",
        "OCBR07 (1)",
    ),
    "link_messages": _of(
        "messages", "lower", "overall, client, topic",
        "Messages x links they cross; by the client that sent them or by their topic, the largest only.",
        "OCBR07 (1)",
    ),
    "link_bytes": _of("bytes", "lower", "overall, client, topic", "Bytes x links they cross, as link_messages."),
    "crossing_messages": _of(
        "messages", "lower", "overall, region pair, client, topic",
        "Messages x links they cross between two regions; by pair of regions, over the links that join the two "
        "(or lie in the one).",
    ),
    "crossing_bytes": _of(
        "bytes", "lower", "overall, region pair, client, topic", "Bytes instead of messages, as crossing_messages."
    ),
    "cost": _of(
        "the links' unit", "lower", "overall, link, region pair",
        "Messages over a link x its cost (per GB: bytes / 10^9 x cost); over all links, or those between two regions.",
        "OCBR07 (1), alpha = 1, beta = 0",
    ),
    "access_cost": _of(
        "the links' unit", "lower", "overall",
        "What clients send and receive x the cost of access from where they are to their broker, where it is known.",
    ),
    "total_cost": _of("the links' unit", "lower", "overall", "cost + access_cost, where costs of access are known."),
    "sent": _of(
        "messages", "neither", "broker, region", "Messages sent by clients of the broker.", "CC12 (5), R2"
    ),
    "handled": _of(
        "messages", "lower", "broker, region", "Messages whose minimal subtree touches the broker, or the region.",
        "CC12 §IV",
    ),
    "double_sends": _of(
        "messages", "lower", "overall, broker",
        "Sends of a message to a client that was sent it already (its subscriptions overlap), by the client's broker: "
        "load that is no flow.",
    ),
    "handled_bytes": _of("bytes", "lower", "broker", "Bytes of the messages that the broker handles."),
    "clients": _of("clients", "neither", "broker, region", "Clients of the broker."),
    "backbone_load": _of(
        "messages", "lower", "overall", "Messages handled, added up over the brokers of the backbone (region -1).",
        "CC12 Tables II, IV",
    ),
    "backbone_share": _of(
        "share", "lower", "overall", "Share of messages (of senders at a known broker) that touch the backbone."
    ),
    "local_share": _of("share", "higher", "overall", "Share of deliveries between two clients of one broker."),
    "region_local_share": _of("share", "higher", "overall", "Share of deliveries between two clients of one region."),
    "mean_latency_us": _of(
        "microseconds", "lower", "overall",
        "Latency per delivery: links of the path and both ways between client and broker (0 where not known); without "
        "service times. Left out where a wired link was not measured.",
        "CC12 Tables I, III",
    ),
    "p50_latency_us": _of("microseconds", "lower", "overall", "The least latency that half of the deliveries keep."),
    "p95_latency_us": _of("microseconds", "lower", "overall", "The least latency that 95 % of the deliveries keep."),
    "p99_latency_us": _of("microseconds", "lower", "overall", "The least latency that 99 % of the deliveries keep."),
    "latency_us": _of("deliveries", "neither", "bin", "Deliveries whose latency is the key."),
    "cut_share": _of(
        "share", "lower", "broker, link",
        "Share of deliveries lost if it fails: those whose path touches or crosses it.",
    ),
    "cut_share_max": _of("share", "lower", "overall", "The largest cut_share of a broker."),
    "max_broker_load": _of("messages", "lower", "overall", "The most messages that one broker handles."),
    "max_link_load": _of("messages", "lower", "overall", "The most messages that cross one link."),
}  # fmt: skip
"""What `routing` measures; `messages` stands in a channel too."""

DELIVERY: dict[str, Metric] = {
    "channels": _of("channels", "neither", "overall", "Channels, one for what is in none included.", "PART10 §5"),
    "publishers": _of("clients", "neither", "overall", "Clients that advertise something."),
    "subscribers": _of(
        "subscribers", "neither", "overall, channel",
        "Subscribers; of a channel, those whose combination it holds (channel -1 holds what no other does).",
        "PART10 §3.1",
    ),
    "combinations": _of(
        "combinations", "neither", "channel", "Combinations that the channel holds.", "PART10 Figures 5.9, 5.10"
    ),
    "connections": _of(
        "channels", "lower", "client", "Channels that hold a combination the publisher offers.", "PART10 §3.2.1, R3"
    ),
    "mean_connections": _of("channels", "lower", "overall", "Connections per publisher.", "PART10 Figure 5.4"),
    "max_connections": _of("channels", "lower", "overall", "The most connections of one publisher."),
    "over_limit": _of(
        "advertisements", "lower", "overall", "Advertisements that meet more channels than they may.", "PART10 §4.3"
    ),
    "received": _of(
        "messages", "lower", "overall, channel", "D: messages received, subscribers x messages over the channels.",
        "PART10 §5.1, R6",
    ),
    "true_positives": _of(
        "messages", "neither", "overall", "Messages received that have all attributes asked for; alike for every cut.",
        "PART10 §3.1",
    ),
    "false_positives": _of(
        "messages", "lower", "overall", "Messages received that lack an attribute asked for.", "PART10 §3.1"
    ),
    "false_positive_rate": _of(
        "share", "lower", "overall, channel", "False positives / messages received.", "PART10 §5.1, R6"
    ),
}  # fmt: skip
"""What `delivery` measures, beside `messages`."""

SHAPE: dict[str, Metric] = {
    "links": _of("links", "lower", "overall", "Links of the mesh.", "TDCD17 §II"),
    "average_degree": _of(
        "links", "lower", "overall", "Links per client, both ends counted.", "TDCD17 Tables I, III, V"
    ),
    "max_degree": _of("links", "lower", "overall", "The most links of one client.", "TDCD17 Tables II, IV, VI"),
    "degree": _of("clients", "neither", "bin", "Clients with as many links as the key."),
    "topic_connected": _of(
        "1 or 0", "higher", "overall", "1 if the subscribers of every topic are one component of their own links.",
        "TDCD17 §II",
    ),
    "components_too_many": _of(
        "components", "lower", "overall, topic", "Components of the topic's subgraph less one; added up over topics."
    ),
    "diameter": _of(
        "links", "lower", "topic",
        "The longest of the shortest ways between two subscribers inside the topic's subgraph, where it is connected.",
        "TDCD17 §II, R5",
    ),
    "max_diameter": _of("links", "lower", "overall", "The largest diameter of a connected topic.", "TDCD17 §II, R5"),
    "mean_diameter": _of(
        "links", "lower", "overall", "The mean diameter of connected topics with two or more subscribers."
    ),
    "diameter_sampled": _of(
        "searches, topics", "neither", "overall, topic",
        "For a topic whose diameter is only known to be at least so much, the searches made; overall, such topics.",
    ),
    "shared_topics": _of("topics", "higher", "overall", "Topics that both ends of a link subscribe to, per link."),
    "flood_messages": _of(
        "messages", "lower", "overall, topic",
        "Messages to flood a topic's subgraph with one publication, 2 x links - (subscribers - 1) if it is connected; "
        "overall the mean over topics with two or more subscribers.",
    ),
}  # fmt: skip
"""What `shape` measures."""


def _scheme(name: str, what: str) -> dict[str, Metric]:
    """The metrics of forwarding under a scheme."""
    return {
        f"{name}table_rows": _of(
            "rows", "lower", "overall, broker",
            f"Rows of routing tables with {what}: a broker's own subscribers, and filters sent by neighbours.",
            "PART10 §2.1",
        ),
        f"{name}subscription_messages": _of(
            "messages", "lower", "overall",
            f"Subscriptions x links that they cross with {what}, one after the other.",
            "PART10 §2.1",
        ),
        f"{name}unsubscription_messages": _of(
            "messages", "lower", "overall",
            f"Messages over links with {what} when one subscription leaves, what it covered brought back; the mean.",
        ),
    }  # fmt: skip


FORWARDING: dict[str, Metric] = {
    "content_subscriptions": _of(
        "subscriptions", "neither", "overall", "Subscriptions by content of clients at a known broker.", "PART10 §2.1"
    ),
    **_scheme("", "every subscription sent everywhere"),
    **_scheme("covering_", "covered subscriptions not sent"),
    **_scheme("advertised_", "subscriptions sent towards advertisements only"),
    **_scheme("advertised_covering_", "uncovered subscriptions sent towards advertisements only"),
    "advertisement_messages": _of(
        "messages", "lower", "overall", "Advertisements x links: they go everywhere.", "PART10 §2.1"
    ),
    "advertisement_rows": _of("rows", "lower", "overall", "Advertisements x brokers: each keeps all.", "PART10 §2.1"),
    "flooded_messages": _of(
        "messages", "lower", "overall",
        "Messages x links if each crossed them all, without tables; link_messages is with any of them.",
    ),
}  # fmt: skip
"""What `forwarding` measures, where there are content subscriptions."""

METRICS: dict[str, Metric] = {**ROUTING, **DELIVERY, **SHAPE, **FORWARDING}
"""All of them, by name."""
