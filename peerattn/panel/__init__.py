"""Frames in, checked cross-sections out.

What needs scikit-learn is loaded when first used: a part which needs labels alone (the network) does without.
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

from peerattn.panel.codes import canonical_codes, code_scheme, sic_to_fama_french
from peerattn.panel.design import Design
from peerattn.panel.formula import from_formula
from peerattn.panel.knowledge import Knowledge, sorted_periods
from peerattn.panel.labels import find_firm, find_period
from peerattn.panel.panel import Panel
from peerattn.panel.reading import as_panel, read_panel
from peerattn.panel.stored import StoredPanel, scan_panel

if TYPE_CHECKING:
    from peerattn.panel.encoding import PanelEncoder
    from peerattn.panel.gate import check_panel

__all__ = [
    "Design", "Panel", "PanelEncoder", "StoredPanel", "as_panel", "canonical_codes", "check_panel", "code_scheme", "find_firm",
    "find_period", "from_formula", "read_panel", "scan_panel", "sic_to_fama_french",
]  # fmt: skip


_LATER = {"PanelEncoder": "encoding", "check_panel": "gate"}


def __getattr__(name: str) -> Any:
    """Load a name on first use (PEP 562)."""
    if name not in _LATER:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(import_module(f"{__name__}.{_LATER[name]}"), name)
