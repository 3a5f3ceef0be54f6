"""The explorer: a network as one HTML file that opens offline."""

from peerattn.network.explorer.document import write_explorer

__all__ = ["write_explorer"]
