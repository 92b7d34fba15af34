"""Topology files as brokers and links: one reader a file, `read_topology` chooses among them."""

from overlace.ingest.topologies.read import read_topology
from overlace.ingest.topologies.topology import Bridge, Pattern, Topology

__all__ = ["Bridge", "Pattern", "Topology", "read_topology"]
