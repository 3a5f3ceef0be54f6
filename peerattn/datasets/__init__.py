"""Panels to start with: a real one that is embedded, and simulated ones whose network is known."""

from peerattn.datasets.grunfeld import load_grunfeld
from peerattn.datasets.simulate import SimulatedPanel, TrueParameters, simulate_panel

__all__ = ["SimulatedPanel", "TrueParameters", "load_grunfeld", "simulate_panel"]
