"""Frames in, checked cross-sections out."""

from peerattn.panel.codes import canonical_codes, code_scheme
from peerattn.panel.encoding import PanelEncoder
from peerattn.panel.gate import Panel, check_panel
from peerattn.panel.labels import PanelLabels, find_firm, find_period, panel_labels
from peerattn.panel.reading import PanelFrame, read_panel

__all__ = [
    "Panel",
    "PanelEncoder",
    "PanelFrame",
    "PanelLabels",
    "canonical_codes",
    "check_panel",
    "code_scheme",
    "find_firm",
    "find_period",
    "panel_labels",
    "read_panel",
]
