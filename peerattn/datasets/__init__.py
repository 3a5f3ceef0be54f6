"""Panels to start with: real ones that are embedded, simulated ones whose network is known; presets for others' files."""

from peerattn.datasets.embedded import load_grunfeld, load_market_values, load_multiples, load_russell
from peerattn.datasets.presets import PRESETS, Preset, read_preset
from peerattn.datasets.simulate import SimulatedPanel, TrueParameters, simulate_panel

__all__ = [
    "PRESETS", "Preset", "SimulatedPanel", "TrueParameters", "load_grunfeld", "load_market_values", "load_multiples",
    "load_russell", "read_preset", "simulate_panel",
]  # fmt: skip
