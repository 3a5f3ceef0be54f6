"""Measures of a peer network, per period."""
