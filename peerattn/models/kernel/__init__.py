"""Peers by a fixed kernel on characteristics: Nadaraya–Watson and local lines."""
