"""Pictures of a peer network."""

from peerattn.network.figures.heat_map import heat_map

__all__ = ["heat_map"]
