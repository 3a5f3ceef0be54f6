"""Measures of a peer network, per period."""

from peerattn.network.measures.asymmetry import Asymmetry, asymmetry

__all__ = ["Asymmetry", "asymmetry"]
