"""The explorer: a network as one HTML file that opens offline."""

from peerattn.network.explorer.document import explorer_page, write_explorer

__all__ = ["explorer_page", "write_explorer"]
